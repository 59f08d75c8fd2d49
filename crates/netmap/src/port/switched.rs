//! Abilities of switch ports.

use rustix::io::Errno;

use crate::memory::caller::CallerMemory;
use crate::types::outcome::SyncStatus;

/// A port of a switch: it handles virtio-net headers and frames that are queued by address only,
/// and serialises senders on one ring.
pub trait SwitchedPort {
    /// Sends the frames that a switch has put into tx ring `i`. Unlike
    /// [`Adapter::sync`](crate::Adapter::sync), it waits while another thread syncs the ring, so
    /// that no frame stays there.
    fn flush(&self, i: usize) -> SyncStatus;

    /// Returns the length of the virtio-net header before each frame, in bytes.
    fn vnet_header(&self) -> u32;

    /// Sets the length of the virtio-net header.
    ///
    /// # Errors
    /// [`Errno::INVAL`]: a virtio-net header cannot have this length.
    fn set_vnet_header(&self, bytes: u32) -> Result<(), Errno>;

    /// Returns whether tx ring `i` has queued frames whose bytes must be fetched from the program's
    /// memory (`NS_INDIRECT`). A sync stops before the first of them. Returns false while another
    /// thread syncs the ring.
    fn has_indirect(&self, i: usize) -> bool;

    /// Fetches the bytes of the frames for which [`Self::has_indirect`] returns `true`. A program
    /// can make this take as long as it likes.
    ///
    /// # Errors
    /// The reason, if no frame can be fetched. A slot whose bytes cannot be read gets length 0;
    /// this is not an error.
    fn fetch_indirect(&self, i: usize, caller: &mut dyn CallerMemory) -> Result<(), Errno>;

    /// Records that a sync of tx ring `i` is about to send the slots before `end`. A real sync
    /// records this too, so that a restart finds out which frames may have been sent.
    #[cfg(test)]
    fn begin(&self, i: usize, end: slipring_ring::SlotIdx);
}
