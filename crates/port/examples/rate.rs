//! Measures ports: `rate xdp|packet|tap tx|rx|forward [generic] [LEN]`, as root.
//!
//! Everything happens in a network namespace of its own. Received frames come from a BPF program
//! that the kernel runs on live frames (12 to 14 Mpps), on CPU 0 together with the receiving side's
//! softirq; the measured program runs on CPU 1. Sent frames are dropped by XDP. Rates are Mpps:
//! minimum, median and maximum of eleven runs.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{CpuSet, UnshareFlags, sched_setaffinity, unshare_unsafe};
use slipring_bpf::insn::{BpfHelper, BpfInsn, BpfReg, call, exit, mov_imm};
use slipring_bpf::{
    BpfAttachType, BpfLink, BpfLinkFlags, BpfProgram, BpfProgramFlags, BpfProgramKind,
};
use slipring_port::iface::Iface;
use slipring_port::{OpenOptions, Port, XdpMode, forward, now, packet, tap, xdp};
use slipring_ring::{Geometry, HugePages, Region};
use slipring_wire::FrameSpec;

const RUN_NANOS: u64 = 300_000_000;
const RUNS: usize = 11;
const BATCH: u32 = 256;
const XDP_DROP: i32 = 1;
/// Frames per call of the generator. The number is large because each call begins and ends with an
/// idle period of tens of milliseconds.
const GENERATED: u32 = 2_000_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let len = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(60);
    let generic = args.iter().any(|arg| arg == "generic");
    let mut words = args.iter().map(String::as_str);
    let (kind, what) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    // SAFETY: a new network namespace changes nothing that other threads rely on.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
    let _ = rustix::process::setsid();
    let _ = rustix::process::nice(-20);
    // The scheduler first weighs autogroups (sessions), and weighs nice values only within an
    // autogroup. So this raises the weight of the whole session.
    let _ = std::fs::write("/proc/self/autogroup", "-20");
    pin(1);
    let mode = if generic { XdpMode::Generic } else { XdpMode::Best };
    let mut lab = Lab::new(kind, mode, len);
    let runs = match what {
        "tx" => lab.tx(),
        "rx" => lab.rx(),
        "forward" => lab.forward(),
        _ => panic!("say xdp, packet or tap, then tx, rx or forward"),
    };
    lab.show(runs);
}

/// Ports `a` and `b`, and the interface at the other end of each: the other end of a veth, or the
/// TAP device itself.
struct Lab {
    a: Port,
    b: Port,
    outside: [&'static str; 2],
    frame: Vec<u8>,
}

impl Lab {
    fn new(kind: &str, mode: XdpMode, len: usize) -> Self {
        let geometry = Geometry { bufs: 8192, ..Geometry::default() };
        let region = Region::create(geometry, HugePages::Never).unwrap();
        let tap = kind == "tap";
        if !tap {
            for (one, other) in [("va", "vb"), ("vc", "vd")] {
                run(&format!("ip link add {one} type veth peer name {other}"));
                quiet(&[one, other]);
            }
        }
        let open = |ifname| open(kind, ifname, mode, &region);
        let (a, b) = (open("va"), open("vc"));
        if tap {
            quiet(&["va", "vc"]);
        }
        let frame = FrameSpec::default().build(len).unwrap().bytes;
        Self { a, b, outside: if tap { ["va", "vc"] } else { ["vb", "vd"] }, frame }
    }

    fn tx(&mut self) -> Vec<Run> {
        let _drop = drop_all(self.outside[0]);
        let frame = &self.frame;
        measure(&mut self.a, |port| {
            let queue = &mut port.queues[0];
            let filled = queue.rings().tx.fill(BATCH, |buf| {
                buf[..frame.len()].copy_from_slice(frame);
                frame.len()
            });
            queue.tx_sync().unwrap();
            filled
        })
    }

    fn rx(&mut self) -> Vec<Run> {
        generating(self.outside[0], &self.frame, || {
            measure(&mut self.a, |port| {
                let queue = &mut port.queues[0];
                queue.rx_sync().unwrap();
                let mut batch = queue.rings().rx.batch(BATCH);
                let frames = batch.frames();
                let count = frames.len() as u32;
                std::hint::black_box(frames.map(|frame| frame.bytes[0] as usize).sum::<usize>());
                count
            })
        })
    }

