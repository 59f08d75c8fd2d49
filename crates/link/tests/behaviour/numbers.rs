//! The decisions of a stage do not depend on other stages, but on the frame's number or on the
//! time.

use std::collections::{BTreeMap, BTreeSet};

use slipring_link::user::{DelayFactory, ModelPacket, UserDelayModel};
use slipring_link::{
    BitErrorSpec, CorruptSpec, DelayModel, DelaySpec, DuplicateSpec, HoldSpec, LinkId, LinkProfile,
    LinkSource, LinkSpec, LinkTarget, LossModel, LossPosition, LossSpec, MangleEdit, MangleSpec,
    MarkovState, NetworkLink, NetworkSpec, OrderPolicy, RateSpec,
};
use slipring_model::{Chance, Dist, Stream};

use crate::support::Sim;

const GAP_NS: u64 = 10_000;

fn chance(yes: u64, of: u64) -> Chance {
    Chance::from_ratio(yes, of).unwrap()
}

fn loss(model: LossModel, position: LossPosition) -> LossSpec {
    LossSpec { model, position }
}

/// A user model of a random delay, which is drawn from the stream that the model gets.
struct Random;

impl UserDelayModel for Random {
    fn delay_ns(&mut self, packet: &mut ModelPacket<'_>, stream: &mut Stream) -> Option<u64> {
        stream.below(packet.number + 1);
        Some(stream.below(1_000_000))
    }
}

/// A link with most kinds of stages. Held frames arrive at later stages out of order, and the line
/// is hardly ever busy.
fn base(delay: DelaySpec, corrupt: BitErrorSpec) -> LinkSpec {
    let chain = LossModel::GilbertElliott { p: 0.05, r: 0.25, bad: 0.9, good: 0.01 };
    let states = LossModel::FourState { p13: 0.01, p31: 0.3, p32: 0.1, p23: 0.2, p14: 0.01 };
    LinkSpec {
        loss: vec![
            loss(chain, LossPosition::Post),
            loss(states, LossPosition::Pre),
            loss(LossModel::Ber(1e-5), LossPosition::Post),
        ],
        hold: Some(HoldSpec { chance: chance(1, 20), hold_ns: 333_300 }),
        rate: RateSpec::Constant { bps: 10_000_000_000 },
        profile: Some(LinkProfile { samples_ns: (0..100).collect(), loss_level: 0.95 }),
        corrupt: Some(CorruptSpec {
            errors: corrupt,
            from_byte: 20,
            until_byte: None,
            fix_checksum: false,
        }),
        delay,
        order: OrderPolicy::Free,
        ..LinkSpec::wire("up")
    }
}

/// Returns the release time and the bytes of each delivered frame.
fn delivered(spec: &LinkSpec) -> BTreeSet<(u64, Vec<u8>)> {
    let mut sim = Sim::link(spec.clone());
    for number in 0..20_000u64 {
        let mut frame = [0x55; 125];
        frame[..8].copy_from_slice(&number.to_be_bytes());
        sim.push_frame(number * GAP_NS, &frame);
    }
    sim.finish();
    let out = sim.memory.delivered.iter().zip(&sim.memory.bytes);
    out.map(|(delivery, bytes)| (delivery.release_ns, bytes.clone())).collect()
}

/// Returns links that together use many kinds of random draws.
fn bases() -> Vec<LinkSpec> {
    let dist = || Dist::normal(1e6, 3e5).unwrap();
    let smooth = DelaySpec { half_life_ns: Some(3_000_000), ..DelaySpec::random(dist()) };
    let user = DelayModel::User(DelayFactory::new(|| Box::new(Random)));
    let in_turn = DelayModel::InTurn(vec![5, 500_000, 77_000]);
    let of = |model| DelaySpec { model, half_life_ns: None };
    vec![
        base(DelaySpec::random(dist()), BitErrorSpec::Ber(1e-3)),
        base(smooth, BitErrorSpec::Burst { chance: chance(1, 10), bits: 7 }),
        base(of(user), BitErrorSpec::Ber(1e-5)),
        base(of(in_turn), BitErrorSpec::Ber(1e-2)),
    ]
}

