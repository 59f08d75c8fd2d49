//! Tests of `slipring top` with a router.

use std::process::Command;

use serde_json::Value;
use slipring_test_support::{FinishedProgram, Program};

use crate::packet::Packet;
use crate::rig::{Rig, Setup, v4};
use crate::topology::SLIPRING;

crate::instances! {
    xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    top_shows_what_the_router_has_counted
}

crate::instances! {
    xdp: crate::rig::Setup = crate::rig::Subject::Slipring("xdp"),
    top_shows_what_the_router_has_counted
}

fn top(rig: &Rig, words: &str) -> FinishedProgram {
    let mut command = Command::new(SLIPRING);
    command.arg("top").args(words.split_ascii_whitespace());
    command.env("SLIPRING_RUN", rig.run_dir());
    Program::launch(&rig.router, command).finish().well()
}

fn top_shows_what_the_router_has_counted(setup: Setup) {
    let rig = setup.with_flags("--name edge").start();
    let net = v4();
    let expired = Packet::udp(net.a, net.b, b"expired").hops(1);
    rig.a.send(&expired);
    rig.a.send(&Packet::udp(net.a, net.b, b"forwarded"));
    // Waits for the ICMP error of the router or the kernel, and for the forwarded packet.
    rig.observe([1, 1, 0]);
    let counted = ["forwarded", "passed", "dropped", "punted", "state"];
    // Neighbour discovery may be counted meanwhile, and a program that gets no processor shows its
    // counters late, so the comparison is repeated until it succeeds.
    let (shown, status) = rig.until(|| {
        let before = rig.ask(&["status"]);
        let shown: Value =
            serde_json::from_str(&top(&rig, "edge --once --json -T 10ms").stdout).unwrap();
        let shown = shown["run"]["router"].clone();
        let after = rig.ask(&["status"]);
        let is_same = |at: usize| {
            counted.iter().all(|key| shown["interfaces"][at][key] == after["interfaces"][at][key])
        };
        let is_quiet = before["interfaces"] == after["interfaces"];
        (is_quiet && is_same(0) && is_same(1)).then_some((shown, after))
    });
    assert_eq!(shown["state"], "forwarding");
    for key in ["v4", "v6", "neighbours"] {
        assert_eq!(shown["fib"][key], status["fib"][key], "{key}");
        assert!(shown["fib"][key].as_u64() > Some(1), "{key}: {shown}");
    }
    let e0 = &shown["interfaces"][0];
    assert_eq!((&e0["name"], &e0["engine"]), (&"e0".into(), &status["interfaces"][0]["mode"]));
    assert!(e0["forwarded"]["packets"].as_u64() > Some(0), "{shown}");
    let ended = ["passed", "dropped"].map(|key| !e0[key].as_object().unwrap().is_empty());
    assert!(ended.contains(&true), "the packet that was not forwarded: {shown}");
    let workers = |of: &Value| of["workers"].as_array().unwrap().len();
    assert_eq!(workers(&shown), workers(&status));

    let text = top(&rig, "--once -T 10ms").stdout;
    assert!(text.starts_with("edge, process "), "{text}");
    assert!(text.contains("\nforwarding: "), "{text}");
    assert!(text.contains("\ne1: forwarded "), "{text}");
}
