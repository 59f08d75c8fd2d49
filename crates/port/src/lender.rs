//! Queues that a program syncs in its own process, taking turns with this process.

use std::os::fd::OwnedFd;

/// The objects with which a program syncs a queue in its own process.
#[derive(Debug)]
pub struct DelegatedQueue {
    /// The AF_XDP socket: it has the kernel's rings, and a system call on it kicks the kernel.
    pub socket: OwnedFd,
    /// Offset of the ownership words, in bytes from the start of the region. Both processes access
    /// these words to take turns.
    pub words: u64,
    /// Number of entries of each of the kernel's rings.
    pub cells: u32,
    /// Length of the longest frame that can be sent, in bytes.
    pub max_slot_len: u32,
    /// Whether received frames may come from a kernel and not from hardware
    /// ([`crate::iface::Iface::is_software`]). Then checksums may be unfinished.
    pub software: bool,
    /// Whether the queue is in zero-copy mode.
    pub zero_copy: bool,
}

/// A queue that can be lent. The borrower and this process take turns sync by sync. While one of
/// them syncs a direction, the other skips its sync of that direction.
pub trait QueueLender {
    /// Lends both directions to the program with number `client_id`; `None` if this queue cannot be
    /// lent.
    fn lend(&mut self, client_id: u32) -> Option<DelegatedQueue>;

    /// Ends the loan, even if the borrower is in the middle of a sync. The borrower may keep
    /// the descriptor and the mappings, and so may still write to the ownership words.
    fn revoke(&mut self);

    /// If `keep` is true, only this process may sync from now on; otherwise the borrower may sync
    /// too. Returns false if a program is still in the middle of a sync.
    fn set_host_only(&mut self, keep: bool) -> bool;
}
