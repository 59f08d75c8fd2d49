//! Tests of the link layer: which Ethernet frames are routed.

use slipring_test_support::skip;

use crate::host::{BROADCAST, Frame};
use crate::packet::Packet;
use crate::rig::{Rig, Setup, families, ip, router_mac, v4};

checks! {
    a_frame_to_another_mac_is_ignored,
    a_frame_to_the_mac_of_the_other_interface_is_ignored,
    a_unicast_packet_in_a_broadcast_frame_is_not_forwarded,
    a_unicast_packet_in_a_multicast_frame_is_not_forwarded,
    a_priority_tag_is_treated_as_no_tag,
    a_frame_with_an_unknown_vlan_is_not_forwarded,
    a_frame_with_two_unknown_tags_is_not_forwarded,
    frames_of_other_protocols_are_not_forwarded,
    an_ethertype_that_contradicts_the_version_is_dropped,
    a_runt_does_no_harm,
    a_vlan_device_routes_tagged_frames,
}

/// Sends UDP packets of both families in frames that `change` modifies. Asserts that the router
/// sends nothing.
fn is_ignored(setup: Setup, change: impl Fn(&mut Frame)) {
    let rig = setup.start();
    for frame in frames(&rig) {
        for hops in [64, 1] {
            let mut frame = frame.clone();
            let at = if frame.body[0] == 0x45 { 8 } else { 7 };
            frame.body[at] = hops;
            if at == 8 {
                crate::packet::seal(&mut frame.body[..20]);
            }
            change(&mut frame);
            rig.a.send_frame(&frame);
        }
        // The router has sent neither a packet nor an ICMP error.
        rig.is_silent();
    }
}

/// A frame of each family from A to B.
fn frames(rig: &Rig) -> [Frame; 2] {
    families().map(|net| rig.a.frame(&Packet::udp(net.a, net.b, b"frame")))
}

fn a_frame_to_another_mac_is_ignored(setup: Setup) {
    is_ignored(setup, |frame| frame.dst = [2, 0, 0, 0, 1, 0x77]);
}

fn a_frame_to_the_mac_of_the_other_interface_is_ignored(setup: Setup) {
    is_ignored(setup, |frame| frame.dst = router_mac(3));
}

/// RFC 1812, section 5.3.4, and RFC 1122, section 3.3.6, require this.
fn a_unicast_packet_in_a_broadcast_frame_is_not_forwarded(setup: Setup) {
    is_ignored(setup, |frame| frame.dst = BROADCAST);
}

fn a_unicast_packet_in_a_multicast_frame_is_not_forwarded(setup: Setup) {
    is_ignored(setup, |frame| frame.dst = [1, 0, 0x5e, 0, 0, 5]);
}

/// IEEE 802.1Q: a tag of VLAN 0 only contains the priority.
fn a_priority_tag_is_treated_as_no_tag(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        for tci in [0, 0xe000] {
            let packet = Packet::udp(net.a, net.b, b"priority");
            let mut frame = rig.a.frame(&packet);
            frame.tags = vec![[0x8100, tci]];
            rig.a.send_frame(&frame);
            rig.only_b_receives(&[packet.forwarded()]);
        }
    }
}

fn a_frame_with_an_unknown_vlan_is_not_forwarded(setup: Setup) {
    is_ignored(setup, |frame| frame.tags = vec![[0x8100, 0x6000 | 100]]);
}

fn a_frame_with_two_unknown_tags_is_not_forwarded(setup: Setup) {
    is_ignored(setup, |frame| frame.tags = vec![[0x88a8, 7], [0x8100, 100]]);
}

/// LLDP, MPLS, PPPoE, 802.2 LLC with a length instead of an EtherType, length 0, and 0xffff.
fn frames_of_other_protocols_are_not_forwarded(setup: Setup) {
    let rig = setup.start();
    for [frame, _] in [frames(&rig)] {
        for ethertype in [0x88cc, 0x8847, 0x8864, 46, 0x0000, 0xffff] {
            rig.a.send_frame(&Frame { ethertype, ..frame.clone() });
        }
    }
    rig.is_silent();
}

fn an_ethertype_that_contradicts_the_version_is_dropped(setup: Setup) {
    let rig = setup.start();
    let [mut v4, mut v6] = frames(&rig);
    std::mem::swap(&mut v4.ethertype, &mut v6.ethertype);
    rig.a.send_frame(&v4);
    rig.a.send_frame(&v6);
    rig.is_silent();
}

/// A runt can arrive, because veth has no minimum frame length.
fn a_runt_does_no_harm(setup: Setup) {
    let rig = setup.start();
    for frame in frames(&rig) {
        for len in 14..=frame.body.len() {
            rig.a.send_bytes(&frame.bytes()[..len]);
        }
    }
    rig.is_silent();
    rig.forwards(&[Packet::udp(v4().a, v4().b, b"still there")]);
}

/// Packets arrive with a tag and leave without, and the reverse.
fn a_vlan_device_routes_tagged_frames(setup: Setup) {
    let rig = setup.start();
    let made = rig.router.attempt("ip", "link add link e0 name e0.100 type vlan id 100");
    if !made.0 {
        return skip!("this kernel has no VLAN links: {}", made.1.trim_end());
    }
    rig.ip("link set e0.100 mtu 1496 up
         addr add 10.100.0.1/24 dev e0.100
         neigh add 10.100.0.2 lladdr 02:00:00:00:01:02 dev e0.100 nud permanent");
    let packet = Packet::udp(ip("10.100.0.2"), v4().b, b"tagged");
    let mut frame = rig.a.frame(&packet);
    frame.tags = vec![[0x8100, 100]];
    rig.a.send_frame(&frame);
    rig.only_b_receives(&[packet.forwarded()]);
    let back = Packet::udp(v4().b, ip("10.100.0.2"), b"untagged");
    rig.b.send(&back);
    rig.a.receive("a tagged frame", |frame| {
        (frame.tags == [[0x8100, 100]] && frame.body.starts_with(&back.forwarded().bytes()))
            .then_some(())
    });
}
