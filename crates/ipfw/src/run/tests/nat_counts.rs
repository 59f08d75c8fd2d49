//! Tests of the numbers of flows that `nat show` prints.

use super::nat::GATE;
use super::*;

/// Lets flows leave by em1: one of ICMP, two of UDP, three of TCP, four of SCTP, and five of
/// another protocol.
fn flows_of_all_kinds(fixture: &mut Fixture) {
    // Each packet goes to a different peer, because flows without ports differ only in their
    // addresses.
    let to =
        |frame: &[u8], proto: u8, peer: u8| v4_with(frame, |ip| (ip[9], ip[19]) = (proto, peer));
    fixture.goes_out(ping());
    (1..=2).for_each(|peer| _ = fixture.goes_out(to(&udp(), 17, peer)));
    (1..=3).for_each(|peer| _ = fixture.goes_out(to(&tcp(0x02), 6, peer)));
    (1..=4).for_each(|peer| _ = fixture.goes_out(to(&udp(), 132, peer)));
    (1..=5).for_each(|peer| _ = fixture.goes_out(to(&udp(), 47, peer)));
}

#[test]
fn each_kind_of_flow_is_counted_by_itself_and_in_the_total() {
    let mut fixture = Fixture::new(GATE);
    flows_of_all_kinds(&mut fixture);
    assert_eq!(
        fixture.run("nat show log 1"),
        "nat 1: icmp=1, udp=2, tcp=3, sctp=4, pptp=0, proto=5, frag_id=0 frag_ptr=0 / tot=15\n"
    );
}

#[test]
fn flows_of_several_firewalls_are_added_up_by_kind() {
    let mut fixture = Fixture::new(GATE);
    flows_of_all_kinds(&mut fixture);
    let mut master = Fixture::new(GATE);
    let figures = fixture.firewall.translation_stats();
    master.firewall.show_translations([figures.clone(), figures.clone(), figures]);
    assert_eq!(
        master.run("nat show log 1"),
        "nat 1: icmp=3, udp=6, tcp=9, sctp=12, pptp=0, proto=15, frag_id=0 frag_ptr=0 / tot=45\n"
    );
}

#[test]
fn a_datagram_in_fragments_is_counted_once_as_such() {
    let mut fixture = Fixture::new(GATE);
    fixture.goes_out(v4_with(&udp(), |ip| (ip[5], ip[6]) = (9, 0x20)));
    let text = fixture.run("nat show log 1");
    assert!(text.contains("udp=1,") && text.ends_with("frag_id=1 frag_ptr=0 / tot=2\n"), "{text}");
}
