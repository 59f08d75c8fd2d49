//! Tests invariants for arbitrary traffic.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A packet from one of a few clients to one of a few servers.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let clients = prop::sample::select(vec![CLIENT, CLIENT_2, OWN, [10, 0, 0, 7]]);
    let servers = prop::sample::select(vec![SERVER, SERVER_2]);
    (clients, 1..6_u16, servers, 50..53_u16, 0..5).prop_map(|(src, from, dst, to, kind)| match kind
    {
        0 => udp((src, from), (dst, to)),
        1 => tcp((src, from), (dst, to), SYN),
        2 => echo(EchoKind::Request, src, dst, from),
        3 => bare(132, src, dst),
        _ => bare(47, src, dst),
    })
}

fn settings() -> impl Strategy<Value = NatConfig> {
    let redirect = Redirect {
        kind: RedirectKind::Ports { proto: IpProto::UDP, first: 50, count: 3 },
        targets: vec![NatEndpoint::new(CLIENT.into(), 1)],
        alias: [0; 4].into(),
        remote: RedirectRemote::ANY,
    };
    let address = Redirect {
        kind: RedirectKind::Address,
        targets: vec![NatEndpoint::new(CLIENT_2.into(), 0)],
        alias: OWN.into(),
        remote: RedirectRemote::ANY,
    };
    let redirects = prop::sample::subsequence(vec![redirect, address], 0..=2);
    let modes = prop::sample::subsequence(
        vec![NatMode::SamePorts, NatMode::DenyIn, NatMode::UnregOnly],
        0..=3,
    );
    (redirects, modes, prop::sample::select(vec![(50, 53), (1, 9), (100, 65535)])).prop_map(
        |(redirects, modes, ports)| NatConfig {
            outside: OutsideAddress::None,
            modes: modes.into_iter().fold(NatModes::default(), NatModes::with),
            ports: Some(ports),
            redirects,
        },
    )
}

/// Returns the answer to a packet, with source and destination swapped.
fn answer(packet: &[u8]) -> Vec<u8> {
    let ((src, from), (dst, to)) = ends(packet);
    match packet[9] {
        17 => udp((dst, to), (src, from)),
        6 => tcp((dst, to), (src, from), SYN_ACK),
        1 => echo(EchoKind::Reply, dst, src, from),
        proto => {
            let mut packet = bare(proto, dst, src);
            packet[20..24].copy_from_slice(&[0, 2, 0, 1]);
            packet
        }
    }
}

proptest! {
    #[test]
    fn what_goes_out_comes_back_as_it_was(
        settings in settings(),
        packets in prop::collection::vec((packet(), 0..40_u64), 1..80),
    ) {
        let mut fixture = Fixture::new(settings);
        for (packet, seconds) in packets {
            fixture.wait(seconds);
            let mut outside = packet.clone();
            if fixture.pass(&mut outside, NatDirection::Out) != NatOutcome::Translated {
                continue;
            }
            let mut back = answer(&outside);
            prop_assert_eq!(fixture.pass(&mut back, NatDirection::In), NatOutcome::Translated);
            prop_assert_eq!(back, answer(&packet));
        }
    }

    #[test]
    fn two_flows_never_share_a_tuple_on_either_side(
        settings in settings(),
        packets in prop::collection::vec((packet(), any::<bool>(), 0..40_u64), 1..120),
    ) {
        let mut fixture = Fixture::new(settings);
        for (packet, out, seconds) in packets {
            fixture.wait(seconds);
            let mut packet = if out { packet } else { answer(&packet) };
            fixture.pass(&mut packet, if out { NatDirection::Out } else { NatDirection::In });
            let (mut outside, mut inside) = (BTreeSet::new(), BTreeSet::new());
            for flow in fixture.nat.flows() {
                prop_assert!(outside.insert((flow.proto.0, flow.outside, flow.remote)));
                prop_assert!(inside.insert((flow.proto.0, flow.inside, flow.remote)));
            }
            let counters = fixture.nat.counters();
            prop_assert_eq!(counters.created - counters.ended, outside.len() as u64);
        }
    }

    #[test]
    fn no_bytes_are_too_odd(
        mut bytes in prop::collection::vec(any::<u8>(), 0..90),
        tidy in any::<bool>(),
        proto in prop::sample::select(vec![1, 6, 17, 132, 136, 33, 47]),
        kind in prop::sample::select(vec![3, 8, 11, 0, 5]),
        direction in prop::sample::select(vec![NatDirection::Out, NatDirection::In]),
    ) {
        if tidy && bytes.len() > 20 {
            (bytes[0], bytes[9], bytes[20]) = (0x45, proto, kind);
            bytes[6] &= 0x20;
            if bytes.len() > 28 && proto == 1 {
                bytes[28] = 0x45;
            }
        }
        let mut fixture = Fixture::new(NatConfig::default());
        let before = bytes.clone();
        let outcome = fixture.nat.translate(&mut bytes, direction, NatScope::All, 0);
        if outcome != NatOutcome::Translated {
            prop_assert_eq!(bytes, before);
        }
    }

    #[test]
    fn checksums_follow_any_payload(
        payload in prop::collection::vec(any::<u8>(), 0..40),
        src in any::<[u8; 4]>(),
        from in any::<u16>(),
        is_tcp in any::<bool>(),
    ) {
        let ports = PortPair { src: from, dst: 80 };
        let l4 = if is_tcp {
            L4Spec::Tcp(TcpSpec { ports, ..Default::default() })
        } else {
            L4Spec::Udp(ports)
        };
        let mut packet = l4_packet(src, SERVER, l4);
        let (at, len) = (packet.len() - 9, payload.len().min(9));
        packet[at..at + len].copy_from_slice(&payload[..len]);
        let (sum_at, proto) = if is_tcp { (36, IpProto::TCP) } else { (26, IpProto::UDP) };
        packet[sum_at..sum_at + 2].fill(0);
        let l4_len = (packet.len() - 20) as u32;
        let pseudo = Sum::pseudo_v4(src.into(), SERVER.into(), proto, l4_len);
        let sum = pseudo.bytes(&packet[20..]).checksum();
        let sum = if is_tcp { sum } else { checksum::nonzero(sum) };
        packet[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
        let mut fixture = Fixture::new(NatConfig::default());
        prop_assert_eq!(fixture.pass(&mut packet, NatDirection::Out), NatOutcome::Translated);
    }
}
