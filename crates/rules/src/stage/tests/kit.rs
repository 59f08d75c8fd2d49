//! A router with two ports and rules.
//!
//! ```text
//!   H1 10.1.0.2 --- 10.1.0.1 LEFT [ router ] RIGHT 10.3.0.1 --- 10.3.0.2 H2, 10.3.0.3 GATEWAY
//!      fd01::2      fd01::1                        fd03::1      fd03::2
//! ```

use std::net::IpAddr;
use std::sync::Arc;

use slipring_dummynet::Dummynet;
use slipring_dummynet::text::DummynetCommand;
use slipring_fib::{
    Adjacency, AdjacencyIndex, FibPort, FibPortIndex, ForwardingTables, Ipv4Lookup, Ipv6Lookup,
    NextHopAddress, ReversePathMode, Target, TargetAction, TargetIndex, VlanTags, VrfIndex,
    VrfTables,
};
use slipring_ipfw::run::Firewall;
use slipring_route::{RouteBatch, RouteConfig, RouteEngine, RouteFrame, RouteOutput, RouteVerdict};
use slipring_wire::MacAddr;
use slipring_wire::frame::{FrameSpec, IpSpec, Ipv4Spec, Ipv6Spec, L4Spec, PortPair, TcpSpec};

use crate::dataplane::RuleDataplane;
use crate::{LogEvents, RuleStage, router_ports};

pub(super) const LEFT: FibPortIndex = FibPortIndex(0);
pub(super) const RIGHT: FibPortIndex = FibPortIndex(1);
pub(super) const LEFT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub(super) const RIGHT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
pub(super) const H1: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
pub(super) const H2: MacAddr = MacAddr([2, 0, 0, 0, 1, 2]);
pub(super) const GATEWAY: MacAddr = MacAddr([2, 0, 0, 0, 1, 3]);

/// An address in the network that only the kernel can route.
pub(super) const KERNEL_NET: &str = "10.9.0.1";

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A route table that finds the longest match by a linear search.
#[derive(Debug, Default)]
struct LinearTable(Vec<(u128, u32, TargetIndex)>, u32);

impl LinearTable {
    fn find(&self, destination: u128) -> TargetIndex {
        let matching = |(prefix, len, _): &&(u128, u32, TargetIndex)| {
            (prefix ^ destination).checked_shr(self.1 - len).unwrap_or(0) == 0
        };
        let best = self.0.iter().filter(matching).max_by_key(|(_, len, _)| *len);
        best.map_or(TargetIndex::NO_ROUTE, |(.., target)| *target)
    }
}

impl Ipv4Lookup for LinearTable {
    fn lookup(&self, destinations: &[u32], targets: &mut [TargetIndex]) {
        for (to, target) in destinations.iter().zip(targets) {
            *target = self.find(u128::from(*to));
        }
    }
}

impl Ipv6Lookup for LinearTable {
    fn lookup(&self, destinations: &[u128], targets: &mut [TargetIndex]) {
        for (to, target) in destinations.iter().zip(targets) {
            *target = self.find(*to);
        }
    }
}

fn port(name: &str, index: u8, addresses: [&str; 2]) -> FibPort {
    FibPort {
        ifindex: u32::from(index) + 1,
        name: name.to_owned(),
        mac: MacAddr([2, 0, 0, 0, 0, index + 1]),
        mtu: 1500,
        is_up: true,
        vrf: VrfIndex(0),
        reverse_path: ReversePathMode::Off,
        reverse_path_v6: ReversePathMode::Off,
        tags: VlanTags::default(),
        addresses: vec![(ip(addresses[0]), 24), (ip(addresses[1]), 64)],
    }
}

