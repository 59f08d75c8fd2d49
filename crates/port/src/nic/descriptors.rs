//! What a NIC's driver says of its descriptors, and no more: which buffer, how many bytes.

use slipring_ring::{BufIdx, Region};

use super::ownership::CorruptWords;

/// A receive descriptor that the device has filled.
#[derive(Debug, Clone, Copy)]
pub struct RxDescriptor {
    /// The buffer.
    pub buf: BufIdx,
    /// Where the frame begins, in bytes from where the device may begin to write.
    pub offset: u32,
    /// Bytes in this buffer.
    pub len: u32,
    /// The packet goes on in the next descriptor.
    pub more: bool,
}

/// The descriptors of one receive queue: free buffers go to the device, filled ones come back in any
/// order. Whatever the device says is checked by who asks.
pub trait RxDescriptorRings {
    /// Most bytes of a packet in one buffer.
    fn max_part(&self) -> u32;

    /// Whether one more buffer can be posted.
    fn has_room(&mut self) -> bool;

    /// Gives a buffer to the device, for which there is room; it sees that after
    /// [`Self::publish`].
    fn post(&mut self, buf: BufIdx);

    /// Lets the device see what was posted.
    fn publish(&mut self);

    /// How many filled descriptors there are to read.
    fn refresh(&mut self) -> u32;

    /// The `i`-th of those that [`Self::refresh`] counted.
    fn peek(&self, i: u32) -> RxDescriptor;

    /// Moves a frame to where slots expect it, where the device put it elsewhere in its buffer.
    fn settle(&self, region: &Region, descriptor: RxDescriptor);

    /// Has done with the first `count` of them.
    fn release(&mut self, count: u32);
}

/// Receive descriptors that somebody else may have worked on: a program to which the queue was lent.
pub(crate) trait ResumableRxRings: RxDescriptorRings {
    /// Goes on after the buffers that somebody else has posted; how many.
    fn resume_posted(&mut self) -> Result<u32, CorruptWords>;

    /// Goes on after the filled descriptors that somebody else has read; how many.
    fn resume_read(&mut self) -> Result<u32, CorruptWords>;

    /// Free-running positions: of the next buffer to be posted, and of the next descriptor to be read.
    fn positions(&self) -> [u32; 2];
}

/// The descriptors of one transmit queue. Frames complete in any order.
pub trait TxDescriptorRings {
    /// Most bytes of a buffer that one descriptor names.
    fn max_part(&self) -> u32;

    /// Whether a second descriptor can name what lies beyond [`Self::max_part`] of this buffer.
    fn has_tail(&self, buf: BufIdx) -> bool;

    /// Whether `count` more descriptors fit.
    fn has_room(&mut self, count: u32) -> bool;

    /// Queues `len` bytes of a buffer from byte `at`; `more` of the packet follows. There is room,
    /// and the device sees it after [`Self::publish`].
    fn push(&mut self, buf: BufIdx, at: u32, len: u32, more: bool);

    /// Queues the `len` bytes that lie beyond [`Self::max_part`].
    fn push_tail(&mut self, buf: BufIdx, len: u32, more: bool);

    /// Lets the device see what was queued.
    fn publish(&mut self);

    /// How many completions there are to read. A buffer with a tail has two.
    fn refresh_completed(&mut self) -> u32;

    /// The buffer of the `i`-th of those.
    fn peek_completed(&self, i: u32) -> BufIdx;

    /// Has done with the first `count` of them.
    fn release_completed(&mut self, count: u32);
}

/// Transmit descriptors that somebody else may have worked on: a program to which the queue was lent.
pub(crate) trait ResumableTxRings: TxDescriptorRings {
    /// Goes on after the descriptors that somebody else has queued; how many.
    fn resume_queued(&mut self) -> Result<u32, CorruptWords>;

    /// Goes on after the completions that somebody else has read; how many.
    fn resume_completed(&mut self) -> Result<u32, CorruptWords>;

    /// Free-running positions: of the next descriptor to be queued, and of the next completion.
    fn positions(&self) -> [u32; 2];
}
