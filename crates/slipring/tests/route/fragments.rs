//! Tests of packets longer than the MTU of the next link or of the route: fragments, "fragmentation
//! needed" and "too big".

use crate::packet::{DF, FRAGMENT, MF, Packet};
use crate::rig::{Rig, Setup, families, ip, v4, v6};

checks! {
    a_packet_with_df_is_answered_with_the_mtu_of_the_next_hop,
    a_packet_of_just_the_mtu_passes,
    a_packet_without_df_is_fragmented,
    a_packet_may_need_many_fragments,
    fragments_are_fragmented_again_with_their_offsets_and_mf,
    a_fragment_that_fits_passes_untouched,
    options_go_into_the_fragments_by_their_copied_flag,
    fragments_have_one_hop_fewer_and_the_class_of_the_packet,
    an_ipv6_packet_is_never_fragmented,
    an_ipv6_fragment_passes_untouched,
    the_mtu_of_a_route_counts,
    the_mtu_of_the_ingress_link_does_not_count,
    a_change_of_the_mtu_takes_effect,
}

/// A router whose link to B has this MTU.
fn with_mtu(setup: Setup, mtu: u32) -> Rig {
    let setup = setup.ip(&format!("link set e1 mtu {mtu}"));
    if mtu < 1280 { setup.without_ipv6().start() } else { setup.start() }
}

/// UDP from A to B in a packet of `len` bytes.
fn of_length(len: usize, v6_family: bool) -> Packet {
    let (net, headers) = if v6_family { (v6(), 48) } else { (v4(), 28) };
    let data: Vec<_> = (0..len - headers).map(|i| (i / 7) as u8).collect();
    Packet::udp(net.a, net.b, &data)
}

/// Path MTU discovery (RFC 1191, RFC 8201) needs these answers.
fn a_packet_with_df_is_answered_with_the_mtu_of_the_next_hop(setup: Setup) {
    let rig = with_mtu(setup, 1400);
    for len in [1401, 1500] {
        let error = rig.refuses(&of_length(len, false).with(|packet| packet.fragment = DF));
        assert_eq!((error.kind, error.mtu()), ((3, 4), 1400), "{error:?}");
    }
}

fn a_packet_of_just_the_mtu_passes(setup: Setup) {
    let rig = with_mtu(setup, 1400);
    rig.forwards(&[
        of_length(1400, false),
        of_length(1400, false).with(|packet| packet.fragment = DF),
        of_length(1400, true),
    ]);
}

/// Returns the fragments of a packet without options, which may itself be a fragment (RFC 791,
/// section 3.2).
fn fragments(packet: &Packet, mtu: usize) -> Vec<Packet> {
    let room = (mtu - 20) / 8 * 8;
    let count = packet.payload.len().div_ceil(room);
    let pieces = packet.payload.chunks(room).enumerate();
    pieces
        .map(|(i, piece)| {
            let more = if i + 1 < count { MF } else { packet.fragment & MF };
            let offset = (packet.fragment & 0x1fff) + (i * room / 8) as u16;
            packet.forwarded().with(|fragment| {
                fragment.fragment = more | offset;
                fragment.payload = piece.to_vec();
            })
        })
        .collect()
}

fn a_packet_without_df_is_fragmented(setup: Setup) {
    let rig = with_mtu(setup, 1400);
    let packet = of_length(1460, false);
    let expected = fragments(&packet, 1400);
    assert_eq!(expected.iter().map(|f| f.payload.len()).collect::<Vec<_>>(), [1376, 64]);
    rig.a.send(&packet);
    rig.only_b_receives(&expected);
}

fn a_packet_may_need_many_fragments(setup: Setup) {
    let rig = with_mtu(setup, 68);
    let packet = of_length(1500, false);
    rig.a.send(&packet);
    let expected = fragments(&packet, 68);
    assert_eq!(expected.len(), 31);
    rig.only_b_receives(&expected);
}

fn fragments_are_fragmented_again_with_their_offsets_and_mf(setup: Setup) {
    let rig = with_mtu(setup, 600);
    for (offset, len) in [(MF, 1480), (185 | MF, 1480), (370, 777)] {
        let fragment = Packet::new(v4().a, v4().b, 17, vec![offset as u8; len])
            .with(|packet| packet.fragment = offset);
        rig.a.send(&fragment);
        rig.only_b_receives(&fragments(&fragment, 600));
    }
}

