//! Lines that rules with `log` write.

use alloc::format;
use alloc::string::{String, ToString};
use core::net::{Ipv4Addr, Ipv6Addr};

use super::config::Config;
use super::crossing::{Crossing, Pass};
use crate::packet::{Packet, Version};
use crate::rule::{Action, Arg, LogDestination, NatRef, RuleNumber};
use crate::text::proto_name;

/// A line to be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// The rule.
    pub number: RuleNumber,
    /// The line, without its end.
    pub line: String,
    /// Where it goes.
    pub to: LogDestination,
}

/// The line of a packet that a rule logs.
pub(super) fn line(
    config: &Config,
    number: RuleNumber,
    action: &Action,
    packet: &Packet,
    crossing: &Crossing,
) -> String {
    let (direction, port) = match crossing.pass {
        Pass::In => ("in", crossing.recv),
        Pass::Out => ("out", crossing.xmit),
    };
    let via = config.port_name(port);
    let what = what(packet);
    format!("ipfw: {number} {} {what} {direction} via {via}{}", verb(action), fragment(packet))
}

fn verb(action: &Action) -> String {
    let with = |word: &str, arg: &Arg| match arg {
        Arg::Number(number) => format!("{word} {number}"),
        Arg::Tablearg => format!("{word} tablearg"),
    };
    match action {
        Action::Allow => "Accept".into(),
        Action::Deny => "Deny".into(),
        Action::Count => "Count".into(),
        Action::SkipTo(to) => with("SkipTo", to),
        Action::Call(to) => with("Call", to),
        Action::Return(_) => "Return".into(),
        Action::Pipe(number) => with("Pipe", number),
        Action::Queue(number) => with("Queue", number),
        Action::Unreach(unreach) if unreach.code == 1 => "Reject".into(),
        Action::Unreach(unreach) => format!("Unreach {}", unreach.code),
        Action::Unreach6(code) => format!("Unreach {code}"),
        Action::Reset | Action::Reset6 => "Reset".into(),
        Action::Abort | Action::Abort6 => "Abort".into(),
        Action::Forward(hop) => format!("Forward to {hop}"),
        Action::SetDscp(dscp) => with("SetDscp", dscp),
        Action::SetMark(mark) => with("SetMark", mark),
        Action::TcpSetMss(mss) => format!("TcpSetMss {mss}"),
        Action::Reass => "Reass".into(),
        Action::Nat(NatRef::Global) => "Nat global".into(),
        Action::Nat(NatRef::Instance(number)) => with("Nat", number),
        Action::Nptv6(name) => format!("Nptv6 {name}"),
        Action::CheckState(_) => "CheckState".into(),
    }
}

/// Source and destination, with ports where there are any.
pub(super) fn ends(packet: &Packet) -> String {
    let (src, dst) = addresses(packet);
    if packet.has_ports {
        return format!("{src}:{} {dst}:{}", packet.src_port, packet.dst_port);
    }
    format!("{src} {dst}")
}

fn addresses(packet: &Packet) -> (String, String) {
    let address = |bits: u128| match packet.version {
        Version::V6 => format!("[{}]", Ipv6Addr::from_bits(bits)),
        _ => Ipv4Addr::from_bits(bits as u32).to_string(),
    };
    (address(packet.src), address(packet.dst))
}

fn what(packet: &Packet) -> String {
    let (src, dst) = addresses(packet);
    if packet.version == Version::None {
        return format!(
            "MAC {} {} type {:#06x}",
            packet.src_mac(),
            packet.dst_mac(),
            packet.ethertype
        );
    }
    if packet.has_ports {
        let name = proto_name(packet.proto).unwrap_or("").to_ascii_uppercase();
        return format!("{name} {}", ends(packet));
    }
    let (kind, code) = packet.icmp;
    match (packet.proto, packet.later_fragment) {
        (1, false) => format!("ICMP:{kind}.{code} {src} {dst}"),
        (58, false) => format!("ICMPv6:{kind}.{code} {src} {dst}"),
        (6, true) => format!("TCP {src} {dst}"),
        (17, true) => format!("UDP {src} {dst}"),
        (proto, _) => format!("P:{proto} {src} {dst}"),
    }
}

fn fragment(packet: &Packet) -> String {
    let offset = packet.ip_off & 0x1fff;
    let more = packet.ip_off & 0x2000 != 0;
    if packet.version != Version::V4 || (offset == 0 && !more) {
        return String::new();
    }
    let headers = packet.l4.saturating_sub(packet.l3) as u32;
    let len = packet.ip_len.saturating_sub(headers);
    let plus = if more { "+" } else { "" };
    format!(" (frag {}:{len}@{}{plus})", packet.ip_id, u32::from(offset) * 8)
}
