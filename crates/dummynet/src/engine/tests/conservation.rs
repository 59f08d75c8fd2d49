//! Tests that every packet is accounted for, whatever happens.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Send { object: usize, host: u32, len: u32, ect: bool },
    Wait(u64),
    Say(usize),
}

const CONFIGS: &[&str] = &[
    "pipe 1 config bw 8Mbit/s delay 2ms queue 20",
    "pipe 1 config bw 300Mbit/s burst 20k plr 0.02 mask src-ip 0x3",
    "pipe 1 config queue 3000B red 0.1/1000/2000/0.5 bw 4Mbit/s",
    "pipe 1 config bw 2Mbit/s codel target 1ms interval 2ms ecn",
    "pipe 1 config bw 2Mbit/s pie target 1ms tupdate 1ms max_burst 0",
    "pipe 1 config",
    "pipe 2 config bw 5Mbit/s delay 700us mask dst-ip 0x1",
    "pipe 2 config bw 50Mbit/s",
    "queue 1 config pipe 1 weight 20 mask src-ip 0xff",
    "queue 1 config pipe 2 weight 3 codel target 1ms interval 2ms",
    "queue 1 config sched 1 pri 3 gred 0.5/2/4/0.5 ecn",
    "queue 2 config pipe 1 weight 70 lmax 200 plr 0.01,0.1,0.8,0.2",
    "queue 2 config sched 1 pri 1 mask all queue 4000B",
    "sched 1 config type fifo queue 10",
    "sched 1 config type wf2q+",
    "sched 1 config type rr mask src-ip 0x1",
    "sched 1 config type qfq",
    "sched 1 config type prio",
    "sched 1 config type fq_codel limit 30 target 1ms interval 3ms flows 5",
    "sched 1 config type fq_codel limit 10 flows 7",
    "sched 1 config type fq_pie limit 20 flows 3 target 1ms tupdate 1ms",
    "pipe 1 delete",
    "queue 2 delete",
    "queue 1 delete",
    "pipe 2 delete",
    "pipe flush",
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let send = (0usize..4, 0u32..12, 40u32..1600, any::<bool>())
        .prop_map(|(object, host, len, ect)| Step::Send { object, host, len, ect });
    let step = prop_oneof![
        20 => send,
        3 => (0u64..3_000_000).prop_map(Step::Wait),
        1 => (0u64..30_000_000_000).prop_map(Step::Wait),
        2 => (0..CONFIGS.len()).prop_map(Step::Say),
    ];
    prop::collection::vec(step, 0..300)
}

/// Executes a command. An error is ignored, because the object to delete may not exist.
fn say(bench: &mut Bench, now_ns: u64, text: &str) {
    let tell = &mut |event| bench.events.push(event);
    match DummynetCommand::parse(text).unwrap() {
        DummynetCommand::Config(config) => _ = bench.dummynet.configure(now_ns, config, tell),
        DummynetCommand::Delete(kind, ranges) => {
            for range in ranges {
                _ = bench.dummynet.delete(now_ns, kind, range, tell);
            }
        }
        DummynetCommand::Flush => bench.dummynet.flush(now_ns, tell),
        other => panic!("{other:?}"),
    }
}

