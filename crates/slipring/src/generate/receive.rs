//! The receiving loop, and what it makes of frames: loss, order, age.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use slipring_port::{Interest, Nanos, Queue, RunError, Visit, WaitSet, WaitStrategy, now};
use slipring_traffic::{Stamp, StampCheck, Tracker, TrackerReport};

use super::dump::dump;
use super::progress::{FinishOnDrop, Progress};
use super::send::{SentBatch, waiter_for};
use slipring_datapath::workers::WorkersStop;

/// What one thread receives, from the queues that fell to it.
pub(super) struct GenReceiver {
    /// The queues.
    pub(super) queues: RxQueues,
    /// What listens.
    pub(super) rx_stats: SharedRxStats,
    /// How many packets all threads may take together.
    pub(super) budget: Arc<PacketBudget>,
    /// When to end by itself.
    pub(super) until: ReceiveUntil,
    /// How to wait for frames.
    pub(super) wait_policy: WaitStrategy,
    /// What was done.
    pub(super) progress: Arc<Progress>,
}

/// When a receiver ends by itself.
pub(super) enum ReceiveUntil {
    /// When the port says that there is nothing more.
    Ended,
    /// When nothing has come for a second, after the first.
    Idle,
    /// When all that these have sent is here, or nothing has come for a while since they ended.
    AllReceived(Vec<Arc<Progress>>),
}

/// How long nothing comes, for [`Until::Idle`].
const IDLE_TIMEOUT_NS: Nanos = 1_000_000_000;
/// How long frames may be under way after the last was sent.
const IN_FLIGHT_TIMEOUT_NS: Nanos = 300_000_000;
/// How long frames are taken after the last was sent, though others keep coming: those of other
/// senders, which never end.
const TRAILING_TIMEOUT_NS: Nanos = 2_000_000_000;
/// Batches taken after the end, at most.
const MAX_LAST_BATCHES: u32 = 4;
/// How long a receiver sleeps at most.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// How many packets several threads may take together.
#[derive(Debug)]
pub(super) struct PacketBudget {
    limit: u64,
    taken: AtomicU64,
}

impl PacketBudget {
    /// `limit` packets.
    pub(super) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, taken: AtomicU64::new(0) })
    }

    /// How many are left, at most `most`.
    pub(super) fn remaining(&self, most: u32) -> u32 {
        let left = self.limit.saturating_sub(self.taken.load(Relaxed));
        left.min(most.into()) as u32
    }

    /// Takes.
    pub(super) fn take(&self, packets: u64) {
        self.taken.fetch_add(packets, Relaxed);
    }

    /// Whether none are left.
    pub(super) fn is_spent(&self) -> bool {
        self.remaining(1) == 0
    }
}

/// What one thread has heard. Locked by it once per batch, and by the reporter now and then.
pub(super) type SharedRxStats = Arc<Mutex<RxStats>>;

/// Looks at received frames.
#[derive(Debug)]
pub(super) struct RxStats {
    tracker: Tracker,
    ages: Option<Histogram<u64>>,
    dump: bool,
    /// Bytes before each frame that are not part of it.
    header: usize,
    /// Whether the next slot goes on with a packet.
    is_mid_packet: bool,
}

/// Longest age that is told apart from longer ones: a minute, in ns.
const MAX_AGE_NS: u64 = 60_000_000_000;

/// An empty histogram of ages in ns, three digits exact.
pub(super) fn ages() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_AGE_NS, 3).expect("the bounds are in order")
}

impl RxStats {
    /// Hears nothing yet. `verify` says how closely to listen, `latency` whether ages count.
    pub(super) fn new(verify: StampCheck, latency: bool, dump: bool) -> Self {
        let (tracker, ages) = (Tracker::new(verify), latency.then(ages));
        Self { tracker, ages, dump, header: 0, is_mid_packet: false }
    }

    /// Hears frames behind a virtio-net header of so many bytes.
    pub(super) fn with_header(self, header: usize) -> Self {
        Self { header, ..self }
    }

    /// One slot of a frame that arrived at `time`, the last one unless `more`. Returns the age of
    /// a frame that is new and says when it was sent.
    #[inline(always)]
    pub(super) fn observe(&mut self, bytes: &[u8], more: bool, time: Nanos) -> Option<Nanos> {
        let goes_on = std::mem::replace(&mut self.is_mid_packet, more);
        let header = if goes_on { 0 } else { self.header };
        let bytes = bytes.get(header..).unwrap_or_default();
        if self.dump {
            dump(if goes_on { "rx …" } else { "rx" }, bytes);
        }
        if goes_on {
            return None;
        }
        let age = self.track(bytes, more, time)?;
        if let Some(ages) = &mut self.ages {
            ages.saturating_record(age);
        }
        Some(age)
    }

    #[inline(always)]
    fn track(&mut self, bytes: &[u8], more: bool, time: Nanos) -> Option<Nanos> {
        // The checksum goes over all of a packet; here is its first part only.
        match more.then(|| Stamp::read(bytes, StampCheck::Mark)) {
            Some(Ok(stamp)) => self.tracker.observe_stamp(stamp, time),
            _ => self.tracker.observe(bytes, time),
        }
    }

