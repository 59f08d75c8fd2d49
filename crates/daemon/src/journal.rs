//! What happened by itself, on its way from whatever thread met it to the one that talks.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use slipring_netmap::AdapterEvent;

/// News that wait at most; whoever cannot be told even these misses the rest.
const MAX_EVENTS: usize = 1024;

/// News that wait.
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

    /// Adds one.
    pub(crate) fn record(&self, news: &AdapterEvent) {
        let mut waiting = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MAX_EVENTS {
            waiting.push(news.clone());
        }
        drop(waiting);
        // A full counter wakes, too.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Readable while something waits.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// All that waits.
    pub(crate) fn take_events(&self) -> Vec<AdapterEvent> {
        // Before the news: what comes in between rings again.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
