//! The state that a client of `ctl trace` and the workers share.
//!
//! # Invariants
//! 1. Without a trace, a worker only makes one test per batch.
//! 2. A trace misses no packet until it ends. It ends with its last packet, or earlier if there is
//!    no space for a copy: the copies of all traces together have at most [`MAX_BYTES`].
//! 3. A trace ends if its client has not requested packets for [`PATIENCE`], so that no copies are
//!    made without a reader. The end is final: a client that requests packets at this moment gets
//!    an error.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slipring_fib::FibPortIndex;
use slipring_filter::CbpfProgram;
use slipring_port::{Nanos, now};
use slipring_route::{PuntReason, RouteVerdict};

/// A trace ends if this much time passes without a request of its client.
const PATIENCE: Nanos = 60_000_000_000;
/// Value of `ends_at` of a trace that has ended.
const ENDED: Nanos = 0;
/// Maximum total size of the copies of all traces.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// A packet with what the engine has decided about it.
#[derive(Clone, Debug)]
pub(crate) struct TracedPacket {
    pub(crate) ingress: FibPortIndex,
    /// The frame as it arrived.
    pub(crate) frame: Vec<u8>,
    pub(crate) verdict: RouteVerdict,
    pub(crate) reason: Option<PuntReason>,
}

/// The total size of the copies in all traces.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceMemory(Arc<AtomicUsize>);

