//! Tests that detach an interface from the host, that redirect the host's side of an interface, and
//! that read or change an interface's settings and default routes.
#![allow(clippy::unwrap_used)]

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use slipring_port::bpf::host::{detach, mark_for_wire};
use slipring_port::iface::{Feature, Iface, promiscuous};
use slipring_port::{Interest, OpenOptions, WaitStrategy, Waiter, host, xdp};
use slipring_ring::{Geometry, HugePages, Region};
use slipring_test_support::{Namespace, TIMEOUT, close};

/// Creates two stacks with the addresses 10.0.0.1 on `va` and 10.0.0.2 on `vb`. Each knows the
/// other's MAC address.
fn stacks() -> Option<(Namespace, Namespace)> {
    let (here, peer) = (Namespace::new()?, Namespace::new()?);
    here.cable("va", &peer, "vb", "");
    for (netns, ifname, own, other) in [(&here, "va", 1, 2), (&peer, "vb", 2, 1)] {
        netns.ip(&format!("link set {ifname} address 02:00:00:00:00:0{own}"));
        netns.ip(&format!("addr add 10.0.0.{own}/24 dev {ifname}"));
        netns.ip(&format!("neigh add 10.0.0.{other} lladdr 02:00:00:00:00:0{other} dev {ifname}"));
    }
    Some((here, peer))
}

fn socket(netns: &Namespace, own: u8, other: u8) -> UdpSocket {
    netns.run(move || {
        let socket = UdpSocket::bind((format!("10.0.0.{own}"), 9000)).unwrap();
        socket.connect((format!("10.0.0.{other}"), 9000)).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket
    })
}

/// Sends a datagram; an ICMP error for an earlier datagram may make this fail.
fn say(socket: &UdpSocket, word: u8) {
    let _ = socket.send(&[word]);
}

fn hear(socket: &UdpSocket) -> u8 {
    let mut word = [0];
    loop {
        match socket.recv(&mut word) {
            // With a timeout, the kernel does not restart the call after a signal.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            heard => {
                heard.unwrap();
                return word[0];
            }
        }
    }
}

/// Sends a word until the other end hears one, and returns that. The kernel drops what is sent
/// before it has noticed that both ends of a new link are up.
fn say_until_heard(from: &UdpSocket, word: u8, to: &UdpSocket) -> u8 {
    to.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let start = Instant::now();
    let mut heard = [0];
    loop {
        say(from, word);
        if to.recv(&mut heard).is_ok() {
            to.set_read_timeout(Some(TIMEOUT)).unwrap();
            return heard[0];
        }
        assert!(start.elapsed() < TIMEOUT, "nothing is heard of {word}");
    }
}

#[test]
fn a_detached_host_neither_hears_nor_speaks_until_it_is_back() {
    let Some((here, peer)) = stacks() else { return };
    let (a, b) = (socket(&here, 1, 2), socket(&peer, 2, 1));
    let detached = here.run(|| detach(Iface::find("va").unwrap().index).unwrap());
    say(&a, 1);
    say(&b, 2);
    mark_for_wire(a.as_fd()).unwrap();
    assert_eq!(say_until_heard(&a, 3, &b), 3, "a marked frame leaves, an unmarked one does not");
    close(detached);
    assert_eq!(say_until_heard(&b, 4, &a), 4, "what came meanwhile is gone");
}

