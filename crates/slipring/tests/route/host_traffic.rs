//! Tests of packets that a router must leave to its kernel, unchanged and on the real interface.

use std::net::UdpSocket;

use slipring_core::listen::InterfaceListener;
use slipring_test_support::eventually;

use crate::host::{ARP, BROADCAST, Frame, IPV4, IPV6, receive_datagram};
use crate::packet::Packet;
use crate::rig::{Rig, Setup, families, ip, v4, v6};

checks! {
    control_protocols_reach_the_kernel_unchanged_and_in_order,
    a_datagram_with_ttl_255_reaches_its_socket,
    every_address_of_the_router_answers_echoes,
    a_frame_of_another_protocol_reaches_the_kernel,
    a_flood_of_forwarded_packets_does_not_starve_the_router_itself,
    packets_of_the_router_itself_leave,
}

/// Frames of control protocols as a router receives them from A's link.
fn control_frames(rig: &Rig) -> Vec<Frame> {
    let (a, mac) = (rig.a.mac, rig.a.router_mac);
    let frame = |dst, packet: &Packet| Frame::of(a, dst, packet);
    let raw = |dst, ethertype, body: &[u8]| Frame {
        dst,
        src: a,
        tags: Vec::new(),
        ethertype,
        body: body.to_vec(),
    };
    let (net4, net6) = (v4(), v6());
    let ospf = |src, dst| Packet::new(src, ip(dst), 89, vec![2; 44]).hops(1);
    let bfd = |src, dst| Packet::udp_ports(src, dst, [49152, 3784], &[0x20; 24]).hops(255);
    vec![
        frame([1, 0, 0x5e, 0, 0, 5], &ospf(net4.a, "224.0.0.5")),
        frame([0x33, 0x33, 0, 0, 0, 5], &ospf(net6.a, "ff02::5")),
        frame(mac, &ospf(net4.a, "10.1.0.1")),
        frame(mac, &bfd(net4.a, net4.router_a)),
        frame(mac, &bfd(net6.a, net6.router_a)),
        // VRRP (RFC 9568), and DHCP from a host without an address.
        frame(
            [1, 0, 0x5e, 0, 0, 18],
            &Packet::new(net4.a, ip("224.0.0.18"), 112, vec![3; 20]).hops(255),
        ),
        frame(
            BROADCAST,
            &Packet::udp_ports(ip("0.0.0.0"), ip("255.255.255.255"), [68, 67], &[1; 240]),
        ),
        // TCP segments for the router, as BGP has them: with the TTL that GTSM (RFC 5082) requires,
        // and with TTL 1. Their headers contain only zeros.
        frame(mac, &Packet::new(net4.a, net4.router_a, 6, vec![0; 20]).hops(255)),
        frame(mac, &Packet::new(net4.a, net4.router_b, 6, vec![0; 20]).hops(1)),
        // LLDP, IS-IS in 802.2 LLC, slow protocols, and the start of an ARP request.
        raw([1, 0x80, 0xc2, 0, 0, 14], 0x88cc, &[2, 7, 4, 2, 0, 0, 0, 1, 2]),
        raw([1, 0x80, 0xc2, 0, 0, 0x14], 48, &[0xfe, 0xfe, 3, 0x83]),
        raw([1, 0x80, 0xc2, 0, 0, 2], 0x8809, &[1, 1, 0]),
        raw(BROADCAST, ARP, &[0, 1, 8, 0, 6, 4, 0, 1]),
    ]
}

fn control_protocols_reach_the_kernel_unchanged_and_in_order(setup: Setup) {
    let rig = setup.start();
    let mut kernel = rig.router.run(|| InterfaceListener::open("e0").unwrap());
    let sent: Vec<_> = control_frames(&rig).iter().map(Frame::bytes).collect();
    // The control frames arrive between forwarded packets.
    for frame in &sent {
        rig.a.send(&Packet::udp(v4().a, v4().b, b"forwarded"));
        rig.a.send_bytes(frame);
    }
    let mut got = Vec::new();
    eventually("all frames at the kernel", || {
        while let Some(captured) = kernel.recv().unwrap() {
            let forwarded = captured.frame.windows(9).any(|bytes| bytes == b"forwarded");
            if !captured.outgoing && !forwarded && captured.frame[6..12] == rig.a.mac {
                got.push(captured.frame.to_vec());
            }
        }
        (got.len() >= sent.len()).then_some(())
    });
    slipring_test_support::frames::assert_same("at the kernel", &got, &sent);
    rig.observe([0, sent.len(), 0]);
}

