//! Queues that a program syncs in its own process, taking turns with this process.

use std::os::fd::OwnedFd;

/// The objects with which a program syncs a queue in its own process.
#[derive(Debug)]
pub struct DelegatedQueue {
    /// The AF_XDP socket: it has the kernel's rings, and a system call on it kicks the kernel.
    pub socket: OwnedFd,
    /// Offset in the region, in bytes, of the words by which both processes take turns.
    pub words: u64,
    /// Entries of each of the kernel's rings.
    pub cells: u32,
    /// Bytes of the longest frame that is sent.
    pub max_slot_len: u32,
    /// Whether frames come from the kernel itself, so that checksums may be unfinished.
    pub software: bool,
    /// Whether the kernel copies no frames.
    pub zero_copy: bool,
}

/// A queue that can be lent. The borrower and this process take turns sync by sync: each skips its
/// own sync of a direction while its peer is syncing that direction.
pub trait QueueLender {
    /// Lends both directions to the program with number `client_id`; `None` if programs cannot sync
    /// them.
    fn lend(&mut self, client_id: u32) -> Option<DelegatedQueue>;

    /// Ends the loan to the program `client_id`, even in the middle of a sync. The program may keep
    /// the descriptor and the mappings, so the shared words are not trusted from then on.
    fn revoke(&mut self, client_id: u32);

    /// Sets whether only this process may sync; false while a program is still syncing.
    fn set_host_only(&mut self, keep: bool) -> bool;
}
