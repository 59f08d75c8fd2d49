//! The effect of each signal on a running command.
//!
//! | signal | request |
//! |---|---|
//! | INT | stop with a summary; a second one ends the process immediately, with status 130 |
//! | TERM | stop with a summary; a second one ends the process immediately, with status 143 |
//! | USR1 | report now |
//! | HUP | read the configuration again |
//!
//! A sleeping loop waits on [`Signals::wake_fd`] along with its ports, acknowledges, and only then
//! checks the requests. A signal in between causes one spurious wake-up; in the opposite order, a
//! wake-up could be lost. A busy loop only checks, which is one load. Install once per process: the
//! handlers stay for the life of the process.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::{flag, low_level};

/// The shell's status for a process that INT ended.
const STATUS_AFTER_INT: i32 = 128 + SIGINT;
/// The shell's status for a process that TERM ended.
const STATUS_AFTER_TERM: i32 = 128 + SIGTERM;

/// The signals that this process has received.
#[derive(Debug)]
pub struct Signals {
    stop: Arc<AtomicBool>,
    interim: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    wake: UnixStream,
    waker: UnixStream,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn install() -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let signals = Self {
            stop: Arc::default(),
            interim: Arc::default(),
            reload: Arc::default(),
            wake,
            waker,
        };
        signals.register()?;
        Ok(signals)
    }

    /// Registers the handlers, which run in the order of registration: the conditional exit must
    /// see the flag of an earlier signal, and the wake-up must come after the flag is set.
    fn register(&self) -> io::Result<()> {
        // A terminal and a parent process may both send a signal, so TERM and INT often come
        // together, and the handler of the later one may run first. So each has its own flag.
        for (signal, status) in [(SIGINT, STATUS_AFTER_INT), (SIGTERM, STATUS_AFTER_TERM)] {
            let was_received = Arc::<AtomicBool>::default();
            flag::register_conditional_shutdown(signal, status, was_received.clone())?;
            flag::register(signal, was_received)?;
        }
        for (signal, raised) in [
            (SIGINT, &self.stop),
            (SIGTERM, &self.stop),
            (SIGUSR1, &self.interim),
            (SIGHUP, &self.reload),
        ] {
            flag::register(signal, raised.clone())?;
            low_level::pipe::register(signal, self.waker.try_clone()?)?;
        }
        Ok(())
    }

    /// Whether the command should end with a summary.
    #[must_use]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the flag of [`Self::stopping`], for worker threads; they may also set it.
    #[must_use]
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// Returns whether an interim report was requested since the last call of this function.
    #[must_use]
    pub fn take_interim(&self) -> bool {
        self.interim.swap(false, Ordering::Relaxed)
    }

    /// Returns whether a reload was requested since the last call of this function.
    #[must_use]
    pub fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    /// Returns a descriptor that becomes readable with each signal, and stays so until
    /// [`Self::acknowledge`]. Once the command should stop, the descriptor stays readable for every
    /// waiting thread.
    #[must_use]
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Clears the wake-up; check the requests afterwards.
    pub fn acknowledge(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.wake).read(&mut bytes), Ok(1..)) {}
        if self.stopping() {
            self.wake();
        }
    }

    fn wake(&self) {
        // A full socket is already readable, so no further byte is needed.
        let _ = (&self.waker).write(&[0]);
    }
}
