//! Rates that change: traces, slots, ramps, sines, random processes.

use slipring_link::{
    Framing, LineCells, LinkProfile, LinkQueueSpec, LinkSpec, MarkovState, RateSlot, RateSpec,
    RateStep, TraceEnd,
};

use crate::rate::constant;
use crate::support::{Sim, mean, releases};

const MS: u64 = 1_000_000;

fn rated(rate: RateSpec) -> LinkSpec {
    LinkSpec { rate, ..LinkSpec::wire("up") }
}

fn opportunities(at_ms: &[u64], mtu: u32, end: TraceEnd) -> LinkSpec {
    let at_ns = at_ms.iter().map(|ms| ms * MS).collect();
    rated(RateSpec::Opportunities { at_ns, mtu, end })
}

fn in_ms(times: &[u64]) -> Vec<u64> {
    times.iter().map(|time| time / MS).collect()
}

#[test]
fn a_trace_of_opportunities_repeats_from_its_last_value() {
    let out = releases(opportunities(&[0, 1, 2, 3, 4, 5], 1504, TraceEnd::Loop), 19, 1504, 0);
    // Six opportunities per 5 ms, two of which coincide at the wrap: 14.4384 Mbit/s.
    let expected = [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 10, 11, 12, 13, 14, 15, 15];
    assert_eq!(in_ms(&out), expected);
}

#[test]
fn small_frames_share_an_opportunity_and_large_ones_span_several() {
    let spec = || opportunities(&[1, 2, 3], 1504, TraceEnd::Loop);
    assert_eq!(in_ms(&releases(spec(), 6, 752, 0)), [1, 1, 2, 2, 3, 3]);
    // The first frame uses 1504 and 496 bytes of two opportunities; the next frame uses the 1008
    // bytes left over and 992 bytes of the third.
    assert_eq!(in_ms(&releases(spec(), 3, 2000, 0)), [2, 3, 4]);
    assert_eq!(in_ms(&releases(spec(), 1, 9000, 0)), [6]);
}

#[test]
fn what_an_opportunity_leaves_is_lost() {
    let mut sim = Sim::link(opportunities(&[1, 2, 3], 1500, TraceEnd::Loop));
    sim.push(0, 100);
    sim.push(MS + 1, 100);
    // The bytes of opportunities at which no frame waits are lost, too.
    sim.push(1_000 * MS + 1, 1500);
    sim.finish();
    assert_eq!(in_ms(&sim.memory.releases()), [1, 2, 1001]);
}

#[test]
fn an_opportunity_serves_a_frame_that_comes_at_its_moment() {
    let mut sim = Sim::link(opportunities(&[1, 2, 3], 1500, TraceEnd::Loop));
    for at_ns in [2 * MS, 6 * MS] {
        sim.push(at_ns, 100);
    }
    sim.finish();
    assert_eq!(in_ms(&sim.memory.releases()), [2, 6]);
}

#[test]
fn a_frame_that_occupies_the_line_longer_misses_opportunities() {
    let profile = LinkProfile { samples_ns: vec![3 * MS / 2], loss_level: 1.0 };
    let trace = opportunities(&[1, 2, 3], 1500, TraceEnd::Loop);
    let out = releases(LinkSpec { profile: Some(profile), ..trace }, 3, 1500, 0);
    assert_eq!(out, [5 * MS / 2, 9 * MS / 2, 13 * MS / 2]);
}

