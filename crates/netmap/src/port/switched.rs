//! Abilities of switch ports.

use rustix::io::Errno;

use crate::memory::caller::CallerMemory;
use crate::types::outcome::SyncStatus;

/// A port of a switch: it handles virtio-net headers and frames that are queued by address only,
/// and serialises senders on one ring.
pub trait SwitchedPort {
    /// Like [`Adapter::sync`](crate::Adapter::sync), for a switch that has put frames into a tx
    /// ring: waits for a concurrent sync, so that no frame stays in the ring.
    fn flush(&self, i: usize) -> SyncStatus;

    /// Returns the length of the virtio-net header before each frame, in bytes.
    fn vnet_header(&self) -> u32;

    /// Sets the length of the virtio-net header.
    ///
    /// # Errors
    /// [`Errno::INVAL`]: a virtio-net header cannot have this length.
    fn set_vnet_header(&self, bytes: u32) -> Result<(), Errno>;

    /// Whether tx ring `i` has queued frames whose bytes must be fetched from the program's memory
    /// (`NS_INDIRECT`). A sync stops before the first of them.
    fn has_indirect(&self, i: usize) -> bool;

    /// Fetches these frames, which may take as long as the program likes.
    ///
    /// # Errors
    /// The reason for a complete failure. A frame that cannot be read becomes one without bytes.
    fn fetch_indirect(&self, i: usize, caller: &mut dyn CallerMemory) -> Result<(), Errno>;

    /// Notes that a sync of tx ring `i` is about to send the slots before `end`.
    #[cfg(test)]
    fn begin(&self, i: usize, end: slipring_ring::SlotIdx);
}
