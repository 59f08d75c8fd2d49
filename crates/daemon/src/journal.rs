//! Queues events of ports from any thread. The main thread reports them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use slipring_netmap::AdapterEvent;

/// Maximum number of queued events. Further events are dropped.
const MAX_EVENTS: usize = 1024;

/// The queued events.
#[derive(Debug)]
pub(crate) struct Journal {
    events: Mutex<Vec<AdapterEvent>>,
    event: OwnedFd,
}

impl Journal {
    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { events: Mutex::default(), event: bell })
    }

    /// Queues an event.
    pub(crate) fn record(&self, news: &AdapterEvent) {
        let mut waiting = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MAX_EVENTS {
            waiting.push(news.clone());
        }
        drop(waiting);
        // If the counter of the eventfd is full, the descriptor is already readable.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Returns a descriptor that is readable while events are queued.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Removes and returns all queued events.
    pub(crate) fn take_events(&self) -> Vec<AdapterEvent> {
        // The counter is cleared before the events are taken. So an event that is queued at the
        // same time makes the descriptor readable again.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
