//! Log lines of rules with `log`.

use alloc::format;
use alloc::string::{String, ToString};
use core::net::{Ipv4Addr, Ipv6Addr};

use super::config::IpfwConfig;
use super::metadata::{CheckPass, PacketMetadata};
use crate::packet::{IpFamily, PacketHeaders};
use crate::rule::{Arg, LogDestination, NatRef, RuleAction, RuleNumber};
use crate::text::proto_name;

/// A line to be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// The rule number.
    pub number: RuleNumber,
    /// The line, without a line terminator.
    pub line: String,
    /// The destination of the line.
    pub to: LogDestination,
}

/// Returns the log line of a packet.
pub(super) fn line(
    config: &IpfwConfig,
    number: RuleNumber,
    action: &RuleAction,
    packet: &PacketHeaders,
    crossing: &PacketMetadata,
) -> String {
    let (direction, port) = match crossing.pass {
        CheckPass::In => ("in", crossing.recv),
        CheckPass::Out => ("out", crossing.xmit),
    };
    let via = config.port_name(port);
    let what = describe(packet);
    format!("ipfw: {number} {} {what} {direction} via {via}{}", verb(action), fragment(packet))
}

fn verb(action: &RuleAction) -> String {
    let with = |word: &str, arg: &Arg| match arg {
        Arg::Number(number) => format!("{word} {number}"),
        Arg::Tablearg => format!("{word} tablearg"),
    };
    match action {
        RuleAction::Allow => "Accept".into(),
        RuleAction::Deny => "Deny".into(),
        RuleAction::Count => "Count".into(),
        RuleAction::SkipTo(to) => with("SkipTo", to),
        RuleAction::Call(to) => with("Call", to),
        RuleAction::Return(_) => "Return".into(),
        RuleAction::Pipe(number) => with("Pipe", number),
        RuleAction::Queue(number) => with("Queue", number),
        RuleAction::Unreach(unreach) if unreach.code == 1 => "Reject".into(),
        RuleAction::Unreach(unreach) => format!("Unreach {}", unreach.code),
        RuleAction::Unreach6(code) => format!("Unreach {code}"),
        RuleAction::Reset | RuleAction::Reset6 => "Reset".into(),
        RuleAction::Abort | RuleAction::Abort6 => "Abort".into(),
        RuleAction::Forward(hop) => format!("Forward to {hop}"),
        RuleAction::SetDscp(dscp) => with("SetDscp", dscp),
        RuleAction::SetMark(mark) => with("SetMark", mark),
        RuleAction::TcpSetMss(mss) => format!("TcpSetMss {mss}"),
        RuleAction::Reass => "Reass".into(),
        RuleAction::Nat(NatRef::Global) => "Nat global".into(),
        RuleAction::Nat(NatRef::Instance(number)) => with("Nat", number),
        RuleAction::Nptv6(name) => format!("Nptv6 {name}"),
        RuleAction::CheckState(_) => "CheckState".into(),
    }
}

/// Formats source and destination, with ports if the packet has any.
pub(super) fn ends(packet: &PacketHeaders) -> String {
    let (src, dst) = addresses(packet);
    if packet.has_ports {
        return format!("{src}:{} {dst}:{}", packet.src_port, packet.dst_port);
    }
    format!("{src} {dst}")
}

fn addresses(packet: &PacketHeaders) -> (String, String) {
    let address = |bits: u128| match packet.version {
        IpFamily::V6 => format!("[{}]", Ipv6Addr::from_bits(bits)),
        _ => Ipv4Addr::from_bits(bits as u32).to_string(),
    };
    (address(packet.src), address(packet.dst))
}

fn describe(packet: &PacketHeaders) -> String {
    let (src, dst) = addresses(packet);
    if packet.version == IpFamily::None {
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

fn fragment(packet: &PacketHeaders) -> String {
    let offset = packet.ip_off & 0x1fff;
    let more = packet.ip_off & 0x2000 != 0;
    if packet.version != IpFamily::V4 || (offset == 0 && !more) {
        return String::new();
    }
    let headers = packet.l4.saturating_sub(packet.l3) as u32;
    let len = packet.ip_len.saturating_sub(headers);
    let plus = if more { "+" } else { "" };
    format!(" (frag {}:{len}@{}{plus})", packet.ip_id, u32::from(offset) * 8)
}