pub(super) fn tables() -> Arc<ForwardingTables> {
    let ports =
        vec![port("left", 0, ["10.1.0.1", "fd01::1"]), port("right", 1, ["10.3.0.1", "fd03::1"])];
    let mut targets = vec![
        Target { action: TargetAction::NoRoute, mtu: 0 },
        Target { action: TargetAction::Kernel, mtu: 0 },
    ];
    let (mut adjacencies, mut v4, mut v6) = (Vec::new(), Vec::new(), Vec::new());
    for (address, port, mac) in [
        ("10.1.0.2", LEFT, H1),
        ("fd01::2", LEFT, H1),
        ("10.3.0.2", RIGHT, H2),
        ("fd03::2", RIGHT, H2),
        ("10.3.0.3", RIGHT, GATEWAY),
    ] {
        let next_hop = NextHopAddress::Via(ip(address));
        adjacencies.push(Adjacency { port, next_hop, mac: Some(mac) });
        let action = TargetAction::Forward(AdjacencyIndex(adjacencies.len() as u16 - 1));
        targets.push(Target { action, mtu: 0 });
        let target = TargetIndex(targets.len() as u16 - 1);
        match ip(address) {
            IpAddr::V4(address) => v4.push((u128::from(address.to_bits()), 32, target)),
            IpAddr::V6(address) => v6.push((address.to_bits(), 128, target)),
        }
    }
    for own in ports.iter().flat_map(|port| &port.addresses) {
        match own.0 {
            IpAddr::V4(address) => {
                v4.push((u128::from(address.to_bits()), 32, TargetIndex::KERNEL));
            }
            IpAddr::V6(address) => v6.push((address.to_bits(), 128, TargetIndex::KERNEL)),
        }
    }
    v4.push((u128::from(u32::from_be_bytes([10, 9, 0, 0])), 16, TargetIndex::KERNEL));
    Arc::new(ForwardingTables {
        generation: 1,
        ports: ports.into(),
        vrfs: [VrfTables { v4: Arc::new(LinearTable(v4, 32)), v6: Arc::new(LinearTable(v6, 128)) }]
            .into(),
        targets: targets.into(),
        adjacencies: adjacencies.into(),
        buckets: [].into(),
    })
}

/// Creates a firewall and executes `commands` in it.
pub(super) fn firewall(commands: &str) -> Firewall {
    let mut firewall = Firewall::new(7, [1, 2]);
    let (names, own) = router_ports(&tables());
    firewall.set_ports(names);
    firewall.set_me(own);
    firewall.load(commands, 0).unwrap_or_else(|error| panic!("{error}\n{commands}"));
    firewall
}

/// A router with rules.
pub(super) struct Router {
    pub(super) engine: RouteEngine,
    pub(super) stage: RuleStage,
    pub(super) log: Arc<LogEvents>,
}

/// What left a router: port and frame.
pub(super) type Sent = (FibPortIndex, Vec<u8>);

impl Router {
    pub(super) fn new(commands: &str) -> Self {
        let log = Arc::new(LogEvents::default());
        let stage = RuleStage::new(firewall(commands), Dummynet::new(7, [1, 2]), log.clone());
        Self { engine: RouteEngine::new(RouteConfig::default(), tables()), stage, log }
    }

    /// Executes a `config` command for a pipe.
    pub(super) fn configure(&mut self, command: &str) {
        let Ok(DummynetCommand::Config(config)) = DummynetCommand::parse(command) else {
            panic!("{command}")
        };
        let events = self.stage.shaper_mut().configure(0, config, &mut |_| {});
        events.unwrap();
    }

    /// Processes frames from one port as one batch. Returns their verdicts, and all frames that the
    /// router sent.
    pub(super) fn process(
        &mut self,
        from: FibPortIndex,
        frames: &[Vec<u8>],
        now_ns: u64,
    ) -> (Vec<RouteVerdict>, Vec<Sent>) {
        let mut bytes = frames.to_vec();
        let mut frames: Vec<_> =
            bytes.iter_mut().map(|bytes| RouteFrame::new(bytes, from)).collect();
        let mut batch = RouteBatch::new();
        self.stage.process(&mut self.engine, &mut batch, &mut frames, now_ns);
        let verdicts: Vec<_> = (0..frames.len()).map(|at| batch.verdict(at).unwrap()).collect();
        let mut sent = Vec::new();
        for (verdict, frame) in verdicts.iter().zip(&frames) {
            if let RouteVerdict::Forward(out) = verdict {
                sent.push((out.port, [out.prepend(), &frame.bytes[out.range()]].concat()));
            }
        }
        sent.extend(self.made());
        (verdicts, sent)
    }

