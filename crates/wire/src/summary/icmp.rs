//! ICMP and ICMPv6: echo, errors, neighbour and router discovery.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::detail::Checked;
use super::ip::Packet;
use crate::assigned::IpProto;
use crate::field::{array, be16};

const MIN_LEN: usize = 8;

pub(super) fn line_v4(f: &mut fmt::Formatter<'_>, packet: &Packet<'_>) -> fmt::Result {
    let Some([kind, code, ..]) = array::<MIN_LEN>(packet.bytes, 0) else {
        return f.write_str("[|icmp]");
    };
    f.write_str("ICMP ")?;
    match (kind, code) {
        (0, _) => echo(f, "echo reply", packet),
        (8, _) => echo(f, "echo request", packet),
        (3, _) => unreachable_v4(f, code, packet),
        (5, _) => write!(f, "redirect to {}", v4(packet, 4)),
        (11, 0) => f.write_str("time exceeded in-transit"),
        (11, _) => f.write_str("ip reassembly time exceeded"),
        (12, _) => f.write_str("parameter problem"),
        _ => write!(f, "type {kind}, code {code}"),
    }?;
    write!(f, ", length {}", packet.len)?;
    match packet.checked {
        Some(Checked::Wrong { found, right }) => {
            write!(f, " (wrong icmp cksum {found:x} (->{right:x})!)")
        }
        _ => Ok(()),
    }
}

/// The packet in question follows the ICMP header: its destination is 16 bytes in.
fn unreachable_v4(f: &mut fmt::Formatter<'_>, code: u8, packet: &Packet<'_>) -> fmt::Result {
    let dst = v4(packet, MIN_LEN + 16);
    match code {
        0 => write!(f, "net {dst} unreachable"),
        1 => write!(f, "host {dst} unreachable"),
        2 => write!(f, "{dst} protocol unreachable"),
        3 => write!(f, "{dst} {} unreachable", Port::quoted_v4(packet)),
        4 => {
            let mtu = be16(packet.bytes, 6).unwrap_or(0);
            write!(f, "{dst} unreachable - need to frag (mtu {mtu})")
        }
        _ => write!(f, "{dst} unreachable, code {code}"),
    }
}

pub(super) fn line_v6(f: &mut fmt::Formatter<'_>, packet: &Packet<'_>) -> fmt::Result {
    let Some([kind, code, ..]) = array::<4>(packet.bytes, 0) else {
        return f.write_str("[|icmp6]");
    };
    if let Some(checked) = packet.checked {
        checked.in_brackets(f, "icmp6")?;
    }
    f.write_str("ICMP6, ")?;
    if packet.full && (133..=137).contains(&kind) {
        return discovery_in_full(f, kind, packet);
    }
    match kind {
        1 => unreachable_v6(f, code, packet),
        2 => write!(f, "packet too big, mtu {}", mtu_v6(packet)),
        3 => f.write_str("time exceeded in-transit"),
        4 => f.write_str("parameter problem"),
        128 => echo(f, "echo request", packet),
        129 => echo(f, "echo reply", packet),
        133 => f.write_str("router solicitation"),
        134 => f.write_str("router advertisement"),
        135 => write!(f, "neighbor solicitation, who has {}", v6(packet)),
        136 => write!(f, "neighbor advertisement, tgt is {}", v6(packet)),
        137 => write!(f, "redirect, tgt is {}", v6(packet)),
        143 => f.write_str("multicast listener report v2"),
        _ => write!(f, "type {kind}, code {code}"),
    }?;
    if packet.full { Ok(()) } else { write!(f, ", length {}", packet.len) }
}

/// Neighbour and router discovery, where the length stands before what is discovered.
fn discovery_in_full(f: &mut fmt::Formatter<'_>, kind: u8, packet: &Packet<'_>) -> fmt::Result {
    let len = packet.len;
    match kind {
        133 => write!(f, "router solicitation, length {len}"),
        134 => write!(f, "router advertisement, length {len}"),
        135 => write!(f, "neighbor solicitation, length {len}, who has {}", v6(packet)),
        136 => {
            write!(f, "neighbor advertisement, length {len}, tgt is {}, Flags [", v6(packet))?;
            let [flags] = array::<1>(packet.bytes, 4).unwrap_or_default();
            let names = [(0x80, "router"), (0x40, "solicited"), (0x20, "override")];
            let mut before = "";
            for (_, name) in names.into_iter().filter(|(bit, _)| flags & bit != 0) {
                write!(f, "{before}{name}")?;
                before = ", ";
            }
            f.write_str(if flags & 0xe0 == 0 { "none]" } else { "]" })
        }
        _ => write!(f, "redirect, length {len}, tgt is {}", v6(packet)),
    }
}

/// The packet in question follows: its destination is 24 bytes in.
fn unreachable_v6(f: &mut fmt::Formatter<'_>, code: u8, packet: &Packet<'_>) -> fmt::Result {
    let dst = Address(array::<16>(packet.bytes, MIN_LEN + 24).map(Ipv6Addr::from));
    f.write_str("destination unreachable, ")?;
    match code {
        0 => write!(f, "unreachable route {dst}"),
        1 => write!(f, "unreachable prohibited {dst}"),
        3 => write!(f, "unreachable address {dst}"),
        4 => write!(f, "unreachable port, {dst} {}", Port::quoted_v6(packet)),
        _ => write!(f, "{dst}, code {code}"),
    }
}

/// The destination port in a packet that an error quotes, which has no options or extensions.
struct Port {
    proto: Option<[u8; 1]>,
    number: Option<u16>,
}

impl Port {
    fn quoted_v4(packet: &Packet<'_>) -> Self {
        let bytes = packet.bytes;
        Self { proto: array(bytes, MIN_LEN + 9), number: be16(bytes, MIN_LEN + 22) }
    }

    fn quoted_v6(packet: &Packet<'_>) -> Self {
        let bytes = packet.bytes;
        Self { proto: array(bytes, MIN_LEN + 6), number: be16(bytes, MIN_LEN + 42) }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.proto.map(|[proto]| IpProto(proto)) {
            Some(IpProto::UDP) => f.write_str("udp port")?,
            Some(IpProto::TCP) => f.write_str("tcp port")?,
            _ => f.write_str("port")?,
        }
        self.number.map_or(Ok(()), |number| write!(f, " {number}"))
    }
}

/// Identifier and sequence number have the same place in both versions.
fn echo(f: &mut fmt::Formatter<'_>, name: &str, packet: &Packet<'_>) -> fmt::Result {
    let id = be16(packet.bytes, 4).unwrap_or(0);
    let seq = be16(packet.bytes, 6).unwrap_or(0);
    write!(f, "{name}, id {id}, seq {seq}")
}

fn mtu_v6(packet: &Packet<'_>) -> u32 {
    array(packet.bytes, 4).map_or(0, u32::from_be_bytes)
}

/// An address in the message, or `[|]` where it is cut off.
fn v4(packet: &Packet<'_>, at: usize) -> Address<Ipv4Addr> {
    Address(array::<4>(packet.bytes, at).map(Ipv4Addr::from))
}

/// The target, which all messages of neighbour discovery have at the same place.
fn v6(packet: &Packet<'_>) -> Address<Ipv6Addr> {
    Address(array::<16>(packet.bytes, 8).map(Ipv6Addr::from))
}

struct Address<A>(Option<A>);

impl<A: fmt::Display> fmt::Display for Address<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(address) => address.fmt(f),
            None => f.write_str("[|]"),
        }
    }
}