/// GTSM (RFC 5082): the receiver checks that no router was in between.
fn a_datagram_with_ttl_255_reaches_its_socket(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        let address = (net.router_a, 3784);
        let socket = rig.router.run(move || UdpSocket::bind(address).unwrap());
        rig.a.send(&Packet::udp_ports(net.a, net.router_a, [49152, 3784], b"hello").hops(255));
        let (data, from) = receive_datagram(&socket);
        assert_eq!((&data[..], from.ip(), from.port()), (&b"hello"[..], net.a, 49152));
    }
}

fn every_address_of_the_router_answers_echoes(setup: Setup) {
    let rig = setup
        .ip("addr add 10.12.0.1/32 dev lo
             addr add fd12::1/128 dev lo nodad
             addr add 10.1.1.1/24 dev e0
             addr add fd01:1::1/64 dev e0 nodad")
        .start();
    for (net, own) in [
        (v4(), &["10.1.0.1", "10.3.0.1", "10.12.0.1", "10.1.1.1"]),
        (v6(), &["fd01::1", "fd03::1", "fd12::1", "fd01:1::1"]),
    ] {
        for (number, own) in own.iter().enumerate() {
            let echo = Packet::echo(net.a, ip(own), number as u16);
            rig.a.send(&echo);
            let seen = rig.observe([1, 0, 0]);
            let [reply] = &seen.a[..] else { panic!("not one reply from {own}: {seen:?}") };
            assert_eq!((reply.packet.src, reply.packet.dst), (ip(own), net.a));
            assert_eq!(reply.packet.payload[4..], echo.payload[4..]);
        }
    }
}

/// A program listens for an EtherType that is reserved for experiments.
fn a_frame_of_another_protocol_reaches_the_kernel(setup: Setup) {
    let rig = setup.start();
    let mut kernel = rig.router.run(|| InterfaceListener::open("e0").unwrap());
    let frame = Frame {
        dst: rig.a.router_mac,
        src: rig.a.mac,
        tags: Vec::new(),
        ethertype: 0x88b5,
        body: vec![8; 100],
    };
    rig.a.send_frame(&frame);
    rig.is_silent();
    eventually("the frame at the kernel", || {
        loop {
            if kernel.recv().unwrap()?.frame == frame.bytes() {
                return Some(());
            }
        }
    });
}

/// netmap-fwd followed a NULL pointer when all transmit rings were full and a host packet came.
fn a_flood_of_forwarded_packets_does_not_starve_the_router_itself(setup: Setup) {
    let rig = setup.start();
    let flood = Packet::udp(v4().a, v4().b, &[0; 1400]);
    for sequence in 0..20 {
        (0..200).for_each(|_| rig.a.send(&flood));
        rig.a.send(&Packet::echo(v4().a, v4().router_a, sequence));
        let seen = rig.observe([1, 0, 0]);
        assert_eq!(seen.a.len(), 1);
    }
}

fn packets_of_the_router_itself_leave(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        let (from, to) = ((net.router_b, 5000), (net.b, 9));
        rig.router.run(move || UdpSocket::bind(from).unwrap().send_to(b"own", to).unwrap());
        let ethertype = if net.a.is_ipv4() { IPV4 } else { IPV6 };
        rig.b.receive("the router's own datagram", |frame| {
            (frame.ethertype == ethertype && frame.body.ends_with(b"own")
                || frame.body.windows(3).any(|bytes| bytes == b"own"))
            .then_some(())
        });
    }
}
