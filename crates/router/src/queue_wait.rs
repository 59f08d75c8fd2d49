//! The wait for a queue that a device still uses for a socket which no process has any more.
//!
//! When an AF_XDP socket is closed, frames that it has sent may still be in the device. Until the
//! device has sent them, the kernel keeps the queue for that socket. So a router may find the
//! queues of a previous router busy, in particular of the one from which it takes over. Then it
//! waits. Its programs are attached already: they leave all packets to the kernel, and count them
//! as `disabled`.
//!
//! | who uses the queue, as far as the kernel tells | waits |
//! |---|---|
//! | a process | no: the router ends with an error |
//! | no process | yes |
//! | not known, as without `CAP_SYS_PTRACE` | only after a takeover: the previous router had it |

use std::ops::ControlFlow;

use slipring_cli::{Failure, Session, Signals};
use slipring_port::{OpenCause, OpenError, QueueOwner};

use crate::plan::RoutePlan;
use crate::resident::{ResidentEngine, UserSpaceIo};
use crate::subinterface::OwnSubinterface;
use crate::worker::UserSpacePorts;

/// The ports of the workers, if packets are forwarded in user space; or the end of the run.
type OpenedUserSpace = ControlFlow<(), Option<(UserSpacePorts, UserSpaceIo)>>;

impl RoutePlan {
    /// Opens the sockets of the engine in user space, if packets are forwarded there. `had_queues`
    /// means that a router which has just ended had all queues. `max_threads` is the number of
    /// queues of the devices that it has handed over. The result is `Break` if the run ends during
    /// the wait for a queue.
    pub(crate) fn open_user_space(
        &self,
        (engine, had_queues): (&mut ResidentEngine, bool),
        (own, max_threads): (&[OwnSubinterface], Option<usize>),
        signals: &Signals,
        session: &mut Session<'_>,
    ) -> Result<OpenedUserSpace, Failure> {
        let sockets = engine.take_sockets();
        if sockets.is_empty() {
            return Ok(ControlFlow::Continue(None));
        }
        let io = engine.user_space_io()?;
        let mode = self.io.sockets().unwrap_or_default();
        let shape = (limited(self.threads, max_threads), self.rules.is_some());
        let mut wait = QueueWait {
            signals,
            session,
            had_queues,
            last_message: String::new(),
            is_ended: false,
        };
        let opened = UserSpacePorts::open(sockets, mode, shape, own, &mut |of| wait.goes_on(of));
        match opened {
            Err(_) if wait.is_ended => Ok(ControlFlow::Break(())),
            opened => Ok(ControlFlow::Continue(Some((opened?, io)))),
        }
    }
}

/// The maximum number of threads, by the plan and by `most`.
fn limited(threads: Option<usize>, most: Option<usize>) -> Option<usize> {
    let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
    most.map(|most| threads.unwrap_or_else(cpus).min(most)).or(threads)
}

/// A wait that ends when the queue is free, or with the run.
struct QueueWait<'r, 's> {
    signals: &'r Signals,
    session: &'r mut Session<'s>,
    /// Whether a router that has just ended had the queues.
    had_queues: bool,
    /// What was printed last.
    last_message: String,
    is_ended: bool,
}

impl QueueWait<'_, '_> {
    /// Returns whether to go on waiting after an attempt that has failed with this error. Prints,
    /// once for each queue, that the router waits for it.
    ///
    /// # Errors
    /// If that cannot be printed.
    fn goes_on(&mut self, busy: &OpenError) -> Result<bool, Failure> {
        let OpenCause::Busy { by, .. } = &*busy.cause else { return Ok(false) };
        if !is_free_soon(by, self.had_queues) {
            return Ok(false);
        }
        self.is_ended = self.signals.stopping();
        let probably = if *by == QueueOwner::Nobody { "" } else { ", probably" };
        let busy = busy.cause.to_string();
        if self.is_ended {
            self.session.reporter.warn(format_args!("ended before the queue was free: {busy}"))?;
        } else if self.last_message != busy {
            self.session.reporter.warn(format_args!(
                "{busy}{probably} for frames of a closed socket, which the device has not sent \
                 yet: the kernel forwards until it has"
            ))?;
            self.last_message = busy;
        }
        Ok(!self.is_ended)
    }
}

/// Whether a queue becomes free without the end of another process.
const fn is_free_soon(owner: &QueueOwner, had_queues: bool) -> bool {
    match owner {
        QueueOwner::Process(_) => false,
        QueueOwner::Nobody => true,
        QueueOwner::Suspects(_) | QueueOwner::Unknown => had_queues,
    }
}