#[test]
fn a_pause_skips_rounds_of_opportunities_without_shifting_them() {
    // Opportunities at 1, 4 and 10 ms of every 10 ms, two of them at 10 ms.
    let trace = || opportunities(&[1, 4, 10, 10], 1500, TraceEnd::Loop);
    for (at_ms, expected) in [
        (0, 1),
        (1, 1),
        (2, 4),
        (5, 10),
        (10, 10),
        (11, 11),
        (12, 14),
        (20, 20),
        (21, 21),
        (1_000_000, 1_000_000),
        (1_000_001, 1_000_001),
        (1_000_002, 1_000_004),
        (1_000_005, 1_000_010),
    ] {
        let mut sim = Sim::link(trace());
        sim.push(at_ms * MS, 1500);
        sim.finish();
        assert_eq!(in_ms(&sim.memory.releases()), [expected], "at {at_ms} ms");
        // The times are the same after a frame has used the first opportunity, except for a frame
        // that would have used it.
        let mut sim = Sim::link(trace());
        sim.push(0, 1500);
        sim.push(at_ms * MS, 1500);
        sim.finish();
        let next = if expected == 1 { 4 } else { expected };
        assert_eq!(in_ms(&sim.memory.releases()), [1, next], "at {at_ms} ms");
    }
    // If two opportunities coincide, both serve frames that arrive at that moment.
    let mut sim = Sim::link(trace());
    (0..3).for_each(|_| _ = sim.push(20 * MS, 1500));
    sim.finish();
    assert_eq!(in_ms(&sim.memory.releases()), [20, 20, 21]);
}

#[test]
fn the_distance_that_is_held_is_that_of_the_last_two_moments() {
    let spec = || opportunities(&[1, 5, 5], 1500, TraceEnd::Hold);
    assert_eq!(in_ms(&releases(spec(), 5, 1500, 0)), [1, 5, 5, 9, 13]);
    for (at_ms, expected) in [(6, 9), (9, 9), (10, 13), (4_001, 4_001), (4_002, 4_005)] {
        let mut sim = Sim::link(spec());
        (0..3).for_each(|_| _ = sim.push(0, 1500));
        sim.push(at_ms * MS, 1500);
        sim.finish();
        assert_eq!(in_ms(&sim.memory.releases()), [1, 5, 5, expected], "at {at_ms} ms");
    }
    // A single opportunity at 7 ms recurs every 7 ms.
    let single = opportunities(&[7], 1500, TraceEnd::Hold);
    assert_eq!(in_ms(&releases(single, 3, 1500, 0)), [7, 14, 21]);
}

#[test]
fn the_wait_for_opportunities_is_estimated_by_their_mean_rate() {
    // The line carries 1500 bytes per ms on average. So the queue admits the frames that wait at
    // most 5 ms at this rate.
    let queue = LinkQueueSpec { delay_ns: Some(5 * MS), ..LinkQueueSpec::default() };
    let trace = opportunities(&[1, 2, 3], 1500, TraceEnd::Loop);
    let mut sim = Sim::link(LinkSpec { queue, ..trace });
    (0..20).for_each(|_| _ = sim.push(0, 1500));
    sim.finish();
    let taken = sim.memory.delivered.len();
    assert!((5..=6).contains(&taken), "{taken}");
}

#[test]
fn slots_and_waves_are_where_they_should_be_after_a_long_pause() {
    const ROUNDS: u64 = 1_000_000;
    for (whole, at_ns, len, expected) in [
        (false, 0, 800, 1_800),
        (false, 1_500, 800, 5_300),
        (true, 1_500, 800, 5_800),
        (false, 2_000, 100, 5_100),
        (false, 8_000, 100, 11_100),
        (true, 7_500, 800, 11_800),
    ] {
        let mut sim = Sim::link(slots(whole));
        sim.push(ROUNDS * 10_000 + at_ns, len);
        sim.finish();
        assert_eq!(sim.memory.releases(), [ROUNDS * 10_000 + expected], "{whole} {at_ns}");
    }
    let sine = RateSpec::Sine {
        mean_bps: 8_000_000,
        amplitude_bps: 4_000_000,
        period_ns: 1_000 * MS,
        step_ns: MS,
    };
    // 1000 bytes at rates of 8, 12, 8 and 4 Mbit/s.
    for (at_ms, took_ns) in [(0, 1_000_000), (250, 666_667), (500, 1_000_000), (750, 2_000_000)] {
        let mut sim = Sim::link(rated(sine.clone()));
        let at_ns = 77_000 * MS + at_ms * MS;
        sim.push(at_ns, 1_000);
        sim.finish();
        let took = sim.memory.releases()[0] - at_ns;
        assert!(took.abs_diff(took_ns) < 10_000, "at {at_ms} ms: {took} ns");
    }
}