impl TraceMemory {
    /// Reserves space for a copy; returns whether there was enough.
    fn reserve(&self, bytes: usize) -> bool {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|used| *used <= MAX_BYTES)
        });
        taken.is_ok()
    }

    fn release(&self, packets: &[TracedPacket]) {
        let bytes: usize = packets.iter().map(|packet| packet.frame.len()).sum();
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The state of a trace that its client and the workers share.
#[derive(Debug)]
pub(crate) struct PacketTrace {
    memory: TraceMemory,
    filter: Option<CbpfProgram>,
    buffer: Mutex<TraceBuffer>,
    arrived: Condvar,
    has_ended: AtomicBool,
    /// The trace ends at this time unless the client requests packets before it.
    ends_at: AtomicU64,
}

#[derive(Debug)]
struct TraceBuffer {
    packets: Vec<TracedPacket>,
    /// Number of packets that the trace still wants.
    left: u32,
    /// Whether the trace has ended early, because there was no space for its next packet.
    is_cut: bool,
}

/// The answer to a client's request for packets.
#[derive(Debug)]
pub(crate) struct TracePage {
    pub(crate) packets: Vec<TracedPacket>,
    /// Number of packets that the trace still wants.
    pub(crate) left: u32,
    pub(crate) is_cut: bool,
}

impl PacketTrace {
    pub(crate) fn new(
        filter: Option<CbpfProgram>,
        count: u32,
        memory: &TraceMemory,
        time: Nanos,
    ) -> Self {
        Self {
            memory: memory.clone(),
            filter,
            buffer: Mutex::new(TraceBuffer { packets: Vec::new(), left: count, is_cut: false }),
            arrived: Condvar::new(),
            has_ended: AtomicBool::new(false),
            ends_at: AtomicU64::new(time + PATIENCE),
        }
    }

    /// Whether the workers have to look for packets.
    pub(crate) fn is_wanted(&self, time: Nanos) -> bool {
        !self.has_ended.load(Ordering::Relaxed) && !self.is_abandoned(time)
    }

    /// Returns whether the client has requested no packets for too long, and ends the trace in this
    /// case.
    pub(crate) fn is_abandoned(&self, time: Nanos) -> bool {
        // Relaxed: the time guards no other data.
        let at = self.ends_at.load(Ordering::Relaxed);
        if time < at {
            return false;
        }
        let ended = self.ends_at.compare_exchange(at, ENDED, Ordering::Relaxed, Ordering::Relaxed);
        // An error means that the client has just requested packets, so the trace goes on, or that
        // another thread has ended the trace.
        ended.err().is_none_or(|other| other == ENDED)
    }

    pub(crate) fn matches(&self, frame: &[u8]) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.run(frame, frame.len() as u32) != 0)
    }

    /// Adds a packet, unless the trace is complete. If there is no space for the packet, ends the
    /// trace.
    pub(crate) fn add(&self, packet: TracedPacket) {
        let mut buffer = self.lock();
        if buffer.left > 0 && self.memory.reserve(packet.frame.len()) {
            buffer.left -= 1;
            buffer.packets.push(packet);
        } else if buffer.left > 0 {
            (buffer.left, buffer.is_cut) = (0, true);
        }
        self.has_ended.store(buffer.left == 0, Ordering::Relaxed);
        drop(buffer);
        self.arrived.notify_one();
    }

    /// Takes the packets that were added. If there are none, waits for one for at most `patience`.
    /// Returns `None` if the trace has ended because its client made no requests.
    pub(crate) fn take(&self, patience: Duration) -> Option<TracePage> {
        let time = now();
        let longer = |at| (at != ENDED && time < at).then_some(time + PATIENCE);
        self.ends_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer).ok()?;
        let is_empty = |buffer: &mut TraceBuffer| buffer.packets.is_empty() && buffer.left > 0;
        let waited = self.arrived.wait_timeout_while(self.lock(), patience, is_empty);
        let (mut buffer, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let packets = std::mem::take(&mut buffer.packets);
        self.memory.release(&packets);
        Some(TracePage { packets, left: buffer.left, is_cut: buffer.is_cut })
    }

    /// Locks the buffer. A poisoned lock can be ignored: each packet is added completely or not at
    /// all.
    fn lock(&self) -> MutexGuard<'_, TraceBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PacketTrace {
    fn drop(&mut self) {
        self.memory.release(&self.lock().packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slipring_route::RouteDropCause;

    fn packet(number: u8) -> TracedPacket {
        let verdict = RouteVerdict::Drop(RouteDropCause::NoRoute);
        TracedPacket { ingress: FibPortIndex(0), frame: vec![number; 60], verdict, reason: None }
    }

    fn trace(count: u32, time: Nanos) -> PacketTrace {
        PacketTrace::new(None, count, &TraceMemory::default(), time)
    }

    #[test]
    fn a_trace_ends_with_its_last_packet_and_misses_none() {
        let start = now();
        let trace = trace(2, start);
        assert!(trace.is_wanted(start + PATIENCE - 1) && trace.matches(&[0; 60]));
        (1..=3).for_each(|number| trace.add(packet(number)));
        assert!(!trace.is_wanted(start));
        let TracePage { packets, left, is_cut } = trace.take(Duration::ZERO).unwrap();
        assert!(!is_cut);
        let numbers: Vec<_> = packets.iter().map(|packet| packet.frame[0]).collect();
        assert_eq!((numbers, left), (vec![1, 2], 0));
    }

    #[test]
    fn a_trace_for_which_no_one_asks_ends() {
        assert!(!trace(2, 0).is_wanted(PATIENCE));
    }

    #[test]
    fn a_client_that_asks_after_the_end_learns_of_it() {
        let trace = trace(2, now());
        assert!(trace.is_abandoned(now() + PATIENCE));
        // The workers may have dropped the trace, so it must stay ended.
        assert!(trace.take(Duration::ZERO).is_none());
        assert!(!trace.is_wanted(1) && trace.is_abandoned(1));
    }

    #[test]
    fn the_copies_of_all_traces_are_limited_and_an_early_end_is_told() {
        let memory = TraceMemory::default();
        let [first, second] = [(); 2].map(|()| PacketTrace::new(None, 9, &memory, now()));
        let large = |bytes| TracedPacket { frame: vec![0; bytes], ..packet(0) };
        first.add(large(MAX_BYTES));
        second.add(packet(1));
        let cut = second.take(Duration::ZERO).unwrap();
        assert_eq!((cut.packets.len(), cut.left, cut.is_cut), (0, 0, true));
        assert!(!second.is_wanted(now()));
        // Reading packets frees space, and so does dropping a trace.
        assert_eq!(first.take(Duration::ZERO).unwrap().packets.len(), 1);
        first.add(large(MAX_BYTES));
        drop(first);
        let third = PacketTrace::new(None, 9, &memory, now());
        third.add(large(MAX_BYTES));
        assert!(!third.take(Duration::ZERO).unwrap().is_cut);
    }

    #[test]
    fn packets_are_waited_for() {
        let trace = Arc::new(trace(2, now()));
        let adder = Arc::clone(&trace);
        let thread = std::thread::spawn(move || adder.add(packet(1)));
        let page = trace.take(Duration::from_secs(60)).unwrap();
        assert_eq!((page.packets.len(), page.left), (1, 1));
        thread.join().unwrap();
    }
}
