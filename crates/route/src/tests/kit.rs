//! A router with a few ports and routes, and helpers that check frames.
//!
//! ```text
//!   H1 10.1.0.2 --- 10.1.0.1 LEFT [ router ] RIGHT 10.3.0.1 --- 10.3.0.2 H2
//!      fd01::2      fd01::1                        fd03::1      fd03::2
//! ```

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_fib::{
    Adjacency, AdjacencyIndex, BUCKETS, FibPort, FibPortIndex, ForwardingTables, Ipv4Lookup,
    Ipv6Lookup, NextHopAddress, ReversePathMode, Target, TargetAction, TargetIndex, VlanTags,
    VrfIndex, VrfTables,
};
use slipring_wire::frame::{FrameSpec, IpSpec, Ipv4Spec, Ipv6Spec};
use slipring_wire::{MacAddr, checksum};

use crate::{RouteBatch, RouteConfig, RouteEngine, RouteFrame, RouteOutput, RouteVerdict};

pub(super) const LEFT: FibPortIndex = FibPortIndex(0);
pub(super) const RIGHT: FibPortIndex = FibPortIndex(1);
/// The port of VLAN 100 on the left.
pub(super) const TAGGED: FibPortIndex = FibPortIndex(2);
/// The port of VLAN 8 in service VLAN 7, on the left.
pub(super) const QINQ: FibPortIndex = FibPortIndex(3);
/// A port without a carrier.
pub(super) const DOWN: FibPortIndex = FibPortIndex(4);
/// A port in the second VRF.
pub(super) const RED: FibPortIndex = FibPortIndex(5);

pub(super) const LEFT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub(super) const RIGHT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
pub(super) const RED_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 6]);
pub(super) const H1: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
pub(super) const H2: MacAddr = MacAddr([2, 0, 0, 0, 1, 2]);
/// MAC address of the gateways on the right and in the second VRF.
pub(super) const GATEWAY: MacAddr = MacAddr([2, 0, 0, 0, 1, 3]);

/// A longest-prefix match that searches all routes. The second field is the length of an address in
/// bits.
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
        assert_eq!(destinations.len(), targets.len());
        for (to, target) in destinations.iter().zip(targets) {
            *target = self.find(u128::from(*to));
        }
    }
}

impl Ipv6Lookup for LinearTable {
    fn lookup(&self, destinations: &[u128], targets: &mut [TargetIndex]) {
        assert_eq!(destinations.len(), targets.len());
        for (to, target) in destinations.iter().zip(targets) {
            *target = self.find(*to);
        }
    }
}

/// Builds forwarding tables.
#[derive(Debug, Default)]
pub(super) struct TableBuilder {
    pub(super) ports: Vec<FibPort>,
    routes: Vec<(u16, IpAddr, u8, TargetIndex)>,
    targets: Vec<Target>,
    adjacencies: Vec<Adjacency>,
    buckets: Vec<[AdjacencyIndex; BUCKETS]>,
}

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn port(index: u8, ifindex: u32, tags: VlanTags, addresses: &[(&str, u8)]) -> FibPort {
    let addresses = addresses.iter().map(|(address, len)| (ip(address), *len)).collect();
    FibPort {
        ifindex,
        name: index.to_string(),
        mac: MacAddr([2, 0, 0, 0, 0, index + 1]),
        mtu: 1500,
        is_up: true,
        vrf: VrfIndex(0),
        reverse_path: ReversePathMode::Off,
        reverse_path_v6: ReversePathMode::Off,
        tags,
        addresses,
    }
}

impl TableBuilder {
    pub(super) fn new() -> Self {
        let untagged = VlanTags::default();
        let tagged = VlanTags { outer: Some((0x8100, 100)), inner: None };
        let qinq = VlanTags { outer: Some((0x88a8, 7)), inner: Some((0x8100, 8)) };
        let left = [("10.1.0.1", 24), ("fe80::1", 64), ("fd01::1", 64)];
        let right = [("10.3.0.1", 24), ("fe80::1", 64), ("fd03::1", 64)];
        let mut ports = Vec::from([
            port(0, 1, untagged, &left),
            port(1, 2, untagged, &right),
            port(2, 1, tagged, &[("10.100.0.1", 24)]),
            port(3, 1, qinq, &[("10.7.0.1", 24)]),
            port(4, 3, untagged, &[]),
            port(5, 4, untagged, &[("10.66.0.1", 24)]),
        ]);
        ports[2].mac = LEFT_MAC;
        ports[3].mac = LEFT_MAC;
        ports[4].is_up = false;
        ports[5].vrf = VrfIndex(1);
        let mut builder = Self { ports, ..Self::default() };
        builder.target(TargetAction::NoRoute);
        builder.target(TargetAction::Kernel);
        for port in builder.ports.clone() {
            for (address, _) in port.addresses {
                let len = if address.is_ipv4() { 32 } else { 128 };
                builder.routes.push((port.vrf.0, address, len, TargetIndex::KERNEL));
            }
        }
        builder
    }

