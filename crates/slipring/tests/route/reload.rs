//! Tests of reading files again while the router runs: on HUP and on `slipring route ctl reload`.

use std::path::PathBuf;

use rustix::process::Signal;

use crate::packet::Packet;
use crate::rig::{Rig, Setup, v4};

crate::instances! {
    xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    rules_are_read_again_on_request,
    rules_are_read_again_on_the_signal,
    no_packet_is_lost_between_old_and_new_rules,
    a_mistake_is_told_with_its_line_and_the_old_rules_stay
}

crate::instances! {
    xdp: crate::rig::Setup = crate::rig::Subject::Slipring("xdp"),
    a_router_without_files_has_nothing_to_read_again
}

/// A router with rules in a file. The rules admit fences (see `rig`).
struct ReloadRig {
    rig: Rig,
    rules: PathBuf,
    _dir: tempfile::TempDir,
}

fn start(setup: Setup, rules: &str) -> ReloadRig {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("edge.rules");
    write(&path, rules);
    let rig = setup.with_flags(&format!("--rules {}", path.display())).start();
    ReloadRig { rig, rules: path, _dir: dir }
}

fn write(path: &PathBuf, rules: &str) {
    std::fs::write(path, format!("add 10 allow ip from any to any 9\n{rules}\n")).unwrap();
}

fn to_port(port: u16) -> Packet {
    Packet::udp_ports(v4().a, v4().b, [4000, port], b"reload")
}

/// Sends packets to UDP port `port` until one arrives at B.
fn passes(rig: &Rig, port: u16) {
    rig.until(|| rig.all_arrive_at_b(&[to_port(port)]));
}

/// Sends packets to UDP port `port` until one is dropped. The first packets may pass, because the
/// kernel forwards without rules while the worker does not run.
fn drops(rig: &Rig, port: u16) {
    rig.until(|| {
        rig.a.send(&to_port(port));
        rig.observe([0; 3]).b.is_empty().then_some(())
    });
}

fn rules_are_read_again_on_request(setup: Setup) {
    let ReloadRig { rig, rules, _dir } = start(setup, "add allow udp from any to any 5000");
    drops(&rig, 5001);
    write(&rules, "add allow udp from any to any 5001");
    let answer = rig.ask(&["reload"]);
    assert_eq!(answer["files"][0], rules.to_str().unwrap(), "{answer}");
    passes(&rig, 5001);
    drops(&rig, 5000);
    write(&rules, "add 100 skipto 300 ip from any to any\nadd allow udp from any to any 5000");
    let told = rig.tell(&["reload"]).well().stdout;
    assert!(told.contains(&format!("{} was read again\n", rules.display())), "{told}");
}

fn rules_are_read_again_on_the_signal(setup: Setup) {
    let ReloadRig { rig, rules, _dir } = start(setup, "add allow udp from any to any 5000");
    let program = rig.take_program();
    write(&rules, "add allow udp from any to any 5001");
    program.signal(Signal::HUP);
    program.wait_for_text(&format!("{} was read again", rules.display()));
    passes(&rig, 5001);
    drops(&rig, 5000);
    program.stop(Signal::INT).well();
}

/// Both the old and the new rules admit the packets.
fn no_packet_is_lost_between_old_and_new_rules(setup: Setup) {
    let ReloadRig { rig, rules, _dir } = start(setup, "add 200 allow udp from any to any 5000");
    let payload = |number: u8| Packet::udp_ports(v4().a, v4().b, [4000, 5000], &[number]);
    let burst: Vec<_> = (0..20).map(payload).collect();
    let mut expected: Vec<_> = burst.iter().map(|packet| packet.payload.clone()).collect();
    expected.sort();
    for number in 300..305 {
        write(&rules, &format!("add {number} allow udp from any to any 5000"));
        let reload = rig.start_ctl(&["reload"]);
        while !reload.has_ended() {
            burst.iter().for_each(|packet| rig.a.send(packet));
            let arrivals = rig.observe([0, burst.len(), 0]).b.into_iter();
            let mut arrived: Vec<_> = arrivals.map(|arrival| arrival.packet.payload).collect();
            arrived.sort();
            assert_eq!(arrived, expected);
        }
        reload.finish().well();
    }
}

fn a_mistake_is_told_with_its_line_and_the_old_rules_stay(setup: Setup) {
    let ReloadRig { rig, rules, _dir } = start(setup, "add allow udp from any to any 5000");
    let good_then_bad = "add allow udp from any to any 5001\nadd permit everything";
    write(&rules, good_then_bad);
    let refused = rig.tell(&["reload"]);
    assert_ne!(refused.code(), 0);
    for part in ["SR0018", "the rules cannot be loaded", "line 3"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    passes(&rig, 5000);
    drops(&rig, 5001);
    let program = rig.take_program();
    program.signal(Signal::HUP);
    program.wait_for_text("the rules cannot be loaded");
    passes(&rig, 5000);
    std::fs::remove_file(&rules).unwrap();
    assert!(rig.tell(&["reload"]).stderr.contains("SR0201"));
    passes(&rig, 5000);
    program.stop(Signal::INT).well();
}

fn a_router_without_files_has_nothing_to_read_again(setup: Setup) {
    let rig = setup.start();
    let refused = rig.tell(&["reload"]);
    assert_ne!(refused.code(), 0);
    for part in ["SR0014", "without --config and without --rules", "--config FILE"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    let program = rig.take_program();
    program.signal(Signal::HUP);
    program.wait_for_text("there is no file to read again");
    passes(&rig, 5000);
    program.stop(Signal::INT).well();
}
