//! Tests IPv4 headers that have options, are invalid, or have the flag "do not fragment".

use super::*;

fn outcome(mut packet: Vec<u8>) -> NatOutcome {
    let mut fixture = Fixture::new(NatConfig::default());
    fixture.nat.translate(&mut packet, NatDirection::Out, NatScope::All, 0)
}

#[test]
fn a_header_with_options_is_as_good_as_one_without() {
    for words in [1, 2, 10] {
        let mut fixture = Fixture::new(NatConfig::default());
        let packet = with_options(udp((CLIENT, 1025), (SERVER, 53)), words);
        let (src, dst) = fixture.out(packet).unwrap();
        assert_eq!((src.0, dst), (OWN, (SERVER, 53)));
        let answer = with_options(udp((SERVER, 53), src), words);
        assert_eq!(fixture.inwards(answer).unwrap().1, (CLIENT, 1025));
    }
}

#[test]
fn what_is_not_a_complete_header_of_version_4_is_malformed() {
    let odd = |first: u8, len: usize| {
        let mut packet = bare(47, CLIENT, SERVER);
        packet[0] = first;
        outcome(packet[..len].to_vec())
    };
    let malformed = NatOutcome::Dropped(NatDropReason::Malformed);
    assert_eq!(odd(0x65, 30), malformed, "version 6");
    assert_eq!(odd(0x44, 30), malformed, "16 bytes of header");
    assert_eq!(odd(0x46, 22), malformed, "24 bytes of header, of which 22 are there");
    assert_eq!(odd(0x45, 20), NatOutcome::Translated, "a header and nothing else");
    assert_eq!(odd(0x46, 24), NatOutcome::Translated, "a header and nothing else");
}

#[test]
fn a_packet_that_must_not_be_fragmented_is_whole() {
    let mut packet = udp((CLIENT, 1025), (SERVER, 53));
    packet[6] = 0x40;
    settle_header(&mut packet);
    let mut fixture = Fixture::new(NatConfig::default());
    assert!(fixture.out(packet).unwrap().0.1 >= 0x8000);
    assert_eq!(fixture.nat.fragments(), 0);
}
