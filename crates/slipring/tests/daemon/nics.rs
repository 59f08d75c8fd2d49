//! Tests of interfaces as ports of the device.

use std::process::Command;

use rustix::process::Signal;
use slipring_test_support::sandbox::{FRAMES_WITHIN_RING, client, output};
use slipring_test_support::{Namespace, Program, Sandbox};

use crate::support::SLIPRING;

#[test]
fn frames_cross_a_cable_between_two_interfaces() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let daemon = site.daemon("");
    site.exchange("e0", "e1", FRAMES_WITHIN_RING);
    site.exchange("e1", "e0", FRAMES_WITHIN_RING);
    daemon.stop(Signal::TERM).well();
    let left = site.inside.ip("-d link show");
    assert!(!left.contains("xdp") && !left.contains("PROMISC"), "{left}");
}

#[test]
fn a_sender_by_the_device_waits_for_its_link_says_so_and_fails() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let _daemon = site.daemon("");
    for (link, state) in [("e1", "e0 has no carrier"), ("e0", "e0 is down")] {
        site.inside.ip(&format!("link set {link} down"));
        site.inside.wait_for_no_carrier("e0");
        let mut sender = Command::new(SLIPRING);
        sender.args(["gen", "-i", "kernel:e0", "-f", "tx", "-n", "100", "-w", "0.2"]);
        sender.env("SLIPRING_RUN", site.run_dir());
        let ended = Program::launch(&site.inside, sender).finish();
        assert_eq!(ended.code(), 3, "{ended:#?}");
        assert!(ended.stderr.contains(&format!("{state}: waiting 200ms for it")), "{ended:#?}");
        assert!(ended.stderr.contains(&format!("error[SR0113]: {state}")), "{ended:#?}");
    }
}

#[test]
fn an_interface_is_one_of_the_program_s_own_namespace() {
    let (Some(site), Some(other)) = (Sandbox::new(SLIPRING), Namespace::new()) else { return };
    other.silence("default");
    site.inside.silence("default");
    site.inside.veth("here", &other, "there", "");
    other.ip("link set there up");
    let daemon = site.daemon("");
    assert_eq!(site.bind("there"), "ENXIO");
    // A program in another network namespace that sees the daemon's files.
    let inner =
        client(&site.run_dir().join("netmap"), &format!("receive there {FRAMES_WITHIN_RING}"));
    let mut outer = Command::new("nsenter");
    outer.arg(format!("--mount=/proc/{}/ns/mnt", daemon.pid()));
    outer.arg(inner.get_program()).args(inner.get_args());
    let receiver = Program::launch(&other, outer);
    receiver.wait_for_text("bound");
    site.client(&format!("send here {FRAMES_WITHIN_RING}")).finish().well();
    assert_eq!(output(receiver.finish()), "bound\nreceived");
}

#[test]
fn the_interface_of_the_default_route_is_refused_unless_it_is_asked_for() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    site.inside.ip("addr add 10.1.0.1/24 dev e0");
    site.inside.ip("route add default via 10.1.0.2");
    let daemon = site.daemon("");
    assert_eq!(site.bind("e0"), "EBUSY");
    assert_eq!(site.bind("e1"), "bound");
    daemon.stop(Signal::TERM).well();
    let _daemon = site.daemon("--take-over");
    assert_eq!(site.bind("e0"), "bound");
}

#[test]
fn interfaces_are_root_s_unless_they_are_for_all() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let daemon = site.daemon("--mode 666");
    assert_eq!(site.bind_as_nobody("e0"), "EPERM");
    daemon.stop(Signal::TERM).well();
    let _daemon = site.daemon("--mode 666 --nics-for-all");
    assert_eq!(site.bind_as_nobody("e0"), "bound");
}

#[test]
fn a_program_whose_interface_is_removed_is_told_at_every_call() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let daemon = site.daemon("");
    assert_eq!(site.bind("e0"), "bound");
    let client = site.client("outlive e0");
    client.wait_for_text("bound");
    site.inside.ip("link del e0");
    assert_eq!(output(client.finish()), "bound\ngone");
    assert_eq!(site.bind("e0"), "ENXIO");
    daemon.stop(Signal::TERM).well();
    site.is_clean();
}

#[test]
fn an_interface_that_is_in_use_is_refused_and_one_that_is_down_is_not() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let _daemon = site.daemon("--mode 666 --nics-for-all");
    let held = site.client("hold e0");
    held.wait_for_text("bound");
    assert_eq!(site.bind("e0"), "bound", "one user's programs share it");
    assert_eq!(site.bind_as_nobody("e0"), "EBUSY");
    let mut other = Command::new(SLIPRING);
    other.args(["gen", "-i", "netmap:e1", "-f", "rx", "-T", "0"]);
    other.env("SLIPRING_RUN", site.path("other"));
    let taken = Program::launch(&site.inside, other);
    taken.wait_for_text("kind=");
    assert_eq!(site.bind("e1"), "EBUSY");
    taken.stop(Signal::INT);
    site.inside.ip("link set e1 down");
    assert_eq!(site.bind("e1"), "bound");
}
