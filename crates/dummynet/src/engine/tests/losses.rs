//! Tests of random losses, RED, CoDel, PIE, marks and profiles.

use std::format;
use std::string::ToString;
use std::vec::Vec;

use slipring_model::Stream;
use slipring_model::format::DummynetProfile;

use super::*;
use crate::spec::{PipeLinkSpec, PipeProfile, PipeSpec};

const PIPE: ShaperTarget = ShaperTarget::Pipe(1);

#[test]
fn plr_loses_its_share() {
    let mut bench = engine("pipe 1 config plr 0.05");
    (0..100_000).for_each(|n| _ = bench.send(n.into(), PIPE, n, 64));
    let lost = bench.drops(ShaperDropCause::Loss) as f64 / 100_000.0;
    assert!((lost - 0.05).abs() < 0.005, "{lost}");
    bench.run(SECOND);
}

#[test]
fn gilbert_elliott_loses_in_bursts() {
    // Packets are lost only in the bad state. It lasts for ten packets on average, and a tenth of
    // all packets arrive in this state.
    let mut bench = engine("pipe 1 config plr 0,0.0111,1,0.1");
    let fates: Vec<bool> =
        (0..200_000).map(|n| bench.send(n.into(), PIPE, n, 64) == SubmitResult::Refused).collect();
    let lost = fates.iter().filter(|&&lost| lost).count() as f64;
    let bursts = fates.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
    assert!((lost / 200_000.0 - 0.1).abs() < 0.01, "{lost}");
    assert!((lost / bursts - 10.0).abs() < 1.0, "{}", lost / bursts);
}

#[test]
fn profiles_add_time_on_the_link_and_lose_packets_after_it() {
    let text = "name x\nsamples 10\nloss-level 0.86\nprob delay\n0 100\n1 100\n";
    let mut link =
        PipeLinkSpec { bits_per_sec: 1_000_000, delay_ns: 3 * MS, ..PipeLinkSpec::default() };
    link.profile = Some(PipeProfile::new(&DummynetProfile::parse(text).unwrap()));
    assert_eq!(link.profile.as_ref().unwrap().first_lost, 8, "0.86 of 10 is cut to 8");
    let mut bench = engine("");
    let spec = PipeSpec { link, ..PipeSpec::default() };
    bench.dummynet.configure(0, ShaperConfig::Pipe(1, spec), &mut |_| {}).unwrap();
    let (mut now_ns, mut lost) = (0, 0);
    for n in 0..5000 {
        bench.send(now_ns, PIPE, n, 125);
        // The packet takes 1 ms on the link, 100 ms more because of the profile, and then 3 ms of
        // delay.
        let end_ns = now_ns + 104 * MS;
        bench.dummynet.release(end_ns - 1, &mut |_| panic!("nothing happens before"));
        let mut event = None;
        bench.dummynet.release(end_ns, &mut |one| event = Some(one));
        match event {
            Some(ShaperEvent::Released { at_ns, .. }) => assert_eq!(at_ns, end_ns),
            Some(ShaperEvent::Dropped { at_ns, cause: ShaperDropCause::Profile, .. }) => {
                assert_eq!(at_ns, end_ns);
                lost += 1;
            }
            other => panic!("{other:?}"),
        }
        now_ns = end_ns;
    }
    assert!((900..1100).contains(&lost), "{lost} of 5000: a fifth");
    bench.check();
}

#[test]
fn profile_times_count_against_the_bandwidth() {
    let text = "samples 100\nprob delay\n0 10\n1 10\n";
    let link = PipeLinkSpec {
        bits_per_sec: 1_000_000,
        profile: Some(PipeProfile::new(&DummynetProfile::parse(text).unwrap())),
        ..PipeLinkSpec::default()
    };
    let mut bench = engine("");
    let spec = PipeSpec { link, ..PipeSpec::default() };
    bench.dummynet.configure(0, ShaperConfig::Pipe(1, spec), &mut |_| {}).unwrap();
    (0..3).for_each(|n| _ = bench.send(0, PIPE, n, 125));
    assert_eq!(bench.run(SECOND), [(0, 11 * MS), (1, 22 * MS), (2, 33 * MS)]);
}

/// RED as in its paper, with dummynet's parameters. It is the reference for the next test.
struct NaiveRed {
    average: f64,
    count: f64,
}

impl NaiveRed {
    fn hits(&mut self, length: f64, [weight, min, max, max_p]: [f64; 4], draw: f64) -> bool {
        self.average = (1.0 - weight) * self.average + weight * length;
        if self.average < min {
            self.count = 0.0;
            return false;
        }
        let base = max_p * (self.average - min) / (max - min);
        let p = if self.average >= max { 1.0 } else { base / (1.0 - self.count * base).max(1e-9) };
        let hit = draw < p;
        self.count = if hit { 0.0 } else { self.count + 1.0 };
        hit
    }
}

