//! What happens between two turns: sleeping until shortly before something is due, then spinning.

use std::os::fd::AsFd;
use std::time::Duration;

use slipring_link::ChangeError;
use slipring_port::{Nanos, Patience, RunError, Waiter, Woken, now};

use super::board::{Board, Change};
use super::emulator::{Emulator, Turn};
use super::place::{Breather, Place};
use super::tap::Tap;
use slipring_program::workers::Stop;

/// How long before something is due a sleep ends. A sleep ends late by about as much; what is
/// left is spun.
const WAKE_MARGIN: Nanos = 30_000;
/// A sleep that nothing ends is ended anyway, to look at everything again.
const LONGEST_SLEEP: Nanos = 500_000_000;
/// How often ports are looked at where frames wait for room.
const BLOCKED_SLEEP: Nanos = 1_000_000;
/// How often the kernel's drop counts are fetched.
const STATS_PERIOD: Nanos = 500_000_000;
/// How long frames in the ports' rings may take to leave at the end.
const DRAIN: Nanos = 100_000_000;

/// An emulator at work.
pub(super) struct Drive<'d, T> {
    emulator: Emulator<T>,
    patience: Patience,
    board: &'d Board,
    next_stats: Nanos,
    lull: Lull,
    breather: Breather,
}

/// How long nothing has happened, and how long that usually takes.
#[derive(Debug, Default)]
struct Lull {
    since: Nanos,
    usual: Nanos,
}

impl<'d, T: Tap> Drive<'d, T> {
    /// An emulator that answers to `board`.
    pub(super) fn new(emulator: Emulator<T>, patience: Patience, board: &'d Board) -> Self {
        let lull = Lull::default();
        let breather = Breather::of(&Place::default());
        Self { emulator, patience, board, next_stats: 0, lull, breather }
    }

    /// With the pauses that its thread needs.
    pub(super) fn breathing(self, breather: Breather) -> Self {
        Self { breather, ..self }
    }

    /// Emulates until it is told to stop, or a capture was read through and all of it has left.
    /// The last state stands on the board afterwards, whatever happened.
    pub(super) fn run(&mut self, stop: &Stop) -> Result<(), RunError> {
        let result = self.turns(stop).and_then(|()| self.drain());
        self.update_stats(now());
        self.board.show(self.emulator.state(now()));
        result
    }

    fn turns(&mut self, stop: &Stop) -> Result<(), RunError> {
        let mut waiter = self.waiter(stop)?;
        while !stop.is_set() {
            let turn = self.emulator.turn(now)?;
            self.serve(turn.at_ns);
            self.breather.breathe(turn.at_ns);
            if self.emulator.is_done(turn) {
                break;
            }
            match turn.taken + turn.sent {
                0 => self.rest(&mut waiter, turn)?,
                _ => self.lull.end(turn.at_ns),
            }
        }
        Ok(())
    }

    fn waiter(&self, stop: &Stop) -> Result<Waiter, RunError> {
        let failed = |error| RunError::system("emulate", "wait for frames", error);
        let queues = self.emulator.sides.iter().flat_map(|side| &side.queues);
        let far = self.emulator.far();
        // A waiter looks at queues only: for what another thread brings, turns are made instead.
        let patience = if far.is_some() { Patience::Sleep } else { self.patience };
        let mut waiter = Waiter::new(queues.map(AsRef::as_ref), patience).map_err(failed)?;
        far.map_or(Ok(()), |far| waiter.also(far.as_fd())).map_err(failed)?;
        waiter.also(stop.bell.as_fd()).map_err(failed)?;
        waiter.also(self.board.as_fd()).map_err(failed)?;
        Ok(waiter)
    }

    /// Does what other threads asked for.
    #[inline]
    fn serve(&mut self, now: Nanos) {
        for change in self.board.take_changes() {
            // Nobody may wait for the answer any more.
            let _ = change.answer.send(self.change(&change, now));
        }
        if self.board.is_asked() {
            self.board.show(self.emulator.state(now));
        }
        if now >= self.next_stats {
            self.update_stats(now);
        }
    }

    /// Accepts a change or not, by its plan alone: two threads that are handed the same changes
    /// answer alike.
    fn change(&mut self, change: &Change, now: Nanos) -> Result<(), ChangeError> {
        if change.replaces {
            self.emulator.network.cancel_changes();
        }
        self.emulator.network.change(change.at_ns.max(now), &change.plan)
    }

    /// Sleeps if there is time for it.
    fn rest(&mut self, waiter: &mut Waiter, turn: Turn) -> Result<(), RunError> {
        let time = self.time_to_sleep(turn.at_ns);
        let Some(time) = time.filter(|_| self.may_sleep(turn.at_ns)) else {
            std::hint::spin_loop();
            return Ok(());
        };
        let timeout = Some(Duration::from_nanos(time));
        let woken = waiter.wait(&mut self.emulator, timeout);
        let rung = matches!(woken, Ok(Woken::Interrupted));
        if rung {
            self.board.silence();
        }
        if let Some(far) = self.emulator.far() {
            far.woke(rung);
        }
        woken.map(drop)
    }

    /// Whether the other thread of a pipeline is to wake this one from now on.
    fn may_sleep(&self, now: Nanos) -> bool {
        let Some(far) = self.emulator.far() else { return true };
        let patient =
            matches!(self.patience, Patience::Adaptive(most) if self.lull.is_short(now, most));
        !patient && far.may_sleep()
    }

    /// How long nothing will be due.
    fn time_to_sleep(&self, now: Nanos) -> Option<Nanos> {
        if self.patience == Patience::Spin {
            return None;
        }
        let longest = if self.emulator.is_blocked() { BLOCKED_SLEEP } else { LONGEST_SLEEP };
        let due = self.emulator.next_ns().unwrap_or(Nanos::MAX);
        let time = due.saturating_sub(WAKE_MARGIN).saturating_sub(now).min(longest);
        (time > 0).then_some(time)
    }

    fn update_stats(&mut self, now: Nanos) {
        let queues = self.emulator.sides.iter_mut().flat_map(|side| &mut side.queues);
        queues.for_each(|queue| queue.update_stats());
        self.next_stats = now + STATS_PERIOD;
    }

    /// Lets frames that the ports have leave, for a bounded time. Those inside the links stay
    /// there, counted as in flight.
    fn drain(&mut self) -> Result<(), RunError> {
        let until = now() + DRAIN;
        for queue in self.emulator.sides.iter_mut().flat_map(|side| &mut side.queues) {
            queue.tx_sync()?;
            while queue.rings().tx.with_driver() > 0 && now() < until {
                queue.tx_sync()?;
            }
        }
        Ok(())
    }
}

impl Lull {
    /// Something happened.
    fn end(&mut self, now: Nanos) {
        self.usual = (self.usual * 7 + now.saturating_sub(self.since)) / 8;
        self.since = now;
    }

    /// Whether something will probably happen before it has lasted that long.
    fn is_short(&self, now: Nanos, most: Nanos) -> bool {
        self.usual <= most && now.saturating_sub(self.since) < most
    }
}
