//! The loop of a firewall thread: from the rings of all ports through the rules and back.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::thread::set_current_timer_slack;
use slipring_datapath::poll_loop::{MAX_SLEEP, PollLoop};
use slipring_datapath::slots::{BatchedTxQueue, bytes, slots_of, whole_frames};
use slipring_ipfw::run::{FrameBatch, LogEvent, PortIndex};
use slipring_port::{Interest, Queue, RunError, Visit, WaitSet, now};
use slipring_ring::{RxRing, SlotFlags};

use crate::cross_thread::CrossThreadLink;
use crate::dataplane::{Dataplane, DataplaneLoss, DataplaneNanos, DataplaneOutput};
use crate::deferred_output::DeferredOutput;
use crate::shared_stats::SharedDataplaneStats;
use crate::task_queue::TaskQueue;

/// A sleep ends this long before a frame is due; the rest is spent spinning.
const WAKE_MARGIN_NS: DataplaneNanos = 30_000;
/// How long frames may take to leave at the end.
const DRAIN_TIMEOUT_NS: DataplaneNanos = 100_000_000;
/// Most frames that wait for room in the transmit ring of a port.
const MAX_PENDING_FRAMES: usize = 1024;

/// A port's queues, and frames that did not fit into them.
struct WorkerPort {
    queues: Vec<BatchedTxQueue>,
    pending: VecDeque<Vec<u8>>,
    /// A frame at another port waits for room here.
    is_waited_for: bool,
    /// The port can send; a capture that is read and a monitor cannot.
    can_send: bool,
}

impl WorkerPort {
    fn new((queues, can_send): (Vec<Box<dyn Queue>>, bool)) -> Self {
        let queues = queues.into_iter().map(BatchedTxQueue::new).collect();
        Self { queues, pending: VecDeque::new(), is_waited_for: false, can_send }
    }

    /// Sends a copy after those that wait, unless too many do.
    fn copy_out(&mut self, frame: &[u8]) -> Result<(), DataplaneLoss> {
        if !self.can_send {
            return Err(DataplaneLoss::NoTx);
        }
        if self.pending.is_empty() && self.queues[0].copy_frame(frame) {
            return Ok(());
        }
        if self.pending.len() == MAX_PENDING_FRAMES {
            return Err(DataplaneLoss::TxFull);
        }
        self.pending.push_back(frame.to_vec());
        Ok(())
    }

    fn send_pending(&mut self) {
        while self.pending.front().is_some_and(|frame| self.queues[0].copy_frame(frame)) {
            self.pending.pop_front();
        }
    }

    fn has_room(&mut self, queue: usize, slots: u32) -> bool {
        let at = queue % self.queues.len();
        // A port that cannot send never blocks others.
        let fits = !self.can_send || self.pending.is_empty() && self.queues[at].has_room(slots);
        self.is_waited_for |= !fits;
        fits
    }

    /// Returns how many single-slot frames fit, at most `most`.
    fn room(&mut self, queue: usize, most: u32) -> u32 {
        let at = queue % self.queues.len();
        let room = match self.pending.is_empty() {
            _ if !self.can_send => most,
            true => self.queues[at].room(most),
            false => 0,
        };
        self.is_waited_for |= room == 0;
        room
    }
}

/// The ports, for frames that are no longer in a ring.
struct PortOutput<'s> {
    ports: &'s mut [WorkerPort],
    deferred: &'s mut DeferredOutput,
}

impl DataplaneOutput for PortOutput<'_> {
    fn send(&mut self, port: PortIndex, frame: &[u8]) -> Result<(), DataplaneLoss> {
        self.ports[usize::from(port)].copy_out(frame)
    }

    fn log(&mut self, event: LogEvent) {
        self.deferred.log(event);
    }

    fn is_watched(&self) -> bool {
        self.deferred.is_watched()
    }

    fn count_unwatched(&mut self, lines: u64) {
        self.deferred.count_unwatched(lines);
    }
}

/// Single-slot frames in an rx ring.
struct SingleSlotFrames<'r> {
    rx: &'r mut RxRing,
    first: u32,
    /// The slot whose frame was shown last, and may have been changed since.
    shown: Option<u32>,
}

