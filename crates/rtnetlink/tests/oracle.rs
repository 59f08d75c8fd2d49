//! Compares routes, neighbours and requests with the crate netlink-packet-route.

#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{Emitable, NetlinkMessage as OracleMessage, NetlinkPayload};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourState as OracleState};
use netlink_packet_route::route::{
    RouteAttribute, RouteMessage as OracleRoute, RouteMetric, RouteNextHop, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use proptest::prelude::*;
use slipring_rtnetlink::*;

/// A next hop: gateway of either family, interface, weight minus one.
type HopInput = (Option<IpAddr>, u32, u8);

fn address(is_v4: bool) -> BoxedStrategy<IpAddr> {
    if is_v4 {
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))).boxed()
    } else {
        any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))).boxed()
    }
}

fn hop(is_v4: bool) -> impl Strategy<Value = HopInput> {
    let gateway = prop_oneof![address(is_v4), Just(IpAddr::V6(Ipv6Addr::LOCALHOST))];
    (proptest::option::of(gateway), 1..1000_u32, any::<u8>())
}

fn gateway(of: IpAddr, route_is_v4: bool) -> RouteAttribute {
    match of {
        IpAddr::V6(address) if route_is_v4 => RouteAttribute::Via(RouteVia::Inet6(address)),
        other => RouteAttribute::Gateway(other.into()),
    }
}

#[derive(Clone, Debug)]
struct RouteInput {
    destination: IpAddr,
    len: u8,
    table: u32,
    metric: Option<u32>,
    mtu: Option<u32>,
    next_hop_id: Option<u32>,
    hops: Vec<HopInput>,
}

fn route() -> impl Strategy<Value = RouteInput> {
    any::<bool>().prop_flat_map(|is_v4| {
        let option = || proptest::option::of(1..u32::MAX);
        let hops = proptest::collection::vec(hop(is_v4), 1..5);
        (
            address(is_v4),
            0..=if is_v4 { 32_u8 } else { 128 },
            1..u32::MAX,
            option(),
            option(),
            option(),
            hops,
        )
            .prop_map(|(destination, len, table, metric, mtu, next_hop_id, hops)| {
                RouteInput { destination, len, table, metric, mtu, next_hop_id, hops }
            })
    })
}

fn oracle_route(input: &RouteInput) -> OracleRoute {
    let is_v4 = input.destination.is_ipv4();
    let mut route = OracleRoute::default();
    route.header.address_family = if is_v4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
    route.header.destination_prefix_length = input.len;
    route.header.kind = 1.into();
    let all = &mut route.attributes;
    all.push(RouteAttribute::Table(input.table));
    all.push(RouteAttribute::Destination(input.destination.into()));
    all.extend(input.metric.map(RouteAttribute::Priority));
    all.extend(
        input.mtu.map(|mtu| {
            RouteAttribute::Metrics(vec![RouteMetric::Hoplimit(9), RouteMetric::Mtu(mtu)])
        }),
    );
    all.extend(input.next_hop_id.map(RouteAttribute::NhId));
    match input.hops[..] {
        [(via, ifindex, _)] => {
            all.extend(via.map(|via| gateway(via, is_v4)));
            all.push(RouteAttribute::Oif(ifindex));
        }
        ref hops => {
            let hops = hops.iter().map(|(via, ifindex, weight)| {
                let mut hop = RouteNextHop::default();
                hop.interface_index = *ifindex;
                hop.hops = *weight;
                hop.attributes.extend(via.map(|via| gateway(via, is_v4)));
                hop
            });
            all.push(RouteAttribute::MultiPath(hops.collect()));
        }
    }
    route
}

fn serialized(message: RouteNetlinkMessage) -> Vec<u8> {
    let mut message = OracleMessage::from(message);
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn routes_are_read_as_the_other_crate_writes_them(input in route()) {
        let bytes = serialized(RouteNetlinkMessage::NewRoute(oracle_route(&input)));
        let message = Messages::new(&bytes).next().unwrap().unwrap();
        let MessageBody::Route(Change::New, route) = message.body else { panic!("{message:?}") };
        prop_assert_eq!((route.destination, route.prefix_len), (input.destination, input.len));
        prop_assert_eq!((route.table, route.next_hop_id), (input.table, input.next_hop_id));
        prop_assert_eq!((route.metric, route.mtu), (input.metric.unwrap_or(0), input.mtu.unwrap_or(0)));
        prop_assert!(!route.has_unknown);
        let hops: Vec<_> = route.hops().map(|hop| (hop.gateway, hop.ifindex, (hop.weight - 1) as u8)).collect();
        let mut expected = input.hops.clone();
        if let [only] = &mut expected[..] {
            only.2 = 0;
        }
        prop_assert_eq!(hops, expected);
    }

    #[test]
    fn any_bytes_are_messages_or_errors(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read_all(&bytes) <= bytes.len() / 16 + 1);
    }

    #[test]
    fn changed_bytes_of_real_messages_are_messages_or_errors(
        input in route(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        kind in 16..120_u16,
    ) {
        let mut bytes = serialized(RouteNetlinkMessage::NewRoute(oracle_route(&input)));
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        prop_assert!(read_all(&bytes) <= bytes.len() / 16 + 1);
    }
}

