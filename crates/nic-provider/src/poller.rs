//! A thread that sleeps until an interface has events, and then wakes the clients that wait for
//! them. The clients sync the rings themselves; the thread moves no frames.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use slipring_netmap::TxRx;
use slipring_port::{Interest, TxWait};

use crate::nic::NicQueue;

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

impl NicPoller {
    pub(crate) fn start(queues: Arc<Vec<NicQueue>>) -> io::Result<Self> {
        let fds = queues.iter().map(fds_of).collect::<io::Result<Vec<_>>>()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
        let stop = Arc::new(PollerStop { requested: AtomicBool::new(false), wake_event: bell });
        let stopped = stop.clone();
        let work = move || {
            while !stopped.requested.load(Ordering::Acquire) {
                poll_once(&queues, &fds, stopped.wake_event.as_fd());
            }
        };
        let thread = thread::Builder::new().name("nic-pump".to_owned()).spawn(work)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for NicPoller {
    fn drop(&mut self) {
        self.stop.requested.store(true, Ordering::Release);
        // If the counter is full, the write fails, but the thread is woken anyway.
        let _ = rustix::io::write(&self.stop.wake_event, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Duplicates the queue's descriptors, so that the thread does not hold a lock while it polls.
fn fds_of(queue: &NicQueue) -> io::Result<QueueFds> {
    let driver = queue.driver.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Sleeps until a queue has events, and wakes the clients that wait for them.
fn poll_once(queues: &[NicQueue], fds: &[QueueFds], bell: BorrowedFd<'_>) {
    let mut down = Vec::new();
    each_driver(queues, |driver| {
        driver.before_sleep(Interest::BOTH);
        down.push(driver.is_link_down());
    });
    let mut polled = vec![PollFd::from_borrowed_fd(bell, PollFlags::IN)];
    let mut means = Vec::new();
    for ((queue, fds), down) in queues.iter().zip(fds).zip(down) {
        if let Some(fd) = &fds.rx {
            polled.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
            means.push((queue, TxRx::Rx));
        }
        if let Some(fd) = &fds.link {
            for dir in TxRx::BOTH {
                polled.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
                means.push((queue, dir));
            }
        }
        // The thread waits for space only if the tx ring is full, and not while the link is down.
        let full = !queue.views[TxRx::Tx as usize].is_ready() && !down;
        if let Some((fd, flags)) = fds.tx.as_ref().filter(|_| full) {
            polled.push(PollFd::from_borrowed_fd(fd.as_fd(), *flags));
            means.push((queue, TxRx::Tx));
        }
    }
    // The thread gets no event when a tx ring becomes full. So it checks every 10 ms whether it
    // must wait for space.
    let short = rustix::event::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    let woken = poll(&mut polled, Some(&short)).is_ok_and(|count| count > 0);
    each_driver(queues, |driver| driver.after_sleep());
    if !woken {
        return;
    }
    for (fd, (queue, dir)) in polled[1..].iter().zip(means) {
        if !fd.revents().is_empty() {
            queue.listeners[dir as usize].wake();
        }
    }
    thread::sleep(CLIENT_SYNC_DELAY);
}

fn each_driver(queues: &[NicQueue], mut visit: impl FnMut(&mut dyn slipring_port::Queue)) {
    for queue in queues {
        visit(&mut **queue.driver.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
