//! Measures the cost of a link in nanoseconds per packet. Frames are pushed and run on one core, in
//! batches, or one by one into many links. The best of many short runs is printed, because other
//! work on the machine disturbs it least.
//!
//! `cargo run --release -p slipring-link --example link_cost`

use std::hint::black_box;
use std::time::Instant;

use slipring_link::{
    Carrier, CorruptSpec, DelaySpec, Delivery, Discipline, DuplicateSpec, EntryId, FrameArrival,
    FrameHandle, Framing, HoldSpec, LinkProfile, LinkQueueSpec, LinkSource, LinkSpec, LinkTarget,
    LossModel, LossPosition, LossSpec, LostFrame, MangleEdit, MangleSpec, Network, NetworkLink,
    NetworkSpec, OrderPolicy, PoliceSpec, RateSpec,
};
use slipring_model::aqm::{CoDelSpec, FairSpec};
use slipring_model::{Chance, Dist};

const BATCH: usize = 64;
const PACKETS: usize = 1 << 17;
const RUNS: usize = 60;
/// Time between two frames: 10 million frames per second.
const GAP_NS: u64 = 100;

/// A carrier that discards every frame, so that only the engine is measured.
struct Void(u64, [u8; 64]);

impl Carrier for Void {
    fn frame(&mut self, _: FrameHandle) -> &mut [u8] {
        &mut self.1
    }
    fn copy(&mut self, handle: FrameHandle) -> Option<FrameHandle> {
        Some(handle)
    }
    #[inline]
    fn deliver(&mut self, delivery: Delivery) {
        self.0 += u64::from(delivery.len);
    }
    #[inline]
    fn lose(&mut self, lost: LostFrame) {
        self.0 += u64::from(lost.len);
    }
}

fn main() {
    let wire = || LinkSpec { delay: DelaySpec::constant(20_000_000), ..LinkSpec::wire("up") };
    let paced = || LinkSpec {
        // 84 bytes per 100 ns are 6.72 Gbit/s: the line is nearly always busy.
        rate: RateSpec::Constant { bps: 6_800_000_000 },
        framing: Framing::ETHER,
        ..wire()
    };
    let ge = LossModel::GilbertElliott { p: 0.001, r: 0.25, bad: 1.0, good: 0.0 };
    let lossy = vec![LossSpec { model: ge, position: LossPosition::Pre }];
    let normal = Dist::normal(20e6, 2e6).expect("a mean and a deviation");
    let jitter = DelaySpec { half_life_ns: Some(50_000_000), ..DelaySpec::random(normal.clone()) };
    let codel = LinkQueueSpec {
        discipline: Discipline::CoDel(CoDelSpec::default()),
        ..LinkQueueSpec::default()
    };
    let fair = Discipline::FqCoDel(FairSpec::default(), CoDelSpec::default());

    show("constant delay", wire());
    show("+ rate", paced());
    show("+ loss (GE)", LinkSpec { loss: lossy.clone(), ..wire() });
    show("+ CoDel and rate", LinkSpec { queue: codel.clone(), ..paced() });
    let correlated = LinkSpec { delay: jitter.clone(), order: OrderPolicy::Correlated, ..wire() };
    show("+ normal delay, correlated", correlated);
    let all = LinkSpec {
        loss: lossy,
        queue: codel,
        delay: jitter,
        order: OrderPolicy::Correlated,
        ..paced()
    };
    show("rate, GE, CoDel, normal correlated", all.clone());
    let free = LinkSpec { delay: DelaySpec::random(normal), order: OrderPolicy::Free, ..wire() };
    show("normal delay, free order", free);
    let queue = LinkQueueSpec { discipline: fair, ..LinkQueueSpec::default() };
    show("rate and FQ-CoDel", LinkSpec { queue, ..paced() });
    show("every stage", every_stage(all));
    show_many(10_000);
}

