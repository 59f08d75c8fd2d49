//! Tests of queues, masks and schedulers on a link.

use std::collections::BTreeMap;
use std::format;
use std::string::ToString;
use std::vec::Vec;

use super::*;
use crate::ObjectKind;
use crate::show;

/// Runs until `end_ns`. Returns how many bytes were released, by handle.
fn bytes_of(bench: &mut Bench, end_ns: u64, len: u64) -> BTreeMap<u32, u64> {
    let mut bytes = BTreeMap::new();
    for (handle, _) in bench.run(end_ns) {
        *bytes.entry(handle).or_default() += len;
    }
    bytes
}

/// Keeps the queues 1 to `queues` full for `seconds`. Returns which share of the output each queue
/// got.
fn shares(config: &str, queues: u16, seconds: u64) -> Vec<f64> {
    let mut bench = engine(config);
    let mut bytes = BTreeMap::<u32, u64>::new();
    for step in 0..seconds * 1000 {
        for queue in 1..=queues {
            for _ in 0..4 {
                bench.send(step * MS, ShaperTarget::Queue(queue), queue.into(), 500);
            }
        }
        for (handle, sent) in bytes_of(&mut bench, (step + 1) * MS, 500) {
            *bytes.entry(handle).or_default() += sent;
        }
    }
    let total: u64 = bytes.values().sum();
    bytes.values().map(|&sent| sent as f64 / total as f64).collect()
}

#[test]
fn queues_share_a_pipe_by_weight_within_two_percent() {
    let got = shares(
        "pipe 1 config bw 10Mbit/s
         queue 1 config pipe 1 weight 10 queue 100
         queue 2 config pipe 1 weight 30 queue 100
         queue 3 config pipe 1 weight 60 queue 100",
        3,
        10,
    );
    for (share, expected) in got.iter().zip([0.1, 0.3, 0.6]) {
        assert!((share / expected - 1.0).abs() < 0.02, "{got:?}");
    }
}

#[test]
fn every_multi_queue_scheduler_delivers_at_the_bandwidth() {
    for kind in ["fifo", "wf2q+", "rr", "qfq", "prio", "fq_codel", "fq_pie"] {
        let mut bench = engine(&format!(
            "pipe 1 config bw 10Mbit/s
             sched 1 config queue 100 type {kind}
             queue 1 config sched 1 weight 5 queue 100"
        ));
        let mut sent = 0;
        for step in 0..1000 {
            (0..40).for_each(|n| _ = bench.send(step * MS, ShaperTarget::Queue(1), n, 64));
            sent += bench.run((step + 1) * MS).len();
        }
        // 10 Mbit/s are 19,531 packets of 64 bytes per second.
        assert!((19_520..=19_532).contains(&sent), "{kind}: {sent}");
    }
}

#[test]
fn a_pipe_survives_becoming_a_round_robin_scheduler() {
    let mut bench = engine("pipe 1 config bw 10Mbit/s\nqueue 1 config pipe 1");
    (0..20).for_each(|n| _ = bench.send(0, ShaperTarget::Queue(1), n, 1000));
    bench.command(MS, "sched 1 config type rr");
    (20..30).for_each(|n| _ = bench.send(MS, ShaperTarget::Queue(1), n, 1000));
    let order: Vec<u32> = bench.run(SECOND).iter().map(|&(handle, _)| handle).collect();
    assert_eq!(order, (0..30).collect::<Vec<_>>());
}

#[test]
fn a_masked_pipe_gives_each_host_the_bandwidth() {
    let mut bench = engine("pipe 1 config mask src-ip 0x000000ff bw 200Kbit/s");
    for number in 0..50 {
        for one in 1..=10 {
            bench.send_as(number * MS, ShaperTarget::Pipe(1), &host(one), one, 500);
        }
    }
    // A packet of 500 bytes takes 20 ms, so each host sends its 50 packets within a second.
    let out = bench.run(2 * SECOND);
    for one in 1..=10 {
        let times: Vec<u64> = out.iter().filter(|p| p.0 == one).map(|p| p.1).collect();
        let exact: Vec<u64> = (1..=50).map(|n| n * 20 * MS).collect();
        assert_eq!(times, exact);
    }
    assert_eq!(bench.dummynet.show_pipes(2 * SECOND)[0].flows.len(), 10);
}