impl SingleSlotFrames<'_> {
    /// Has what was changed where the frame is sent from.
    #[inline]
    fn write_back(&mut self) {
        if let Some(i) = self.shown.take() {
            self.rx.write_back(i);
        }
    }
}

impl FrameBatch for SingleSlotFrames<'_> {
    #[inline]
    fn frame(&mut self, at: usize) -> &mut [u8] {
        self.write_back();
        let i = self.first + at as u32;
        self.shown = Some(i);
        self.rx.frame(i).map_or(&mut [], |frame| frame.bytes)
    }
}

/// Checks and forwards frames in one thread.
pub(crate) struct FirewallWorker {
    ports: Vec<WorkerPort>,
    dataplane: Dataplane,
    task_queue: Arc<TaskQueue>,
    stats: Arc<SharedDataplaneStats>,
    deferred: DeferredOutput,
    /// Most slots that are taken at once.
    burst: u32,
    may_swap: bool,
    /// By port: a frame in its rx ring waits for room at another port.
    blocked: Vec<bool>,
    scratch: Vec<u8>,
    egress_ports: Vec<Option<PortIndex>>,
    /// The link to other threads.
    cross_thread: Option<CrossThreadLink>,
    is_timer_slack_set: bool,
    /// Frames have been admitted.
    admits_frames: bool,
}

/// How frames are forwarded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForwardingOptions {
    pub(crate) burst: u32,
    pub(crate) may_swap: bool,
}

impl FirewallWorker {
    /// Creates a worker over the queues of each port, with whether that port can send.
    pub(crate) fn new(
        ports: Vec<(Vec<Box<dyn Queue>>, bool)>,
        dataplane: Dataplane,
        (task_queue, stats): (Arc<TaskQueue>, Arc<SharedDataplaneStats>),
        deferred: DeferredOutput,
        ForwardingOptions { burst, may_swap }: ForwardingOptions,
    ) -> Self {
        let ports: Vec<_> = ports.into_iter().map(WorkerPort::new).collect();
        let blocked = vec![false; ports.len()];
        Self {
            ports,
            dataplane,
            task_queue,
            stats,
            deferred,
            burst,
            may_swap,
            blocked,
            scratch: Vec::new(),
            egress_ports: Vec::new(),
            cross_thread: None,
            is_timer_slack_set: false,
            admits_frames: false,
        }
    }

    /// Makes this worker one of several that receive frames from a distributor.
    pub(crate) fn with_cross_thread(mut self, shared: CrossThreadLink) -> Self {
        self.cross_thread = Some(shared);
        self
    }

    /// Checks the frames of one queue. Returns how many slots they used.
    fn process_rx(&mut self, from: usize, queue: usize, time: DataplaneNanos) -> u32 {
        let rx = self.ports[from].queues[queue].queue.rings().rx;
        let end = whole_frames(rx, self.burst);
        let mut at = 0;
        while at < end {
            let rx = self.ports[from].queues[queue].queue.rings().rx;
            let taken = match slots_of(rx, at, end) {
                1 => self.process_single_slots(from, queue, (at, end), time),
                slots => self.process_multi_slot(from, queue, (at, slots), time),
            };
            if taken == 0 {
                self.blocked[from] = true;
                break;
            }
            at += taken;
        }
        if at > 0 {
            self.ports[from].queues[queue].queue.rings().rx.advance(at);
        }
        at
    }

    /// Checks consecutive single-slot frames, as many as fit at every possible output port. Returns
    /// how many.
    fn process_single_slots(
        &mut self,
        from: usize,
        queue: usize,
        (at, end): (u32, u32),
        time: DataplaneNanos,
    ) -> u32 {
        let Self { ports: sides, dataplane: join, deferred: aside, egress_ports: ways, .. } = self;
        let rx = sides[from].queues[queue].queue.rings().rx;
        let more = |i: u32| rx.slot(i).is_some_and(|slot| slot.flags.has(SlotFlags::MOREFRAG));
        let together = (at..end).take_while(|&i| !more(i)).count() as u32;
        let targets = join.map().targets(from as PortIndex);
        let room = |most, &to: &PortIndex| sides[usize::from(to)].room(queue, most);
        let count = targets.iter().fold(together, room);
        if count == 0 {
            return 0;
        }
        let rx = sides[from].queues[queue].queue.rings().rx;
        let mut frames = SingleSlotFrames { rx, first: at, shown: None };
        let came = (from as PortIndex, time);
        join.offer_all(&mut frames, count as usize, came, aside, ways);
        frames.write_back();
        let ways = std::mem::take(&mut self.egress_ports);
        for (at, way) in (at..).zip(&ways) {
            way.iter().for_each(|&to| self.forward(from, queue, (at, 1), usize::from(to)));
        }
        self.egress_ports = ways;
        if !self.deferred.frames.is_empty() {
            self.send_deferred();
        }
        count
    }

