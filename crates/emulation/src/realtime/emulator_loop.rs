//! The loop of an emulator. Between two of its iterations (turns), it sleeps until shortly before
//! the next event, then spins.

use std::os::fd::AsFd;
use std::time::Duration;

use slipring_link::ChangeError;
use slipring_port::{Nanos, RunError, WaitOutcome, WaitStrategy, Waiter, now};

use super::channel::{EmulatorChannel, PlanChange};
use super::emulator::{Emulator, TurnResult};
use super::frame_tap::FrameTap;
use super::placement::{PausePacer, ThreadPlacement};
use slipring_datapath::workers::WorkersStop;

/// A sleep is set to end this many ns before the next event, because it may end late by up to about
/// this time. The remaining time is spent spinning.
const WAKE_MARGIN_NS: Nanos = 30_000;
/// Maximum duration of a sleep, in ns.
const MAX_SLEEP_NS: Nanos = 500_000_000;
/// Maximum duration of a sleep while due frames wait for space in a tx ring, in ns.
const BLOCKED_SLEEP_NS: Nanos = 1_000_000;
/// Interval at which the kernel's drop counters are read, in ns.
const STATS_PERIOD_NS: Nanos = 500_000_000;
/// Maximum time to wait at the end of a run until the ports have sent the frames in their tx rings,
/// in ns.
const DRAIN_TIMEOUT_NS: Nanos = 100_000_000;

/// Runs an emulator in the calling thread.
pub(super) struct EmulatorLoop<'d, T> {
    emulator: Emulator<T>,
    wait_policy: WaitStrategy,
    channel: &'d EmulatorChannel,
    next_stats: Nanos,
    idle: IdleEstimate,
    pauses: PausePacer,
}

/// Measures idle periods, in which no frames arrive or leave: the start of the current one, and the
/// moving average of their lengths.
#[derive(Debug, Default)]
struct IdleEstimate {
    since: Nanos,
    typical_ns: Nanos,
}

impl<'d, T: FrameTap> EmulatorLoop<'d, T> {
    /// Creates a loop that answers requests on `channel`.
    pub(super) fn new(
        emulator: Emulator<T>,
        wait_policy: WaitStrategy,
        channel: &'d EmulatorChannel,
    ) -> Self {
        let idle = IdleEstimate::default();
        let pauses = PausePacer::of(&ThreadPlacement::default());
        Self { emulator, wait_policy, channel, next_stats: 0, idle, pauses }
    }

    /// Sets the pauses that the scheduling class of the thread requires.
    pub(super) fn with_pauses(self, breather: PausePacer) -> Self {
        Self { pauses: breather, ..self }
    }

    /// Emulates until it is stopped, or until a port has ended and all received frames have left.
    /// Publishes the last state even after an error.
    pub(super) fn run(&mut self, stop: &WorkersStop) -> Result<(), RunError> {
        let result = self.run_turns(stop).and_then(|()| self.drain());
        self.update_stats(now());
        self.channel.publish(self.emulator.state(now()));
        result
    }

    fn run_turns(&mut self, stop: &WorkersStop) -> Result<(), RunError> {
        let mut waiter = self.waiter(stop)?;
        while !stop.is_set() {
            let turn = self.emulator.turn(now)?;
            self.handle_requests(turn.at_ns);
            self.pauses.pause_if_due(turn.at_ns);
            if self.emulator.is_done(turn) {
                break;
            }
            match turn.received + turn.sent {
                0 => self.sleep_if_idle(&mut waiter, turn)?,
                _ => self.idle.end(turn.at_ns),
            }
        }
        Ok(())
    }

    fn waiter(&self, stop: &WorkersStop) -> Result<Waiter, RunError> {
        let failed = |error| RunError::system("emulate", "wait for frames", error);
        let queues = self.emulator.ports.iter().flat_map(|side| &side.queues);
        let peer = self.emulator.peer();
        // With any other strategy, the waiter would spin on the queues only. It would not notice
        // frames from the other thread.
        let patience = if peer.is_some() { WaitStrategy::Sleep } else { self.wait_policy };
        let mut waiter = Waiter::new(queues.map(AsRef::as_ref), patience).map_err(failed)?;
        peer.map_or(Ok(()), |peer| waiter.add_fd(peer.as_fd())).map_err(failed)?;
        waiter.add_fd(stop.doorbell.as_fd()).map_err(failed)?;
        waiter.add_fd(self.channel.as_fd()).map_err(failed)?;
        Ok(waiter)
    }

