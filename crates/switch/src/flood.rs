//! Frames for more than one port: who they go to is found once per batch, not once per frame.

use alloc::vec::Vec;

/// Why a frame is flooded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FloodClass {
    Broadcast,
    Multicast,
    /// To an address that nobody is known to have, or because a lookup said so.
    Unknown,
}

/// Most kinds of flooding in one batch that share lists: as many as a mask has bits.
pub(crate) const MAX_SETS: usize = 64;

/// The ports that frames of one class and VLAN go to.
#[derive(Debug)]
pub(crate) struct FloodSet {
    pub(crate) vlan: u16,
    pub(crate) class: FloodClass,
    /// How many ports.
    pub(crate) ports: u32,
    /// How many frames of the batch.
    pub(crate) packets: u32,
}

/// The sets of one batch.
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

    /// Adds a set, unless there are as many as can be.
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

    /// Frames in all sets of a mask.
    pub(crate) fn packets(&self, mask: u64) -> u32 {
        let in_mask = |at: usize| mask >> at & 1 != 0;
        self.sets.iter().enumerate().filter(|(at, _)| in_mask(*at)).map(|(_, s)| s.packets).sum()
    }
}