#[test]
fn losses_that_are_added_shift_no_decision_of_what_was_there() {
    let timed =
        LossModel::TimedGilbertElliott { good_ns: 900_000, bad_ns: 100_000, bad: 1.0, good: 0.0 };
    let added = [
        loss(LossModel::Bernoulli(chance(1, 10)), LossPosition::Pre),
        loss(LossModel::Bernoulli(chance(1, 10)), LossPosition::Post),
        loss(LossModel::Nth { every: 7, nth: 3 }, LossPosition::Pre),
        loss(timed, LossPosition::Pre),
    ];
    for base in bases() {
        let alone = delivered(&base);
        assert!(alone.len() > 10_000, "{}", alone.len());
        for extra in &added {
            for at in [0, base.loss.len()] {
                let mut spec = base.clone();
                spec.loss.insert(at, extra.clone());
                let left = delivered(&spec);
                assert!(left.is_subset(&alone), "{extra:?} at {at}");
                let share = left.len() as f64 / alone.len() as f64;
                assert!((0.8..0.95).contains(&share), "{extra:?} at {at}: {share}");
            }
        }
    }
}

#[test]
fn copies_that_are_added_shift_no_decision_of_what_was_there() {
    for base in bases() {
        let alone = delivered(&base);
        for after_ns in [0, 25_100] {
            let duplicate = DuplicateSpec { chance: chance(1, 10), copies: 2, after_ns };
            let with = delivered(&LinkSpec { duplicate: Some(duplicate), ..base.clone() });
            assert!(alone.is_subset(&with), "{after_ns}");
            // A copy that continues at the same time as its original may get the same delay. Then
            // the two are equal, and the set contains them once.
            let more = if after_ns == 0 { 0 } else { alone.len() / 20 };
            assert!(with.len() >= alone.len() + more, "{after_ns}: {}", with.len());
        }
    }
}

#[test]
fn stages_that_are_taken_away_shift_no_decision_of_the_others() {
    for base in bases() {
        let alone = delivered(&base);
        let unspoilt = delivered(&LinkSpec { corrupt: None, ..base.clone() });
        let key = |set: &BTreeSet<(u64, Vec<u8>)>| -> BTreeSet<(u64, Vec<u8>)> {
            set.iter().map(|(release_ns, bytes)| (*release_ns, bytes[..8].to_vec())).collect()
        };
        assert_eq!(key(&alone), key(&unspoilt), "corruption moves no frame");
        // Without the hold stage, the frames that it held leave earlier. But in both cases the same
        // frames are damaged, and the same frames are lost.
        let unheld = delivered(&LinkSpec { hold: None, ..base.clone() });
        let bytes = |set: &BTreeSet<(u64, Vec<u8>)>| -> BTreeSet<Vec<u8>> {
            set.iter().map(|(_, bytes)| bytes.clone()).collect()
        };
        assert_eq!(bytes(&alone), bytes(&unheld), "holding back loses and spoils no frame");
        let same = alone.intersection(&unheld).count();
        assert!(same as f64 > 0.9 * alone.len() as f64, "{same} of {}", alone.len());
    }
}

#[test]
fn a_loss_that_changes_while_the_link_runs_judges_no_frame_that_came_before() {
    let every = |every| LinkSpec {
        loss: vec![loss(LossModel::Nth { every, nth: 1 }, LossPosition::Pre)],
        ..LinkSpec::wire("up")
    };
    let mut sim = Sim::link(every(10));
    (0..100).for_each(|number| _ = sim.push(number, 60));
    let plan = slipring_link::NetworkSpec::single(every(3));
    sim.network.change(100, &plan).unwrap();
    (100..130).for_each(|number| _ = sim.push(number, 60));
    sim.finish();
    let lost: Vec<_> = sim.memory.lost.iter().map(|lost| lost.handle.0).collect();
    let expected: Vec<u32> = (0..100).step_by(10).chain((100..130).step_by(3)).collect();
    assert_eq!(lost, expected);
}

/// Two links in a chain.
fn two_hops(first: &LinkSpec, second: &LinkSpec) -> NetworkSpec {
    let link = |spec: &LinkSpec, name: &str, from, to| {
        let spec = LinkSpec { name: name.into(), ..spec.clone() };
        NetworkLink { spec, from, to }
    };
    NetworkSpec {
        entries: vec!["in".into()],
        exits: vec!["out".into()],
        nodes: vec!["middle".into()],
        links: vec![
            link(first, "a", LinkSource::Entry(0), LinkTarget::Node(0)),
            link(second, "b", LinkSource::Node(0), LinkTarget::Exit(0)),
        ],
        classes: vec![],
    }
}

