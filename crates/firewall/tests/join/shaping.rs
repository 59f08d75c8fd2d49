//! Tests of pipes and queues in virtual time, with exact results.

use super::*;

#[test]
fn a_pipe_delays_each_frame_by_its_length_and_the_delay_to_the_nanosecond() {
    let mut fixture = Fixture::new(
        "pipe 1 config bw 10Mbit/s delay 20ms queue 100\nadd 100 pipe 1 ip from any to any",
    );
    for _ in 0..3 {
        assert_eq!(fixture.offer(udp(9, 1250), 0), None);
    }
    let left = fixture.pass(SECOND);
    assert_eq!(left, [(21 * MS, 1), (22 * MS, 1), (23 * MS, 1)]);
}

#[test]
fn a_pipe_of_any_rate_gives_that_rate() {
    // Some of the rates are above 2^31 bit/s.
    for (bw, rate) in [
        ("1Gbit/s", 1_000_000_000),
        ("4000Mbit/s", 4_000_000_000_u64),
        ("5000Mbit/s", 5_000_000_000),
        ("30Byte/s", 240),
    ] {
        let mut fixture =
            Fixture::new(&format!("pipe 1 config bw {bw}\nadd 100 pipe 1 ip from any to any"));
        for _ in 0..10 {
            fixture.offer(udp(9, 1000), 0);
        }
        let left = fixture.pass(1000 * SECOND);
        let span = left.last().unwrap().0 - left[0].0;
        assert_eq!(span, 9 * 8000 * SECOND / rate, "{bw}");
    }
}

#[test]
fn a_queue_delivers_under_every_scheduler() {
    for kind in ["fifo", "wf2q+", "rr", "qfq", "prio", "fq_codel", "fq_pie"] {
        let mut fixture = Fixture::new(&format!(
            "pipe 1 config bw 10Mbit/s\nsched 1 config type {kind}\nqueue 1 config sched 1\n\
             add 100 queue 1 ip from any to any"
        ));
        for _ in 0..10 {
            assert_eq!(fixture.offer(udp(9, 1250), 0), None);
        }
        assert_eq!(fixture.pass(SECOND).len(), 10, "{kind}");
        assert_eq!(fixture.now, SECOND);
    }
}

#[test]
fn wf2q_shares_the_link_by_weight() {
    let mut fixture = Fixture::new(
        "pipe 1 config bw 10Mbit/s\nqueue 1 config pipe 1 weight 30\nqueue 2 config pipe 1 weight 10\n\
         add 100 queue 1 udp from any to any 1\nadd 200 queue 2 udp from any to any 2",
    );
    // Enough frames to keep both queues busy for one second of link time.
    let mut shares = [0_u64; 2];
    for _ in 0..1000 {
        for port in [1, 2] {
            fixture.offer(udp(port, 1250), 0);
        }
        fixture.pass(MS);
    }
    for (_, frame) in &fixture.sink.sent {
        shares[usize::from(frame[37] == 2)] += 1;
    }
    let ratio = shares[0] as f64 / shares[1] as f64;
    assert!((ratio - 3.0).abs() < 0.06, "{shares:?}");
}

#[test]
fn with_one_pass_off_a_frame_goes_on_behind_the_rule_that_sent_it_to_the_pipe() {
    let rules = "pipe 1 config delay 5ms\nadd 100 pipe 1 ip from any to any\nadd 200 count ip from any to any\nadd 300 allow ip from any to any";
    let mut fixture = Fixture::new(rules);
    fixture.offer(udp(9, 60), 0);
    assert_eq!(fixture.pass(SECOND), [(5 * MS, 1)]);
    assert_eq!((fixture.count(100), fixture.count(200)), (1, 0));
    fixture.load("disable one_pass");
    fixture.offer(udp(9, 60), 0);
    assert_eq!(fixture.pass(SECOND).len(), 1);
    assert_eq!((fixture.count(100), fixture.count(200), fixture.count(300)), (2, 1, 1));
}

#[test]
fn two_pipes_in_a_row_delay_by_both() {
    let mut fixture = Fixture::new(
        "pipe 1 config delay 5ms\npipe 2 config delay 7ms\ndisable one_pass\n\
         add 100 pipe 1 ip from any to any\nadd 200 pipe 2 ip from any to any\nadd 300 allow ip from any to any",
    );
    fixture.offer(udp(9, 60), 0);
    assert_eq!(fixture.pass(SECOND), [(12 * MS, 1)]);
}

#[test]
fn each_host_behind_a_mask_has_the_rate_to_itself() {
    let mut fixture = Fixture::new(
        "pipe 1 config bw 200Kbit/s queue 100 mask src-ip 0x000000ff\nadd 100 pipe 1 ip from any to any",
    );
    for _ in 0..10 {
        for host in 1..=10 {
            fixture.offer(from_host(host, 9, 1000), 0);
        }
    }
    let left = fixture.pass(10 * SECOND);
    assert_eq!(left.len(), 100);
    assert_eq!(left.last().unwrap().0, 10 * 40 * MS, "ten frames of 40 ms each, all hosts at once");
}

#[test]
fn congestion_is_marked_in_the_frame_that_waits() {
    let mut fixture = Fixture::new(
        "pipe 1 config bw 1Mbit/s queue 100 red 1/1/50/1 ecn\nadd 100 pipe 1 ip from any to any",
    );
    for _ in 0..20 {
        let mut frame = udp(9, 1000);
        frame[15] |= 2;
        let sum = u16::from_be_bytes([frame[24], frame[25]]) - 2;
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        fixture.offer(frame, 0);
    }
    fixture.pass(SECOND);
    assert!(fixture.sink.sent.iter().any(|(_, frame)| frame[15] & 3 == 3));
    assert_eq!(
        fixture.dataplane.counters().shaper.marked,
        fixture.sink.sent.iter().filter(|(_, f)| f[15] & 3 == 3).count() as u64
    );
}
