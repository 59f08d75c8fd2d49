//! Tests of bandwidth, delay, burst and queue sizes.

use std::vec::Vec;

use super::*;

const PIPE: ShaperTarget = ShaperTarget::Pipe(1);

#[test]
fn a_lone_packet_takes_its_own_time_and_the_delay() {
    let mut bench = engine("pipe 1 config bw 10Mbit/s delay 20ms");
    bench.send(5 * MS, PIPE, 7, 1250);
    assert_eq!(bench.dummynet.next_release(), Some(26 * MS));
    assert_eq!(bench.run(SECOND), [(7, 26 * MS)]);
}

#[test]
fn a_thousand_small_packets_at_10_mbit_end_to_the_nanosecond() {
    let mut bench = engine("pipe 1 config bw 10Mbit/s queue 1000KBytes");
    (0..1000).for_each(|n| _ = bench.send(0, PIPE, n, 64));
    let out = bench.run(SECOND);
    assert_eq!(out.len(), 1000);
    // A packet leaves every 51.2 us. The first leaves 51.2 us after it was sent.
    assert!(out.iter().all(|&(n, at_ns)| at_ns == u64::from(n + 1) * 51_200));
}

#[test]
fn bandwidth_is_exact_where_a_packet_takes_no_whole_nanoseconds() {
    let mut bench = engine("pipe 1 config bw 3Gbit/s queue 1000KBytes");
    (0..9000).for_each(|n| _ = bench.send(0, PIPE, n, 64));
    let out = bench.run(SECOND);
    let exact = |n: u32| (u64::from(n + 1) * 64 * 8).div_ceil(3);
    assert!(out.iter().all(|&(n, at_ns)| at_ns == exact(n)));
}

#[test]
fn rates_beyond_31_bits_hold_as_said() {
    for (text, bits_per_sec) in [
        ("1Gbit/s", 1e9),
        ("4000Mbit/s", 4e9),
        ("5000Mbit/s", 5e9),
        ("100Gbit/s", 1e11),
        ("2.5Gbit/s", 2.5e9),
        ("30Byte/s", 240.0),
    ] {
        let mut bench = engine(&std::format!("pipe 1 config bw {text} queue 1000KBytes"));
        (0..500).for_each(|n| _ = bench.send(0, PIPE, n, 1500));
        let out = bench.run(u64::MAX / 2);
        let exact_ns = 500.0 * 1500.0 * 8e9 / bits_per_sec;
        let (_, last_ns) = out[499];
        assert!((last_ns as f64 - exact_ns).abs() <= 1.0, "{text}: {last_ns}, not {exact_ns}");
    }
}

#[test]
fn without_bandwidth_only_the_delay_counts() {
    let mut bench = engine("pipe 1 config delay 250ms");
    (0..3).for_each(|n| _ = bench.send(u64::from(n), PIPE, n, 1500));
    assert_eq!(bench.run(SECOND), [(0, 250 * MS), (1, 250 * MS + 1), (2, 250 * MS + 2)]);
}

#[test]
fn release_at_a_gigabit_has_no_bursts() {
    let mut bench = engine("pipe 1 config bw 1Gbit/s delay 1ms queue 100");
    // 20 million packets per second are offered for 2 ms.
    (0..40_000).for_each(|n| _ = bench.send(u64::from(n) * 50, PIPE, n, 64));
    let out = bench.run(SECOND);
    let bursts = out.chunk_by(|a, b| a.1 == b.1).map(<[_]>::len);
    assert_eq!(bursts.max(), Some(1));
    let (first_ns, last_ns) = (out[0].1, out[out.len() - 1].1);
    let rate = (out.len() - 1) as f64 / (last_ns - first_ns) as f64 * 1e9;
    assert!((rate / 1_953_125.0 - 1.0).abs() < 0.005, "{rate} packets/s");
}

#[test]
fn slots_and_bytes_limit_what_waits_but_not_what_is_on_the_link() {
    // The first packet is put on the link immediately, so it does not count as waiting.
    let mut bench = engine("pipe 1 config bw 10Mbit/s queue 10");
    (0..20).for_each(|n| _ = bench.send(0, PIPE, n, 1250));
    assert_eq!(bench.drops(ShaperDropCause::Full), 9);
    assert_eq!(bench.run(SECOND).len(), 11);
    // A queue that is limited in bytes is full when it has more bytes than its limit. So the last
    // packet that is accepted may exceed the limit.
    let mut bench = engine("pipe 1 config bw 10Mbit/s queue 5000Bytes");
    (0..20).for_each(|n| _ = bench.send(0, PIPE, n, 1250));
    assert_eq!(bench.run(SECOND).len(), 1 + 5);
}

