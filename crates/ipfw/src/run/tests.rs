//! Tests of the firewall. Most of them give it rules and frames, and check verdicts, counters and
//! other output against ipfw's documented behaviour.

mod commands;
mod control;
mod defects;
mod explain;
mod fields;
mod fragments;
mod hostile;
mod limited;
mod lookups;
mod matching;
mod nat;
mod nat_counts;
mod nptv6;
mod replies;
mod restoring;
mod rulesets;
mod sessions;
mod sets;
mod state_table;
mod states;
mod steps;
mod tables;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use std::net::{Ipv4Addr, Ipv6Addr};

use slipring_wire::frame::{
    EchoKind, EchoSpec, IpSpec, Ipv4Spec, Ipv6Spec, L4Spec, PortPair, TcpSpec,
};
use slipring_wire::{FrameSpec, MacAddr};

use super::*;
use crate::text::{IpfwCommand, SetCommand, parse_command};

/// A firewall with ports, rules, a clock, and the outputs of its checks.
struct Fixture {
    firewall: Firewall,
    outputs: CheckOutputs,
    now: u64,
}

const SECOND: u64 = 1_000_000_000;

impl Fixture {
    fn new(rules: &str) -> Self {
        let mut firewall = Firewall::new(7, [1, 2]);
        firewall.set_ports(vec!["em0".into(), "em1".into()]);
        let mut fixture = Self { firewall, outputs: CheckOutputs::default(), now: 0 };
        fixture.load(rules);
        fixture
    }

    fn load(&mut self, rules: &str) {
        self.firewall.load(rules, self.now).unwrap();
    }

    /// Executes a command, which must succeed; returns its output.
    fn run(&mut self, command: &str) -> String {
        self.try_run(command).unwrap()
    }

    /// Returns the output of `table NAME list` without its heading.
    fn entries(&mut self, table: &str) -> String {
        let text = self.run(&format!("table {table} list"));
        let (heading, rows) = text.split_once('\n').unwrap();
        assert_eq!(heading, format!("--- table({table}), set(0) ---"));
        rows.into()
    }

    fn try_run(&mut self, command: &str) -> Result<String, CommandError> {
        let command = parse_command(command).unwrap();
        let reply = self.firewall.execute(&command, self.now, CommandFlags::default());
        reply.map(|reply| reply.text)
    }

    fn check(&mut self, mut frame: Vec<u8>) -> RuleVerdict {
        self.cross(&mut frame, &mut PacketMetadata::incoming(0))
    }

    fn cross(&mut self, frame: &mut [u8], crossing: &mut PacketMetadata) -> RuleVerdict {
        self.firewall.check(frame, crossing, self.now, &mut self.outputs)
    }

    fn passes(&mut self, frame: Vec<u8>) -> bool {
        self.check(frame) == RuleVerdict::Accept
    }

    /// Returns how many packets the first rule with this number has counted.
    fn count(&self, number: u16) -> u64 {
        let mut rules = self.firewall.config().list.iter();
        rules.find(|(entry, _)| entry.number == number).unwrap().1.packets
    }

    fn numbers(&self) -> Vec<u16> {
        self.firewall.config().list.iter().map(|(entry, _)| entry.number).collect()
    }
}

fn spec(src: [u8; 4], dst: [u8; 4], l4: L4Spec) -> FrameSpec {
    let ip = Ipv4Spec { src: Ipv4Addr::from(src), dst: Ipv4Addr::from(dst), ..Default::default() };
    FrameSpec {
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        ip: IpSpec::V4(ip),
        l4,
        ..Default::default()
    }
}

fn bytes(spec: &FrameSpec) -> Vec<u8> {
    spec.build(spec.header_len().max(60)).unwrap().bytes.to_vec()
}

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 1, 0, 1];

fn udp_ports(src: u16, dst: u16) -> Vec<u8> {
    bytes(&spec(A, B, L4Spec::Udp(PortPair { src, dst })))
}

fn udp_from(src: [u8; 4]) -> Vec<u8> {
    bytes(&spec(src, B, L4Spec::Udp(PortPair { src: 1000, dst: 53 })))
}

fn udp() -> Vec<u8> {
    udp_ports(1000, 53)
}

/// Builds a packet of the flow of [`udp`] in the opposite direction.
fn udp_back() -> Vec<u8> {
    bytes(&spec(B, A, L4Spec::Udp(PortPair { src: 53, dst: 1000 })))
}

fn tcp(flags: u8) -> Vec<u8> {
    tcp_seq(false, flags, 1, 1)
}

/// Builds a TCP segment from the client, or to the client if `back` is true.
fn tcp_seq(back: bool, flags: u8, seq: u32, ack: u32) -> Vec<u8> {
    let (src, dst) = if back { (B, A) } else { (A, B) };
    let ports =
        if back { PortPair { src: 80, dst: 1000 } } else { PortPair { src: 1000, dst: 80 } };
    bytes(&spec(src, dst, L4Spec::Tcp(TcpSpec { ports, flags, seq, ack, ..Default::default() })))
}

fn ping() -> Vec<u8> {
    bytes(&spec(A, B, L4Spec::Echo(EchoSpec { kind: EchoKind::Request, id: 1, seq: 1 })))
}

fn v6(l4: L4Spec, flow_label: u32) -> Vec<u8> {
    let ip = Ipv6Spec {
        src: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        dst: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
        flow_label,
        ..Default::default()
    };
    bytes(&FrameSpec { ip: IpSpec::V6(ip), ..spec(A, B, l4) })
}

fn ping6() -> Vec<u8> {
    v6(L4Spec::Echo(EchoSpec { kind: EchoKind::Request, id: 1, seq: 1 }), 0)
}

fn udp6() -> Vec<u8> {
    v6(L4Spec::Udp(PortPair { src: 1000, dst: 53 }), 0)
}

fn arp() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.resize(60, 0);
    frame
}

/// Builds a v4 frame with changed bytes in the IP header, and updates the checksum.
fn v4_with(frame: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut frame = frame.to_vec();
    change(&mut frame[14..34]);
    frame[24..26].fill(0);
    let sum = slipring_wire::checksum::of(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}
