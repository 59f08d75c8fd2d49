//! Random links and random traffic: properties that hold for all stages.

use proptest::prelude::*;
use slipring_link::{
    AdmitPolicy, BitErrorSpec, CorruptSpec, DelayModel, DelaySpec, DelayStep, Discipline,
    DuplicateSpec, EntryId, Framing, HoldSpec, LineCells, LinkId, LinkProfile, LinkQueueSpec,
    LinkSpec, LossModel, LossPosition, LossSpec, LossWindow, MarkovState, MeterSpec, NetworkSpec,
    OrderPolicy, PoliceAction, PoliceSpec, RateSlot, RateSpec, RateStep, SerialisePoint, TraceEnd,
};
use slipring_model::aqm::{CoDelSpec, DualPi2Spec, FairSpec, PieSpec, RedSpec};
use slipring_model::{Chance, Dist};
use slipring_wire::FrameSpec;

use crate::support::Sim;

fn chance() -> impl Strategy<Value = Chance> {
    (0u64..=100).prop_map(|percent| Chance::from_ratio(percent, 100).unwrap())
}

fn share() -> impl Strategy<Value = f64> {
    (0u32..=100).prop_map(|percent| f64::from(percent) / 100.0)
}

fn ends() -> impl Strategy<Value = TraceEnd> {
    prop_oneof![Just(TraceEnd::Loop), Just(TraceEnd::Hold), Just(TraceEnd::Once)]
}

fn losses() -> impl Strategy<Value = Vec<LossSpec>> {
    let model = prop_oneof![
        chance().prop_map(LossModel::Bernoulli),
        prop_oneof![Just(0.0), Just(1e-15), Just(1e-4), Just(1.0)].prop_map(LossModel::Ber),
        (share(), share(), share(), share())
            .prop_map(|(p, r, bad, good)| LossModel::GilbertElliott { p, r, bad, good }),
        (1u64..1_000_000, 1u64..1_000_000, share(), share()).prop_map(
            |(good_ns, bad_ns, bad, good)| LossModel::TimedGilbertElliott {
                good_ns,
                bad_ns,
                bad,
                good
            }
        ),
        (share(), share(), share()).prop_map(|(a, b, c)| LossModel::FourState {
            p13: a / 2.0,
            p31: b / 2.0,
            p32: c / 2.0,
            p23: a,
            p14: b / 2.0,
        }),
        prop::collection::vec(any::<bool>(), 1..20).prop_map(LossModel::Pattern),
        (1u64..10, 0u64..10).prop_map(|(nth, more)| LossModel::Nth { every: nth + more, nth }),
        Just(LossModel::Numbers(vec![1, 3, 4, 100])),
        (chance(), prop::option::of(20_000u64..100_000)).prop_map(|(chance, period_ns)| {
            let windows = vec![LossWindow { from_ns: 10_000, until_ns: 20_000, chance }];
            LossModel::ByTime { windows, period_ns }
        }),
    ];
    let position = prop_oneof![Just(LossPosition::Pre), Just(LossPosition::Post)];
    prop::collection::vec(
        (model, position).prop_map(|(model, position)| LossSpec { model, position }),
        0..3,
    )
}

fn rate() -> impl Strategy<Value = RateSpec> {
    let any_bps = prop_oneof![1u64..10_000_000, 1_000_000u64..400_000_000_000];
    // On a slow line whose rate changes every microsecond, the rate would change millions of times
    // during a frame. So the rates are high.
    let bps = || 100_000_000u64..400_000_000_000;
    prop_oneof![
        2 => Just(RateSpec::Unlimited),
        4 => any_bps.prop_map(|bps| RateSpec::Constant { bps }),
        1 => (prop::collection::vec(0u64..50_000, 1..20), 1u32..3000, ends()).prop_map(
            |(mut at_ns, mtu, end)| {
                at_ns.sort_unstable();
                at_ns.push(50_000);
                RateSpec::Opportunities { at_ns, mtu, end }
            }
        ),
        1 => (bps(), bps(), ends()).prop_map(|(a, b, end)| {
            let step = |at_ns, bps| RateStep { at_ns, bps };
            let steps = vec![step(0, a), step(10_000, 0), step(20_000, b)];
            RateSpec::Steps { steps, period_ns: 40_000, end }
        }),
        1 => (bps(), any::<bool>()).prop_map(|(bps, whole_frames)| RateSpec::Slots {
            bps,
            period_ns: 30_000,
            slots: vec![
                RateSlot { start_ns: 0, len_ns: 5_000 },
                RateSlot { start_ns: 11_000, len_ns: 7_000 },
            ],
            whole_frames,
        }),
        1 => (bps(), bps(), ends()).prop_map(|(from_bps, to_bps, end)| RateSpec::Ramp {
            from_bps,
            to_bps,
            duration_ns: 70_001,
            step_ns: 1_000,
            end,
        }),
        1 => bps().prop_map(|mean_bps| RateSpec::Sine {
            mean_bps,
            amplitude_bps: mean_bps,
            period_ns: 50_000,
            step_ns: 700,
        }),
        1 => (bps(), bps()).prop_map(|(a, b)| RateSpec::Markov {
            states: vec![
                MarkovState { bps: a, mean_ns: 10_000, next: vec![] },
                MarkovState { bps: 0, mean_ns: 2_000, next: vec![0.5, 0.0, 0.5] },
                MarkovState { bps: b, mean_ns: 3_000, next: vec![1.0, 0.0, 0.0] },
            ],
        }),
        1 => bps().prop_map(|mean_bps| RateSpec::OrnsteinUhlenbeck {
            mean_bps,
            sd_bps: mean_bps / 2,
            half_life_ns: 10_000,
            min_bps: mean_bps / 4,
            max_bps: mean_bps * 2,
            step_ns: 1_000,
        }),
    ]
}

