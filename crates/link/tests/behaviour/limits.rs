//! Tests of the bounds of specifications: the last allowed value on each side, and the next one.

use slipring_link::{
    AdmitPolicy, BitErrorSpec, CorruptSpec, DelayModel, DelaySpec, DelayStep, Discipline,
    DuplicateSpec, Framing, HoldSpec, LineCells, LinkProfile, LinkQueueSpec, LinkSpec, LossModel,
    LossPosition, LossSpec, LossWindow, MangleEdit, MangleSpec, MarkovState, MeterSpec,
    NetworkSpec, PoliceAction, PoliceSpec, RateSlot, RateSpec, RateStep, TraceEnd,
};
use slipring_model::{Chance, aqm};

/// Returns the field for which a link is refused, as a path below `link.up.`; `None` if the link
/// is accepted.
fn refused(change: impl FnOnce(&mut LinkSpec)) -> Option<String> {
    let mut spec = LinkSpec::wire("up");
    change(&mut spec);
    let error = NetworkSpec::single(spec).check().err()?;
    Some(error.field.strip_prefix("link.up.").unwrap().into())
}

fn rate(rate: RateSpec) -> Option<String> {
    refused(|spec| spec.rate = rate)
}

fn loss(model: LossModel) -> Option<String> {
    refused(|spec| spec.loss = vec![LossSpec { model, position: LossPosition::Pre }])
}

fn delay(model: DelayModel) -> Option<String> {
    refused(|spec| spec.delay = DelaySpec { model, half_life_ns: None })
}

/// Asserts that the field `field` is refused with each value of `bad`, and with none of `good`.
fn bounds(field: &str, good: &[u64], bad: &[u64], refusal: impl Fn(u64) -> Option<String>) {
    for value in good {
        assert_eq!(refusal(*value), None, "{field} {value}");
    }
    for value in bad {
        assert_eq!(refusal(*value).as_deref(), Some(field), "{field} {value}");
    }
}

#[test]
fn rates_of_a_line_have_bounds() {
    bounds("rate.bps", &[1, u64::MAX], &[0], |bps| rate(RateSpec::Constant { bps }));
    let trace = |at_ns: &[u64], mtu| {
        rate(RateSpec::Opportunities { at_ns: at_ns.to_vec(), mtu, end: TraceEnd::Loop })
    };
    bounds("rate.mtu", &[1, 65_535], &[0], |mtu| trace(&[1], mtu as u32));
    bounds("rate.at_ns", &[1], &[0], |last_ns| trace(&[0, last_ns], 1500));
    bounds("rate.at_ns", &[7, 8], &[6], |second_ns| trace(&[7, second_ns, 9], 1500));
    let ramp = |from_bps, to_bps, duration_ns, step_ns| {
        rate(RateSpec::Ramp { from_bps, to_bps, duration_ns, step_ns, end: TraceEnd::Hold })
    };
    bounds("rate.from_bps", &[1], &[0], |bps| ramp(bps, 5, 10, 1));
    bounds("rate.to_bps", &[1], &[0], |bps| ramp(5, bps, 10, 1));
    bounds("rate.step_ns", &[1, 10], &[0], |ns| ramp(5, 5, 10, ns));
    bounds("rate.duration_ns", &[10], &[9], |ns| ramp(5, 5, ns, 10));
    let most = RateSpec::MAX_STEPS;
    assert_eq!(most, 1_000_000);
    bounds("rate.step_ns", &[2], &[1], |ns| ramp(5, 5, 2 * most, ns));
    bounds("rate.step_ns", &[2], &[1], |ns| ramp(5, 5, most + 1, ns));
    assert_eq!(ramp(5, 5, most, 1), None);
}

