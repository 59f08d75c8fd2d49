//! Tests of `redirect_port`, `redirect_addr`, `redirect_proto`, and pools of servers.

use super::*;

const WEB: NatEndpoint = NatEndpoint::new(core::net::Ipv4Addr::new(10, 0, 0, 80), 8080);
const WEB_2: NatEndpoint = NatEndpoint::new(core::net::Ipv4Addr::new(10, 0, 0, 81), 8080);
const ALIAS: [u8; 4] = [203, 0, 113, 20];
const ANY_ADDRESS: core::net::Ipv4Addr = core::net::Ipv4Addr::UNSPECIFIED;

fn ports(first: u16, count: u16, targets: &[NatEndpoint], remote: RedirectRemote) -> Redirect {
    let kind = RedirectKind::Ports { proto: IpProto::TCP, first, count };
    Redirect { kind, targets: targets.to_vec(), alias: ANY_ADDRESS, remote }
}

fn address(targets: &[[u8; 4]], alias: [u8; 4]) -> Redirect {
    let targets = targets.iter().map(|&it| NatEndpoint::new(it.into(), 0)).collect();
    let kind = RedirectKind::Address;
    Redirect { kind, targets, alias: alias.into(), remote: RedirectRemote::ANY }
}

fn at(end: NatEndpoint) -> At {
    (end.address.octets(), end.port)
}

/// Returns the destination, after translation, of the first segment of a connection from `from` to
/// `to`; `None` if the segment is dropped.
fn arrives(fixture: &mut Fixture, from: At, to: At) -> Option<At> {
    fixture.inwards(tcp(from, to, SYN)).ok().map(|ends| ends.1)
}

#[test]
fn redirect_port_opens_a_port_in_spite_of_deny_in() {
    let modes = NatModes::default().with(NatMode::DenyIn);
    let redirects = vec![ports(80, 1, &[WEB], RedirectRemote::ANY)];
    let mut fixture = Fixture::new(NatConfig { modes, redirects, ..NatConfig::default() });
    assert_eq!(arrives(&mut fixture, (SERVER, 9), (OWN, 80)), Some(at(WEB)));
    assert_eq!(arrives(&mut fixture, (SERVER, 9), (OWN, 81)), None);
    let answer = fixture.out(tcp(at(WEB), (SERVER, 9), SYN_ACK)).unwrap();
    assert_eq!(answer.0, (OWN, 80));
    let datagram = udp((SERVER, 9), (OWN, 80));
    assert_eq!(
        fixture.inwards(datagram),
        Err(NatOutcome::Dropped(NatDropReason::Refused)),
        "another protocol"
    );
}

#[test]
fn a_range_of_ports_goes_to_a_range() {
    let target = NatEndpoint { port: 2300, ..WEB };
    let mut fixture = Fixture::redirecting(ports(3300, 100, &[target], RedirectRemote::ANY));
    assert_eq!(arrives(&mut fixture, (SERVER, 9), (OWN, 3300)).unwrap().1, 2300);
    assert_eq!(arrives(&mut fixture, (SERVER, 9), (OWN, 3399)).unwrap().1, 2399);
    assert_eq!(arrives(&mut fixture, (SERVER, 9), (OWN, 3400)).unwrap(), (OWN, 3400));
}

#[test]
fn what_a_redirected_port_sends_shows_the_port_outside() {
    let mut fixture = Fixture::redirecting(ports(80, 1, &[WEB], RedirectRemote::ANY));
    assert_eq!(fixture.out(tcp(at(WEB), (SERVER, 25), SYN)).unwrap().0, (OWN, 80));
}

#[test]
fn a_redirection_may_be_for_one_remote_end_only() {
    let remote = RedirectRemote { address: SERVER.into(), port: 7, count: 1 };
    let mut fixture = Fixture::redirecting(ports(80, 1, &[WEB], remote));
    assert_eq!(arrives(&mut fixture, (SERVER, 7), (OWN, 80)), Some(at(WEB)));
    assert_eq!(arrives(&mut fixture, (SERVER, 8), (OWN, 80)), Some((OWN, 80)));
    assert_eq!(arrives(&mut fixture, (SERVER_2, 7), (OWN, 80)), Some((OWN, 80)));
}

#[test]
fn remote_ports_go_one_for_one() {
    let remote = RedirectRemote { address: SERVER.into(), port: 700, count: 10 };
    let mut fixture = Fixture::redirecting(ports(80, 10, &[WEB], remote));
    assert_eq!(arrives(&mut fixture, (SERVER, 703), (OWN, 83)).unwrap().1, 8083);
    assert_eq!(arrives(&mut fixture, (SERVER, 704), (OWN, 83)).unwrap(), (OWN, 83));
}

