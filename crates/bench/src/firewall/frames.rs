//! Rules with five fields, and frames that match them.

use std::fmt::{self, Write};
use std::net::Ipv4Addr;

use slipring_wire::FrameSpec;
use slipring_wire::frame::{IpSpec, Ipv4Spec, L4Spec, PortPair, TcpSpec};

use super::draw::SeededRng;

/// A rule with protocol, prefixes and ports. One rule in ten is a `count` rule.
pub(super) struct FiveFieldRule {
    counts: bool,
    is_tcp: bool,
    src: Option<(u32, u32)>,
    dst: Option<(u32, u32)>,
    src_ports: Option<(u16, u16)>,
    dst_ports: Option<(u16, u16)>,
}

impl FiveFieldRule {
    pub(super) fn draw(draw: &mut SeededRng) -> Self {
        let mut prefix = |open: u64| {
            let len = draw.pick(&[8, 16, 20, 24, 24, 28, 32, 32]);
            let bits = draw.next() as u32 & u32::MAX << (32 - len);
            (draw.below(100) >= open).then_some((bits, len))
        };
        let (src, dst) = (prefix(30), prefix(20));
        let mut ports = |open: u64, width: u64| {
            let first = draw.below(60_000) as u16;
            let last = first + draw.below(width) as u16;
            (draw.below(100) >= open).then_some((first, last))
        };
        let (src_ports, dst_ports) = (ports(90, 1000), ports(30, 3));
        // A rule with none of these conditions could match all packets of its protocol, and end the
        // list for them.
        let dst = dst.or((src.is_none() && dst_ports.is_none()).then_some((0x0102_0304, 32)));
        let (counts, is_tcp) = (draw.below(10) == 0, draw.below(2) == 0);
        Self { counts, is_tcp, src, dst, src_ports, dst_ports }
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        let address = |prefix: Option<(u32, u32)>| {
            prefix.map_or("any".into(), |(bits, len)| format!("{}/{len}", Ipv4Addr::from(bits)))
        };
        let ports = |ports: Option<(u16, u16)>| {
            ports.map_or(String::new(), |(first, last)| format!(" {first}-{last}"))
        };
        let action = if self.counts { "count" } else { "allow" };
        let proto = if self.is_tcp { "tcp" } else { "udp" };
        let (src, src_ports) = (address(self.src), ports(self.src_ports));
        let (dst, dst_ports) = (address(self.dst), ports(self.dst_ports));
        writeln!(text, "add {action} {proto} from {src}{src_ports} to {dst}{dst_ports}")
    }
}

/// Returns the rules as the text of a file.
pub(super) fn text(rules: &[FiveFieldRule]) -> String {
    let mut text = String::new();
    for rule in rules {
        rule.write(&mut text).expect("writing to a string cannot fail");
    }
    text
}

/// Builds a frame that one of the rules matches.
pub(super) fn frame(draw: &mut SeededRng, rules: &[FiveFieldRule]) -> Vec<u8> {
    let rule = &rules[draw.below(rules.len() as u64) as usize];
    let mut address = |prefix: Option<(u32, u32)>| {
        let (bits, len) = prefix.unwrap_or((0, 0));
        let host = (draw.next() as u32).checked_shr(len).unwrap_or(0);
        Ipv4Addr::from(bits | host)
    };
    let ip = Ipv4Spec { src: address(rule.src), dst: address(rule.dst), ..Default::default() };
    let mut port = |ports: Option<(u16, u16)>| ports.map_or(draw.next() as u16, |ports| ports.0);
    let ports = PortPair { src: port(rule.src_ports), dst: port(rule.dst_ports) };
    let l4 = match rule.is_tcp {
        true => L4Spec::Tcp(TcpSpec { ports, ..Default::default() }),
        false => L4Spec::Udp(ports),
    };
    built(&FrameSpec { ip: IpSpec::V4(ip), l4, ..Default::default() })
}

/// Builds a frame of 64 bytes.
pub(super) fn built(spec: &FrameSpec) -> Vec<u8> {
    spec.build(64).expect("64 bytes hold these headers").bytes.to_vec()
}
