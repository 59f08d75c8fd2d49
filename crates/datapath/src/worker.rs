//! The loop of every program that moves frames between ports.
//!
//! ```text
//!   run:   wait -> turn, turn, ... until nothing moves -> wait -> ... -> drain
//!   turn:  control tasks -> what is due -> a burst of each input -> flush
//!                              '------------- the program's FrameProcessor
//! ```
//!
//! A turn is one iteration of the loop.
//!
//! 1. A program implements [`FrameProcessor`]: how a burst is processed, and when the next event is
//!    due.
//! 2. A [`Worker`] connects the processor to the queues of one thread ([`WorkerQueues`]).
//! 3. [`Worker::run`] is the loop around them. It runs in an [`Environment`]: that of the machine
//!    ([`Worker::into_task`]), or in a test that of [`crate::virtual_time`].
//!
//! # Invariants
//! 1. The frames that a turn sends are published at its end, by one `flush` per queue.
//! 2. The time that a program sees for a burst is never before the arrival of the burst.
//! 3. At the end, held and queued frames have [`FrameProcessor::drain_limits`] to leave. After an
//!    error, only queued frames are sent, once. In both cases the processor accounts for the rest.
//!
//! Not for `gen` and `replay`, which generate their frames, and not for the link emulator, whose
//! turns depend on the release times of frames.

use std::os::fd::BorrowedFd;

use slipring_port::{Nanos, RunError, WaitStrategy};

use crate::environment::{Clock, Environment, RealTime};
use crate::queues::WorkerQueues;
use crate::workers::WorkerTask;

/// The longest sleep. After it, all conditions are checked again.
pub const MAX_SLEEP_NS: Nanos = 500_000_000;
/// Time between two reads of the kernel's counts of dropped frames.
const STATS_PERIOD_NS: Nanos = 500_000_000;
/// A sleep ends this long before the next event, and the loop polls until the event, because the
/// kernel ends a sleep late by about this time.
const WAKE_MARGIN_NS: Nanos = 30_000;
/// Maximum time for frames to leave at the end, unless a processor has other limits.
pub const DRAIN_TIMEOUT_NS: Nanos = 100_000_000;

/// For how long frames may leave at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainLimits {
    /// Maximum time in which no frame leaves.
    pub stalled_ns: Nanos,
    /// Maximum time in total.
    pub total_ns: Nanos,
}

impl Default for DrainLimits {
    fn default() -> Self {
        Self { stalled_ns: DRAIN_TIMEOUT_NS, total_ns: DRAIN_TIMEOUT_NS }
    }
}

/// How a program processes frames.
///
/// A processor neither syncs nor sleeps, and reads the time only from `clock`. It takes frames from
/// the rings in `queues`, and puts frames into them.
pub trait FrameProcessor: Send + 'static {
    /// Takes at most a burst of frames from `queues[input]`, which has at least one. If a frame has
    /// to wait for space, the processor must call [`block`](crate::queues::WorkerQueue::block) on
    /// this input, and [`await_room`](crate::queues::WorkerQueue::await_room) on the queue that has
    /// no space. Returns the number of slots that were taken.
    fn process(&mut self, queues: &mut WorkerQueues, input: usize, clock: &impl Clock) -> u32;

    /// Executes tasks that other threads have queued for this one. Returns whether frames may be
    /// taken.
    fn run_tasks(&mut self, _queues: &mut WorkerQueues, _clock: &impl Clock) -> bool {
        true
    }

    /// Sends frames that are due or that were held. It is called before a turn takes frames from
    /// the inputs. Returns the number of frames that were sent.
    fn before_inputs(&mut self, _queues: &mut WorkerQueues, _clock: &impl Clock) -> u32 {
        0
    }

    /// Sends frames that are due. It is called after a turn has taken frames from the inputs.
    fn after_inputs(&mut self, _queues: &mut WorkerQueues, _clock: &impl Clock) {}

    /// Returns when the processor's next event is due, even if no frame arrives; `None` if there is
    /// none.
    fn next_due(&self) -> Option<Nanos> {
        None
    }

    /// Returns a descriptor that ends a wait when it is readable; `None` if there is none.
    /// [`Self::run_tasks`] must make it unreadable again.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns whether the processor has finished: no frame will come, and none is held.
    fn is_finished(&mut self, queues: &mut WorkerQueues) -> bool;

    /// Sends held frames at the end of the run. The loop calls this until it returns true, which
    /// means that no frame is left.
    ///
    /// # Errors
    /// [`RunError`] if a port is lost.
    fn drain(&mut self, _: &mut WorkerQueues, _: &impl Clock) -> Result<bool, RunError> {
        Ok(true)
    }

    /// Returns for how long frames may leave at the end of the run.
    fn drain_limits(&self) -> DrainLimits {
        DrainLimits::default()
    }

    /// Accounts for the frames that have not left at the end of the run, also if a port was lost.
    /// It is called once, before [`Self::publish_final`].
    fn abandon(&mut self, _: &mut WorkerQueues) {}

    /// Publishes the counters of the program. It is called after each turn.
    fn publish(&mut self) {}

    /// Publishes the last counters. It is called once, after the end of the loop, also if a port
    /// was lost.
    fn publish_final(&mut self) {
        self.publish();
    }
}

