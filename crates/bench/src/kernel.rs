//! The kernel's own forwarding over veth links. The namespace of the test network routes UDP
//! packets from its source to a second namespace.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

use slipring_bpf::insn::{AccessWidth, BpfInsn, BpfReg, JumpIf, add_imm, exit, load, mov, mov_imm};
use slipring_bpf::{AssembleError, Assembler, BpfLink};
use slipring_core::netns::Netns;
use slipring_port::netlink::Netlink;
use slipring_port::{Nanos, now};
use slipring_wire::MacAddr;
use slipring_wire::frame::{FrameSpec, IpSpec, Ipv4Spec};

use super::lab::{BenchLab, INPUT_IFNAME, SOURCE_IFNAME, attach, find, frame};
use super::measure::{BenchError, BenchTally, PROGRAM_CPU};
use super::row::BenchRound;

/// The name of this contender in the table.
pub(super) const CONTENDER_NAME: &str = "kernel, ip_forward";

/// The veth pair after the router. Its far end is in a separate namespace.
pub(super) const NEAR_IFNAME: &str = "srbench2a";
const FAR_IFNAME: &str = "srbench2b";

const SENDER_ADDR: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 2);
const ROUTER_IN_ADDR: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 1);
const ROUTER_OUT_ADDR: Ipv4Addr = Ipv4Addr::new(10, 66, 1, 1);
const RECEIVER_ADDR: Ipv4Addr = Ipv4Addr::new(10, 66, 1, 2);

/// Returns a program that passes ARP, so that the router finds its neighbour, and drops everything
/// else.
fn drop_but_arp() -> Result<Vec<BpfInsn>, AssembleError> {
    let mut program = Assembler::new();
    program
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R1, 0))
        .put(load(AccessWidth::Word, BpfReg::R3, BpfReg::R1, 4))
        .put_all([mov(BpfReg::R4, BpfReg::R2), add_imm(BpfReg::R4, 14)])
        .jump_if(BpfReg::R4, JumpIf::Gt, BpfReg::R3, "drop")
        .put(load(AccessWidth::Half, BpfReg::R5, BpfReg::R2, 12))
        .jump_if(BpfReg::R5, JumpIf::Ne, 0x0608, "drop")
        .put_all([mov_imm(BpfReg::R0, 2), exit()])
        .label("drop")
        .put_all([mov_imm(BpfReg::R0, 1), exit()]);
    program.assemble()?.bind(|_| None)
}

/// Measures how fast frames of `len` bytes are routed.
pub(super) fn round(len: usize) -> Result<BenchRound, BenchError> {
    let lab = BenchLab::new()?;
    let router = lab.hold(KernelRouter::new)?;
    let frame = lab.within(|| routed_frame(len))?;
    Ok(Box::new(move |time| {
        let _ = &router;
        Ok(lab.while_feeding(SOURCE_IFNAME, &frame, || count(NEAR_IFNAME, time))?.into())
    }))
}

/// What the router needs in addition to the test network.
pub(super) struct KernelRouter {
    _far: Netns,
    _drop: BpfLink,
}

impl KernelRouter {
    pub(super) fn new() -> Result<Self, BenchError> {
        let far = Netns::new()?;
        let netlink = Netlink::open()?;
        netlink.add_veth(NEAR_IFNAME, FAR_IFNAME, Some(far.as_fd()))?;
        for (name, address) in [(INPUT_IFNAME, ROUTER_IN_ADDR), (NEAR_IFNAME, ROUTER_OUT_ADDR)] {
            configure_link(&netlink, name, address)?;
        }
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        let drop = far.run(|| Ok(receiver()))??;
        spread_receive_work()?;
        Ok(Self { _far: far, _drop: drop })
    }
}

/// Sets up the far end.
fn receiver() -> Result<BpfLink, BenchError> {
    configure_link(&Netlink::open()?, FAR_IFNAME, RECEIVER_ADDR)?;
    let program = drop_but_arp().map_err(|error| BenchError::Failed(error.to_string()))?;
    attach(FAR_IFNAME, &program)
}

