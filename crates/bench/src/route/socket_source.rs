//! A source of socket buffers: a packet socket sends the frames, as a local program would, but
//! bypasses the queueing discipline. The router's program gets the frames after the kernel has
//! copied them to a page.

use std::io::IoSlice;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use slipring_port::packet::open_sending_socket;

use super::source::{self, SourceBreak, SourceTally, set_destination};
use crate::lab::{SOURCE_IFNAME, find};
use crate::measure::BenchError;

/// Number of frames per system call.
pub(super) const FRAMES_PER_CALL: usize = 64;

/// A source that sends from [`SOURCE_IFNAME`].
pub(super) struct SocketSource {
    socket: OwnedFd,
    frames: Vec<Vec<u8>>,
}

impl SocketSource {
    /// A source of frames that differ from `frame` in their destinations, in the calling thread's
    /// namespace.
    pub(super) fn new(frame: &[u8], destinations: &[IpAddr]) -> Result<Self, BenchError> {
        let made = |&destination: &IpAddr| {
            let mut frame = frame.to_vec();
            set_destination(&mut frame, destination);
            frame
        };
        let count = destinations.len().max(FRAMES_PER_CALL);
        let frames = destinations.iter().cycle().take(count).map(made).collect();
        Ok(Self { socket: open_sending_socket(find(SOURCE_IFNAME)?.index)?, frames })
    }

    /// Sends the frame with index `number`, modulo the number of frames.
    pub(super) fn send_one(&self, number: usize) -> Result<(), BenchError> {
        self.send_once(&self.frames[number % self.frames.len()..][..1]).map(|_| ())
    }

    /// Sends for `time` from the calling thread. Calls `between` between system calls.
    pub(super) fn send(
        &self,
        time: Duration,
        between: &mut SourceBreak<'_>,
    ) -> Result<SourceTally, BenchError> {
        let mut calls = self.frames.chunks(FRAMES_PER_CALL).cycle();
        source::tally(time, || {
            between()?;
            calls.next().map_or(Ok(0), |frames| self.send_once(frames))
        })
    }

    /// Sends frames with one system call. Returns how many of them were sent.
    fn send_once(&self, frames: &[Vec<u8>]) -> Result<u64, BenchError> {
        let parts: Vec<_> = frames.iter().map(|frame| [IoSlice::new(frame)]).collect();
        let mut none: Vec<_> = frames.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let parts_and_none = parts.iter().zip(&mut none);
        let mut messages: Vec<_> =
            parts_and_none.map(|(parts, none)| MMsgHdr::new(parts, none)).collect();
        match sendmmsg(&self.socket, &mut messages, SendFlags::empty()) {
            Ok(sent) => Ok(sent as u64),
            // The link's ring is full.
            Err(Errno::NOBUFS | Errno::AGAIN) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}