#[test]
fn the_host_s_side_is_a_port() {
    let Some((here, peer)) = stacks() else { return };
    let (a, b) = (socket(&here, 1, 2), socket(&peer, 2, 1));
    let (mut wire, mut stack) = here.run(|| {
        let region = Region::create(Geometry::default(), HugePages::Never).unwrap();
        let options = OpenOptions { slots: 256, ..OpenOptions::default() };
        let wire = xdp::open("xdp:va", "va", None, &region, &options).unwrap();
        (wire, host::open("netmap:va^", "va", &region, &options).unwrap())
    });
    say(&a, 1);
    say(&b, 2);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let bridge = std::thread::spawn(move || {
        let mut waiter = Waiter::for_ports([&wire, &stack], WaitStrategy::default()).unwrap();
        while !stopped.load(Ordering::Relaxed) {
            let nap = Some(Duration::from_millis(20));
            waiter.wait_ports(&mut [&mut wire, &mut stack], Interest::RX, nap).unwrap();
            slipring_port::forward(&mut wire, &mut stack, 256).unwrap();
            slipring_port::forward(&mut stack, &mut wire, 256).unwrap();
        }
        (wire, stack)
    });
    assert_eq!((hear(&a), hear(&b)), (2, 1), "both waited in the rings");
    here.ping_all(5, "", "10.0.0.2");
    stop.store(true, Ordering::Relaxed);
    close(bridge.join().unwrap());
    say(&a, 3);
    assert_eq!(hear(&b), 3, "the interface is the host's again");
}

#[test]
fn what_an_interface_was_switched_to_is_put_back() {
    let Some((here, peer)) = stacks() else { return };
    peer.run(|| {
        let iface = Iface::find("vb").unwrap();
        assert_eq!((iface.driver.as_str(), iface.mac[5], iface.up), ("veth", 2, true));
        let was = iface.feature(Feature::Gro).unwrap();
        let guard = iface.with_features(&[(Feature::Gro, !was)]);
        assert_eq!((iface.feature(Feature::Gro).unwrap(), guard.refused()), (!was, &[][..]));
        drop(guard);
        assert_eq!(iface.feature(Feature::Gro).unwrap(), was);
    });
    let details = || here.command("ip", "-d link show va");
    let guard = here.run(|| promiscuous(Iface::find("va").unwrap().index).unwrap());
    assert!(details().contains("promiscuity 1"), "{}", details());
    close(guard);
    assert!(details().contains("promiscuity 0"), "{}", details());
}

#[test]
fn a_default_route_counts_in_any_table_by_any_next_hop_and_in_both_families() {
    let Some((here, there)) = stacks() else { return };
    here.cable("vc", &there, "vd", "");
    here.ip("addr add 10.1.0.1/24 dev vc");
    here.run(|| std::fs::write("/proc/sys/net/ipv6/conf/va/disable_ipv6", "0").unwrap());
    here.ip("nexthop add id 7 via 10.0.0.2 dev va");
    let saved = || {
        here.run(|| {
            let index = Iface::find("va").unwrap().index;
            let netlink = slipring_port::netlink::Netlink::open().unwrap();
            netlink.snapshot(index).unwrap().has_default_route
        })
    };
    let carries = |ifname| here.run(move || Iface::find(ifname).unwrap().default_route());
    for route in [
        "route add default via 10.0.0.2 table 100",
        "route add default nexthop via 10.1.0.2 nexthop via 10.0.0.2",
        "route add default nhid 7",
        "-6 route add default via fe80::2 dev va",
        "-6 route add default via fe80::2 dev va proto ra",
    ] {
        assert!(!carries("va") && !saved(), "before {route}");
        here.ip(route);
        assert!(carries("va") && saved(), "{route}");
        assert_eq!(carries("vc"), route.contains("10.1.0.2"), "{route}");
        here.ip(&route.replace("route add", "route del"));
    }
    here.ip("route add 0.0.0.0/1 via 10.0.0.2");
    here.ip("route add unreachable default");
    assert!(!carries("va") && !carries("lo") && !saved());
}

#[test]
fn the_default_route_is_found_in_the_thread_s_own_namespace() {
    let Some((here, _there)) = stacks() else { return };
    assert!(!here.run(|| Iface::find("va").unwrap().default_route()));
    here.ip("route add default via 10.0.0.2");
    assert!(here.run(|| Iface::find("va").unwrap().default_route()));
    let refused = here.run(|| {
        let region = Region::create(Geometry::default(), HugePages::Never).unwrap();
        xdp::open("xdp:va", "va", None, &region, &OpenOptions::default()).unwrap_err().to_string()
    });
    let cause = "`va` carries the default route: taking it cuts this machine off";
    assert_eq!(refused, format!("cannot open xdp:va: {cause}"));
}