#[test]
fn a_trace_that_ends_lets_nothing_through_any_more() {
    let spec = LinkSpec {
        queue: LinkQueueSpec { packets: Some(3), ..LinkQueueSpec::default() },
        ..opportunities(&[1, 2], 1500, TraceEnd::Once)
    };
    let mut sim = Sim::link(spec);
    (0..10).for_each(|_| _ = sim.push(0, 1500));
    sim.finish();
    assert_eq!(in_ms(&sim.memory.releases()), [1, 2]);
    let counters = sim.counters();
    assert_eq!((counters.in_flight.packets, counters.drops.total().packets), (1, 7));
    assert!(counters.is_balanced());
}

#[test]
fn a_trace_that_holds_goes_on_at_its_last_pace() {
    let out = releases(opportunities(&[1, 5, 7], 1500, TraceEnd::Hold), 6, 1500, 0);
    assert_eq!(in_ms(&out), [1, 5, 7, 9, 11, 13]);
    let mut sim = Sim::link(opportunities(&[1, 5, 7], 1500, TraceEnd::Hold));
    for at_ns in [0, 10 * MS, 1_000_000 * MS] {
        sim.push(at_ns, 1500);
    }
    sim.finish();
    assert_eq!(in_ms(&sim.memory.releases()), [1, 11, 1_000_001]);
}

fn stepped(end: TraceEnd) -> LinkSpec {
    let step = |at_ns, bps| RateStep { at_ns, bps };
    let steps = vec![step(0, 8_000_000_000), step(1_000, 0), step(3_000, 16_000_000_000)];
    rated(RateSpec::Steps { steps, period_ns: 4_000, end })
}

#[test]
fn a_frame_that_spans_a_change_of_rate_does_part_before_and_part_after_it() {
    // The rate is 1 byte per ns for 1 us, 0 for 2 us, then 2 bytes per ns.
    assert_eq!(releases(stepped(TraceEnd::Hold), 1, 1_600, 0), [3_300]);
    assert_eq!(releases(stepped(TraceEnd::Hold), 2, 10_000, 0), [7_500, 12_500]);
}

#[test]
fn rates_over_time_loop_hold_or_end() {
    // One round of 4 us carries 3000 bytes.
    assert_eq!(releases(stepped(TraceEnd::Loop), 4, 1_500, 0), [3_250, 4_000, 7_250, 8_000]);
    let mut sim = Sim::link(stepped(TraceEnd::Once));
    (0..4).for_each(|_| _ = sim.push(0, 1_500));
    sim.finish();
    assert_eq!(sim.memory.releases(), [3_250, 4_000]);
    assert_eq!(sim.counters().in_flight.packets, 2);
}

#[test]
fn a_line_that_idled_through_many_rounds_is_where_it_should_be() {
    let mut sim = Sim::link(stepped(TraceEnd::Loop));
    sim.push(4_000_000_000_500, 1_000);
    sim.push(4_000_000_001_500, 100);
    sim.finish();
    // The line sends 500 bytes before it pauses at 1 us, and the rest from 3 us on at twice the
    // rate.
    assert_eq!(sim.memory.releases(), [4_000_000_003_250, 4_000_000_003_300]);
}

#[test]
fn rates_that_divide_no_nanosecond_do_not_drift_over_changes() {
    let step = |at_ns, bps| RateStep { at_ns, bps };
    let steps = vec![step(0, 3_333_333_337), step(997, 7_777_777_777)];
    let spec = rated(RateSpec::Steps { steps, period_ns: 1_994, end: TraceEnd::Loop });
    let out = releases(spec, 200_000, 125, 0);
    // A round does 997 * (sum of both rates) units of work; a frame needs 1000 * 10^9.
    let per_round = 997 * (3_333_333_337u128 + 7_777_777_777);
    let work = 200_000 * 1_000 * 1_000_000_000u128;
    let (rounds, rest) = (work / per_round, work % per_round);
    let first = 997 * 3_333_333_337u128;
    let within = if rest <= first {
        rest.div_ceil(3_333_333_337)
    } else {
        997 + (rest - first).div_ceil(7_777_777_777)
    };
    assert_eq!(u128::from(*out.last().unwrap()), rounds * 1_994 + within);
}