    /// Checks a frame of several slots. Returns its slots, or 0 if it does not fit.
    fn process_multi_slot(
        &mut self,
        from: usize,
        queue: usize,
        (at, slots): (u32, u32),
        time: DataplaneNanos,
    ) -> u32 {
        if !self.can_forward(from, queue, slots) {
            return 0;
        }
        let Self { ports: sides, dataplane: join, deferred: aside, scratch, .. } = self;
        let rx = sides[from].queues[queue].queue.rings().rx;
        bytes(rx, at, slots, scratch);
        if let Some(to) = join.offer(scratch, from as PortIndex, time, aside) {
            self.forward(from, queue, (at, slots), usize::from(to));
        }
        if !self.deferred.frames.is_empty() {
            self.send_deferred();
        }
        slots
    }

    /// Returns whether there is room at every output port of this port.
    fn can_forward(&mut self, from: usize, queue: usize, slots: u32) -> bool {
        let Self { dataplane: join, ports: sides, .. } = self;
        let targets = join.map().targets(from as PortIndex);
        targets.iter().all(|&to| sides[usize::from(to)].has_room(queue, slots))
    }

    /// Forwards a frame of an rx ring, by swapping its buffer if possible.
    fn forward(&mut self, from: usize, queue: usize, (at, slots): (u32, u32), to: usize) {
        // A frame of several slots may have been changed in the scratch buffer, so that is copied.
        let Ok([source, target]) = self.ports.get_disjoint_mut([from, to]) else {
            return self.forward_copy(from, queue, (at, slots), to);
        };
        let rx = source.queues[queue].queue.rings().rx;
        let out = queue % target.queues.len();
        let is_direct = slots == 1 && target.pending.is_empty() && target.can_send;
        if !is_direct || !target.queues[out].forward_frame(rx, at, slots, self.may_swap) {
            self.forward_copy(from, queue, (at, slots), to);
        }
    }

    fn forward_copy(&mut self, from: usize, queue: usize, (at, slots): (u32, u32), to: usize) {
        if slots == 1 {
            let rx = self.ports[from].queues[queue].queue.rings().rx;
            self.scratch.clear();
            self.scratch.extend_from_slice(rx.frame(at).map_or(&[], |frame| frame.bytes));
        }
        if let Err(why) = self.ports[to].copy_out(&self.scratch) {
            self.dataplane.count_unsent(why);
        }
    }

    fn send_deferred(&mut self) {
        for (port, frame) in self.deferred.frames.drain(..) {
            if let Err(why) = self.ports[usize::from(port)].copy_out(&frame) {
                self.dataplane.count_unsent(why);
            }
        }
    }

    /// Executes the tasks of other threads.
    fn run_tasks(&mut self, time: DataplaneNanos) {
        for letter in self.task_queue.drain() {
            letter(&mut self.dataplane, &mut self.deferred, time);
        }
        self.send_deferred();
    }

    fn run_due(&mut self, time: DataplaneNanos) {
        let Self { ports: sides, dataplane: join, deferred: aside, .. } = self;
        if join.next_ns().is_some_and(|due| due <= time) {
            join.run(time, &mut PortOutput { ports: sides, deferred: aside });
        }
    }

    fn flush(&mut self) -> Result<(), RunError> {
        self.ports.iter_mut().flat_map(|side| &mut side.queues).try_for_each(BatchedTxQueue::flush)
    }

    fn pending_frames(&self) -> u64 {
        self.ports.iter().map(|side| side.pending.len() as u64).sum()
    }