#[test]
fn red_hits_as_often_as_a_naive_model_does() {
    // More packets arrive than can leave, so the queue grows until RED limits it.
    let run = |seed: u64| {
        let mut bench = engine("pipe 1 config bw 8Mbit/s queue 100 red 0.05/10/40/0.1");
        bench.dummynet.seed = seed;
        bench.command(0, "pipe 1 delete\npipe 1 config bw 8Mbit/s queue 100 red 0.05/10/40/0.1");
        let mut naive = NaiveRed { average: 0.0, count: 0.0 };
        let mut stream = Stream::new(seed, "naive");
        let (mut real, mut expected) = (0u32, 0u32);
        for n in 0..40_000u32 {
            let now_ns = u64::from(n) * 970_000;
            bench.dummynet.release(now_ns, &mut |_| {});
            let length = bench.dummynet.counters().queued;
            let scale = |p: f64| libm::floor(p * 65536.0) / 65536.0;
            let params = [scale(0.05), 10.0, 40.0, scale(0.1)];
            // While no packet waits, the averages of the engine and of the reference decrease by
            // different rules. This does not matter, because RED drops nothing during that time.
            expected += u32::from(naive.hits(length as f64, params, stream.next_f64()));
            real += u32::from(bench.send(now_ns, PIPE, n, 1000) == SubmitResult::Refused);
        }
        (f64::from(real), f64::from(expected))
    };
    let (real, expected) = run(3);
    assert!(real > 500.0, "{real}");
    assert!((real / expected - 1.0).abs() < 0.1, "{real}, naive {expected}");
}

#[test]
fn red_with_ecn_marks_all_above_min_and_drops_what_cannot_be_marked() {
    let mut bench = engine("pipe 1 config bw 1Mbit/s queue 100 red 1/5/10/0.1 ecn");
    for n in 0..40 {
        let ecn = if n % 2 == 0 { Ecn::Ect0 } else { Ecn::NotEct };
        bench.send_ecn(0, PIPE, &ShaperFlowKey::default(), n, 1000, ecn);
    }
    let counters = bench.dummynet.counters();
    // Once the average is above 5, packets with even numbers, which support ECN, are marked. All
    // others are dropped.
    assert_eq!(counters.drops.of(ShaperDropCause::Aqm), counters.marked + 1);
    assert!((15..18).contains(&counters.marked), "{counters:?}");
    bench.run(SECOND);
}

/// Returns how many packets RED drops. If `idle_ns` is 0, counts all drops. Otherwise counts only
/// the drops of the four packets that arrive `idle_ns` after the first second. The queue is empty
/// for most of this second. `sizes` contains sysctls for packet sizes, and `queue` the queue's
/// parameters.
fn red_losses(sizes: &str, queue: &str, len: u32, idle_ns: u64) -> u64 {
    let mut bench = engine("");
    for sysctl in sizes.split_whitespace() {
        let (name, value) = sysctl.split_once('=').unwrap();
        bench.dummynet.sysctl(name, value.parse().ok()).unwrap();
    }
    bench.command(0, &format!("pipe 1 config bw 8Mbit/s {queue}"));
    // Fills the queue, and after a pause sends more packets of the same length.
    (0..60).for_each(|n| _ = bench.send(0, PIPE, n, len));
    bench.run(SECOND);
    let before = bench.drops(ShaperDropCause::Aqm);
    for n in 0..4 {
        bench.send(SECOND + idle_ns, PIPE, n, len);
    }
    bench.run(10 * SECOND);
    bench.drops(ShaperDropCause::Aqm) - if idle_ns > 0 { before } else { 0 }
}

#[test]
fn red_avg_pkt_size_says_how_fast_the_average_of_an_idle_queue_decays() {
    // With a weight of 0.05, an average of up to 40 falls below 10 in less than 30 packet times.
    // For packets of 512 bytes, this is far less than a second. For packets of 100 MB, a single
    // packet time is longer than a second.
    let queue = "queue 100 red 0.05/10/15/1";
    let usual = red_losses("", queue, 1000, MS);
    let slow = red_losses("red_avg_pkt_size=100000000", queue, 1000, MS);
    assert_eq!((usual, slow), (0, 4));
}

#[test]
fn red_max_pkt_size_says_which_packets_of_a_queue_in_bytes_are_hit_in_full() {
    // Each pipe gets three packets. The link sends the first, and the third finds the second in the
    // queue. The length of the second is the average, for which the thresholds give a probability
    // above 0.99. A packet of the maximum length is dropped with this probability, and others in
    // proportion to their lengths.
    let losses = |max_len: u32, len: u32| {
        let mut bench = engine("");
        bench.dummynet.sysctl("red_max_pkt_size", Some(max_len)).unwrap();
        for pipe in 1..=1000 {
            let max = len + 2;
            bench
                .command(0, &format!("pipe {pipe} config bw 1bit/s queue 9KBytes red 1/1/{max}/1"));
            (0..3).for_each(|n| _ = bench.send(0, ShaperTarget::Pipe(pipe), n, len));
        }
        bench.drops(ShaperDropCause::Aqm)
    };
    let (full, half, tenth) = (losses(1500, 1500), losses(1500, 750), losses(15_000, 1500));
    // For the second number, the standard deviation is 16, for the third 9.
    assert!(
        full > 990 && (440..560).contains(&half) && (65..135).contains(&tenth),
        "{full} {half} {tenth}"
    );
}

