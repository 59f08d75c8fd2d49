//! Where the thread of a port and a queue pair meet: the virtqueues that run, and what wakes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::vring::Vring;

/// What a queue pair is connected to.
#[derive(Debug)]
pub(crate) struct VhostLink {
    rings: Mutex<VhostRings>,
    /// Readable when a sync may be worth while: the guest's two notifications, and the bell.
    epoll: OwnedFd,
    wake_event: OwnedFd,
    is_notified: AtomicBool,
}

/// The virtqueues that run; none while there is no guest.
#[derive(Debug, Default)]
pub(crate) struct VhostRings {
    /// The guest's receive queue.
    pub(crate) send: Option<Vring>,
    /// The guest's transmit queue.
    pub(crate) receive: Option<Vring>,
}

impl VhostRings {
    /// One of them, by its number within the pair.
    pub(crate) fn vring_mut(&mut self, number: usize) -> &mut Option<Vring> {
        if number == 0 { &mut self.send } else { &mut self.receive }
    }
}

impl VhostLink {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, EventData::new_u64(0), EventFlags::IN)?;
        Ok(Self {
            rings: Mutex::default(),
            epoll,
            wake_event: bell,
            is_notified: AtomicBool::new(false),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, VhostRings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Readable when a sync may be worth while.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Listens to a notification of the guest. By its edges: it is never read, which a stranger
    /// could make wait.
    pub(crate) fn add_kick(&self, kick: &OwnedFd) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::ET;
        Ok(epoll::add(&self.epoll, kick, EventData::new_u64(0), flags)?)
    }

    pub(crate) fn remove_kick(&self, kick: &OwnedFd) {
        // One that was never listened to is not there to be taken away.
        let _ = epoll::delete(&self.epoll, kick);
    }

    /// Wakes whoever sleeps, or is about to.
    pub(crate) fn notify(&self) {
        self.is_notified.store(true, Ordering::Release);
        // A full counter wakes as well.
        let _ = rustix::io::write(&self.wake_event, &1u64.to_ne_bytes());
    }

    /// Takes note of all that woke.
    pub(crate) fn clear_notification(&self) {
        let mut events = [const { std::mem::MaybeUninit::<Event>::uninit() }; 4];
        // Whatever it says: edges that were seen do not wake again.
        let _ = epoll::wait(&self.epoll, &mut events[..], Some(&Timespec::default()));
        if self.is_notified.swap(false, Ordering::Acquire) {
            // An empty counter has been read by another one.
            let _ = rustix::io::read(&self.wake_event, &mut [0; 8]);
        }
    }
}
