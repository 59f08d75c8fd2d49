//! The reading end of a pipe in another process. That process runs the same program, with a socket
//! as its standard input. The memory region and the two doorbells are passed through the socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use slipring_ring::{Doorbell, PipeEnd, PipePair, Region};

use super::measure::{BenchError, BenchTally, PROGRAM_CPU, pin};
use super::pipe_ends::{PipeReader, PipeWriter, ReadMode, beside_writer, pipe};
use super::row::BenchRound;

/// Number of descriptors that are passed: the region, the doorbell of the reading end, and that of
/// the writing end.
const NUM_FDS: usize = 3;

/// The pipe end that is passed to another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PassedPipeEnd {
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) batch: u32,
    pub(super) read_mode: ReadMode,
    pub(super) time: Duration,
}

impl PassedPipeEnd {
    pub(super) fn to_argument(self) -> String {
        let Self { offset, len, batch, read_mode, time } = self;
        format!(
            "{offset},{len},{batch},{},{}",
            u8::from(read_mode == ReadMode::Copy),
            time.as_nanos()
        )
    }

    /// Parses what [`Self::to_argument`] has written.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let numbers: Option<Vec<u64>> = text.split(',').map(|word| word.parse().ok()).collect();
        let [offset, len, batch, copy, nanos] = numbers?[..] else { return None };
        Some(Self {
            offset,
            len: usize::try_from(len).ok()?,
            batch: u32::try_from(batch).ok()?,
            read_mode: if copy == 0 { ReadMode::Swap } else { ReadMode::Copy },
            time: Duration::from_nanos(nanos),
        })
    }
}

/// Measures a pipe on which this process writes and another process reads. Each run has its own
/// pipe and process.
pub(super) fn two_processes<const N: usize>(read_mode: ReadMode, batch: u32) -> BenchRound {
    Box::new(move |time| {
        let PipePair { a, b } = pipe(true)?;
        let part = PassedPipeEnd { offset: b.offset(), len: N, batch, read_mode, time };
        let child = start(&b, part)?;
        // The other process uses end `b`, so this process must no longer touch it.
        drop(b);
        beside_writer::<N>(&mut PipeWriter::new(a), batch, || result(child))
    })
}

fn start(end: &PipeEnd, part: PassedPipeEnd) -> Result<Child, BenchError> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let child = Command::new("/proc/self/exe")
        .args(["bench", "--part", &part.to_argument()])
        .stdin(theirs)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (mine, peers) = end.doorbells();
    let fds = [end.rx.region().fd(), mine.as_fd(), peers.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(NUM_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(&ours, &[IoSlice::new(b"p")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(child)
}

/// Parses the output of the process, `packets wall cpu`, or returns an error.
pub(super) fn result(child: Child) -> Result<BenchTally, BenchError> {
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [packets, wall, cpu] if output.status.success() => Ok(BenchTally { packets, wall, cpu }),
        _ => Err(BenchError::Failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Runs in the other process: attaches to the passed end, reads, and returns the result.
pub(super) fn read(part: PassedPipeEnd) -> Result<BenchTally, BenchError> {
    let [region, mine, peers] = receive()?;
    let region = Region::attach(region)?;
    let bells = (Doorbell::from_fd(mine), Doorbell::from_fd(peers));
    let end = PipeEnd::attach(&region, part.offset, bells.0, bells.1)?;
    pin(PROGRAM_CPU);
    let mut reader = PipeReader::new(end, part.read_mode)?;
    match part.len {
        64 => reader.run::<64>(part.batch, part.time),
        1500 => reader.run::<1500>(part.batch, part.time),
        len => Err(BenchError::Failed(format!("no row has frames of {len} bytes"))),
    }
}

fn receive() -> Result<[OwnedFd; NUM_FDS], BenchError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(NUM_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(std::io::stdin(), &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    <[OwnedFd; NUM_FDS]>::try_from(fds)
        .map_err(|_| BenchError::Failed("no descriptors came".into()))
}