fn a_fragment_that_fits_passes_untouched(setup: Setup) {
    let rig = with_mtu(setup, 1400);
    let fragment = |offset| {
        Packet::new(v4().a, v4().b, 17, vec![2; 800]).with(|packet| packet.fragment = offset)
    };
    rig.forwards(&[fragment(MF), fragment(100 | MF), fragment(200)]);
}

/// RFC 791, section 3.1: an option with the copied flag is in all fragments, other options only in
/// the first.
fn options_go_into_the_fragments_by_their_copied_flag(setup: Setup) {
    let rig = with_mtu(setup, 600);
    // Type 30 (experimental, RFC 4727) does not have the copied flag; type 158 has it.
    let options = [30, 4, 1, 2, 158, 4, 3, 4];
    let packet = of_length(1000, false).with(|packet| packet.options = options.to_vec());
    rig.a.send(&packet);
    let seen = rig.observe([0, 2, 0]);
    assert_eq!(seen.a, []);
    let arrived: Vec<_> = seen.b.into_iter().map(|arrival| arrival.packet).collect();
    assert_eq!(arrived[0].options, options);
    assert!(arrived.len() >= 2);
    for later in &arrived[1..] {
        // In place of the option that is not copied, there may be no-operations, or nothing.
        let rest: Vec<_> = later.options.iter().copied().filter(|&byte| byte != 1).collect();
        assert_eq!(rest, options[4..], "{later:?}");
    }
    let data: Vec<_> = arrived.iter().flat_map(|fragment| fragment.payload.clone()).collect();
    assert_eq!(data, packet.payload);
}

fn fragments_have_one_hop_fewer_and_the_class_of_the_packet(setup: Setup) {
    let rig = with_mtu(setup, 600);
    let packet = of_length(1200, false).hops(9).with(|packet| packet.class = 0xb9);
    rig.a.send(&packet);
    rig.only_b_receives(&fragments(&packet, 600));
}

/// Only the source may fragment an IPv6 packet (RFC 8200, section 4.5). The router answers with
/// "packet too big" (RFC 4443, section 3.2).
fn an_ipv6_packet_is_never_fragmented(setup: Setup) {
    let rig = with_mtu(setup, 1400);
    for len in [1401, 1500] {
        let error = rig.refuses(&of_length(len, true));
        assert_eq!((error.kind, error.mtu()), ((2, 0), 1400), "{error:?}");
    }
}

fn an_ipv6_fragment_passes_untouched(setup: Setup) {
    let rig = setup.start();
    let fragment = |offset: u16| {
        let [high, low] = offset.to_be_bytes();
        Packet::new(v6().a, v6().b, 17, vec![4; 1024])
            .with(|packet| packet.extension = Some((FRAGMENT, vec![0, 0, high, low, 1, 2, 3, 4])))
    };
    rig.forwards(&[fragment(1), fragment(1024 | 1), fragment(2048)]);
}

fn the_mtu_of_a_route_counts(setup: Setup) {
    let rig = setup
        .ip("route add 10.63.0.0/16 via 10.3.0.2 mtu 1300
             route add fd63::/64 via fd03::2 mtu 1300")
        .start();
    for (net, to) in families().iter().zip(["10.63.0.9", "fd63::9"]) {
        let (headers, fragment) = if net.a.is_ipv4() { (28, DF) } else { (48, 0) };
        let of_length = |len: usize| {
            let packet = Packet::udp(net.a, ip(to), &vec![6; len - headers]);
            packet.with(|packet| packet.fragment = fragment)
        };
        rig.forwards(&[of_length(1300)]);
        let error = rig.refuses(&of_length(1301));
        let kind = if net.a.is_ipv4() { (3, 4) } else { (2, 0) };
        assert_eq!((error.kind, error.mtu()), (kind, 1300), "{error:?}");
    }
}

/// A host may send larger packets than our interface would.
fn the_mtu_of_the_ingress_link_does_not_count(setup: Setup) {
    let rig = setup.ip("link set e0 mtu 1400").start();
    rig.forwards(&[of_length(1400, false), of_length(1400, true)]);
}

fn a_change_of_the_mtu_takes_effect(setup: Setup) {
    let rig = setup.start();
    let long = of_length(1500, false).with(|packet| packet.fragment = DF);
    rig.forwards(std::slice::from_ref(&long));
    rig.ip("link set e1 mtu 1280");
    rig.until(|| {
        rig.a.send(&long);
        let seen = rig.observe([0; 3]);
        (seen.b.is_empty() && seen.a.len() == 1).then_some(())
    });
    rig.ip("link set e1 mtu 1500");
    rig.until(|| {
        rig.a.send(&long);
        (rig.observe([0; 3]).b.len() == 1).then_some(())
    });
}
