//! The trait that every kind of port implements: its rings as several openers see them.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;
use slipring_abi::{
    NR_REG_ALL_NIC, NR_REG_NIC_SW, NR_REG_NULL, NR_REG_ONE_NIC, NR_REG_ONE_SW, NR_REG_SW,
    NR_RX_RINGS_ONLY, NR_TX_RINGS_ONLY,
};
use slipring_ring::RingView;

use crate::caller::CallerMemory;
use crate::claims::Claims;
use crate::delegation::{DelegationGuard, KickDispatcher, PipeDelegation};
use crate::domain::NetmapMemory;
use crate::monitor_taps::MonitorTaps;
use crate::queue_delegation::QueueDelegation;
use crate::waker::Listeners;

/// Which way, seen from the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxRx {
    /// Frames that the program sends.
    Tx = 0,
    /// Frames that it receives.
    Rx = 1,
}

impl TxRx {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Tx, Self::Rx];

    /// The other one.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Tx => Self::Rx,
            Self::Rx => Self::Tx,
        }
    }
}

/// How many rings of how many slots; the arrays are indexed by [`Dir`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdapterShape {
    /// Rings of the NIC side.
    pub rings: [u16; 2],
    /// Rings of the host side; 0 where there is none, which requests show as 1.
    pub host_rings: [u16; 2],
    /// Slots of each ring.
    pub slots: [u32; 2],
}

impl AdapterShape {
    /// Rings, those of the host included.
    #[must_use]
    pub fn all(&self, dir: TxRx) -> usize {
        usize::from(self.rings[dir as usize]) + usize::from(self.host_rings[dir as usize])
    }

    /// The host rings that a program is told of: a port without any pretends to have one, which
    /// nobody can bind.
    #[must_use]
    pub fn shown_host_rings(&self, dir: TxRx) -> u16 {
        self.host_rings[dir as usize].max(1)
    }

    /// The rings that a bind of this mode means, tx and rx.
    pub(crate) fn bound(
        &self,
        mode: u32,
        ringid: u16,
        flags: u64,
    ) -> Result<[Range<usize>; 2], Errno> {
        let has_host = self.host_rings.iter().any(|&rings| rings > 0);
        let host_mode = matches!(mode, NR_REG_SW | NR_REG_NIC_SW | NR_REG_ONE_SW);
        let counts = if mode == NR_REG_ONE_SW { self.host_rings } else { self.rings };
        let one = matches!(mode, NR_REG_ONE_NIC | NR_REG_ONE_SW);
        if host_mode && !has_host || one && counts.iter().all(|&count| ringid >= count) {
            return Err(Errno::INVAL);
        }
        let mut bound = [0..0, 0..0];
        for dir in TxRx::BOTH {
            let not_wanted = match dir {
                TxRx::Tx => flags & NR_RX_RINGS_ONLY != 0,
                TxRx::Rx => flags & NR_TX_RINGS_ONLY != 0,
            };
            let range = self.range(dir, mode, ringid)?;
            bound[dir as usize] = if not_wanted { 0..0 } else { range };
        }
        Ok(bound)
    }

    fn range(&self, dir: TxRx, mode: u32, ringid: u16) -> Result<Range<usize>, Errno> {
        let (nic, host) = (self.rings[dir as usize], self.host_rings[dir as usize]);
        let (nic, all) = (usize::from(nic), self.all(dir));
        // The shorter direction then uses its first ring.
        let pick = |count: u16| if ringid < count { usize::from(ringid) } else { 0 };
        Ok(match mode {
            NR_REG_ALL_NIC | NR_REG_NULL => 0..nic,
            NR_REG_SW => nic..all,
            NR_REG_NIC_SW => 0..all,
            NR_REG_ONE_NIC => pick(nic as u16)..(pick(nic as u16) + 1).min(nic),
            NR_REG_ONE_SW => nic + pick(host)..(nic + pick(host) + 1).min(all),
            _ => return Err(Errno::INVAL),
        })
    }
}

