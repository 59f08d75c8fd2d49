//! Lines of rules with `log`: to the log file by a thread of its own, and to whoever monitors.
//!
//! # Invariants
//! 1. Who adds a line never waits for a disk, a terminal or a client. Lines for which there is no
//!    room are lost and counted.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use slipring_ipfw::run::LogEvent;

/// Lines kept for those who read them.
const MOST: usize = 16_384;

/// A line with its number.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    /// Counts from 1.
    pub(crate) seq: u64,
    pub(crate) event: LogEvent,
}

/// All lines of late.
#[derive(Debug, Default)]
pub(crate) struct Events {
    late: Mutex<VecDeque<Told>>,
    added: Condvar,
    /// Lines so far.
    count: AtomicU64,
    /// Lines that the log file missed.
    missed: AtomicU64,
    is_over: AtomicBool,
}

impl Events {
    /// Adds a line; the oldest one goes if there are too many.
    pub(crate) fn add(&self, event: LogEvent) {
        let mut late = self.lock();
        if late.len() == MOST {
            late.pop_front();
        }
        let seq = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        late.push_back(Told { seq, event });
        drop(late);
        self.added.notify_all();
    }

    /// Lines behind number `seq`, waiting for one if there is none yet.
    pub(crate) fn behind(&self, seq: u64, patience: Duration) -> Vec<Told> {
        let is_old = |late: &mut VecDeque<Told>| {
            late.back().is_none_or(|told| told.seq <= seq) && !self.is_over.load(Ordering::Relaxed)
        };
        let waited = self.added.wait_timeout_while(self.lock(), patience, is_old);
        let (late, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let first = late.partition_point(|told| told.seq <= seq);
        late.range(first..).cloned().collect()
    }

    /// How many lines there were.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// How many of them the log has missed.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(self.lock());
        self.added.notify_all();
    }

    /// A line is whole or not there, also when a thread that held the lock panicked.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Told>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that writes the log, until this is dropped.
pub(crate) struct Log {
    events: Arc<Events>,
    thread: Option<JoinHandle<()>>,
}

impl Log {
    /// Writes lines for the log to `file` as they come.
    pub(crate) fn start(events: Arc<Events>, mut file: Box<dyn Write + Send>) -> Self {
        let read = events.clone();
        let thread = spawn(move || {
            let mut seq = 0;
            loop {
                let is_last = read.is_over.load(Ordering::Relaxed);
                let late = read.behind(seq, Duration::from_secs(3600));
                if let Some(first) = late.first() {
                    read.missed.fetch_add(first.seq - seq - 1, Ordering::Relaxed);
                }
                for told in &late {
                    seq = told.seq;
                    if told.event.to.syslog && writeln!(file, "{}", told.event.line).is_err() {
                        read.missed.fetch_add(1, Ordering::Relaxed);
                    }
                }
                // A full disk is told of by the count.
                let _ = file.flush();
                if is_last && late.is_empty() {
                    return;
                }
            }
        });
        Self { events, thread: Some(thread) }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.events.end();
        if let Some(thread) = self.thread.take() {
            // A panic was told by its thread already.
            let _ = thread.join();
        }
    }
}