    /// The router of the picture at the top of this file, with a route of each kind except one with
    /// several next hops.
    pub(super) fn usual() -> Self {
        let mut builder = Self::new();
        for (prefix, port) in [
            ("10.1.0.0/24", LEFT),
            ("fd01::/64", LEFT),
            ("10.3.0.0/24", RIGHT),
            ("fd03::/64", RIGHT),
            ("10.99.0.0/24", DOWN),
        ] {
            builder.forward(prefix, port, NextHopAddress::OnLink, None);
        }
        for (prefix, port, mac) in [
            ("10.1.0.2/32", LEFT, H1),
            ("fd01::2/128", LEFT, H1),
            ("10.3.0.2/32", RIGHT, H2),
            ("fd03::2/128", RIGHT, H2),
            ("10.100.0.2/32", TAGGED, H2),
            ("10.7.0.2/32", QINQ, H2),
        ] {
            let address = ip(prefix.split('/').next().unwrap());
            builder.forward(prefix, port, NextHopAddress::Via(address), Some(mac));
        }
        builder.forward("10.8.0.0/16", RIGHT, via("10.3.0.3"), Some(GATEWAY));
        builder.forward("fd08::/16", RIGHT, via("fd03::3"), Some(GATEWAY));
        builder.route("10.90.0.0/16", TargetAction::Blackhole);
        builder.route("10.91.0.0/16", TargetAction::Unreachable);
        builder.route("10.92.0.0/16", TargetAction::Prohibit);
        builder.route("10.93.0.0/16", TargetAction::Kernel);
        builder.route("fd90::/16", TargetAction::Blackhole);
        builder.route("fd91::/16", TargetAction::Unreachable);
        builder.route("fd92::/16", TargetAction::Prohibit);
        builder.vrf_forward(1, "10.3.0.0/24", RED, via("10.66.0.2"), Some(GATEWAY));
        builder
    }

    pub(super) fn target(&mut self, action: TargetAction) -> TargetIndex {
        self.targets.push(Target { action, mtu: 0 });
        TargetIndex(self.targets.len() as u16 - 1)
    }

    pub(super) fn adjacency(
        &mut self,
        port: FibPortIndex,
        next_hop: NextHopAddress,
        mac: Option<MacAddr>,
    ) -> AdjacencyIndex {
        self.adjacencies.push(Adjacency { port, next_hop, mac });
        AdjacencyIndex(self.adjacencies.len() as u16 - 1)
    }

    pub(super) fn route(&mut self, prefix: &str, action: TargetAction) -> TargetIndex {
        self.vrf_route(0, prefix, action)
    }

    fn vrf_route(&mut self, vrf: u16, prefix: &str, action: TargetAction) -> TargetIndex {
        let target = self.target(action);
        let (address, len) = prefix.split_once('/').unwrap();
        self.routes.push((vrf, ip(address), len.parse().unwrap(), target));
        target
    }

    pub(super) fn forward(
        &mut self,
        prefix: &str,
        port: FibPortIndex,
        next_hop: NextHopAddress,
        mac: Option<MacAddr>,
    ) -> TargetIndex {
        self.vrf_forward(0, prefix, port, next_hop, mac)
    }

    fn vrf_forward(
        &mut self,
        vrf: u16,
        prefix: &str,
        port: FibPortIndex,
        next_hop: NextHopAddress,
        mac: Option<MacAddr>,
    ) -> TargetIndex {
        let index = self.adjacency(port, next_hop, mac);
        self.vrf_route(vrf, prefix, TargetAction::Forward(index))
    }

    /// Adds a route with several next hops: the adjacencies take turns in its buckets. Returns the
    /// route's target.
    pub(super) fn balance(&mut self, prefix: &str, all: &[AdjacencyIndex]) -> TargetIndex {
        let mut buckets = [all[0]; BUCKETS];
        for (bucket, index) in buckets.iter_mut().zip(all.iter().cycle()) {
            *bucket = *index;
        }
        self.buckets.push(buckets);
        self.route(prefix, TargetAction::Balance(self.buckets.len() as u16 - 1))
    }

    /// Sets the MTU of a route.
    pub(super) fn set_mtu(&mut self, target: TargetIndex, mtu: u32) {
        self.targets[usize::from(target.0)].mtu = mtu;
    }

    pub(super) fn build(&self) -> Arc<ForwardingTables> {
        let table = |vrf: u16, is_v4: bool| {
            let of_it =
                self.routes.iter().filter(|route| (route.0, route.1.is_ipv4()) == (vrf, is_v4));
            let bits = |address| match address {
                IpAddr::V4(address) => u128::from(address.to_bits()),
                IpAddr::V6(address) => address.to_bits(),
            };
            let rows = of_it.map(|route| (bits(route.1), u32::from(route.2), route.3)).collect();
            Arc::new(LinearTable(rows, if is_v4 { 32 } else { 128 }))
        };
        let vrf = |vrf| VrfTables { v4: table(vrf, true), v6: table(vrf, false) };
        Arc::new(ForwardingTables {
            generation: 1,
            ports: self.ports.as_slice().into(),
            vrfs: [vrf(0), vrf(1)].into(),
            targets: self.targets.as_slice().into(),
            adjacencies: self.adjacencies.as_slice().into(),
            buckets: self.buckets.as_slice().into(),
        })
    }

