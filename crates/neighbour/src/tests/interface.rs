//! Tests of the interface: which senders it answers, which claims it accepts, and which requests it
//! sends.

use super::messages::{SOURCE_MAC, TARGET_MAC, icmpv6, neighbour};
use super::*;
use crate::nd::{NdKind, NdMessage};
use crate::{HoldDropCause, Subnet};
use crate::{NeighbourInput, NeighbourInterface, NeighbourOutput, NeighbourRole, NeighbourState};
use proptest::prelude::*;
use std::vec;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn new() -> NeighbourInterface<u32> {
    let subnets = [("10.0.0.1", 24), ("fd00::1", 64)].map(|(a, len)| Subnet::new(ip(a), len));
    let subnets = subnets.into_iter().map(Result::unwrap).collect();
    let role = NeighbourRole::Router;
    NeighbourInterface::new(OWN, subnets, role, NeighbourLimits::default(), 7)
}

/// Returns an ARP frame from the host with the MAC address 02:…:09.
fn arp(operation: u8, sender: [u8; 4], target_mac: [u8; 6], target: [u8; 4]) -> Vec<u8> {
    let head = [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0];
    let body = [&[operation, 2, 0, 0, 0, 0, 9][..], &sender, &target_mac, &target];
    [&head[..], &body.concat()].concat()
}

fn nd(packet: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd][..], packet].concat()
}

fn messages(interface: &mut NeighbourInterface<u32>) -> Vec<Vec<u8>> {
    let outputs = core::iter::from_fn(|| interface.pop());
    outputs
        .filter_map(|output| match output {
            NeighbourOutput::Message(frame) => Some(frame),
            _ => None,
        })
        .collect()
}

fn state(interface: &NeighbourInterface<u32>, host: &str) -> Option<NeighbourState> {
    interface.cache().get(ip(host), 0).map(|view| view.state)
}

