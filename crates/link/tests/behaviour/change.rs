//! Changes of a running network.

use slipring_link::{
    BitErrorSpec, CorruptSpec, DelaySpec, Discipline, LinkDropCause, LinkId, LinkQueueSpec,
    LinkSpec, LossSpec, MangleEdit, MangleSpec, NetworkSpec, OrderPolicy, RateSpec,
};
use slipring_model::aqm::{CoDelSpec, FairSpec};
use slipring_model::{Chance, Dist};

use crate::rate::constant;
use crate::support::Sim;

fn single(spec: LinkSpec) -> NetworkSpec {
    NetworkSpec::single(spec)
}

fn change(sim: &mut Sim, at_ns: u64, spec: LinkSpec) {
    sim.network.change(at_ns, &single(spec)).unwrap();
}

#[test]
fn both_directions_change_at_the_same_moment() {
    let wire = |name: &str, ns| LinkSpec { delay: DelaySpec::constant(ns), ..LinkSpec::wire(name) };
    let plan = |ns| NetworkSpec::between("left", "right", wire("up", ns), wire("down", ns));
    let mut sim = Sim::new(&plan(10_000), 1);
    sim.network.change(500, &plan(20_000)).unwrap();
    for at_ns in [499, 500] {
        sim.push_at(0, at_ns, 60);
        sim.push_at(1, at_ns, 60);
    }
    sim.finish();
    assert_eq!(sim.memory.releases(), [10_499, 10_499, 20_500, 20_500]);
}

#[test]
fn waiting_frames_go_on_at_the_new_rate() {
    let mut sim = Sim::link(constant(8_000_000));
    (0..4).for_each(|_| _ = sim.push(0, 1_000));
    change(&mut sim, 1_500_000, constant(8_000_000_000));
    sim.finish();
    // The second frame is on the line when the rate changes, and is sent completely at the old
    // rate.
    assert_eq!(sim.memory.releases(), [1_000_000, 2_000_000, 2_001_000, 2_002_000]);
}

#[test]
fn a_line_that_stood_still_starts_when_it_gets_a_rate() {
    let steps = vec![slipring_link::RateStep { at_ns: 0, bps: 0 }];
    let still = RateSpec::Steps { steps, period_ns: 1, end: slipring_link::TraceEnd::Hold };
    let mut sim = Sim::link(LinkSpec { rate: still, ..LinkSpec::wire("up") });
    sim.push(0, 1_000);
    assert_eq!(sim.network.next_ns(), None);
    change(&mut sim, 5_000, constant(8_000_000_000));
    sim.finish();
    assert_eq!(sim.memory.releases(), [6_000]);
}

#[test]
fn a_frame_that_a_trace_left_on_the_line_goes_on_with_the_next_rate() {
    let step = slipring_link::RateStep { at_ns: 0, bps: 8_000_000_000 };
    let end = slipring_link::TraceEnd::Once;
    let steps = RateSpec::Steps { steps: vec![step], period_ns: 1_000, end };
    let mut sim = Sim::link(LinkSpec { rate: steps, ..LinkSpec::wire("up") });
    (0..3).for_each(|_| _ = sim.push(0, 800));
    sim.finish();
    assert_eq!(sim.memory.releases(), [800]);
    assert!(sim.counters().is_balanced());
    change(&mut sim, 5_000, constant(8_000_000_000));
    sim.finish();
    assert_eq!(sim.memory.releases(), [800, 5_800, 6_600]);
}

#[test]
fn bytes_are_changed_as_the_specification_of_the_moment_says() {
    let mangled = |byte: Option<u8>| {
        let mangle = byte.map(|byte| MangleSpec {
            chance: Chance::ALWAYS,
            at: 0,
            edit: MangleEdit::Set(vec![byte]),
            fix_checksum: false,
        });
        LinkSpec { mangle, ..LinkSpec::wire("up") }
    };
    let corrupted = |byte: u32| LinkSpec {
        corrupt: Some(CorruptSpec {
            errors: BitErrorSpec::Burst { chance: Chance::ALWAYS, bits: 8 },
            from_byte: byte,
            until_byte: Some(byte + 1),
            fix_checksum: false,
        }),
        ..LinkSpec::wire("up")
    };
    let mut sim = Sim::link(mangled(None));
    let specs = [
        mangled(None),
        mangled(Some(1)),
        mangled(Some(1)),
        mangled(Some(2)),
        corrupted(0),
        corrupted(1),
        mangled(None),
    ];
    for (at_ns, spec) in (0..).step_by(100).zip(specs) {
        change(&mut sim, at_ns, spec);
        sim.push_frame(at_ns + 50, &[0; 60]);
    }
    sim.finish();
    let heads: Vec<[u8; 2]> = sim.memory.bytes.iter().map(|all| [all[0], all[1]]).collect();
    assert_eq!(heads, [[0, 0], [1, 0], [1, 0], [2, 0], [0xff, 0], [0, 0xff], [0, 0]]);
}

