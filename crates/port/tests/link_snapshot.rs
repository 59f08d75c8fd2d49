//! Tests that the addresses and routes of a link can be given to another one.
#![allow(clippy::unwrap_used)]

use slipring_port::netlink::{LinkSnapshot, Netlink};
use slipring_test_support::Namespace;

/// Returns the addresses and routes of a link as `ip` prints them, in sorted lines. Leaves out
/// interface numbers, states, link-local addresses, and local, broadcast, anycast and multicast
/// routes.
fn settings(namespace: &Namespace, link: &str) -> String {
    let addresses = namespace.ip(&format!("-o addr show dev {link}"));
    let addresses = addresses.lines().filter(|line| !line.contains("fe80"));
    let address = |line: &str| {
        let words = line.split_ascii_whitespace().skip(1);
        let words = words.filter(|word| !["tentative", "dadfailed"].contains(word));
        words.collect::<Vec<_>>().join(" ")
    };
    let mut text: Vec<_> = addresses.map(address).collect();
    for list in ["route show table all", "-6 route show table all"] {
        let routes = namespace.ip(list);
        let by_link = |line: &&str| line.contains(&format!("dev {link}"));
        let routes = routes.lines().filter(by_link);
        let is_set = |line: &&str| {
            !["local ", "broadcast ", "anycast ", "multicast ", "fe80"]
                .iter()
                .any(|start| line.starts_with(start))
        };
        text.extend(
            routes.filter(is_set).map(|line| line.replace("linkdown", "").trim().to_owned()),
        );
    }
    text.sort_unstable();
    text.join("\n")
}

fn index_of(netlink: &Netlink, name: &str) -> u32 {
    netlink.links().unwrap().iter().find(|link| link.name == name).unwrap().index
}

fn snapshot(namespace: &Namespace) -> LinkSnapshot {
    namespace.run(|| {
        let netlink = Netlink::open().unwrap();
        netlink.snapshot(index_of(&netlink, "e0")).unwrap()
    })
}

#[test]
fn another_link_gets_the_addresses_and_routes_of_one_that_is_gone() {
    let Some(namespace) = Namespace::new() else { return };
    let make = || {
        namespace.ip("link add e0 type veth peer name e1");
        namespace.ip("link set e1 up");
        namespace.ip("link set e0 up");
    };
    make();
    for words in [
        "addr add 10.0.0.1/24 brd 10.0.0.255 dev e0",
        "addr add 10.0.0.2/24 dev e0",
        "addr add 10.5.0.1 peer 10.5.0.2/32 dev e0",
        "addr add fd00::1/64 dev e0 nodad",
        "addr add 10.6.0.1/24 dev e0 noprefixroute",
        "route add 10.9.0.0/16 via 10.0.0.254",
        "route add 10.8.0.0/16 via 10.0.0.253 metric 50 mtu 1300 table 100",
        "route add 192.0.2.1 dev e0 scope link src 10.0.0.2",
        "route add default via 203.0.113.1 dev e0 onlink table 200",
        "-6 route add fd00:9::/64 via fd00::fe",
    ] {
        namespace.ip(words);
    }
    let before = settings(&namespace, "e0");
    let saved = snapshot(&namespace);
    assert!(saved.has_default_route);
    let texts: Vec<_> = saved.routes.iter().map(|route| route.text.as_str()).collect();
    assert!(texts.contains(&"10.8.0.0/16 via 10.0.0.253 table 100"), "{texts:?}");
    namespace.ip("link delete e0");
    make();
    let restored = saved.clone();
    namespace.run(move || {
        let netlink = Netlink::open().unwrap();
        let index = index_of(&netlink, "e0");
        for address in &restored.addresses {
            netlink.restore_address(index, address).unwrap();
            netlink.restore_address(index, address).expect("a second time is no error");
        }
        for route in &restored.routes {
            netlink
                .restore_route(index, route)
                .unwrap_or_else(|error| panic!("{route:?}: {error}"));
        }
    });
    assert_eq!(settings(&namespace, "e0"), before);
    assert_eq!(snapshot(&namespace).addresses.len(), saved.addresses.len());
}

#[test]
fn what_is_no_message_is_not_sent() {
    let Some(namespace) = Namespace::new() else { return };
    let refused = namespace.run(|| {
        let netlink = Netlink::open().unwrap();
        let nonsense = slipring_port::netlink::SavedSetting { text: "x".into(), message: vec![2] };
        [netlink.restore_address(1, &nonsense), netlink.restore_route(1, &nonsense)]
            .map(|result| result.unwrap_err().kind())
    });
    assert_eq!(refused, [std::io::ErrorKind::InvalidData; 2]);
}

#[test]
fn adding_a_route_again_changes_nothing_and_tells_whether_the_kernel_would_accept_it() {
    let Some(namespace) = Namespace::new() else { return };
    for words in [
        "link add e0 type veth peer name e1",
        "link set e1 up",
        "link set e0 up",
        "addr add 10.0.0.1/24 dev e0",
        "addr add fd00::1/64 dev e0 nodad",
        "route add 10.9.0.0/16 via 10.0.0.254",
        "-6 route add fd00:9::/64 via fd00::fe",
        // The addresses by which these gateways are reached are removed.
        "addr add 10.7.0.1/24 dev e0",
        "addr add fd00:7::1/64 dev e0 nodad",
        "route add 10.40.0.0/16 via 10.7.0.9",
        "-6 route add fd00:40::/64 via fd00:7::9",
        "addr del 10.7.0.1/24 dev e0",
        "addr del fd00:7::1/64 dev e0",
    ] {
        namespace.ip(words);
    }
    let before = settings(&namespace, "e0");
    let refused: Vec<_> = namespace.run(|| {
        let netlink = Netlink::open().unwrap();
        let index = index_of(&netlink, "e0");
        let routes = netlink.snapshot(index).unwrap().routes.into_iter();
        let refused = routes.filter(|route| netlink.restore_route(index, route).is_err());
        refused.map(|route| route.text).collect()
    });
    assert_eq!(refused, ["10.40.0.0/16 via 10.7.0.9", "fd00:40::/64 via fd00:7::9"]);
    assert_eq!(settings(&namespace, "e0"), before);
}

#[test]
fn a_link_becomes_a_member_of_a_bridge() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.ip("link add e0 type veth peer name e1");
    namespace.ip("link add br0 type bridge");
    namespace.run(|| {
        let netlink = Netlink::open().unwrap();
        let [e0, br0] = ["e0", "br0"].map(|name| index_of(&netlink, name));
        netlink.set_master(e0, br0).unwrap();
        let links = netlink.links().unwrap();
        assert_eq!(links.iter().find(|link| link.index == e0).unwrap().master, Some(br0));
    });
}
