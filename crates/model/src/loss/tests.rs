use std::string::ToString;
use std::vec::Vec;

use super::*;
use crate::statistics::chi_square_excess;
use crate::{Chance, Draws, Stream};

fn p(p: f64) -> Chance {
    Chance::from_f64(p).unwrap()
}

fn run(count: usize, mut lost: impl FnMut(&mut Stream) -> bool) -> Vec<bool> {
    let mut stream = Stream::new(7, "test/loss");
    (0..count).map(|_| lost(&mut stream)).collect()
}

/// Returns the share of packets lost, and the lengths of the runs of losses.
fn summary(lost: &[bool]) -> (f64, Vec<usize>) {
    let share = lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64;
    let bursts = lost.split(|lost| !lost).map(<[bool]>::len).filter(|&length| length > 0);
    (share, bursts.collect())
}

fn mean(lengths: &[usize]) -> f64 {
    lengths.iter().sum::<usize>() as f64 / lengths.len() as f64
}

/// Returns how far the burst lengths are from a geometric distribution in which a burst ends with
/// probability `end` after each packet. The unit is that of `chi_square_excess`.
fn geometric_excess(bursts: &[usize], end: f64) -> f64 {
    let mut seen = [0; 12];
    for &length in bursts {
        seen[length.min(12) - 1] += 1;
    }
    let share = |length: i32| (1.0 - end).powi(length - 1) * if length < 12 { end } else { 1.0 };
    let shares: Vec<f64> = (1..=12).map(share).collect();
    chi_square_excess(&seen, &shares)
}

#[test]
fn gilbert_loses_as_much_and_in_such_bursts_as_it_says() {
    let mut chain = GilbertElliott::new(p(0.01), p(0.25), Chance::ALWAYS, Chance::NEVER);
    let (share, bursts) = summary(&run(1_000_000, |stream| chain.lost(stream)));
    assert!((share - chain.expected_loss()).abs() < 0.002, "{share}");
    assert!((mean(&bursts) - 4.0).abs() < 0.1, "{}", mean(&bursts));
    let excess = geometric_excess(&bursts, 0.25);
    assert!(excess.abs() < 3.3, "{excess}");
}

#[test]
fn expectations_hold_when_both_states_lose_some() {
    let mut chain = GilbertElliott::new(p(0.03), p(0.2), p(0.7), p(0.05));
    let (share, bursts) = summary(&run(2_000_000, |stream| chain.lost(stream)));
    assert!((share - chain.expected_loss()).abs() < 0.002, "{share}");
    assert!((mean(&bursts) / chain.mean_burst() - 1.0).abs() < 0.01, "{}", mean(&bursts));
}

#[test]
fn a_chain_that_never_leaves_a_state_says_so() {
    let stays = GilbertElliott::new(p(0.0), p(0.5), Chance::ALWAYS, Chance::NEVER);
    assert_eq!((stays.expected_loss(), stays.mean_burst()), (0.0, 0.0));
    let breaks = GilbertElliott::new(p(0.5), p(0.0), Chance::ALWAYS, Chance::NEVER);
    assert_eq!((breaks.expected_loss(), breaks.mean_burst()), (1.0, f64::INFINITY));
}

#[test]
fn one_in_1e15_is_kept_as_such() {
    let chain = GilbertElliott::new(p(1e-15), p(0.5), Chance::ALWAYS, Chance::NEVER);
    assert!((chain.expected_loss() / 2e-15 - 1.0).abs() < 1e-3);
}

#[test]
fn gilbert_is_the_same_on_every_machine() {
    let mut chain = GilbertElliott::new(p(0.3), p(0.4), p(0.9), p(0.1));
    let drawn = run(64, |stream| chain.lost(stream));
    let bits = drawn.iter().fold(0u64, |bits, &lost| bits << 1 | u64::from(lost));
    assert_eq!(bits, 0x86fd_7451_5b1b_cab6);
}

#[test]
fn four_states_lose_as_much_and_in_such_bursts_as_they_say() {
    let mut chain = FourState::new(p(0.02), p(0.2), p(0.3), p(0.4), p(0.01)).unwrap();
    let (share, bursts) = summary(&run(2_000_000, |stream| chain.lost(stream)));
    assert!((share / chain.expected_loss() - 1.0).abs() < 0.02, "{share}");
    assert!((mean(&bursts) / chain.mean_burst() - 1.0).abs() < 0.02, "{}", mean(&bursts));
}