/// Times between packets. Packets that arrive together may also leave together.
fn gap_ns() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0u64..800_000]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_comes_out_once_or_is_dropped_once_for_a_named_cause(
        steps in steps(), first in prop::collection::vec(0..CONFIGS.len(), 0..6),
    ) {
        let mut bench = engine("");
        first.into_iter().for_each(|at| say(&mut bench, 0, CONFIGS[at]));
        let (mut now_ns, mut sent) = (0, 0u32);
        for step in steps {
            match step {
                Step::Send { object, host: one, len, ect } => {
                    let objects =
                        [ShaperTarget::Pipe(1), ShaperTarget::Pipe(2), ShaperTarget::Queue(1), ShaperTarget::Queue(2)];
                    let ecn = if ect { Ecn::Ect0 } else { Ecn::NotEct };
                    bench.send_ecn(now_ns, objects[object], &host(one), sent, len, ecn);
                    sent += 1;
                }
                Step::Wait(ns) => {
                    now_ns += ns;
                    bench.dummynet.release(now_ns, &mut |event| bench.events.push(event));
                }
                Step::Say(at) => say(&mut bench, now_ns, CONFIGS[at]),
            }
            bench.check();
        }
        // At the end, each packet in the engine must be released or dropped.
        let mut turns = 0;
        while let Some(at_ns) = bench.dummynet.next_release() {
            bench.dummynet.release(at_ns, &mut |event| bench.events.push(event));
            turns += 1;
            prop_assert!(turns < 10_000, "the engine asks to be woken for ever");
        }
        let counters = bench.dummynet.counters();
        prop_assert_eq!((counters.queued, counters.delayed), (0, 0));
        prop_assert_eq!(u64::from(sent), counters.released + counters.drops.total());
        let mut ended = BTreeSet::new();
        let mut last_ns = 0;
        for event in &bench.events {
            match *event {
                ShaperEvent::Released { handle, at_ns, .. } => {
                    prop_assert!(ended.insert(handle), "{handle} ends twice");
                    prop_assert!(at_ns >= last_ns, "times go back");
                    last_ns = at_ns;
                }
                ShaperEvent::Dropped { handle, .. } => {
                    prop_assert!(ended.insert(handle), "{handle} ends twice");
                }
                ShaperEvent::Marked { handle } => prop_assert!(!ended.contains(&handle)),
            }
        }
        prop_assert_eq!(ended.len(), sent as usize);
    }

    /// Calling the engine more often than it requests changes neither which packets are released
    /// nor when.
    #[test]
    fn polling_seldom_changes_neither_times_nor_fates(
        sends in prop::collection::vec((gap_ns(), 0usize..2, 0u32..4, 40u32..1600), 1..200),
        kind in 0usize..7, step_ns in 1u64..2_000_000,
    ) {
        let kind = ["fifo", "wf2q+", "rr", "qfq", "prio", "fq_codel", "fq_pie"][kind];
        let run = |step_ns: Option<u64>| {
            let mut bench = engine(&std::format!(
                "pipe 1 config bw 8Mbit/s delay 1ms burst 3000 codel target 1ms interval 3ms
                 sched 1 config queue 30 type {kind}
                 queue 1 config sched 1 weight 7 mask src-ip 0xff plr 0.01 red 0.1/5/20/0.1"
            ));
            let mut now_ns = 0;
            for (handle, &(gap_ns, object, one, len)) in (0..).zip(&sends) {
                now_ns += gap_ns;
                if let Some(step_ns) = step_ns {
                    let at_ns = now_ns / step_ns * step_ns;
                    bench.dummynet.release(at_ns, &mut |event| bench.events.push(event));
                }
                let object = [ShaperTarget::Pipe(1), ShaperTarget::Queue(1)][object];
                bench.send_as(now_ns, object, &host(one), handle, len);
            }
            bench.run(60 * SECOND)
        };
        let (seldom, often) = (run(None), run(Some(step_ns)));
        prop_assert!(seldom.is_sorted_by_key(|&(_, at_ns)| at_ns));
        prop_assert!(often.is_sorted_by_key(|&(_, at_ns)| at_ns));
        // The order of packets with equal times is specified only for packets of the same flow.
        let by_flow = |released: &[(u32, u64)]| {
            let mut flows = BTreeMap::<_, Vec<_>>::new();
            for &(handle, at_ns) in released {
                let (_, object, one, _) = sends[handle as usize];
                flows.entry((object, one)).or_default().push((handle, at_ns));
            }
            flows
        };
        let flows = by_flow(&seldom);
        prop_assert!(flows.values().all(|flow| flow.is_sorted()), "no flow is reordered");
        prop_assert_eq!(flows, by_flow(&often));
    }
}
