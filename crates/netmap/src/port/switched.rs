//! Abilities of switch ports.

use rustix::io::Errno;

use crate::memory::caller::CallerMemory;
use crate::types::outcome::SyncStatus;

/// A port of a switch: it handles virtio-net headers and frames that are queued by address only, and
/// serialises senders on one ring.
pub trait SwitchedPort {
    /// As [`Adapter::sync`](crate::Adapter::sync) for a switch that has put frames into a tx ring: who
    /// finds another one at it waits, so that none stays there.
    fn flush(&self, i: usize) -> SyncStatus;

    /// Bytes of the virtio-net header before each frame.
    fn vnet_header(&self) -> u32;

    /// Sets the length of that header.
    ///
    /// # Errors
    /// [`Errno::INVAL`]: no such header has this length.
    fn set_vnet_header(&self, bytes: u32) -> Result<(), Errno>;

    /// Whether frames are queued on tx ring `i` whose bytes are to be fetched from the program's
    /// memory (`NS_INDIRECT`). A sync leaves them, and those behind them, where they are.
    fn has_indirect(&self, i: usize) -> bool;

    /// Fetches them, which may take as long as the program likes.
    ///
    /// # Errors
    /// Why it cannot be done at all; a frame that cannot be read becomes one without bytes.
    fn fetch_indirect(&self, i: usize, caller: &mut dyn CallerMemory) -> Result<(), Errno>;

    /// Notes that a sync of tx ring `i` is about to send the slots before `end`.
    #[cfg(test)]
    fn begin(&self, i: usize, end: slipring_ring::SlotIdx);
}
