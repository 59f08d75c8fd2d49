use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use slipring_datapath::environment::Clock;
use slipring_datapath::queues::{WorkerQueue, WorkerQueues};
use slipring_datapath::slots::{bytes, slots_of, whole_frames};
use slipring_datapath::worker::{FrameProcessor, Worker};
use slipring_ipfw::run::{FrameBatch, LogEvent, PortIndex};
use slipring_port::{Nanos, Queue, RunError};
use slipring_ring::{RxRing, SlotFlags};

use crate::cross_thread::CrossThreadLink;
use crate::dataplane::{Dataplane, DataplaneLoss, DataplaneNanos, DataplaneOutput};
use crate::deferred_output::DeferredOutput;
use crate::shared_stats::SharedDataplaneStats;
use crate::task_queue::TaskQueue;

/// Maximum number of frames that may wait for space in the transmit ring of a port.
const MAX_PENDING_FRAMES: usize = 1024;

/// A port of the worker: its queues, and the frames for which the queues had no space.
struct WorkerPort {
    first: usize,
    count: usize,
    /// Frames that wait for space in the port's first queue.
    pending: VecDeque<Vec<u8>>,
    /// Whether the port can send. Monitors cannot, and neither can ports that read a capture.
    can_send: bool,
}

impl WorkerPort {
    /// Returns the index of this port's queue for frames that arrived on queue `number` of another
    /// port.
    #[inline]
    const fn queue_for(&self, number: usize) -> usize {
        self.first + number % self.count
    }

    /// Sends a copy of `frame`. If the ring has no space or other frames already wait, queues the
    /// copy. Returns an error if too many frames wait, or if the port cannot send.
    fn copy_out(&mut self, queues: &mut WorkerQueues, frame: &[u8]) -> Result<(), DataplaneLoss> {
        if !self.can_send {
            return Err(DataplaneLoss::NoTx);
        }
        if self.pending.is_empty() && queues[self.first].copy_frame(frame) {
            return Ok(());
        }
        if self.pending.len() == MAX_PENDING_FRAMES {
            return Err(DataplaneLoss::TxFull);
        }
        self.pending.push_back(frame.to_vec());
        Ok(())
    }

    fn send_pending(&mut self, queues: &mut WorkerQueues) {
        let queue = &mut queues[self.first];
        while self.pending.front().is_some_and(|frame| queue.copy_frame(frame)) {
            self.pending.pop_front();
        }
    }

    /// Returns how many single-slot frames fit into the transmit ring, limited to `most`. If none
    /// fits, the worker will be woken when there is space.
    #[inline]
    fn room(&self, queues: &mut WorkerQueues, number: usize, most: u32) -> u32 {
        let queue = &mut queues[self.queue_for(number)];
        let room = match self.pending.is_empty() {
            // A port that cannot send must not delay frames. Sending to it later fails, and counts
            // the frames as lost.
            _ if !self.can_send => most,
            true => queue.room(most),
            false => 0,
        };
        if room == 0 {
            queue.await_room();
        }
        room
    }

    /// Returns whether a frame of `slots` slots fits into the transmit ring. If it does not, the
    /// worker will be woken when there is space.
    fn has_room(&self, queues: &mut WorkerQueues, number: usize, slots: u32) -> bool {
        let queue = &mut queues[self.queue_for(number)];
        let fits = !self.can_send || self.pending.is_empty() && queue.has_room(slots);
        if !fits {
            queue.await_room();
        }
        fits
    }
}

/// Sends frames that are not in an rx ring: replies, copies, and frames that leave a pipe.
struct PortOutput<'s> {
    ports: &'s mut [WorkerPort],
    queues: &'s mut WorkerQueues,
    deferred: &'s mut DeferredOutput,
}