fn slots(whole_frames: bool) -> LinkSpec {
    let slot = |start_ns, len_ns| RateSlot { start_ns, len_ns };
    rated(RateSpec::Slots {
        bps: 8_000_000_000,
        period_ns: 10_000,
        slots: vec![slot(1_000, 1_000), slot(5_000, 3_000)],
        whole_frames,
    })
}

#[test]
fn frames_wait_for_their_slot() {
    let out = releases(slots(false), 5, 800, 0);
    // The second frame is split over a gap.
    assert_eq!(out, [1_800, 5_600, 6_400, 7_200, 8_000]);
}

#[test]
fn whole_frames_wait_for_a_slot_that_holds_them() {
    let out = releases(slots(true), 5, 800, 0);
    assert_eq!(out, [1_800, 5_800, 6_600, 7_400, 11_800]);
    // 2000 bytes fit into the longer slot only, 4000 bytes into neither slot.
    assert_eq!(releases(slots(true), 1, 2_000, 0), [7_000]);
    assert_eq!(releases(slots(true), 1, 4_000, 0), [8_000]);
}

#[test]
fn a_ramp_carries_the_mean_of_its_ends() {
    let ramp = RateSpec::Ramp {
        from_bps: 8_000_000,
        to_bps: 24_000_000,
        duration_ns: 1_000 * MS,
        step_ns: MS,
        end: TraceEnd::Hold,
    };
    // The ramp takes one second and carries 2 MB. In each further second, the line carries 3 MB.
    let out = releases(rated(ramp), 5_000, 1_000, 0);
    assert!(out[1_999].abs_diff(1_000 * MS) < MS, "{}", out[1_999]);
    assert!(out[4_999].abs_diff(2_000 * MS) < MS, "{}", out[4_999]);
    assert!(out[499] > 353 * MS, "slower at first: {}", out[499]);
}

#[test]
fn a_wave_goes_up_and_down_around_its_mean() {
    let sine = RateSpec::Sine {
        mean_bps: 8_000_000,
        amplitude_bps: 4_000_000,
        period_ns: 1_000 * MS,
        step_ns: MS,
    };
    let out = releases(rated(sine), 10_000, 1_000, 0);
    assert!(out[9_999].abs_diff(10_000 * MS) < 2 * MS, "{}", out[9_999]);
    // In the first half of the period, the line carries 1 MB * (1/2 + 1/(2 pi)) = 659 kB.
    let first = out.iter().filter(|&&at| at < 500 * MS).count();
    assert!(first.abs_diff(659) < 5, "{first}");
}

#[test]
fn a_chain_of_rates_spends_its_time_in_each() {
    let state = |bps| MarkovState { bps, mean_ns: 10 * MS, next: vec![] };
    let chain = RateSpec::Markov { states: vec![state(16_000_000), state(0)] };
    let out = releases(rated(chain), 20_000, 1_000, 0);
    // The rate is 2 MB/s half of the time and 0 otherwise, which is 1000 bytes per ms on average.
    let last = *out.last().unwrap() as f64 / 1e9;
    assert!((last / 20.0 - 1.0).abs() < 0.1, "{last}");
}

#[test]
fn a_frame_on_a_slow_line_passes_whole_rounds_at_once() {
    let slots = |period_ns, slots: &[(u64, u64)]| {
        let slots = slots.iter().map(|&(start_ns, len_ns)| RateSlot { start_ns, len_ns }).collect();
        rated(RateSpec::Slots { bps: 1, period_ns, slots, whole_frames: true })
    };
    // 8000 bits at 1 bit/s. First the line is open all the time, then in two of five nanoseconds,
    // the second of which ends 1 ns before the end of the round.
    assert_eq!(releases(slots(1, &[(0, 1)]), 2, 1_000, 0), [8_000_000 * MS, 16_000_000 * MS]);
    let half = slots(5, &[(1, 1), (3, 1)]);
    assert_eq!(releases(half, 1, 1_000, 0), [20_000_000 * MS - 1]);
    let step = |at_ns, bps| RateStep { at_ns, bps };
    let steps = vec![step(0, 3), step(2, 0), step(4, 1)];
    let steps = RateSpec::Steps { steps, period_ns: 6, end: TraceEnd::Loop };
    assert_eq!(releases(rated(steps), 1, 1_000, 0), [6_000_000 * MS]);
}

