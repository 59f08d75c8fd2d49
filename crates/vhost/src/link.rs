//! The state that a port's thread and a queue pair share: the running virtqueues, and the wake-ups.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::vring::Vring;

/// The guest's end of a queue pair.
#[derive(Debug)]
pub(crate) struct VhostLink {
    rings: Mutex<VhostRings>,
    /// The descriptor on which the program waits. It is readable when a sync may be useful, because
    /// of one of the guest's two kicks or the wake event.
    epoll: OwnedFd,
    wake_event: OwnedFd,
    is_notified: AtomicBool,
}

/// The virtqueues that run. There are none if no guest is connected.
#[derive(Debug, Default)]
pub(crate) struct VhostRings {
    /// The guest's receive queue, in which the port puts frames.
    pub(crate) send: Option<Vring>,
    /// The guest's transmit queue, from which the port takes frames.
    pub(crate) receive: Option<Vring>,
    /// Number of other ring pairs that sleep until the guest offers buffers in [`Self::send`].
    pub(crate) borrowers: u32,
}

impl VhostRings {
    /// Returns one of the virtqueues, by its number within the pair.
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

    /// Returns a descriptor that is readable when a sync may be useful.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Adds a kick eventfd of the guest to those that make [`Self::fd`] readable. Polls it
    /// edge-triggered, because it is never read: another process that has it open could make the
    /// read block.
    pub(crate) fn add_kick(&self, kick: &OwnedFd) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::ET;
        Ok(epoll::add(&self.epoll, kick, EventData::new_u64(0), flags)?)
    }

    pub(crate) fn remove_kick(&self, kick: &OwnedFd) {
        // If the eventfd was never added, deleting it fails, which does no harm.
        let _ = epoll::delete(&self.epoll, kick);
    }

    /// Makes the descriptor readable. If the program sleeps, or is about to sleep, this wakes it.
    pub(crate) fn notify(&self) {
        self.is_notified.store(true, Ordering::Release);
        // If the counter is full, the descriptor is already readable.
        let _ = rustix::io::write(&self.wake_event, &1u64.to_ne_bytes());
    }

    /// Clears all pending wake-ups.
    pub(crate) fn clear_notification(&self) {
        let mut events = [const { std::mem::MaybeUninit::<Event>::uninit() }; 4];
        // The events themselves are not needed. Reading them clears the edges that were reported.
        let _ = epoll::wait(&self.epoll, &mut events[..], Some(&Timespec::default()));
        if self.is_notified.swap(false, Ordering::Acquire) {
            // If the counter is 0, another caller has read it.
            let _ = rustix::io::read(&self.wake_event, &mut [0; 8]);
        }
    }
}
