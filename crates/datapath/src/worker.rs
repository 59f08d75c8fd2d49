//! The loop of every program that moves frames between ports.
//!
//! ```text
//!   run:   wait -> turn, turn, ... until nothing moves -> wait -> ... -> drain
//!   turn:  control tasks -> what is due -> a burst of each input -> flush
//!                              '------------- the program's FrameProcessor
//! ```
//!
//! 1. A program implements [`FrameProcessor`]: how to process a burst, and when its next event is
//!    due.
//! 2. A [`Worker`] connects the processor to the queues of one thread ([`WorkerQueues`]).
//! 3. [`Worker::run`] is the loop around them in an [`Environment`]: the machine's in a run
//!    ([`Worker::into_task`]), [`crate::virtual_time`] in a test.
//!
//! # Invariants
//! 1. Every frame that a turn sends is published in that turn, once per queue.
//! 2. The time that a program sees for a burst is never earlier than its arrival.
//! 3. At the end, held and queued frames have [`DRAIN_TIMEOUT_NS`] to leave.
//!
//! Not for `gen` and `replay`, which generate their frames, and the link emulator, whose turns
//! follow the release times of frames.

use std::os::fd::BorrowedFd;

use slipring_port::{Nanos, RunError, WaitStrategy};

use crate::environment::{Clock, Environment, RealTime};
use crate::queues::WorkerQueues;
use crate::workers::WorkerTask;

/// Longest sleep; after it, all conditions are checked again.
pub const MAX_SLEEP_NS: Nanos = 500_000_000;
/// Time between two reads of the drop counts that the kernel keeps.
const STATS_PERIOD_NS: Nanos = 500_000_000;
/// A sleep ends this long before the next event, and the loop polls until the event, because the
/// kernel ends a sleep too late by about this time.
const WAKE_MARGIN_NS: Nanos = 30_000;
/// Maximum time for frames to leave at the end.
pub const DRAIN_TIMEOUT_NS: Nanos = 100_000_000;

/// How a program processes frames.
///
/// A processor neither syncs nor sleeps, and reads the time only from `clock`: it takes frames from
/// the rings in `queues`, and puts frames into them.
pub trait FrameProcessor: Send + 'static {
    /// Takes at most a burst of frames from `queues[input]`, which has at least one. If a frame has
    /// to wait for space, calls [`block`](crate::queues::WorkerQueue::block) there and
    /// [`await_room`](crate::queues::WorkerQueue::await_room) on the queue that has no space.
    /// Returns the number of slots taken.
    fn process(&mut self, queues: &mut WorkerQueues, input: usize, clock: &impl Clock) -> u32;

    /// Executes tasks that other threads have queued for this one. Returns whether frames may be
    /// taken.
    fn run_tasks(&mut self, _queues: &mut WorkerQueues, _clock: &impl Clock) -> bool {
        true
    }

    /// Sends due and held frames before the inputs of a turn. Returns the number of frames.
    fn before_inputs(&mut self, _queues: &mut WorkerQueues, _clock: &impl Clock) -> u32 {
        0
    }

    /// Sends due frames after the inputs of a turn.
    fn after_inputs(&mut self, _queues: &mut WorkerQueues, _clock: &impl Clock) {}

    /// Returns when the processor's next event is due, even if no frame arrives.
    fn next_due(&self) -> Option<Nanos> {
        None
    }

    /// Returns a descriptor that also ends a wait when it is readable; [`Self::run_tasks`] must
    /// clear it.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether the processor has finished: no frame will come, and none is held.
    fn is_finished(&mut self, queues: &mut WorkerQueues) -> bool;

    /// Sends held frames at the end. The loop calls this function until it returns true, which
    /// means that no frame is left.
    ///
    /// # Errors
    /// If a port is lost.
    fn drain(&mut self, _: &mut WorkerQueues, _: &impl Clock) -> Result<bool, RunError> {
        Ok(true)
    }

    /// Publishes the program's counters, after each turn.
    fn publish(&mut self) {}

    /// Publishes the last counters, after the end.
    fn publish_final(&mut self) {
        self.publish();
    }
}