#[test]
fn a_delay_that_varies_smoothly_goes_on_from_where_it_was() {
    let smooth = |most| LinkSpec {
        delay: DelaySpec {
            half_life_ns: Some(1_000_000_000),
            ..DelaySpec::random(Dist::uniform(0, most).unwrap())
        },
        order: OrderPolicy::Free,
        ..LinkSpec::wire("up")
    };
    for seed in 0..10 {
        let mut sim = Sim::seeded(smooth(1_000_000), seed);
        // By now, the random process of the link's delay is far from its initial state.
        sim.push(60_000_000_000, 60);
        change(&mut sim, 60_000_000_001, smooth(2_000_000));
        sim.push(60_000_000_002, 60);
        sim.finish();
        let mut delays = sim.memory.delivered.clone();
        delays.sort_by_key(|delivery| delivery.handle);
        let [first, second] = [0, 1].map(|at| delays[at].release_ns - 60_000_000_000);
        assert!(second.abs_diff(2 * first) < 2_000, "{seed}: {first} {second}");
    }
}

#[test]
fn frames_on_their_way_arrive_when_they_would_have() {
    let wire = |ns| LinkSpec { delay: DelaySpec::constant(ns), ..LinkSpec::wire("up") };
    let mut sim = Sim::link(wire(10_000));
    sim.push(0, 60);
    change(&mut sim, 100, wire(1_000));
    sim.push(200, 60);
    sim.finish();
    // Order is kept: the second frame waits for the first.
    assert_eq!(sim.memory.releases(), [10_000, 10_000]);
}

#[test]
fn overtaking_frames_still_come_when_order_is_asked_for_later() {
    let delay = || DelaySpec::random(Dist::uniform(0, 100_000).unwrap());
    let spec = |order| LinkSpec { order, delay: delay(), ..LinkSpec::wire("up") };
    let mut sim = Sim::link(spec(OrderPolicy::Free));
    (0..100).for_each(|k| _ = sim.push(k, 60));
    change(&mut sim, 100, spec(OrderPolicy::Strict));
    (100..200).for_each(|k| _ = sim.push(k, 60));
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 200);
    assert!(sim.memory.releases().is_sorted());
    let later: Vec<_> = sim.memory.handles().into_iter().filter(|&handle| handle >= 100).collect();
    assert!(later.is_sorted());
}

#[test]
fn frames_that_would_overtake_after_a_change_to_a_shorter_delay_are_subject_to_the_order() {
    for (order, lost, clamped) in [(OrderPolicy::Drop, 2, 0), (OrderPolicy::Strict, 0, 2)] {
        let link = |ns| LinkSpec { delay: DelaySpec::constant(ns), order, ..LinkSpec::wire("up") };
        let mut sim = Sim::link(link(10_000));
        sim.push(0, 60);
        change(&mut sim, 500, link(1_000));
        for at_ns in [1_000, 2_000, 20_000] {
            sim.push(at_ns, 60);
        }
        sim.finish();
        let counters = sim.counters();
        assert!(counters.is_balanced());
        assert_eq!(counters.clamped.packets, clamped, "{order:?}");
        assert_eq!(sim.memory.lost_to(LinkDropCause::Order), lost, "{order:?}");
        assert_eq!(sim.memory.releases().last(), Some(&21_000));
    }
}

