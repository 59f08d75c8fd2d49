//! Tests of changes to objects while packets are in them.

use std::vec::Vec;

use super::*;
use crate::spec::SchedKind;

const PIPE: ShaperTarget = ShaperTarget::Pipe(1);

fn handles(out: &[(u32, u64)]) -> Vec<u32> {
    out.iter().map(|&(handle, _)| handle).collect()
}

#[test]
fn a_new_bandwidth_holds_from_the_next_packet() {
    let mut bench = engine("pipe 1 config bw 8Mbit/s");
    (0..4).for_each(|n| _ = bench.send(0, PIPE, n, 1000));
    bench.command(MS / 2, "pipe 1 config bw 80Mbit/s");
    let exact = [(0, MS), (1, MS + 100_000), (2, MS + 200_000), (3, MS + 300_000)];
    assert_eq!(bench.run(SECOND), exact);
}

#[test]
fn a_pipe_that_gets_a_limit_or_loses_it_keeps_all_packets() {
    let mut bench = engine("pipe 1 config bw 8Kbit/s");
    (0..4).for_each(|n| _ = bench.send(0, PIPE, n, 1000));
    bench.command(MS, "pipe 1 config");
    (4..6).for_each(|n| _ = bench.send(MS, PIPE, n, 1000));
    bench.command(2 * MS, "pipe 1 config bw 8Mbit/s");
    (6..8).for_each(|n| _ = bench.send(2 * MS, PIPE, n, 1000));
    let out = bench.run(10 * SECOND);
    // The first packet is on the slow link for a second. No later packet overtakes it.
    assert_eq!(handles(&out), (0..8).collect::<Vec<_>>());
    assert!(out.iter().all(|&(_, at_ns)| at_ns == SECOND), "{out:?}");
}

#[test]
fn packets_do_not_overtake_when_the_delay_shrinks() {
    let mut bench = engine("pipe 1 config delay 100ms");
    bench.send(0, PIPE, 0, 64);
    bench.command(MS, "pipe 1 config delay 1ms");
    bench.send(MS, PIPE, 1, 64);
    bench.send(200 * MS, PIPE, 2, 64);
    assert_eq!(bench.run(SECOND), [(0, 100 * MS), (1, 100 * MS), (2, 201 * MS)]);
}

#[test]
fn another_scheduler_first_sends_what_waits() {
    for (from, to) in [("wf2q+", "prio"), ("prio", "qfq"), ("rr", "fq_codel"), ("fq_pie", "fifo")] {
        let mut bench = engine(&std::format!(
            "pipe 1 config bw 8Mbit/s
             sched 1 config type {from}
             queue 1 config sched 1 pri 1
             queue 2 config sched 1 pri 2"
        ));
        (0..20).for_each(|n| _ = bench.send(0, ShaperTarget::Queue(1 + (n % 2) as u16), n, 1000));
        bench.command(0, &std::format!("sched 1 config type {to}"));
        (20..30).for_each(|n| _ = bench.send(0, ShaperTarget::Queue(1), n, 1000));
        let out = handles(&bench.run(SECOND));
        assert_eq!(out.len(), 30, "{from} to {to}");
        assert!(out[..20].iter().all(|&handle| handle < 20), "{from} to {to}: {out:?}");
    }
}

#[test]
fn another_mask_lets_old_pipes_drain_beside_the_new_ones() {
    let mut bench = engine("pipe 1 config bw 8Mbit/s mask src-ip 0xff");
    for one in 0..2 {
        (0..3).for_each(|_| _ = bench.send_as(0, PIPE, &host(one), one, 1000));
    }
    bench.command(0, "pipe 1 config bw 8Mbit/s");
    bench.send_as(0, PIPE, &host(0), 9, 1000);
    let out = bench.run(SECOND);
    let of = |handle| out.iter().filter(|p| p.0 == handle).map(|p| p.1).collect::<Vec<_>>();
    assert_eq!(of(0), [MS, 2 * MS, 3 * MS]);
    assert_eq!(of(1), [MS, 2 * MS, 3 * MS]);
    assert_eq!(of(9), [MS]);
    assert_eq!(bench.dummynet.show_pipes(SECOND)[0].sched.active, 1);
}

