//! What happened by itself, on its way from whatever thread met it to the one that talks.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use slipring_netmap::News;

/// News that wait at most; whoever cannot be told even these misses the rest.
const MOST: usize = 1024;

/// News that wait.
#[derive(Debug)]
pub(crate) struct Journal {
    news: Mutex<Vec<News>>,
    bell: OwnedFd,
}

impl Journal {
    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { news: Mutex::default(), bell })
    }

    /// Adds one.
    pub(crate) fn note(&self, news: &News) {
        let mut waiting = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MOST {
            waiting.push(news.clone());
        }
        drop(waiting);
        // A full counter wakes, too.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Readable while something waits.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// All that waits.
    pub(crate) fn take(&self) -> Vec<News> {
        // Before the news: what comes in between rings again.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
