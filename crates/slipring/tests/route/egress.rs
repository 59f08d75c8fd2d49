//! Tests of frames that an interface's driver does not accept from an XDP program. The driver does
//! not report this to the program.

use crate::packet::Packet;
use crate::rig::{Rig, Setup, v4};

crate::instances!(
    xdp: crate::rig::Setup = crate::rig::Subject::Slipring("xdp"),
    frames_that_a_driver_drops_are_counted_at_the_interface,
    an_interface_whose_driver_begins_to_refuse_frames_is_left_to_the_kernel_until_it_takes_them
);

/// Returns the number of frames for e1 that its driver has dropped.
fn dropped_by_driver(rig: &Rig) -> u64 {
    rig.ask(&["interface", "e1"])["interfaces"][0]["dropped"]["driver"].as_u64().unwrap_or(0)
}

/// A veth device accepts no frame that is larger than its peer's MTU.
fn frames_that_a_driver_drops_are_counted_at_the_interface(setup: Setup) {
    let rig = setup.start();
    rig.b.namespace.ip("link set e0 mtu 1280");
    let large = Packet::udp(v4().a, v4().b, &[0; 1400]);
    // If a heartbeat is missed, the kernel forwards for a moment, and its drops are not in this
    // counter. So each step is repeated until its drop is counted.
    for expected in 1..=3 {
        rig.until(|| {
            rig.ignores(std::slice::from_ref(&large));
            (dropped_by_driver(&rig) == expected).then_some(())
        });
    }
    rig.forwards(&[Packet::udp(v4().a, v4().b, &[0; 1200])]);
}

/// A veth device takes redirected frames only if its peer has an XDP program or GRO, because
/// otherwise the peer does not poll the ring for them. Without both, the device refuses the frames.
fn an_interface_whose_driver_begins_to_refuse_frames_is_left_to_the_kernel_until_it_takes_them(
    setup: Setup,
) {
    let rig = setup.start();
    let packet = Packet::udp(v4().a, v4().b, b"to a host that does not poll");
    let (switched, text) = rig.b.namespace.attempt("ethtool", "-K e0 gro off");
    assert!(switched, "{text}");
    rig.until(|| {
        let arrived = rig.all_arrive_at_b(std::slice::from_ref(&packet));
        arrived.filter(|()| dropped_by_driver(&rig) > 0)
    });
    let program = rig.take_program();
    program.wait_for_text("e1 drops what XDP redirects to it");
    let left = rig.ask(&["status"])["left_to_kernel"].clone();
    assert_eq!(left, serde_json::json!(["e1 sends no redirected frames"]));
    let (switched, text) = rig.b.namespace.attempt("ethtool", "-K e0 gro on");
    assert!(switched, "{text}");
    program.wait_for_text("e1: sends what XDP redirects to it");
    rig.forwards(&[packet]);
}