impl DataplaneOutput for PortOutput<'_> {
    fn send(&mut self, port: PortIndex, frame: &[u8]) -> Result<(), DataplaneLoss> {
        self.ports[usize::from(port)].copy_out(self.queues, frame)
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

/// Frames of one slot each that are in an rx ring, as a batch.
struct SingleSlotFrames<'r> {
    rx: &'r mut RxRing,
    first: u32,
    /// Slot offset of the frame last returned by a [`FrameBatch`] function. The caller may have
    /// changed this frame. `None` if no change can be pending.
    shown: Option<u32>,
}

impl SingleSlotFrames<'_> {
    /// If the frame in slot `shown` was changed, writes the changes to the buffer that will be
    /// sent.
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

/// The queue from which a burst of frames comes.
#[derive(Debug, Clone, Copy)]
struct BurstSource {
    /// Index of the queue among the worker's queues.
    input: usize,
    /// Index of the queue's port.
    port: usize,
    /// Index of the queue among the queues of its port.
    number: usize,
}

/// Checks and forwards frames in one thread.
pub(crate) struct FirewallProcessor {
    ports: Vec<WorkerPort>,
    /// The port and number of each of the worker's queues.
    sources: Vec<BurstSource>,
    dataplane: Dataplane,
    task_queue: Arc<TaskQueue>,
    stats: Arc<SharedDataplaneStats>,
    deferred: DeferredOutput,
    /// Maximum number of slots of a burst; values below 64 count as 64.
    burst: u32,
    may_swap: bool,
    scratch: Vec<u8>,
    egress_ports: Vec<Option<PortIndex>>,
    /// The connection to the other packet threads; `None` if this is the only one.
    cross_thread: Option<CrossThreadLink>,
    /// Whether frames are processed. This is false until the initial rules are in force.
    admits_frames: bool,
}

/// The options for forwarding frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForwardingOptions {
    pub(crate) burst: u32,
    pub(crate) may_swap: bool,
}

impl FirewallProcessor {
    /// Creates a processor without ports.
    pub(crate) fn new(
        dataplane: Dataplane,
        (task_queue, stats): (Arc<TaskQueue>, Arc<SharedDataplaneStats>),
        deferred: DeferredOutput,
        ForwardingOptions { burst, may_swap }: ForwardingOptions,
    ) -> Self {
        Self {
            ports: Vec::new(),
            sources: Vec::new(),
            dataplane,
            task_queue,
            stats,
            deferred,
            burst,
            may_swap,
            scratch: Vec::new(),
            egress_ports: Vec::new(),
            cross_thread: None,
            admits_frames: false,
        }
    }

    /// Makes this processor one of several that receive their frames from a distributor.
    pub(crate) fn with_cross_thread(mut self, link: CrossThreadLink) -> Self {
        self.cross_thread = Some(link);
        self
    }

    /// Creates the worker. Each element of `ports` has the queues of a port, and whether the port
    /// can send.
    pub(crate) fn into_worker(mut self, ports: Vec<(Vec<Box<dyn Queue>>, bool)>) -> Worker<Self> {
        let mut queues = Vec::new();
        for (port, (own, can_send)) in ports.into_iter().enumerate() {
            let (first, count) = (queues.len(), own.len());
            self.ports.push(WorkerPort { first, count, pending: VecDeque::new(), can_send });
            let source = |number| BurstSource { input: first + number, port, number };
            self.sources.extend((0..count).map(source));
            queues.extend(own.into_iter().map(WorkerQueue::input));
        }
        Worker::new(self, WorkerQueues::new(queues))
    }