    fn forward(&mut self) -> Vec<Run> {
        let _drop = drop_all(self.outside[1]);
        generating(self.outside[0], &self.frame, || {
            measure(&mut self.b, |to| forward(&mut self.a, to, BATCH).unwrap())
        })
    }

    fn show(mut self, mut runs: Vec<Run>) {
        for port in [&mut self.a, &mut self.b] {
            println!("{}", port.info);
            let stats = port.stats();
            stats.drops().for_each(|(cause, count)| println!("dropped {count}: {}", cause.name()));
        }
        for (what, pick) in [("wall clock", Run::mpps as fn(&Run) -> f64), ("CPU", Run::cpu_mpps)] {
            runs.sort_by(|a, b| pick(a).total_cmp(&pick(b)));
            let [least, middle, most] = [0, RUNS / 2, RUNS - 1].map(|i| pick(&runs[i]));
            println!("{} B, {what}: {least:.2}/{middle:.2}/{most:.2} Mpps", self.frame.len());
        }
    }
}

fn open(kind: &str, ifname: &str, mode: XdpMode, region: &Arc<Region>) -> Port {
    let options = OpenOptions { xdp: mode, ..OpenOptions::default() };
    let name = format!("{kind}:{ifname}");
    match kind {
        "xdp" => xdp::open(&name, ifname, None, region, &options).unwrap(),
        "packet" => packet::open(&name, ifname, None, region, &options).unwrap(),
        "tap" => tap::open(&name, ifname, 1, region, &options).unwrap(),
        _ => panic!("say xdp, packet or tap first"),
    }
}

fn quiet(ifnames: &[&str]) {
    for name in ifnames {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").unwrap();
        run(&format!("ip link set {name} up"));
        run(&format!("ethtool -K {name} gro on"));
    }
}

/// The result of one run: the number of frames moved, and the time that this took.
struct Run {
    frames: f64,
    wall_nanos: f64,
    /// CPU time, in ns, of the calls that moved frames.
    busy_nanos: f64,
}

impl Run {
    fn mpps(&self) -> f64 {
        self.frames * 1e3 / self.wall_nanos
    }

    /// Returns the rate per CPU core that would result if frames were always available.
    fn cpu_mpps(&self) -> f64 {
        self.frames * 1e3 / self.busy_nanos
    }
}

/// Calls `work` repeatedly, for [`RUNS`] runs of [`RUN_NANOS`] each, after one that does not count.
/// `work` returns how many frames it moved.
fn measure(port: &mut Port, mut work: impl FnMut(&mut Port) -> u32) -> Vec<Run> {
    let mut run = || {
        let start = now();
        let (mut frames, mut busy) = (0, 0);
        while now() - start < RUN_NANOS {
            let before = cpu_time();
            let moved = work(port);
            if moved > 0 {
                frames += u64::from(moved);
                busy += cpu_time() - before;
            }
        }
        Run { frames: frames as f64, wall_nanos: (now() - start) as f64, busy_nanos: busy as f64 }
    };
    run();
    (0..RUNS).map(|_| run()).collect()
}

fn cpu_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Runs `work` while another CPU generates copies of `frame` that leave through `ifname`.
fn generating<R>(ifname: &str, frame: &[u8], work: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    let ifindex = Iface::find(ifname).unwrap().index as i32;
    let redirect =
        [mov_imm(BpfReg::R1, ifindex), mov_imm(BpfReg::R2, 0), call(BpfHelper::Redirect), exit()];
    let program = load(&redirect);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(0);
            while !stop.load(Ordering::Relaxed) {
                program.run_live(frame, GENERATED, 64).unwrap();
            }
        });
        let result = work();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

fn load(insns: &[BpfInsn]) -> BpfProgram {
    let flags = BpfProgramFlags { frags: true, bound_to: None };
    BpfProgram::load(BpfProgramKind::Xdp, "rate", insns, flags).unwrap()
}

fn drop_all(ifname: &str) -> BpfLink {
    let ifindex = Iface::find(ifname).unwrap().index;
    let program = load(&[mov_imm(BpfReg::R0, XDP_DROP), exit()]);
    program.attach(ifindex, BpfAttachType::Xdp, BpfLinkFlags::XdpNative).unwrap()
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).unwrap();
}

fn run(words: &str) {
    let words: Vec<_> = words.split_whitespace().collect();
    let done = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}