#[test]
fn a_queue_that_moves_leaves_its_packets_to_the_old_parent() {
    let mut bench = engine(
        "pipe 1 config bw 8Mbit/s
         pipe 2 config bw 8Mbit/s
         queue 1 config pipe 1",
    );
    (0..3).for_each(|n| _ = bench.send(0, ShaperTarget::Queue(1), n, 1000));
    bench.command(0, "queue 1 config pipe 2");
    bench.send(0, ShaperTarget::Queue(1), 3, 1000);
    assert_eq!(bench.run(SECOND), [(0, MS), (3, MS), (1, 2 * MS), (2, 3 * MS)]);
}

#[test]
fn a_new_weight_holds_for_flows_that_are() {
    let mut bench = engine(
        "pipe 1 config bw 8Mbit/s
         queue 1 config pipe 1 weight 1 queue 100
         queue 2 config pipe 1 weight 1 queue 100",
    );
    (0..100).for_each(|_| _ = bench.send(0, ShaperTarget::Queue(1), 1, 1000));
    (0..100).for_each(|_| _ = bench.send(0, ShaperTarget::Queue(2), 2, 1000));
    let first = bench.run(40 * MS).iter().filter(|p| p.0 == 1).count();
    assert!((19..=21).contains(&first), "{first}");
    bench.command(40 * MS, "queue 1 config weight 9 queue 100");
    let first = bench.run(80 * MS).iter().filter(|p| p.0 == 1).count();
    assert!((35..=37).contains(&first), "{first}");
    // The command does not name the queue's parent, so the queue keeps its parent.
    assert_eq!(bench.dummynet.show_queues(80 * MS)[0].flowset.sched, 1);
}

#[test]
fn a_smaller_queue_holds_for_what_comes() {
    let mut bench = engine("pipe 1 config bw 8Mbit/s queue 50");
    (0..50).for_each(|n| _ = bench.send(0, PIPE, n, 1000));
    bench.command(0, "pipe 1 config bw 8Mbit/s queue 10");
    assert_eq!(bench.send(0, PIPE, 50, 1000), SubmitResult::Refused);
    assert_eq!(bench.run(SECOND).len(), 50);
}

#[test]
fn aqm_may_be_chosen_changed_and_dropped_while_packets_wait() {
    let mut bench = engine("pipe 1 config bw 8Mbit/s queue 100");
    for (n, aqm) in ["red 0.5/3/9/0.3", "codel", "codel target 1ms", "pie", "gred 1/1/2/1", ""]
        .iter()
        .enumerate()
    {
        let now_ns = n as u64 * 20 * MS;
        bench.command(now_ns, &std::format!("pipe 1 config bw 8Mbit/s queue 100 {aqm}"));
        (0..30).for_each(|n| _ = bench.send(now_ns, PIPE, n, 1000));
        bench.run(now_ns + 20 * MS);
    }
    bench.run(10 * SECOND);
    assert_eq!(bench.dummynet.counters().queued, 0);
}

#[test]
fn deleting_drops_what_waits_and_delivers_what_left() {
    let mut bench = engine("pipe 1 config bw 8Mbit/s delay 50ms");
    (0..10).for_each(|n| _ = bench.send(0, PIPE, n, 1000));
    // Three packets have left the link, and the fourth is on it.
    bench.command(3 * MS + 1, "pipe 1 delete");
    assert_eq!(bench.drops(ShaperDropCause::Deleted), 6);
    assert_eq!(bench.send(4 * MS, PIPE, 10, 1000), SubmitResult::Refused);
    assert_eq!(handles(&bench.run(SECOND)), [0, 1, 2, 3]);
}

#[test]
fn deleting_a_queue_leaves_the_others_alone() {
    let mut bench = engine(
        "pipe 1 config bw 8Mbit/s
         queue 1 config pipe 1
         queue 2 config pipe 1
         queue 3 config pipe 1",
    );
    (0..30).for_each(|n| _ = bench.send(0, ShaperTarget::Queue(1 + (n % 3) as u16), n, 1000));
    bench.command(0, "queue delete 2");
    assert_eq!(bench.drops(ShaperDropCause::Deleted), 10);
    assert_eq!(bench.run(SECOND).len(), 20);
}