/// Reads all messages in the bytes. Returns the number of messages and errors.
fn read_all(bytes: &[u8]) -> usize {
    let mut count = 0;
    for message in Messages::new(bytes) {
        count += 1;
        match message.map(|message| message.body) {
            Ok(MessageBody::Route(_, route)) => {
                assert!(route.prefix_len <= route.family.bits());
                assert!(route.hops().count() <= bytes.len());
            }
            Ok(MessageBody::NextHop(_, next_hop)) => {
                assert!(next_hop.group.map_or(0, Iterator::count) <= bytes.len() / 8);
            }
            _ => {}
        }
    }
    count
}

#[test]
fn a_message_with_a_wrong_attribute_does_not_hide_the_next() {
    let input = RouteInput {
        destination: "10.0.0.0".parse().unwrap(),
        len: 8,
        table: 254,
        metric: None,
        mtu: None,
        next_hop_id: None,
        hops: vec![(None, 1, 0)],
    };
    let good = serialized(RouteNetlinkMessage::NewRoute(oracle_route(&input)));
    let mut bad = good.clone();
    // The length of the first attribute becomes invalid.
    bad[28] = 200;
    let bytes = [bad, good].concat();
    let found: Vec<_> = Messages::new(&bytes).map(|message| message.is_ok()).collect();
    assert_eq!(found, [false, true]);
}

/// Parses a request with the other crate.
fn request(bytes: &[u8]) -> (u16, RouteNetlinkMessage) {
    let message = OracleMessage::<RouteNetlinkMessage>::deserialize(bytes).unwrap();
    assert_eq!((message.header.length as usize, message.header.sequence_number), (bytes.len(), 5));
    match message.payload {
        NetlinkPayload::InnerMessage(inner) => (message.header.flags, inner),
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_are_read_by_the_other_crate() {
    let build = RequestBuilder::new(5);
    let is_dump = |flags: u16| flags & HeaderFlags::DUMP == HeaderFlags::DUMP;
    let (flags, body) = request(&build.dump_links());
    assert!(is_dump(flags) && matches!(body, RouteNetlinkMessage::GetLink(_)));
    let (flags, body) = request(&build.dump_addresses());
    assert!(is_dump(flags) && matches!(body, RouteNetlinkMessage::GetAddress(_)));
    let (flags, body) = request(&build.dump_neighbours());
    assert!(is_dump(flags) && matches!(body, RouteNetlinkMessage::GetNeighbour(_)));
    let (flags, body) = request(&build.dump_rules());
    assert!(is_dump(flags) && matches!(body, RouteNetlinkMessage::GetRule(_)));
    let filter = DumpFilter { family: Some(RouteFamily::V6), table: Some(300) };
    let (flags, body) = request(&build.dump_routes(filter));
    let RouteNetlinkMessage::GetRoute(route) = body else { panic!("{body:?}") };
    assert!(is_dump(flags) && route.header.address_family == AddressFamily::Inet6);
    assert_eq!(route.attributes, [RouteAttribute::Table(300)]);
}

#[test]
fn a_request_for_one_route_names_the_destination_and_the_input() {
    let destination: IpAddr = "192.0.2.1".parse().unwrap();
    let (flags, body) = request(&RequestBuilder::new(5).get_route(destination, Some(7)));
    let RouteNetlinkMessage::GetRoute(route) = body else { panic!("{body:?}") };
    assert_eq!((flags, route.header.destination_prefix_length), (HeaderFlags::REQUEST, 32));
    assert_eq!(
        route.attributes,
        [RouteAttribute::Destination(destination.into()), RouteAttribute::Iif(7)]
    );
}

#[test]
fn requests_to_resolve_a_neighbour_set_no_state() {
    let address: IpAddr = "fe80::1".parse().unwrap();
    let build = RequestBuilder::new(5);
    let (_, body) = request(&build.use_neighbour(3, address));
    let RouteNetlinkMessage::NewNeighbour(used) = body else { panic!("{body:?}") };
    assert_eq!(
        (used.header.ifindex, used.header.state, used.header.flags.bits()),
        (3, OracleState::None, 1)
    );
    let (_, body) = request(&build.manage_neighbour(3, address));
    let RouteNetlinkMessage::NewNeighbour(managed) = body else { panic!("{body:?}") };
    let is_managed = |attribute: &NeighbourAttribute| matches!(attribute, NeighbourAttribute::ExtFlags(flags) if flags.bits() == 1);
    assert!(managed.attributes.iter().any(is_managed));
    assert_eq!(managed.buffer_len() + 16, build.manage_neighbour(3, address).len());
}
