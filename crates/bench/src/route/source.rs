//! A source of frames to many destinations: an XDP program on live frames (`BPF_PROG_TEST_RUN`)
//! that writes the headers of each frame and redirects it into a veth link.
//!
//! ```text
//!   the array's one value:  count 8 | 8 unused | destination 0 | destination 1 | ...
//!     IPv4, 8 bytes each:   address 4 | header checksum 2 | 2 unused
//!     IPv6, 16 bytes each:  address
//! ```
//! Frames use the destinations in turn. All headers are written each time, because the kernel sends
//! the same memory again, which a router has changed.

use std::net::IpAddr;
use std::time::Duration;

use slipring_bpf::insn::{
    AccessWidth, AluOp, BpfHelper, BpfInsn, BpfReg, JumpIf, add_imm, alu, call, exit, load, mov,
    mov_imm, store, store_imm,
};
use slipring_bpf::{
    AssembleError, Assembler, BpfAttachType, BpfCode, BpfLink, BpfLinkFlags, BpfMap, BpfMapKind,
    BpfMapSpec, BpfProgram, UpdateMode,
};
use slipring_port::{Nanos, now};
use slipring_wire::checksum;

use super::softirq;
use crate::lab::{self, SOURCE_IFNAME, find};
use crate::measure::{BenchError, FEEDER_CPU, pin, thread_cpu};

/// Number of frames per run: so few that sending ends soon after the requested time. The frames per
/// batch are the kernel's NAPI budget, so that no ring overflows.
const FRAMES_PER_RUN: u32 = 20_000;
const FRAMES_PER_BATCH: u32 = 64;
/// Number of bytes before the destinations.
const COUNT_BYTES: usize = 16;
const MAP_NAME: &str = "destinations";
/// Length of the Ethernet header, and offset of its type.
const ETHER_BYTES: usize = 14;
const ETHER_TYPE_AT: usize = 12;

/// A source that sends from [`SOURCE_IFNAME`].
pub(super) struct RoutedSource {
    program: BpfProgram,
    frame: Vec<u8>,
    _map: BpfMap,
    /// Keeps the program attached: if nothing used it, each run would wait for an RCU grace period.
    _attached: BpfLink,
}

/// The result of one call of a source's `send`.
pub(super) struct SourceTally {
    pub(super) frames: u64,
    pub(super) wall: Nanos,
    /// CPU time of the sending thread, and of the kernel's softirq threads. Both also receive and
    /// forward packets.
    pub(super) cpu: Nanos,
}

/// A function that the sender calls from time to time.
pub(super) type SourceBreak<'b> = dyn FnMut() -> Result<(), BenchError> + Send + 'b;

impl RoutedSource {
    /// Creates a source of frames that differ from `frame` in their destinations, in the
    /// calling thread's namespace. The number of destinations must be a power of two.
    pub(super) fn new(frame: Vec<u8>, destinations: &[IpAddr]) -> Result<Self, BenchError> {
        let value = map_value(&frame, destinations);
        let failed = |error: slipring_bpf::BpfError| BenchError::Failed(error.to_string());
        let spec = BpfMapSpec::new(BpfMapKind::Array, 4, value.len() as u32, 1);
        let map = BpfMap::create("slipring_bench", spec).map_err(failed)?;
        map.update(&0_u32.to_ne_bytes(), &value, UpdateMode::Any)?;
        let out = find(SOURCE_IFNAME)?.index;
        let program = code(&frame, destinations.len(), out)
            .and_then(|code| code.bind(|name| (name == MAP_NAME).then(|| map.raw_fd())))
            .map_err(|error| BenchError::Failed(error.to_string()))?;
        let program = lab::load(&program)?;
        let attached = program.attach(out, BpfAttachType::Xdp, BpfLinkFlags::XdpNative)?;
        Ok(Self { program, frame, _map: map, _attached: attached })
    }

    /// Sends for `time` from the calling thread. Calls `between` between runs of the program.
    pub(super) fn send(
        &self,
        time: Duration,
        between: &mut SourceBreak<'_>,
    ) -> Result<SourceTally, BenchError> {
        tally(time, || {
            between()?;
            self.program.run_live(&self.frame, FRAMES_PER_RUN, FRAMES_PER_BATCH)?;
            Ok(FRAMES_PER_RUN.into())
        })
    }
}