#[test]
fn flush_leaves_nothing() {
    let mut bench = engine(
        "pipe 1 config bw 8Mbit/s mask all
         sched 1 config type qfq
         queue 1 config pipe 1 mask all",
    );
    (0..30).for_each(|n| _ = bench.send_as(0, ShaperTarget::Queue(1), &host(n % 4), n, 1000));
    (0..30).for_each(|n| _ = bench.send_as(0, PIPE, &host(n % 4), n, 1000));
    bench.command(0, "pipe flush");
    bench.run(SECOND);
    assert_eq!(bench.dummynet.counters().queued, 0);
    assert!(bench.dummynet.show_pipes(SECOND).is_empty());
    assert!(bench.dummynet.show_queues(SECOND).is_empty());
    assert!(bench.dummynet.show_scheds(SECOND).is_empty());
    bench.command(SECOND, "pipe 1 config delay 1ms");
    bench.send(SECOND, PIPE, 0, 64);
    assert_eq!(bench.run(2 * SECOND), [(0, SECOND + MS)]);
}

#[test]
fn a_scheduler_is_kept_when_its_pipe_is_configured_again() {
    let mut bench = engine("pipe 1 config bw 8Mbit/s\nsched 1 config type prio");
    bench.command(0, "pipe 1 config bw 16Mbit/s");
    let shown = &bench.dummynet.show_scheds(0)[0];
    assert_eq!((shown.sched.kind.name(), shown.link.bits_per_sec), ("PRIO", 16_000_000));
}

#[test]
fn a_configuration_told_is_the_one_that_was_made() {
    let mut bench = engine(
        "pipe 3 config bw 8Mbit/s delay 5ms burst 9k mask src-ip 0xff queue 20 plr 0.1
         pipe 1 config red 0.5/3/9/0.3 ecn
         sched 1 config type fq_codel quantum 300
         sched 7 config type rr mask dst-ip 0xff buckets 100
         queue 2 config pipe 3 weight 7 mask all
         queue 9 config sched 7 codel target 3ms
         queue 10 config sched 700",
    );
    let configuration: Vec<_> = bench.dummynet.configuration();
    let mut again = engine("");
    for config in &configuration {
        let text = std::string::ToString::to_string(config);
        again.command(0, &text);
    }
    assert_eq!(again.dummynet.configuration(), configuration);
    assert_eq!(again.dummynet.show_pipes(0), bench.dummynet.show_pipes(0));
    assert_eq!(again.dummynet.show_scheds(0), bench.dummynet.show_scheds(0));
    assert_eq!(again.dummynet.show_queues(0), bench.dummynet.show_queues(0));
}

#[test]
fn the_type_of_a_pipe_is_that_of_its_scheduler_and_pipe_rules_keep_their_fifo() {
    let mut bench = engine(
        "pipe 1 config bw 8Mbit/s type prio\nqueue 1 config pipe 1 weight 1\nqueue 2 config pipe 1",
    );
    let mut kinds = || {
        let (scheds, pipes) = (bench.dummynet.show_scheds(0), bench.dummynet.show_pipes(0));
        (scheds[0].sched.kind, pipes[0].sched.kind)
    };
    assert_eq!(kinds(), (SchedKind::Prio, SchedKind::Fifo));
    bench.command(0, "pipe 1 config bw 8Mbit/s");
    let kind = bench.dummynet.show_scheds(0)[0].sched.kind;
    assert_eq!(kind, SchedKind::Prio, "what is not said stays, as in dummynet");
    // The first packet is on the link. Of the two waiting packets, the packet in queue 2 has the
    // better priority.
    for (handle, queue) in [(0, 1), (1, 1), (2, 2)] {
        bench.send(0, ShaperTarget::Queue(queue), handle, 1000);
    }
    assert_eq!(handles(&bench.run(SECOND)), [0, 2, 1]);
}

#[test]
fn parameters_of_a_pipes_type_that_are_out_of_range_are_refused_and_nothing_changes() {
    let mut bench = engine("pipe 1 config type rr");
    let kind = SchedKind::FqCodel(
        slipring_model::aqm::FairSpec { flows: 0, ..Default::default() },
        Default::default(),
    );
    let spec = crate::spec::PipeSpec { kind: Some(kind), ..Default::default() };
    assert!(bench.dummynet.configure(0, ShaperConfig::Pipe(1, spec), &mut |_| {}).is_err());
    assert_eq!(bench.dummynet.show_scheds(0)[0].sched.kind, SchedKind::Rr);
}
