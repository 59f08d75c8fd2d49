//! Tests of interfaces that go down and up again under running programs.

use rustix::process::Signal;
use serde_json::Value;
use slipring_test_support::frames::{assert_same, numbered};
use slipring_test_support::program::ProgramOutput;
use slipring_test_support::{Lab, LabPort, Program};

use crate::support::SLIPRING;
use crate::support::bridge::Report;
use crate::support::frames::{FrameListener, Sender, cross};

const WAYS: [LabPort; 3] = [LabPort::Native, LabPort::Packet, LabPort::Best];

/// Starts a program between the two sides of a lab, and waits until its ports are open.
fn start(lab: &Lab, words: &str) -> Program {
    let prefix = lab.port.prefix();
    let words = words.replace("LEFT", &format!("{prefix}:la"));
    let words = words.replace("RIGHT", &format!("{prefix}:ra"));
    let program = Program::start(&lab.mid, SLIPRING, &format!("{words} --json=lines -T 0"));
    program.wait_for("start", |output| output.stdout.contains('\n').then_some(()));
    program
}

/// Asserts that frames from the left leave on the right, before and after each link was down.
fn survives(words: &str) {
    for port in WAYS {
        let Some(lab) = Lab::quiet(port) else { return };
        let program = start(&lab, words);
        for (round, ifname) in (0..).zip(["", "la", "ra"]) {
            if !ifname.is_empty() {
                lab.mid.ip(&format!("link set {ifname} down"));
                lab.mid.ip(&format!("link set {ifname} up"));
                lab.wait_for_carriers();
            }
            let frames: Vec<_> = (0..20).map(|i| numbered(round * 20 + i)).collect();
            let received = cross(&lab.left, &lab.right, &frames);
            assert_same(&format!("{words}, {port:?}, after {ifname}"), &received, &frames);
        }
        program.stop(Signal::INT).well();
    }
}

#[test]
fn a_bridge_survives_its_links_going_down_and_up() {
    survives("bridge -i LEFT -i RIGHT");
}

#[test]
fn an_emulated_link_survives_its_links_going_down_and_up() {
    survives("emulate -i LEFT -i RIGHT -D 1ms");
}

#[test]
fn a_load_balancer_survives_its_links_going_down_and_up() {
    survives("lb -i LEFT --outputs RIGHT");
}

#[test]
fn a_deduplicator_survives_its_links_going_down_and_up() {
    survives("dedup -i LEFT -i RIGHT");
}

#[test]
fn a_bridge_whose_link_is_down_at_its_start_says_so_and_starts_when_it_is_up() {
    for port in WAYS {
        let Some(lab) = Lab::quiet(port) else { return };
        lab.mid.ip("link set ra down");
        let program = start(&lab, "bridge -i LEFT -i RIGHT");
        let first: Value =
            serde_json::from_str(program.so_far().stdout.lines().next().unwrap()).unwrap();
        let link = |i: usize| first["ports"][i]["settings"]["link"].as_str();
        assert_eq!((link(0), link(1)), (None, Some("down")), "{first}");
        lab.mid.ip("link set ra up");
        lab.wait_for_carriers();
        let frames: Vec<_> = (0..20).map(numbered).collect();
        assert_same("starts", &cross(&lab.left, &lab.right, &frames), &frames);
        program.stop(Signal::INT).well();
    }
}

#[test]
fn dump_goes_on_when_its_interface_comes_up_again() {
    for port in ["packet:la", "xdp:la"] {
        let Some(lab) = Lab::quiet(LabPort::Native) else { return };
        let program = Program::start(&lab.mid, SLIPRING, &format!("dump -n -l -i {port}"));
        program.wait_for("its mode", |output| output.stderr.contains("kind=").then_some(()));
        let mut sender = Sender::open(&lab.left, "e0");
        for round in 1..=2 {
            sender.send(&(0..20).map(numbered).collect::<Vec<_>>());
            let enough = |output: &ProgramOutput| {
                (output.stdout.lines().count() >= 20 * round).then_some(())
            };
            program.wait_for("frames", enough);
            lab.mid.ip("link set la down");
            lab.mid.ip("link set la up");
            lab.wait_for_carriers();
        }
        program.stop(Signal::INT).well();
    }
}

/// Returns whether a frame comes from the generator.
fn is_generated(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[8, 0]) && frame.get(36..38) == Some(&1234u16.to_be_bytes())
}

#[test]
fn a_generator_whose_link_goes_down_and_up_accounts_for_every_frame() {
    for lab_port in WAYS {
        let Some(lab) = Lab::quiet(lab_port) else { return };
        let mut listener = FrameListener::choosy(&lab.left, "e0", is_generated);
        let program = start(&lab, "gen -i LEFT -f tx -n 3000 -R 10000");
        let mut received = Vec::new();
        listener.hear(&mut received, 100);
        lab.mid.ip("link set la down");
        lab.mid.ip("link set la up");
        let ended = program.finish().well();
        let report = Report::last(&ended).0;
        let port = &report["ports"][0];
        let sent = port["tx"]["packets"].as_u64().unwrap();
        let drops = port["drops"].as_object();
        let lost: u64 = drops.into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
        assert_eq!(sent + lost, 3000, "{report}");
        listener.hear(&mut received, sent as usize);
        assert_eq!(received.len() as u64, sent);
    }
}
