//! Log lines of rules with `log`. A separate thread writes them to the log file, and clients
//! (monitors) read them.
//!
//! # Invariants
//! 1. Adding a line never waits for a disk, a terminal or a client. If the buffer of the log file
//!    is full, the new line is dropped and counted. If the buffer of the monitors is full, its
//!    oldest line is removed.
//! 2. Threads are woken only if they sleep. Lines are stored for monitors only until
//!    [`MAX_KEPT_LINES`] lines have been added since a monitor's last request; later lines are only
//!    counted. So a monitor that returns late misses the newest lines instead of the oldest ones.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use slipring_ipfw::run::LogEvent;

/// Maximum number of lines in each of the two buffers, that for the monitors and that for the log
/// file.
const MAX_KEPT_LINES: usize = 16_384;

/// A log line, with its number.
#[derive(Debug, Clone)]
pub struct NumberedEvent {
    /// The number of the line, counted from 1.
    pub seq: u64,
    /// The line.
    pub event: LogEvent,
}

/// The most recent log lines, for the monitors and for the log file.
#[derive(Debug, Default)]
pub struct LogEvents {
    buffers: Mutex<LogBuffers>,
    /// Wakes the threads of monitors that wait for lines.
    for_monitors: Condvar,
    /// Wakes the thread that writes the log file.
    for_log: Condvar,
    /// Number of lines so far, including those that were only counted.
    count: AtomicU64,
    /// Number of lines for the log file that were not written to it.
    missed: AtomicU64,
    is_watched: AtomicBool,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct LogBuffers {
    /// The most recent lines, stored for monitors.
    recent: VecDeque<NumberedEvent>,
    /// After this many further lines without a request of a monitor, lines are no longer stored for
    /// monitors.
    lines_until_unwatched: usize,
    /// Number of threads that wait for lines on behalf of monitors.
    waiting_monitors: usize,
    /// Lines that the thread of the log file has not taken yet.
    log: VecDeque<String>,
    log_waits: bool,
}

impl LogEvents {
    /// Adds a line. If the buffer for monitors is full, the oldest line in it is removed. If the
    /// buffer for the log file is full, this line is not written to the log file.
    pub fn add(&self, event: LogEvent) {
        let mut kept = self.lock();
        let seq = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if event.to.syslog {
            if kept.log.len() < MAX_KEPT_LINES {
                kept.log.push_back(event.line.clone());
            } else {
                self.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
        if self.is_watched() {
            if kept.recent.len() == MAX_KEPT_LINES {
                kept.recent.pop_front();
            }
            kept.recent.push_back(NumberedEvent { seq, event });
            kept.lines_until_unwatched -= 1;
            self.is_watched.store(kept.lines_until_unwatched > 0, Ordering::Relaxed);
        }
        let wakes = (kept.waiting_monitors > 0, kept.log_waits && !kept.log.is_empty());
        drop(kept);
        if wakes.0 {
            self.for_monitors.notify_all();
        }
        if wakes.1 {
            self.for_log.notify_one();
        }
    }

    /// Counts lines that are not stored because no monitor reads them.
    pub fn count_unwatched(&self, lines: u64) {
        self.count.fetch_add(lines, Ordering::Relaxed);
    }

    /// Returns whether lines are stored for monitors.
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Starts to store lines for a monitor. Returns the number of the latest line.
    pub fn watch(&self) -> u64 {
        self.keep(&mut self.lock());
        self.count()
    }

    fn keep(&self, kept: &mut LogBuffers) {
        kept.lines_until_unwatched = MAX_KEPT_LINES;
        self.is_watched.store(true, Ordering::Relaxed);
    }

    /// Returns the lines after the line with number `seq`. If there are none yet, waits for one,
    /// for at most `patience`.
    pub fn events_after(&self, seq: u64, patience: Duration) -> Vec<NumberedEvent> {
        let is_old = |kept: &mut LogBuffers| {
            kept.recent.back().is_none_or(|event| event.seq <= seq) && !self.is_over()
        };
        let mut kept = self.lock();
        self.keep(&mut kept);
        kept.waiting_monitors += 1;
        let waited = self.for_monitors.wait_timeout_while(kept, patience, is_old);
        let (mut kept, _) = waited.unwrap_or_else(PoisonError::into_inner);
        kept.waiting_monitors -= 1;
        let first = kept.recent.partition_point(|event| event.seq <= seq);
        kept.recent.range(first..).cloned().collect()
    }

    /// Waits for lines for the log file, and removes and returns them. Once the firewall has ended
    /// and all lines were taken, returns an empty queue.
    fn for_log(&self) -> VecDeque<String> {
        let mut kept = self.lock();
        kept.log_waits = true;
        let is_empty = |kept: &mut LogBuffers| kept.log.is_empty() && !self.is_over();
        let waited = self.for_log.wait_while(kept, is_empty);
        let mut kept = waited.unwrap_or_else(PoisonError::into_inner);
        kept.log_waits = false;
        std::mem::take(&mut kept.log)
    }

    /// Returns the number of lines so far, including those that were only counted.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the number of lines for the log file that were not written to it.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(self.lock());
        self.for_monitors.notify_all();
        self.for_log.notify_one();
    }

    /// Locks the buffers. A poisoned lock can be ignored, because each line is added completely or
    /// not at all.
    fn lock(&self) -> MutexGuard<'_, LogBuffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that writes the log file. Dropping this value ends it.
pub struct LogFileWriter {
    events: Arc<LogEvents>,
    thread: Option<JoinHandle<()>>,
}

impl LogFileWriter {
    /// Starts a thread that writes the log lines to `file`.
    pub fn start(events: Arc<LogEvents>, mut file: Box<dyn Write + Send>) -> Self {
        let read = events.clone();
        let thread = spawn(move || {
            loop {
                let lines = read.for_log();
                if lines.is_empty() {
                    return;
                }
                let missed = write_all(&mut file, &lines);
                read.missed.fetch_add(missed, Ordering::Relaxed);
            }
        });
        Self { events, thread: Some(thread) }
    }
}

/// Writes lines to the log file. Returns how many lines could not be written.
fn write_all(file: &mut impl Write, lines: &VecDeque<String>) -> u64 {
    // Each line is written with one call, so that another program that writes to the same file
    // cannot split it.
    let missed =
        lines.iter().filter(|line| file.write_all(format!("{line}\n").as_bytes()).is_err());
    let missed = missed.count() as u64;
    // An error of the flush is ignored: failed writes are already counted as missed.
    let _ = file.flush();
    missed
}

impl Drop for LogFileWriter {
    fn drop(&mut self) {
        self.events.end();
        if let Some(thread) = self.thread.take() {
            // An error means that the thread has panicked, which it has already reported.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use slipring_ipfw::rule::LogDestination;

    use super::*;

    fn lines(events: &LogEvents, count: usize, to: LogDestination) {
        for at in 0..count {
            events.add(LogEvent { number: 1, line: at.to_string(), to });
        }
    }

    #[test]
    fn lines_are_kept_for_a_monitor_until_it_is_gone_for_long() {
        let (events, to) = (LogEvents::default(), LogDestination::default());
        lines(&events, 3, to);
        assert!(events.lock().recent.is_empty(), "nobody has asked");
        assert_eq!(events.watch(), 3);
        lines(&events, MAX_KEPT_LINES, to);
        assert!(!events.is_watched(), "nobody asks");
        lines(&events, 5, to);
        let late = events.events_after(3, Duration::ZERO);
        assert_eq!(
            (late[0].seq, late.len(), late[0].event.line.as_str()),
            (4, MAX_KEPT_LINES, "0")
        );
        assert!(events.is_watched());
        lines(&events, 1, to);
        let late = events.events_after(late[MAX_KEPT_LINES - 1].seq, Duration::ZERO);
        assert_eq!((late[0].seq, late.len()), (3 + MAX_KEPT_LINES as u64 + 6, 1), "the gap shows");
    }

    #[test]
    fn the_log_misses_what_it_has_no_room_for_and_writes_the_rest() {
        let events = LogEvents::default();
        lines(
            &events,
            MAX_KEPT_LINES + 2,
            LogDestination { syslog: true, ..LogDestination::default() },
        );
        let mut file = Vec::new();
        assert_eq!(write_all(&mut file, &events.for_log()), 0);
        assert_eq!((events.missed(), events.count()), (2, MAX_KEPT_LINES as u64 + 2));
        assert!(file.starts_with(b"0\n1\n") && file.ends_with(b"16383\n"));
    }
}