/// How a sync went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncStatus {
    /// As it should.
    Done,
    /// Another thread is syncing this ring.
    Busy,
    /// The program's indices were impossible; the ring was reinitialised.
    Reinit,
    /// The port is not there any more.
    Gone,
}

/// What has passed a port since it was bound, in packets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdapterCounters {
    /// Given to programs.
    pub received: u64,
    /// Sent by them.
    pub sent: u64,
    /// Lost, by cause.
    pub drops: Vec<(&'static str, u64)>,
}

/// A port as its openers see it: rings in a [`Memory`], and what syncs them.
///
/// Rings are counted per direction, those of the NIC first, then those of the host.
pub trait Adapter: Send + Sync + Debug {
    /// The name that requests have for it.
    fn name(&self) -> &str;

    /// Where its rings and buffers lie.
    fn memory(&self) -> &Arc<NetmapMemory>;

    /// Its rings; those to be expected, before [`Self::activate`].
    fn shape(&self) -> AdapterShape;

    /// Who has bound which ring.
    fn claims(&self) -> &Arc<Claims>;

    /// Makes the rings that a bind of `mode` (`NR_REG_*`) needs, if they are not there yet. Called
    /// before every bind; a port that is only asked for its figures need not take anything.
    ///
    /// # Errors
    /// Why they cannot be made.
    fn activate(&self, _mode: u32) -> Result<(), Errno> {
        Ok(())
    }

    /// Ring `i` of a direction; `None` beyond the last, or before [`Self::activate`].
    fn ring(&self, dir: TxRx, i: usize) -> Option<&RingView>;

    /// Sends from, or receives into, ring `i`. Never blocks; bounded by a ring's worth of work.
    fn sync(&self, dir: TxRx, i: usize) -> SyncStatus;

    /// As [`Self::sync`] for a switch that has put frames into a tx ring: who finds another one at it
    /// waits, so that none stays there.
    fn flush(&self, i: usize) -> SyncStatus {
        self.sync(TxRx::Tx, i)
    }

    /// Whom to wake when ring `i` becomes ready; `None` beyond the last.
    fn listeners(&self, dir: TxRx, i: usize) -> Option<&Listeners>;

    /// Lends rings to the program that has bound them, to be synced in its own process.
    ///
    /// # Errors
    /// [`Errno::OPNOTSUPP`] where that cannot be, [`Errno::BUSY`] where somebody else has one.
    fn lend(
        &self,
        _: &[Range<usize>; 2],
        _: &Arc<KickDispatcher>,
    ) -> Result<(PipeDelegation, DelegationGuard), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Lends queues to the program that has bound them, as [`Self::lend`] does; `who` is its number.
    ///
    /// # Errors
    /// As [`Self::lend`].
    fn lend_queues(
        &self,
        _rings: &[Range<usize>; 2],
        _who: u32,
    ) -> Result<(Vec<QueueDelegation>, DelegationGuard), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// The program has synced in its own process and says that somebody at the other end sleeps.
    fn kick(&self) {}

    /// Somebody waits for news of ring `i` by [`Self::listeners`], and looks once more after this.
    fn announce_sleep(&self, _dir: TxRx, _i: usize) {}

    /// Whether what it stands for is no more, for good.
    fn has_vanished(&self) -> bool {
        false
    }

    /// Whether whoever asks for its name now would mean something else: what it stands for is no
    /// more, or has another name. Asked once for each bind.
    fn is_stale(&self) -> bool {
        self.has_vanished()
    }

    /// What has passed, and what was lost beside its rings; `None` where nobody counts that.
    fn counters(&self) -> Option<AdapterCounters> {
        None
    }

    /// Its monitors; `None` where it cannot have any.
    fn monitor_taps(&self) -> Option<&Arc<MonitorTaps>> {
        None
    }

