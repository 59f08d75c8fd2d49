//! The driver of one ring pair of a `tap:` port.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use slipring_ring::{KernRing, Region, RingHalves, RxRing, SlotFlags, SlotIdx, SyncFault, TxRing};

use super::drops::HostDrops;
use super::sys;
use super::sys::uring::{MAX_BATCH, TapUring};
use crate::error::{OpenCause, RunCause, RunError};
use crate::gather::{GatherList, transmit};
use crate::link_watch::LinkWatch;
use crate::queue::{Queue, QueueRings, TxWait, WaitFds};
use crate::stats::{DropCause, QueueCounters, TrafficCounts};

/// Size of the buffer for the part of a frame that does not fit its first slot, in bytes.
const OVERFLOW: usize = 66 << 10;

pub(super) struct TapQueue {
    name: String,
    tx: TxRing,
    rx: RxRing,
    tx_kern: KernRing,
    rx_kern: KernRing,
    counters: Arc<QueueCounters>,
    writer: TapWriter,
    gather: GatherList,
    limits: TapLimits,
    /// The part of a frame that did not fit its first slot.
    overflow: Vec<u8>,
    /// Reads the device's own drop counter; only for the first queue of the device.
    host_drops: Option<HostDrops>,
    link: LinkWatch,
    tun: OwnedFd,
}

/// Maximum frame lengths in bytes, including virtio-net headers.
#[derive(Debug, Clone, Copy)]
pub(super) struct TapLimits {
    /// Maximum length of a frame to send, in bytes.
    pub(super) send: u32,
    /// Maximum length of a frame that the device is configured to deliver, in bytes.
    pub(super) receive: u32,
}

/// How frames are written.
enum TapWriter {
    /// Many frames per system call.
    Batched(Box<TapUring>),
    /// One frame per system call.
    Single,
}

impl TapQueue {
    pub(super) fn new(
        name: &str,
        ringid: u16,
        region: &Arc<Region>,
        slots: u32,
        limits: TapLimits,
        link: LinkWatch,
        tun: OwnedFd,
    ) -> Result<Self, OpenCause> {
        let tx = RingHalves::create(region, ringid, slots)?;
        let rx = RingHalves::create(region, ringid, slots)?;
        let uring = TapUring::new(tun.as_fd(), region);
        let writer = uring.map_or(TapWriter::Single, |uring| TapWriter::Batched(Box::new(uring)));
        Ok(Self {
            name: name.to_owned(),
            tx: tx.app,
            rx: rx.app,
            tx_kern: tx.kern,
            rx_kern: rx.kern,
            counters: Arc::default(),
            writer,
            gather: GatherList::new(region, slots),
            limits,
            overflow: vec![0; OVERFLOW],
            host_drops: None,
            link,
            tun,
        })
    }

    /// Makes this queue the one that reports the device's drops.
    pub(super) fn count_host_drops(&mut self, drops: HostDrops) {
        self.host_drops = Some(drops);
    }

    /// Returns whether one system call can write many frames.
    pub(super) fn is_batched(&self) -> bool {
        matches!(self.writer, TapWriter::Batched(_))
    }

    fn fail(&self, cause: impl Into<RunCause>) -> RunError {
        RunError::new(&self.name, cause)
    }

    /// Sends the frames that have waited for the device to be up. A write finds out whether the
    /// device is up; this works even after the device was moved to another namespace. The kernel is
    /// asked for the link state only if the port must fail when its interface is down.
    #[cold]
    fn check_link(&mut self) -> Result<(), RunError> {
        let asked = if self.link.ends_when_down() { self.link.query() } else { Ok(false) };
        match asked {
            // A device that is not found here may exist in another namespace. If it exists in no
            // namespace, the sync fails.
            Ok(_) | Err(RunCause::Vanished) => {}
            Err(cause) => return Err(self.fail(cause)),
        }
        if self.link.is_down() { self.tx_sync() } else { Ok(()) }
    }

