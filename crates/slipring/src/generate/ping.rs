//! The two ends of a round trip.

use std::sync::Arc;

use slipring_port::{
    Interest, Nanos, Queue, QueueVisitor, RunError, WaitSet, WaitStrategy, Waiter, now,
};
use slipring_ring::forward;
use slipring_traffic::turn_around;
use slipring_wire::MacAddr;
use std::time::Duration;

use super::dump::dump;
use super::progress::{FinishOnDrop, Progress};
use super::receive::{PacketBudget, RxQueues, SharedRxStats, lock};
use super::schedule::SendSchedule;
use super::send::{SendOptions, drain, fill_whole, waiter_for};
use super::source::GenSource;
use slipring_datapath::workers::WorkersStop;

/// The end that sends requests on its first queue, and receives answers on all its queues.
pub(super) struct Pinger<S> {
    /// The queues: requests are sent on the first, answers arrive on all.
    pub(super) queues: RxQueues,
    /// The source of the requests' frames.
    pub(super) source: S,
    /// When requests are sent. Without a rate, a batch of requests is sent when all those of the
    /// previous batch were answered, or [`REPLY_TIMEOUT_NS`] after that batch.
    pub(super) schedule: SendSchedule,
    /// How frames are put into slots.
    pub(super) options: SendOptions,
    /// Number of requests left to send.
    pub(super) remaining: u64,
    /// Counters of received frames.
    pub(super) rx_stats: SharedRxStats,
    /// Counts of sent requests, published for the reports.
    pub(super) sent: Arc<Progress>,
    /// Counts of received answers, published for the reports.
    pub(super) answers: Arc<Progress>,
}

/// Maximum time to wait for an answer, in ns.
const REPLY_TIMEOUT_NS: Nanos = 1_000_000_000;
/// A sleep may last this many ns too long. So when less time is left, the thread polls instead of
/// sleeping.
const WAKE_MARGIN_NS: Nanos = 60_000;

impl<S: GenSource> Pinger<S> {
    /// Sends requests until all are sent, and answered or timed out, or until `stop` is set.
    pub(super) fn run(mut self, stop: &WorkersStop) -> Result<(), RunError> {
        let (sent, answers) = (self.sent.clone(), self.answers.clone());
        let _done = (FinishOnDrop(&sent), FinishOnDrop(&answers));
        let mut waiter = waiter_for(&self.queues.all(), self.options.wait_policy, stop)?;
        self.schedule.begin(&self.sent);
        // The number of received answers is not limited.
        let all = PacketBudget::new(u64::MAX);
        let (mut answered, mut sent) = (0, 0);
        while self.remaining > 0 && !stop.is_set() {
            let count = self.send()?;
            self.remaining -= count;
            sent += count;
            let next = match self.schedule.due(None) {
                Some(due) if self.schedule.is_paced() => (due, u64::MAX),
                _ => (now() + REPLY_TIMEOUT_NS, sent),
            };
            self.receive_until(&mut waiter, &all, &mut answered, next, stop)?;
            if !self.schedule.is_paced() {
                // Unanswered requests count as lost: later rounds do not wait for them.
                answered = sent;
            }
        }
        if self.schedule.is_paced() {
            self.receive_until(
                &mut waiter,
                &all,
                &mut answered,
                (now() + REPLY_TIMEOUT_NS, sent),
                stop,
            )?;
        }
        let last = drain(self.queues.first())?;
        self.sent.finish(last, self.schedule.forfeited());
        Ok(())
    }

    fn send(&mut self) -> Result<u64, RunError> {
        let time = now();
        let max = u64::from(self.options.burst).min(self.remaining) as u32;
        let queue = self.queues.first();
        let ring = queue.rings().tx;
        let batch =
            fill_whole(ring, &mut self.source, &mut self.schedule, self.options.stamp, time, max);
        queue.tx_sync()?;
        if batch.packets > 0 {
            self.sent.batch(batch.packets, batch.bytes, time);
        }
        Ok(batch.packets)
    }

    /// Receives answers until the time `until`, until `answered` is `enough`, or until `stop` is
    /// set.
    fn receive_until(
        &mut self,
        waiter: &mut Waiter,
        all: &PacketBudget,
        answered: &mut u64,
        (until, enough): (Nanos, u64),
        stop: &WorkersStop,
    ) -> Result<(), RunError> {
        loop {
            *answered += self.receive(all)?;
            let time = now();
            if *answered >= enough || time >= until || stop.is_set() {
                return Ok(());
            }
            if until - time > WAKE_MARGIN_NS {
                waiter.wait(
                    &mut self.queues,
                    Some(Duration::from_nanos(until - time - WAKE_MARGIN_NS)),
                )?;
            }
        }
    }

