//! Measures AF_XDP ports over veth pairs: `xdp_rate tx|rx|forward [generic] [LEN]`, as root.
//!
//! Everything happens in a network namespace of its own. Frames are made by running a BPF program
//! on live frames (12 to 14 Mpps), on CPU 0 together with the receiving side's softirq; the
//! program measured runs on CPU 1. Rates are Mpps: least, median and most of eleven runs.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{CpuSet, UnshareFlags, sched_setaffinity, unshare_unsafe};
use slipring_port::bpf::insn::{Helper, Insn, Reg, call, exit, mov_imm};
use slipring_port::bpf::{Attach, Link, LinkFlags, Program, ProgramFlags, ProgramKind};
use slipring_port::iface::Iface;
use slipring_port::{OpenOptions, Port, XdpMode, forward, now, xdp};
use slipring_ring::{Geometry, HugePages, Region};

const RUN_NANOS: u64 = 300_000_000;
const RUNS: usize = 11;
const BATCH: u32 = 256;
const XDP_DROP: i32 = 1;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| args.iter().any(|arg| arg == word);
    let len = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(60);
    let mode = if has("generic") { XdpMode::Generic } else { XdpMode::Best };
    // SAFETY: a new network namespace changes nothing that other threads rely on.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
    let lab = Lab { mode, len };
    lab.pair("va", "vb");
    lab.pair("vc", "vd");
    let _ = rustix::process::setsid();
    let _ = rustix::process::nice(-20);
    // The weight of the whole session, which counts first.
    let _ = std::fs::write("/proc/self/autogroup", "-20");
    pin(1);
    let (mut port, mut runs) = match args.first().map(String::as_str) {
        Some("tx") => lab.tx(),
        Some("rx") => lab.rx(),
        Some("forward") => lab.forward(),
        _ => panic!("say tx, rx or forward"),
    };
    println!("{}", port.info);
    port.stats().drops().for_each(|(cause, count)| println!("dropped {count}: {}", cause.name()));
    for (what, pick) in [("wall clock", Run::mpps as fn(&Run) -> f64), ("CPU", Run::cpu_mpps)] {
        runs.sort_by(|a, b| pick(a).total_cmp(&pick(b)));
        let [least, middle, most] = [0, RUNS / 2, RUNS - 1].map(|i| pick(&runs[i]));
        println!("{len} B, {what}: {least:.2}/{middle:.2}/{most:.2} Mpps");
    }
}

/// One run: what it moved, and how long the program worked for it.
struct Run {
    frames: f64,
    wall_nanos: f64,
    /// CPU time of the calls that moved something.
    busy_nanos: f64,
}

impl Run {
    fn mpps(&self) -> f64 {
        self.frames * 1e3 / self.wall_nanos
    }

    /// What a core of its own would reach, were there always something to do.
    fn cpu_mpps(&self) -> f64 {
        self.frames * 1e3 / self.busy_nanos
    }
}

struct Lab {
    mode: XdpMode,
    len: usize,
}

impl Lab {
    fn pair(&self, one: &str, other: &str) {
        run(&format!("ip link add {one} type veth peer name {other}"));
        for name in [one, other] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").unwrap();
            run(&format!("ip link set {name} up"));
            run(&format!("ethtool -K {name} gro on"));
        }
    }

    fn open(&self, ifname: &str, region: &Arc<Region>) -> Port {
        let options = OpenOptions { xdp: self.mode, ..OpenOptions::default() };
        xdp::open(&format!("xdp:{ifname}"), ifname, None, region, &options).unwrap()
    }

    fn region(&self) -> Arc<Region> {
        Region::create(Geometry { bufs: 8192, ..Geometry::default() }, HugePages::Never).unwrap()
    }

    fn tx(&self) -> (Port, Vec<Run>) {
        let _drop = attach("vb", &[mov_imm(Reg::R0, XDP_DROP), exit()]);
        let mut port = self.open("va", &self.region());
        let frame = self.frame();
        let runs = measure(&mut port, |port| {
            let queue = &mut port.queues[0];
            let filled = queue.rings().tx.fill(BATCH, |buf| {
                buf[..frame.len()].copy_from_slice(&frame);
                frame.len()
            });
            queue.tx_sync().unwrap();
            filled
        });
        (port, runs)
    }

    fn rx(&self) -> (Port, Vec<Run>) {
        let mut port = self.open("vb", &self.region());
        let runs = generating("va", self.frame(), || {
            measure(&mut port, |port| {
                let queue = &mut port.queues[0];
                queue.rx_sync().unwrap();
                let frames = queue.rings().rx.batch(BATCH);
                let count = frames.len() as u32;
                std::hint::black_box(frames.map(|frame| frame.bytes[0] as usize).sum::<usize>());
                count
            })
        });
        (port, runs)
    }

    fn forward(&self) -> (Port, Vec<Run>) {
        let _drop = attach("vd", &[mov_imm(Reg::R0, XDP_DROP), exit()]);
        let region = self.region();
        let (mut from, mut to) = (self.open("vb", &region), self.open("vc", &region));
        let runs = generating("va", self.frame(), || {
            measure(&mut to, |to| forward(&mut from, to, BATCH).unwrap())
        });
        (to, runs)
    }

    fn frame(&self) -> Vec<u8> {
        use slipring_wire::frame::FrameSpec;
        FrameSpec::default().build(self.len).unwrap().bytes
    }
}

/// Runs `work`, which says how many frames it moved.
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

/// Runs `work` while another CPU sends copies of `frame` out of `ifname`.
fn generating<R>(ifname: &str, frame: Vec<u8>, work: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    let ifindex = Iface::find(ifname).unwrap().index as i32;
    let redirect = [mov_imm(Reg::R1, ifindex), mov_imm(Reg::R2, 0), call(Helper::Redirect), exit()];
    let program = load(&redirect);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(0);
            let mut frames = 0;
            while !stop.load(Ordering::Relaxed) {
                program.run_live(&frame, 100_000, 64).unwrap();
                frames += 100_000;
            }
            println!("generator: {:.1} ns of CPU a frame", cpu_time() as f64 / f64::from(frames));
        });
        let result = work();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

fn load(insns: &[Insn]) -> Program {
    let flags = ProgramFlags { frags: true, bound_to: None };
    Program::load(ProgramKind::Xdp, "xdp_rate", insns, flags).unwrap()
}

fn attach(ifname: &str, insns: &[Insn]) -> Link {
    let ifindex = Iface::find(ifname).unwrap().index;
    load(insns).attach(ifindex, Attach::Xdp, LinkFlags::XdpNative).unwrap()
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
