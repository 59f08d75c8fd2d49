//! The thread of [`Routing::run`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use slipring_ring::Doorbell;

use crate::routing::{Routing, RoutingHandle};

/// The running thread.
pub(crate) struct RoutingThread {
    thread: JoinHandle<io::Result<()>>,
    stop: Arc<RoutingStop>,
}

struct RoutingStop {
    is_set: AtomicBool,
    /// Rings for the thread when it must end.
    stop: Doorbell,
    /// Rings for the supervisor when the thread has ended.
    ended: Doorbell,
}

/// Announces the end of the thread, even after a panic. Threads that wait for an answer get none.
struct EndGuard<'t> {
    handle: &'t RoutingHandle,
    signal: &'t RoutingStop,
}

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.handle.close();
        self.signal.ended.ring();
    }
}

impl RoutingThread {
    /// Starts the thread, which closes the handle's queue at its end.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn start(mut routing: Routing, handle: RoutingHandle) -> io::Result<Self> {
        let stop = Arc::new(RoutingStop {
            is_set: AtomicBool::new(false),
            stop: Doorbell::new()?,
            ended: Doorbell::new()?,
        });
        let signal = stop.clone();
        let thread = Builder::new().name("routing".into()).spawn(move || {
            let _end = EndGuard { handle: &handle, signal: &signal };
            // Relaxed: the flag guards no other data.
            routing.run(&handle, &signal.stop, || signal.is_set.load(Ordering::Relaxed))
        })?;
        Ok(Self { thread, stop })
    }

    /// Returns a descriptor that is readable once the thread has ended.
    pub(crate) fn ended(&self) -> BorrowedFd<'_> {
        self.stop.ended.as_fd()
    }

    /// Whether the thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the thread. Unless a successor has taken over, the programs are then detached, and the
    /// kernel forwards.
    ///
    /// # Errors
    /// The error that had already ended the thread.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.stop.is_set.store(true, Ordering::Relaxed);
        self.stop.stop.ring();
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
