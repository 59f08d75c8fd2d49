//! Queues that a program syncs in its own process, in turns with this one.

use std::os::fd::OwnedFd;

/// What a program needs to sync a queue itself.
#[derive(Debug)]
pub struct DelegatedQueue {
    /// Has the kernel's rings, and makes the kernel look at them.
    pub socket: OwnedFd,
    /// Where the words lie by which the two take turns, in bytes from the start of the region.
    pub words: u64,
    /// Cells of each of the kernel's rings.
    pub cells: u32,
    /// Bytes of the longest frame that is sent.
    pub max_slot_len: u32,
    /// Frames come from the kernel itself: checksums may be unfinished.
    pub software: bool,
    /// The kernel copies nothing.
    pub zero_copy: bool,
}

/// A queue that can be lent. Whoever is lent it and this process take turns sync by sync: who finds
/// the other one at a direction leaves that to him.
pub trait QueueLender {
    /// Lends both directions to `who`; `None` where programs could not sync them.
    fn lend(&mut self, who: u32) -> Option<DelegatedQueue>;

    /// Ends that, wherever `who` was. He may keep descriptor and mappings, so nothing that lies there
    /// is believed from then on either.
    fn revoke(&mut self, who: u32);

    /// Lets programs sync nothing while `keep`; false while one is still at it.
    fn set_host_only(&mut self, keep: bool) -> bool;
}
