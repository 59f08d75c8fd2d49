//! Tests that frames which no host would send are dropped and counted, without a panic.

use proptest::prelude::*;

use super::*;
use crate::packet::MalformedReason;

fn dropped_as(kind: MalformedReason, frame: Vec<u8>) {
    let mut fixture = Fixture::new("add 100 allow ip from any to any");
    assert_eq!(fixture.check(frame), RuleVerdict::Deny(DenyReason::Malformed(kind)));
    assert_eq!((fixture.firewall.malformed().of(kind), fixture.count(100)), (1, 0));
}

#[test]
fn frames_with_headers_that_cannot_be_believed_are_dropped_by_cause() {
    dropped_as(MalformedReason::ShortLink, udp()[..13].to_vec());
    dropped_as(MalformedReason::ShortIp, udp()[..30].to_vec());
    dropped_as(MalformedReason::ShortIp, udp6()[..50].to_vec());
    dropped_as(MalformedReason::Version, v4_with(&udp(), |ip| ip[0] = 0x65));
    dropped_as(MalformedReason::HeaderLength, v4_with(&udp(), |ip| ip[0] = 0x44));
    dropped_as(MalformedReason::TotalLength, v4_with(&udp(), |ip| ip[3] = 19));
    dropped_as(MalformedReason::ShortTransport, udp()[..40].to_vec());
    dropped_as(MalformedReason::ShortTransport, tcp(2)[..50].to_vec());
    dropped_as(MalformedReason::ShortTransport, v4_with(&tcp(2), |ip| ip[3] = 30));
    dropped_as(MalformedReason::TinyFragment, v4_with(&tcp(2), |ip| ip[7] = 1));
    let mut endless = udp6();
    endless[20] = 0;
    endless.truncate(54);
    dropped_as(MalformedReason::Extensions, endless.clone());
    endless.extend([0; 400]);
    endless[18..20].copy_from_slice(&400_u16.to_be_bytes());
    dropped_as(MalformedReason::Extensions, endless);
    let mut no_offset = tcp(2);
    no_offset[46] = 0;
    dropped_as(MalformedReason::ShortTransport, no_offset);
}

#[test]
fn a_second_fragment_that_starts_late_enough_is_fine() {
    let mut fixture = Fixture::new("add 100 allow ip from any to any");
    assert!(
        fixture.passes(v4_with(&tcp(2), |ip| ip[7] = 2))
            && fixture.passes(v4_with(&udp(), |ip| ip[7] = 1))
    );
}

/// Rules that test most fields, and rules that change or answer packets.
const CURIOUS: &str = "table t create\ntable t add 10.0.0.0/8 5 2001:db8::/32 6\ntable f create type flow\n\
    table n create type number\ntable m create type mac\n\
    add 10 count ip from any to any iplen 1-99 ipttl 1-9 ipid 5 iptos lowdelay ipoptions rr frag mf\n\
    add 20 count tcp from any to any tcpoptions mss,!ts tcpmss 1-9999 tcpdatalen 0-9 tcpwin 1-5 tcpseq 1\n\
    add 30 count ip from table(t) to any lookup dst-ip t lookup dscp:0x3 n flow table(f)\n\
    add 40 count ip from any to any ext6hdr frag,route,rthdr0 flow-id 5 icmp6types 1,135 icmptypes 8\n\
    add 50 count log ip from any to any MAC any any mac-type 0-65535 src-mac table(m) vlan 1-9\n\
    add 60 setdscp 9 ip from any to any\nadd 70 tcp-setmss 500 ip from any to any\n\
    add 72 reass ip from any to any\n\
    add 75 count log ip from any to any\n\
    add 80 prob 0.3 reject ip from any to any\nadd 81 prob 0.3 reset ip from any to any\n\
    add 82 prob 0.3 abort ip from any to any\nadd 83 prob 0.1 unreach6 port ip from any to any\n\
    add 90 allow ip from any to any limit src-addr 3 :x\nadd 95 allow ip from any to any keep-state";

/// Generates valid frames that are truncated or have some changed bytes, so that they pass most
/// checks.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let base = prop_oneof![
        Just(udp()),
        Just(tcp(2)),
        Just(ping()),
        Just(udp6()),
        Just(ping6()),
        Just(arp())
    ];
    let changes = proptest::collection::vec((12_usize..80, any::<u8>()), 0..6);
    (base, changes, 0_usize..70, any::<bool>()).prop_map(|(mut frame, changes, len, cut)| {
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        if cut {
            frame.truncate(len);
        }
        frame
    })
}

proptest! {
    #[test]
    fn damaged_frames_never_panic_and_are_all_counted(frames in proptest::collection::vec(damaged(), 1..30)) {
        let mut fixture = Fixture::new(CURIOUS);
        let count = frames.len() as u64;
        for frame in frames {
            let len = frame.len();
            let mut frame = frame;
            fixture.now += SECOND;
            fixture.cross(&mut frame, &mut PacketMetadata::incoming(0));
            prop_assert_eq!(frame.len(), len);
        }
        fixture.firewall.tick(fixture.now, &mut fixture.outputs);
        prop_assert_eq!(fixture.firewall.drops().checked, count);
        for emission in &fixture.outputs.frames {
            prop_assert!(crate::packet::PacketHeaders::parse(&emission.frame).is_ok());
        }
    }

    #[test]
    fn random_bytes_never_panic(frame in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut fixture = Fixture::new(CURIOUS);
        fixture.check(frame);
    }
}
