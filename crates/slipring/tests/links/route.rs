//! Tests of route mode, in which the emulator is the router between two subnets.

use rustix::process::Signal;
use slipring_test_support::{Lab, LabPort, Program, eventually};

use crate::support::ping;
use crate::{emulate, last_report};

/// A lab whose sides are in separate subnets, with `mid` as their gateway.
fn subnets(port: LabPort) -> Option<Lab> {
    let lab = Lab::new(port)?;
    // The emulator takes both interfaces of the namespace in the middle from the kernel, so the
    // kernel does not forward.
    for (ifname, number) in [("la", 1), ("ra", 2)] {
        let path = format!("/proc/sys/net/ipv6/conf/{ifname}/disable_ipv6");
        lab.mid.run(move || std::fs::write(path, "0")).unwrap();
        lab.mid.ip(&format!("addr add 10.{number}.0.1/24 dev {ifname}"));
        lab.mid.ip(&format!("addr add fd0{number}::1/64 dev {ifname} nodad"));
    }
    for (side, number) in [(&lab.left, 1), (&lab.right, 2)] {
        side.ip("addr flush dev e0 scope global");
        side.ip(&format!("addr add 10.{number}.0.9/24 dev e0"));
        side.ip(&format!("addr add fd0{number}::9/64 dev e0 nodad"));
        side.ip(&format!("route add default via 10.{number}.0.1"));
        side.ip(&format!("-6 route add default via fd0{number}::1"));
    }
    Some(lab)
}

#[test]
fn hosts_of_two_subnets_reach_each_other_with_the_delay_and_from_the_first_packet() {
    for port in [LabPort::Packet, LabPort::Native] {
        let Some(lab) = subnets(port) else { return };
        let emulator = emulate(&lab, "-r -D 15ms");
        for to in ["10.1.0.1", "10.2.0.1", "fd01::1", "fd02::1"] {
            // Pings the router itself.
            ping::shortest(&lab.left, to, 4);
        }
        for to in ["10.2.0.9", "fd02::9"] {
            // The first packet waits until the router has resolved the MAC address of `to`; it is
            // not lost.
            let least = ping::shortest(&lab.left, to, 4);
            assert!(least >= 30.0, "{port:?} {to}: {least} ms");
        }
        let report = last_report(emulator.stop(Signal::INT));
        assert_eq!(report.drops_for(1, "route_unresolved"), 0, "{report:?}");
    }
}

#[test]
fn what_the_router_does_not_pass_is_counted_by_name() {
    let Some(lab) = subnets(LabPort::Packet) else { return };
    let emulator = emulate(&lab, "-r -D 1ms -G none -G 10.2.0.9 --decrement-ttl");
    let send = |to: &str, more: &str| {
        let words = format!("-n -c 1 -W 1 {more} {to}");
        Program::start(&lab.left, "ping", &words).finish();
    };
    // Four packets that the router does not forward: to 10.2.0.77, which no host has; to a port of
    // the router itself, which answers only pings; with a TTL of 1; and to a broadcast address.
    send("10.2.0.77", "");
    lab.left.run(|| {
        let socket = std::net::UdpSocket::bind("10.1.0.9:0").unwrap();
        socket.send_to(b"?", "10.2.0.1:9").unwrap();
    });
    let expired = Program::start(&lab.left, "ping", "-n -c 1 -W 60 -t 1 10.2.0.9").finish();
    assert!(expired.stdout.contains("From 10.1.0.1"), "the sender is told: {expired:?}");
    send("10.1.0.255", "-b");
    // A packet to any other network goes to the configured gateway. The gateway has no route, but
    // the router has done its part, so the packet is not counted as lost.
    send("198.51.100.1", "");
    let now = |port: usize, cause: &str| {
        crate::support::bridge::Report::now(&emulator).drops_for(port, cause)
    };
    for (port, cause) in
        [(1, "route_unresolved"), (0, "route_own"), (0, "route_expired"), (0, "route_broadcast")]
    {
        eventually(cause, || (now(port, cause) >= 1).then_some(()));
    }
    assert_eq!(now(0, "route_no_way"), 0, "the gateway is the way");
    emulator.stop(Signal::INT).well();
}

#[test]
fn a_router_that_cannot_be_is_refused_with_what_it_lacks() {
    let Some(lab) = Lab::new(LabPort::Packet) else { return };
    let refused = |words: &str| {
        let ended = Program::start(&lab.mid, crate::support::SLIPRING, words).finish();
        assert_eq!(ended.code(), 2, "{ended:?}");
        ended.stderr
    };
    let error = refused("emulate -r -i packet:la -i packet:ra");
    assert!(error.contains("ip addr add 10.1.0.1/24 dev la"), "{error}");
    lab.mid.ip("addr add 10.1.0.1/24 dev la");
    lab.mid.ip("addr add 10.1.0.2/24 dev ra");
    let error = refused("emulate -r -i packet:la -i packet:ra");
    assert!(error.contains("la and ra are in the same subnet"), "{error}");
    let error = refused("emulate -r -G 192.0.2.1 -i packet:la -i packet:ra");
    assert!(error.contains("the gateway 192.0.2.1 is in none of its subnets"), "{error}");
    let error = refused("emulate -r -i tap:ta -i packet:ra");
    assert!(error.contains("-r cannot route at ta"), "{error}");
}