/// The fate of a frame on a link: the time that it spends there and its bytes, or `None` if it was
/// lost.
type Fate = Option<(u64, Vec<u8>)>;

/// The fates of each frame, and of its copies, on the second of two links.
fn on_the_second(first: &LinkSpec, second: &LinkSpec) -> BTreeMap<u64, Vec<Fate>> {
    let mut sim = Sim::new(&two_hops(first, second), 7);
    let number_of = |bytes: &[u8]| u64::from_be_bytes(bytes[..8].try_into().unwrap());
    let mut numbers = BTreeMap::new();
    for number in 0..20_000u64 {
        let mut frame = [0x55; 125];
        frame[..8].copy_from_slice(&number.to_be_bytes());
        sim.push_frame(number * GAP_NS, &frame);
        sim.memory.frames.iter().for_each(|(handle, bytes)| {
            numbers.entry(*handle).or_insert_with(|| number_of(bytes));
        });
    }
    while let Some(next_ns) = sim.network.next_ns() {
        sim.run(next_ns);
        sim.memory.frames.iter().for_each(|(handle, bytes)| {
            numbers.entry(*handle).or_insert_with(|| number_of(bytes));
        });
    }
    let came: BTreeMap<_, _> = sim.memory.hops.iter().map(|hop| (hop.1, hop.2)).collect();
    let mut fates: BTreeMap<u64, Vec<_>> = BTreeMap::new();
    for (delivery, bytes) in sim.memory.delivered.iter().zip(&sim.memory.bytes) {
        let number = number_of(bytes);
        if let Some(came_ns) = came.get(&delivery.handle.0) {
            let took_ns = delivery.release_ns - came_ns;
            fates.entry(number).or_default().push(Some((took_ns, bytes.clone())));
        }
    }
    for lost in sim.memory.lost.iter().filter(|lost| lost.link == Some(LinkId(1))) {
        fates.entry(numbers[&lost.handle]).or_default().push(None);
    }
    fates
}

/// Returns the links of [`bases`] with further losses, and without the line, so that no frame has
/// to wait for another.
fn second_links() -> Vec<LinkSpec> {
    let no_line = |base: LinkSpec| LinkSpec {
        rate: RateSpec::Unlimited,
        profile: None,
        hold: Some(HoldSpec { chance: chance(1, 20), hold_ns: 333 }),
        ..base
    };
    let timed_apart = |base: LinkSpec| {
        let listed = [
            loss(LossModel::Nth { every: 11, nth: 4 }, LossPosition::Pre),
            loss(LossModel::Pattern((0..13).map(|at| at == 5).collect()), LossPosition::Post),
            loss(LossModel::Numbers(vec![17, 400, 19_000]), LossPosition::Pre),
        ];
        LinkSpec { loss: base.loss.iter().cloned().chain(listed).collect(), ..base }
    };
    bases().into_iter().map(no_line).map(timed_apart).collect()
}

#[test]
fn losses_on_one_link_shift_no_decision_of_the_next_one() {
    let wire = LinkSpec { delay: DelaySpec::constant(1_000), ..LinkSpec::wire("a") };
    let lossy = |model| LinkSpec { loss: vec![loss(model, LossPosition::Pre)], ..wire.clone() };
    for second in second_links() {
        let all = on_the_second(&wire, &second);
        assert_eq!(all.len(), 20_000);
        for model in [
            LossModel::Bernoulli(chance(1, 10)),
            LossModel::GilbertElliott { p: 0.01, r: 0.1, bad: 1.0, good: 0.0 },
            LossModel::Numbers(vec![1]),
        ] {
            let left = on_the_second(&lossy(model.clone()), &second);
            assert!(left.len() < 20_000 && left.len() > 15_000, "{model:?}: {}", left.len());
            for (number, fate) in left {
                assert_eq!(fate, all[&number], "frame {number} after {model:?}");
            }
        }
    }
}