#[test]
fn a_request_for_an_own_address_is_answered_and_its_sender_is_known_then() {
    let mut interface = new();
    let request = arp(1, [10, 0, 0, 9], [0; 6], [10, 0, 0, 1]);
    assert_eq!(interface.receive(&request, 0), NeighbourInput::Handled);
    let answers = messages(&mut interface);
    let [answer] = &answers[..] else { panic!("one answer: {answers:?}") };
    assert_eq!((&answer[..6], &answer[6..12]), (&mac(9).0[..], &OWN.0[..]));
    assert_eq!(answer[20..32], [0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
    assert_eq!(answer[32..42], [2, 0, 0, 0, 0, 9, 10, 0, 0, 9]);
    assert_eq!(interface.resolve(ip("10.0.0.9"), 0), Some(mac(9)));
}

#[test]
fn requests_for_others_are_not_answered_and_make_no_entry() {
    let mut interface = new();
    interface.receive(&arp(1, [10, 0, 0, 9], [0; 6], [10, 0, 0, 77]), 0);
    interface.receive(&arp(2, [10, 0, 0, 9], mac(5).0, [10, 0, 0, 5]), 0);
    // First an announcement, then a reply from a host in another subnet.
    interface.receive(&arp(1, [10, 0, 0, 9], [0; 6], [10, 0, 0, 9]), 0);
    interface.receive(&arp(2, [10, 9, 0, 9], OWN.0, [10, 0, 0, 1]), 0);
    interface.receive(
        &nd(&icmpv6(
            "fd00::9",
            "ff02::1:ff00:77",
            255,
            &neighbour(135, 0, "fd00::77", &SOURCE_MAC),
        )),
        0,
    );
    assert!(messages(&mut interface).is_empty() && interface.cache().is_empty());
}

#[test]
fn a_probe_for_an_own_address_is_answered_and_teaches_nothing() {
    let mut interface = new();
    interface.receive(&arp(1, [0; 4], [0; 6], [10, 0, 0, 1]), 0);
    let answers = messages(&mut interface);
    assert_eq!(answers[0][20..22], [0, 2]);
    assert!(interface.cache().is_empty());
}

#[test]
fn a_host_that_uses_an_own_address_is_noticed_and_not_believed() {
    let mut interface = new();
    interface.receive(&arp(2, [10, 0, 0, 1], OWN.0, [10, 0, 0, 1]), 0);
    let advert = neighbour(136, 0x20, "fd00::1", &TARGET_MAC);
    interface.receive(&nd(&icmpv6("fd00::1", "ff02::1", 255, &advert)), 0);
    assert_eq!(interface.conflicts(), 2);
    assert!(interface.cache().is_empty() && messages(&mut interface).is_empty());
    // An interface that receives its own message reports no conflict.
    let request = crate::arp::ArpPacket::announcement(OWN, [10, 0, 0, 1].into());
    interface.receive(&request.frame(MacAddr::BROADCAST), 0);
    assert_eq!(interface.conflicts(), 2);
}

#[test]
fn only_an_answer_to_a_question_makes_a_neighbour_reachable() {
    let mut interface = new();
    let reply = arp(2, [10, 0, 0, 9], OWN.0, [10, 0, 0, 1]);
    interface.receive(&reply, 0);
    assert_eq!(state(&interface, "10.0.0.9"), Some(NeighbourState::Stale), "there was no question");
    interface.hold(ip("10.0.0.9"), 1, 60, 0).unwrap();
    interface.hold(ip("10.0.0.8"), 2, 60, 0).unwrap();
    let asked = messages(&mut interface);
    assert_eq!(asked.len(), 1, "a stale neighbour is used");
    assert_eq!(
        asked[0][20..42],
        [0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 8]
    );
    interface.receive(&arp(2, [10, 0, 0, 8], OWN.0, [10, 0, 0, 1]), 0);
    assert_eq!(state(&interface, "10.0.0.8"), Some(NeighbourState::Reachable));
}

#[test]
fn a_solicitation_is_answered_with_the_flags_of_the_rfc() {
    let mut interface = new();
    let ask = |source: &str, to: &str, options: &[u8]| {
        nd(&icmpv6(source, to, 255, &neighbour(135, 0, "fd00::1", options)))
    };
    for (frame, to_mac, to, flags) in [
        // RFC 4861, 7.2.4: the answer goes to the source. It has the router, solicited and override
        // flags.
        (ask("fd00::9", "ff02::1:ff00:1", &SOURCE_MAC), mac(9), "fd00::9", 0xe0),
        // A host that checks whether its address is unique gets the answer at the all-nodes
        // address.
        (ask("::", "ff02::1:ff00:1", &[]), MacAddr([0x33, 0x33, 0, 0, 0, 1]), "ff02::1", 0xa0),
        // A unicast solicitation may omit the sender's MAC address.
        (ask("fd00::9", "fd00::1", &[]), mac(9), "fd00::9", 0xe0),
        // Link-local sources are always on the link, so they are answered.
        (ask("fe80::9", "ff02::1:ff00:1", &SOURCE_MAC), mac(9), "fe80::9", 0xe0),
    ] {
        assert_eq!(interface.receive(&frame, 0), NeighbourInput::Handled);
        let answers = messages(&mut interface);
        let [answer] = &answers[..] else { panic!("one answer: {answers:?}") };
        let own = [2, 1, 2, 0, 0, 0, 0, 1];
        let expected = icmpv6("fd00::1", to, 255, &neighbour(136, flags, "fd00::1", &own));
        assert_eq!((&answer[..6], &answer[14..]), (&to_mac.0[..], &expected[..]));
    }
    interface.receive(&ask("fd77::9", "ff02::1:ff00:1", &SOURCE_MAC), 0);
    assert!(messages(&mut interface).is_empty(), "it is not on the link");
}

#[test]
fn an_address_is_asked_for_at_its_group_and_a_stale_one_at_its_host() {
    let mut interface = new();
    interface.hold(ip("fd00::9"), 1, 60, 0).unwrap();
    let asked = messages(&mut interface);
    assert_eq!(asked[0][..6], [0x33, 0x33, 0xff, 0, 0, 9]);
    let own = [1, 1, 2, 0, 0, 0, 0, 1];
    let expected = icmpv6("fd00::1", "ff02::1:ff00:9", 255, &neighbour(135, 0, "fd00::9", &own));
    assert_eq!(asked[0][14..], expected);
    let advert = neighbour(136, 0x60, "fd00::9", &TARGET_MAC);
    interface.receive(&nd(&icmpv6("fd00::9", "fd00::1", 255, &advert)), 1);
    let released = core::iter::from_fn(|| interface.pop())
        .any(|output| matches!(output, NeighbourOutput::Released { frame: 1, .. }));
    assert!(released);
    assert_eq!(interface.resolve(ip("fd00::9"), 60 * SECOND), Some(mac(9)));
    interface.tick(65 * SECOND);
    let probe = messages(&mut interface);
    let parsed = NdMessage::parse(&probe[0][14..]).unwrap().unwrap();
    assert_eq!((parsed.kind, &probe[0][..6]), (NdKind::Solicitation, &mac(9).0[..]));
}

#[test]
fn groups_need_no_question() {
    let mut interface = new();
    for (address, bytes) in [
        ("10.0.0.255", [0xff; 6]),
        ("255.255.255.255", [0xff; 6]),
        ("224.0.0.5", [1, 0, 0x5e, 0, 0, 5]),
        ("ff02::5", [0x33, 0x33, 0, 0, 0, 5]),
    ] {
        assert_eq!(interface.resolve(ip(address), 0), Some(MacAddr(bytes)));
    }
    assert!(messages(&mut interface).is_empty());
}

#[test]
fn an_interface_that_comes_up_announces_all_its_addresses() {
    let mut interface = new();
    interface.announce();
    let sent = messages(&mut interface);
    assert_eq!(sent[0][..6], [0xff; 6]);
    assert_eq!(sent[0][20..32], [0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
    let own = [2, 1, 2, 0, 0, 0, 0, 1];
    assert_eq!(
        sent[1][14..],
        icmpv6("fd00::1", "ff02::1", 255, &neighbour(136, 0xa0, "fd00::1", &own))
    );
}

#[test]
fn answers_that_nobody_fetches_do_not_pile_up() {
    let mut interface = new();
    let request = arp(1, [10, 0, 0, 9], [0; 6], [10, 0, 0, 1]);
    (0..1000).for_each(|_| _ = interface.receive(&request, 0));
    let given = messages(&mut interface).len() as u64;
    assert!(given < 500);
    assert_eq!(given + interface.unsent_answers(), 1000);
}

#[test]
fn frames_for_a_host_that_stays_silent_come_back() {
    let mut interface = new();
    interface.hold(ip("10.0.0.9"), 5, 60, 0).unwrap();
    (1..4).for_each(|second| interface.tick(second * SECOND));
    let lost = core::iter::from_fn(|| interface.pop()).last().unwrap();
    let (next_hop, cause) = (ip("10.0.0.9"), HoldDropCause::Unanswered);
    assert_eq!(lost, NeighbourOutput::Dropped { next_hop, frame: 5, cause });
    assert_eq!(interface.next_ns(), None);
}

#[test]
fn other_frames_are_the_callers() {
    let mut interface = new();
    for frame in [vec![], vec![0; 13], nd(&icmpv6("fd00::9", "fd00::1", 255, &[128; 16]))] {
        assert_eq!(interface.receive(&frame, 0), NeighbourInput::Other);
    }
    let bad = nd(&icmpv6("fd00::9", "fd00::1", 1, &neighbour(136, 0, "fd00::9", &TARGET_MAC)));
    assert!(matches!(interface.receive(&bad, 0), NeighbourInput::InvalidNd(_)));
    let mut bad = arp(1, [10, 0, 0, 9], [0; 6], [10, 0, 0, 1]);
    bad[22] = 1;
    assert!(matches!(interface.receive(&bad, 0), NeighbourInput::InvalidArp(_)));
}

#[test]
fn a_frame_with_a_vlan_tag_is_the_callers() {
    let mut interface = new();
    let mut tagged = arp(1, [10, 0, 0, 9], [0; 6], [10, 0, 0, 1]);
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    assert_eq!(interface.receive(&tagged, 0), NeighbourInput::Other);
}

proptest! {
    #[test]
    fn no_frames_make_it_panic_or_lose_a_frame(
        frames in prop::collection::vec((0..4u8, prop::collection::vec(any::<u8>(), 0..90)), 1..30)
    ) {
        let mut interface = new();
        let starts = [
            vec![],
            arp(1, [10, 0, 0, 9], [0; 6], [10, 0, 0, 1]),
            arp(2, [10, 0, 0, 9], OWN.0, [10, 0, 0, 1]),
            nd(&icmpv6("fd00::9", "fd00::1", 255, &neighbour(136, 0x60, "fd00::9", &TARGET_MAC))),
        ];
        for (now, (start, edits)) in (0..).zip(frames) {
            let mut frame = starts[usize::from(start)].clone();
            for (at, byte) in frame.iter_mut().rev().zip(&edits) {
                *at ^= byte & edits.first().unwrap_or(&0);
            }
            interface.receive(&frame, now * SECOND);
            let _ = interface.hold(ip("10.0.0.9"), now as u32, 60, now * SECOND);
            interface.tick(now * SECOND);
            while interface.pop().is_some() {}
            prop_assert!(interface.cache().is_balanced());
        }
    }
}
