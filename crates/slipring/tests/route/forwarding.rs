//! Tests of one hop: which fields of a packet change, and which malformed packets are dropped.

use crate::packet::{DF, Packet, UDP, seal};
use crate::rig::{Setup, families, ip, v4, v6};

checks! {
    a_packet_arrives_with_one_hop_fewer_and_the_macs_of_the_next_link,
    packets_pass_both_ways_at_once_and_in_order,
    dscp_and_ecn_pass_unchanged,
    a_flow_label_passes_unchanged,
    the_identification_and_df_pass_unchanged,
    every_protocol_passes,
    every_length_up_to_the_mtu_passes,
    a_checksum_that_is_wrong_above_ip_is_not_the_routers_business,
    header_checksums_stay_valid_where_the_sum_wraps,
    ttl_2_is_forwarded_as_1_and_255_as_254,
    a_trailer_is_removed,
    padding_of_a_short_frame_is_not_taken_for_data,
    a_wrong_header_checksum_is_dropped,
    a_header_of_fewer_than_20_bytes_is_dropped,
    a_wrong_version_is_dropped,
    a_total_length_shorter_than_the_header_is_dropped,
    a_total_length_beyond_the_frame_is_dropped,
    an_ipv6_payload_length_beyond_the_frame_is_dropped,
    a_frame_that_ends_inside_the_header_is_dropped,
    malformed_packets_between_good_ones_cost_none_of_them,
}

fn a_packet_arrives_with_one_hop_fewer_and_the_macs_of_the_next_link(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        rig.forwards(&[Packet::udp(net.a, net.b, b"hello")]);
    }
}

fn packets_pass_both_ways_at_once_and_in_order(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        let numbered = |src, dst| move |number: u16| Packet::udp(src, dst, &number.to_be_bytes());
        let (out, back): (Vec<_>, Vec<_>) =
            (0..100).map(|i| (numbered(net.a, net.b)(i), numbered(net.b, net.a)(i))).unzip();
        for (packet, answer) in out.iter().zip(&back) {
            rig.a.send(packet);
            rig.b.send(answer);
        }
        let seen = rig.observe([100, 100, 0]);
        for (arrivals, sent) in [(seen.b, out), (seen.a, back)] {
            let got: Vec<_> = arrivals.into_iter().map(|arrival| arrival.packet).collect();
            assert_eq!(got, sent.iter().map(Packet::forwarded).collect::<Vec<_>>());
        }
    }
}

/// A router that does not mark packets leaves DSCP (RFC 2474) and ECN (RFC 3168) unchanged.
fn dscp_and_ecn_pass_unchanged(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        let packets: Vec<_> = (0..=255)
            .map(|class| Packet::udp(net.a, net.b, &[class]).with(|packet| packet.class = class))
            .collect();
        rig.forwards(&packets);
    }
}

/// Flow labels must arrive unchanged (RFC 6437).
fn a_flow_label_passes_unchanged(setup: Setup) {
    let (rig, net) = (setup.start(), v6());
    let labelled = |flow| Packet::udp(net.a, net.b, b"flow").with(|packet| packet.flow = flow);
    rig.forwards(&[1, 0x12345, 0xf_ffff].map(labelled));
}

fn the_identification_and_df_pass_unchanged(setup: Setup) {
    let (rig, net) = (setup.start(), v4());
    let packets = [(0, 0), (0xffff, DF), (1, DF)].map(|(id, fragment)| {
        Packet::udp(net.a, net.b, b"id").with(|packet| {
            packet.id = id;
            packet.fragment = fragment;
        })
    });
    rig.forwards(&packets);
}

/// TCP, GRE, ESP, OSPF, SCTP, UDP-Lite, "no next header", a number that is not assigned, one for
/// experiments, and ICMP.
fn every_protocol_passes(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        let packets = [6, 47, 50, 59, 89, 132, 136, 200, 253]
            .map(|proto| Packet::new(net.a, net.b, proto, vec![proto; 32]));
        rig.forwards(&packets);
        rig.forwards(&[Packet::echo(net.a, net.b, 1)]);
    }
}

fn every_length_up_to_the_mtu_passes(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        let longest = 1500 - if net.a.is_ipv4() { 28 } else { 48 };
        let lengths = (0..40).chain([511, 512, 1000, longest - 1, longest]);
        let packets: Vec<_> =
            lengths.map(|len| Packet::udp(net.a, net.b, &vec![0xa5; len])).collect();
        rig.forwards(&packets);
    }
    // An IPv4 packet may consist of its header only.
    let net = v4();
    rig.forwards(&[Packet::new(net.a, net.b, 200, Vec::new())]);
}

fn a_checksum_that_is_wrong_above_ip_is_not_the_routers_business(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        let packet = Packet::udp(net.a, net.b, b"broken");
        let mut broken = packet.clone();
        broken.payload[6] ^= 0x55;
        rig.a.send(&broken);
        // The parser would reject the wrong checksum, so only the bytes are compared.
        let bytes = broken.forwarded().bytes();
        rig.b.receive("the packet with its checksum", |frame| {
            frame.body.starts_with(&bytes).then_some(())
        });
    }
}

