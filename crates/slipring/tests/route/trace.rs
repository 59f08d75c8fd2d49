//! Tests of `slipring route ctl trace`, which prints packets with their outcome as they arrive.

use std::process::Command;

use slipring_test_support::Program;

use crate::packet::Packet;
use crate::rig::{Rig, Setup, families, v4};
use crate::topology::SLIPRING;

crate::instances! {
    xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    packets_that_match_are_shown_with_what_becomes_of_them,
    a_trace_ends_with_its_last_packet,
    a_trace_ends_with_the_router,
    a_filter_that_is_not_understood_is_refused
}

crate::instances! {
    packet: crate::rig::Setup = crate::rig::Subject::Slipring("packet"),
    packets_that_match_are_shown_with_what_becomes_of_them
}

crate::instances! {
    xdp: crate::rig::Setup = crate::rig::Subject::Slipring("xdp"),
    packets_that_the_kernel_forwards_leave_no_trace
}

/// Starts a trace, and waits until the workers look for its packets.
fn start_trace(rig: &Rig, words: &str) -> Program {
    let mut command = Command::new(SLIPRING);
    command.args(["route", "ctl", "trace"]).args(words.split_ascii_whitespace());
    command.env("SLIPRING_RUN", rig.run_dir());
    let program = Program::launch(&rig.router, command);
    program.wait_for_text("tracing");
    program
}

/// Sends packets until the trace has ended, and returns its output. The kernel forwards some
/// packets if a thread of the router is late.
fn send_until_traced(rig: &Rig, trace: Program, packets: &[Packet]) -> String {
    rig.until(|| {
        packets.iter().for_each(|packet| rig.a.send(packet));
        rig.observe([0; 3]);
        trace.has_ended().then_some(())
    });
    trace.finish().well().stdout
}

fn packets_that_match_are_shown_with_what_becomes_of_them(setup: Setup) {
    let rig = setup.start();
    let ends = [
        "10.1.0.2:4000 > 10.3.0.2:5000, protocol 17, 34 bytes, in by e0:",
        "[fd01::2]:4000 > [fd03::2]:5000, protocol 17, 54 bytes, in by e0:",
    ];
    for ((net, ends), cause) in families().into_iter().zip(ends).zip(["ttl", "hop-limit"]) {
        let packet = |port| Packet::udp_ports(net.a, net.b, [4000, port], b"traced");
        let expired = packet(5000).hops(1);
        for (traced, outcome) in [
            (packet(5000), "forwarded by e1".to_owned()),
            (expired, format!("dropped and answered: {cause}-expired")),
        ] {
            let trace = start_trace(&rig, "-c 1 udp dst port 5000");
            let shown = send_until_traced(&rig, trace, &[packet(5001), traced]);
            assert_eq!(shown, format!("{ends} {outcome}\n"));
        }
    }
}

fn a_trace_ends_with_its_last_packet(setup: Setup) {
    let (rig, net) = (setup.start(), v4());
    let trace = start_trace(&rig, "-c 2 --json udp dst port 5000");
    let packets: Vec<_> = (1..=5)
        .map(|number| Packet::udp_ports(net.a, net.b, [4000 + number, 5000], b"traced"))
        .collect();
    let shown = send_until_traced(&rig, trace, &packets);
    let documents = serde_json::Deserializer::from_str(&shown).into_iter::<serde_json::Value>();
    let actions: Vec<_> = documents.map(|of| of.unwrap()["answer"]["action"].clone()).collect();
    assert_eq!(actions, ["forwarded", "forwarded"]);
}

fn a_trace_ends_with_the_router(setup: Setup) {
    let rig = setup.start();
    let trace = start_trace(&rig, "udp dst port 5000");
    rig.tell(&["quit"]).well();
    rig.take_program().finish().well();
    assert_eq!(trace.finish().well().stdout, "");
}

fn a_filter_that_is_not_understood_is_refused(setup: Setup) {
    let rig = setup.start();
    let refused = rig.tell(&["trace", "udp", "prt", "53"]);
    assert_ne!(refused.code(), 0);
    assert!(refused.stderr.contains("column 5"), "{}", refused.stderr);
}

fn packets_that_the_kernel_forwards_leave_no_trace(setup: Setup) {
    let rig = setup.start();
    let refused = rig.tell(&["trace"]);
    assert_ne!(refused.code(), 0);
    assert!(refused.stderr.contains("slipring route ctl why"), "{}", refused.stderr);
}
