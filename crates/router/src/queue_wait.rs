//! The wait for a queue that a device still uses for a socket which no process has any more.
//!
//! When an AF_XDP socket is closed, frames that it has sent may still be in the device. Until the
//! device has sent them, the kernel keeps the queue for that socket. So a router may find the queues
//! of a previous router busy, in particular the one from which it takes over. It waits then. Its
//! programs are attached already, and leave all packets to the kernel, which they count as `disabled`.

use std::ops::ControlFlow;

use slipring_cli::{Failure, Session, Signals};
use slipring_port::OpenError;

use crate::plan::RoutePlan;
use crate::resident::{ResidentEngine, UserSpaceIo};
use crate::subinterface::OwnSubinterface;
use crate::worker::UserSpacePorts;

/// The ports of the workers, if packets are forwarded in user space; or the end of the run.
type OpenedUserSpace = ControlFlow<(), Option<(UserSpacePorts, UserSpaceIo)>>;

impl RoutePlan {
    /// Opens the sockets of the engine in user space, if packets are forwarded there. The result
    /// is `Break` if the run ends during the wait for a queue.
    pub(crate) fn open_user_space(
        &self,
        engine: &mut ResidentEngine,
        own: &[OwnSubinterface],
        signals: &Signals,
        session: &mut Session<'_>,
    ) -> Result<OpenedUserSpace, Failure> {
        let sockets = engine.take_sockets();
        if sockets.is_empty() {
            return Ok(ControlFlow::Continue(None));
        }
        let io = engine.user_space_io()?;
        let mode = self.io.sockets().unwrap_or_default();
        let shape = (self.threads, self.rules.is_some());
        let mut wait = QueueWait::new(signals, session);
        let opened = UserSpacePorts::open(sockets, mode, shape, own, &mut |of| wait.goes_on(of));
        match opened {
            Err(_) if wait.is_ended => Ok(ControlFlow::Break(())),
            opened => Ok(ControlFlow::Continue(Some((opened?, io)))),
        }
    }
}

/// A wait that ends when the queue is free, or with the run.
struct QueueWait<'r, 's> {
    signals: &'r Signals,
    session: &'r mut Session<'s>,
    /// What the user was told last.
    told: String,
    is_ended: bool,
}

impl<'r, 's> QueueWait<'r, 's> {
    const fn new(signals: &'r Signals, session: &'r mut Session<'s>) -> Self {
        Self { signals, session, told: String::new(), is_ended: false }
    }

    /// Whether to wait further, after an attempt with this error. Informs the user once for each
    /// queue.
    ///
    /// # Errors
    /// If the user cannot be informed.
    fn goes_on(&mut self, busy: &OpenError) -> Result<bool, Failure> {
        self.is_ended = self.signals.stopping();
        let cause = busy.cause.to_string();
        if self.is_ended {
            self.session.reporter.warn(format_args!("ended before the queue was free: {cause}"))?;
        } else if self.told != cause {
            self.session.reporter.warn(format_args!(
                "{cause} for frames of a closed socket, which the device has not sent yet: the \
                 kernel forwards until it has"
            ))?;
            self.told = cause;
        }
        Ok(!self.is_ended)
    }
}
