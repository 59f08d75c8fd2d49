//! Tests of the policies of existing queues: limits combined with AQM, and changes of parameters.

use std::format;
use std::string::ToString;
use std::vec::Vec;

use super::*;
use crate::spec::{AqmSpec, PipeSpec, SchedKind, SchedSpec};

const PIPE: ShaperTarget = ShaperTarget::Pipe(1);

#[test]
fn a_queue_with_aqm_is_still_limited() {
    for aqm in ["red 0.5/90/99/0.1", "codel", "pie", "plr 0,0,0,0"] {
        let mut bench = engine(&format!("pipe 1 config bw 8Mbit/s queue 5 {aqm}"));
        (0..20).for_each(|n| _ = bench.send(0, PIPE, n, 1000));
        // Of 20 packets, one is on the link and five wait, so 14 are lost.
        assert_eq!(bench.drops(ShaperDropCause::Full), 14, "{aqm}");
        assert_eq!(bench.run(SECOND).len(), 6, "{aqm}");
    }
}

/// Sends twice as many packets as the link can carry, for `ms` milliseconds starting at `start_ns`.
/// Returns how many the AQM drops.
fn overload(bench: &mut Bench, start_ns: u64, ms: u64) -> u64 {
    let before = bench.drops(ShaperDropCause::Aqm);
    for n in 0..2 * ms {
        let now_ns = start_ns + n * MS / 2;
        bench.send(now_ns, PIPE, n as u32, 1000);
        bench.run(now_ns);
    }
    bench.drops(ShaperDropCause::Aqm) - before
}

#[test]
fn aqm_keeps_its_state_when_only_its_parameters_change() {
    let cases = [
        ("red 0.002/5/10/0.5", "red 0.002/5/11/0.5"),
        ("codel target 5ms", "codel target 6ms"),
        ("pie target 5ms", "pie target 6ms"),
    ];
    for (one, other) in cases {
        let config = |aqm: &str| format!("pipe 1 config bw 8Mbit/s queue 100 {aqm}");
        let mut kept = engine(&config(one));
        assert!(overload(&mut kept, 0, 2000) > 100, "{one}");
        let mut fresh = Bench { dummynet: kept.dummynet.clone(), events: Vec::new() };
        kept.command(2000 * MS, &config(other));
        assert!(overload(&mut kept, 2000 * MS, 20) > 0, "{one}");
        // The engine `fresh`, for comparison, is configured without AQM in between, so its
        // algorithm starts without state.
        fresh.command(2000 * MS, &config(""));
        fresh.command(2000 * MS, &config(other));
        assert_eq!(overload(&mut fresh, 2000 * MS, 20), 0, "{one}");
    }
}

#[test]
fn a_new_policy_holds_for_the_queues_that_are() {
    let pie = "pie target 1ms tupdate 1ms max_burst 0";
    let commands = [
        ("", "pipe 1 config bw 8Mbit/s", ShaperTarget::Pipe(1)),
        ("sched 1 config type wf2q+", "queue 1 config sched 1", ShaperTarget::Queue(1)),
        ("sched 1 config type fifo", "sched 1 config", ShaperTarget::Queue(1)),
    ];
    for (sched, config, object) in commands {
        let mut bench = engine(&format!(
            "pipe 1 config bw 8Mbit/s\n{sched}\nqueue 1 config sched 1\n{config} queue 50"
        ));
        let send = |bench: &mut Bench, start_ns| {
            for n in 0..200 {
                let now_ns = start_ns + u64::from(n) * MS / 2;
                bench.send(now_ns, object, n, 1000);
                bench.run(now_ns);
            }
            bench.drops(ShaperDropCause::Aqm)
        };
        assert_eq!(send(&mut bench, 0), 0, "{config}");
        bench.command(100 * MS, &format!("{config} queue 50 {pie}"));
        assert!(send(&mut bench, 100 * MS) > 0, "{config}");
    }
}

#[test]
fn the_losses_of_a_queue_hold_under_flow_queueing() {
    let mut bench = engine(
        "pipe 1 config bw 8Mbit/s
         sched 1 config type fq_codel
         queue 1 config sched 1",
    );
    let queue = ShaperTarget::Queue(1);
    assert_eq!(bench.send(0, queue, 0, 100), SubmitResult::Accepted);
    for (losses, lost) in [("1", 1), ("0", 1), ("1,0,0,0", 2), ("0,0,1,0", 2), ("1", 3)] {
        bench.command(0, &format!("queue 1 config plr {losses}"));
        bench.send(0, queue, 1, 100);
        assert_eq!(bench.drops(ShaperDropCause::Loss), lost, "{losses}");
    }
    bench.run(SECOND);
}