#[test]
fn a_masked_queue_shares_one_link_among_its_flows() {
    let mut bench = engine("pipe 1 config bw 8Mbit/s\nqueue 1 config pipe 1 mask src-ip 0xff");
    for n in 0..40 {
        // The first host sends three times as many packets as the second.
        (0..3).for_each(|_| _ = bench.send_as(n, ShaperTarget::Queue(1), &host(1), 1, 1000));
        bench.send_as(n, ShaperTarget::Queue(1), &host(2), 2, 1000);
    }
    let out = bench.run(60 * MS);
    let of_second = out.iter().filter(|p| p.0 == 2).count();
    assert!((29..=31).contains(&of_second), "{of_second} of {}", out.len());
}

#[test]
fn queue_masks_of_schedulers_tell_queues_apart() {
    let mut bench = engine(
        "pipe 1 config bw 8Mbit/s
         sched 1 config mask queue
         queue 1 config sched 1
         queue 2 config sched 1",
    );
    (1..=2).for_each(|n| _ = bench.send(0, ShaperTarget::Queue(n), n.into(), 1000));
    // With this mask, each queue has its own link.
    assert_eq!(bench.run(SECOND), [(1, MS), (2, MS)]);
}

#[test]
fn flow_labels_of_ipv6_tell_flows_apart() {
    let mut bench = engine("pipe 1 config bw 8Mbit/s mask flow-id 0xfffff");
    for (handle, flow_label) in [(1, 0xbaad), (2, 0xf001), (3, 0xbaad)] {
        let key = ShaperFlowKey { is_v6: true, flow_label, ..host(1) };
        bench.send_as(0, ShaperTarget::Pipe(1), &key, handle, 1000);
    }
    assert_eq!(bench.run(SECOND), [(1, MS), (2, MS), (3, 2 * MS)]);
}

#[test]
fn strict_priority_starves_what_is_later() {
    let mut bench = engine(
        "pipe 1 config bw 8Mbit/s
         sched 1 config type prio
         queue 1 config sched 1 pri 1
         queue 2 config sched 1 pri 0 weight 50",
    );
    (0..30).for_each(|_| _ = bench.send(0, ShaperTarget::Queue(1), 1, 1000));
    (0..30).for_each(|_| _ = bench.send(0, ShaperTarget::Queue(2), 2, 1000));
    let order: Vec<u32> = bench.run(SECOND).iter().map(|p| p.0).collect();
    // The first packet was already on the link, so it leaves first.
    assert_eq!(order[0], 1);
    assert!(order[1..31].iter().all(|&handle| handle == 2), "{order:?}");
}

#[test]
fn queues_may_come_before_their_pipe() {
    let mut bench = engine("queue 1 config pipe 7 weight 3");
    assert_eq!(bench.send(0, ShaperTarget::Queue(1), 0, 64), SubmitResult::Refused);
    assert_eq!(bench.drops(ShaperDropCause::NoObject), 1);
    bench.command(0, "pipe 7 config bw 1Mbit/s");
    assert_eq!(bench.send(0, ShaperTarget::Queue(1), 1, 64), SubmitResult::Accepted);
    assert_eq!(bench.run(SECOND).len(), 1);
}

#[test]
fn a_new_queue_without_a_parent_is_refused() {
    let mut dummynet = Dummynet::<u32>::new(1, [1, 2]);
    let Ok(DummynetCommand::Config(config)) = DummynetCommand::parse("queue 4 config weight 3")
    else {
        panic!()
    };
    let refused = dummynet.configure(0, config, &mut |_| {});
    assert_eq!(refused, Err(ShaperConfigError::NoParent(4)));
    assert_eq!(
        dummynet.delete(0, ObjectKind::Pipe, 9..=9, &mut |_| {}).unwrap_err().to_string(),
        "there is no pipe 9"
    );
}

