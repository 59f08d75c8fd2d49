//! The descriptors of a NIC, as its driver presents them: a buffer and a length.

use slipring_ring::{BufIdx, Region};

use super::ownership::CorruptWords;

/// A receive descriptor that the device has filled.
#[derive(Debug, Clone, Copy)]
pub struct RxDescriptor {
    /// The buffer that the device has filled.
    pub buf: BufIdx,
    /// Where the frame begins, in bytes from the first byte of the buffer that the device may
    /// write.
    pub offset: u32,
    /// Number of bytes of the packet in this buffer.
    pub len: u32,
    /// Whether the packet continues in the next descriptor.
    pub more: bool,
}

/// Maximum of [`TxDescriptorRings::inspects_below`].
pub const MAX_INSPECTED: u32 = 192;

/// The descriptors of one receive queue. Free buffers go to the device; filled ones return in any
/// order. The caller checks all values that come from the device.
pub trait RxDescriptorRings {
    /// Maximum number of bytes of a packet in one buffer.
    fn max_part(&self) -> u32;

    /// Returns whether one more buffer can be posted.
    fn has_room(&mut self) -> bool;

    /// Posts a buffer to the device. The caller has checked [`Self::has_room`]. The device sees the
    /// buffer after [`Self::publish`].
    fn post(&mut self, buf: BufIdx);

    /// Makes posted buffers visible to the device.
    fn publish(&mut self);

    /// Returns how many filled descriptors can be read.
    fn refresh(&mut self) -> u32;

    /// Returns the `i`-th of the descriptors that [`Self::refresh`] counted.
    fn peek(&self, i: u32) -> RxDescriptor;

    /// Moves a frame to byte 0 of its buffer, if the device put it elsewhere in the buffer.
    fn settle(&self, region: &Region, descriptor: RxDescriptor);

    /// Returns the first bytes of the descriptor's part of a packet, if the device has stored them
    /// outside the buffer; otherwise an empty slice. The other bytes of the part are then at the
    /// start of the buffer, and the caller moves them to make space for the first ones.
    #[inline(always)]
    fn head(&self, _descriptor: RxDescriptor) -> &[u8] {
        &[]
    }

    /// Releases the first `count` descriptors.
    fn release(&mut self, count: u32);
}

/// Receive descriptors of a queue that is lent to a program. Daemon and program both use them: the
/// other process may have used them between two uses by this one.
pub(crate) trait ResumableRxRings: RxDescriptorRings {
    /// Skips the buffers that the other process has posted; returns their number.
    fn resume_posted(&mut self) -> Result<u32, CorruptWords>;

    /// Skips the filled descriptors that the other process has read; returns their number.
    fn resume_read(&mut self) -> Result<u32, CorruptWords>;

    /// Returns two positions: of the next buffer to be posted, and of the next descriptor to be
    /// read. They do not wrap at the end of the ring, but only at 2^32.
    fn positions(&self) -> [u32; 2];
}

/// The descriptors of one transmit queue. Frames complete in any order.
pub trait TxDescriptorRings {
    /// Maximum number of bytes of a buffer per descriptor.
    fn max_part(&self) -> u32;

    /// Returns whether a second descriptor can cover the bytes of this buffer beyond
    /// [`Self::max_part`].
    fn has_tail(&self, buf: BufIdx) -> bool;

    /// Returns whether `count` more descriptors fit.
    fn has_room(&mut self, count: u32) -> bool;

    /// Frames shorter than this number of bytes are shown to [`Self::inspect`] before they are
    /// pushed. At most [`MAX_INSPECTED`]; 0 if no frames are shown.
    #[inline(always)]
    fn inspects_below(&self) -> u32 {
        0
    }

    /// Inspects a copy of the frame that the caller pushes next.
    fn inspect(&mut self, _frame: &[u8]) {}

    /// Queues `len` bytes of a buffer from byte `at`. `more` is true if the packet continues. The
    /// caller has checked [`Self::has_room`]. The device sees the descriptor after
    /// [`Self::publish`].
    fn push(&mut self, buf: BufIdx, at: u32, len: u32, more: bool);

    /// Queues the `len` bytes beyond [`Self::max_part`].
    fn push_tail(&mut self, buf: BufIdx, len: u32, more: bool);

    /// Makes queued descriptors visible to the device.
    fn publish(&mut self);

    /// Returns how many completions can be read. A buffer whose tail was also queued has two
    /// completions.
    fn refresh_completed(&mut self) -> u32;

    /// Returns the buffer of the `i`-th completion.
    fn peek_completed(&self, i: u32) -> BufIdx;

    /// Releases the first `count` completions.
    fn release_completed(&mut self, count: u32);
}

/// Transmit descriptors of a queue that is lent to a program. Daemon and program both use them: the
/// other process may have used them between two uses by this one.
pub(crate) trait ResumableTxRings: TxDescriptorRings {
    /// Skips the descriptors that the other process has queued; returns their number.
    fn resume_queued(&mut self) -> Result<u32, CorruptWords>;

    /// Skips the completions that the other process has read; returns their number.
    fn resume_completed(&mut self) -> Result<u32, CorruptWords>;

    /// Returns two positions: of the next descriptor to be queued, and of the next completion to be
    /// read. They do not wrap at the end of the ring, but only at 2^32.
    fn positions(&self) -> [u32; 2];
}