    /// Handles the requests of other threads.
    #[inline]
    fn handle_requests(&mut self, now: Nanos) {
        for change in self.channel.take_changes() {
            // Sending fails if the requesting thread has ended; this does not matter.
            let _ = change.answer.send(self.change(&change, now));
        }
        if self.channel.is_state_requested() {
            self.channel.publish(self.emulator.state(now));
        }
        if now >= self.next_stats {
            self.update_stats(now);
        }
    }

    /// Applies a change, now or at its time. The result depends only on the plan, so it is the same
    /// in the two threads of a pipeline.
    fn change(&mut self, change: &PlanChange, now: Nanos) -> Result<(), ChangeError> {
        if change.replaces {
            self.emulator.network.cancel_changes();
        }
        self.emulator.network.change(change.at_ns.max(now), &change.plan)
    }

    /// Sleeps if the next event is far enough away.
    fn sleep_if_idle(&mut self, waiter: &mut Waiter, turn: TurnResult) -> Result<(), RunError> {
        let time = self.time_to_sleep(turn.at_ns);
        let Some(time) = time.filter(|_| self.may_sleep(turn.at_ns)) else {
            std::hint::spin_loop();
            return Ok(());
        };
        let timeout = Some(Duration::from_nanos(time));
        let woken = waiter.wait(&mut self.emulator, timeout);
        let rung = matches!(woken, Ok(WaitOutcome::Interrupted));
        if rung {
            self.channel.acknowledge();
        }
        if let Some(peer) = self.emulator.peer() {
            peer.end_sleep(rung);
        }
        woken.map(drop)
    }

    /// Returns whether this thread may sleep. In a pipeline, it may not if the idle period will
    /// probably be short. Otherwise it announces the sleep to the other thread and then checks
    /// whether there is still nothing to do.
    fn may_sleep(&self, now: Nanos) -> bool {
        let Some(peer) = self.emulator.peer() else { return true };
        let patient = matches!(self.wait_policy, WaitStrategy::Adaptive(most) if self.idle.is_short(now, most));
        !patient && peer.may_sleep()
    }

    /// Returns for how many ns to sleep; `None` if the next event is too close for a sleep, or the
    /// thread never sleeps.
    fn time_to_sleep(&self, now: Nanos) -> Option<Nanos> {
        if self.wait_policy == WaitStrategy::Spin {
            return None;
        }
        let longest = if self.emulator.is_blocked() { BLOCKED_SLEEP_NS } else { MAX_SLEEP_NS };
        let due = self.emulator.next_ns().unwrap_or(Nanos::MAX);
        let time = due.saturating_sub(WAKE_MARGIN_NS).saturating_sub(now).min(longest);
        (time > 0).then_some(time)
    }

    fn update_stats(&mut self, now: Nanos) {
        let queues = self.emulator.ports.iter_mut().flat_map(|side| &mut side.queues);
        queues.for_each(|queue| queue.update_stats());
        self.next_stats = now + STATS_PERIOD_NS;
    }

    /// Waits until the ports have sent the frames in their tx rings, but not longer than
    /// [`DRAIN_TIMEOUT_NS`]. Frames inside the links stay there and are counted as in flight.
    fn drain(&mut self) -> Result<(), RunError> {
        let until = now() + DRAIN_TIMEOUT_NS;
        for queue in self.emulator.ports.iter_mut().flat_map(|side| &mut side.queues) {
            queue.tx_sync()?;
            while queue.rings().tx.with_driver() > 0 && now() < until {
                queue.tx_sync()?;
            }
        }
        Ok(())
    }
}

impl IdleEstimate {
    /// Ends an idle period.
    fn end(&mut self, now: Nanos) {
        self.typical_ns = (self.typical_ns * 7 + now.saturating_sub(self.since)) / 8;
        self.since = now;
    }

    /// Returns whether the idle period will probably end before it has lasted `most` ns.
    fn is_short(&self, now: Nanos, most: Nanos) -> bool {
        self.typical_ns <= most && now.saturating_sub(self.since) < most
    }
}
