//! The receiving loop, and its counters: loss, order, latency.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use slipring_port::{Interest, Nanos, Queue, QueueVisitor, RunError, WaitSet, WaitStrategy, now};
use slipring_traffic::{Stamp, StampCheck, Tracker, TrackerReport};

use super::dump::dump;
use super::progress::{FinishOnDrop, Progress};
use super::send::{SentBatch, waiter_for};
use slipring_datapath::workers::WorkersStop;

/// The receiver of one thread, with its queues.
pub(super) struct GenReceiver {
    /// The queues from which this thread receives.
    pub(super) queues: RxQueues,
    /// Loss, order and age counters of this thread's received frames.
    pub(super) rx_stats: SharedRxStats,
    /// Maximum packets that all threads together may receive.
    pub(super) budget: Arc<PacketBudget>,
    /// The condition that ends the receiver, other than a signal.
    pub(super) until: ReceiveUntil,
    /// How the thread waits for frames.
    pub(super) wait_policy: WaitStrategy,
    /// Published counts of the packets and bytes that this thread has received.
    pub(super) progress: Arc<Progress>,
}

/// The condition that ends a receiver, other than a signal.
pub(super) enum ReceiveUntil {
    /// The receiver ends when the port has no more frames.
    Ended,
    /// The receiver ends when no packet has arrived for a second. Until the first packet has
    /// arrived, it does not end.
    Idle,
    /// All these senders must have ended. The receiver then ends when all their packets have
    /// arrived, or when no packet has arrived for [`IN_FLIGHT_TIMEOUT_NS`].
    AllReceived(Vec<Arc<Progress>>),
}

/// Time in ns without a packet after which [`ReceiveUntil::Idle`] ends the receiver.
const IDLE_TIMEOUT_NS: Nanos = 1_000_000_000;
/// Time in ns without a frame after which the receiver ends, once the senders have ended.
const IN_FLIGHT_TIMEOUT_NS: Nanos = 300_000_000;
/// Receiving ends this long after the senders end, even if frames still arrive. Such frames come
/// from other programs, which may send for ever.
const TRAILING_TIMEOUT_NS: Nanos = 2_000_000_000;
/// Maximum number of batches that are received after the end was noticed.
const MAX_LAST_BATCHES: u32 = 4;
/// Longest sleep of a receiver.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// The number of packets that several threads together may receive (or, in `pong`, answer).
#[derive(Debug)]
pub(super) struct PacketBudget {
    limit: u64,
    taken: AtomicU64,
}

impl PacketBudget {
    /// Creates a budget of `limit` packets.
    pub(super) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, taken: AtomicU64::new(0) })
    }

    /// Returns the number of packets left in the budget, at most `most`.
    pub(super) fn remaining(&self, most: u32) -> u32 {
        let left = self.limit.saturating_sub(self.taken.load(Relaxed));
        left.min(most.into()) as u32
    }

    /// Subtracts received packets from the budget.
    pub(super) fn take(&self, packets: u64) {
        self.taken.fetch_add(packets, Relaxed);
    }

    /// Returns whether the budget is used up.
    pub(super) fn is_spent(&self) -> bool {
        self.remaining(1) == 0
    }
}

/// Statistics of one thread. The thread locks them once per batch, the reporter at each report.
pub(super) type SharedRxStats = Arc<Mutex<RxStats>>;

/// Checks received frames and counts them.
#[derive(Debug)]
pub(super) struct RxStats {
    tracker: Tracker,
    ages: Option<Histogram<u64>>,
    dump: bool,
    /// Length in bytes of the virtio-net header before each frame; not part of the frame.
    header: usize,
}

/// A received slot, with its place in its packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedSlot<'r> {
    /// The slot's bytes.
    pub(super) bytes: &'r [u8],
    /// Whether the slot continues the packet of the slot before it.
    pub(super) continues: bool,
    /// Whether the packet continues in the next slot of the queue.
    pub(super) more: bool,
    /// When the slot was received.
    pub(super) time: Nanos,
}

/// Upper bound of the histogram of ages: a minute, in ns. The age of a frame is the time from the
/// timestamp in it to its arrival.
const MAX_AGE_NS: u64 = 60_000_000_000;

