//! Sends numbered frames at a steady rate through a router, and records which of them arrive, when
//! and in which order.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendFlags, send};
use slipring_core::listen::InterfaceListener;
use slipring_port::packet::open_sending_socket;
use slipring_port::{Nanos, now, sleep_until};

use crate::lab::{BenchLab, SINK_IFNAME, SOURCE_IFNAME, find};
use crate::measure::{BenchError, FEEDER_CPU, PROGRAM_CPU, pin};

/// Time between two frames: 20,000 frames per second.
pub(super) const PERIOD_NS: Nanos = 50_000;
/// Offset of the frame's number, which is in the first four bytes of the UDP data, over IPv4.
const NUMBER_AT: usize = 42;
/// The bytes after the number, by which frames of the stream are recognised.
const MARK: [u8; 4] = *b"srbs";
/// How long frames may still arrive after the sender has ended.
const DRAIN: Duration = Duration::from_millis(100);

/// A frame of the stream that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) number: u32,
    /// When the kernel received it, in nanoseconds since 1970.
    pub(super) at: u64,
    /// The destination MAC address of the frame.
    pub(super) mac: [u8; 6],
}

/// The result of a stream.
#[derive(Debug, Default)]
pub(super) struct StreamTally {
    pub(super) sent: u32,
    pub(super) arrivals: Vec<Arrival>,
}

impl StreamTally {
    /// Which of the frames have arrived.
    fn has_arrived(&self) -> Vec<bool> {
        let mut has_arrived = vec![false; self.sent as usize];
        for arrival in &self.arrivals {
            if let Some(it) = has_arrived.get_mut(arrival.number as usize) {
                *it = true;
            }
        }
        has_arrived
    }

    /// The number of frames that have not arrived.
    pub(super) fn lost(&self) -> usize {
        self.has_arrived().iter().filter(|it| !**it).count()
    }

    /// Returns the longest time in which the sender has sent only frames that have not arrived.
    pub(super) fn longest_gap(&self) -> Nanos {
        let has_arrived = self.has_arrived();
        let runs = has_arrived.chunk_by(|one, next| one == next);
        let missing = runs.filter(|run| !run[0]).map(<[bool]>::len).max();
        missing.unwrap_or(0) as Nanos * PERIOD_NS
    }

    /// Returns the number of frames that arrived after a frame with a greater number.
    pub(super) fn reordered(&self) -> usize {
        let mut greatest = 0;
        let mut is_late = |arrival: &&Arrival| {
            let is_late = arrival.number < greatest;
            greatest = greatest.max(arrival.number);
            is_late
        };
        self.arrivals.iter().filter(|arrival| is_late(arrival)).count()
    }
}

/// Sends copies of an IPv4 frame from [`SOURCE_IFNAME`], and collects those that arrive at
/// [`SINK_IFNAME`], during `work`. Returns the result of `work` and the tally.
pub(super) fn during<T>(
    lab: &BenchLab,
    frame: &[u8],
    work: impl FnOnce() -> Result<T, BenchError>,
) -> Result<(T, StreamTally), BenchError> {
    let is_over = AtomicBool::new(false);
    let listener = lab.within(|| Ok(InterfaceListener::open(SINK_IFNAME)?))?;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| collect(listener, &is_over));
        let sender = scope.spawn(|| lab.within(|| transmit(frame, &is_over)));
        let worked = work();
        is_over.store(true, Ordering::Relaxed);
        let sent = sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let arrivals = receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        if arrivals.is_empty() {
            return Err(BenchError::Failed(format!("none of {sent} frames arrive")));
        }
        Ok((worked?, StreamTally { sent, arrivals }))
    })
}

/// Sends numbered copies of `frame`, one per [`PERIOD_NS`], until `is_over` is set. Returns their
/// number.
fn transmit(frame: &[u8], is_over: &AtomicBool) -> Result<u32, BenchError> {
    pin(FEEDER_CPU);
    let socket = open_sending_socket(find(SOURCE_IFNAME)?.index)?;
    let (mut frame, mut number, start) = (frame.to_vec(), 0_u32, now());
    frame[NUMBER_AT + 4..][..4].copy_from_slice(&MARK);
    while !is_over.load(Ordering::Relaxed) {
        sleep_until(start + Nanos::from(number) * PERIOD_NS);
        frame[NUMBER_AT..][..4].copy_from_slice(&number.to_be_bytes());
        send(&socket, &frame, SendFlags::empty())?;
        number += 1;
    }
    Ok(number)
}

fn collect(
    mut listener: InterfaceListener,
    is_over: &AtomicBool,
) -> Result<Vec<Arrival>, BenchError> {
    pin(PROGRAM_CPU);
    let mut arrivals = Vec::new();
    let mut ends_at = None;
    while ends_at.is_none_or(|at| now() < at) {
        while let Some(captured) = listener.recv()? {
            arrivals.extend(arrival(captured.frame, captured.ts_ns));
        }
        if is_over.load(Ordering::Relaxed) && ends_at.is_none() {
            ends_at = Some(now() + DRAIN.as_nanos() as Nanos);
        }
        let mut fds = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 }))?;
    }
    match listener.dropped()? {
        0 => Ok(arrivals),
        lost => Err(BenchError::Failed(format!("the sink itself has lost {lost} frames"))),
    }
}

fn arrival(frame: &[u8], at: u64) -> Option<Arrival> {
    let number = frame.get(NUMBER_AT..)?.first_chunk()?;
    let is_marked = frame.get(NUMBER_AT + 4..)?.starts_with(&MARK);
    let mac = *frame.first_chunk()?;
    is_marked.then_some(Arrival { number: u32::from_be_bytes(*number), at, mac })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(sent: u32, numbers: &[u32]) -> StreamTally {
        let arrival = |&number: &u32| Arrival { number, at: 0, mac: [0; 6] };
        StreamTally { sent, arrivals: numbers.iter().map(arrival).collect() }
    }

    #[test]
    fn missing_numbers_are_lost_and_the_longest_run_of_them_is_the_gap() {
        let tally = tally(10, &[0, 2, 3, 7]);
        assert_eq!((tally.lost(), tally.longest_gap()), (6, 3 * PERIOD_NS));
    }

    #[test]
    fn frames_that_are_late_count_as_reordered_and_not_as_lost() {
        let tally = tally(5, &[0, 3, 1, 2, 4]);
        assert_eq!((tally.reordered(), tally.lost(), tally.longest_gap()), (2, 0, 0));
    }
}
