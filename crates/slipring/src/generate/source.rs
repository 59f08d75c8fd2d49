//! Sources of frames: a pattern, a capture, or the old contents of the buffers.

use std::sync::Arc;

use slipring_cli::{Diagnostic, Failure, codes};
use slipring_port::capture::FileReader;
use slipring_port::{Nanos, OpenError};
use slipring_traffic::{Generator, ReplayTimeline};

/// A sequence of frames.
pub(super) trait GenSource: Send {
    /// Returns the length of the next frame in bytes; `None` if there are no more frames.
    fn next_len(&self) -> Option<usize>;

    /// Returns the length in bytes of the virtio-net header before each frame; it does not count as
    /// part of the frame.
    #[inline(always)]
    fn header(&self) -> usize {
        0
    }

    /// Returns the time at which the next frame is due, in ns after the start; `None` if the source
    /// has no times of its own.
    fn due(&self) -> Option<Nanos> {
        None
    }

    /// Writes the header and the next frame, with the timestamp `time`, to the start of `out`,
    /// which has space for both, and advances to the following frame.
    fn write(&mut self, time: Nanos, out: &mut [u8]);
}

impl GenSource for Generator {
    #[inline(always)]
    fn next_len(&self) -> Option<usize> {
        Some(self.next_len())
    }

    #[inline(always)]
    fn write(&mut self, time: Nanos, out: &mut [u8]) {
        let written = Generator::write(self, time, out);
        debug_assert!(written.is_some(), "the buffer holds the frame");
    }
}

/// Frames of one length, for a port that leaves the contents of buffers unchanged. Once a buffer
/// holds a frame, only the start of the frame is written again.
pub(super) struct PatchedFrames {
    generator: Generator,
    /// Addresses of the buffers that hold a frame. The index is the address divided by the size of
    /// the smallest buffer, modulo the length of this vector. If two buffers share an index, their
    /// frames are written completely every time.
    written: Vec<usize>,
}

impl PatchedFrames {
    /// Minimum frame length in bytes. Shorter frames can be written completely in the same time.
    pub(super) const MIN_LEN: usize = 192;
    /// Binary logarithm of the size in bytes of the smallest buffer.
    const BUFFER_BITS: u32 = 11;

    /// Creates a source for a ring of `slots` slots.
    pub(super) fn new(generator: Generator, slots: u32) -> Self {
        Self { generator, written: vec![0; (slots as usize * 4).next_power_of_two()] }
    }
}

impl GenSource for PatchedFrames {
    #[inline(always)]
    fn next_len(&self) -> Option<usize> {
        Some(self.generator.next_len())
    }

    #[inline(always)]
    fn write(&mut self, time: Nanos, out: &mut [u8]) {
        let address = out.as_ptr() as usize;
        let index = (address >> Self::BUFFER_BITS) & (self.written.len() - 1);
        if self.written[index] == address {
            self.generator.patch(time, out);
        } else {
            self.written[index] = address;
            self.generator.write(time, out);
        }
    }
}

/// Frames whose bytes are not written, to measure the cost of the rings alone.
pub(super) struct BlankFrames(pub(super) usize);

impl GenSource for BlankFrames {
    #[inline(always)]
    fn next_len(&self) -> Option<usize> {
        Some(self.0)
    }

    #[inline(always)]
    fn write(&mut self, _: Nanos, _: &mut [u8]) {}
}

/// Frames of another source, each after a virtio-net header. The header is all zeros: it requests
/// nothing from the kernel, since checksums and segments are complete.
pub(super) struct HeaderSource<S> {
    source: S,
    header: usize,
}

impl<S> HeaderSource<S> {
    /// Creates a source that adds `header` bytes before each frame of `source`.
    pub(super) fn new(source: S, header: usize) -> Self {
        Self { source, header }
    }
}

impl<S: GenSource> GenSource for HeaderSource<S> {
    fn next_len(&self) -> Option<usize> {
        self.source.next_len()
    }

    fn header(&self) -> usize {
        self.header
    }

    fn due(&self) -> Option<Nanos> {
        self.source.due()
    }

    fn write(&mut self, time: Nanos, out: &mut [u8]) {
        let (header, frame) = out.split_at_mut(self.header);
        header.fill(0);
        self.source.write(time, frame);
    }
}

/// A capture in memory.
#[derive(Debug)]
pub(super) struct CaptureRecording {
    bytes: Vec<u8>,
    packets: Vec<RecordedPacket>,
}

#[derive(Debug, Clone, Copy)]
struct RecordedPacket {
    time: Nanos,
    start: usize,
    len: usize,
}

impl CaptureRecording {
    /// Reads a whole capture.
    pub(super) fn read(path: &str) -> Result<Self, Failure> {
        let failed = |cause| OpenError::new(format!("pcap:{path}"), cause);
        let mut reader = FileReader::open(path).map_err(failed)?;
        let mut recording = Self { bytes: Vec::new(), packets: Vec::new() };
        while let Some(packet) =
            reader.next().map_err(|error| failed(error.into_open_cause(path)))?
        {
            let (start, len) = (recording.bytes.len(), packet.data.len());
            if len > 0 {
                recording.packets.push(RecordedPacket { time: packet.ts_ns, start, len });
                recording.bytes.extend_from_slice(packet.data);
            }
        }
        if recording.packets.is_empty() {
            let error = Diagnostic::new(codes::SR0202, format!("`{path}` holds no packet to send"))
                .with_cause("it is a capture, but an empty one")
                .with_help("capture again, or leave -P out to have frames made");
            return Err(error.into());
        }
        Ok(recording)
    }

