//! IPv4 options and IPv6 extension headers.

use crate::host::Frame;
use crate::icmp::IcmpError;
use crate::packet::{HOP_BY_HOP, Packet};
use crate::rig::{Setup, ip, v4, v6};

checks! {
    a_packet_with_router_alert_is_forwarded,
    options_that_need_nothing_of_a_router_pass_unchanged,
    a_source_route_is_refused,
    a_record_route_option_gets_the_egress_address,
    a_malformed_option_is_not_forwarded,
    an_unknown_hop_by_hop_option_acts_as_its_type_says,
    an_unknown_hop_by_hop_option_to_a_group_is_answered_only_if_its_type_says_so,
    a_hop_by_hop_header_with_known_options_is_forwarded,
    headers_for_the_destination_are_left_to_it,
    a_hop_by_hop_header_beyond_the_packet_is_dropped,
}

fn with_options(options: &[u8]) -> Packet {
    Packet::udp(v4().a, v4().b, b"options").with(|packet| packet.options = options.to_vec())
}

/// RFC 2113: the packet is forwarded, whether or not a program on the router receives it.
fn a_packet_with_router_alert_is_forwarded(setup: Setup) {
    let rig = setup.start();
    rig.forwards(&[with_options(&[148, 4, 0, 0])]);
}

/// No-operation, end of list, and a number for experiments (RFC 4727).
fn options_that_need_nothing_of_a_router_pass_unchanged(setup: Setup) {
    let rig = setup.start();
    for options in [&[1, 1, 1, 1][..], &[1, 1, 1, 0], &[158, 4, 7, 7], &[1; 40]] {
        rig.forwards(&[with_options(options)]);
    }
}

/// RFC 7126, sections 4.3 and 4.4: dropped by default. Linux drops silently.
fn a_source_route_is_refused(setup: Setup) {
    let rig = setup.start();
    let [a, b, c, d] = [10, 3, 0, 3];
    for kind in [131, 137] {
        let options = [kind, 7, 4, a, b, c, d, 1];
        // The packet is sent once to B, and once to the router; both are hops of the source route.
        for dst in [v4().b, v4().router_a] {
            rig.ignores(&[with_options(&options).with(|packet| packet.dst = dst)]);
        }
    }
}

/// RFC 791, section 3.1: the router records its own address, as known in the environment into which
/// it forwards the packet.
fn a_record_route_option_gets_the_egress_address(setup: Setup) {
    let rig = setup.start();
    let packet = with_options(&[7, 7, 4, 0, 0, 0, 0, 0]);
    rig.a.send(&packet);
    let recorded = packet.forwarded().with(|packet| packet.options = vec![7, 7, 8, 10, 3, 0, 1, 0]);
    rig.only_b_receives(&[recorded]);
    rig.forwards(&[with_options(&[7, 7, 8, 10, 9, 9, 9, 0])]);
}

/// A router may answer with "parameter problem".
fn a_malformed_option_is_not_forwarded(setup: Setup) {
    let rig = setup.start();
    for options in
        [&[7, 2, 4, 0][..], &[7, 39, 4, 0], &[158, 1, 0, 0], &[158, 0, 0, 0], &[1, 1, 1, 158]]
    {
        rig.a.send(&with_options(options));
        let seen = rig.observe([0; 3]);
        assert_eq!(seen.b, [], "{options:?}");
        for arrival in seen.a {
            let error = IcmpError::parse(arrival.packet);
            assert_eq!(error.kind, (12, 0), "{error:?}");
        }
    }
}

/// A packet whose hop-by-hop header has one option with 4 bytes of data.
fn with_hop_by_hop(kind: u8) -> Packet {
    let header = vec![0, 0, kind, 4, 9, 9, 9, 9];
    Packet::udp(v6().a, v6().b, b"hop by hop")
        .with(|packet| packet.extension = Some((HOP_BY_HOP, header)))
}

/// RFC 8200, section 4.2: the two highest bits of the option's type decide.
fn an_unknown_hop_by_hop_option_acts_as_its_type_says(setup: Setup) {
    let rig = setup.start();
    rig.forwards(&[with_hop_by_hop(0x1e)]);
    rig.ignores(&[with_hop_by_hop(0x5e)]);
    for kind in [0x9e, 0xde] {
        let error = rig.refuses(&with_hop_by_hop(kind));
        assert_eq!(error.kind, (4, 2), "{error:?}");
        // The pointer is the offset of the option's type.
        assert_eq!(error.rest, [0, 0, 0, 42], "{error:?}");
    }
}

fn an_unknown_hop_by_hop_option_to_a_group_is_answered_only_if_its_type_says_so(setup: Setup) {
    let rig = setup.start();
    let send = |kind| {
        let packet = with_hop_by_hop(kind).with(|packet| packet.dst = ip("ff0e::1234"));
        // The transport checksum would cover the destination, but no host checks it.
        rig.a.send_frame(&Frame { dst: [0x33, 0x33, 0, 0, 0x12, 0x34], ..rig.a.frame(&packet) });
    };
    for kind in [0x1e, 0x5e, 0xde] {
        send(kind);
        rig.is_silent();
    }
    send(0x9e);
    assert_eq!(rig.only_error().kind, (4, 2));
}

/// The known options are padding and router alert (RFC 2711).
fn a_hop_by_hop_header_with_known_options_is_forwarded(setup: Setup) {
    let rig = setup.start();
    let with = |header: &[u8]| {
        Packet::udp(v6().a, v6().b, b"known")
            .with(|packet| packet.extension = Some((HOP_BY_HOP, header.to_vec())))
    };
    rig.forwards(&[with(&[0, 0, 1, 4, 0, 0, 0, 0]), with(&[0, 0, 5, 2, 0, 0, 1, 0])]);
    // Single bytes of padding, and an option that must be skipped; 16 bytes in total.
    rig.forwards(&[with(&[0, 1, 0, 0, 0x1e, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0])]);
}

/// Destination options with an unknown type, a routing header with segments left, an unknown
/// extension header, and an authentication header (RFC 8200, section 4.1).
fn headers_for_the_destination_are_left_to_it(setup: Setup) {
    let rig = setup.start();
    let packet =
        |proto, header: &[u8]| Packet::new(v6().a, v6().b, proto, [header, &[5; 32]].concat());
    rig.forwards(&[
        packet(60, &[17, 0, 0xde, 4, 0, 0, 0, 0]),
        packet(43, &[17, 2, 0, 1, 0, 0, 0, 0]),
        packet(254, &[17, 0, 0, 0, 0, 0, 0, 0]),
        packet(51, &[17, 4, 0, 0, 0, 0, 0, 1]),
    ]);
}

fn a_hop_by_hop_header_beyond_the_packet_is_dropped(setup: Setup) {
    let rig = setup.start();
    for len in [9, 255] {
        let mut packet = with_hop_by_hop(1);
        let mut frame = rig.a.frame(&packet);
        frame.body[41] = len;
        rig.a.send_frame(&frame);
        packet.payload.clear();
        packet.extension = Some((HOP_BY_HOP, vec![0; 4]));
        rig.a.send(&packet);
    }
    let seen = rig.observe([0; 3]);
    assert_eq!(seen.b, []);
}
