//! The kernel's four rings as the descriptors of a NIC: fill and RX, TX and completion.

use std::os::fd::BorrowedFd;

use slipring_ring::{BufIdx, Region};

use super::layout::{HEADROOM, UmemLayout};
use super::ring::{Consumer, Producer};
use super::socket::fault;
use super::sys;
use crate::error::RunCause;
use crate::nic::ownership::CorruptWords;
use crate::nic::{
    MAX_PACKET_DESCRIPTORS, ResumableRxRings, ResumableTxRings, RxDescriptor, RxDescriptorRings,
    TxDescriptorRings, TxSide,
};

/// Descriptor option: the packet continues in the next descriptor.
const CONTINUED: u64 = libc::XDP_PKT_CONTD as u64;

/// The receive rings. They are separate from the transmit rings, so that each direction can be lent
/// without the other.
#[derive(Debug)]
pub(super) struct RxEnds {
    pub(super) layout: UmemLayout,
    pub(super) fill: Producer<1>,
    pub(super) rx: Consumer<2>,
}

/// The transmit rings; see [`RxEnds`].
#[derive(Debug)]
pub(super) struct TxEnds {
    pub(super) layout: UmemLayout,
    pub(super) tx: Producer<2>,
    pub(super) completion: Consumer<1>,
}

impl RxDescriptorRings for RxEnds {
    fn max_part(&self) -> u32 {
        self.layout.part()
    }

    #[inline(always)]
    fn has_room(&mut self) -> bool {
        self.fill.has_room(1)
    }

    #[inline(always)]
    fn post(&mut self, buf: BufIdx) {
        self.fill.push([self.layout.chunk(buf)]);
    }

    #[inline(always)]
    fn publish(&mut self) {
        self.fill.publish();
    }

    #[inline(always)]
    fn refresh(&mut self) -> u32 {
        self.rx.refresh()
    }

    #[inline(always)]
    fn peek(&self, i: u32) -> RxDescriptor {
        let [address, word] = self.rx.peek(i);
        let (buf, offset) = self.layout.locate(address);
        RxDescriptor { buf, offset, len: word as u32, more: (word >> 32) & CONTINUED != 0 }
    }

    #[inline(always)]
    fn settle(&self, region: &Region, RxDescriptor { buf, offset, len, .. }: RxDescriptor) {
        if offset != HEADROOM {
            sys::move_to_start(region, buf, offset, len);
        }
    }

    #[inline(always)]
    fn release(&mut self, count: u32) {
        self.rx.release(count);
    }
}

impl ResumableRxRings for RxEnds {
    fn resume_posted(&mut self) -> Result<u32, CorruptWords> {
        self.fill.resync()
    }

    fn resume_read(&mut self) -> Result<u32, CorruptWords> {
        self.rx.resync()
    }

    fn positions(&self) -> [u32; 2] {
        [self.fill.position(), self.rx.position()]
    }
}

impl TxEnds {
    /// Returns the number of packets that the kernel has not taken. In copy mode, it has copied all
    /// others.
    pub(super) fn waiting_packets(&mut self) -> u64 {
        // The number is limited, because a program may have corrupted the kernel's index.
        let waiting = self.tx.unconsumed().min(self.tx.size());
        let is_last = |i: &u32| (self.tx.waiting_cell(*i)[1] >> 32) & CONTINUED == 0;
        (0..waiting).filter(is_last).count() as u64
    }
}

impl TxDescriptorRings for TxEnds {
    #[inline(always)]
    fn max_part(&self) -> u32 {
        self.layout.part()
    }

    fn has_tail(&self, buf: BufIdx) -> bool {
        self.layout.tail(buf).is_some()
    }

    #[inline(always)]
    fn has_room(&mut self, count: u32) -> bool {
        self.tx.has_room(count)
    }

    #[inline(always)]
    fn push(&mut self, buf: BufIdx, at: u32, len: u32, more: bool) {
        self.tx.push([self.layout.data(buf) + u64::from(at), descriptor(len, more)]);
    }

    fn push_tail(&mut self, buf: BufIdx, len: u32, more: bool) {
        if let Some(tail) = self.layout.tail(buf) {
            self.tx.push([tail, descriptor(len, more)]);
        }
    }

    #[inline(always)]
    fn publish(&mut self) {
        self.tx.publish();
    }

    #[inline(always)]
    fn refresh_completed(&mut self) -> u32 {
        self.completion.refresh()
    }

    #[inline(always)]
    fn peek_completed(&self, i: u32) -> BufIdx {
        let [address] = self.completion.peek(i);
        self.layout.owner(address)
    }

    #[inline(always)]
    fn release_completed(&mut self, count: u32) {
        self.completion.release(count);
    }
}

impl ResumableTxRings for TxEnds {
    fn resume_queued(&mut self) -> Result<u32, CorruptWords> {
        self.tx.resync()
    }

    fn resume_completed(&mut self) -> Result<u32, CorruptWords> {
        self.completion.resync()
    }

    fn positions(&self) -> [u32; 2] {
        [self.tx.position(), self.completion.position()]
    }
}

/// Makes the kernel send as many frames as it can now. It sends the remaining frames later: by
/// itself in zero-copy mode, otherwise at the next sync or poll.
#[inline(always)]
pub(super) fn kick(
    side: &mut TxSide,
    ends: &mut TxEnds,
    socket: BorrowedFd<'_>,
    zero_copy: bool,
) -> Result<(), RunCause> {
    let mut waiting = ends.tx.unconsumed();
    // The loop is limited, because a program may have corrupted the kernel's index. With a valid
    // index, each call takes at least one frame.
    for _ in 0..ends.tx.size() {
        if waiting == 0 {
            break;
        }
        if zero_copy && !ends.tx.needs_wakeup() {
            return Ok(());
        }
        let kicked = sys::kick_tx(socket);
        let left = ends.tx.unconsumed();
        if let Err(error) = kicked {
            if error.raw_os_error() == Some(libc::EBUSY) && left < waiting {
                refuse_last(side, ends);
            }
            fault("send", error)?;
        }
        side.complete(ends);
        if zero_copy || left == waiting {
            return Ok(());
        }
        waiting = left;
    }
    Ok(())
}

/// Marks the frame that the kernel took last as dropped by the kernel.
#[cold]
fn refuse_last(side: &mut TxSide, ends: &TxEnds) {
    for back in 1..=MAX_PACKET_DESCRIPTORS {
        let [address, word] = ends.tx.consumed_cell(back);
        if back > 1 && (word >> 32) & CONTINUED == 0 {
            return;
        }
        side.refuse(ends.layout.owner(address));
    }
}

/// Returns the second word of a descriptor, which has length and options.
#[inline(always)]
fn descriptor(len: u32, more: bool) -> u64 {
    u64::from(len) | if more { CONTINUED << 32 } else { 0 }
}
