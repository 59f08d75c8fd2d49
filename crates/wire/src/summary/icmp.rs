//! ICMP and ICMPv6: echo, errors, neighbour and router discovery.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::ip::Packet;
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
    write!(f, ", length {}", packet.len)
}

/// The packet in question follows the ICMP header: its destination is 16 bytes in.
fn unreachable_v4(f: &mut fmt::Formatter<'_>, code: u8, packet: &Packet<'_>) -> fmt::Result {
    let dst = v4(packet, MIN_LEN + 16);
    match code {
        0 => write!(f, "net {dst} unreachable"),
        1 => write!(f, "host {dst} unreachable"),
        2 => write!(f, "{dst} protocol unreachable"),
        // The destination port behind an IP header of 20 bytes.
        3 => match be16(packet.bytes, MIN_LEN + 22) {
            Some(port) => write!(f, "{dst} port {port} unreachable"),
            None => write!(f, "{dst} port unreachable"),
        },
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
    f.write_str("ICMP6, ")?;
    match kind {
        1 => write!(f, "destination unreachable, code {code}"),
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
    write!(f, ", length {}", packet.len)
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