#[test]
fn steps_and_slots_of_a_rate_lie_within_their_period() {
    let steps = |second_ns, bps, period_ns, end| {
        let steps = vec![RateStep { at_ns: 5, bps: 0 }, RateStep { at_ns: second_ns, bps }];
        rate(RateSpec::Steps { steps, period_ns, end })
    };
    bounds("rate.steps.at_ns", &[6], &[0, 5], |ns| steps(ns, 1, 10, TraceEnd::Loop));
    bounds("rate.period_ns", &[8], &[0, 6, 7], |ns| steps(7, 1, ns, TraceEnd::Loop));
    bounds("rate.steps.bps", &[1], &[0], |bps| steps(7, bps, 10, TraceEnd::Loop));
    // A line that stops for ever must not cause an endless search for the time of its next bit.
    bounds("rate.steps.bps", &[0], &[], |bps| steps(7, bps, 10, TraceEnd::Hold));
    bounds("rate.steps.bps", &[0], &[], |bps| steps(7, bps, 10, TraceEnd::Once));
    assert_eq!(steps(u64::MAX, 1, u64::MAX, TraceEnd::Hold).as_deref(), Some("rate.period_ns"));
    let slots = |bps, second_ns, len_ns, period_ns| {
        let slots =
            vec![RateSlot { start_ns: 0, len_ns: 5 }, RateSlot { start_ns: second_ns, len_ns }];
        rate(RateSpec::Slots { bps, period_ns, slots, whole_frames: false })
    };
    bounds("rate.bps", &[1], &[0], |bps| slots(bps, 5, 2, 10));
    bounds("rate.slots.start_ns", &[5, 6], &[4], |ns| slots(1, ns, 2, 10));
    bounds("rate.slots.len_ns", &[1, 5], &[0], |ns| slots(1, 5, ns, 10));
    bounds("rate.period_ns", &[7, 8], &[6], |ns| slots(1, 5, 2, ns));
}

#[test]
fn rates_that_vary_at_random_or_in_waves_have_bounds() {
    let sine = |mean_bps, amplitude_bps, period_ns, step_ns| {
        rate(RateSpec::Sine { mean_bps, amplitude_bps, period_ns, step_ns })
    };
    const GBPS: u64 = 1_000_000_000;
    bounds("rate.mean_bps", &[GBPS], &[0], |bps| sine(bps, 0, 10, 1));
    bounds("rate.amplitude_bps", &[0, GBPS], &[GBPS + 1], |bps| sine(GBPS, bps, 10, 1));
    bounds("rate.step_ns", &[1, 10], &[0], |ns| sine(GBPS, 0, 10, ns));
    bounds("rate.period_ns", &[10], &[0, 9], |ns| sine(GBPS, 0, ns, 10));
    bounds("rate.step_ns", &[3], &[2], |ns| sine(GBPS, 0, 2_000_001, ns));
    let wandering = |mean_bps, min_bps, max_bps, half_life_ns, step_ns| {
        let sd_bps = 1;
        let rate_spec = RateSpec::OrnsteinUhlenbeck {
            mean_bps,
            sd_bps,
            half_life_ns,
            min_bps,
            max_bps,
            step_ns,
        };
        rate(rate_spec)
    };
    let (low, high) = (GBPS, GBPS + 10);
    bounds("rate.mean_bps", &[low, high], &[low - 1, high + 1], |bps| {
        wandering(bps, low, high, 10, 1)
    });
    bounds("rate.mean_bps", &[], &[0], |bps| wandering(bps, 0, high, 10, 1));
    bounds("rate.half_life_ns", &[1, 2], &[0], |ns| wandering(low, 0, high, ns, 1));
    bounds("rate.step_ns", &[1, 20], &[0], |ns| wandering(low, 0, high, 10, ns));
    bounds("rate.step_ns", &[3], &[2], |ns| wandering(low, 0, high, 2_000_001, ns));
    // At the mean rate, a step carries at least one bit.
    bounds("rate.step_ns", &[1_000], &[999], |ns| wandering(1_000_000, 0, high, 1_000, ns));
}

