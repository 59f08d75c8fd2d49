//! The latest events, which the clients of `ctl monitor` read.
//!
//! # Invariants
//! 1. Nothing is recorded unless a client has asked within [`RECORDING_NS`].
//! 2. Events have consecutive numbers, also those that no client gets. So a client that asks for
//!    the events after a number learns how many it has missed.
//! 3. The log has at most [`MAX_EVENTS`]; the oldest make space.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use slipring_port::Nanos;

/// How long events are recorded after a client has asked.
const RECORDING_NS: Nanos = 60_000_000_000;
/// Maximum number of events that wait. This suffices for some seconds while a whole table changes.
const MAX_EVENTS: usize = 1 << 15;
/// Maximum number of events in an answer.
const PAGE: usize = 1000;

/// The log, shared by the threads that add events and those that answer clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog(Arc<SharedLog>);

#[derive(Debug, Default)]
struct SharedLog {
    events: Mutex<NumberedEvents>,
    arrived: Condvar,
    /// Until when events are recorded.
    records_until: AtomicU64,
}

#[derive(Debug, Default)]
struct NumberedEvents {
    /// Number of the first event in the queue.
    first: u64,
    queue: VecDeque<Value>,
}

impl NumberedEvents {
    fn next(&self) -> u64 {
        self.first + self.queue.len() as u64
    }
}

/// The answer to a client's request for events.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventPage {
    pub(crate) events: Vec<Value>,
    /// The number with which the client requests the events that follow.
    pub(crate) next: u64,
    /// Number of events that the client has missed. It is a lower bound if recording had ended in
    /// between.
    pub(crate) lost: u64,
}

impl EventLog {
    /// Whether events are recorded, because a client has asked for them.
    pub(crate) fn is_recording(&self, time: Nanos) -> bool {
        // Relaxed: the time guards no other data.
        time < self.0.records_until.load(Ordering::Relaxed)
    }

    /// Records events for [`RECORDING_NS`] from now on. Returns whether recording was off before.
    pub(crate) fn record(&self, time: Nanos) -> bool {
        let mut events = self.lock();
        let begins = !self.is_recording(time);
        if begins {
            // Events since the last recorded one are unknown. They count as one missed event.
            events.first = events.next() + 1;
            events.queue.clear();
        }
        self.0.records_until.store(time + RECORDING_NS, Ordering::Relaxed);
        begins
    }

    /// Adds an event. The caller has checked that events are recorded.
    pub(crate) fn add(&self, event: Value) {
        let mut events = self.lock();
        if events.queue.len() == MAX_EVENTS {
            events.queue.pop_front();
            events.first += 1;
        }
        events.queue.push_back(event);
        drop(events);
        self.0.arrived.notify_all();
    }

    /// The number of the next event.
    pub(crate) fn next(&self) -> u64 {
        self.lock().next()
    }

    /// Returns the events from number `from` on, at most [`PAGE`]. If there are none yet, waits for
    /// an event, at most for `patience`.
    pub(crate) fn page(&self, from: u64, patience: Duration) -> EventPage {
        let is_empty = |events: &mut NumberedEvents| events.next() <= from;
        let waited = self.0.arrived.wait_timeout_while(self.lock(), patience, is_empty);
        let (events, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let start = from.clamp(events.first, events.next());
        let skipped = (start - events.first) as usize;
        let page: Vec<_> = events.queue.iter().skip(skipped).take(PAGE).cloned().collect();
        let next = start + page.len() as u64;
        EventPage { events: page, next, lost: start.saturating_sub(from) }
    }

    /// A poisoned lock can be ignored: each event is added completely or not at all.
    fn lock(&self) -> MutexGuard<'_, NumberedEvents> {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(page: &EventPage) -> Vec<u64> {
        page.events.iter().filter_map(Value::as_u64).collect()
    }

    #[test]
    fn events_are_read_once_and_in_order() {
        let log = EventLog::default();
        assert!(log.record(1) && !log.record(2));
        let start = log.next();
        (0..3_u64).for_each(|number| log.add(number.into()));
        let page = log.page(start, Duration::ZERO);
        assert_eq!((numbers(&page), page.lost), (vec![0, 1, 2], 0));
        assert!(log.page(page.next, Duration::ZERO).events.is_empty());
    }

    #[test]
    fn a_long_log_is_read_in_pages() {
        let log = EventLog::default();
        log.record(1);
        let start = log.next();
        (0..PAGE as u64 + 1).for_each(|number| log.add(number.into()));
        let first = log.page(start, Duration::ZERO);
        assert_eq!(first.events.len(), PAGE);
        assert_eq!(numbers(&log.page(first.next, Duration::ZERO)), [PAGE as u64]);
    }

    #[test]
    fn events_for_which_there_was_no_space_are_counted() {
        let log = EventLog::default();
        log.record(1);
        let start = log.next();
        (0..MAX_EVENTS as u64 + 5).for_each(|number| log.add(number.into()));
        let page = log.page(start, Duration::ZERO);
        assert_eq!((page.lost, page.events[0].clone()), (5, 5.into()));
    }

    #[test]
    fn what_happened_while_no_one_asked_counts_as_missed() {
        let log = EventLog::default();
        assert!(!log.is_recording(0));
        log.record(1);
        let next = log.page(log.next(), Duration::ZERO).next;
        assert!(log.is_recording(RECORDING_NS) && !log.is_recording(RECORDING_NS + 1));
        assert!(log.record(RECORDING_NS + 1));
        assert_eq!(log.page(next, Duration::ZERO).lost, 1);
    }

    #[test]
    fn a_client_waits_for_an_event() {
        let log = EventLog::default();
        let (start, adder) = (log.next(), log.clone());
        let thread = std::thread::spawn(move || adder.add(7.into()));
        assert_eq!(numbers(&log.page(start, Duration::from_secs(60))), [7]);
        thread.join().unwrap();
    }
}