#[test]
fn the_more_exact_redirection_wins_then_the_later() {
    let remote = RedirectRemote { address: SERVER.into(), ..RedirectRemote::ANY };
    let third = NatEndpoint { port: 3, ..WEB };
    let redirects = vec![
        ports(80, 1, &[WEB], remote),
        ports(80, 1, &[WEB_2], RedirectRemote::ANY),
        ports(80, 1, &[third], RedirectRemote::ANY),
    ];
    let mut fixture = Fixture::new(NatConfig { redirects, ..NatConfig::default() });
    assert_eq!(arrives(&mut fixture, (SERVER, 9), (OWN, 80)), Some(at(WEB)));
    assert_eq!(arrives(&mut fixture, (SERVER_2, 9), (OWN, 80)), Some(at(third)));
}

#[test]
fn a_known_remote_address_counts_more_than_a_known_remote_port() {
    // As in libalias, the preferred redirection is one for the remote end's address and port, then
    // one for its address, then one for its port, and last one for any remote end.
    let remotes = [(SERVER, 7), (SERVER, 0), ([0; 4], 7), ([0; 4], 0)];
    let redirects = (1..).zip(remotes).map(|(target, (address, port))| {
        let remote = RedirectRemote { address: address.into(), port, count: 1 };
        ports(80, 1, &[NatEndpoint { port: target, ..WEB }], remote)
    });
    let redirects: Vec<_> = redirects.collect();
    let came_to = |redirects: &[Redirect], from: At| {
        let redirects = redirects.to_vec();
        let mut fixture = Fixture::new(NatConfig { redirects, ..NatConfig::default() });
        arrives(&mut fixture, from, (OWN, 80)).unwrap().1
    };
    let from = [(SERVER, 7), (SERVER, 8), (SERVER_2, 7), (SERVER_2, 8)];
    assert_eq!(from.map(|from| came_to(&redirects, from)), [1, 2, 3, 4]);
    assert_eq!(came_to(&redirects[1..], (SERVER, 7)), 2);
}

#[test]
fn one_remote_port_is_for_all_ports_of_a_range() {
    let remote = RedirectRemote { address: SERVER.into(), port: 700, count: 1 };
    let mut fixture = Fixture::redirecting(ports(80, 10, &[WEB], remote));
    assert_eq!(arrives(&mut fixture, (SERVER, 700), (OWN, 83)).unwrap().1, 8083);
    assert_eq!(arrives(&mut fixture, (SERVER, 703), (OWN, 83)).unwrap(), (OWN, 83));
}

#[test]
fn without_any_address_a_redirection_takes_packets_for_all() {
    // If the outside address is that of an interface without an address, a redirection without an
    // alias redirects no packet.
    let interface = OutsideAddress::Interface("em0".into());
    for (outside, to) in [(OutsideAddress::None, at(WEB)), (interface, (ALIAS, 80))] {
        let redirects = vec![ports(80, 1, &[WEB], RedirectRemote::ANY)];
        let config = NatConfig { outside, redirects, ..NatConfig::default() };
        let mut fixture = Fixture { nat: Translator::new(config, 7), now: 0 };
        assert_eq!(arrives(&mut fixture, (SERVER, 9), (ALIAS, 80)), Some(to));
    }
}

#[test]
fn a_pool_of_servers_takes_connections_in_turns_and_keeps_them() {
    let mut fixture = Fixture::redirecting(ports(80, 1, &[WEB, WEB_2], RedirectRemote::ANY));
    let took: Vec<_> = (1..=4)
        .map(|port| arrives(&mut fixture, (SERVER, port), (OWN, 80)).unwrap().0[3])
        .collect();
    assert_eq!(took, [80, 81, 80, 81]);
    let more = fixture.inwards(tcp((SERVER, 2), (OWN, 80), ACK)).unwrap();
    assert_eq!(more.1, at(WEB_2), "a connection stays with its server");
    assert_eq!(fixture.out(tcp(at(WEB_2), (SERVER, 2), ACK)).unwrap().0, (OWN, 80));
}

#[test]
fn redirect_addr_is_static_both_ways() {
    let mut fixture = Fixture::redirecting(address(&[CLIENT], ALIAS));
    assert_eq!(arrives(&mut fixture, (SERVER, 9), (ALIAS, 4321)), Some((CLIENT, 4321)));
    assert_eq!(fixture.outside((CLIENT, 77), (SERVER, 53)), (ALIAS, 77));
    assert_eq!(fixture.outside((CLIENT_2, 77), (SERVER, 53)).0, OWN);
}