    /// Reads frames into free slots, as long as there is space for a frame of `limits.receive`
    /// bytes, or all slots are free.
    fn receive(&mut self) -> Result<(), RunCause> {
        let ring = &mut self.rx_kern;
        let buf_size = ring.region().buf_size();
        let longest = self.limits.receive.div_ceil(buf_size).min(ring.num_slots() - 1);
        let (mut at, mut room) = (ring.hwtail(), ring.free_slots());
        let mut reads = ring.num_slots();
        let mut sum = TrafficCounts::default();
        let mut result = Ok(());
        while room >= longest && reads > 0 {
            reads -= 1;
            let len = match sys::read(self.tun.as_fd(), ring.buffer(at), &mut self.overflow) {
                Ok(0) | Err(Errno::AGAIN | Errno::INTR) => break,
                Ok(len) => len,
                Err(error) => {
                    result = Err(lost("receive", error));
                    break;
                }
            };
            match copy_into_slots(ring, at, room, len, &self.overflow) {
                Ok(slots) => {
                    sum += TrafficCounts { packets: 1, bytes: len as u64 };
                    at = ring.add(at, slots);
                    room -= slots;
                }
                Err(cause) => {
                    self.counters.dropped(cause, 1);
                    if cause == DropCause::RxNoBuffer {
                        let slots = pass_over(ring, at, room);
                        at = ring.add(at, slots);
                        room -= slots;
                    }
                }
            }
        }
        ring.set_tail(at);
        self.counters.received(sum);
        result
    }
}

/// Completes a frame of `len` bytes whose first part is already in slot `at`: copies the rest to
/// further slots, and sets lengths and flags. Returns the number of slots.
#[inline(always)]
fn copy_into_slots(
    ring: &mut KernRing,
    at: SlotIdx,
    room: u32,
    len: usize,
    overflow: &[u8],
) -> Result<u32, DropCause> {
    let first = ring.buffer(at).len();
    if first == 0 {
        // The program returned the slot with an invalid buffer number.
        return Err(DropCause::RxNoBuffer);
    }
    if len <= first {
        ring.set(at, len as u16, SlotFlags::default());
        return Ok(1);
    }
    copy_rest(ring, at, room, overflow.get(..len - first).ok_or(DropCause::RxTooLong)?)
}

/// Marks the slots from `at` through the first one without a usable buffer as empty, so that the
/// program gets them back and later frames go to the slots after them. Returns their number.
#[cold]
fn pass_over(ring: &mut KernRing, at: SlotIdx, room: u32) -> u32 {
    for passed in 0..room {
        let slot = ring.add(at, passed);
        ring.set(slot, 0, SlotFlags::default());
        if ring.buffer(slot).is_empty() {
            return passed + 1;
        }
    }
    0
}

/// Copies the rest of a frame to the slots after `first`, which is already full. Returns the number
/// of slots of the whole frame.
fn copy_rest(
    ring: &mut KernRing,
    first: SlotIdx,
    room: u32,
    rest: &[u8],
) -> Result<u32, DropCause> {
    let buf_size = ring.region().buf_size() as usize;
    let slots = 1 + rest.len().div_ceil(buf_size) as u32;
    if slots > room {
        return Err(DropCause::RxRingFull);
    }
    let (mut at, mut last_len) = (first, buf_size);
    for part in rest.chunks(buf_size) {
        ring.set(at, last_len as u16, SlotFlags::MOREFRAG);
        at = ring.next(at);
        last_len = part.len();
        if ring.buffer(at).copy_in(part) < last_len {
            return Err(DropCause::RxNoBuffer);
        }
    }
    ring.set(at, last_len as u16, SlotFlags::default());
    Ok(slots)
}