    /// Checks and forwards consecutive single-slot frames. Stops when the rings of a possible
    /// output port are full. Returns the number of frames processed.
    fn process_single_slots(
        &mut self,
        queues: &mut WorkerQueues,
        source: BurstSource,
        (at, end): (u32, u32),
        time: DataplaneNanos,
    ) -> u32 {
        let Self { ports, dataplane, deferred, egress_ports, .. } = self;
        let rx = queues[source.input].rx();
        let more = |i: u32| rx.slot(i).is_some_and(|slot| slot.flags.has(SlotFlags::MOREFRAG));
        let together = (at..end).take_while(|&i| !more(i)).count() as u32;
        let targets = dataplane.map().targets(source.port as PortIndex);
        let room = |most, &to: &PortIndex| ports[usize::from(to)].room(queues, source.number, most);
        let count = targets.iter().fold(together, room);
        if count == 0 {
            return 0;
        }
        let rx = queues[source.input].rx();
        let mut frames = SingleSlotFrames { rx, first: at, shown: None };
        let came = (source.port as PortIndex, time);
        dataplane.offer_all(&mut frames, count as usize, came, deferred, egress_ports);
        frames.write_back();
        let egress_ports = std::mem::take(&mut self.egress_ports);
        for (at, egress) in (at..).zip(&egress_ports) {
            egress.iter().for_each(|&to| self.forward(queues, source, (at, 1), usize::from(to)));
        }
        self.egress_ports = egress_ports;
        self.send_deferred(queues);
        count
    }

    /// Checks and forwards a frame of several slots. Returns the number of its slots, or 0 if the
    /// frame does not fit into the rings of the output ports.
    fn process_multi_slot(
        &mut self,
        queues: &mut WorkerQueues,
        source: BurstSource,
        (at, slots): (u32, u32),
        time: DataplaneNanos,
    ) -> u32 {
        if !self.can_forward(queues, source, slots) {
            return 0;
        }
        let Self { dataplane, deferred, scratch, .. } = self;
        bytes(queues[source.input].rx(), at, slots, scratch);
        if let Some(to) = dataplane.offer(scratch, source.port as PortIndex, time, deferred) {
            self.forward(queues, source, (at, slots), usize::from(to));
        }
        self.send_deferred(queues);
        slots
    }

    /// Returns whether each output port of the source's port has space for a frame of `slots`
    /// slots.
    fn can_forward(&self, queues: &mut WorkerQueues, source: BurstSource, slots: u32) -> bool {
        let targets = self.dataplane.map().targets(source.port as PortIndex);
        let has_room =
            |&to: &PortIndex| self.ports[usize::from(to)].has_room(queues, source.number, slots);
        targets.iter().all(has_room)
    }

    /// Sends a frame that is in an rx ring to a port. Swaps buffers instead of copying if possible.
    fn forward(
        &mut self,
        queues: &mut WorkerQueues,
        source: BurstSource,
        (at, slots): (u32, u32),
        to: usize,
    ) {
        // A frame of several slots was assembled in the scratch buffer, where the rules may have
        // changed it. So it is copied from there.
        let target = &self.ports[to];
        let is_direct = slots == 1 && target.pending.is_empty() && target.can_send;
        let pair = [source.input, target.queue_for(source.number)];
        let is_sent = is_direct
            && queues.get_disjoint_mut(pair).is_ok_and(|[input, output]| {
                output.forward_frame(input.rx(), at, slots, self.may_swap)
            });
        if !is_sent {
            self.forward_copy(queues, source, (at, slots), to);
        }
    }

    fn forward_copy(
        &mut self,
        queues: &mut WorkerQueues,
        source: BurstSource,
        (at, slots): (u32, u32),
        to: usize,
    ) {
        if slots == 1 {
            let rx = queues[source.input].rx();
            self.scratch.clear();
            self.scratch.extend_from_slice(rx.frame(at).map_or(&[], |frame| frame.bytes));
        }
        if let Err(cause) = self.ports[to].copy_out(queues, &self.scratch) {
            self.dataplane.count_unsent(cause);
        }
    }

    #[inline]
    fn send_deferred(&mut self, queues: &mut WorkerQueues) {
        if self.deferred.frames.is_empty() {
            return;
        }
        for (port, frame) in self.deferred.frames.drain(..) {
            if let Err(cause) = self.ports[usize::from(port)].copy_out(queues, &frame) {
                self.dataplane.count_unsent(cause);
            }
        }
    }