#[test]
fn copies_made_on_one_link_shift_no_decision_of_the_next_one_and_have_their_own() {
    let wire = LinkSpec { delay: DelaySpec::constant(1_000), ..LinkSpec::wire("a") };
    let copying = LinkSpec {
        duplicate: Some(DuplicateSpec { chance: chance(1, 4), copies: 2, after_ns: 0 }),
        ..wire.clone()
    };
    for second in second_links() {
        let (alone, with) = (on_the_second(&wire, &second), on_the_second(&copying, &second));
        let (mut copied, mut differ) = (0, 0);
        for (number, fates) in &with {
            let [original] = &alone[number][..] else { panic!("one fate each") };
            assert!(fates.contains(original), "frame {number}: {fates:?}, alone {original:?}");
            copied += u32::from(fates.len() == 3);
            differ += u32::from(fates.len() == 3 && fates.iter().any(|fate| fate != original));
        }
        assert!((4_500..5_500).contains(&copied), "{copied}");
        assert!(differ > copied / 10, "{differ} of {copied} are drawn for by themselves");
    }
}

#[test]
fn what_one_link_does_to_bytes_shifts_no_decision_of_the_next_one() {
    let wire = LinkSpec { delay: DelaySpec::constant(1_000), ..LinkSpec::wire("a") };
    let inverted = MangleSpec {
        chance: Chance::ALWAYS,
        at: 60,
        edit: MangleEdit::Invert(vec![0xff]),
        fix_checksum: false,
    };
    let mangling = LinkSpec { mangle: Some(inverted), ..wire.clone() };
    let errors = BitErrorSpec::Burst { chance: chance(1, 2), bits: 3 };
    let corrupt = CorruptSpec { errors, from_byte: 20, until_byte: None, fix_checksum: false };
    let corrupting = LinkSpec { corrupt: Some(corrupt), ..wire.clone() };
    for second in second_links() {
        let alone = on_the_second(&wire, &second);
        let back = |fate: &Fate| {
            let mut fate = fate.clone();
            fate.iter_mut().for_each(|(_, bytes)| bytes[60] ^= 0xff);
            fate
        };
        for (number, fates) in on_the_second(&mangling, &second) {
            let fates: Vec<_> = fates.iter().map(back).collect();
            assert_eq!(fates, alone[&number], "frame {number}, mangled before");
        }
        let took = |fates: &[Fate]| -> Vec<_> {
            fates.iter().map(|fate| fate.as_ref().map(|(took_ns, _)| *took_ns)).collect()
        };
        for (number, fates) in on_the_second(&corrupting, &second) {
            assert_eq!(took(&fates), took(&alone[&number]), "frame {number}, corrupted before");
        }
    }
}

#[test]
fn frames_that_come_out_of_turn_meet_the_decisions_of_their_numbers() {
    let wire = LinkSpec { delay: DelaySpec::constant(1_000), ..LinkSpec::wire("a") };
    let held = HoldSpec { chance: chance(1, 10), hold_ns: 3 * GAP_NS + 1 };
    let holding = LinkSpec { hold: Some(held), ..wire.clone() };
    // Delays with a half-life depend on the time and not on the frame's number, so links with such
    // delays are left out.
    let by_number = |link: &LinkSpec| link.delay.half_life_ns.is_none();
    for second in second_links().into_iter().filter(by_number) {
        let alone = on_the_second(&wire, &second);
        let apart = on_the_second(&holding, &second);
        assert_eq!(apart.len(), alone.len());
        for (number, fates) in apart {
            assert_eq!(fates, alone[&number], "frame {number}");
        }
    }
}

#[test]
fn frames_that_enter_by_different_links_are_counted_apart() {
    let enter = |name: &str, entry| {
        let spec = LinkSpec::wire(name);
        NetworkLink { spec, from: LinkSource::Entry(entry), to: LinkTarget::Node(0) }
    };
    let every =
        |every| LossSpec { model: LossModel::Nth { every, nth: 1 }, position: LossPosition::Pre };
    let shared = |nth| LinkSpec { loss: vec![every(nth)], ..LinkSpec::wire("shared") };
    let plan = |nth| NetworkSpec {
        entries: vec!["left".into(), "right".into()],
        exits: vec!["out".into()],
        nodes: vec!["middle".into()],
        links: vec![
            enter("a", 0),
            enter("b", 1),
            NetworkLink { spec: shared(nth), from: LinkSource::Node(0), to: LinkTarget::Exit(0) },
        ],
        classes: vec![],
    };
    let mut sim = Sim::new(&plan(3), 1);
    // Two frames from the left for each frame from the right. Their handles are 0, 1, 2, and so
    // on.
    let mut at_ns = 0;
    let mut three = |sim: &mut Sim| {
        for entry in [0, 0, 1] {
            at_ns += 1;
            sim.push_at(entry, at_ns, 60);
        }
        at_ns
    };
    (0..3).for_each(|_| _ = three(&mut sim));
    // Frames 0 1 3 4 6 7 come from the left, and 2 5 8 from the right.
    sim.run(100);
    let lost = |sim: &Sim| -> Vec<_> { sim.memory.lost.iter().map(|lost| lost.handle.0).collect() };
    assert_eq!(lost(&sim), [0, 2, 4]);
    // On each branch, the change applies from that branch's next frame on.
    sim.network.change(101, &plan(2)).unwrap();
    at_ns = 200;
    for entry in [0, 1, 0, 1] {
        at_ns += 1;
        sim.push_at(entry, at_ns, 60);
    }
    sim.finish();
    assert_eq!(lost(&sim), [0, 2, 4, 9, 10]);
}