#[test]
fn deny_in_closes_redirected_addresses_to_strangers() {
    let modes = NatModes::default().with(NatMode::DenyIn);
    let redirects = vec![address(&[CLIENT], ALIAS)];
    let mut fixture = Fixture::new(NatConfig { modes, redirects, ..NatConfig::default() });
    assert_eq!(arrives(&mut fixture, (SERVER, 9), (ALIAS, 4321)), None);
    let own = fixture.outside((CLIENT, 77), (SERVER, 53));
    assert_eq!(fixture.inwards(udp((SERVER, 53), own)).unwrap().1, (CLIENT, 77));
}

#[test]
fn of_addresses_with_one_alias_the_last_gets_what_comes_in() {
    let redirects = vec![address(&[CLIENT], ALIAS), address(&[CLIENT_2], ALIAS)];
    let mut fixture = Fixture::new(NatConfig { redirects, ..NatConfig::default() });
    assert_eq!(arrives(&mut fixture, (SERVER, 9), (ALIAS, 1)).unwrap().0, CLIENT_2);
    assert_eq!(fixture.outside((CLIENT, 5), (SERVER, 53)).0, ALIAS);
    assert_eq!(fixture.outside((CLIENT_2, 6), (SERVER, 53)).0, ALIAS);
}

#[test]
fn a_pool_of_addresses_takes_turns() {
    let mut fixture = Fixture::redirecting(address(&[CLIENT, CLIENT_2], ALIAS));
    let took: Vec<_> =
        (1..=3).map(|port| arrives(&mut fixture, (SERVER, port), (ALIAS, 80)).unwrap().0).collect();
    assert_eq!(took, [CLIENT, CLIENT_2, CLIENT]);
}

#[test]
fn redirect_proto_takes_one_protocol() {
    const GRE: u8 = 47;
    let kind = RedirectKind::Protocol(IpProto(GRE));
    let targets = vec![NatEndpoint::new(CLIENT.into(), 0)];
    let redirect = Redirect { kind, targets, alias: ANY_ADDRESS, remote: RedirectRemote::ANY };
    let mut fixture = Fixture::redirecting(redirect);
    assert_eq!(fixture.inwards(bare(GRE, SERVER, OWN)).unwrap().1.0, CLIENT);
    assert_eq!(fixture.inwards(bare(50, SERVER, OWN)).unwrap().1.0, OWN);
    assert_eq!(fixture.out(bare(GRE, CLIENT, SERVER_2)).unwrap().0.0, OWN);
}

#[test]
fn two_doors_to_one_server_are_not_confused() {
    let redirects =
        vec![ports(80, 1, &[WEB], RedirectRemote::ANY), ports(81, 1, &[WEB], RedirectRemote::ANY)];
    let mut fixture = Fixture::new(NatConfig { redirects, ..NatConfig::default() });
    assert_eq!(arrives(&mut fixture, (SERVER, 9), (OWN, 80)), Some(at(WEB)));
    assert_eq!(
        arrives(&mut fixture, (SERVER, 9), (OWN, 81)),
        None,
        "whose answers could these be?"
    );
    assert_eq!(arrives(&mut fixture, (SERVER, 10), (OWN, 81)), Some(at(WEB)));
    assert_eq!(fixture.out(tcp(at(WEB), (SERVER, 10), ACK)).unwrap().0, (OWN, 81));
}

#[test]
fn redirections_are_written_as_ipfw_lists_them() {
    let far = RedirectRemote { address: SERVER.into(), port: 700, count: 10 };
    let alias = |redirect, alias: [u8; 4]| Redirect { alias: alias.into(), ..redirect };
    let proto =
        Redirect { kind: RedirectKind::Protocol(IpProto::UDP), ..address(&[CLIENT], [0; 4]) };
    let written = [
        (ports(80, 1, &[WEB], RedirectRemote::ANY), "redirect_port tcp 10.0.0.80:8080 80"),
        (
            alias(ports(80, 10, &[WEB], far), ALIAS),
            "redirect_port tcp 10.0.0.80:8080-8089 203.0.113.20:80-89 192.0.2.1:700-709",
        ),
        (
            ports(80, 1, &[WEB, WEB_2], RedirectRemote::ANY),
            "redirect_port tcp 10.0.0.80:8080,10.0.0.81:8080 80",
        ),
        (address(&[CLIENT, CLIENT_2], ALIAS), "redirect_addr 10.0.0.5,10.0.0.6 203.0.113.20"),
        (proto.clone(), "redirect_proto udp 10.0.0.5"),
        (alias(proto.clone(), ALIAS), "redirect_proto udp 10.0.0.5 203.0.113.20"),
        (
            Redirect { remote: RedirectRemote { port: 0, count: 1, ..far }, ..proto },
            "redirect_proto udp 10.0.0.5 0.0.0.0 192.0.2.1",
        ),
    ];
    for (redirect, text) in written {
        assert_eq!(alloc::string::ToString::to_string(&redirect), text);
    }
}
