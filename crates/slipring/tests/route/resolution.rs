//! ARP (RFC 826) and neighbour discovery (RFC 4861) messages.

use std::net::{IpAddr, Ipv6Addr};

use crate::host::{ARP, Frame, Mac};
use crate::packet::Packet;
use crate::rig::ip;

/// An ARP packet for IPv4 over Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arp {
    /// 1 is a request, 2 a reply.
    pub(crate) operation: u16,
    pub(crate) sender: (Mac, IpAddr),
    pub(crate) target: (Mac, IpAddr),
}

impl Arp {
    /// Parses the ARP packet of a frame.
    pub(crate) fn parse(frame: &Frame) -> Option<Self> {
        let body = &frame.body;
        if frame.ethertype != ARP || body.len() < 28 {
            return None;
        }
        assert_eq!(body[..6], [0, 1, 8, 0, 6, 4], "not IPv4 over Ethernet: {frame:02x?}");
        let pair = |at: usize| {
            let address: [u8; 4] = body[at + 6..at + 10].try_into().unwrap();
            (*body[at..].first_chunk().unwrap(), IpAddr::from(address))
        };
        let operation = u16::from_be_bytes([body[6], body[7]]);
        Some(Self { operation, sender: pair(8), target: pair(18) })
    }

    /// Returns the frame that contains the ARP packet.
    pub(crate) fn frame(&self, src: Mac, dst: Mac) -> Frame {
        let mut body = vec![0, 1, 8, 0, 6, 4];
        body.extend(self.operation.to_be_bytes());
        for (mac, address) in [self.sender, self.target] {
            let IpAddr::V4(address) = address else { panic!("{address}") };
            body.extend(mac);
            body.extend(address.octets());
        }
        Frame { dst, src, tags: Vec::new(), ethertype: ARP, body }
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    let IpAddr::V6(address) = address else { panic!("{address}") };
    address.octets()
}

/// The solicited-node multicast address (RFC 4291, section 2.7.1).
pub(crate) fn solicited_node(target: IpAddr) -> IpAddr {
    let [.., a, b, c] = octets(target);
    let mut group = octets(ip("ff02::1:ff00:0"));
    group[13..].copy_from_slice(&[a, b, c]);
    Ipv6Addr::from(group).into()
}

/// The MAC address of an IPv6 multicast address (RFC 2464, section 7).
pub(crate) fn group_mac(group: IpAddr) -> Mac {
    let [.., a, b, c, d] = octets(group);
    [0x33, 0x33, a, b, c, d]
}

/// A neighbour solicitation or advertisement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Discovery {
    /// 135 is a solicitation, 136 an advertisement.
    pub(crate) kind: u8,
    /// The flags of an advertisement: router, solicited, override.
    pub(crate) flags: u8,
    pub(crate) target: IpAddr,
    /// The link-layer address option, if any: its type (1 for source, 2 for target) and the
    /// address.
    pub(crate) option: Option<(u8, Mac)>,
}

pub(crate) const ROUTER: u8 = 0x80;
pub(crate) const SOLICITED: u8 = 0x40;
pub(crate) const OVERRIDE: u8 = 0x20;

impl Discovery {
    /// Parses the message of a frame; returns the packet as well.
    pub(crate) fn parse(frame: &Frame) -> Option<(Packet, Self)> {
        let packet = frame.packet()?;
        let message = packet.payload.clone();
        if packet.proto != crate::packet::ICMP6 || !matches!(message[0], 135 | 136) {
            return None;
        }
        assert_eq!((packet.hops, message[1]), (255, 0), "{packet:?}");
        let target = <[u8; 16]>::try_from(&message[8..24]).unwrap().into();
        let option = message.get(24..32).map(|option| {
            assert_eq!(option[1], 1, "{packet:?}");
            (option[0], *option[2..].first_chunk().unwrap())
        });
        Some((packet, Self { kind: message[0], flags: message[4], target, option }))
    }

    /// Returns the packet that contains the message.
    pub(crate) fn packet(&self, src: IpAddr, dst: IpAddr) -> Packet {
        let mut message = vec![self.kind, 0, 0, 0, self.flags, 0, 0, 0];
        message.extend(octets(self.target));
        if let Some((kind, mac)) = self.option {
            message.extend([kind, 1]);
            message.extend(mac);
        }
        Packet::icmp(src, dst, message).hops(255)
    }
}