/// A router may update the checksum instead of computing it (RFC 1624). The test covers checksums
/// with all values of the upper byte, and two at which the update wraps.
fn header_checksums_stay_valid_where_the_sum_wraps(setup: Setup) {
    let (rig, net) = (setup.start(), v4());
    let numbered = |id: u16| {
        Packet::new(net.a, net.b, 200, vec![7; 8])
            .with(|packet| packet.id = id)
            .hops(2 + id as u8 % 9)
    };
    // The 512 identifications, from 0 in steps of 128, have all values of the upper byte. So have
    // their checksums.
    for block in 0..8 {
        let packets: Vec<_> = (0..64).map(|i| numbered((block * 64 + i) * 128)).collect();
        rig.forwards(&packets);
    }
    let checksum = |packet: &Packet| u16::from_be_bytes([packet.bytes()[10], packet.bytes()[11]]);
    let zero = (0..=u16::MAX).map(numbered).find(|packet| checksum(packet) == 0).unwrap();
    let wraps = (0..=u16::MAX).map(numbered).find(|packet| checksum(packet) == 0xfeff).unwrap();
    rig.forwards(&[zero, wraps]);
}

fn ttl_2_is_forwarded_as_1_and_255_as_254(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        rig.forwards(&[2, 255].map(|hops| Packet::udp(net.a, net.b, b"hops").hops(hops)));
    }
}

fn a_trailer_is_removed(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        // One packet that is longer than the shortest frame, and one that, with IPv4, is not.
        for data in [&[1; 100][..], &[1; 2]] {
            let packet = Packet::udp(net.a, net.b, data);
            let frame = rig.a.frame(&packet).bytes();
            rig.a.send_bytes(&[&frame[..], &[0xee; 30]].concat());
            rig.only_b_receives(&[packet.forwarded()]);
        }
    }
}

fn padding_of_a_short_frame_is_not_taken_for_data(setup: Setup) {
    let (rig, net) = (setup.start(), v4());
    let packet = Packet::new(net.a, net.b, 200, vec![1; 5]);
    let mut frame = rig.a.frame(&packet).bytes();
    frame[14 + 25..].fill(0xee);
    rig.a.send_bytes(&frame);
    rig.only_b_receives(&[packet.forwarded()]);
}

/// Sends these packets from A to B, with their bytes changed by `damage`. Asserts that the router
/// sends nothing.
fn is_dropped(setup: Setup, packets: &[Packet], damage: impl Fn(&mut Vec<u8>)) {
    let rig = setup.start();
    for packet in packets {
        let mut frame = rig.a.frame(packet);
        damage(&mut frame.body);
        rig.a.send_frame(&frame);
        rig.is_silent();
    }
}

fn to_b4() -> Packet {
    Packet::udp(v4().a, v4().b, &[3; 64])
}

fn to_b6() -> Packet {
    Packet::udp(v6().a, v6().b, &[3; 64])
}

fn a_wrong_header_checksum_is_dropped(setup: Setup) {
    is_dropped(setup, &[to_b4(), to_b4().hops(1)], |packet| packet[10] ^= 1);
}

fn a_header_of_fewer_than_20_bytes_is_dropped(setup: Setup) {
    is_dropped(setup, &[to_b4()], |packet| {
        packet[0] = 0x44;
        seal(&mut packet[..16]);
    });
}

fn a_wrong_version_is_dropped(setup: Setup) {
    is_dropped(setup, &[to_b4(), to_b6()], |packet| {
        packet[0] ^= 0x10;
        if packet[0] == 0x55 {
            seal(&mut packet[..20]);
        }
    });
}

fn a_total_length_shorter_than_the_header_is_dropped(setup: Setup) {
    is_dropped(setup, &[to_b4()], |packet| {
        packet[2..4].copy_from_slice(&[0, 19]);
        seal(&mut packet[..20]);
    });
}

fn a_total_length_beyond_the_frame_is_dropped(setup: Setup) {
    is_dropped(setup, &[to_b4()], |packet| {
        packet[3] += 1;
        seal(&mut packet[..20]);
    });
}

fn an_ipv6_payload_length_beyond_the_frame_is_dropped(setup: Setup) {
    is_dropped(setup, &[to_b6()], |packet| packet[5] += 1);
}

fn a_frame_that_ends_inside_the_header_is_dropped(setup: Setup) {
    let rig = setup.start();
    for packet in [to_b4(), to_b6()] {
        let frame = rig.a.frame(&packet).bytes();
        let header_len = if packet.src.is_ipv4() { 20 } else { 40 };
        for len in [1, 8, header_len - 1] {
            rig.a.send_bytes(&frame[..14 + len]);
        }
        rig.is_silent();
    }
}

/// netmap-fwd ended its receive loop at the first malformed packet.
fn malformed_packets_between_good_ones_cost_none_of_them(setup: Setup) {
    let rig = setup.start();
    let good: Vec<_> = (0..64u8).map(|i| Packet::udp(v4().a, v4().b, &[i])).collect();
    for packet in &good {
        let mut bad = rig.a.frame(packet);
        bad.body[11] ^= 1;
        rig.a.send_frame(&bad);
        rig.a.send(packet);
        rig.a.send(&Packet::new(ip("127.0.0.1"), v4().b, UDP, vec![0; 8]));
    }
    let expected: Vec<_> = good.iter().map(Packet::forwarded).collect();
    rig.only_b_receives(&expected);
}