/// Returns an empty histogram of ages in ns, with three exact digits.
pub(super) fn ages() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_AGE_NS, 3).expect("the bounds are in order")
}

impl RxStats {
    /// Creates empty statistics. `verify` selects how closely to check frames; `latency` enables
    /// the measurement of ages.
    pub(super) fn new(verify: StampCheck, latency: bool, dump: bool) -> Self {
        let (tracker, ages) = (Tracker::new(verify), latency.then(ages));
        Self { tracker, ages, dump, header: 0 }
    }

    /// Makes [`Self::observe`] skip a virtio-net header of `header` bytes before each frame.
    pub(super) fn with_header(self, header: usize) -> Self {
        Self { header, ..self }
    }

    /// Processes one slot. Returns the age of its frame in ns, or `None` if there is none: only the
    /// first slot of a frame counts, the frame must contain the time at which it was sent, and it
    /// must not be a duplicate.
    #[inline(always)]
    pub(super) fn observe(&mut self, slot: ReceivedSlot<'_>) -> Option<Nanos> {
        let header = if slot.continues { 0 } else { self.header };
        let bytes = slot.bytes.get(header..).unwrap_or_default();
        if self.dump {
            dump(if slot.continues { "rx …" } else { "rx" }, bytes);
        }
        if slot.continues {
            return None;
        }
        let age = self.track(bytes, slot.more, slot.time)?;
        if let Some(ages) = &mut self.ages {
            ages.saturating_record(age);
        }
        Some(age)
    }

    #[inline(always)]
    fn track(&mut self, bytes: &[u8], more: bool, time: Nanos) -> Option<Nanos> {
        // The checksum covers the whole packet, but this slot has only its first part. So only the
        // mark is checked.
        match more.then(|| Stamp::read(bytes, StampCheck::Mark)) {
            Some(Ok(stamp)) => self.tracker.observe_stamp(stamp, time),
            _ => self.tracker.observe(bytes, time),
        }
    }

    /// Returns the counters of loss, order and duplicates.
    pub(super) fn report(&self) -> TrackerReport {
        self.tracker.report()
    }

    /// Returns the histogram of ages, if it is enabled.
    pub(super) fn histogram(&self) -> Option<&Histogram<u64>> {
        self.ages.as_ref()
    }
}

/// The receiving queues of a thread.
pub(super) struct RxQueues {
    queues: Vec<RxQueue>,
    burst: u32,
    /// Length in bytes of the virtio-net header before each frame; not counted as received.
    header: u64,
}

/// A receiving queue. A burst may end in the middle of a packet; the other slots of that packet
/// arrive in a later burst, after bursts of other queues.
struct RxQueue {
    queue: Box<dyn Queue>,
    /// Whether the next slot continues the packet of the previous slot.
    is_mid_packet: bool,
}

impl RxQueues {
    /// Creates a set of queues that receives `burst` slots at a time, and does not count the
    /// `header` bytes before each frame.
    pub(super) fn new(queues: Vec<Box<dyn Queue>>, burst: u32, header: usize) -> Self {
        let queue = |queue| RxQueue { queue, is_mid_packet: false };
        Self { queues: queues.into_iter().map(queue).collect(), burst, header: header as u64 }
    }

    /// Returns the queues, for a waiter.
    pub(super) fn all(&self) -> Vec<&dyn Queue> {
        self.queues.iter().map(|own| &*own.queue).collect()
    }

    /// Returns the first queue, which also sends.
    pub(super) fn first(&mut self) -> &mut dyn Queue {
        &mut *self.queues[0].queue
    }

