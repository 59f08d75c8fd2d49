//! What a client of `ctl trace` and the workers share.
//!
//! # Invariants
//! 1. A worker without a trace does nothing for it but one test for each batch.
//! 2. A trace has space for all of its packets, so none is missed, and ends with the last one.
//! 3. A trace whose client has not asked for [`PATIENCE`] ends, so that no copy is made for no one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slipring_fib::FibPortIndex;
use slipring_filter::CbpfProgram;
use slipring_port::{Nanos, now};
use slipring_route::{PuntReason, RouteVerdict};

/// After this time without a request, a trace ends.
const PATIENCE: Nanos = 60_000_000_000;

/// A packet with what the engine has decided about it.
#[derive(Clone, Debug)]
pub(crate) struct TracedPacket {
    pub(crate) ingress: FibPortIndex,
    /// The frame as it arrived.
    pub(crate) frame: Vec<u8>,
    pub(crate) verdict: RouteVerdict,
    pub(crate) reason: Option<PuntReason>,
}

/// What a client and the workers share.
#[derive(Debug)]
pub(crate) struct PacketTrace {
    filter: Option<CbpfProgram>,
    buffer: Mutex<TraceBuffer>,
    arrived: Condvar,
    has_ended: AtomicBool,
    /// When it ends unless the client asks again.
    ends_at: AtomicU64,
}

#[derive(Debug)]
struct TraceBuffer {
    packets: Vec<TracedPacket>,
    /// Packets still to come.
    left: u32,
}

impl PacketTrace {
    pub(crate) fn new(filter: Option<CbpfProgram>, count: u32, time: Nanos) -> Self {
        Self {
            filter,
            buffer: Mutex::new(TraceBuffer { packets: Vec::new(), left: count }),
            arrived: Condvar::new(),
            has_ended: AtomicBool::new(false),
            ends_at: AtomicU64::new(time + PATIENCE),
        }
    }

    /// Whether the workers are to look for packets.
    pub(crate) fn is_wanted(&self, time: Nanos) -> bool {
        !self.has_ended.load(Ordering::Relaxed) && time < self.ends_at.load(Ordering::Relaxed)
    }

    /// Whether no one has asked for it for so long that the workers may have dropped it.
    pub(crate) fn is_abandoned(&self, time: Nanos) -> bool {
        time >= self.ends_at.load(Ordering::Relaxed)
    }

    pub(crate) fn matches(&self, frame: &[u8]) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.run(frame, frame.len() as u32) != 0)
    }

    /// Adds a packet, unless there are as many as wanted.
    pub(crate) fn add(&self, packet: TracedPacket) {
        let mut buffer = self.lock();
        if buffer.left > 0 {
            buffer.left -= 1;
            buffer.packets.push(packet);
        }
        self.has_ended.store(buffer.left == 0, Ordering::Relaxed);
        drop(buffer);
        self.arrived.notify_one();
    }

    /// Takes the packets that have come, and returns them with the number of those still to come. Waits
    /// for one, at most for `patience`.
    pub(crate) fn take(&self, patience: Duration) -> (Vec<TracedPacket>, u32) {
        self.ends_at.store(now() + PATIENCE, Ordering::Relaxed);
        let is_empty = |buffer: &mut TraceBuffer| buffer.packets.is_empty() && buffer.left > 0;
        let waited = self.arrived.wait_timeout_while(self.lock(), patience, is_empty);
        let (mut buffer, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut buffer.packets), buffer.left)
    }

    /// A poisoned lock can be ignored: each packet is added completely or not at all.
    fn lock(&self) -> MutexGuard<'_, TraceBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use slipring_route::RouteDropCause;

    fn packet(number: u8) -> TracedPacket {
        let verdict = RouteVerdict::Drop(RouteDropCause::NoRoute);
        TracedPacket { ingress: FibPortIndex(0), frame: vec![number; 60], verdict, reason: None }
    }

    #[test]
    fn a_trace_ends_with_its_last_packet_and_misses_none() {
        let trace = PacketTrace::new(None, 2, 0);
        assert!(trace.is_wanted(PATIENCE - 1) && trace.matches(&[0; 60]));
        (1..=3).for_each(|number| trace.add(packet(number)));
        assert!(!trace.is_wanted(1));
        let (packets, left) = trace.take(Duration::ZERO);
        let numbers: Vec<_> = packets.iter().map(|packet| packet.frame[0]).collect();
        assert_eq!((numbers, left), (vec![1, 2], 0));
    }

    #[test]
    fn a_trace_for_which_no_one_asks_ends() {
        assert!(!PacketTrace::new(None, 2, 0).is_wanted(PATIENCE));
    }

    #[test]
    fn packets_are_waited_for() {
        let trace = Arc::new(PacketTrace::new(None, 2, now()));
        let adder = Arc::clone(&trace);
        let thread = std::thread::spawn(move || adder.add(packet(1)));
        let (packets, left) = trace.take(Duration::from_secs(60));
        assert_eq!((packets.len(), left), (1, 1));
        thread.join().unwrap();
    }
}
