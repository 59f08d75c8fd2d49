//! Tests from captures to captures, through the user's flags: the exact behaviour of links, to the
//! nanosecond, and the handling of bad files.

mod behaviour;
mod files;
mod outputs;
mod statistics;
mod topology;

use std::path::PathBuf;

use serde_json::Value;
use slipring_pcap::{LinkType, PcapFileReader, PcapWriter};

use slipring_datapath::captured_run::{CapturedRun, run_captured};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// Start of the captures in tests, in ns since 1970.
const EPOCH: u64 = 1_700_000_000 * SECOND;
/// Captured bytes of each frame: Ethernet header, frame number, and two more bytes.
const KEPT: usize = 24;

/// A frame of a capture: time in ns since [`EPOCH`], number, and length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    at_ns: u64,
    id: u64,
    len: u32,
}

/// A directory with captures, in which the program runs.
struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Returns the frames of a capture that the program wrote.
    fn frames(&self, name: &str) -> Vec<Frame> {
        frames(&self.bytes(name))
    }

    /// Runs `slipring emulate`; in `args`, an `@` precedes names of files in the directory.
    fn run(&self, args: &str) -> CapturedRun {
        run_captured(&[crate::VERB], "emulate", args, self.dir.path())
    }

    /// Runs a link between `in.pcap` and `out.pcap`. Returns the final report.
    fn emulate(&self, args: &str) -> Value {
        let output = self.run(&format!("--virtual @in.pcap @out.pcap --seed 7 --json {args}"));
        assert_eq!(output.status, 0, "{args}: {}", output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    }
}

/// Runs link `up` with the flags `args` on the frames of `input`, given by time and length. Returns
/// the frames that leave it, and the report.
fn link(args: &str, input: impl IntoIterator<Item = (u64, u32)>) -> (Vec<Frame>, Value) {
    let lab = Lab::new();
    lab.write("in.pcap", &capture(input));
    let report = lab.emulate(args);
    (lab.frames("out.pcap"), report)
}

/// Builds a capture of frames given by time and length, numbered from 0.
fn capture(frames: impl IntoIterator<Item = (u64, u32)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let writer = PcapWriter::begin(&mut bytes, LinkType::ETHERNET, 0);
    for (id, (at_ns, len)) in (0u64..).zip(frames) {
        writer.packet(&mut bytes, EPOCH + at_ns, len, &data(id, len)).unwrap();
    }
    bytes
}

/// Returns the captured bytes of a frame.
fn data(id: u64, len: u32) -> Vec<u8> {
    let mut data = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    data.extend(id.to_le_bytes());
    data.resize(KEPT.min(len as usize), 0xee);
    data
}

fn frames(capture: &[u8]) -> Vec<Frame> {
    let frame = |packet: slipring_pcap::CapturedPacket<'_>| Frame {
        at_ns: packet.ts_ns - EPOCH,
        id: u64::from_le_bytes(packet.data[14..22].try_into().unwrap()),
        len: packet.orig_len,
    };
    PcapFileReader::new(capture).map(|packet| frame(packet.unwrap())).collect()
}

/// Returns the departure times.
fn times(frames: &[Frame]) -> Vec<u64> {
    frames.iter().map(|frame| frame.at_ns).collect()
}

/// Returns the part of a report about the link `up`.
fn up(report: &Value) -> &Value {
    &report["links"][0]
}