    /// Receives one batch from each queue and passes each slot to `observe`. Returns the packets
    /// and bytes received.
    #[inline(always)]
    pub(super) fn receive(
        &mut self,
        budget: &PacketBudget,
        progress: &Progress,
        mut observe: impl FnMut(ReceivedSlot<'_>),
    ) -> Result<SentBatch, RunError> {
        let mut sum = SentBatch::default();
        for RxQueue { queue, is_mid_packet } in &mut self.queues {
            queue.rx_sync()?;
            let ring = queue.rings().rx;
            let (avail, max) = (ring.avail(), budget.remaining(self.burst));
            if avail == 0 || max == 0 {
                continue;
            }
            let (time, mut batch) = (now(), SentBatch::default());
            for frame in ring.batch(max).frames() {
                let (bytes, more): (&[u8], _) = (frame.bytes, frame.more());
                let continues = std::mem::replace(is_mid_packet, more);
                observe(ReceivedSlot { bytes, continues, more, time });
                batch.bytes += bytes.len() as u64;
                batch.packets += u64::from(!more);
            }
            batch.bytes = batch.bytes.saturating_sub(batch.packets * self.header);
            budget.take(batch.packets);
            progress.space(avail);
            progress.batch(batch.packets, batch.bytes, time);
            sum.packets += batch.packets;
            sum.bytes += batch.bytes;
        }
        Ok(sum)
    }

    /// Returns whether no queue will ever have more frames, as at the end of a capture.
    fn ended(&mut self) -> bool {
        let mut queues = self.queues.iter_mut().map(|own| &mut own.queue);
        queues.all(|queue| queue.ended() && queue.rings().rx.avail() == 0)
    }

    fn update_stats(&mut self) {
        self.queues.iter_mut().for_each(|own| own.queue.update_stats());
    }
}

/// A waiter waits until any of the queues has received something.
impl WaitSet for RxQueues {
    fn each(&mut self, visit: QueueVisitor<'_>) -> Result<(), RunError> {
        self.queues.iter_mut().try_for_each(|own| visit(&mut *own.queue, Interest::RX))
    }
}

impl GenReceiver {
    /// Receives until `self.until` holds, the budget is spent, or `stop` is set (but see
    /// [`ReceiveUntil::stops_when_told`]).
    pub(super) fn run(mut self, stop: &WorkersStop) -> Result<(), RunError> {
        let progress = self.progress.clone();
        let _done = FinishOnDrop(&progress);
        let mut waiter = waiter_for(&self.queues.all(), self.wait_policy, stop)?;
        let mut silent_since = now();
        let mut next_stats = now() + IDLE_TIMEOUT_NS;
        let mut senders_ended = None;
        while self.should_continue(stop) && !self.until.is_trailing_over(&mut senders_ended) {
            if self.step()? > 0 {
                silent_since = now();
            } else if self.queues.ended() || self.until.is_over(silent_since, &self.progress) {
                break;
            } else if !stop.is_set() {
                waiter.wait(&mut self.queues, Some(MAX_SLEEP))?;
            }
            if now() >= next_stats {
                self.queues.update_stats();
                next_stats = now() + IDLE_TIMEOUT_NS;
            }
        }
        // Frames that arrived before the end was noticed are counted too. Their number is limited,
        // because the source may be endless.
        for _ in 0..MAX_LAST_BATCHES {
            if self.step()? == 0 {
                break;
            }
        }
        self.queues.update_stats();
        self.progress.finish(self.progress.read().last, 0);
        Ok(())
    }

    fn should_continue(&self, stop: &WorkersStop) -> bool {
        let stopping = stop.is_set() && self.until.stops_when_told();
        !stopping && !self.budget.is_spent()
    }

    #[inline(always)]
    fn step(&mut self) -> Result<u64, RunError> {
        let mut rx_stats = lock(&self.rx_stats);
        let observe = |slot: ReceivedSlot<'_>| {
            rx_stats.observe(slot);
        };
        Ok(self.queues.receive(&self.budget, &self.progress, observe)?.packets)
    }
}

