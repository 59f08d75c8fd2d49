//! The gate of a queue, which a takeover closes. Frames that arrive then stay in the socket's ring,
//! for the router that opens its gate next.
//!
//! ```text
//!   another thread: close()   --> the worker's next check: notes the last counts and the position
//!                   open_at() --> the worker's next check: reads from that position on
//! ```
//!
//! Only one router has an open gate for a socket at any time. A worker takes no frames from the
//! socket while its gate is closed.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use slipring_port::{Queue, SocketRing};

/// The gate of a queue, as other threads use it.
#[derive(Debug)]
pub(crate) struct QueueGate {
    /// Position of the queue's interface in the router's list of interfaces; not its ifindex. For a
    /// queue of subinterfaces: position of its device, or of the interface that carries it.
    pub(crate) interface: usize,
    /// Number of the queue.
    pub(crate) number: usize,
    /// The socket or device; `None` if a successor cannot continue with it, or after the end of the
    /// queue.
    descriptor: Mutex<Option<Arc<OwnedFd>>>,
    /// The ring of the socket; `None` for a device.
    ring: Option<SocketRing>,
    is_closed: AtomicBool,
    /// The position at which the ring's reader has stopped. It is published by the Release store to
    /// `is_noted`, or by the thread that opens the gate.
    position: AtomicU32,
    /// Whether the worker has noticed that the gate is closed.
    is_noted: AtomicBool,
}

impl QueueGate {
    /// Creates the gate of a queue. It is closed if another router still reads the socket.
    ///
    /// # Errors
    /// The system's error if the process is out of descriptors.
    pub(crate) fn new(
        interface: usize,
        number: usize,
        queue: &dyn Queue,
        is_closed: bool,
    ) -> io::Result<Self> {
        let fd = queue.resume_position().and(queue.wait_fds().rx);
        let descriptor = fd.map(|fd| fd.try_clone_to_owned()).transpose()?.map(Arc::new);
        Ok(Self {
            interface,
            number,
            descriptor: Mutex::new(descriptor),
            ring: queue.socket_ring(),
            is_closed: AtomicBool::new(is_closed),
            position: AtomicU32::new(0),
            is_noted: AtomicBool::new(is_closed),
        })
    }

    /// The socket; `None` if a successor cannot continue with its ring.
    pub(crate) fn socket(&self) -> Option<(Arc<OwnedFd>, SocketRing)> {
        self.descriptor().zip(self.ring)
    }

    /// The socket or device; `None` if a successor cannot continue with it.
    pub(crate) fn descriptor(&self) -> Option<Arc<OwnedFd>> {
        self.descriptor.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes the gate. The worker takes no more frames from the socket once it has checked the
    /// gate again.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// Opens the gate again. The worker continues at the position at which it stopped.
    pub(crate) fn reopen(&self) {
        self.is_closed.store(false, Ordering::Release);
    }

    /// Opens the gate. The worker starts at the position at which the previous router stopped.
    pub(crate) fn open_at(&self, position: u32) {
        // Released by the next store, which pairs with the Acquire in `admits`.
        self.position.store(position, Ordering::Relaxed);
        self.is_closed.store(false, Ordering::Release);
    }

    /// The ring position at which the worker has stopped; `None` if it has not stopped yet.
    pub(crate) fn position(&self) -> Option<u32> {
        let is_noted = self.is_noted.load(Ordering::Acquire);
        is_noted.then(|| self.position.load(Ordering::Relaxed))
    }
}

/// The worker's side of a gate.
pub(crate) struct GateWatch {
    gate: Arc<QueueGate>,
    was_closed: bool,
}

impl GateWatch {
    pub(crate) fn new(gate: Arc<QueueGate>) -> Self {
        let was_closed = gate.is_closed.load(Ordering::Acquire);
        Self { gate, was_closed }
    }

    /// Whether the worker may take frames from the socket.
    #[inline]
    pub(super) fn admits(&mut self, queue: &mut dyn Queue) -> bool {
        // Acquire: pairs with the Release in `open_at`.
        let is_closed = self.gate.is_closed.load(Ordering::Acquire);
        if is_closed != self.was_closed {
            self.was_closed = is_closed;
            self.follow(queue);
        }
        !is_closed
    }

    /// Whether the socket's counts belong to this router.
    pub(super) const fn is_open(&self) -> bool {
        !self.was_closed
    }

    #[cold]
    fn follow(&self, queue: &mut dyn Queue) {
        if !self.was_closed {
            self.gate.is_noted.store(false, Ordering::Relaxed);
            return queue.resume_ring(self.gate.position.load(Ordering::Relaxed));
        }
        // The kernel resets its loss counts when they are read. Reading them here makes this router
        // report all losses up to now.
        queue.update_stats();
        let position = queue.resume_position().unwrap_or_default();
        self.gate.position.store(position, Ordering::Relaxed);
        // Release: pairs with the Acquire in `position`.
        self.gate.is_noted.store(true, Ordering::Release);
    }
}

impl Drop for GateWatch {
    /// Gives the descriptor back, so that a device ends with its queues.
    fn drop(&mut self) {
        self.gate.descriptor.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::process::Command;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use slipring_datapath::virtual_time::VirtualTime;
    use slipring_port::{Nanos, QueueCounters, QueueRings, RunError, WaitFds};

    use super::*;

    /// A queue with a descriptor on which another router could continue.
    struct DescriptorQueue(Box<dyn Queue>, OwnedFd);

    impl Queue for DescriptorQueue {
        fn rings(&mut self) -> QueueRings<'_> {
            self.0.rings()
        }

        fn tx_sync(&mut self) -> Result<(), RunError> {
            self.0.tx_sync()
        }

        fn rx_sync(&mut self) -> Result<(), RunError> {
            self.0.rx_sync()
        }

        fn wait_fds(&self) -> WaitFds<'_> {
            WaitFds { rx: Some(self.1.as_fd()), ..WaitFds::default() }
        }

        fn resume_position(&self) -> Option<u32> {
            Some(0)
        }

        fn counters(&self) -> &Arc<QueueCounters> {
            self.0.counters()
        }
    }

    /// The limit of descriptors is that of the whole process, so another process runs the test.
    #[test]
    fn a_router_out_of_descriptors_does_not_start_with_a_queue_that_nobody_can_take_over() {
        const IS_ALONE: &str = "SLIPRING_TEST_IS_ALONE";
        if std::env::var_os(IS_ALONE).is_none() {
            let name = std::thread::current().name().unwrap().to_owned();
            let mut alone = Command::new(std::env::current_exe().unwrap());
            let alone = alone.args(["--exact", &name]).env(IS_ALONE, "").output().unwrap();
            let output = String::from_utf8_lossy(&alone.stdout);
            assert!(alone.status.success() && output.contains("1 passed"), "{output}");
            return;
        }
        let [port] = VirtualTime::until(Nanos::MAX).ports::<1>(64);
        let fd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        let queue = DescriptorQueue(port.queue, fd);
        let gate = || QueueGate::new(0, 0, &queue, false);
        assert!(gate().unwrap().descriptor().is_some());
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..getrlimit(Resource::Nofile) })
            .unwrap();
        assert!(gate().is_err());
    }
}
