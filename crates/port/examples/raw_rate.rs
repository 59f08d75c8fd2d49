//! Measures `packet:` and `tap:` ports: `raw_rate packet|tap tx|rx|forward [LEN]`, as root.
//!
//! Everything happens in a network namespace of its own. Frames to receive are made by running a
//! BPF program on live frames, on CPU 0 together with the receiving side's softirq; the program
//! measured runs on CPU 1. What is sent is dropped by XDP. Rates are Mpps of wall clock: least,
//! median and most of eleven runs.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{CpuSet, UnshareFlags, sched_setaffinity, unshare_unsafe};
use slipring_port::bpf::insn::{Helper, Insn, Reg, call, exit, mov_imm};
use slipring_port::bpf::{Attach, Link, LinkFlags, Program, ProgramFlags, ProgramKind};
use slipring_port::iface::Iface;
use slipring_port::{DropCause, OpenOptions, Port, forward, now, packet, tap};
use slipring_ring::{Geometry, HugePages, Region};
use slipring_wire::FrameSpec;

const RUN_NANOS: u64 = 300_000_000;
const RUNS: usize = 11;
const BATCH: u32 = 256;
const XDP_DROP: i32 = 1;
/// Frames per call of the generator: each call begins and ends with tens of milliseconds of rest.
const GENERATED: u32 = 2_000_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let len = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(60);
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    // SAFETY: a new network namespace changes nothing that other threads rely on.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
    let _ = rustix::process::setsid();
    // The weight of the whole session, which counts before that of the process.
    let _ = std::fs::write("/proc/self/autogroup", "-20");
    pin(1);
    let lab = Lab::new(words.first() == Some(&"tap"), len);
    match words.get(1) {
        Some(&"tx") => lab.tx(),
        Some(&"rx") => lab.rx(),
        Some(&"forward") => lab.forward(),
        _ => panic!("say packet or tap, then tx, rx or forward"),
    }
}

/// Ports `a` and `b`, and where their outside is: the other end of a veth, or the TAP itself.
struct Lab {
    a: Port,
    b: Port,
    outside: [&'static str; 2],
    frame: Vec<u8>,
}

impl Lab {
    fn new(tap: bool, len: usize) -> Self {
        let region = Region::create(Geometry::default(), HugePages::Never).unwrap();
        if !tap {
            for (one, other) in [("va", "vb"), ("vc", "vd")] {
                run(&format!("ip link add {one} type veth peer name {other}"));
                quiet(&[one, other]);
            }
        }
        let (a, b) = (open(tap, "va", &region), open(tap, "vc", &region));
        if tap {
            quiet(&["va", "vc"]);
        }
        let frame = FrameSpec::default().build(len).unwrap().bytes;
        Self { a, b, outside: if tap { ["va", "vc"] } else { ["vb", "vd"] }, frame }
    }

    fn tx(mut self) {
        let _drop = drop_all(self.outside[0]);
        let frame = self.frame;
        measure(&mut self.a, |port| {
            let queue = &mut port.queues[0];
            let filled = queue.rings().tx.fill(BATCH, |buf| {
                buf[..frame.len()].copy_from_slice(&frame);
                frame.len()
            });
            queue.tx_sync().unwrap();
            filled
        });
    }

    fn rx(mut self) {
        generating(self.outside[0], self.frame, || {
            measure(&mut self.a, |port| {
                let queue = &mut port.queues[0];
                queue.rx_sync().unwrap();
                let frames = queue.rings().rx.batch(BATCH);
                let count = frames.len() as u32;
                std::hint::black_box(frames.map(|frame| frame.bytes[0] as usize).sum::<usize>());
                count
            });
        });
    }

    fn forward(mut self) {
        let _drop = drop_all(self.outside[1]);
        generating(self.outside[0], self.frame, || {
            measure(&mut self.b, |to| forward(&mut self.a, to, BATCH).unwrap());
        });
    }
}

fn open(tap: bool, ifname: &str, region: &Arc<Region>) -> Port {
    let options = OpenOptions::default();
    if tap {
        return tap::open(&format!("tap:{ifname}"), ifname, 1, region, &options).unwrap();
    }
    packet::open(&format!("packet:{ifname}"), ifname, None, region, &options).unwrap()
}

fn quiet(ifnames: &[&str]) {
    for name in ifnames {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").unwrap();
        run(&format!("ip link set {name} up"));
        run(&format!("ethtool -K {name} gro on"));
    }
}

/// Runs `work`, which says how many frames it moved, and prints the rates.
fn measure(port: &mut Port, mut work: impl FnMut(&mut Port) -> u32) {
    let mut run = || {
        let (start, mut frames) = (now(), 0);
        while now() - start < RUN_NANOS {
            frames += u64::from(work(port));
        }
        frames as f64 * 1e3 / (now() - start) as f64
    };
    run();
    let mut rates: Vec<f64> = (0..RUNS).map(|_| run()).collect();
    rates.sort_by(f64::total_cmp);
    println!("{}", port.info);
    let lost = port.stats().dropped(DropCause::RxKernel);
    println!("{:.2}/{:.2}/{:.2} Mpps", rates[0], rates[RUNS / 2], rates[RUNS - 1]);
    println!("{lost} lost for want of room");
}

/// Runs `work` while another CPU sends copies of `frame` out of `ifname`.
fn generating(ifname: &str, frame: Vec<u8>, work: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let ifindex = Iface::find(ifname).unwrap().index as i32;
    let redirect = [mov_imm(Reg::R1, ifindex), mov_imm(Reg::R2, 0), call(Helper::Redirect), exit()];
    let program = load(&redirect);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(0);
            while !stop.load(Ordering::Relaxed) {
                program.run_live(&frame, GENERATED, 64).unwrap();
            }
        });
        work();
        stop.store(true, Ordering::Relaxed);
    });
}

fn load(insns: &[Insn]) -> Program {
    Program::load(ProgramKind::Xdp, "raw_rate", insns, ProgramFlags::default()).unwrap()
}

fn drop_all(ifname: &str) -> Link {
    let ifindex = Iface::find(ifname).unwrap().index;
    let program = load(&[mov_imm(Reg::R0, XDP_DROP), exit()]);
    program.attach(ifindex, Attach::Xdp, LinkFlags::XdpNative).unwrap()
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