#[test]
fn states_of_a_rate_have_bounds() {
    let state = |bps, mean_ns, next: &[f64]| MarkovState { bps, mean_ns, next: next.to_vec() };
    let chain = |states: Vec<MarkovState>| rate(RateSpec::Markov { states });
    const GBPS: u64 = 1_000_000_000;
    bounds("rate.states.mean_ns", &[1], &[0], |ns| {
        chain(vec![state(GBPS, 10, &[]), state(GBPS, ns, &[])])
    });
    bounds("rate.states.bps", &[GBPS], &[0], |bps| {
        chain(vec![state(0, 10, &[]), state(bps, 10, &[])])
    });
    bounds("rate.states", &[1, 100], &[101], |count| {
        chain(vec![state(GBPS, 10, &[]); count as usize])
    });
    assert_eq!(chain(vec![]).as_deref(), Some("rate.states"));
    let weighted = |next: &[f64]| {
        chain(vec![state(GBPS, 10, next), state(GBPS, 10, &[]), state(GBPS, 10, &[])])
    };
    for next in [&[0.0, 1.0, 0.0][..], &[0.0, 1e-9, f64::MAX], &[]] {
        assert_eq!(weighted(next), None, "{next:?}");
    }
    let negative = [0.0, -1.0, 2.0];
    let endless = [0.0, f64::MAX, f64::MAX];
    let wrong: [&[f64]; 8] = [
        &[0.0, 1.0],
        &[0.0, 1.0, 1.0, 1.0],
        &[1.0, 1.0, 1.0],
        &[0.0, 0.0, 0.0],
        &[0.0, f64::NAN, 1.0],
        &[0.0, f64::INFINITY, 1.0],
        &negative,
        &endless,
    ];
    for next in wrong {
        assert_eq!(weighted(next).as_deref(), Some("rate.states.next"), "{next:?}");
    }
    // The mean rate over time counts: here the fast state makes up for the slow one, which is too
    // short for a bit.
    let two = |fast_ns| chain(vec![state(1_000_000_000_000, fast_ns, &[]), state(1, 1_000, &[])]);
    assert_eq!(two(1_000), None);
    // On average, each visit of a state sends a bit, however long the line stops in between.
    let slow = |slow_ns| chain(vec![state(2, 1_000_000_000, &[]), state(0, slow_ns, &[])]);
    bounds("rate.states.mean_ns", &[1_000_000_000, 1_000_000_001, 1 << 40], &[], slow);
}

#[test]
fn framing_and_profiles_have_bounds() {
    let framing = |framing| refused(|spec| spec.framing = framing);
    bounds("framing.min_frame", &[0, 65_535], &[65_536], |bytes| {
        framing(Framing { min_frame: bytes as u32, ..Framing::NONE })
    });
    bounds("framing.cells.minislot", &[1, 65_535], &[0, 65_536], |bytes| {
        framing(Framing { cells: LineCells::Docsis { minislot: bytes as u32 }, ..Framing::NONE })
    });
    let profile = |loss_level| {
        refused(|spec| spec.profile = Some(LinkProfile { samples_ns: vec![0], loss_level }))
    };
    assert_eq!([0.0, 1.0].map(profile), [None, None]);
    for level in [-0.01, 1.01, f64::NAN] {
        assert_eq!(profile(level).as_deref(), Some("profile.loss_level"), "{level}");
    }
}

#[test]
fn losses_have_bounds() {
    bounds("loss.nth", &[1, 5], &[0], |nth| loss(LossModel::Nth { every: 5, nth }));
    bounds("loss.every", &[5, 6], &[4], |every| loss(LossModel::Nth { every, nth: 5 }));
    bounds("loss.numbers", &[1, 6], &[0, 7, 8], |first| loss(LossModel::Numbers(vec![first, 7])));
    assert_eq!(loss(LossModel::Numbers(vec![])).as_deref(), Some("loss.numbers"));
    let full = loss(LossModel::Numbers(vec![u64::MAX, u64::MAX]));
    assert_eq!(full.as_deref(), Some("loss.numbers"));
    let timed = |good_ns, bad_ns, bad, good| {
        loss(LossModel::TimedGilbertElliott { good_ns, bad_ns, bad, good })
    };
    bounds("loss.good_ns", &[1], &[0], |ns| timed(ns, 1, 1.0, 0.0));
    bounds("loss.bad_ns", &[1], &[0], |ns| timed(1, ns, 1.0, 0.0));
    assert_eq!(timed(1, 1, 1.5, 0.0).as_deref(), Some("loss.bad"));
    assert_eq!(timed(1, 1, 1.0, -0.5).as_deref(), Some("loss.good"));
    let chain = |p, r, bad, good| loss(LossModel::GilbertElliott { p, r, bad, good });
    assert_eq!(chain(1.0, 1.0, 1.0, 1.0), None);
    assert_eq!(chain(1.0, 1.5, 1.0, 1.0).as_deref(), Some("loss.r"));
    assert_eq!(chain(1.0, 1.0, 1.5, 1.0).as_deref(), Some("loss.bad"));
    assert_eq!(chain(1.0, 1.0, 1.0, 1.5).as_deref(), Some("loss.good"));
    let four = |p13, p31, p32, p23, p14| loss(LossModel::FourState { p13, p31, p32, p23, p14 });
    assert_eq!(four(0.5, 0.5, 0.5, 1.0, 0.5), None);
    assert_eq!(four(0.5, 0.5, 0.5, 1.0, 0.625).as_deref(), Some("loss.p13 + p14"));
    assert_eq!(four(0.5, 0.5, 0.625, 1.0, 0.5).as_deref(), Some("loss.p31 + p32"));
    assert_eq!(four(0.5, 0.5, 0.5, 1.5, 0.5).as_deref(), Some("loss.p23"));
}