    /// Receives arrived frames; returns the number of new answers.
    fn receive(&mut self, all: &PacketBudget) -> Result<u64, RunError> {
        let mut rx_stats = lock(&self.rx_stats);
        let mut new = 0;
        self.queues.receive(all, &self.answers, |slot| {
            new += u64::from(rx_stats.observe(slot).is_some());
        })?;
        Ok(new)
    }
}

/// The end that sends every frame back to its sender, on the queue on which the frame arrived.
pub(super) struct Ponger {
    /// The queues on which frames arrive and answers are sent.
    pub(super) queues: Vec<Box<dyn Queue>>,
    /// The events for which each queue waits: frames, or space for answers.
    pub(super) interests: Vec<Interest>,
    /// Maximum number of slots that are handled at a time.
    pub(super) burst: u32,
    /// How many frames all threads together may answer.
    pub(super) budget: Arc<PacketBudget>,
    /// Length in bytes of the virtio-net header before each frame. The header is sent back with the
    /// frame: if it says that the request's checksum is incomplete, the answer's checksum is
    /// incomplete too.
    pub(super) header: usize,
    /// The source address of answers to multicast and broadcast frames.
    pub(super) mac: MacAddr,
    /// How a thread waits when it has nothing to do.
    pub(super) wait_policy: WaitStrategy,
    /// Whether to show every frame.
    pub(super) dump: bool,
    /// Counts of sent answers, published for the reports.
    pub(super) progress: Arc<Progress>,
}

impl Ponger {
    /// Answers requests until `stop` is set or the budget is spent.
    pub(super) fn run(mut self, stop: &WorkersStop) -> Result<(), RunError> {
        let progress = self.progress.clone();
        let _done = FinishOnDrop(&progress);
        let queues: Vec<_> = self.queues.iter().map(AsRef::as_ref).collect();
        let mut waiter = waiter_for(&queues, self.wait_policy, stop)?;
        while !stop.is_set() && !self.budget.is_spent() {
            if self.step()? == 0 {
                self.update_interests();
                waiter.wait(&mut self, Some(Duration::from_millis(50)))?;
            }
        }
        for queue in &mut self.queues {
            drain(&mut **queue)?;
        }
        self.progress.finish(self.progress.read().last, 0);
        Ok(())
    }

    fn step(&mut self) -> Result<u64, RunError> {
        let mut sum = 0;
        for queue in &mut self.queues {
            queue.rx_sync()?;
            let max = self.budget.remaining(self.burst);
            let rings = queue.rings();
            let room = rings.rx.avail().min(rings.tx.avail()).min(max);
            let count = rings.rx.whole_packets(room);
            let (mut packets, mut bytes, mut inside) = (0, 0, false);
            for i in 0..count {
                let Some(frame) = rings.rx.frame(i) else { break };
                let first = !std::mem::replace(&mut inside, frame.more());
                let header = if first { self.header } else { 0 };
                let part = frame.bytes.get_mut(header..).unwrap_or_default();
                bytes += part.len() as u64;
                if self.dump {
                    dump("rx", part);
                }
                if first {
                    turn_around(part, self.mac);
                    packets += 1;
                }
            }
            (0..count).for_each(|i| rings.rx.write_back(i));
            forward(rings.rx, rings.tx, count);
            if count > 0 || rings.tx.with_driver() > 0 {
                queue.tx_sync()?;
            }
            if count > 0 {
                self.budget.take(packets);
                self.progress.batch(packets, bytes, now());
                sum += packets;
            }
        }
        Ok(sum)
    }

    fn update_interests(&mut self) {
        for (queue, want) in self.queues.iter_mut().zip(&mut self.interests) {
            let rings = queue.rings();
            let blocked = rings.rx.avail() > 0 && rings.tx.avail() == 0;
            *want = if blocked { Interest::TX } else { Interest::RX };
        }
    }
}

impl WaitSet for Ponger {
    fn each(&mut self, visit: QueueVisitor<'_>) -> Result<(), RunError> {
        let queues = self.queues.iter_mut().zip(&self.interests);
        queues.into_iter().try_for_each(|(queue, &want)| visit(&mut **queue, want))
    }
}