    pub(super) fn engine(&self) -> RouteEngine {
        RouteEngine::new(RouteConfig::default(), self.build())
    }
}

pub(super) fn via(address: &str) -> NextHopAddress {
    NextHopAddress::Via(ip(address))
}

pub(super) fn engine() -> RouteEngine {
    TableBuilder::usual().engine()
}

/// A UDP frame of `len` bytes from H1 to the left port.
pub(super) fn udp(source: &str, destination: &str, len: usize) -> Vec<u8> {
    let ip = match (ip(source), ip(destination)) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            IpSpec::V4(Ipv4Spec { src, dst, id: 77, dont_fragment: false, ..Ipv4Spec::default() })
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => IpSpec::V6(Ipv6Spec {
            src,
            dst,
            traffic_class: 0xb9,
            flow_label: 0x1_2345,
            ..Ipv6Spec::default()
        }),
        _ => panic!("addresses of two families"),
    };
    let spec = FrameSpec { src_mac: H1, dst_mac: LEFT_MAC, ip, ..FrameSpec::default() };
    spec.build(len).unwrap().bytes
}

/// Changes bytes of the IPv4 header and makes its checksum valid again.
pub(super) fn patch_v4(frame: &mut [u8], offset: usize, value: &[u8]) {
    frame[14 + offset..14 + offset + value.len()].copy_from_slice(value);
    let end = 14 + usize::from(frame[14] & 0xf) * 4;
    frame[24..26].fill(0);
    let sum = checksum::of(&frame[14..end]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// Inserts IPv4 options before the data.
pub(super) fn with_options(mut frame: Vec<u8>, options: &[u8]) -> Vec<u8> {
    assert_eq!(options.len() % 4, 0);
    frame.splice(34..34, options.iter().copied());
    frame[14] += (options.len() / 4) as u8;
    let len = (frame.len() - 14) as u16;
    patch_v4(&mut frame, 2, &len.to_be_bytes());
    frame
}

/// Passes one frame through the engine, asserts that the counters balance, and returns the verdict.
pub(super) fn process_from(
    engine: &mut RouteEngine,
    frame: &mut [u8],
    ingress: FibPortIndex,
) -> RouteVerdict {
    process_frame(engine, RouteFrame::new(frame, ingress))
}

pub(super) fn process_frame(engine: &mut RouteEngine, frame: RouteFrame<'_>) -> RouteVerdict {
    let mut batch = RouteBatch::new();
    engine.process(&mut batch, &mut [frame], 0);
    assert!(engine.counters().is_balanced(), "{:?}", engine.counters());
    batch.verdict(0).unwrap()
}

pub(super) fn process(engine: &mut RouteEngine, frame: &mut [u8]) -> RouteVerdict {
    process_from(engine, frame, LEFT)
}

/// Asserts that the router forwards a frame. Returns the egress port and the frame as it leaves.
pub(super) fn forward(engine: &mut RouteEngine, frame: &[u8]) -> (FibPortIndex, Vec<u8>) {
    let mut bytes = frame.to_vec();
    match process(engine, &mut bytes) {
        RouteVerdict::Forward(out) => {
            let sent = [out.prepend(), &bytes[out.range()]].concat();
            assert_eq!(sent.len(), out.frame_len() as usize);
            (out.port, sent)
        }
        other => panic!("not forwarded but {other:?}"),
    }
}

/// Returns the port and frame of the only packet that the router created.
pub(super) fn only_output(engine: &mut RouteEngine) -> (FibPortIndex, Vec<u8>) {
    let output = engine.pop().expect("the router made a packet");
    assert_eq!(engine.pop(), None, "the router made one packet");
    match output {
        RouteOutput::Send { port, frame } => (port, frame),
        held @ RouteOutput::Hold { .. } => panic!("held: {held:?}"),
    }
}

/// The one's complement sum of RFC 1071, word by word.
pub(super) fn plain_sum(words: impl IntoIterator<Item = u16>) -> u16 {
    words.into_iter().fold(0, |sum: u16, word| {
        let (sum, carry) = sum.overflowing_add(word);
        sum + u16::from(carry)
    })
}

/// The 16-bit words of a message; an odd last byte is padded.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u16> + '_ {
    bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
}

/// Whether the IPv4 header at offset 14 has a valid checksum.
pub(super) fn has_valid_header(frame: &[u8]) -> bool {
    let end = 14 + usize::from(frame[14] & 0xf) * 4;
    plain_sum(words(&frame[14..end])) == 0xffff
}
