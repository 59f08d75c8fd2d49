//! What one stage decides does not depend on what others do: decisions go by the frame's number.

use std::collections::BTreeSet;

use slipring_link::user::{Delay, Packet, UserDelay};
use slipring_link::{
    BitErrors, CorruptSpec, DelayModel, DelaySpec, DuplicateSpec, HoldSpec, LinkSpec, LossModel,
    LossSpec, OrderPolicy, Place, Profile, RateSpec,
};
use slipring_model::{Chance, Dist, Stream};

use crate::support::Sim;

const GAP_NS: u64 = 10_000;

fn chance(yes: u64, of: u64) -> Chance {
    Chance::from_ratio(yes, of).unwrap()
}

fn loss(model: LossModel, place: Place) -> LossSpec {
    LossSpec { model, place }
}

/// A random delay by the stream that a model of the user's is given.
struct Random;

impl Delay for Random {
    fn delay_ns(&mut self, packet: &mut Packet<'_>, stream: &mut Stream) -> Option<u64> {
        stream.below(packet.number + 1);
        Some(stream.below(1_000_000))
    }
}

/// A link with something of everything: held frames come out of turn, the line is hardly ever busy.
fn base(delay: DelaySpec, corrupt: BitErrors) -> LinkSpec {
    let chain = LossModel::GilbertElliott { p: 0.05, r: 0.25, bad: 0.9, good: 0.01 };
    let states = LossModel::FourState { p13: 0.01, p31: 0.3, p32: 0.1, p23: 0.2, p14: 0.01 };
    LinkSpec {
        loss: vec![
            loss(chain, Place::Post),
            loss(states, Place::Pre),
            loss(LossModel::Ber(1e-5), Place::Post),
        ],
        hold: Some(HoldSpec { chance: chance(1, 20), hold_ns: 333_300 }),
        rate: RateSpec::Constant { bps: 10_000_000_000 },
        profile: Some(Profile { samples_ns: (0..100).collect(), loss_level: 0.95 }),
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

/// When which frame left, and how it looked.
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

/// Links whose stages draw in each way that there is.
fn bases() -> Vec<LinkSpec> {
    let dist = || Dist::normal(1e6, 3e5).unwrap();
    let smooth = DelaySpec { half_life_ns: Some(3_000_000), ..DelaySpec::random(dist()) };
    let user = DelayModel::User(UserDelay::new(|| Box::new(Random)));
    let in_turn = DelayModel::InTurn(vec![5, 500_000, 77_000]);
    let of = |model| DelaySpec { model, half_life_ns: None };
    vec![
        base(DelaySpec::random(dist()), BitErrors::Ber(1e-3)),
        base(smooth, BitErrors::Burst { chance: chance(1, 10), bits: 7 }),
        base(of(user), BitErrors::Ber(1e-5)),
        base(of(in_turn), BitErrors::Ber(1e-2)),
    ]
}

#[test]
fn losses_that_are_added_shift_no_decision_of_what_was_there() {
    let timed =
        LossModel::TimedGilbertElliott { good_ns: 900_000, bad_ns: 100_000, bad: 1.0, good: 0.0 };
    let added = [
        loss(LossModel::Bernoulli(chance(1, 10)), Place::Pre),
        loss(LossModel::Bernoulli(chance(1, 10)), Place::Post),
        loss(LossModel::Nth { every: 7, nth: 3 }, Place::Pre),
        loss(timed, Place::Pre),
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
            // A copy at the same moment may have the same delay: it looks as its original does.
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
        let unheld = delivered(&LinkSpec { hold: None, ..base.clone() });
        let same = alone.intersection(&unheld).count();
        assert!(same as f64 > 0.9 * alone.len() as f64, "{same} of {}", alone.len());
    }
}

#[test]
fn a_loss_that_changes_while_the_link_runs_judges_no_frame_that_came_before() {
    let every = |every| LinkSpec {
        loss: vec![loss(LossModel::Nth { every, nth: 1 }, Place::Pre)],
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
