//! The kernel's own forwarding over the same links: one namespace routes UDP between two.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

use slipring_core::netns::Netns;
use slipring_port::bpf::Link;
use slipring_port::bpf::insn::{Insn, Reg, Width, add_imm, exit, jgt, jne_imm, load, mov, mov_imm};
use slipring_port::netlink::Netlink;
use slipring_port::{Nanos, now};
use slipring_wire::MacAddr;
use slipring_wire::frame::{FrameSpec, IpSpec, Ipv4Spec};

use super::lab::{INPUT, Lab, SOURCE, attach, find, frame};
use super::measure::{PROGRAM_CPU, Tally, Why};
use super::row::Bout;

/// Name of the contender.
pub(super) const NAME: &str = "kernel, ip_forward";

/// The pair behind the router, the far end in a namespace of its own.
pub(super) const NEAR: &str = "srbench2a";
const FAR: &str = "srbench2b";

const SENDER: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 2);
const ROUTER_IN: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 1);
const ROUTER_OUT: Ipv4Addr = Ipv4Addr::new(10, 66, 1, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 66, 1, 2);

/// Lets ARP pass, so that the router finds its neighbour, and drops everything else.
const DROP_BUT_ARP: [Insn; 11] = [
    load(Width::Word, Reg::R2, Reg::R1, 0),
    load(Width::Word, Reg::R3, Reg::R1, 4),
    mov(Reg::R4, Reg::R2),
    add_imm(Reg::R4, 14),
    jgt(Reg::R4, Reg::R3, 4),
    load(Width::Half, Reg::R5, Reg::R2, 12),
    jne_imm(Reg::R5, 0x0608, 2),
    mov_imm(Reg::R0, 2),
    exit(),
    mov_imm(Reg::R0, 1),
    exit(),
];

/// Routes frames of `len` bytes.
pub(super) fn bout(len: usize) -> Result<Bout, Why> {
    let lab = Lab::new()?;
    let router = lab.hold(Router::new)?;
    let frame = lab.within(|| routed_frame(len))?;
    Ok(Box::new(move |time| {
        let _ = &router;
        Ok(lab.while_feeding(SOURCE, &frame, || count(NEAR, time))?.into())
    }))
}

/// What the router needs beside the lab.
pub(super) struct Router {
    _far: Netns,
    _drop: Link,
}

impl Router {
    pub(super) fn new() -> Result<Self, Why> {
        let far = Netns::new()?;
        let netlink = Netlink::open()?;
        netlink.add_veth(NEAR, FAR, Some(far.as_fd()))?;
        for (name, address) in [(INPUT, ROUTER_IN), (NEAR, ROUTER_OUT)] {
            settle(&netlink, name, address)?;
        }
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        let drop = far.run(|| Ok(receiver()))??;
        spread_receive_work()?;
        Ok(Self { _far: far, _drop: drop })
    }
}

/// The far end.
fn receiver() -> Result<Link, Why> {
    settle(&Netlink::open()?, FAR, RECEIVER)?;
    attach(FAR, &DROP_BUT_ARP)
}

fn settle(netlink: &Netlink, name: &str, address: Ipv4Addr) -> Result<(), Why> {
    let index = find(name)?.index;
    netlink.add_address(index, address.into(), 24)?;
    Ok(netlink.set_up(index)?)
}

/// Moves the router's work to the CPU that programs have for theirs (RPS); the source's CPU only
/// receives, as for them.
fn spread_receive_work() -> Result<(), Why> {
    let mask = 1 << PROGRAM_CPU;
    let script = format!(
        "mount -t sysfs sysfs /sys && echo {mask:x} > /sys/class/net/{INPUT}/queues/rx-0/rps_cpus"
    );
    let done = Command::new("unshare").args(["-m", "sh", "-c", &script]).output()?;
    match done.status.success() {
        true => Ok(()),
        false => {
            Err(Why::Skipped(format!("no RPS: {}", String::from_utf8_lossy(&done.stderr).trim())))
        }
    }
}

pub(super) fn routed_frame(len: usize) -> Result<Vec<u8>, Why> {
    let spec = FrameSpec {
        dst_mac: MacAddr(find(INPUT)?.mac),
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        ip: IpSpec::V4(Ipv4Spec { src: SENDER, dst: RECEIVER, ..Ipv4Spec::default() }),
        ..FrameSpec::default()
    };
    frame(&spec, len)
}

/// Packets that leave by `ifname` in `time`, and how long the program's CPU was busy meanwhile,
/// whoever kept it so: much is done in softirqs, which nobody accounts to a process.
pub(super) fn count(ifname: &str, time: Duration) -> Result<Tally, Why> {
    // The neighbour is found meanwhile.
    std::thread::sleep(Duration::from_millis(20));
    let (before, busy, start) = (sent(ifname)?, busy(PROGRAM_CPU)?, now());
    std::thread::sleep(time);
    let (packets, wall) = (sent(ifname)? - before, now() - start);
    Ok(Tally { packets, wall, cpu: self::busy(PROGRAM_CPU)? - busy })
}

/// How long a CPU has been busy since the machine started, in steps of 10 ms.
fn busy(cpu: usize) -> Result<Nanos, Why> {
    let text = std::fs::read_to_string("/proc/stat")?;
    busy_of(&text, cpu).ok_or_else(|| Why::Failed(format!("no times of CPU {cpu}")))
}

/// user, nice, system, idle, iowait, irq, softirq, ... in hundredths of a second; see proc(5).
fn busy_of(text: &str, cpu: usize) -> Option<Nanos> {
    let row = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")))?;
    let times: Option<Vec<Nanos>> = row.split(' ').map(|time| time.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = times?[..] else { return None };
    Some((user + nice + system + irq + softirq) * 10_000_000)
}

/// The device's own count of packets sent, in the calling thread's namespace.
fn sent(ifname: &str) -> Result<u64, Why> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    sent_of(&text, ifname).ok_or_else(|| Why::Failed(format!("no counters of {ifname}")))
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
