//! The numbers of rings and slots of a port, and which rings a bind selects.

use std::ops::Range;

use rustix::io::Errno;
use slipring_abi::{
    NR_REG_ALL_NIC, NR_REG_NIC_SW, NR_REG_NULL, NR_REG_ONE_NIC, NR_REG_ONE_SW, NR_REG_SW,
    NR_RX_RINGS_ONLY, NR_TX_RINGS_ONLY,
};

/// A direction, seen from the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxRx {
    /// Frames that the program sends.
    Tx = 0,
    /// Frames that the program receives.
    Rx = 1,
}

impl TxRx {
    /// Both directions: tx, then rx.
    pub const BOTH: [Self; 2] = [Self::Tx, Self::Rx];

    /// Returns the other direction.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Tx => Self::Rx,
            Self::Rx => Self::Tx,
        }
    }
}

/// Numbers of rings and slots of a port; the arrays are indexed by [`TxRx`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdapterShape {
    /// Number of NIC rings.
    pub rings: [u16; 2],
    /// Number of host rings; 0 if the port has none, although answers to requests then show 1.
    pub host_rings: [u16; 2],
    /// Number of slots of each ring.
    pub slots: [u32; 2],
}

impl AdapterShape {
    /// Returns the number of all rings of a direction, including host rings.
    #[must_use]
    pub fn all(&self, dir: TxRx) -> usize {
        usize::from(self.rings[dir as usize]) + usize::from(self.host_rings[dir as usize])
    }

    /// Returns the number of host rings that a program is shown: a port without any shows one,
    /// which cannot be bound.
    #[must_use]
    pub fn shown_host_rings(&self, dir: TxRx) -> u16 {
        self.host_rings[dir as usize].max(1)
    }

    /// Returns the rings that a bind of this mode selects, tx and rx.
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
        // If this direction has no ring with the number `ringid`, its first ring is bound instead.
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
