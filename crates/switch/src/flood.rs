//! Frames for more than one port. Their destinations are determined once for each pair of class and
//! VLAN in a batch, not once per frame. This is true of the first [`MAX_SETS`] pairs; for all other
//! pairs, they are determined for each frame.

use alloc::vec::Vec;

/// Why a frame is flooded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FloodClass {
    Broadcast,
    Multicast,
    /// The frame goes to an unknown address, or a lookup requested flooding.
    Unknown,
}

/// Maximum number of flood sets in one batch. It is the number of bits in a mask of sets.
pub(crate) const MAX_SETS: usize = 64;

/// The ports that receive the flooded frames of one class and VLAN.
#[derive(Debug)]
pub(crate) struct FloodSet {
    pub(crate) vlan: u16,
    pub(crate) class: FloodClass,
    /// The number of ports in the set.
    pub(crate) ports: u32,
    /// The number of frames in the batch that go to the set.
    pub(crate) packets: u32,
}

/// The flood sets of one batch.
#[derive(Debug, Default)]
pub(crate) struct FloodSets {
    sets: Vec<FloodSet>,
}

impl FloodSets {
    pub(crate) fn clear(&mut self) {
        self.sets.clear();
    }

    pub(crate) fn find(&self, vlan: u16, class: FloodClass) -> Option<usize> {
        self.sets.iter().position(|set| set.vlan == vlan && set.class == class)
    }

    /// Adds a set and returns its number; `None` if there are [`MAX_SETS`] sets already.
    pub(crate) fn add(&mut self, vlan: u16, class: FloodClass) -> Option<usize> {
        let at = self.sets.len();
        (at < MAX_SETS).then(|| {
            self.sets.push(FloodSet { vlan, class, ports: 0, packets: 0 });
            at
        })
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> &mut FloodSet {
        &mut self.sets[at]
    }

    /// The number of frames in all sets whose bits are set in `mask`.
    pub(crate) fn packets(&self, mask: u64) -> u32 {
        let in_mask = |at: usize| mask >> at & 1 != 0;
        self.sets.iter().enumerate().filter(|(at, _)| in_mask(*at)).map(|(_, s)| s.packets).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_one_vlan_and_class_share_a_set() {
        let mut sets = FloodSets::default();
        assert_eq!(sets.add(1, FloodClass::Broadcast), Some(0));
        assert_eq!(sets.add(1, FloodClass::Unknown), Some(1));
        assert_eq!(sets.add(2, FloodClass::Unknown), Some(2));
        let find = |vlan, class| sets.find(vlan, class);
        assert_eq!([1, 2, 3].map(|vlan| find(vlan, FloodClass::Unknown)), [Some(1), Some(2), None]);
        assert_eq!([1, 2].map(|vlan| find(vlan, FloodClass::Broadcast)), [Some(0), None]);
    }

    #[test]
    fn there_are_as_many_sets_as_bits_in_a_mask() {
        let mut sets = FloodSets::default();
        for vlan in 0..64 {
            assert_eq!(sets.add(vlan, FloodClass::Broadcast), Some(usize::from(vlan)));
            sets.get_mut(vlan.into()).packets = 1 << (vlan % 16);
        }
        assert_eq!(sets.add(64, FloodClass::Broadcast), None);
        let packets = [0, 1, 1 << 63, 0b1010].map(|mask| sets.packets(mask));
        assert_eq!(packets, [0, 1, 1 << 15, 0b1010]);
    }
}