    /// What was counted.
    pub(super) fn report(&self) -> TrackerReport {
        self.tracker.report()
    }

    /// The ages, where they count.
    pub(super) fn histogram(&self) -> Option<&Histogram<u64>> {
        self.ages.as_ref()
    }
}

/// The receiving queues of a thread.
pub(super) struct RxQueues {
    queues: Vec<Box<dyn Queue>>,
    burst: u32,
    /// Bytes before each frame that do not count as its own.
    header: u64,
}

impl RxQueues {
    /// Takes `burst` slots at a time; before each frame stand `header` bytes that do not count.
    pub(super) fn new(queues: Vec<Box<dyn Queue>>, burst: u32, header: usize) -> Self {
        Self { queues, burst, header: header as u64 }
    }

    /// The queues, for a waiter.
    pub(super) fn all(&self) -> Vec<&dyn Queue> {
        self.queues.iter().map(AsRef::as_ref).collect()
    }

    /// The first one, which also sends.
    pub(super) fn first(&mut self) -> &mut dyn Queue {
        &mut *self.queues[0]
    }

    /// Takes one batch from each queue and shows it to `hear`: bytes, whether the packet goes on,
    /// when it was taken. Returns what was taken.
    #[inline(always)]
    pub(super) fn receive(
        &mut self,
        budget: &PacketBudget,
        progress: &Progress,
        mut hear: impl FnMut(&[u8], bool, Nanos),
    ) -> Result<SentBatch, RunError> {
        let mut sum = SentBatch::default();
        for queue in &mut self.queues {
            queue.rx_sync()?;
            let ring = queue.rings().rx;
            let (avail, max) = (ring.avail(), budget.remaining(self.burst));
            if avail == 0 || max == 0 {
                continue;
            }
            let (time, mut batch) = (now(), SentBatch::default());
            for frame in ring.batch(max).frames() {
                hear(frame.bytes, frame.more(), time);
                batch.bytes += frame.bytes.len() as u64;
                batch.packets += u64::from(!frame.more());
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

    /// Whether no frame will ever come again.
    fn ended(&mut self) -> bool {
        self.queues.iter_mut().all(|queue| queue.ended() && queue.rings().rx.avail() == 0)
    }

    fn update_stats(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.update_stats());
    }
}

/// All of them for receiving.
impl WaitSet for RxQueues {
    fn each(&mut self, visit: Visit<'_>) -> Result<(), RunError> {
        self.queues.iter_mut().try_for_each(|queue| visit(&mut **queue, Interest::RX))
    }
}

impl GenReceiver {
    /// Receives until there is an end to it.
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
        // What came before the end was noticed counts too: a ring's worth, not an endless source.
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
        let told = stop.is_set() && self.until.stops_when_told();
        !told && !self.budget.is_spent()
    }

    #[inline(always)]
    fn step(&mut self) -> Result<u64, RunError> {
        let mut ear = lock(&self.rx_stats);
        let hear = |bytes: &[u8], more, time| {
            ear.observe(bytes, more, time);
        };
        Ok(self.queues.receive(&self.budget, &self.progress, hear)?.packets)
    }
}

/// Locks an ear; one whose thread died still says what it had heard.
pub(super) fn lock(ear: &Mutex<RxStats>) -> std::sync::MutexGuard<'_, RxStats> {
    ear.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReceiveUntil {
    /// Whether to end when told to stop. One that hears others waits for them: they stop too.
    fn stops_when_told(&self) -> bool {
        !matches!(self, Self::AllReceived(_))
    }

    /// Whether the senders ended so long ago that what comes now is not theirs. `since` keeps when
    /// that was first seen.
    fn is_trailing_over(&self, since: &mut Option<Nanos>) -> bool {
        let Self::AllReceived(senders) = self else { return false };
        if !senders.iter().all(|sender| sender.is_done()) {
            return false;
        }
        let time = now();
        time - *since.get_or_insert(time) >= TRAILING_TIMEOUT_NS
    }

    /// Whether the end has come, when nothing has been received since `silent_since`.
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
    use slipring_traffic::{Generator, GeneratorShare, Sizes, TrafficPattern};

    use super::*;

    #[test]
    fn a_packet_in_several_slots_is_heard_once() {
        let pattern =
            TrafficPattern { sizes: Sizes::fixed(600).unwrap(), ..TrafficPattern::default() };
        let mut generator = Generator::new(&pattern, 1, GeneratorShare::ONLY).unwrap();
        let mut frame = [0; 600];
        let mut ear = RxStats::new(StampCheck::Checksum, true, false);
        for n in 0..3 {
            generator.write(n, &mut frame);
            assert_eq!(ear.observe(&frame[..400], true, n + 7), Some(7));
            assert_eq!(ear.observe(&frame[400..], false, n + 7), None);
        }
        let total = ear.report().total;
        assert_eq!((total.frames, total.new, total.corrupt), (3, 3, 0));
        assert_eq!(ear.histogram().unwrap().len(), 3);
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
