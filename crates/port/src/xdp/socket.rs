//! A bound AF_XDP socket, and this process's ends of its rings.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use slipring_ring::Region;

use super::bound::BoundQueue;
use super::ends::{RxEnds, TxEnds};
use super::layout::UmemLayout;
use super::own_queues::OwnQueue;
use super::ring::{Consumer, Producer};
use super::sys;
use super::umem::Umem;
use crate::error::RunCause;
use crate::nic::TxSide;
use crate::nic::dma::DmaMemory;

/// How often to retry a bind to a busy queue: for about a second. The kernel needs some tens of
/// milliseconds to release the queue of a closed socket. The time of the attempts themselves is not
/// counted, because each may wait long for the kernel while other processes change links.
const BUSY_RETRIES: u32 = 200;
const BUSY_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// A socket with rings, not yet bound to a queue. It has memory, unless it will share that of
/// another socket.
pub(super) struct UnboundSocket {
    fd: OwnedFd,
    layout: UmemLayout,
    rings: sys::KernelRings,
}

impl UnboundSocket {
    /// Creates a socket for a port in `region`. If `shares` is true, the socket will share the
    /// memory of another socket; otherwise the region is registered as its memory.
    pub(super) fn new(region: &Region, shares: bool, slots: u32) -> io::Result<Self> {
        let mut umem = Umem::new(sys::socket()?);
        if !shares {
            umem.map_buffers(region)?;
        }
        let rings = umem.make_rings(slots)?;
        Ok(Self { fd: umem.into_socket(), layout: UmemLayout::new(region), rings })
    }

    /// Binds the socket to a queue. Retries for about a second if the queue is busy, because the
    /// kernel may not have released it from a socket that was just closed.
    pub(super) fn bind(
        self,
        ifindex: u32,
        queue: u32,
        flags: u16,
        umem: Option<BorrowedFd<'_>>,
    ) -> io::Result<XdpSocket> {
        retry_while_busy(|| sys::bind(self.fd.as_fd(), ifindex, queue, flags, umem))?;
        XdpSocket::new(self, OwnQueue::register(BoundQueue { ifindex, queue }))
    }
}

/// Retries while the resource is busy, for about as long as the kernel may take to release it.
pub(super) fn retry_while_busy<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..BUSY_RETRIES {
        match attempt() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(BUSY_RETRY_INTERVAL);
            }
            result => return result,
        }
    }
    attempt()
}

/// A bound socket. Its fields are dropped in the order of their declaration. Once the rings are
/// unmapped and the descriptors closed, the kernel releases the queue and stops writing into
/// buffers.
#[derive(Debug)]
pub(super) struct XdpSocket {
    pub(super) rx: RxEnds,
    pub(super) tx: TxEnds,
    wait: PollableFds,
    pub(super) fd: OwnedFd,
    pub(super) zero_copy: bool,
    /// Dropped last: the queue is this process's as long as the socket is open.
    _own: OwnQueue,
}

/// The descriptors to sleep on.
///
/// To wait for frames, the program sleeps on an epoll set that has the socket in it and, while sent
/// frames are stuck, a descriptor for space to send. Link changes come from [`crate::link_watch`]:
/// the kernel notifies a socket when its interface is removed, but not when it goes down. The
/// descriptor for space is a duplicate of the socket's, because frames are watched level-triggered
/// and space edge-triggered.
///
/// The socket is in the set only during a sleep. The kernel notifies every waiter of every
/// completed frame, at 30 ns each, so a socket that is always in the set would cost a sixth of the
/// rate.
#[derive(Debug)]
struct PollableFds {
    readable: OwnedFd,
    writable: OwnedFd,
    asleep: bool,
    stuck: bool,
}

impl PollableFds {
    fn new(socket: &OwnedFd) -> io::Result<Self> {
        let readable = epoll::create(CreateFlags::CLOEXEC)?;
        let writable = socket.try_clone()?;
        Ok(Self { readable, writable, asleep: false, stuck: false })
    }

    /// Adds the socket to the set, so that the set is ready when frames arrive, or removes it if
    /// `asleep` is false.
    fn watch_frames(&mut self, socket: &OwnedFd, asleep: bool) {
        if self.asleep != asleep && watch(&self.readable, socket, EventFlags::IN, asleep) {
            self.asleep = asleep;
        }
    }