fn configure_link(netlink: &Netlink, name: &str, address: Ipv4Addr) -> Result<(), BenchError> {
    let index = find(name)?.index;
    netlink.add_address(index, address.into(), 24)?;
    Ok(netlink.set_up(index)?)
}

/// Moves the router's work to the CPU on which measured programs run (RPS). The CPU of the source
/// only receives, as when these programs are measured.
fn spread_receive_work() -> Result<(), BenchError> {
    let mask = 1 << PROGRAM_CPU;
    let script = format!(
        "mount -t sysfs sysfs /sys && echo {mask:x} > /sys/class/net/{INPUT_IFNAME}/queues/rx-0/rps_cpus"
    );
    let done = Command::new("unshare").args(["-m", "sh", "-c", &script]).output()?;
    match done.status.success() {
        true => Ok(()),
        false => Err(BenchError::Skipped(format!(
            "no RPS: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        ))),
    }
}

pub(super) fn routed_frame(len: usize) -> Result<Vec<u8>, BenchError> {
    let spec = FrameSpec {
        dst_mac: MacAddr(find(INPUT_IFNAME)?.mac),
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        ip: IpSpec::V4(Ipv4Spec { src: SENDER_ADDR, dst: RECEIVER_ADDR, ..Ipv4Spec::default() }),
        ..FrameSpec::default()
    };
    frame(&spec, len)
}

/// Counts the packets that leave through `ifname` in `time`. Measures for how long the program's
/// CPU is busy in this time, for any reason. Much of the work is done in softirqs, which do not
/// count for any process.
pub(super) fn count(ifname: &str, time: Duration) -> Result<BenchTally, BenchError> {
    // The router finds its neighbour during this pause.
    std::thread::sleep(Duration::from_millis(20));
    let (before, busy, start) = (packets_sent(ifname)?, busy(PROGRAM_CPU)?, now());
    std::thread::sleep(time);
    let (packets, wall) = (packets_sent(ifname)? - before, now() - start);
    Ok(BenchTally { packets, wall, cpu: self::busy(PROGRAM_CPU)? - busy })
}

/// Returns for how long a CPU has been busy since the machine started, in steps of 10 ms.
fn busy(cpu: usize) -> Result<Nanos, BenchError> {
    let text = std::fs::read_to_string("/proc/stat")?;
    busy_of(&text, cpu).ok_or_else(|| BenchError::Failed(format!("no times of CPU {cpu}")))
}

/// Parses the time for which a CPU has been busy from `/proc/stat`. The columns are user, nice,
/// system, idle, iowait, irq, softirq, ... in hundredths of a second; see proc(5).
fn busy_of(text: &str, cpu: usize) -> Option<Nanos> {
    let row = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")))?;
    let times: Option<Vec<Nanos>> = row.split(' ').map(|time| time.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = times?[..] else { return None };
    Some((user + nice + system + irq + softirq) * 10_000_000)
}

/// Returns how many packets the interface has sent, by its own count. It must be in the network
/// namespace of the calling thread.
pub(super) fn packets_sent(ifname: &str) -> Result<u64, BenchError> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    sent_of(&text, ifname).ok_or_else(|| BenchError::Failed(format!("no counters of {ifname}")))
}

fn sent_of(text: &str, ifname: &str) -> Option<u64> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, counters) = lines.into_iter().find(|(name, _)| name.trim() == ifname)?;
    counters.split_whitespace().nth(9)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_sent_are_the_tenth_number() {
        let text = "Inter-| Receive | Transmit\n face |bytes\n    lo: 1 2 0 0 0 0 0 0 9 10 0 0 0 0 0 0\n  \
                    eth0: 5 6 0 0 0 0 0 0 70 80 0 0 0 0 0 0\n";
        assert_eq!(sent_of(text, "eth0"), Some(80));
        assert_eq!(sent_of(text, "eth1"), None);
    }
    #[test]
    fn a_cpu_is_busy_but_for_idling_and_waiting() {
        let text =
            "cpu  9 9 9 9 9 9 9 0 0 0\ncpu0 9 9 9 9 9 9 9 0 0 0\ncpu1 1 2 3 100 100 4 5 0 0 0\n";
        assert_eq!(busy_of(text, 1), Some(150_000_000));
        assert_eq!(busy_of(text, 2), None);
    }
}