/// One thread of a program: its processor and its queues.
pub struct Worker<P> {
    /// Decides about the frames of this thread.
    pub processor: P,
    /// The queues from which this thread takes frames and to which it sends them.
    pub queues: WorkerQueues,
    next_stats: Nanos,
}

impl<P: FrameProcessor> Worker<P> {
    /// Creates a worker that processes frames of `queues` with `processor`.
    pub fn new(processor: P, queues: WorkerQueues) -> Self {
        Self { processor, queues, next_stats: 0 }
    }

    /// Moves frames until the loop must stop or the processor has finished.
    ///
    /// # Errors
    /// [`RunError`] if a port is lost.
    pub fn run(&mut self, environment: &mut impl Environment) -> Result<(), RunError> {
        let ended = self.move_until_stopped(environment).and_then(|()| self.drain(environment));
        if ended.is_err() {
            // The other queues may have frames of the turn that failed. The first error counts.
            let _ = self.queues.flush();
        }
        self.queues.update_stats();
        self.processor.abandon(&mut self.queues);
        self.processor.publish_final();
        ended
    }

    fn move_until_stopped(&mut self, environment: &mut impl Environment) -> Result<(), RunError> {
        while !environment.is_stopped() && !self.processor.is_finished(&mut self.queues) {
            let until = self.wake_time(environment);
            environment.wait(&mut self.queues, until)?;
            while self.turn(environment)? > 0 && !environment.is_stopped() {}
            self.update_stats(environment);
        }
        Ok(())
    }

    /// Executes tasks, and moves at most a burst from each input. Returns the number of slots that
    /// were taken from inputs, plus the number of held frames that were sent.
    ///
    /// # Errors
    /// [`RunError`] if a port is lost.
    #[inline]
    pub fn turn(&mut self, clock: &impl Clock) -> Result<u32, RunError> {
        let admits_frames = self.processor.run_tasks(&mut self.queues, clock);
        self.queues.admit(admits_frames);
        let moved = if admits_frames { self.move_frames(clock) } else { Ok(0) };
        // The counters are published even if a lost port ends this turn.
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

    /// Waits until held and queued frames have left, within the processor's limits.
    fn drain(&mut self, environment: &mut impl Environment) -> Result<(), RunError> {
        let DrainLimits { stalled_ns, total_ns } = self.processor.drain_limits();
        let start = environment.now();
        let (mut least, mut moved_at) = (u64::MAX, start);
        loop {
            let is_empty = self.processor.drain(&mut self.queues, environment)?;
            self.queues.flush()?;
            let (queued, time) = (self.queues.queued(), environment.now());
            if queued < least {
                (least, moved_at) = (queued, time);
            }
            let is_over = time >= start + total_ns || time >= moved_at + stalled_ns;
            if (is_empty && queued == 0) || is_over {
                return Ok(());
            }
            environment.relax();
        }
    }

    /// Converts the worker to the task of a thread. If the waiting cannot be prepared, the error
    /// contains the name `command`.
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