#[test]
fn four_states_without_the_burst_lose_single_packets() {
    let mut chain = FourState::new(p(0.0), p(1.0), p(0.0), p(1.0), p(0.1)).unwrap();
    let (share, bursts) = summary(&run(200_000, |stream| chain.lost(stream)));
    assert!((share - 0.1 / 1.1).abs() < 0.003, "{share}");
    assert!(bursts.iter().all(|&length| length == 1));
    assert!((chain.expected_loss() - 0.1 / 1.1).abs() < 1e-12);
    assert!((chain.mean_burst() - 1.0).abs() < 1e-12);
}

#[test]
fn two_of_the_four_states_are_a_gilbert_chain() {
    let mut chain = FourState::new(p(0.05), p(0.25), p(0.0), p(0.0), p(0.0)).unwrap();
    assert!((chain.expected_loss() - 0.05 / 0.3).abs() < 1e-12);
    let (share, bursts) = summary(&run(1_000_000, |stream| chain.lost(stream)));
    assert!((share - 0.05 / 0.3).abs() < 0.003, "{share}");
    assert!(geometric_excess(&bursts, 0.25).abs() < 3.3);
}

#[test]
fn four_states_that_end_in_one_of_them_say_so() {
    let four = |odds: [f64; 5]| {
        let [p13, p31, p32, p23, p14] = odds.map(p);
        FourState::new(p13, p31, p32, p23, p14).unwrap()
    };
    assert_eq!(four([0.1, 0.2, 0.3, 0.0, 0.1]).expected_loss(), 0.0);
    assert_eq!(four([0.1, 0.0, 0.0, 0.3, 0.1]).expected_loss(), 1.0);
    assert_eq!(four([0.1, 0.0, 0.0, 0.3, 0.1]).mean_burst(), f64::INFINITY);
    assert!((four([0.1, 0.0, 0.3, 0.3, 0.1]).expected_loss() - 0.5).abs() < 1e-12);
    assert!((four([0.1, 0.0, 0.3, 0.3, 0.1]).mean_burst() - 1.0 / 0.3).abs() < 1e-12);
    assert_eq!(four([0.0, 0.0, 0.0, 0.0, 0.0]).expected_loss(), 0.0);
    assert_eq!(four([0.0, 0.0, 0.0, 0.0, 0.0]).mean_burst(), 0.0);
}

#[test]
fn four_states_draw_once_a_packet() {
    let mut chain = FourState::new(p(0.3), p(0.2), p(0.3), p(0.4), p(0.3)).unwrap();
    let mut stream = Stream::new(1, "test/once");
    for _ in 0..100 {
        let mut plain = stream.clone();
        chain.lost(&mut stream);
        plain.next_u64();
        assert_eq!(stream, plain);
    }
}

#[test]
fn ways_out_of_a_state_that_exceed_certainty_are_named() {
    let error = FourState::new(p(0.6), p(0.2), p(0.3), p(0.4), p(0.5)).unwrap_err();
    assert_eq!(error.to_string(), "p13 + p14 must be at most 1, and is 1.1");
    let error = FourState::new(p(0.6), p(0.75), p(0.5), p(0.4), p(0.1)).unwrap_err();
    assert_eq!(error.parameter, "p31 + p32");
}

#[test]
fn outages_in_time_last_as_long_as_they_should_at_any_packet_rate() {
    for gap_ns in [1_000u64, 50_000, 400_000] {
        let mut chain = TimedGilbertElliott::new(9e6, 1e6, Chance::ALWAYS, Chance::NEVER).unwrap();
        let mut now_ns = 0;
        let lost = run(4_000_000, |stream| {
            now_ns += gap_ns;
            chain.lost_at(now_ns, Draws::new(4, "test/timed"), stream.next_u64())
        });
        let (share, bursts) = summary(&lost);
        assert!((share - 0.1).abs() < 0.02, "{gap_ns}: {share}");
        assert_eq!(chain.expected_loss(), 0.1);
        let expected = chain.mean_burst(gap_ns as f64);
        assert!((mean(&bursts) / expected - 1.0).abs() < 0.15, "{gap_ns}: {}", mean(&bursts));
    }
}

#[test]
fn after_a_long_gap_the_state_is_drawn_again() {
    let mut chain = TimedGilbertElliott::new(3e3, 1e3, Chance::ALWAYS, Chance::NEVER).unwrap();
    let mut now_ns = 0u64;
    let lost = run(100_000, |stream| {
        now_ns += 1 << 40;
        chain.lost_at(now_ns, Draws::new(4, "test/timed"), stream.next_u64())
    });
    assert!((summary(&lost).0 - 0.25).abs() < 0.005);
    assert!((mean(&summary(&lost).1) - 1.0 / 0.75).abs() < 0.02);
}