    /// Returns the length of the longest packet in bytes.
    pub(super) fn max_len(&self) -> usize {
        self.packets.iter().map(|packet| packet.len).max().unwrap_or(0)
    }
}

/// One thread's share of a replayed recording: every n-th packet if there are n threads.
pub(super) struct RecordingReplay {
    recording: Arc<CaptureRecording>,
    timeline: ReplayTimeline,
    timed: bool,
    /// Index of the recording's next packet, which may belong to any thread.
    next: usize,
    /// Number of packets to skip before the next packet of this thread. They belong to other
    /// threads.
    skip: usize,
    threads: usize,
    current: Option<(RecordedPacket, Nanos)>,
}

impl RecordingReplay {
    /// Creates the replay of one thread. `timeline` sets the times and counts the passes over the
    /// recording. If `timed` is false, the times are ignored.
    pub(super) fn new(
        recording: Arc<CaptureRecording>,
        timeline: ReplayTimeline,
        timed: bool,
        share: (usize, usize),
    ) -> Self {
        let (skip, threads) = share;
        let next = recording.packets.len();
        let mut replay = Self { recording, timeline, timed, next, skip, threads, current: None };
        replay.current = replay.fetch();
        replay
    }

    /// Returns the next packet of this thread, with its time; `None` after the last packet.
    fn fetch(&mut self) -> Option<(RecordedPacket, Nanos)> {
        loop {
            if self.next == self.recording.packets.len() {
                if !self.timeline.next_pass() {
                    return None;
                }
                self.next = 0;
            }
            let packet = self.recording.packets[self.next];
            self.next += 1;
            let due = self.timeline.release_ns(packet.time);
            if self.skip == 0 {
                self.skip = self.threads - 1;
                return Some((packet, due));
            }
            self.skip -= 1;
        }
    }
}

impl GenSource for RecordingReplay {
    fn next_len(&self) -> Option<usize> {
        self.current.map(|(packet, _)| packet.len)
    }

    fn due(&self) -> Option<Nanos> {
        self.current.filter(|_| self.timed).map(|(_, due)| due)
    }

    fn write(&mut self, _: Nanos, out: &mut [u8]) {
        if let Some((RecordedPacket { start, len, .. }, _)) = self.current {
            out[..len].copy_from_slice(&self.recording.bytes[start..start + len]);
        }
        self.current = self.fetch();
    }
}

#[cfg(test)]
mod tests {
    use slipring_traffic::{GeneratorShare, Sizes, TrafficPattern};

    use super::*;

    fn generator() -> Generator {
        let pattern = TrafficPattern {
            sizes: Sizes::fixed(1000).unwrap(),
            src: "10.0.0.0/24".parse().unwrap(),
            ..TrafficPattern::default()
        };
        Generator::new(&pattern, 1, GeneratorShare::ONLY).unwrap()
    }

    #[test]
    fn patched_buffers_hold_what_written_ones_do_in_whatever_order_they_come() {
        let (mut whole, mut patched) = (generator(), PatchedFrames::new(generator(), 2));
        let mut pool = vec![0xee_u8; 16 * 2048];
        for n in 0..500 {
            let i = (n * 7 + n / 3) % 16;
            let buffer = &mut pool[i * 2048..][..2048];
            patched.write(n as Nanos, buffer);
            let mut expected = [0; 1000];
            whole.write(n as Nanos, &mut expected);
            assert!(buffer[..1000] == expected, "frame {n}");
        }
    }

    fn recording(times: &[Nanos]) -> Arc<CaptureRecording> {
        let packet = |(i, &time): (usize, &Nanos)| RecordedPacket { time, start: i, len: 1 };
        let packets: Vec<_> = times.iter().enumerate().map(packet).collect();
        Arc::new(CaptureRecording { bytes: (0..times.len() as u8).collect(), packets })
    }

    /// Returns bytes and times of the frames of a replay.
    fn play(mut replay: RecordingReplay) -> Vec<(u8, Option<Nanos>)> {
        let mut sent = Vec::new();
        while replay.next_len().is_some() {
            let (due, mut byte) = (replay.due(), [0]);
            replay.write(0, &mut byte);
            sent.push((byte[0], due));
        }
        sent
    }

    #[test]
    fn threads_share_a_recording_and_keep_its_times() {
        let recording = recording(&[100, 130, 160]);
        let timeline = || ReplayTimeline::new().with_passes(Some(2));
        let player = |i| play(RecordingReplay::new(recording.clone(), timeline(), true, (i, 2)));
        let due = |byte, time| (byte, Some(time));
        assert_eq!(player(0), [due(0, 0), due(2, 60), due(1, 120)]);
        assert_eq!(player(1), [due(1, 30), due(0, 90), due(2, 150)]);
    }

    #[test]
    fn an_untimed_replay_never_waits() {
        let replay =
            RecordingReplay::new(recording(&[5, 5_000]), ReplayTimeline::new(), false, (0, 1));
        assert_eq!(play(replay), [(0, None), (1, None)]);
    }
}
