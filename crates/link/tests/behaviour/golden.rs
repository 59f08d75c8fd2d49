//! Tests that the output of a link is the same, byte for byte, on every machine.

use slipring_link::{
    CorruptSpec, DelaySpec, Discipline, DuplicateSpec, Framing, HoldSpec, LinkQueueSpec, LinkSpec,
    LossModel, LossPosition, LossSpec, OrderPolicy, RateSpec,
};
use slipring_model::{Chance, Dist};
use slipring_wire::FrameSpec;

use crate::support::Sim;

/// FNV-1a, 64 bits.
fn fold(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn everything() -> LinkSpec {
    let chance = Chance::from_ratio(1, 50).unwrap();
    let chain = LossModel::GilbertElliott { p: 0.01, r: 0.25, bad: 0.9, good: 0.001 };
    let loss = |model, position| LossSpec { model, position };
    LinkSpec {
        loss: vec![loss(chain, LossPosition::Pre), loss(LossModel::Ber(1e-6), LossPosition::Post)],
        hold: Some(HoldSpec { chance, hold_ns: 40_000 }),
        queue: LinkQueueSpec {
            discipline: Discipline::CoDel(Default::default()),
            ecn: true,
            ..LinkQueueSpec::default()
        },
        rate: RateSpec::OrnsteinUhlenbeck {
            mean_bps: 100_000_000,
            sd_bps: 20_000_000,
            half_life_ns: 5_000_000,
            min_bps: 10_000_000,
            max_bps: 1_000_000_000,
            step_ns: 100_000,
        },
        framing: Framing::ETHER,
        corrupt: Some(CorruptSpec { fix_checksum: true, ..CorruptSpec::ber(1e-5) }),
        duplicate: Some(DuplicateSpec { chance, copies: 1, after_ns: 1_000 }),
        delay: DelaySpec {
            half_life_ns: Some(10_000_000),
            ..DelaySpec::random(Dist::lognormal(20e6, 2e6).unwrap())
        },
        order: OrderPolicy::Correlated,
        ..LinkSpec::wire("up")
    }
}

#[test]
fn a_seed_gives_the_same_bytes_on_every_machine() {
    let mut sim = Sim::seeded(everything(), 42);
    let mut frame = FrameSpec::default().build(700).unwrap().bytes;
    frame[15] = 2;
    (0..20_000u64).for_each(|k| _ = sim.push_frame(k * 50_000, &frame));
    sim.finish();
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for (delivery, bytes) in sim.memory.delivered.iter().zip(&sim.memory.bytes) {
        hash = fold(hash, &delivery.release_ns.to_le_bytes());
        hash = fold(hash, bytes);
    }
    for lost in &sim.memory.lost {
        hash = fold(hash, &lost.at_ns.to_le_bytes());
        hash = fold(hash, lost.cause.as_str().as_bytes());
    }
    assert_eq!(hash, 0xafba_741f_d970_2a3a, "{hash:#018x}");
}