#[test]
fn a_chain_of_rates_forgets_a_long_pause_at_once() {
    const DAY_NS: u64 = 86_400_000 * MS;
    let state = |bps, mean_ns, next| MarkovState { bps, mean_ns, next };
    // The states take one fifth, one fifth and three fifths of the time.
    let states = vec![
        state(8_000_000_000, 10_000, vec![0.0, 1.0, 0.0]),
        state(80_000_000_000, 5_000, vec![0.5, 0.0, 0.5]),
        state(800_000_000_000, 30_000, vec![0.0, 1.0, 0.0]),
    ];
    let mut sim = Sim::link(rated(RateSpec::Markov { states }));
    (1..=3_000).for_each(|day| _ = sim.push(day * DAY_NS, 100));
    sim.finish();
    let took = |from: u64, until: u64| {
        let within = |at: &u64| (from..until).contains(&(at % DAY_NS));
        sim.memory.releases().iter().filter(|at| within(at)).count()
    };
    // A frame takes 100, 10 or 1 ns. The state changes during few frames only.
    let shares = [took(90, 200), took(9, 20), took(0, 2)].map(|count| count as f64 / 3_000.0);
    for (share, expected) in shares.into_iter().zip([0.2, 0.2, 0.6]) {
        assert!((share - expected).abs() < 0.03, "{shares:?}");
    }
}

#[test]
fn a_chain_that_is_caught_where_nothing_moves_stands_still() {
    let state = |bps, next| MarkovState { bps, mean_ns: 1, next };
    let states = vec![
        state(8_000_000_000, vec![0.0, 1.0, 0.0]),
        state(0, vec![0.0, 0.0, 1.0]),
        state(0, vec![0.0, 1.0, 0.0]),
    ];
    let mut sim = Sim::link(rated(RateSpec::Markov { states }));
    (0..3).for_each(|_| _ = sim.push(0, 1_000_000));
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 0);
}

#[test]
fn a_rate_that_wanders_keeps_its_mean() {
    let ou = RateSpec::OrnsteinUhlenbeck {
        mean_bps: 8_000_000,
        sd_bps: 1_000_000,
        half_life_ns: 20 * MS,
        min_bps: 1_000_000,
        max_bps: 15_000_000,
        step_ns: MS,
    };
    let out = releases(rated(ou), 30_000, 1_000, 0);
    let last = *out.last().unwrap() as f64 / 1e9;
    assert!((last / 30.0 - 1.0).abs() < 0.02, "{last}");
    let gaps: Vec<u64> = out.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().any(|&gap| gap as f64 > 1.15 * mean(&gaps)), "it wanders");
}

#[test]
fn overhead_is_added_and_may_be_negative() {
    let framed = |framing| LinkSpec { framing, ..constant(8_000_000_000) };
    let bytes = |framing, len| releases(framed(framing), 1, len, 0)[0];
    assert_eq!(bytes(Framing::ETHER, 60), 84);
    assert_eq!(bytes(Framing { overhead_bytes: -14, ..Framing::NONE }, 60), 46);
    assert_eq!(bytes(Framing { overhead_bytes: -100, ..Framing::NONE }, 60), 0);
    assert_eq!(bytes(Framing { min_frame: 84, ..Framing::ETHER }, 42), 84);
}

#[test]
fn cells_carry_their_share() {
    let framed = |framing| LinkSpec { framing, ..constant(8_000_000_000) };
    let bytes = |framing, len| releases(framed(framing), 1, len, 0)[0];
    let atm = Framing { overhead_bytes: 8, cells: LineCells::Atm, ..Framing::NONE };
    assert_eq!([40, 41, 1500].map(|len| bytes(atm, len)), [53, 106, 32 * 53]);
    let docsis = Framing { cells: LineCells::Docsis { minislot: 16 }, ..Framing::NONE };
    assert_eq!([64, 65].map(|len| bytes(docsis, len)), [64, 80]);
}