fn queue() -> impl Strategy<Value = LinkQueueSpec> {
    let codel = CoDelSpec { target_ns: 5_000, interval_ns: 20_000, ..CoDelSpec::default() };
    let pie = PieSpec { target_ns: 5_000, update_ns: 5_000, ..PieSpec::default() };
    let red = RedSpec { min: 2.0, max: 5.0, weight: 0.5, ..RedSpec::default() };
    let fair = FairSpec { flows: 8, ..FairSpec::default() };
    let dual = DualPi2Spec { target_ns: 5_000, update_ns: 5_000, ..DualPi2Spec::default() };
    let discipline = prop_oneof![
        Just(Discipline::DropTail),
        Just(Discipline::DropHead),
        Just(Discipline::Red(red)),
        Just(Discipline::CoDel(codel)),
        Just(Discipline::Pie(pie)),
        Just(Discipline::FqCoDel(fair, codel)),
        Just(Discipline::FqPie(fair, pie)),
        Just(Discipline::DualPi2(dual)),
    ];
    let limits = (
        prop::option::of(1u64..100_000),
        prop::option::of(1u64..50),
        prop::option::of(0u64..100_000),
        prop::option::of(0u64..20_000),
    );
    let admit = prop_oneof![Just(AdmitPolicy::Strict), Just(AdmitPolicy::Tlem)];
    (limits, admit, discipline, any::<bool>()).prop_map(
        |((bytes, packets, delay_ns, mark_above_ns), admit, discipline, ecn)| LinkQueueSpec {
            bytes,
            packets,
            delay_ns,
            admit,
            discipline,
            ecn,
            mark_above_ns,
        },
    )
}

fn police() -> impl Strategy<Value = Option<PoliceSpec>> {
    let action = || {
        prop_oneof![Just(PoliceAction::Pass), Just(PoliceAction::Mark), Just(PoliceAction::Drop)]
    };
    let meter = prop_oneof![
        Just(MeterSpec::Bucket { bps: 800_000_000, burst: 5_000 }),
        Just(MeterSpec::Rfc2698 {
            committed_bps: 400_000_000,
            committed_burst: 3_000,
            peak_bps: 800_000_000,
            peak_burst: 6_000,
        }),
        Just(MeterSpec::Rfc4115 {
            committed_bps: 400_000_000,
            committed_burst: 3_000,
            excess_bps: 400_000_000,
            excess_burst: 3_000,
        }),
    ];
    let spec = (meter, action(), action()).prop_map(|(meter, exceed, violate)| PoliceSpec {
        meter,
        exceed,
        violate,
    });
    prop::option::weighted(0.3, spec)
}

fn corrupt() -> impl Strategy<Value = Option<CorruptSpec>> {
    let errors = prop_oneof![
        prop_oneof![Just(0.0), Just(1e-3), Just(1.0)].prop_map(BitErrorSpec::Ber),
        (chance(), 1u32..100).prop_map(|(chance, bits)| BitErrorSpec::Burst { chance, bits }),
    ];
    let spec = (errors, 0u32..80, prop::option::of(81u32..200), any::<bool>()).prop_map(
        |(errors, from_byte, until_byte, fix_checksum)| CorruptSpec {
            errors,
            from_byte,
            until_byte,
            fix_checksum,
        },
    );
    prop::option::weighted(0.3, spec)
}