#[test]
fn new_parameters_of_flow_queueing_leave_the_flows_apart() {
    for kind in ["fq_codel", "fq_pie"] {
        let mut bench = engine(&format!(
            "pipe 1 config bw 8Mbit/s\nsched 1 config type {kind}\nqueue 1 config sched 1"
        ));
        let queue = ShaperTarget::Queue(1);
        (0..20).for_each(|n| _ = bench.send_as(0, queue, &host(1), n, 1000));
        bench.command(0, &format!("sched 1 config type {kind} target 9ms"));
        bench.send_as(0, queue, &host(2), 99, 1000);
        let order: Vec<u32> = bench.run(SECOND).iter().map(|one| one.0).collect();
        // If this counted as a change of the scheduler, all waiting packets would leave before the
        // new packet.
        let place = order.iter().position(|&handle| handle == 99).unwrap();
        assert!(place < 5, "{kind}: {order:?}");
    }
}

#[test]
fn another_mask_of_a_queue_lets_its_flows_drain_next_to_new_ones() {
    let mut bench = engine("pipe 1 config bw 8Mbit/s\nqueue 1 config pipe 1 mask src-ip 0xff");
    let queue = ShaperTarget::Queue(1);
    for one in 0..2 {
        (0..3).for_each(|_| _ = bench.send_as(0, queue, &host(one), one, 1000));
    }
    bench.command(0, "queue 1 config mask dst-ip 0xff");
    assert!(bench.dummynet.show_queues(0)[0].flows.is_empty());
    bench.send_as(0, queue, &host(0), 9, 1000);
    assert_eq!(bench.dummynet.show_queues(0)[0].flows.len(), 1);
    let order: Vec<u32> = bench.run(SECOND).iter().map(|one| one.0).collect();
    assert_eq!(order.len(), 7);
    assert!(order.iter().position(|&handle| handle == 9).unwrap() < 5, "{order:?}");
}

#[test]
fn the_family_in_which_a_mask_is_shown_makes_no_other_flows() {
    let mut bench = engine("pipe 1 config bw 8Mbit/s mask src-ip 0xff src-ip6 /8");
    bench.send_as(0, PIPE, &host(1), 1, 1000);
    bench.command(0, "pipe 1 config bw 8Mbit/s mask src-ip6 /8 src-ip 0xff buckets 100");
    let pipe = &bench.dummynet.show_pipes(0)[0];
    assert_eq!(
        (pipe.flows.len(), pipe.sched.buckets, pipe.sched.mask.shown_as_v6),
        (1, 100, false)
    );
}

#[test]
fn what_no_command_says_is_refused_by_the_engine() {
    let mut bench = engine("");
    let fair = slipring_model::aqm::FairSpec { flows: 0, ..Default::default() };
    for kind in
        [SchedKind::FqCodel(fair, Default::default()), SchedKind::FqPie(fair, Default::default())]
    {
        let spec = SchedSpec { kind: Some(kind), ..SchedSpec::default() };
        let refused = bench.dummynet.configure(0, ShaperConfig::Sched(1, spec), &mut |_| {});
        assert!(matches!(refused, Err(ShaperConfigError::Parameter(_))), "{refused:?}");
    }
    let zero = ShaperConfig::Pipe(0, PipeSpec::default());
    let refused = bench.dummynet.configure(0, zero, &mut |_| {}).unwrap_err();
    assert!(refused.to_string().starts_with("0 is no number of a pipe"), "{refused}");
    assert!(bench.dummynet.configuration().is_empty());
}

#[test]
fn an_object_with_two_lists_of_trailing_parameters_takes_two_commands() {
    let typed = DummynetCommand::parse("sched 1 config type fq_codel").unwrap();
    let DummynetCommand::Config(ShaperConfig::Sched(1, typed)) = typed else { panic!() };
    let fq = typed.kind.unwrap();
    let codel = |kind, aqm| {
        let spec = SchedSpec { kind, ..SchedSpec::default() };
        let mut config = [
            ShaperConfig::Sched(1, spec),
            ShaperConfig::Pipe(1, PipeSpec { kind, ..Default::default() }),
        ];
        let [ShaperConfig::Sched(_, sched), ShaperConfig::Pipe(_, pipe)] = &mut config else {
            panic!()
        };
        (sched.policy.aqm, pipe.policy.aqm) = (aqm, aqm);
        config
    };
    let aqm = AqmSpec::CoDel(Default::default());
    for (kind, aqm, commands) in [
        (Some(fq), aqm, 2),
        (Some(SchedKind::Rr), aqm, 1),
        (None, aqm, 1),
        (Some(fq), AqmSpec::DropTail, 1),
    ] {
        for config in codel(kind, aqm) {
            let (mut direct, mut said) = (engine("pipe 1 config"), engine("pipe 1 config"));
            direct.dummynet.configure(0, config.clone(), &mut |_| {}).unwrap();
            let told = config.into_commands();
            assert_eq!(told.len(), commands, "{told:?}");
            told.iter().for_each(|one| said.command(0, &one.to_string()));
            assert_eq!(said.dummynet.configuration(), direct.dummynet.configuration());
        }
    }
}

#[test]
fn causes_of_drops_have_the_names_of_reports() {
    let names = ShaperDropCause::ALL.map(ShaperDropCause::name);
    assert_eq!(names, ["no-object", "loss", "full", "aqm", "profile", "no-room", "deleted"]);
}
