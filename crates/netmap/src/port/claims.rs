//! Records which rings of a port are bound: by any number of sharers, or by one exclusive owner.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use rustix::io::Errno;

use crate::port::monitor_taps::MonitorTaps;
use crate::types::lock::lock;
use crate::types::shape::{AdapterShape, TxRx};

/// The bound rings of one port. The last claim to be released ends the monitors of the port.
#[derive(Debug)]
pub struct Claims {
    /// The uses of all rings, by [`TxRx`] and ring number. A ring without users is free.
    uses: [Mutex<Vec<RingUse>>; 2],
    settling: Mutex<()>,
    monitor_taps: OnceLock<Arc<MonitorTaps>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct RingUse {
    users: u32,
    exclusive: bool,
}

impl Claims {
    /// Creates a record without bound rings.
    #[must_use]
    pub fn new(shape: &AdapterShape) -> Arc<Self> {
        let uses = TxRx::BOTH.map(|dir| Mutex::new(vec![RingUse::default(); shape.all(dir)]));
        Arc::new(Self { uses, settling: Mutex::default(), monitor_taps: OnceLock::new() })
    }

    /// Sets the monitors of the port; only the first call has an effect.
    pub(crate) fn set_monitor_taps(&self, monitor_taps: &Arc<MonitorTaps>) {
        let _ = self.monitor_taps.set(monitor_taps.clone());
    }

    /// Returns whether no ring is bound.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.uses.iter().all(|uses| lock(uses).iter().all(|one| one.users == 0))
    }

    /// Takes the lock that serialises new binds of the port. A bind holds it from before its claim
    /// until the rings are set up for that claim.
    pub(crate) fn settling(&self) -> MutexGuard<'_, ()> {
        lock(&self.settling)
    }

    /// Claims rings, indexed by [`TxRx`]: all or none.
    ///
    /// # Errors
    /// [`Errno::BUSY`] if one of the rings is already bound exclusively, or if `exclusive` is set
    /// and one of the rings is already bound.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        rings: [Range<usize>; 2],
        exclusive: bool,
    ) -> Result<Claim, Errno> {
        let mut uses = self.uses.each_ref().map(|uses| lock(uses));
        for (uses, range) in uses.iter_mut().zip(&rings) {
            if uses.len() < range.end {
                uses.resize(range.end, RingUse::default());
            }
            let wanted = &uses[range.clone()];
            if wanted.iter().any(|one| one.exclusive || exclusive && one.users > 0) {
                return Err(Errno::BUSY);
            }
        }
        for (uses, range) in uses.iter_mut().zip(&rings) {
            for one in &mut uses[range.clone()] {
                *one = RingUse { users: one.users + 1, exclusive };
            }
        }
        Ok(Claim { table: self.clone(), rings })
    }
}

/// Claimed rings, released on drop.
#[derive(Debug)]
pub(crate) struct Claim {
    table: Arc<Claims>,
    rings: [Range<usize>; 2],
}

impl Claim {
    /// Calls `visit` for each claimed ring, with `true` if no other file has the ring bound.
    /// Returns the results that are not `None`.
    pub(crate) fn each<T>(&self, mut visit: impl FnMut(TxRx, usize, bool) -> Option<T>) -> Vec<T> {
        let mut visited = Vec::new();
        for dir in TxRx::BOTH {
            let (uses, range) = (lock(&self.table.uses[dir as usize]), &self.rings[dir as usize]);
            let rings = range.clone().filter_map(|i| visit(dir, i, uses[i].users == 1));
            visited.extend(rings);
        }
        visited
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        for (uses, range) in self.table.uses.iter().zip(&self.rings) {
            for one in &mut lock(uses)[range.clone()] {
                *one = RingUse { users: one.users - 1, exclusive: false };
            }
        }
        if let Some(taps) = self.table.monitor_taps.get().filter(|_| self.table.is_idle()) {
            taps.mark_ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Arc<Claims> {
        Claims::new(&AdapterShape { rings: [2, 2], host_rings: [0, 0], slots: [8, 8] })
    }

    #[test]
    fn sharers_come_and_go_and_keep_a_loner_out() {
        let claims = claims();
        let first = claims.acquire([0..2, 0..2], false).unwrap();
        let second = claims.acquire([0..1, 0..1], false).unwrap();
        assert_eq!(claims.acquire([0..1, 0..1], true).err(), Some(Errno::BUSY));
        drop((first, second));
        assert!(claims.is_idle() && claims.acquire([0..1, 0..1], true).is_ok());
    }

    #[test]
    fn a_loner_keeps_everybody_out_of_his_rings_only() {
        let claims = claims();
        let _loner = claims.acquire([0..1, 0..1], true).unwrap();
        assert_eq!(claims.acquire([0..2, 0..0], false).err(), Some(Errno::BUSY));
        assert!(claims.acquire([1..2, 1..2], true).is_ok());
    }

    #[test]
    fn a_refused_claim_takes_nothing() {
        let claims = claims();
        let loner = claims.acquire([1..2, 1..2], true).unwrap();
        assert!(claims.acquire([0..2, 0..2], false).is_err());
        drop(loner);
        assert!(claims.is_idle());
    }
}