/// Calls `send` repeatedly for `time`. `send` returns the number of frames that it has sent.
pub(super) fn tally(
    time: Duration,
    mut send: impl FnMut() -> Result<u64, BenchError>,
) -> Result<SourceTally, BenchError> {
    pin(FEEDER_CPU);
    let (start, own, others) = (now(), thread_cpu(), softirq::threads_cpu()?);
    let until = start + time.as_nanos() as Nanos;
    let mut frames = 0;
    while now() < until {
        frames += send()?;
    }
    let others = softirq::threads_cpu()?.saturating_sub(others);
    Ok(SourceTally { frames, wall: now() - start, cpu: thread_cpu() - own + others })
}

/// Writes the destination to an Ethernet frame, and the checksum of an IPv4 header.
pub(super) fn set_destination(frame: &mut [u8], destination: IpAddr) {
    match destination {
        IpAddr::V4(address) => {
            frame[ETHER_BYTES + 16..][..4].copy_from_slice(&address.octets());
            frame[ETHER_BYTES + 10..][..2].fill(0);
            let sum = checksum::of(&frame[ETHER_BYTES..][..20]);
            frame[ETHER_BYTES + 10..][..2].copy_from_slice(&sum.to_be_bytes());
        }
        IpAddr::V6(address) => {
            frame[ETHER_BYTES + 24..][..16].copy_from_slice(&address.octets());
        }
    }
}

fn is_v6(frame: &[u8]) -> bool {
    frame[ETHER_TYPE_AT..][..2] == [0x86, 0xdd]
}

/// Positions of the destination and of the end of the IP header, in a frame.
fn positions(frame: &[u8]) -> (usize, usize) {
    let (destination, end) = if is_v6(frame) { (24, 40) } else { (16, 20) };
    (ETHER_BYTES + destination, ETHER_BYTES + end)
}

fn map_value(frame: &[u8], destinations: &[IpAddr]) -> Vec<u8> {
    let mut value = vec![0; COUNT_BYTES];
    for destination in destinations {
        match destination {
            IpAddr::V4(address) => {
                let mut frame = frame.to_vec();
                set_destination(&mut frame, *destination);
                value.extend(address.octets());
                value.extend_from_slice(&frame[ETHER_BYTES + 10..][..2]);
                value.extend([0; 2]);
            }
            IpAddr::V6(address) => value.extend(address.octets()),
        }
    }
    value
}

/// Returns the XDP program. In it, `R2` points to the frame. `R7` points to the start of the map's
/// value; later the offset of the chosen destination's entry is added, so that this entry is at
/// `R7 + COUNT_BYTES`.
fn code(frame: &[u8], destinations: usize, out: u32) -> Result<BpfCode, AssembleError> {
    let (at, end) = positions(frame);
    let (log2_size, mut program) = (if is_v6(frame) { 4 } else { 3 }, Assembler::new());
    program
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R1, 0))
        .put(load(AccessWidth::Word, BpfReg::R3, BpfReg::R1, 4))
        .put_all([mov(BpfReg::R4, BpfReg::R2), add_imm(BpfReg::R4, end as i32)])
        .jump_if(BpfReg::R4, JumpIf::Gt, BpfReg::R3, "drop")
        .load_map_value(BpfReg::R7, MAP_NAME, 0)
        .put(load(AccessWidth::Double, BpfReg::R8, BpfReg::R7, 0))
        .put_all([mov(BpfReg::R9, BpfReg::R8), add_imm(BpfReg::R9, 1)])
        .put(store(AccessWidth::Double, BpfReg::R7, 0, BpfReg::R9))
        .put(alu(AluOp::And, BpfReg::R8, destinations as i32 - 1))
        .put(alu(AluOp::Lsh, BpfReg::R8, log2_size))
        .put(alu(AluOp::Add, BpfReg::R7, BpfReg::R8))
        .put_all(headers(&frame[..end]))
        .put_all(destination(at as i16, is_v6(frame)))
        .put_all([mov_imm(BpfReg::R1, out as i32), mov_imm(BpfReg::R2, 0)])
        .put_all([call(BpfHelper::Redirect), exit()])
        .label("drop")
        .put_all([mov_imm(BpfReg::R0, 1), exit()]);
    program.assemble()
}

