//! What a worker's loop needs from its environment: time, sleep and the signal to stop.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::thread::set_current_timer_slack;
use slipring_port::{Nanos, Queue, RunError, WaitStrategy, Waiter, now};

use crate::queues::WorkerQueues;
use crate::workers::WorkersStop;

/// A clock. Reading it costs some 20 ns, so it should be read once per burst and never per frame.
pub trait Clock {
    /// Returns the current time.
    fn now(&self) -> Nanos;
}

/// What a worker's loop needs in addition to its queues.
pub trait Environment: Clock {
    /// Waits until a queue has the frames or the space that the worker waits for, a task is queued,
    /// the time `until` is reached, or the worker must stop. If `until` has passed, only polls the
    /// queues.
    ///
    /// # Errors
    /// [`RunError`] if a port is lost.
    fn wait(&mut self, queues: &mut WorkerQueues, until: Nanos) -> Result<(), RunError>;

    /// Returns whether the loop must stop.
    fn is_stopped(&self) -> bool;

    /// Waits for a short time, so that queued frames can leave.
    fn relax(&mut self);
}

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct MachineClock;

impl Clock for MachineClock {
    #[inline]
    fn now(&self) -> Nanos {
        now()
    }
}

/// The clock of the machine, with the descriptors on which the worker waits.
pub(crate) struct RealTime<'s> {
    waiter: Waiter,
    stop: &'s WorkersStop,
    has_precise_sleeps: bool,
    /// How often the thread has waited for frames to leave.
    relaxed: u32,
}

/// After this many checks whether frames have left, a thread sleeps before each further check.
const MAX_SPINS: u32 = 1000;
/// Time between two checks whether frames have left a device that takes them slowly.
const SLOW_DEVICE_PERIOD: Duration = Duration::from_micros(200);

impl<'s> RealTime<'s> {
    /// Prepares to wait for these queues, for `wake_fd` if it is given, and for the doorbell that
    /// stops the thread.
    pub(crate) fn new(
        queues: Vec<&dyn Queue>,
        wake_fd: Option<BorrowedFd<'_>>,
        strategy: WaitStrategy,
        stop: &'s WorkersStop,
    ) -> io::Result<Self> {
        let mut waiter = Waiter::new(queues, strategy)?;
        waiter.add_fd(stop.doorbell.as_fd())?;
        wake_fd.map_or(Ok(()), |fd| waiter.add_fd(fd))?;
        Ok(Self { waiter, stop, has_precise_sleeps: false, relaxed: 0 })
    }

    /// Requests precise timers. Without them, the kernel may end each sleep of this thread up to 50
    /// us too late.
    fn request_precise_sleeps(&mut self) {
        if !self.has_precise_sleeps {
            // If the kernel refuses this, sleeps end late. This costs time, but has no other
            // effect.
            let _ = set_current_timer_slack(NonZeroU64::new(1));
            self.has_precise_sleeps = true;
        }
    }
}

impl Clock for RealTime<'_> {
    #[inline]
    fn now(&self) -> Nanos {
        now()
    }
}

impl Environment for RealTime<'_> {
    fn wait(&mut self, queues: &mut WorkerQueues, until: Nanos) -> Result<(), RunError> {
        self.request_precise_sleeps();
        let time = Duration::from_nanos(until.saturating_sub(now()));
        self.waiter.wait(queues, Some(time)).map(drop)
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }

    fn relax(&mut self) {
        self.relaxed = self.relaxed.saturating_add(1);
        if self.relaxed > MAX_SPINS {
            // Only time ends this wait: a device without space signals nothing.
            return std::thread::sleep(SLOW_DEVICE_PERIOD);
        }
        std::hint::spin_loop();
    }
}
