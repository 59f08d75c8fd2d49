//! Tests whether frames that a program redirects to an interface leave by it.
//!
//! A driver may have no transmit function for XDP, or drop all frames: a veth device does so unless
//! its peer has XDP in native mode or GRO on. So a few frames are redirected to the interface:
//!
//! ```text
//!   destination = source = the interface's own address | EtherType 88b5 | zeros     60 bytes
//! ```
//!
//! If the interface sends nothing else, its transmit counter shows whether they have left.
//! Otherwise the tracepoints of [`DriverDrops`] show it: they must not report that all of them were
//! dropped. Without tracepoints, frames are redirected in such numbers that the transmit counter
//! shows them among the frames of others. They may then fill the driver's ring, so that it drops
//! some of the frames of others.
//!
//! A switch drops such a frame, since it would leave through the port on which it arrived; hosts
//! ignore it. EtherType 88b5 is for local experiments (IEEE 802).

use std::io;
use std::time::{Duration, Instant};

use slipring_bpf::insn::{BpfHelper, BpfReg, call, exit, mov_imm};
use slipring_bpf::{Assembler, BpfCode, BpfProgram};
use slipring_fib::FibPortIndex;
use slipring_wire::mac::MacAddr;

use crate::driver_drops::DriverDrops;
use crate::layout::map;
use crate::program::context::XDP_ABORTED;

/// Number of frames per round, if these are enough to decide. The kernel passes at most this number
/// of redirected frames to a driver in one call.
const FEW_FRAMES: u32 = 16;
/// Maximum number of frames per round.
const MAX_FRAMES: u32 = 16_384;
/// Maximum number of frames that the kernel processes together in a round with more than
/// [`FEW_FRAMES`].
const BATCH_FRAMES: u32 = 64;
/// Number of rounds on an interface that also sends other frames, if the transmit counter must
/// decide.
const COUNTER_ROUNDS: u32 = 3;
/// Maximum number of rounds in which the driver's ring may have no room for any frame.
const RING_FULL_ROUNDS: u32 = 10;
/// How long a round waits after its frames until the counter is current.
const SETTLING_TIME: Duration = Duration::from_millis(20);

/// Sends frames to an interface in the same way as programs redirect them. Loading needs
/// privileges; running does not.
#[derive(Debug)]
pub struct EgressProbe {
    program: BpfProgram,
    port: FibPortIndex,
    mac: MacAddr,
}

impl EgressProbe {
    pub(crate) const fn new(program: BpfProgram, port: FibPortIndex, mac: MacAddr) -> Self {
        Self { program, port, mac }
    }

    /// Whether redirected frames leave the port's interface, which has this name in the calling
    /// thread's namespace. The port must be up, and in the applied tables or among those of
    /// [`BpfRouter::set_interfaces`](crate::BpfRouter::set_interfaces): otherwise no frames leave.
    /// Takes about 50 ms, and some tenths of a second if the interface also sends other frames and
    /// `drops` is absent, or if the driver's ring is full.
    ///
    /// # Errors
    /// The kernel's error; `NotFound` if there is no such interface.
    pub fn sends(&self, ifname: &str, drops: Option<&DriverDrops>) -> io::Result<bool> {
        for _ in 0..RING_FULL_ROUNDS {
            let before = drops.map(|drops| self.dropped(drops));
            let round = self.round(ifname, FEW_FRAMES)?;
            let fate = drops.zip(before).map(|(drops, before)| self.dropped(drops).since(before));
            if fate.is_some_and(|fate| fate.refused > 0) {
                return Ok(false);
            }
            if fate.is_some_and(|fate| fate.dropped >= FEW_FRAMES.into()) {
                continue;
            }
            if round.without == 0 {
                return Ok(round.shows(FEW_FRAMES));
            }
            return fate.map_or_else(|| self.shows_among_others(ifname, round), |_| Ok(true));
        }
        Ok(false)
    }

