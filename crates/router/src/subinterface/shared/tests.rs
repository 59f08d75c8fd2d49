//! Tests that packets that waited for a MAC address return to their own workers, although the
//! workers share the subinterface.

use std::net::IpAddr;
use std::sync::Arc;

use slipring_fib::ForwardingTables;
use slipring_neighbour::NeighbourLimits;
use slipring_neighbour::arp::ArpPacket;

use super::super::link::tests::{OWN_MAC, engine, host, link, number_of, packet};
use super::*;

const TAGS: VlanTags = VlanTags { outer: Some((0x8100, 100)), inner: None };
const HOST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 3, 9]);

fn shared(workers: usize) -> SharedSubinterfaces {
    let link = link(NeighbourLimits::default());
    let one = SharedSubinterface::new(FibPortIndex(1), (7, TAGS), link);
    SharedSubinterfaces::new(vec![one], workers)
}

/// The packets that a worker gets back: the number of each, and the MAC address of its next hop.
fn released(shared: &SharedSubinterfaces, worker: usize) -> Vec<(u16, MacAddr)> {
    let number = |end| match end {
        WaitEnd::Released(packet, mac) => (number_of(&packet), mac),
        WaitEnd::Lost(..) => panic!("{end:?}"),
    };
    shared.take_mail(worker).into_iter().map(number).collect()
}

#[test]
fn packets_that_have_waited_go_back_to_their_workers_in_order() {
    let (shared, mut engine) = (shared(2), engine());
    for (number, owner) in [(1, 0), (2, 1), (3, 0), (4, 1)] {
        let packet = WaitingPacket { owner, ..packet(&mut engine, host(1), number) };
        shared.all()[0].with(|link| link.hold(packet, 5)).unwrap();
    }
    let asked = shared.collect(0, 5, |worker| panic!("mail for {worker}"));
    assert!(
        matches!(asked[..], [SubinterfaceFrame::Wire(_)]),
        "one request for both workers: {asked:?}"
    );
    assert_eq!(shared.next_ns(), Some(1_000_000_005));
    let own = "10.100.0.1".parse().unwrap();
    let reply = ArpPacket::request(OWN_MAC, own, host(1)).reply(HOST_MAC).frame(OWN_MAC);
    // The worker that receives the ARP reply, whichever it is, gives it to the shared link.
    shared.all()[0].with(|link| link.receive(&reply, 6));
    let mut woken = Vec::new();
    assert!(shared.collect(0, 6, |worker| woken.push(worker)).is_empty());
    assert_eq!(woken, [0, 1, 0, 1]);
    assert_eq!(released(&shared, 0), [(1, HOST_MAC), (3, HOST_MAC)]);
    assert_eq!(released(&shared, 1), [(2, HOST_MAC), (4, HOST_MAC)]);
    assert!(released(&shared, 0).is_empty());
}

#[test]
fn a_packet_whose_next_hop_does_not_answer_goes_back_as_lost() {
    let (shared, mut engine) = (shared(2), engine());
    let packet = WaitingPacket { owner: 1, ..packet(&mut engine, host(1), 1) };
    shared.all()[0].with(|link| link.hold(packet, 5)).unwrap();
    let mut rounds = 0;
    while let Some(due) = shared.next_ns().filter(|_| rounds < 10) {
        assert!(!shared.is_due(0, due - 1) && shared.is_due(0, due));
        shared.collect(0, due, |worker| assert_eq!(worker, 1));
        rounds += 1;
    }
    let mut mail = shared.take_mail(1);
    assert!(matches!(mail.pop_front(), Some(WaitEnd::Lost(_, HoldDropCause::Unanswered))));
    assert!(mail.is_empty());
}

#[test]
fn addresses_of_an_older_snapshot_change_nothing() {
    let shared = shared(2);
    let knows = |address: &str| {
        let address: IpAddr = address.parse().unwrap();
        shared.all()[0].with(|link| link.neighbours().is_own(address))
    };
    let with_address = |generation, address: &str| {
        let tables = engine().tables().clone();
        let mut ports: Vec<_> = tables.ports.to_vec();
        ports[1].addresses = vec![(address.parse().unwrap(), 24)];
        ForwardingTables { generation, ports: ports.into(), ..Arc::unwrap_or_clone(tables) }
    };
    shared.set_tables(&with_address(9, "10.100.0.9"));
    assert!(knows("10.100.0.9"));
    shared.set_tables(&with_address(8, "10.100.0.8"));
    assert!(knows("10.100.0.9") && !knows("10.100.0.8"));
    shared.set_tables(&with_address(10, "10.100.0.10"));
    assert!(knows("10.100.0.10") && !knows("10.100.0.9"));
}