#[test]
fn one_ping_passes_a_slow_pipe_and_after_five_large_ones_the_next_is_lost() {
    for (text, is_v6) in [("bw 30Byte/s", false), ("bw 100Byte/s", true)] {
        let mut bench = engine(&std::format!("pipe 1 config {text} queue 5"));
        let key = ShaperFlowKey { is_v6, proto: 58, ..host(1) };
        assert_eq!(bench.send_as(0, PIPE, &key, 0, 84), SubmitResult::Accepted);
        assert_eq!(bench.run(4 * SECOND).len(), 1);
        let now_ns = 5 * SECOND;
        (1..=5).for_each(|n| _ = bench.send_as(now_ns, PIPE, &key, n, 1200));
        bench.send_as(now_ns, PIPE, &key, 6, 1200);
        assert_eq!(bench.send_as(now_ns, PIPE, &key, 7, 84), SubmitResult::Refused);
    }
}

#[test]
fn a_round_trip_is_two_delays_and_two_serialisations() {
    let mut bench =
        engine("pipe 1 config delay 250ms bw 1Mbit/s\npipe 2 config delay 250ms bw 1Mbit/s");
    bench.send(0, ShaperTarget::Pipe(1), 0, 84);
    let (_, there_ns) = bench.run(250 * MS + 672_000)[0];
    bench.send(there_ns, ShaperTarget::Pipe(2), 0, 84);
    let (_, back_ns) = bench.run(2 * SECOND)[0];
    assert_eq!(back_ns, 2 * (250 * MS + 84 * 8 * 1000));
}

#[test]
fn an_idle_pipe_sends_its_burst_at_once_and_the_rest_at_its_bandwidth() {
    let mut bench = engine("pipe 1 config bw 8Mbit/s burst 10000 queue 100");
    (0..20).for_each(|n| _ = bench.send(SECOND, PIPE, n, 1000));
    let out = bench.run(2 * SECOND);
    let times: Vec<u64> = out.iter().map(|&(_, at_ns)| at_ns - SECOND).collect();
    assert!(times[..10].iter().all(|&ns| ns == 0), "{times:?}");
    assert!(times[10..].iter().zip(1..).all(|(&ns, n)| ns == n * MS), "{times:?}");
}

#[test]
fn burst_credit_is_the_bandwidth_times_the_idle_time() {
    let mut bench = engine("pipe 1 config bw 8Mbit/s burst 10000 queue 100");
    (0..20).for_each(|n| _ = bench.send(SECOND, PIPE, n, 1000));
    let (_, end_ns) = bench.run(SECOND + 10 * MS)[19];
    // The link was idle for 3 ms, so 3000 bytes leave at once: min(10000, bandwidth × idle time).
    // With the maximum of the two, as the manual says, 10000 bytes would leave.
    let now_ns = end_ns + 3 * MS;
    (0..5).for_each(|n| _ = bench.send(now_ns, PIPE, n, 1000));
    let times: Vec<u64> = bench.run(3 * SECOND).iter().map(|&(_, at_ns)| at_ns - now_ns).collect();
    assert_eq!(times, [0, 0, 0, MS, 2 * MS]);
}

#[test]
fn packets_on_a_pipe_without_an_object_are_lost_and_counted() {
    let mut bench = engine("");
    assert_eq!(bench.send(0, PIPE, 0, 64), SubmitResult::Refused);
    assert_eq!(bench.drops(ShaperDropCause::NoObject), 1);
    bench.check();
}

#[test]
fn noerror_reports_drops_as_successes() {
    let mut bench = engine("pipe 1 config bw 1Mbit/s plr 1 noerror");
    assert_eq!(bench.send(0, PIPE, 0, 64), SubmitResult::Accepted);
    assert_eq!(bench.drops(ShaperDropCause::Loss), 1);
}

#[test]
fn one_pass_decides_whether_packets_go_on_behind_their_rule() {
    let mut bench = engine("pipe 1 config delay 1ms");
    bench.send(0, PIPE, 0, 64);
    bench.dummynet.release(MS, &mut |event| bench.events.push(event));
    bench.dummynet.settings_mut().one_pass = false;
    bench.send(MS, PIPE, 1, 64);
    bench.dummynet.release(2 * MS, &mut |event| bench.events.push(event));
    let nexts: Vec<ReleaseAction> = bench
        .events
        .iter()
        .filter_map(|event| match event {
            ShaperEvent::Released { next, .. } => Some(*next),
            _ => None,
        })
        .collect();
    assert_eq!(nexts, [ReleaseAction::Accept, ReleaseAction::After(100)]);
}

#[test]
fn polling_seldom_changes_no_time() {
    let run = |step_ns: u64| {
        let mut bench = engine("pipe 1 config bw 10Mbit/s delay 3ms queue 20 plr 0.1");
        let mut now_ns = 0;
        for n in 0..500 {
            now_ns += 937_000 * u64::from(n % 3);
            bench.send(now_ns, PIPE, n, 900 + n);
            if step_ns > 0 {
                let end_ns = now_ns.next_multiple_of(step_ns);
                bench.dummynet.release(end_ns.max(now_ns), &mut |event| bench.events.push(event));
                now_ns = end_ns.max(now_ns);
            }
        }
        bench.run(now_ns + SECOND);
        bench.dummynet.counters()
    };
    assert_eq!(run(1), run(0));
}