#[test]
fn idle_dynamic_pipes_are_forgotten_with_their_counters() {
    let mut bench = engine("pipe 1 config bw 1Mbit/s burst 10k mask src-ip 0xff");
    (0..5).for_each(|one| _ = bench.send_as(0, ShaperTarget::Pipe(1), &host(one), one, 64));
    bench.run(SECOND);
    assert_eq!(bench.dummynet.show_pipes(9 * SECOND)[0].flows.len(), 5);
    assert_eq!(bench.dummynet.show_pipes(11 * SECOND)[0].flows.len(), 0);
}

#[test]
fn a_flood_of_new_flows_ends_at_the_cap_and_is_counted() {
    let mut bench = engine(
        "pipe 1 config bw 1Gbit/s
         queue 1 config pipe 1 mask src-ip 0xffffffff
         pipe 2 config bw 1Gbit/s mask src-ip 0xffffffff",
    );
    bench.dummynet.settings_mut().max_dynamic = 100;
    for object in [ShaperTarget::Queue(1), ShaperTarget::Pipe(2)] {
        let before = bench.drops(ShaperDropCause::NoRoom);
        (0..300).for_each(|one| _ = bench.send_as(0, object, &host(one), one, 64));
        assert_eq!(bench.drops(ShaperDropCause::NoRoom) - before, 200, "{object:?}");
    }
    bench.run(SECOND);
    // Once the old queues are idle, there is space for new ones.
    (0..300).for_each(|one| {
        _ = bench.send_as(20 * SECOND, ShaperTarget::Queue(1), &host(one), one, 64)
    });
    assert!(bench.drops(ShaperDropCause::NoRoom) < 700);
}

#[test]
fn rows_of_several_queues_are_each_their_own() {
    let mut bench = engine(
        "pipe 1 config bw 1Mbit/s
         queue 1 config pipe 1 mask src-ip 0xff
         queue 2 config pipe 1 mask src-ip 0xff",
    );
    for one in 1..=3 {
        bench.send_as(0, ShaperTarget::Queue(1), &host(one), 0, 64);
        bench.send_as(0, ShaperTarget::Queue(2), &host(one + 10), 0, 64);
    }
    let text = show::queues(&bench.dummynet.show_queues(0), |_| Some("ip"));
    for one in [1, 2, 3, 11, 12, 13] {
        assert_eq!(text.matches(&format!(" 0.0.0.{one}/0 ")).count(), 1, "{text}");
    }
}

#[test]
fn each_scheduler_counts_its_own() {
    let mut bench = engine(
        "pipe 1 config bw 8Mbit/s delay 10ms queue 3
         queue 1 config pipe 1 queue 5",
    );
    (0..10).for_each(|n| _ = bench.send(0, ShaperTarget::Pipe(1), n, 1000));
    (0..10).for_each(|n| _ = bench.send(0, ShaperTarget::Queue(1), n, 1000));
    bench.dummynet.release(2 * MS, &mut |_| {});
    let of = |kind| {
        let ShaperCounters { received, released, drops, queued, delayed, .. } =
            bench.dummynet.counters_of(kind, 1).unwrap();
        [received, released, drops.of(ShaperDropCause::Full), queued, delayed]
    };
    assert_eq!(of(ObjectKind::Pipe), [10, 0, 6, 1, 3]);
    assert_eq!(of(ObjectKind::Sched), [10, 0, 4, 3, 3]);
    bench.run(SECOND);
    assert_eq!(bench.dummynet.counters_of(ObjectKind::Pipe, 1).unwrap().released, 4);
    // A packet in the delay of a deleted pipe belongs to no object any longer, but is still
    // released.
    bench.send(SECOND, ShaperTarget::Pipe(1), 0, 1000);
    bench.command(SECOND, "pipe 1 delete\npipe 1 config bw 8Mbit/s");
    assert_eq!(bench.run(2 * SECOND).len(), 1);
    assert_eq!(bench.dummynet.counters_of(ObjectKind::Pipe, 1), Some(ShaperCounters::default()));
}