/// One thread of a program: its processor and its queues.
pub struct Worker<P> {
    /// The processor of the frames.
    pub processor: P,
    /// The queues.
    pub queues: WorkerQueues,
    next_stats: Nanos,
}

impl<P: FrameProcessor> Worker<P> {
    /// Joins a processor to its queues.
    pub fn new(processor: P, queues: WorkerQueues) -> Self {
        Self { processor, queues, next_stats: 0 }
    }

    /// Moves frames until it must stop, or until the processor has finished.
    ///
    /// # Errors
    /// If a port is lost.
    pub fn run(&mut self, environment: &mut impl Environment) -> Result<(), RunError> {
        while !environment.is_stopped() && !self.processor.is_finished(&mut self.queues) {
            let until = self.wake_time(environment);
            environment.wait(&mut self.queues, until)?;
            while self.turn(environment)? > 0 && !environment.is_stopped() {}
            self.update_stats(environment);
        }
        self.drain(environment)
    }

    /// Executes tasks, and moves at most a burst from each input. Returns the number of slots taken
    /// from inputs plus the number of held frames sent.
    ///
    /// # Errors
    /// If a port is lost.
    #[inline]
    pub fn turn(&mut self, clock: &impl Clock) -> Result<u32, RunError> {
        let admits_frames = self.processor.run_tasks(&mut self.queues, clock);
        self.queues.admit(admits_frames);
        let moved = if admits_frames { self.move_frames(clock) } else { Ok(0) };
        // Published even if a lost port ends this turn.
        self.processor.publish();
        moved
    }

    #[inline]
    fn move_frames(&mut self, clock: &impl Clock) -> Result<u32, RunError> {
        let Self { processor, queues, .. } = self;
        queues.begin_turn()?;
        let mut moved = processor.before_inputs(queues, clock);
        for position in 0..queues.input_count() {
            let input = queues.input_at(position);
            if queues[input].receive()? {
                moved += processor.process(queues, input, clock);
            }
        }
        processor.after_inputs(queues, clock);
        queues.end_turn();
        queues.flush()?;
        Ok(moved)
    }

    fn wake_time(&self, clock: &impl Clock) -> Nanos {
        let due = self.processor.next_due().unwrap_or(Nanos::MAX);
        due.saturating_sub(WAKE_MARGIN_NS).min(clock.now() + MAX_SLEEP_NS)
    }

    fn update_stats(&mut self, clock: &impl Clock) {
        let time = clock.now();
        if time >= self.next_stats {
            self.queues.update_stats();
            self.next_stats = time + STATS_PERIOD_NS;
        }
    }

    /// Waits, for a bounded time, until held and queued frames have left.
    fn drain(&mut self, environment: &mut impl Environment) -> Result<(), RunError> {
        let until = environment.now() + DRAIN_TIMEOUT_NS;
        loop {
            let is_empty = self.processor.drain(&mut self.queues, environment)?;
            self.queues.flush()?;
            if (is_empty && self.queues.is_idle()) || environment.now() >= until {
                break;
            }
            environment.relax();
        }
        self.queues.update_stats();
        self.processor.publish_final();
        Ok(())
    }

    /// Converts the worker to the task of a thread. Errors name `command`.
    pub fn into_task(mut self, command: &'static str, strategy: WaitStrategy) -> WorkerTask {
        Box::new(move |stop| {
            let wake_fd = self.processor.wake_fd();
            let failed = |error| RunError::system(command, "wait for frames", error);
            let mut machine =
                RealTime::new(self.queues.all(), wake_fd, strategy, stop).map_err(failed)?;
            self.run(&mut machine)
        })
    }
}

#[cfg(test)]
mod tests;