/// Adds all other stages that a link can have, though few frames are held, damaged or copied.
fn every_stage(all: LinkSpec) -> LinkSpec {
    let chance = Chance::from_ratio(1, 1000).expect("a share");
    let ber = LossSpec { model: LossModel::Ber(1e-7), position: LossPosition::Post };
    LinkSpec {
        police: Some(PoliceSpec::bucket(7_000_000_000, 1_000_000)),
        loss: all.loss.iter().cloned().chain([ber]).collect(),
        hold: Some(HoldSpec { chance, hold_ns: 10_000 }),
        profile: Some(LinkProfile { samples_ns: vec![0, 0, 0, 1], loss_level: 1.0 }),
        mangle: Some(MangleSpec {
            chance,
            at: 20,
            edit: MangleEdit::Set(vec![0xff]),
            fix_checksum: false,
        }),
        corrupt: Some(CorruptSpec::ber(1e-7)),
        duplicate: Some(DuplicateSpec { chance, copies: 1, after_ns: 0 }),
        output_bps: Some(100_000_000_000),
        offset_ns: 1_000,
        ..all
    }
}

fn show(what: &str, spec: LinkSpec) {
    let plan = NetworkSpec::single(spec);
    let (timely, early) = (measure(&plan, false), measure(&plan, true));
    println!("{what:<36} {timely:6.1} ns/packet {early:6.1} early");
}

/// Returns nanoseconds per packet of the best run.
fn best(mut run: impl FnMut(usize)) -> f64 {
    let timed = (0..RUNS).map(|_| {
        let start = Instant::now();
        run(PACKETS);
        start.elapsed().as_nanos() as f64 / PACKETS as f64
    });
    timed.min_by(f64::total_cmp).expect("there are runs")
}

fn measure(plan: &NetworkSpec, early: bool) -> f64 {
    let mut network = Network::new(plan, 1).expect("a plan that can be built");
    network.deliver_early(early);
    let mut carrier = Void(0, [0; 64]);
    let mut batch = [FrameArrival { arrival_ns: 0, handle: FrameHandle(0), len: 60 }; BATCH];
    let mut now_ns = 0;
    let mut round = |packets: usize| {
        for _ in 0..packets / BATCH {
            for arrival in &mut batch {
                now_ns += GAP_NS;
                arrival.arrival_ns = now_ns;
            }
            network.push(EntryId(0), &batch, &mut carrier);
            network.run(now_ns, &mut carrier);
        }
    };
    // The first round is not measured. It fills the link with frames in flight.
    round(1_000_000);
    let cost = best(round);
    black_box(carrier.0);
    cost
}

/// Measures many links at 1 kpps each; packets come one at a time, and the links are run every 10
/// µs.
fn show_many(links: usize) {
    let wire = |index| LinkSpec {
        delay: DelaySpec::constant(20_000_000),
        rate: RateSpec::Constant { bps: 10_000_000 },
        ..LinkSpec::wire(&format!("l{index}"))
    };
    let name = |index| format!("p{index}");
    let plan = NetworkSpec {
        entries: (0..links).map(name).collect(),
        exits: (0..links).map(name).collect(),
        links: (0..links)
            .map(|index| NetworkLink {
                spec: wire(index),
                from: LinkSource::Entry(index),
                to: LinkTarget::Exit(index),
            })
            .collect(),
        ..NetworkSpec::default()
    };
    let mut network = Network::new(&plan, 1).expect("a plan that can be built");
    let mut carrier = Void(0, [0; 64]);
    let gap_ns = 1_000_000 / links as u64;
    let mut now_ns = 0;
    let mut next = 0;
    let mut round = |packets: usize| {
        for number in 0..packets {
            now_ns += gap_ns;
            // Visits links out of their order in memory, as traffic from many sources does.
            next = (next + 7919) % links;
            let arrival = FrameArrival { arrival_ns: now_ns, handle: FrameHandle(0), len: 60 };
            network.push(EntryId(next as u16), &[arrival], &mut carrier);
            if number % 100 == 0 {
                network.run(now_ns, &mut carrier);
            }
        }
    };
    round(500_000);
    println!("{:<36} {:6.1} ns/packet", format!("{links} links with rate and delay"), best(round));
}