fn delay() -> impl Strategy<Value = DelaySpec> {
    let model = prop_oneof![
        (0u64..50_000).prop_map(DelayModel::Constant),
        Just(DelayModel::Random(Dist::uniform(1_000, 30_000).unwrap())),
        Just(DelayModel::Random(Dist::normal(20_000.0, 5_000.0).unwrap())),
        Just(DelayModel::Random(Dist::exponential(1_000, 20_000.0).unwrap())),
        Just(DelayModel::InTurn(vec![5, 50_000, 10_000])),
        (any::<bool>(), ends()).prop_map(|(smooth, end)| {
            let step = |at_ns, delay_ns, route| DelayStep { at_ns, delay_ns, route };
            let steps = vec![step(0, 30_000, 1), step(7_000, 10_000, 2), step(9_000, 0, 1)];
            DelayModel::Trace { steps, period_ns: 20_000, end, smooth }
        }),
        Just(DelayModel::InterPacket { min_gap_ns: 10, max_gap_ns: 3_000, delay_ns: 500 }),
    ];
    (model, prop::option::of(1u64..100_000))
        .prop_map(|(model, half_life_ns)| DelaySpec { model, half_life_ns })
}

fn order() -> impl Strategy<Value = OrderPolicy> {
    prop_oneof![
        3 => Just(OrderPolicy::Strict),
        1 => Just(OrderPolicy::Free),
        1 => Just(OrderPolicy::Drop),
        1 => Just(OrderPolicy::Path),
    ]
}

pub(crate) fn link() -> impl Strategy<Value = LinkSpec> {
    let cells = prop_oneof![
        3 => Just(LineCells::None),
        1 => Just(LineCells::Atm),
        1 => Just(LineCells::Docsis { minislot: 16 }),
    ];
    let framing = (-20i32..50, 0u32..100, cells).prop_map(|(overhead_bytes, min_frame, cells)| {
        Framing { overhead_bytes, min_frame, cells }
    });
    let profile = (prop::collection::vec(0u64..20_000, 1..10), share())
        .prop_map(|(samples_ns, loss_level)| LinkProfile { samples_ns, loss_level });
    let profile = prop::option::weighted(0.2, profile);
    let hold = (chance(), 0u64..50_000).prop_map(|(chance, hold_ns)| HoldSpec { chance, hold_ns });
    let duplicate = (chance(), 1u32..4, prop_oneof![Just(0u64), 1u64..20_000])
        .prop_map(|(chance, copies, after_ns)| DuplicateSpec { chance, copies, after_ns });
    let ends = prop_oneof![Just(SerialisePoint::End), Just(SerialisePoint::Start)];
    let before = (police(), losses(), prop::option::weighted(0.3, hold), queue());
    let line = (rate(), framing, profile, ends);
    let after = (corrupt(), prop::option::weighted(0.3, duplicate), delay(), order());
    let port = (prop::option::of(1_000_000_000u64..100_000_000_000), 0u64..2_000);
    (before, line, after, port).prop_map(|(before, line, after, port)| LinkSpec {
        name: "up".into(),
        police: before.0,
        loss: before.1,
        hold: before.2,
        queue: before.3,
        rate: line.0,
        framing: line.1,
        profile: line.2,
        serialise: line.3,
        mangle: None,
        corrupt: after.0,
        duplicate: after.1,
        delay: after.2,
        order: after.3,
        output_bps: port.0,
        offset_ns: port.1,
    })
}

/// The gap before a frame in ns, the frame's length, whether it can carry marks, and whether the
/// network runs before the frame arrives.
type Step = (u64, u32, bool, bool);

pub(crate) fn traffic() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![Just(0u64), 0u64..2_000, 0u64..50_000];
    let len = prop_oneof![60u32..1515, Just(9_000u32), Just(70_000u32)];
    prop::collection::vec((gap, len, any::<bool>(), any::<bool>()), 1..120)
}

fn check(sim: &Sim) -> Result<(), TestCaseError> {
    for link in 0..sim.network.plan().links.len() {
        let counters = sim.network.counters(LinkId(link as u32));
        prop_assert!(counters.is_balanced(), "link {link}: {counters:?}");
    }
    Ok(())
}

/// Sends traffic through a network and checks the counters after every step.
fn play(
    plan: &NetworkSpec,
    seed: u64,
    traffic: &[Step],
    early: bool,
) -> Result<Sim, TestCaseError> {
    let mut sim = Sim::new(plan, seed);
    sim.memory.room = Some(30);
    sim.network.deliver_early(early);
    let mut frame = FrameSpec::default().build(60).unwrap().bytes;
    let mut now_ns = 0;
    for &(gap_ns, len, capable, run) in traffic {
        now_ns += gap_ns;
        if run {
            sim.run(now_ns);
        }
        // The IPv4 header begins at byte 14, and the ECN field is in its second byte.
        frame[15] = if capable { 2 } else { 0 };
        let handle = sim.memory.store(&frame);
        let arrival = slipring_link::FrameArrival { arrival_ns: now_ns, handle, len };
        sim.network.push(EntryId(0), &[arrival], &mut sim.memory);
        check(&sim)?;
    }
    for _ in 0..100_000 {
        let Some(next_ns) = sim.network.next_ns() else { break };
        sim.run(next_ns);
        check(&sim)?;
    }
    Ok(sim)
}