    /// Makes the set ready when there is space to send, or no longer so if `stuck` is false.
    fn watch_room(&mut self, stuck: bool) {
        let events = EventFlags::OUT | EventFlags::ET;
        if self.stuck != stuck && watch(&self.readable, &self.writable, events, stuck) {
            self.stuck = stuck;
        }
    }
}

/// Adds a descriptor to the set, or removes it; returns whether that worked.
fn watch(set: &OwnedFd, fd: &OwnedFd, events: EventFlags, on: bool) -> bool {
    let data = EventData::new_u64(0);
    let done = if on { epoll::add(set, fd, data, events) } else { epoll::delete(set, fd) };
    done.is_ok()
}

impl XdpSocket {
    fn new(bound: UnboundSocket, own: OwnQueue) -> io::Result<Self> {
        let UnboundSocket { fd, layout, rings } = bound;
        Ok(Self {
            rx: RxEnds { layout, fill: Producer::new(rings.fill), rx: Consumer::new(rings.rx) },
            tx: TxEnds {
                layout,
                tx: Producer::new(rings.tx),
                completion: Consumer::new(rings.completion),
            },
            wait: PollableFds::new(&fd)?,
            zero_copy: sys::is_zero_copy(fd.as_fd())?,
            fd,
            _own: own,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn wait_rx(&self) -> BorrowedFd<'_> {
        self.wait.readable.as_fd()
    }

    pub(super) fn wait_tx(&self) -> BorrowedFd<'_> {
        self.wait.writable.as_fd()
    }

    pub(super) fn before_sleep(&mut self) {
        let stuck = self.tx.tx.is_stuck();
        self.wait.watch_room(stuck);
        self.wait.watch_frames(&self.fd, true);
    }

    /// Removes the socket from the set. While frames are stuck, the watch for space is kept,
    /// because adding it again would end the next sleep immediately.
    pub(super) fn after_sleep(&mut self) {
        self.wait.watch_frames(&self.fd, false);
        if !self.tx.tx.is_stuck() {
            self.wait.watch_room(false);
        }
    }

    /// Returns the number of packets of `side` that are lost if the socket is closed now. In copy
    /// mode, packets that the kernel has taken are not lost, because it has copied them.
    pub(super) fn unsent(&mut self, side: &TxSide) -> u64 {
        let out = match self.zero_copy {
            true => side.packets_out(),
            false => self.tx.waiting_packets(),
        };
        side.unsubmitted() + out
    }

    /// Checks that the interface still exists and is up.
    #[cold]
    pub(super) fn probe(&self) -> Result<(), RunCause> {
        sys::kick_rx(self.fd()).or_else(|error| fault("receive", error))
    }
}

/// Returns the error of a kick, unless the kernel was only busy, interrupted or short of memory.
#[cold]
pub(super) fn fault(what: &'static str, source: io::Error) -> Result<(), RunCause> {
    match source.raw_os_error() {
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR | libc::ENOMEM) => Ok(()),
        Some(libc::ENXIO | libc::ENODEV) => Err(RunCause::Vanished),
        Some(libc::ENETDOWN) => Err(RunCause::WentDown),
        _ => Err(RunCause::System { what, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T>(errno: i32) -> io::Result<T> {
        Err(io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn an_attempt_that_takes_long_is_not_the_last_one() {
        let mut attempts = 0;
        let bound = retry_while_busy(|| {
            attempts += 1;
            if attempts == 1 {
                std::thread::sleep(2 * BUSY_RETRIES * BUSY_RETRY_INTERVAL);
                return refused(libc::EBUSY);
            }
            Ok(attempts)
        });
        assert_eq!(bound.unwrap(), 2);
    }

    #[test]
    fn what_stays_busy_or_fails_otherwise_is_an_error() {
        for (errno, expected) in [(libc::EBUSY, BUSY_RETRIES + 1), (libc::EPERM, 1)] {
            let mut attempts = 0;
            let error = retry_while_busy(|| {
                attempts += 1;
                refused::<()>(errno)
            });
            assert_eq!((error.unwrap_err().raw_os_error(), attempts), (Some(errno), expected));
        }
    }
}