#[test]
fn sysctls_that_can_mean_nothing_here_are_refused_by_name() {
    let mut bench = engine("");
    for (name, usual, why) in
        [("io_fast", 0, "no ticks"), ("red_lookup_depth", 256, "needs no table")]
    {
        let refused = bench.dummynet.sysctl(name, Some(1)).unwrap_err().to_string();
        assert!(refused.contains(name) && refused.contains(why), "{refused}");
        assert!(bench.dummynet.sysctl(name, Some(usual)).is_ok(), "{name} has that value");
    }
}

#[test]
fn gred_lets_some_through_between_max_and_twice_max() {
    let mut hard = engine("pipe 1 config bw 1bit/s queue 100 red 1/5/10/0.1");
    let mut gentle = engine("pipe 1 config bw 1bit/s queue 100 gred 1/5/10/0.1");
    for n in 0..2000 {
        hard.send(0, PIPE, n, 64);
        gentle.send(0, PIPE, n, 64);
    }
    assert!(hard.dummynet.counters().queued <= 11);
    let queued = gentle.dummynet.counters().queued;
    assert!((18..=21).contains(&queued), "{queued}");
}

#[test]
fn codel_holds_the_delay_near_its_target_where_droptail_fills_up() {
    let delay_ms = |aqm: &str| {
        let mut bench = engine(&format!("pipe 1 config bw 8Mbit/s queue 100 {aqm}"));
        let mut sum_ns = 0;
        let mut out = 0;
        for n in 0..20_000u32 {
            let now_ns = u64::from(n) * 980_000;
            bench.send(now_ns, PIPE, n, 1000);
            if n >= 15_000 {
                for (handle, at_ns) in bench.run(now_ns) {
                    sum_ns += at_ns - u64::from(handle) * 980_000;
                    out += 1;
                }
            } else {
                bench.run(now_ns);
            }
        }
        sum_ns as f64 / f64::from(out) / 1e6
    };
    let droptail = delay_ms("");
    assert!(droptail > 95.0, "{droptail} ms");
    let codel = delay_ms("codel target 5ms interval 100ms");
    assert!(codel < 30.0, "{codel} ms");
    let pie = delay_ms("pie target 5ms");
    assert!(pie < 30.0, "{pie} ms");
}

#[test]
fn codel_marks_instead_of_dropping_if_both_sides_can() {
    for (aqm, marks, drops) in [("codel ecn", true, false), ("codel", false, true)] {
        let mut bench = engine(&format!("pipe 1 config bw 8Mbit/s queue 100 {aqm}"));
        for n in 0..3000u32 {
            let now_ns = u64::from(n) * 990_000;
            bench.send_ecn(now_ns, PIPE, &host(1), n, 1000, Ecn::Ect0);
            bench.run(now_ns);
        }
        let counters = bench.dummynet.counters();
        assert_eq!(counters.marked > 0, marks, "{aqm}: {counters:?}");
        assert_eq!(counters.drops.of(ShaperDropCause::Aqm) > 0, drops, "{aqm}: {counters:?}");
    }
}

#[test]
fn fq_codel_protects_a_thin_flow_from_a_thick_one() {
    for kind in ["fq_codel", "fq_pie"] {
        let mut bench = engine(&format!(
            "pipe 1 config bw 8Mbit/s
             sched 1 config type {kind} limit 500
             queue 1 config sched 1"
        ));
        let mut worst_ns = 0;
        for n in 0..5000u32 {
            let now_ns = u64::from(n) * MS;
            (0..2).for_each(|_| {
                _ = bench.send_as(now_ns, ShaperTarget::Queue(1), &host(1), u32::MAX, 1000)
            });
            if n % 20 == 0 {
                bench.send_as(now_ns, ShaperTarget::Queue(1), &host(2), n, 100);
            }
            for (handle, at_ns) in bench.run(now_ns + MS) {
                if handle != u32::MAX {
                    worst_ns = worst_ns.max(at_ns - u64::from(handle) * MS);
                }
            }
        }
        assert!(worst_ns < 5 * MS, "{kind}: {worst_ns} ns");
        assert!(bench.dummynet.counters().drops.total() > 1000, "{kind}");
    }
}

#[test]
fn fq_codel_never_holds_more_than_its_limit() {
    let mut bench = engine(
        "pipe 1 config bw 1Mbit/s
         sched 1 config type fq_codel limit 50
         queue 1 config sched 1",
    );
    for n in 0..500 {
        bench.send_as(0, ShaperTarget::Queue(1), &host(n % 7), n, 1000);
        assert!(bench.dummynet.counters().queued <= 50);
        bench.check();
    }
    assert_eq!(bench.drops(ShaperDropCause::Full), 449);
}