/// Returns how long the line takes for a frame at each of these times, in ns.
fn times_on_line(rate: &RateSpec, at_ns: impl Iterator<Item = u64>) -> BTreeMap<u64, u64> {
    let mut sim = Sim::link(LinkSpec { rate: rate.clone(), ..LinkSpec::wire("up") });
    let times: Vec<_> = at_ns.collect();
    for &at_ns in &times {
        sim.push(at_ns, 125);
        sim.run(at_ns);
    }
    sim.finish();
    let took = sim.memory.releases().into_iter().zip(&times);
    took.map(|(release_ns, at_ns)| (*at_ns, release_ns - at_ns)).collect()
}

#[test]
fn a_rate_that_changes_at_random_is_the_same_however_often_frames_ask() {
    const MS: u64 = 1_000_000;
    let state = |bps, mean_ns, next| MarkovState { bps, mean_ns, next };
    let chain = RateSpec::Markov {
        states: vec![
            state(1_000_000_000, 3 * MS, vec![0.0, 1.0, 0.0, 0.0]),
            state(300_000_000, 5 * MS, vec![0.0, 0.0, 1.0, 1.0]),
            state(100_000_000, 40 * MS, vec![1.0, 0.0, 0.0, 2.0]),
            state(20_000_000, MS, vec![]),
        ],
    };
    let ou = RateSpec::OrnsteinUhlenbeck {
        mean_bps: 300_000_000,
        sd_bps: 100_000_000,
        half_life_ns: 20 * MS,
        min_bps: 10_000_000,
        max_bps: 900_000_000,
        step_ns: MS,
    };
    for rate in [chain, ou] {
        let often = times_on_line(&rate, (0..40_000).map(|at| at * MS / 4));
        for every in [7, 130, 1_999, 20_011] {
            let seldom = times_on_line(&rate, (0..40_000).step_by(every).map(|at| at * MS / 4));
            for (at_ns, took_ns) in seldom {
                assert_eq!(took_ns, often[&at_ns], "{rate:?} at {at_ns}, every {every}");
            }
        }
        let kinds: BTreeSet<_> = often.values().collect();
        assert!(kinds.len() > 3, "{rate:?} changes");
    }
}

#[test]
fn a_chain_of_rates_makes_only_changes_that_its_weights_allow() {
    const MS: u64 = 1_000_000;
    // The states follow each other in a cycle: 1, 2, 3, 1.
    let state = |bps, next| MarkovState { bps, mean_ns: 4 * MS, next };
    let rate = RateSpec::Markov {
        states: vec![
            state(1_000_000_000, vec![0.0, 1.0, 0.0]),
            state(500_000_000, vec![0.0, 0.0, 1.0]),
            state(250_000_000, vec![1.0, 0.0, 0.0]),
        ],
    };
    let took = times_on_line(&rate, (0..400_000).map(|at| at * MS / 50));
    let of = |took_ns: &u64| [1_000, 2_000, 4_000].iter().position(|whole| whole == took_ns);
    // Frames during which the rate changes are not evaluated.
    let mut seen: Vec<usize> = took.values().filter_map(of).collect();
    seen.dedup();
    assert!(seen.len() > 1_500, "{}", seen.len());
    // The states last 4 ms on average and the frames are 20 us apart, so two changes between two
    // frames are rare.
    let odd = seen.windows(2).filter(|pair| (pair[0] + 1) % 3 != pair[1]).count();
    assert!(odd * 50 < seen.len(), "{odd} of {}", seen.len());
}