    /// Forwards one burst of each queue, and what is due.
    fn forward_bursts(&mut self) -> Result<u32, RunError> {
        for side in &mut self.ports {
            side.queues.iter_mut().try_for_each(BatchedTxQueue::reclaim)?;
            side.is_waited_for = false;
            side.send_pending();
        }
        self.blocked.fill(false);
        let mut moved = 0;
        for from in 0..self.ports.len() {
            for queue in 0..self.ports[from].queues.len() {
                self.ports[from].queues[queue].queue.rx_sync()?;
                moved += self.process_rx(from, queue, now());
            }
        }
        self.run_due(now());
        if let Some(shared) = &self.cross_thread {
            shared.exchange(&mut self.dataplane);
        }
        self.flush()?;
        Ok(moved)
    }
}

impl PollLoop for FirewallWorker {
    fn queues(&self) -> Vec<&dyn Queue> {
        let boxes = self.ports.iter().flat_map(|side| &side.queues);
        boxes.map(|outbox| outbox.queue.as_ref()).collect()
    }

    /// Executes tasks, and forwards frames once they are admitted.
    fn step(&mut self) -> Result<u32, RunError> {
        self.run_tasks(now());
        if !self.task_queue.has_begun() {
            return Ok(0);
        }
        if !self.admits_frames {
            self.admits_frames = true;
            self.cross_thread.iter().for_each(|shared| shared.common.begin());
        }
        let moved = self.forward_bursts();
        // Publish even if a lost port ends this step.
        self.stats.publish(&self.dataplane, self.pending_frames());
        moved
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.task_queue.as_fd())
    }

    fn before_wait(&mut self) -> Duration {
        if !self.is_timer_slack_set {
            // Without it, the kernel may end each sleep up to 50 us late.
            let _ = set_current_timer_slack(NonZeroU64::new(1));
            self.is_timer_slack_set = true;
        }
        let due =
            self.dataplane.next_ns().unwrap_or(DataplaneNanos::MAX).saturating_sub(WAKE_MARGIN_NS);
        Duration::from_nanos(due.saturating_sub(now())).min(MAX_SLEEP)
    }

    /// Returns whether a port has ended and all received frames have left.
    fn is_finished(&mut self) -> bool {
        let mut boxes = self.ports.iter_mut().flat_map(|side| &mut side.queues);
        let ended = match &self.cross_thread {
            Some(shared) => {
                // After a sync, everything distributed before the end is visible.
                let is_read = |outbox: &mut BatchedTxQueue| {
                    outbox.queue.rx_sync().is_err() || outbox.queue.rings().rx.avail() == 0
                };
                shared.is_over() && boxes.all(is_read)
            }
            None => {
                boxes.any(|outbox| outbox.queue.ended() && outbox.queue.rings().rx.avail() == 0)
            }
        };
        ended
            && self.task_queue.has_begun()
            && self.dataplane.is_empty()
            && self.pending_frames() == 0
    }

    /// Flushes outgoing frames for a bounded time. Those in pipes stay there.
    fn drain(&mut self) -> Result<(), RunError> {
        self.task_queue.close();
        let until = now() + DRAIN_TIMEOUT_NS;
        loop {
            self.ports.iter_mut().for_each(WorkerPort::send_pending);
            self.flush()?;
            let mut boxes = self.ports.iter_mut().flat_map(|side| &mut side.queues);
            if (boxes.all(BatchedTxQueue::is_idle) && self.pending_frames() == 0) || now() >= until
            {
                break;
            }
        }
        self.update_stats();
        self.stats.publish_final(&self.dataplane, self.pending_frames());
        if let Some(shared) = &self.cross_thread {
            shared.common.mark_finished();
        }
        Ok(())
    }

    fn update_stats(&mut self) {
        let boxes = self.ports.iter_mut().flat_map(|side| &mut side.queues);
        boxes.for_each(|outbox| outbox.queue.update_stats());
    }
}

impl WaitSet for FirewallWorker {
    fn each(&mut self, visit: Visit<'_>) -> Result<(), RunError> {
        let has_begun = self.task_queue.has_begun();
        for (side, &blocked) in self.ports.iter_mut().zip(&self.blocked) {
            let tx = side.is_waited_for || !side.pending.is_empty();
            let interest = Interest { rx: !blocked && has_begun, tx };
            side.queues.iter_mut().try_for_each(|outbox| visit(&mut *outbox.queue, interest))?;
        }
        Ok(())
    }
}
