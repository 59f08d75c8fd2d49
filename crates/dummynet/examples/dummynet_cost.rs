//! Measures the cost of a packet through pipes and schedulers. Prints millions of packets per
//! CPU-second. Also prints the ratio of this cost to that of a bare queue of the same packets,
//! which is the lower bound. Both are measured in the same run.
//!
//! `cargo run --release -p slipring-dummynet --example dummynet_cost [PART OF A NAME]`

use std::collections::VecDeque;
use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};
use slipring_dummynet::flow::ShaperFlowKey;
use slipring_dummynet::text::{DummynetCommand, QueueCaps};
use slipring_dummynet::{Dummynet, ShaperEvent, ShaperPacket, ShaperTarget};

const PACKETS: u64 = 200_000;
const RUNS: usize = 15;
const FLOWS: u32 = 10_000;

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let floor = best(&mut bare_queue());
    println!("{:<44} {:>8} {:>8} {:>9}", "", "M/s", "ns", "x floor");
    line("bare queue of packets (floor)", floor, floor);
    for (name, config, flows) in [
        ("pipe, no parameters", "pipe 1 config", 1),
        ("pipe delay 10ms", "pipe 1 config delay 10ms", 1),
        ("pipe bw 1Gbit/s delay 10ms, full", "pipe 1 config bw 1Gbit/s delay 10ms", 1),
        ("pipe mask all, 10,000 links", "pipe 1 config bw 1Gbit/s mask all", FLOWS),
    ] {
        if name.contains(&only) {
            line(name, best(&mut through(config, ShaperTarget::Pipe(1), flows)), floor);
        }
    }
    for kind in ["wf2q+", "rr", "qfq", "prio", "fq_codel flows 65536 limit 20480", "fq_pie"] {
        let config = format!(
            "pipe 1 config bw 10Gbit/s\nsched 1 config type {kind}\n\
             queue 1 config sched 1 weight 10 mask all"
        );
        let name = format!("{FLOWS} flows, {kind}");
        if name.contains(&only) {
            line(&name, best(&mut through(&config, ShaperTarget::Queue(1), FLOWS)), floor);
        }
    }
    println!("largest burst at one instant, 1 Gbit/s of 64 B: {}", largest_burst());
}

fn line(name: &str, ns: f64, floor: f64) {
    println!("{name:<44} {:>8.1} {ns:>8.1} {:>9.1}", 1000.0 / ns, ns / floor);
}

/// Returns the CPU time that this thread has used, in ns.
fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Returns the best of several runs, in ns per packet. Slower runs were probably interrupted by
/// other programs.
fn best(run: &mut dyn FnMut(u64)) -> f64 {
    let runs = (0..RUNS).map(|_| {
        let start = cpu_ns();
        run(PACKETS);
        (cpu_ns() - start) / PACKETS as f64
    });
    runs.fold(f64::INFINITY, f64::min)
}

fn packet(handle: u32) -> ShaperPacket<u32> {
    ShaperPacket { handle, rule: 1, len: 64, ecn: Default::default() }
}

/// Returns a function that passes packets through a queue that always has [`FLOWS`] entries.
fn bare_queue() -> impl FnMut(u64) {
    let mut queue: VecDeque<ShaperPacket<u32>> = (0..FLOWS).map(packet).collect();
    move |packets| {
        for n in 0..packets {
            queue.push_back(black_box(packet(n as u32)));
            black_box(queue.pop_front());
        }
    }
}

/// Returns a function that sends packets of `flows` flows in turn. If the flows share a link of
/// 10 Gbit/s, each flow always has about two waiting packets.
fn through(config: &str, object: ShaperTarget, flows: u32) -> impl FnMut(u64) {
    let mut dummynet = Dummynet::new(1, [1, 2]);
    for text in config.lines() {
        let caps = QueueCaps { slots: 10_000, ..QueueCaps::default() };
        let Ok(DummynetCommand::Config(config)) = DummynetCommand::parse_within(text, &caps) else {
            panic!("{text}")
        };
        dummynet.configure(0, config, &mut |_| {}).expect("the configuration is right");
    }
    let keys: Vec<ShaperFlowKey> = (0..flows)
        .map(|n| ShaperFlowKey {
            proto: 17,
            src: n.into(),
            dst: 1,
            src_port: n as u16,
            ..ShaperFlowKey::default()
        })
        .collect();
    // 64 bytes at 10 Gbit/s take 51.2 ns. Packets are offered at this rate, once the queues are
    // filled.
    let (mut at, mut now_ns, mut out) = (0usize, 0u64, 0u64);
    let mut step = move |gap_ns: u64| {
        now_ns += gap_ns;
        at = if at + 1 == keys.len() { 0 } else { at + 1 };
        dummynet.submit(now_ns, object, &keys[at], packet(at as u32), &mut |_| {});
        dummynet.release(now_ns, &mut |event| {
            out += u64::from(matches!(event, ShaperEvent::Released { .. }))
        });
        black_box(out);
    };
    (0..2 * flows).for_each(|_| step(0));
    move |packets| (0..packets).for_each(|n| step(51 + u64::from(n % 5 == 0)))
}

/// Offers packets at about ten times the link's rate. Returns the largest number of packets that
/// leave within the same nanosecond.
fn largest_burst() -> usize {
    let mut dummynet = Dummynet::new(1, [1, 2]);
    let Ok(DummynetCommand::Config(config)) =
        DummynetCommand::parse("pipe 1 config bw 1Gbit/s delay 1ms")
    else {
        unreachable!()
    };
    dummynet.configure(0, config, &mut |_| {}).expect("the configuration is right");
    let mut times = Vec::new();
    for n in 0..PACKETS {
        dummynet.submit(
            n * 50,
            ShaperTarget::Pipe(1),
            &ShaperFlowKey::default(),
            packet(0),
            &mut |_| {},
        );
        dummynet.release(n * 50, &mut |event| {
            if let ShaperEvent::Released { at_ns, .. } = event {
                times.push(at_ns);
            }
        });
    }
    times.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0)
}