    /// Whether the transmit counter shows the probe's frames among those that other programs send,
    /// as in `round`.
    fn shows_among_others(&self, ifname: &str, round: ProbeRound) -> io::Result<bool> {
        let others = u32::try_from(round.without).unwrap_or(u32::MAX);
        let frames = (others / 4).clamp(BATCH_FRAMES, MAX_FRAMES);
        for _ in 0..COUNTER_ROUNDS {
            if !self.round(ifname, frames)?.shows(frames) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn dropped(&self, drops: &DriverDrops) -> ProbeDrops {
        let (dropped, refused) = (drops.probes_dropped(self.port), drops.probes_refused(self.port));
        ProbeDrops { dropped, refused }
    }

    /// Sends at least `frames` frames. A signal ends a test run early; then another run follows.
    fn send(&self, frames: u32) -> io::Result<()> {
        let batch = frames.min(BATCH_FRAMES);
        loop {
            match self.program.run_live(&probe_frame(self.mac), frames, batch) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                sent => return sent,
            }
        }
    }

    /// Sends frames, and then waits without sending for as long as that took. Returns by how much
    /// the transmit counter increased in each of the two intervals.
    fn round(&self, ifname: &str, frames: u32) -> io::Result<ProbeRound> {
        let (start, before) = (Instant::now(), sent_packets(ifname)?);
        self.send(frames)?;
        std::thread::sleep(SETTLING_TIME);
        let (time, between) = (start.elapsed(), sent_packets(ifname)?);
        std::thread::sleep(time);
        let after = sent_packets(ifname)?;
        let (with, without) = (between.saturating_sub(before), after.saturating_sub(between));
        Ok(ProbeRound { with, without })
    }
}

/// Frames of probes that did not leave, according to the tracepoints.
#[derive(Debug, Clone, Copy)]
struct ProbeDrops {
    /// All of them.
    dropped: u64,
    /// Those that the driver does not take from programs at all.
    refused: u64,
}

impl ProbeDrops {
    const fn since(self, before: Self) -> Self {
        Self { dropped: self.dropped - before.dropped, refused: self.refused - before.refused }
    }
}

/// By how much the transmit counter increased in two intervals of equal length.
#[derive(Debug, Clone, Copy)]
struct ProbeRound {
    /// The increase while the probe's frames were sent.
    with: u64,
    /// The increase in the interval after that.
    without: u64,
}

impl ProbeRound {
    /// Whether the counter shows that at least half of the frames have left.
    fn shows(self, frames: u32) -> bool {
        self.with >= self.without + u64::from(frames / 2)
    }
}

/// A program that redirects every frame to the interface of `port`.
pub(crate) fn redirect_program(port: u16) -> BpfCode {
    let mut program = Assembler::new();
    program
        .load_map(BpfReg::R1, map::EGRESS)
        .put_all([mov_imm(BpfReg::R2, port.into()), mov_imm(BpfReg::R3, XDP_ABORTED)])
        .put_all([call(BpfHelper::RedirectMap), exit()]);
    program.assemble().expect("the program has no labels")
}

fn probe_frame(mac: MacAddr) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&mac.0);
    frame[6..12].copy_from_slice(&mac.0);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

/// The transmit counter of an interface of this thread's network namespace.
fn sent_packets(ifname: &str) -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    transmitted(&text, ifname).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Reads the number of sent packets from the text of `/proc/net/dev`.
fn transmitted(text: &str, ifname: &str) -> Option<u64> {
    /// Index of the number of sent packets. The name is followed by eight columns about reception,
    /// then bytes sent, then packets sent.
    const COLUMN: usize = 9;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, columns) = lines.find(|(name, _)| name.trim() == ifname)?;
    columns.split_ascii_whitespace().nth(COLUMN)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_others_do_not_pass_for_those_of_the_probe() {
        let shows = |with, without| ProbeRound { with, without }.shows(64);
        assert!(shows(64, 0) && shows(32, 0) && shows(1064, 1000));
        assert!(!shows(0, 0) && !shows(31, 0) && !shows(1000, 1000) && !shows(64, 64));
    }

    #[test]
    fn the_counter_of_an_interface_is_found_by_its_name() {
        let text = "Inter-|   Receive  | Transmit\n face |bytes packets|bytes packets\n\
            \x20   lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
            eth0: 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36\n";
        assert_eq!(transmitted(text, "eth0"), Some(30));
        assert_eq!(transmitted(text, "lo"), Some(10));
        assert_eq!(transmitted(text, "eth"), None);
    }
}
