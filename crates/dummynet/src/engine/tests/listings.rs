//! Tests of listings and sysctls: the order of rows, counters, the ranges of values.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::*;
use crate::show::{RowOrder, ShaperListing};

/// Lists three hosts that have different counters. Returns the last byte of the source address of
/// each row.
fn rows(kind: ObjectKind, order: i32) -> Vec<u32> {
    let mut bench = engine(
        "pipe 1 config bw 1Kbit/s mask src-ip 0xff queue 100
         sched 1 config type wf2q+ mask src-ip 0xff
         queue 1 config sched 1 mask src-ip 0xff queue 100",
    );
    let object =
        if kind == ObjectKind::Pipe { ShaperTarget::Pipe(1) } else { ShaperTarget::Queue(1) };
    // The three hosts send 6, 3 and 9 packets with 600, 900 and 540 bytes in total.
    for (one, packets, len) in [(1, 6, 100), (2, 3, 300), (3, 9, 60)] {
        (0..packets).for_each(|n| _ = bench.send_as(0, object, &host(one), n, len));
    }
    let listing = bench.dummynet.show(0, kind, &[], RowOrder(order));
    let flows = match &listing {
        ShaperListing::Pipes(all) => &all[0].flows,
        ShaperListing::Queues(all) => &all[0].flows,
        ShaperListing::Scheds(all) => &all[0].flows,
    };
    flows.iter().map(|row| row.id.key.src as u32 & 0xff).collect()
}

#[test]
fn rows_are_sorted_by_the_counter_of_the_option() {
    for kind in [ObjectKind::Pipe, ObjectKind::Queue, ObjectKind::Sched] {
        for (by_packets, by_bytes) in [(1, 2), (3, 4)] {
            assert_eq!(rows(kind, by_packets), [3, 1, 2], "{kind:?}");
            assert_eq!(rows(kind, -by_packets), [2, 1, 3], "{kind:?}");
            assert_eq!(rows(kind, by_bytes), [2, 1, 3], "{kind:?}");
            assert_eq!(rows(kind, -by_bytes), [3, 1, 2], "{kind:?}");
        }
        assert_eq!(rows(kind, 0), [1, 2, 3], "{kind:?}");
    }
}

#[test]
fn rows_count_what_came_what_waits_and_what_was_lost() {
    let mut bench = engine(
        "pipe 1 config bw 8Mbit/s
         sched 1 config type rr
         queue 1 config sched 1 queue 4
         queue 2 config sched 1 queue 4",
    );
    for (number, packets) in [(1, 8), (2, 3)] {
        (0..packets).for_each(|n| _ = bench.send(0, ShaperTarget::Queue(number), n, 100));
    }
    let counts = |row: &crate::show::FlowRow| {
        [row.packets, row.bytes, row.waiting.into(), row.waiting_bytes, row.drops]
    };
    let queues = bench.dummynet.show_queues(0);
    assert_eq!(
        queues.iter().map(|one| counts(&one.flows[0])).collect::<Vec<_>>(),
        [[8, 800, 4, 400, 3], [3, 300, 3, 300, 0],]
    );
    let sched = &bench.dummynet.show_scheds(0)[0];
    assert_eq!(counts(&sched.flows[0]), [11, 1100, 7, 700, 3]);
    // When the scheduler changes, the waiting packets are set aside to leave first. They still
    // count as waiting.
    bench.command(0, "sched 1 config type qfq");
    bench.send(0, ShaperTarget::Queue(2), 9, 100);
    let sched = &bench.dummynet.show_scheds(0)[0];
    assert_eq!(counts(&sched.flows[0]), [12, 1200, 8, 800, 3]);
}

