//! A thread that sleeps until an interface has events, and then wakes the clients that wait for
//! them. The clients sync the rings themselves; the thread moves no frames.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use slipring_netmap::{Listeners, TxRx};
use slipring_port::{Interest, Nanos, Queue, TxWait};

use crate::nic::NicQueue;

#[cfg(test)]
mod tests;

/// How long the thread sleeps at most. It gets no event when a tx ring becomes full, so it checks
/// this often whether it must wait for space.
const SLEEP: Duration = Duration::from_millis(10);

/// How long the thread pauses after it has woken clients. Without the pause it would wake them
/// again and again, because the descriptor stays readable until a client has synced.
const CLIENT_SYNC_DELAY: Duration = Duration::from_micros(200);

/// A running thread. Dropping this value ends the thread.
#[derive(Debug)]
pub(crate) struct NicPoller {
    stop: Arc<PollerStop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct PollerStop {
    requested: AtomicBool,
    wake_event: OwnedFd,
}

/// The descriptors on which one queue is polled.
struct QueueFds {
    rx: Option<OwnedFd>,
    tx: Option<(OwnedFd, PollFlags)>,
    link: Option<OwnedFd>,
}

/// The wakes because of deadlines, up to now.
struct DeadlineWakes {
    /// The time of the last one.
    last: Instant,
    /// For each queue, the passed deadline for which its clients were last woken.
    passed: Vec<Option<Nanos>>,
}

impl DeadlineWakes {
    fn new(queues: usize) -> Self {
        Self { last: Instant::now(), passed: vec![None; queues] }
    }

    /// Notes in `woken` the queues whose clients must be woken because of these deadlines. Notes none
    /// if [`SLEEP`] has not passed since the last time.
    ///
    /// For a deadline that has passed, clients are woken once: it stays the same only if their syncs
    /// do not concern it. So a client that only receives is not woken all the time because of frames
    /// that it has sent, and whose completion it does not look at.
    fn note(&mut self, deadlines: &[Option<Nanos>], woken: &mut [bool]) {
        let now = Instant::now();
        if now < self.last + SLEEP {
            return;
        }
        self.last = now;
        let time = slipring_port::now();
        // Some deadlines move: they are a fixed time after the moment at which they are asked for.
        // So a deadline counts as due if it is not after the next look.
        let next_look = time + SLEEP.as_nanos() as Nanos;
        for ((woken, deadline), passed) in woken.iter_mut().zip(deadlines).zip(&mut self.passed) {
            let Some(at) = deadline.filter(|at| *at <= next_look && Some(*at) != *passed) else {
                continue;
            };
            *woken = true;
            if at <= time {
                *passed = Some(at);
            }
        }
    }
}

/// A queue with clients that may wait for its events.
trait PolledQueue {
    fn driver(&self) -> MutexGuard<'_, Box<dyn Queue>>;
    /// Returns whether a client that sends would have to wait for free slots.
    fn is_tx_full(&self) -> bool;
    /// Wakes the clients that wait, for either direction.
    fn wake(&self);
}

impl PolledQueue for NicQueue {
    fn driver(&self) -> MutexGuard<'_, Box<dyn Queue>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_tx_full(&self) -> bool {
        !self.views[TxRx::Tx as usize].is_ready()
    }

    fn wake(&self) {
        self.listeners.iter().for_each(Listeners::wake);
    }
}

impl NicPoller {
    pub(crate) fn start(queues: Arc<Vec<NicQueue>>) -> io::Result<Self> {
        let fds = queues.iter().map(fds_of).collect::<io::Result<Vec<_>>>()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
        let stop = Arc::new(PollerStop { requested: AtomicBool::new(false), wake_event: bell });
        let stopped = stop.clone();
        let work = move || {
            let mut past = DeadlineWakes::new(queues.len());
            while !stopped.requested.load(Ordering::Acquire) {
                poll_once(&queues, &fds, stopped.wake_event.as_fd(), &mut past);
            }
        };
        let thread = thread::Builder::new().name("nic-pump".to_owned()).spawn(work)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for NicPoller {
    fn drop(&mut self) {
        self.stop.requested.store(true, Ordering::Release);
        // An error is ignored: without the event, the thread ends after its sleep.
        let _ = rustix::io::write(&self.stop.wake_event, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Duplicates the queue's descriptors, so that the thread does not hold a lock while it polls.
fn fds_of(queue: &impl PolledQueue) -> io::Result<QueueFds> {
    let driver = queue.driver();
    let fds = driver.wait_fds();
    let own = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
    let tx = match fds.tx {
        Some(TxWait::Readable(fd)) => Some((own(fd)?, PollFlags::IN)),
        Some(TxWait::Writable(fd) | TxWait::WritableEdge(fd)) => {
            Some((own(fd)?, PollFlags::OUT | PollFlags::IN))
        }
        None => None,
    };
    let [rx, link] = [fds.rx, fds.link].map(|fd| fd.map(own).transpose());
    Ok(QueueFds { rx: rx?, tx, link: link? })
}

/// Sleeps until a queue has events, but at most [`SLEEP`], and wakes the clients that wait for
/// them.
///
/// A queue without events stays armed, and [`Queue::after_sleep`] is not called: it could read an
/// event that has come since the poll, and no client would learn of it. A queue with events is
/// armed again before its clients are woken. They sync then, which [`Queue::before_sleep`]
/// requires, so they find whatever came while the queue was not armed.
///
/// Some devices announce nothing while they have no space. So clients of a queue whose deadline is
/// at most [`SLEEP`] away are also woken, at most once in each period [`SLEEP`]. This happens even
/// if other queues have events all the time.
fn poll_once<Q: PolledQueue>(
    queues: &[Q],
    fds: &[QueueFds],
    bell: BorrowedFd<'_>,
    past: &mut DeadlineWakes,
) {
    let mut polled = vec![PollFd::from_borrowed_fd(bell, PollFlags::IN)];
    let mut owners = Vec::new();
    let mut has_events = vec![false; queues.len()];
    let mut deadlines = vec![None; queues.len()];
    for (i, (queue, fds)) in queues.iter().zip(fds).enumerate() {
        let mut driver = queue.driver();
        driver.before_sleep(Interest::BOTH);
        deadlines[i] = driver.deadline();
        // The thread waits for space only if the tx ring is full, and not while the link is down.
        let space = fds.tx.as_ref().filter(|_| queue.is_tx_full() && !driver.is_link_down());
        let readable = [&fds.rx, &fds.link].into_iter().flatten().map(|fd| (fd, PollFlags::IN));
        for (fd, flags) in readable.chain(space.map(|(fd, flags)| (fd, *flags))) {
            polled.push(PollFd::from_borrowed_fd(fd.as_fd(), flags));
            owners.push(i);
        }
    }
    let timeout = Timespec { tv_sec: 0, tv_nsec: SLEEP.as_nanos() as i64 };
    if poll(&mut polled, Some(&timeout)).is_err() {
        return;
    }
    for (fd, owner) in polled[1..].iter().zip(owners) {
        has_events[owner] |= !fd.revents().is_empty();
    }
    past.note(&deadlines, &mut has_events);
    let mut any = false;
    for (queue, _) in queues.iter().zip(has_events).filter(|(_, has)| *has) {
        rearm(queue);
        queue.wake();
        any = true;
    }
    if any {
        thread::sleep(CLIENT_SYNC_DELAY);
    }
}

/// Reads the events of a queue, and arms it again.
fn rearm(queue: &impl PolledQueue) {
    let mut driver = queue.driver();
    driver.after_sleep();
    driver.before_sleep(Interest::BOTH);
}
