//! Passes arbitrary packets through a translator in both directions. A packet that is not
//! translated must stay unchanged, and no two flows may share a tuple.
//!
//! The first byte selects settings. Packets follow, each preceded by a byte with its length and its
//! direction. A packet's bytes are used as they are, or change a well-formed packet.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use slipring_nat::{
    NatConfig, NatDirection, NatEndpoint, NatMode, NatModes, NatOutcome, NatScope, OutsideAddress,
    Redirect, RedirectKind, RedirectRemote, Translator,
};

fuzz_target!(|data: &[u8]| {
    let Some((&picks, mut rest)) = data.split_first() else { return };
    let mut nat = Translator::new(settings(picks), 7);
    let mut now_ns = 0;
    while let Some((&how, after)) = rest.split_first() {
        let (bytes, after) = after.split_at(usize::from(how >> 1).min(after.len()));
        rest = after;
        now_ns += 5_000_000_000;
        let way = if how & 1 == 0 { NatDirection::Out } else { NatDirection::In };
        let before = packet(bytes);
        let mut packet = before.clone();
        if nat.translate(&mut packet, way, NatScope::All, now_ns) != NatOutcome::Translated {
            assert_eq!(packet, before);
        }
        let (mut outside, mut inside) = (BTreeSet::new(), BTreeSet::new());
        for flow in nat.flows() {
            assert!(outside.insert((flow.proto.0, flow.outside, flow.remote)));
            assert!(inside.insert((flow.proto.0, flow.inside, flow.remote)));
        }
    }
});

/// Returns `bytes` if the lowest bit of their first byte is set; otherwise a well-formed UDP packet
/// over IPv4, XORed with `bytes`.
fn packet(bytes: &[u8]) -> Vec<u8> {
    if bytes.first().is_some_and(|first| first & 1 == 1) {
        return bytes.to_vec();
    }
    let mut packet = vec![0; 60];
    (packet[0], packet[3], packet[9], packet[12], packet[16]) = (0x45, 60, 17, 10, 192);
    packet.iter_mut().zip(bytes).for_each(|(byte, change)| *byte ^= change);
    packet
}

fn settings(picks: u8) -> NatConfig {
    let redirect = Redirect {
        kind: RedirectKind::Ports {
            proto: slipring_wire::assigned::IpProto::UDP,
            first: 0,
            count: 9,
        },
        targets: vec![
            NatEndpoint::new([10, 0, 0, 0].into(), 5),
            NatEndpoint::new([10, 0, 0, 1].into(), 5),
        ],
        alias: [192, 0, 0, 0].into(),
        remote: RedirectRemote::ANY,
    };
    let address = Redirect { kind: RedirectKind::Address, ..redirect.clone() };
    let modes = NatMode::ALL.iter().enumerate().filter(|(bit, _)| picks >> (bit % 8) & 1 == 1);
    NatConfig {
        outside: OutsideAddress::Address([192, 0, 0, 0].into()),
        modes: modes.map(|(_, (_, mode))| *mode).fold(NatModes::default(), NatModes::with),
        ports: (picks & 1 == 1).then_some((4, 9)),
        redirects: if picks & 2 == 2 { vec![redirect, address] } else { Vec::new() },
    }
}