/// Returns instructions that write the headers `bytes` to the frame. `bytes` has an even length.
fn headers(bytes: &[u8]) -> Vec<BpfInsn> {
    let (words, rest) = bytes.as_chunks::<4>();
    let put = |(i, word): (usize, &[u8; 4])| {
        store_imm(AccessWidth::Word, BpfReg::R2, 4 * i as i16, i32::from_ne_bytes(*word))
    };
    let mut insns: Vec<_> = words.iter().enumerate().map(put).collect();
    if let &[first, second] = rest {
        let half = i32::from(u16::from_ne_bytes([first, second]));
        insns.push(store_imm(AccessWidth::Half, BpfReg::R2, 4 * words.len() as i16, half));
    }
    insns
}

/// Returns instructions that write the destination to offset `at` of the frame and, for IPv4, also
/// the checksum of the header.
fn destination(at: i16, is_v6: bool) -> Vec<BpfInsn> {
    const CHECKSUM_AT: i16 = (ETHER_BYTES + 10) as i16;
    let copy = |width, from: i16, to| {
        let from = COUNT_BYTES as i16 + from;
        [load(width, BpfReg::R1, BpfReg::R7, from), store(width, BpfReg::R2, to, BpfReg::R1)]
    };
    let copies = match is_v6 {
        true => [copy(AccessWidth::Double, 0, at), copy(AccessWidth::Double, 8, at + 8)],
        false => [copy(AccessWidth::Word, 0, at), copy(AccessWidth::Half, 4, CHECKSUM_AT)],
    };
    copies.concat()
}

#[cfg(test)]
mod tests {
    use slipring_bpf::{Interpreter, SimulatedMap, XdpMeta};
    use slipring_wire::frame::{FrameSpec, IpSpec, Ipv4Spec, Ipv6Spec};

    use super::*;

    const XDP_REDIRECT: u32 = 4;

    /// Runs the program several times on a frame of zeros, and returns the resulting frames.
    fn sent(frame: &[u8], destinations: &[IpAddr], runs: usize) -> Vec<Vec<u8>> {
        let value = map_value(frame, destinations);
        let spec = BpfMapSpec::new(BpfMapKind::Array, 4, value.len() as u32, 1);
        let mut map = SimulatedMap::new(spec);
        map.set(&0_u32.to_ne_bytes(), &value, 0).unwrap();
        let mut kernel = Interpreter::new();
        kernel.add_map(MAP_NAME, map);
        let code = code(frame, destinations.len(), 7).unwrap();
        let blank = vec![0; frame.len()];
        let meta = XdpMeta { ifindex: 1, rx_queue: 0 };
        let run = |_| {
            let outcome = kernel.run_xdp(&code, &blank, meta).unwrap();
            assert_eq!(outcome.action, XDP_REDIRECT);
            outcome.frame
        };
        (0..runs).map(run).collect()
    }

    #[test]
    fn ipv4_frames_take_the_destinations_in_turn_with_valid_checksums() {
        let ip = IpSpec::V4(Ipv4Spec::default());
        let frame = FrameSpec { ip, ..FrameSpec::default() }.build(60).unwrap().bytes;
        let destinations: [IpAddr; 2] = [[20, 1, 2, 3].into(), [99, 255, 0, 9].into()];
        let sent = sent(&frame, &destinations, 3);
        let of = |frame: &Vec<u8>| IpAddr::from(*frame[30..].first_chunk::<4>().unwrap());
        let expected = [destinations[0], destinations[1], destinations[0]];
        assert_eq!(sent.iter().map(of).collect::<Vec<_>>(), expected);
        for made in sent {
            assert_eq!(made[..24], frame[..24]);
            assert_eq!(checksum::of(&made[14..34]), 0, "a header with its checksum");
        }
    }

    #[test]
    fn ipv6_frames_take_the_destinations_in_turn() {
        let ip = IpSpec::V6(Ipv6Spec::default());
        let frame = FrameSpec { ip, ..FrameSpec::default() }.build(62).unwrap().bytes;
        let destinations: Vec<IpAddr> =
            (1..=4).map(|at| IpAddr::from([0x2001, 0xdb8, 0, at, 5, 6, 7, 8])).collect();
        let sent = sent(&frame, &destinations, 5);
        let of = |frame: &Vec<u8>| IpAddr::from(*frame[38..].first_chunk::<16>().unwrap());
        let expected: Vec<_> = destinations.iter().cycle().take(5).copied().collect();
        assert_eq!(sent.iter().map(of).collect::<Vec<_>>(), expected);
        assert!(sent.iter().all(|made| made[..38] == frame[..38]));
    }
}