fn outcome(sim: &Sim) -> (&[slipring_link::Delivery], &[Vec<u8>], &[slipring_link::LostFrame]) {
    (&sim.memory.delivered, &sim.memory.bytes, &sim.memory.lost)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 4000 }))]

    #[test]
    fn nothing_is_lost_uncounted(spec in link(), traffic in traffic(), seed: u64) {
        let plan = NetworkSpec::single(spec);
        let sim = play(&plan, seed, &traffic, false)?;
        // The carrier's own counts agree with the engine's.
        let counters = sim.counters();
        prop_assert_eq!(counters.input.packets, traffic.len() as u64);
        prop_assert_eq!(counters.output.packets, sim.memory.delivered.len() as u64);
        let unmade = traffic.len() as u64 + counters.copies.packets
            - sim.memory.delivered.len() as u64 - sim.memory.lost.len() as u64
            - sim.memory.frames.len() as u64;
        prop_assert_eq!(unmade + sim.memory.lost.len() as u64, counters.drops.total().packets);
        prop_assert_eq!(sim.memory.frames.len() as u64, counters.in_flight.packets);
        if counters.in_flight.packets == 0 {
            prop_assert_eq!(counters.in_flight.bytes, 0);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_output(spec in link(), traffic in traffic(), seed: u64) {
        let plan = NetworkSpec::single(spec);
        let first = play(&plan, seed, &traffic, false)?;
        let second = play(&plan, seed, &traffic, false)?;
        prop_assert_eq!(outcome(&first), outcome(&second));
    }

    #[test]
    fn when_the_caller_runs_the_network_changes_nothing(
        spec in link(), traffic in traffic(), seed: u64,
    ) {
        let plan = NetworkSpec::single(spec);
        let lazy: Vec<_> = traffic.iter().map(|&(gap, len, ecn, _)| (gap, len, ecn, false)).collect();
        let eager: Vec<_> = traffic.iter().map(|&(gap, len, ecn, _)| (gap, len, ecn, true)).collect();
        let (lazy, eager) = (play(&plan, seed, &lazy, false)?, play(&plan, seed, &eager, false)?);
        prop_assert_eq!(lazy.counters(), eager.counters());
        // Copies are stored at other times, and so they have other handles.
        let seen = |sim: &Sim| {
            let delivered = sim.memory.delivered.iter();
            delivered.map(|delivery| (delivery.release_ns, delivery.len)).collect::<Vec<_>>()
        };
        prop_assert_eq!(seen(&lazy), seen(&eager));
        prop_assert_eq!(lazy.memory.bytes, eager.memory.bytes);
    }

    #[test]
    fn early_deliveries_are_the_same_deliveries(spec in link(), traffic in traffic(), seed: u64) {
        let plan = NetworkSpec::single(spec);
        let timely = play(&plan, seed, &traffic, false)?;
        let early = play(&plan, seed, &traffic, true)?;
        prop_assert_eq!(&timely.memory.delivered, &early.memory.delivered);
    }

    #[test]
    fn frames_leave_in_order_of_time_and_never_before_they_came(
        spec in link(), traffic in traffic(), seed: u64,
    ) {
        let keeps_order = spec.order.keeps_order();
        let many_queues = matches!(
            spec.queue.discipline,
            Discipline::FqCoDel(..) | Discipline::FqPie(..) | Discipline::DualPi2(_)
        );
        let first_in_first_out = spec.hold.is_none() && spec.duplicate.is_none() && !many_queues;
        let sim = play(&NetworkSpec::single(spec), seed, &traffic, false)?;
        let arrivals: Vec<u64> = traffic
            .iter()
            .scan(0, |now_ns, step| {
                *now_ns += step.0;
                Some(*now_ns)
            })
            .collect();
        let releases = sim.memory.releases();
        prop_assert!(releases.is_sorted());
        if first_in_first_out && keeps_order {
            prop_assert!(sim.memory.handles().is_sorted());
        }
        if sim.counters().copies.packets == 0 {
            for delivery in &sim.memory.delivered {
                prop_assert!(delivery.release_ns >= arrivals[delivery.handle.0 as usize]);
            }
        }
    }
}