#[test]
fn a_profile_occupies_the_line_longer_and_drops_afterwards() {
    let profile = LinkProfile { samples_ns: vec![200, 200, 300, 1_000], loss_level: 0.75 };
    let mut sim = Sim::link(LinkSpec { profile: Some(profile), ..constant(8_000_000_000) });
    let count: u64 = 20_000;
    (0..count).for_each(|_| _ = sim.push(0, 100));
    sim.finish();
    let lost = sim.memory.lost_to(slipring_link::LinkDropCause::Profile) as f64;
    assert!((lost / count as f64 - 0.25).abs() < 0.0101, "{lost}");
    // Lost frames occupied the line, too. Each frame takes 100 ns + 425 ns on average.
    let last =
        sim.memory.delivered.last().unwrap().release_ns.max(sim.memory.lost.last().unwrap().at_ns);
    assert!((last as f64 / count as f64 - 525.0).abs() < 8.0, "{last}");
}

#[test]
fn a_profile_needs_no_rate() {
    let profile = LinkProfile { samples_ns: vec![250], loss_level: 1.0 };
    let spec = LinkSpec { profile: Some(profile), ..LinkSpec::wire("up") };
    assert_eq!(releases(spec, 3, 1000, 0), [250, 500, 750]);
}

/// Returns how long a frame of 1000 bytes takes, in ns, if it begins in each of four steps of 1
/// ms.
fn ns_in_each_of_four_steps(sim: &mut Sim, start_ns: u64) -> Vec<u64> {
    let begins: Vec<u64> = (0..4).map(|step| start_ns + step * 1_000_000 + 100).collect();
    let first = sim.memory.releases().len();
    for &at_ns in &begins {
        sim.push_at(0, at_ns, 1_000);
    }
    sim.finish();
    sim.memory.releases()[first..].iter().zip(begins).map(|(end, begin)| end - begin).collect()
}

/// Returns how long 8000 bits take at a rate in bits per second, in whole ns.
fn ns_at(bps: f64) -> u64 {
    (8_000e9 / bps).ceil() as u64
}

#[test]
fn steps_of_a_sine_have_the_rate_of_their_middle() {
    let sine = RateSpec::Sine {
        mean_bps: 8_000_000_000,
        amplitude_bps: 4_000_000_000,
        period_ns: 4_000_000,
        step_ns: 1_000_000,
    };
    // The middles of the steps are at 45, 135, 225 and 315 degrees.
    let (fast, slow) = (ns_at(8e9 + 4e9 * 0.5_f64.sqrt()), ns_at(8e9 - 4e9 * 0.5_f64.sqrt()));
    let link = LinkSpec { rate: sine, ..LinkSpec::wire("up") };
    let mut sim = Sim::link(link.clone());
    assert_eq!(ns_in_each_of_four_steps(&mut sim, 0), [fast, fast, slow, slow]);
    // If a sine is set by a change, it begins at the time of the change.
    let mut sim = Sim::link(LinkSpec::wire("up"));
    let plan = slipring_link::NetworkSpec::single(link);
    sim.network.change(5_700_000, &plan).unwrap();
    assert_eq!(ns_in_each_of_four_steps(&mut sim, 5_700_000), [fast, fast, slow, slow]);
}

#[test]
fn steps_of_a_ramp_have_the_rate_of_their_middle_and_the_last_that_of_the_end() {
    let ramp = RateSpec::Ramp {
        from_bps: 8_000_000_000,
        to_bps: 16_000_000_000,
        duration_ns: 4_000_000,
        step_ns: 1_000_000,
        end: TraceEnd::Hold,
    };
    let mut sim = Sim::link(LinkSpec { rate: ramp, ..LinkSpec::wire("up") });
    let times = [9e9, 11e9, 13e9, 16e9].map(ns_at);
    assert_eq!(ns_in_each_of_four_steps(&mut sim, 0), times);
}