#[test]
fn windows_of_losses_are_disjoint_and_lie_within_their_period() {
    let windows = |second_ns, until_ns, period_ns| {
        let window = |from_ns, until_ns| LossWindow { from_ns, until_ns, chance: Chance::ALWAYS };
        let windows = vec![window(0, 5), window(second_ns, until_ns)];
        loss(LossModel::ByTime { windows, period_ns })
    };
    bounds("loss.windows.from_ns", &[5, 6], &[4], |ns| windows(ns, 8, None));
    bounds("loss.windows.until_ns", &[7], &[5, 6], |ns| windows(6, ns, None));
    bounds("loss.period_ns", &[8, 9], &[0, 7], |ns| windows(6, 8, Some(ns)));
    let none = LossModel::ByTime { windows: vec![], period_ns: None };
    assert_eq!(loss(none).as_deref(), Some("loss.windows"));
}

#[test]
fn delays_have_bounds() {
    let gaps = |min_gap_ns, max_gap_ns| {
        delay(DelayModel::InterPacket { min_gap_ns, max_gap_ns, delay_ns: 0 })
    };
    bounds("delay.max_gap_ns", &[7, 8], &[6], |ns| gaps(7, ns));
    let trace = |second_ns, period_ns| {
        let step = |at_ns| DelayStep { at_ns, delay_ns: 1, route: 0 };
        let steps = vec![step(5), step(second_ns)];
        delay(DelayModel::Trace { steps, period_ns, end: TraceEnd::Loop, smooth: false })
    };
    bounds("delay.steps.at_ns", &[6], &[4, 5], |ns| trace(ns, 10));
    bounds("delay.period_ns", &[8], &[0, 7], |ns| trace(7, ns));
    assert_eq!(trace(u64::MAX, u64::MAX).as_deref(), Some("delay.period_ns"));
    assert!(delay(DelayModel::InTurn(vec![])).is_some());
    bounds("output_bps", &[1], &[0], |bps| refused(|spec| spec.output_bps = Some(bps)));
}

#[test]
fn changes_of_frames_have_bounds() {
    let corrupt = |errors, from_byte, until_byte| {
        let fix_checksum = false;
        refused(|spec| {
            spec.corrupt = Some(CorruptSpec { errors, from_byte, until_byte, fix_checksum });
        })
    };
    let burst = |bits| BitErrorSpec::Burst { chance: Chance::ALWAYS, bits };
    bounds("corrupt.bits", &[1, 65_535 * 8], &[0, 65_535 * 8 + 1], |bits| {
        corrupt(burst(bits as u32), 0, None)
    });
    bounds("corrupt.from_byte", &[0, 65_534], &[65_535], |byte| {
        corrupt(burst(1), byte as u32, None)
    });
    bounds("corrupt.until_byte", &[8, 65_535], &[6, 7, 65_536], |byte| {
        corrupt(burst(1), 7, Some(byte as u32))
    });
    assert_eq!(corrupt(BitErrorSpec::Ber(1.5), 0, None).as_deref(), Some("corrupt.ber"));
    let mangle = |edit, at| {
        let (chance, fix_checksum) = (Chance::ALWAYS, false);
        refused(|spec| spec.mangle = Some(MangleSpec { chance, at, edit, fix_checksum }))
    };
    bounds("mangle.count", &[1, 65_535], &[0, 65_536], |count| {
        mangle(MangleEdit::Random(count as u32), 0)
    });
    bounds("mangle.bytes", &[1, 65_535], &[0, 65_536], |count| {
        mangle(MangleEdit::Set(vec![0; count as usize]), 0)
    });
    bounds("mangle.mask", &[1, 65_535], &[0, 65_536], |count| {
        mangle(MangleEdit::Invert(vec![0; count as usize]), 0)
    });
    bounds("mangle.at", &[0, 65_525], &[65_526], |at| mangle(MangleEdit::Random(10), at as u32));
    bounds("duplicate.copies", &[1, 1_000], &[0, 1_001], |copies| {
        let (chance, copies) = (Chance::ALWAYS, copies as u32);
        refused(|spec| spec.duplicate = Some(DuplicateSpec { chance, copies, after_ns: 0 }))
    });
    let hold = |chance, hold_ns| refused(|spec| spec.hold = Some(HoldSpec { chance, hold_ns }));
    bounds("hold.hold_ns", &[1], &[0], |ns| hold(Chance::ALWAYS, ns));
    assert_eq!(hold(Chance::NEVER, 0), None, "a stage that holds nothing");
}