    /// Whether it is one, on which nothing can be sent.
    fn is_monitor(&self) -> bool {
        false
    }

    /// Whether payloads may begin elsewhere than their buffers do
    /// ([`slipring_ring::RingView::offsets`]).
    fn has_offsets(&self) -> bool {
        false
    }

    /// The largest offset that leaves room for all that it puts into a slot, in bytes.
    fn max_offset(&self) -> u32 {
        u32::MAX
    }

    /// Whether what is in its rings waits for the next who binds it.
    fn preserves_frames(&self) -> bool {
        false
    }

    /// Bytes of the virtio-net header before each frame.
    fn vnet_header(&self) -> u32 {
        0
    }

    /// Sets that.
    ///
    /// # Errors
    /// [`Errno::INVAL`] where it is not this port's to have, or not of this length.
    fn set_vnet_header(&self, _bytes: u32) -> Result<(), Errno> {
        Err(Errno::INVAL)
    }

    /// Itself, where this crate can write it down and make it again after a restart.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// Whether frames are queued on tx ring `i` whose bytes are to be fetched from the program's
    /// memory (`NS_INDIRECT`). A sync leaves them, and those behind them, where they are.
    fn has_indirect(&self, _i: usize) -> bool {
        false
    }

    /// Fetches them, which may take as long as the program likes.
    ///
    /// # Errors
    /// Why it cannot be done at all; a frame that cannot be read becomes one without bytes.
    fn fetch_indirect(&self, _i: usize, _caller: &mut dyn CallerMemory) -> Result<(), Errno> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIC: AdapterShape = AdapterShape { rings: [4, 2], host_rings: [1, 1], slots: [64, 64] };

    #[test]
    fn modes_bind_the_rings_they_name() {
        let bound = |mode, ring| NIC.bound(mode, ring, 0);
        assert_eq!(bound(NR_REG_ALL_NIC, 0), Ok([0..4, 0..2]));
        assert_eq!(bound(NR_REG_SW, 0), Ok([4..5, 2..3]));
        assert_eq!(bound(NR_REG_NIC_SW, 0), Ok([0..5, 0..3]));
        assert_eq!(bound(NR_REG_ONE_NIC, 1), Ok([1..2, 1..2]));
        assert_eq!(bound(NR_REG_ONE_SW, 0), Ok([4..5, 2..3]));
    }

    #[test]
    fn a_ring_that_only_one_direction_has_pairs_with_the_first_of_the_other() {
        assert_eq!(NIC.bound(NR_REG_ONE_NIC, 3, 0), Ok([3..4, 0..1]));
    }

    #[test]
    fn a_ring_that_neither_direction_has_is_refused() {
        assert_eq!(NIC.bound(NR_REG_ONE_NIC, 4, 0), Err(Errno::INVAL));
        assert_eq!(NIC.bound(NR_REG_ONE_SW, 1, 0), Err(Errno::INVAL));
    }

    #[test]
    fn a_mode_that_is_none_is_refused() {
        for mode in [0, 5, 6, 9, u32::MAX] {
            assert_eq!(NIC.bound(mode, 0, 0), Err(Errno::INVAL), "{mode}");
        }
    }

    #[test]
    fn host_modes_need_host_rings() {
        let pipe = AdapterShape { host_rings: [0, 0], ..NIC };
        for mode in [NR_REG_SW, NR_REG_NIC_SW, NR_REG_ONE_SW] {
            assert_eq!(pipe.bound(mode, 0, 0), Err(Errno::INVAL), "{mode}");
        }
    }

    #[test]
    fn one_direction_can_be_left_out() {
        assert_eq!(NIC.bound(NR_REG_ALL_NIC, 0, NR_TX_RINGS_ONLY), Ok([0..4, 0..0]));
        assert_eq!(NIC.bound(NR_REG_ALL_NIC, 0, NR_RX_RINGS_ONLY), Ok([0..0, 0..2]));
    }
}