impl TapWriter {
    /// Writes a run and counts the result of each frame. Returns the number of finished frames,
    /// which is all of them unless the device is down.
    fn write(
        &mut self,
        tun: BorrowedFd<'_>,
        counters: &QueueCounters,
        link: &mut LinkWatch,
        run: &GatherList,
    ) -> Result<usize, RunCause> {
        let mut sent = TrafficCounts::default();
        let mut done = 0;
        while done < run.len() {
            let mut results = [0; MAX_BATCH];
            let count = match self {
                Self::Batched(uring) => uring.write(run, done, &mut results).map_err(failed)?,
                Self::Single => {
                    results[0] = sys::write(tun, run.iovecs(done));
                    1
                }
            };
            // Frames that are refused because the device is down wait if they are the last ones of
            // the batch. Others are dropped, because they would be sent out of order.
            let late = results[..count].iter().rev().take_while(|&&result| is_down(result)).count();
            for (i, &result) in results[..count - late].iter().enumerate() {
                match refusal(result)? {
                    None => {
                        sent += TrafficCounts { packets: 1, bytes: run.frame_len(done + i).into() };
                    }
                    Some(cause) => counters.dropped(cause, 1),
                }
            }
            done += count - late;
            if late > 0 {
                counters.sent(sent);
                link.mark_down()?;
                return Ok(done);
            }
            link.mark_up();
        }
        counters.sent(sent);
        Ok(done)
    }
}

/// Returns whether this result of a write means that the host has set the device down.
#[inline(always)]
fn is_down(result: i32) -> bool {
    result == -libc::EIO
}

fn failed(source: io::Error) -> RunCause {
    RunCause::System { what: "send", source }
}

/// Returns why a frame was not written, from the kernel's result of the write; `None` if it was
/// written.
#[inline(always)]
fn refusal(result: i32) -> Result<Option<DropCause>, RunCause> {
    if result >= 0 {
        return Ok(None);
    }
    match Errno::from_raw_os_error(-result) {
        Errno::MSGSIZE => Ok(Some(DropCause::TxTooLong)),
        // EIO: the host has set the device down and up again in the middle of a run.
        Errno::IO | Errno::INVAL | Errno::AGAIN | Errno::NOMEM | Errno::NOBUFS => {
            Ok(Some(DropCause::TxRefused))
        }
        error => Err(lost("send", error)),
    }
}

fn lost(what: &'static str, error: Errno) -> RunCause {
    match error {
        // The descriptor no longer belongs to a device.
        Errno::BADFD => RunCause::Vanished,
        error => RunCause::System { what, source: error.into() },
    }
}

impl Queue for TapQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        QueueRings { tx: &mut self.tx, rx: &mut self.rx }
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        let (tun, counters, writer) = (self.tun.as_fd(), &*self.counters, &mut self.writer);
        let link = &mut self.link;
        transmit(&mut self.tx_kern, &mut self.gather, self.limits.send, counters, |run| {
            writer.write(tun, counters, link, run)
        })
        .map_err(|cause| RunError::new(&self.name, cause))
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        let head = self.rx_kern.released().map_err(|fault| self.fail(SyncFault::from(fault)))?;
        self.rx_kern.complete_to(head);
        if self.link.take_changed() {
            self.check_link()?;
        }
        self.receive().map_err(|cause| self.fail(cause))
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        WaitFds {
            rx: Some(self.tun.as_fd()),
            tx: Some(TxWait::Writable(self.tun.as_fd())),
            link: Some(self.link.events()),
        }
    }

    fn after_sleep(&mut self) {
        self.link.read_events();
    }

    fn update_stats(&mut self) {
        let drops = self.host_drops.as_mut().and_then(|drops| drops.take_new(self.tun.as_fd()));
        if let Some(count) = drops {
            self.counters.set_dropped(DropCause::RxKernel, count);
        }
    }

    fn resume_position(&self) -> Option<u32> {
        Some(self.host_drops.as_ref().map_or(0, HostDrops::position))
    }

    fn resume_ring(&mut self, position: u32) {
        self.host_drops.iter_mut().for_each(|drops| drops.resume(position));
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}

#[cfg(test)]
mod tests;