    fn run_due(&mut self, queues: &mut WorkerQueues, time: DataplaneNanos) {
        let Self { ports, dataplane, deferred, .. } = self;
        if dataplane.next_ns().is_some_and(|due| due <= time) {
            dataplane.run(time, &mut PortOutput { ports, queues, deferred });
        }
    }

    fn pending_frames(&self) -> u64 {
        self.ports.iter().map(|port| port.pending.len() as u64).sum()
    }
}

impl FrameProcessor for FirewallProcessor {
    /// Checks and forwards the frames of one queue. Returns the number of slots that the frames
    /// used.
    fn process(&mut self, queues: &mut WorkerQueues, input: usize, clock: &impl Clock) -> u32 {
        let (source, time) = (self.sources[input], clock.now());
        let end = whole_frames(queues[input].rx(), self.burst);
        let mut at = 0;
        while at < end {
            let taken = match slots_of(queues[input].rx(), at, end) {
                1 => self.process_single_slots(queues, source, (at, end), time),
                slots => self.process_multi_slot(queues, source, (at, slots), time),
            };
            if taken == 0 {
                queues[input].block();
                break;
            }
            at += taken;
        }
        if at > 0 {
            queues[input].rx().advance(at);
        }
        at
    }

    /// Executes the tasks that other threads have queued. Returns whether frames may be processed,
    /// which is true once the initial rules are in force.
    fn run_tasks(&mut self, queues: &mut WorkerQueues, clock: &impl Clock) -> bool {
        for task in self.task_queue.drain() {
            task(&mut self.dataplane, &mut self.deferred, clock.now());
        }
        self.send_deferred(queues);
        if !self.admits_frames && self.task_queue.has_admitted_frames() {
            self.admits_frames = true;
            self.cross_thread.iter().for_each(|link| link.common.begin());
        }
        self.admits_frames
    }

    fn before_inputs(&mut self, queues: &mut WorkerQueues, _: &impl Clock) -> u32 {
        self.ports.iter_mut().for_each(|port| port.send_pending(queues));
        0
    }

    /// Does work of the dataplane that is due (pipes, timeouts), and exchanges frames with the
    /// other threads.
    fn after_inputs(&mut self, queues: &mut WorkerQueues, clock: &impl Clock) {
        self.run_due(queues, clock.now());
        if let Some(link) = &self.cross_thread {
            link.exchange(&mut self.dataplane);
        }
        for port in self.ports.iter().filter(|port| !port.pending.is_empty()) {
            queues[port.first].await_room();
        }
    }

    fn next_due(&self) -> Option<Nanos> {
        self.dataplane.next_ns()
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.task_queue.wake_fd())
    }

    /// Returns whether the input has ended, its frames were processed, and no frame is in a pipe or
    /// waits for space in a ring. Without a distributor, the input ends when a port has ended.
    fn is_finished(&mut self, queues: &mut WorkerQueues) -> bool {
        let has_ended = match &self.cross_thread {
            // After a sync, all frames that were distributed before the end of the input are
            // visible.
            Some(link) => link.is_over() && queues.iter_mut().all(WorkerQueue::is_read_after_sync),
            None => queues.is_any_exhausted(),
        };
        has_ended
            && self.task_queue.has_admitted_frames()
            && self.dataplane.is_empty()
            && self.pending_frames() == 0
    }

    /// Closes the task queue, and sends the frames that wait for space in a ring. Returns whether
    /// all were sent. Frames in pipes do not count.
    fn drain(&mut self, queues: &mut WorkerQueues, _: &impl Clock) -> Result<bool, RunError> {
        self.task_queue.close();
        self.ports.iter_mut().for_each(|port| port.send_pending(queues));
        Ok(self.pending_frames() == 0)
    }

    fn publish(&mut self) {
        self.stats.publish(&self.dataplane, self.pending_frames());
    }

    fn publish_final(&mut self) {
        self.stats.publish_final(&self.dataplane, self.pending_frames());
        if let Some(link) = &self.cross_thread {
            link.common.mark_finished();
        }
    }
}
