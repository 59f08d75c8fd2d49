//! Worker threads, and the loop that supervises them: signals, intervals, the end.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use slipring_abi::name::PortName;
use slipring_cli::{Failure, Signals};
use slipring_port::iface::Iface;
use slipring_port::{Nanos, OpenCause, RunCause, RunError, now};
use slipring_ring::Doorbell;

/// The running worker threads of a program.
pub struct Workers {
    threads: Vec<JoinHandle<Result<(), RunError>>>,
    stop: WorkersStop,
    state: Arc<WorkersState>,
}

struct WorkersState {
    running: AtomicU32,
    failed: AtomicBool,
}

/// Tells threads to stop. The threads also report their end through it.
#[derive(Clone)]
pub struct WorkersStop {
    flag: Arc<AtomicBool>,
    /// Rings for the threads when they must stop.
    pub doorbell: Arc<Doorbell>,
    /// Rings for the supervisor when a thread ends.
    worker_ended: Arc<Doorbell>,
}

impl WorkersStop {
    /// Returns whether the threads must stop.
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

/// What the supervisor reports to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkersEvent {
    /// An interval is over, so its report is due.
    Interval,
    /// The user has requested a report.
    Interim,
    /// The configuration must be read again.
    Reload,
}

/// The task of a thread. It must return soon after the thread is told to stop.
pub type WorkerTask = Box<dyn FnOnce(&WorkersStop) -> Result<(), RunError> + Send>;

impl Workers {
    /// Starts one thread per task.
    pub fn start(tasks: Vec<WorkerTask>) -> Result<Self, Failure> {
        let stop = WorkersStop {
            flag: Arc::default(),
            doorbell: Arc::new(Doorbell::new()?),
            worker_ended: Arc::new(Doorbell::new()?),
        };
        let running = AtomicU32::new(tasks.len() as u32);
        let state = Arc::new(WorkersState { running, failed: AtomicBool::new(false) });
        let start = |task: WorkerTask| {
            let (stop, state) = (stop.clone(), state.clone());
            spawn(move || {
                let result = task(&stop);
                state.failed.fetch_or(result.is_err(), Ordering::Relaxed);
                state.running.fetch_sub(1, Ordering::Relaxed);
                stop.worker_ended.ring();
                result
            })
        };
        let threads = tasks.into_iter().map(start).collect();
        Ok(Self { threads, stop, state })
    }

    /// Supervises the threads until a signal requests the end, the deadline is reached, all threads
    /// have ended, or one of them has failed. Calls `report` once per `period`, and also, with
    /// true, for each signal USR1.
    pub fn watch(
        &self,
        signals: &Signals,
        period: Option<Duration>,
        deadline: Option<Nanos>,
        mut report: impl FnMut(bool) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.watch_with_reload(signals, period, deadline, |due| match due {
            WorkersEvent::Interval => report(false),
            WorkersEvent::Interim => report(true),
            WorkersEvent::Reload => Ok(()),
        })
    }

    /// Like [`Self::watch`], but for a command that reads its configuration again after each signal
    /// HUP.
    pub fn watch_with_reload(
        &self,
        signals: &Signals,
        period: Option<Duration>,
        deadline: Option<Nanos>,
        mut act: impl FnMut(WorkersEvent) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let period = period.map(|period| period.as_nanos() as Nanos);
        let mut next = period.map(|period| now() + period);
        while !signals.stopping() && self.is_running() {
            let time = now();
            if deadline.is_some_and(|deadline| time >= deadline) {
                break;
            }
            if signals.take_interim() {
                act(WorkersEvent::Interim)?;
            }
            if signals.take_reload() {
                act(WorkersEvent::Reload)?;
            }
            if let (Some(due), Some(period)) = (next, period)
                && time >= due
            {
                act(WorkersEvent::Interval)?;
                next = Some(due.max(time.saturating_sub(period)) + period);
            }
            let until = next.into_iter().chain(deadline).min();
            self.sleep(signals, until.map(|until| until.saturating_sub(now())));
        }
        Ok(())
    }

    /// Returns a descriptor that is readable after the end of a thread.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.stop.worker_ended.as_fd()
    }

    /// Returns whether at least one thread is still running and none has failed. If a thread ends
    /// without an error, the others continue.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state.running.load(Ordering::Relaxed) > 0 && !self.state.failed.load(Ordering::Relaxed)
    }

    fn sleep(&self, signals: &Signals, time: Option<Nanos>) {
        let timeout = time.map(|time| Timespec {
            tv_sec: (time / 1_000_000_000) as i64,
            tv_nsec: (time % 1_000_000_000) as _,
        });
        let mut fds = [
            PollFd::from_borrowed_fd(signals.wake_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.stop.worker_ended.as_fd(), PollFlags::IN),
        ];
        // The result is ignored: the caller checks all conditions again, even if a signal
        // interrupted the poll.
        let _ = poll(&mut fds, timeout.as_ref());
        signals.acknowledge();
        self.stop.worker_ended.clear();
    }

    /// Stops all threads and waits until they have ended. Returns the first error, in the order of
    /// the tasks.
    pub fn finish(self) -> Result<(), RunError> {
        self.stop.flag.store(true, Ordering::Relaxed);
        self.stop.doorbell.ring();
        let mut result = Ok(());
        for thread in self.threads {
            match thread.join() {
                Ok(ended) => result = result.and(ended.map_err(refine_link_error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result
    }
}

/// Maximum time for which an interface that is being removed exists in the state down.
const REMOVAL_TIMEOUT_NS: Nanos = 200_000_000;

/// If the interface of a port went down because it is being removed, changes the error from
/// [`RunCause::WentDown`] to [`RunCause::Vanished`]. The kernel takes an interface down before it
/// removes it. The port only notices that it went down, but the user must know that it was removed.
fn refine_link_error(mut error: RunError) -> RunError {
    let until = now() + REMOVAL_TIMEOUT_NS;
    while matches!(error.cause, RunCause::WentDown) && now() < until {
        if is_gone(&error.port) {
            error.cause = RunCause::Vanished;
            return error;
        }
        sleep(Duration::from_millis(5));
    }
    error
}

/// Returns whether a port is named after an interface that does not exist.
fn is_gone(port: &str) -> bool {
    PortName::parse_classic(port).is_ok_and(|name| {
        name.kind.names_interface()
            && matches!(Iface::find(&name.name), Err(OpenCause::NoInterface { .. }))
    })
}