    /// Returns the frames in the engine's output queue; asserts that the counters balance.
    pub(super) fn made(&mut self) -> Vec<Sent> {
        assert!(self.engine.counters().is_balanced(), "{:?}", self.engine.counters());
        std::iter::from_fn(|| self.engine.pop())
            .map(|output| match output {
                RouteOutput::Send { port, frame } => (port, frame),
                held @ RouteOutput::Hold { .. } => panic!("held: {held:?}"),
            })
            .collect()
    }

    /// Processes one frame that arrives on port `LEFT`. Returns its verdict, and all frames that
    /// the router sent.
    pub(super) fn one(&mut self, frame: &[u8]) -> (RouteVerdict, Vec<Sent>) {
        let (verdicts, sent) = self.process(LEFT, &[frame.to_vec()], 0);
        (verdicts[0], sent)
    }

    pub(super) fn passes(&mut self, frame: &[u8]) -> bool {
        matches!(self.one(frame).0, RouteVerdict::Forward(_))
    }

    /// The total packet count of the rules that have this number.
    pub(super) fn packets_of(&self, number: u32) -> u64 {
        let list = &self.stage.firewall().config().list;
        let of_number = list.iter().filter(|(entry, _)| u32::from(entry.number) == number);
        of_number.map(|(_, counters)| counters.packets).sum()
    }
}

/// A frame from a host to the router.
pub(super) fn frame(from: &str, to: &str, l4: L4Spec) -> Vec<u8> {
    let ip = match (ip(from), ip(to)) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            IpSpec::V4(Ipv4Spec { src, dst, ..Ipv4Spec::default() })
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            IpSpec::V6(Ipv6Spec { src, dst, ..Ipv6Spec::default() })
        }
        _ => panic!("addresses of two families"),
    };
    let is_left = from.starts_with("10.1.") || from.starts_with("fd01:");
    let (src_mac, dst_mac) = if is_left { (H1, LEFT_MAC) } else { (H2, RIGHT_MAC) };
    FrameSpec { src_mac, dst_mac, ip, l4, ..FrameSpec::default() }.build(100).unwrap().bytes
}

pub(super) fn udp(from: &str, to: &str, port: u16) -> Vec<u8> {
    frame(from, to, L4Spec::Udp(PortPair { src: 4000, dst: port }))
}

pub(super) fn tcp(from: &str, to: &str, ports: [u16; 2], flags: u8) -> Vec<u8> {
    let ports = PortPair { src: ports[0], dst: ports[1] };
    frame(from, to, L4Spec::Tcp(TcpSpec { ports, flags, ..TcpSpec::default() }))
}

/// Splits an IPv4 frame into two fragments; the first has `len` bytes of data.
pub(super) fn fragments(frame: &[u8], len: usize) -> [Vec<u8>; 2] {
    let (headers, data) = frame.split_at(34);
    let part = |data: &[u8], offset: u16| {
        let mut part = [headers, data].concat();
        part[16..18].copy_from_slice(&(20 + data.len() as u16).to_be_bytes());
        part[20..22].copy_from_slice(&offset.to_be_bytes());
        part[24..26].fill(0);
        let sum = slipring_wire::checksum::of(&part[14..34]);
        part[24..26].copy_from_slice(&sum.to_be_bytes());
        part
    };
    [part(&data[..len], 0x2000), part(&data[len..], len as u16 / 8)]
}