#[test]
fn states_in_time_do_not_depend_on_how_often_they_are_asked_for() {
    let states = Draws::new(6, "test/timed");
    let chain = || TimedGilbertElliott::new(9e6, 1e6, Chance::ALWAYS, Chance::NEVER).unwrap();
    let (mut often, mut seldom) = (chain(), chain());
    for now_ns in (0..40_000_000_000u64).step_by(100_000) {
        let lost = often.lost_at(now_ns, states, 0);
        // The second chain is queried only at one of every thousand times, and after 30 s at every
        // time.
        if now_ns % 100_000_000 == 0 || now_ns > 30_000_000_000 {
            assert_eq!(seldom.lost_at(now_ns, states, 0), lost, "{now_ns}");
        }
    }
}

#[test]
fn states_too_short_to_notice_do_not_stop_time() {
    let mut chain = TimedGilbertElliott::new(1e-3, 1e9, Chance::ALWAYS, Chance::NEVER).unwrap();
    let states = Draws::new(1, "test/short");
    for now_ns in (0..100_000_000_000u64).step_by(1_000_000_000) {
        assert!(chain.lost_at(now_ns, states, states.at(now_ns)));
    }
}

#[test]
fn a_state_of_no_time_is_refused_by_name() {
    let error = TimedGilbertElliott::new(1e6, 0.0, p(1.0), p(0.0)).unwrap_err();
    assert_eq!(error.parameter, "mean bad time");
}

/// Simulates a chain in discrete time and returns the mean length of its bursts. `leave` and `lose`
/// are the probabilities for the good state, then for the bad one.
fn burst_of_chain(leave: [f64; 2], lose: [f64; 2]) -> f64 {
    let mut bad = 0;
    let lost = run(400_000, |stream| {
        let lost = stream.next_f64() < lose[bad];
        if stream.next_f64() < leave[bad] {
            bad = 1 - bad;
        }
        lost
    });
    mean(&summary(&lost).1)
}

#[test]
fn a_timed_chain_tells_the_loss_and_the_bursts_of_the_chain_that_packets_see() {
    for (mean_ns, lose, gap_ns) in [
        ([30.0, 10.0], [0.1, 0.7], 5.0),
        ([30.0, 10.0], [0.1, 0.7], 50.0),
        ([7.0, 20.0], [0.3, 0.5], 2.0),
        ([7.0, 20.0], [0.6, 0.05], 4.0),
    ] {
        let [good_ns, bad_ns] = mean_ns;
        let chain = TimedGilbertElliott::new(good_ns, bad_ns, p(lose[1]), p(lose[0])).unwrap();
        let bad_share = bad_ns / (good_ns + bad_ns);
        let loss = lose[0] + bad_share * (lose[1] - lose[0]);
        assert!((chain.bad_share() - bad_share).abs() < 1e-9);
        assert!((chain.expected_loss() - loss).abs() < 1e-9);
        // The chain has the rates a (good to bad) and b (bad to good). If it was good, it is bad
        // after the time t with probability a / (a + b) * (1 - exp(-(a + b) t)). If it was bad, it
        // is good with this probability, but with the first a replaced by b.
        let changed = 1.0 - (-gap_ns * (good_ns + bad_ns) / (good_ns * bad_ns)).exp();
        let leave = [bad_share * changed, (1.0 - bad_share) * changed];
        let (told, found) = (chain.mean_burst(gap_ns), burst_of_chain(leave, lose));
        assert!((told / found - 1.0).abs() < 0.02, "{told} {found}");
    }
}

#[test]
fn a_chain_tells_its_state_where_packets_are_lost_in_one_state_only() {
    let mut gilbert = GilbertElliott::new(p(0.3), p(0.4), Chance::ALWAYS, Chance::NEVER);
    let (mut stream, mut bad) = (Stream::new(7, "state"), gilbert.is_bad());
    for _ in 0..100 {
        assert_eq!(gilbert.lost(&mut stream), bad);
        bad = gilbert.is_bad();
    }
    let mut timed = TimedGilbertElliott::new(30.0, 20.0, Chance::ALWAYS, Chance::NEVER).unwrap();
    let states = Draws::new(7, "state");
    let mut seen = [false; 2];
    for i in 0..100 {
        assert_eq!(timed.lost_at(10 * i, states, i), timed.is_bad());
        seen[usize::from(timed.is_bad())] = true;
    }
    assert_eq!(seen, [true; 2]);
}