/// Locks the statistics of a thread, even if the thread panicked.
pub(super) fn lock(rx_stats: &Mutex<RxStats>) -> std::sync::MutexGuard<'_, RxStats> {
    rx_stats.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReceiveUntil {
    /// Returns whether a stop request ends the receiver. It does not if the receiver waits for
    /// senders of this program: the request ends the senders, and the receiver ends after them.
    fn stops_when_told(&self) -> bool {
        !matches!(self, Self::AllReceived(_))
    }

    /// Returns whether the senders ended at least [`TRAILING_TIMEOUT_NS`] ago. `since` stores the
    /// time at which their end was first noticed.
    fn is_trailing_over(&self, since: &mut Option<Nanos>) -> bool {
        let Self::AllReceived(senders) = self else { return false };
        if !senders.iter().all(|sender| sender.is_done()) {
            return false;
        }
        let time = now();
        time - *since.get_or_insert(time) >= TRAILING_TIMEOUT_NS
    }

    /// Returns whether the condition holds, except that of [`Self::Ended`], which depends on the
    /// queues. `silent_since` is the time of the last frame.
    fn is_over(&self, silent_since: Nanos, progress: &Progress) -> bool {
        let silent = now() - silent_since;
        match self {
            Self::Ended => false,
            Self::Idle => silent >= IDLE_TIMEOUT_NS && progress.packets() > 0,
            Self::AllReceived(senders) => {
                let sent: u64 = senders.iter().map(|sender| sender.packets()).sum();
                let ended = senders.iter().all(|sender| sender.is_done());
                ended && (progress.packets() >= sent || silent >= IN_FLIGHT_TIMEOUT_NS)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use slipring_port::{OpenOptions, Port};
    use slipring_traffic::{Generator, GeneratorShare, Sizes, TrafficPattern};

    use super::*;

    #[test]
    fn a_packet_in_several_slots_is_heard_once() {
        let pattern =
            TrafficPattern { sizes: Sizes::fixed(600).unwrap(), ..TrafficPattern::default() };
        let mut generator = Generator::new(&pattern, 1, GeneratorShare::ONLY).unwrap();
        let mut frame = [0; 600];
        let mut rx_stats = RxStats::new(StampCheck::Checksum, true, false);
        for n in 0..3 {
            generator.write(n, &mut frame);
            let first =
                ReceivedSlot { bytes: &frame[..400], continues: false, more: true, time: n + 7 };
            let last = ReceivedSlot { bytes: &frame[400..], continues: true, more: false, ..first };
            assert_eq!(rx_stats.observe(first), Some(7));
            assert_eq!(rx_stats.observe(last), None);
        }
        let total = rx_stats.report().total;
        assert_eq!((total.frames, total.new, total.corrupt), (3, 3, 0));
        assert_eq!(rx_stats.histogram().unwrap().len(), 3);
    }

    #[test]
    fn packets_of_several_queues_that_a_burst_cuts_are_counted_once() {
        let pattern =
            TrafficPattern { sizes: Sizes::fixed(3000).unwrap(), ..TrafficPattern::default() };
        let mut generator = Generator::new(&pattern, 1, GeneratorShare::ONLY).unwrap();
        let names = ["cut{0@conf:rings=2", "cut}0@conf:rings=2"];
        let names = names.map(|name| slipring_core::parse(name).unwrap());
        let options = OpenOptions { slots: 64, ..OpenOptions::default() };
        let ports = slipring_core::Host::new().open_all(&names, &options).unwrap();
        let [mut source, sink] = <[Port; 2]>::try_from(ports).unwrap();
        let mut frame = [0; 3000];
        for n in 0..20 {
            generator.write(n, &mut frame);
            assert!(source.queues[n as usize % 2].rings().tx.push(&frame));
        }
        source.tx_sync().unwrap();
        // Both queues deliver the first slot of a packet before either delivers the second.
        let mut queues = RxQueues::new(sink.queues, 1, 0);
        let mut stats = RxStats::new(StampCheck::Mark, false, false);
        let (budget, progress) = (PacketBudget::new(u64::MAX), Progress::default());
        for _ in 0..100 {
            queues
                .receive(&budget, &progress, |slot| {
                    stats.observe(slot);
                })
                .unwrap();
        }
        let total = stats.report().total;
        assert_eq!((total.frames, total.new, total.corrupt), (20, 20, 0));
    }

    #[test]
    fn a_budget_is_shared_and_runs_out() {
        let budget = PacketBudget::new(10);
        assert_eq!(budget.remaining(512), 10);
        budget.take(8);
        assert_eq!((budget.remaining(512), budget.is_spent()), (2, false));
        budget.take(5);
        assert!(budget.is_spent());
    }
}