#[test]
fn meters_have_bounds_and_hold_the_shortest_frame() {
    let police = |meter| {
        let action = PoliceAction::Drop;
        refused(|spec| {
            spec.police = Some(PoliceSpec { meter, exceed: action, violate: action });
        })
    };
    let bucket = |bps, burst| police(MeterSpec::Bucket { bps, burst });
    bounds("police.bps", &[1], &[0], |bps| bucket(bps, 60));
    bounds("police.burst", &[60], &[0, 59], |bytes| bucket(1, bytes));
    let two = |committed_bps, committed_burst, peak_bps, peak_burst| {
        police(MeterSpec::Rfc2698 { committed_bps, committed_burst, peak_bps, peak_burst })
    };
    bounds("police.committed_bps", &[1], &[0], |bps| two(bps, 60, 9, 60));
    bounds("police.committed_burst", &[60], &[59], |bytes| two(1, bytes, 9, 60));
    bounds("police.peak_bps", &[9, 10], &[8], |bps| two(9, 60, bps, 60));
    bounds("police.peak_burst", &[60], &[59], |bytes| two(1, 60, 9, bytes));
    let more = |committed_bps, committed_burst, excess_bps, excess_burst| {
        police(MeterSpec::Rfc4115 { committed_bps, committed_burst, excess_bps, excess_burst })
    };
    bounds("police.committed_bps", &[1], &[0], |bps| more(bps, 60, 9, 60));
    bounds("police.committed_burst", &[60], &[59], |bytes| more(1, bytes, 9, 60));
    bounds("police.excess_bps", &[1], &[0], |bps| more(9, 60, bps, 60));
    bounds("police.excess_burst", &[60], &[59], |bytes| more(1, 60, 9, bytes));
}

#[test]
fn queues_have_bounds() {
    let queue = |queue| refused(|spec| spec.queue = queue);
    bounds("queue.bytes", &[1], &[0], |bytes| {
        queue(LinkQueueSpec { bytes: Some(bytes), ..Default::default() })
    });
    bounds("queue.packets", &[1], &[0], |packets| {
        queue(LinkQueueSpec { packets: Some(packets), ..Default::default() })
    });
    let admit = AdmitPolicy::Tlem;
    assert_eq!(queue(LinkQueueSpec { delay_ns: Some(0), admit, ..Default::default() }), None);
    let codel = aqm::CoDelSpec { interval_ns: 0, ..Default::default() };
    let fair = aqm::FairSpec { flows: 0, ..Default::default() };
    let pie = aqm::PieSpec { update_ns: 0, ..Default::default() };
    let invalid = [
        Discipline::CoDel(codel),
        Discipline::Pie(pie),
        Discipline::FqCoDel(Default::default(), codel),
        Discipline::FqCoDel(fair, Default::default()),
        Discipline::FqPie(Default::default(), pie),
        Discipline::FqPie(fair, Default::default()),
    ];
    for discipline in invalid {
        let refusal = queue(LinkQueueSpec { discipline: discipline.clone(), ..Default::default() });
        assert!(refusal.is_some_and(|field| field.starts_with("queue.")), "{discipline:?}");
    }
}