#[test]
fn a_queue_keeps_its_frames_when_the_discipline_changes() {
    let queued = |discipline| LinkSpec {
        queue: LinkQueueSpec { discipline, ..LinkQueueSpec::default() },
        ..constant(8_000_000)
    };
    let fair = Discipline::FqCoDel(Default::default(), Default::default());
    let disciplines =
        [fair, Discipline::CoDel(Default::default()), Discipline::DualPi2(Default::default())];
    let mut sim = Sim::link(queued(Discipline::DropTail));
    (0..10).for_each(|_| _ = sim.push(0, 1_000));
    for (discipline, at_ns) in disciplines.into_iter().zip([10, 1_100_000, 2_100_000]) {
        change(&mut sim, at_ns, queued(discipline));
        sim.run(at_ns);
        assert!(sim.counters().is_balanced());
    }
    sim.finish();
    assert_eq!(sim.memory.handles(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(*sim.memory.releases().last().unwrap(), 10_000_000);
}

#[test]
fn a_change_of_a_fair_queue_itself_drops_nothing() {
    let fair = |flows| {
        Discipline::FqCoDel(FairSpec { flows, ..FairSpec::default() }, CoDelSpec::default())
    };
    for after in [fair(64), Discipline::DropTail] {
        let queued = |discipline| LinkSpec {
            queue: LinkQueueSpec { discipline, ..LinkQueueSpec::default() },
            ..constant(8_000_000)
        };
        let mut sim = Sim::link(queued(fair(1024)));
        (0..1_000).for_each(|_| _ = sim.push(0, 1_000));
        sim.run(400_000_000);
        let before = sim.memory.lost_to(LinkDropCause::Aqm);
        assert!(before > 0, "the algorithm is at work");
        change(&mut sim, 400_000_001, queued(after));
        sim.run(400_000_001);
        assert_eq!(sim.memory.lost_to(LinkDropCause::Aqm), before);
        sim.finish();
        assert!(sim.counters().is_balanced());
    }
}

#[test]
fn streams_go_on_over_changes_of_other_stages() {
    let half = Chance::from_ratio(1, 2).unwrap();
    let spec = |delay_ns| LinkSpec {
        loss: vec![LossSpec::bernoulli(half)],
        delay: DelaySpec::constant(delay_ns),
        ..LinkSpec::wire("up")
    };
    let play = |changes: bool| {
        let mut sim = Sim::link(spec(10));
        for number in 0..1_000 {
            if changes && number % 100 == 50 {
                change(&mut sim, number, spec(10 + number));
            }
            sim.push(number, 60);
        }
        sim.finish();
        sim.memory.lost.iter().map(|lost| lost.handle).collect::<Vec<_>>()
    };
    assert_eq!(play(false), play(true));
}

#[test]
fn a_change_that_cannot_be_built_changes_nothing() {
    let mut sim = Sim::link(constant(8_000_000_000));
    let error = sim.network.change(0, &single(constant(0))).unwrap_err();
    assert_eq!(error.to_string(), "link.up.rate.bps: 0 is not allowed, only 1 bit/s or more");
    let other = single(LinkSpec::wire("other"));
    let error = sim.network.change(0, &other).unwrap_err();
    assert_eq!(error.to_string(), "links and their ends cannot change while the network runs");
    sim.push(0, 100);
    sim.finish();
    assert_eq!(sim.memory.releases(), [100]);
    assert_eq!(sim.network.plan(), &single(constant(8_000_000_000)));
}

#[test]
fn changes_take_effect_in_their_order() {
    let mut sim = Sim::link(constant(1_000));
    change(&mut sim, 100, constant(2_000));
    change(&mut sim, 50, constant(3_000));
    change(&mut sim, 100, constant(4_000));
    sim.run(49);
    assert_eq!(sim.network.plan(), &single(constant(1_000)));
    assert_eq!(sim.network.next_ns(), Some(50));
    sim.run(99);
    assert_eq!(sim.network.plan(), &single(constant(3_000)));
    assert_eq!(sim.network.next_ns(), Some(100));
    sim.run(100);
    assert_eq!(sim.network.plan(), &single(constant(4_000)));
}

#[test]
fn changes_can_be_taken_back() {
    let mut sim = Sim::link(constant(1_000));
    change(&mut sim, 100, constant(2_000));
    sim.network.cancel_changes();
    sim.run(1_000);
    assert_eq!(sim.network.plan(), &single(constant(1_000)));
}

#[test]
fn a_link_may_gain_and_lose_every_stage_while_frames_are_inside() {
    let full = || LinkSpec {
        hold: Some(slipring_link::HoldSpec { chance: Chance::ALWAYS, hold_ns: 700 }),
        loss: vec![LossSpec::bernoulli(Chance::NEVER)],
        delay: DelaySpec::constant(500),
        duplicate: Some(slipring_link::DuplicateSpec {
            chance: Chance::ALWAYS,
            copies: 1,
            after_ns: 300,
        }),
        ..constant(8_000_000_000)
    };
    let mut sim = Sim::link(LinkSpec::wire("up"));
    for round in 0..200 {
        let now_ns = round * 97;
        let spec = if round % 5 == 3 { full() } else { LinkSpec::wire("up") };
        change(&mut sim, now_ns, spec);
        sim.push(now_ns, 100);
        sim.run(now_ns);
        assert!(sim.counters().is_balanced(), "{:?}", sim.counters());
    }
    sim.finish();
    let counters = sim.network.counters(LinkId(0));
    assert!(counters.is_balanced() && counters.in_flight.packets == 0);
    assert_eq!(counters.output.packets, 200 + counters.copies.packets);
}

#[test]
fn a_change_keeps_every_port_node_and_link() {
    let plan = NetworkSpec::between("left", "right", LinkSpec::wire("up"), LinkSpec::wire("down"));
    let changes: [fn(&mut NetworkSpec); 7] = [
        |plan| plan.entries[0] = "other".into(),
        |plan| plan.exits[0] = "other".into(),
        |plan| plan.nodes.push("node".into()),
        |plan| plan.links[0].spec.name = "other".into(),
        |plan| (plan.links[0].from, plan.links[1].from) = (plan.links[1].from, plan.links[0].from),
        |plan| (plan.links[0].to, plan.links[1].to) = (plan.links[1].to, plan.links[0].to),
        |plan| _ = plan.links.pop(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut sim = Sim::new(&plan, 1);
        let mut other = plan.clone();
        change(&mut other);
        assert!(sim.network.change(0, &other).is_err(), "change {number}");
        assert!(sim.network.change(0, &plan).is_ok());
    }
}