#[test]
fn shares_are_listed_as_the_scheduler_uses_them() {
    let share = |kind: &str| {
        let mut bench = engine(&format!(
            "pipe 1 config\nsched 1 config type {kind}\nqueue 1 config sched 1 weight 500 lmax 5000 pri 7"
        ));
        bench.dummynet.show_queues(0)[0].flowset.share
    };
    assert_eq!(share("wf2q+"), [100, 5000, 7]);
    assert_eq!(share("rr"), [500, 2048, 7]);
    assert_eq!(share("qfq"), [500, 2000, 7]);
    assert_eq!(share("prio"), [500, 5000, 7]);
}

#[test]
fn sysctls_have_ranges_and_say_what_they_were() {
    let mut dummynet = Dummynet::<u32>::new(1, [1, 2]);
    let mut sysctl = |name: &str, value| match dummynet.sysctl(name, value) {
        Ok(text) => text,
        Err(error) => format!("! {error}"),
    };
    for (name, usual, least, most) in [
        ("hash_size", 64, 16, 65_536),
        ("pipe_slot_limit", 100, 1, u32::MAX),
        ("pipe_byte_limit", 1 << 20, 1500, u32::MAX),
        ("expire", 1, 0, 1),
        ("red_avg_pkt_size", 512, 1, u32::MAX),
        ("red_max_pkt_size", 1500, 1, u32::MAX),
    ] {
        assert_eq!(sysctl(name, None), format!("{name}: {usual}\n"));
        let full = format!("net.inet.ip.dummynet.{name}");
        assert_eq!(sysctl(&full, Some(least)), format!("{full}: {usual} -> {least}\n"));
        assert_eq!(sysctl(name, Some(most)), format!("{name}: {least} -> {most}\n"));
        assert_eq!(sysctl(name, Some(usual)), format!("{name}: {most} -> {usual}\n"));
        for beyond in [least.checked_sub(1), most.checked_add(1)].into_iter().flatten() {
            let refused = format!("! sysctl {name}: {beyond} is not in {least} to {most}");
            assert_eq!(sysctl(name, Some(beyond)), refused);
        }
    }
    assert_eq!(sysctl("nosuch", None), "! unknown oid 'nosuch'; `sysctl -a` lists all names");
    assert_eq!(sysctl("io_pkt", Some(1)), "! sysctl io_pkt: it can only be read");
    assert_eq!(sysctl("tick_lost", None), "tick_lost: 0\n");
    let all = sysctl("", None);
    let prefix = |line: &str| line.starts_with(SYSCTL_PREFIX);
    assert!(all.lines().count() == 16 && all.lines().all(prefix), "{all}");
}

#[test]
fn sysctls_count_packets_and_drops() {
    let mut bench = engine("pipe 1 config plr 1");
    (0..3).for_each(|n| _ = bench.send(0, ShaperTarget::Pipe(1), n, 100));
    bench.command(0, "pipe 1 config");
    bench.send(0, ShaperTarget::Pipe(1), 3, 100);
    let mut value = |name: &str| -> String { bench.dummynet.sysctl(name, None).unwrap() };
    assert_eq!(value("io_pkt"), "io_pkt: 4\n");
    assert_eq!(value("io_pkt_drop"), "io_pkt_drop: 3\n");
}

#[test]
fn settings_hold_for_what_is_configured_next() {
    let mut bench = engine("");
    for (name, value) in [("hash_size", 128), ("expire", 0)] {
        bench.dummynet.sysctl(name, Some(value)).unwrap();
    }
    bench.command(0, "pipe 1 config bw 8Mbit/s mask src-ip 0xff");
    bench.send_as(0, ShaperTarget::Pipe(1), &host(1), 1, 100);
    // With `expire=0`, an idle pipe is never removed.
    let pipe = &bench.dummynet.show_pipes(1000 * SECOND)[0];
    assert_eq!((pipe.sched.buckets, pipe.flows.len()), (128, 1));
    bench.dummynet.sysctl("expire", Some(1)).unwrap();
    assert!(bench.dummynet.show_pipes(2000 * SECOND)[0].flows.is_empty());
    assert_eq!(ObjectKind::Pipe.name().to_string(), "pipe");
}
