//! A snapshot of the forwarding tables, with the properties of its ports in a compact form.

mod own;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_fib::{
    Adjacency, AdjacencyIndex, FibPort, FibPortIndex, ForwardingTables, ReversePathMode, Target,
    TargetAction, TargetIndex, VlanTags,
};

use crate::config::{PortPolicy, RouteConfig};
use crate::field::mac_word;
use own::OwnAddresses;

/// Maximum length of a link header: MAC addresses, two tags, type.
pub(crate) const MAX_LINK_LEN: usize = 22;
/// The value for "no port" in tables of port indices.
const NO_PORT: u16 = u16::MAX;

/// The properties of a port that the stages need.
#[derive(Clone, Debug)]
pub(crate) struct PortFacts {
    /// The MAC address, as [`mac_word`].
    pub(crate) mac: u64,
    /// MTU in bytes.
    pub(crate) mtu: u32,
    /// The MTU if frames leave without tags and the port is up, otherwise 0. No packet has length
    /// 0, so one comparison of lengths also excludes ports that are tagged or down.
    pub(crate) plain_mtu: u32,
    /// Index of the port's VRF.
    pub(crate) vrf: u16,
    /// Whether the port can send.
    pub(crate) is_up: bool,
    /// How sources are checked, for IPv4 and for IPv6.
    pub(crate) reverse_path: [ReversePathMode; 2],
    /// The priority code points of tagged frames that leave, by the upper three bits of the DSCP.
    pub(crate) priorities: [u8; 8],
    /// Whether no IPv4 redirects are sent about packets from the port.
    pub(crate) withholds_v4_redirects: bool,
    /// The tags of frames that leave, outermost first.
    pub(crate) tags: VlanTags,
}

impl PortFacts {
    fn checks_sources(&self) -> bool {
        self.reverse_path != [ReversePathMode::Off; 2]
    }
}

/// The ports of one interface.
#[derive(Clone, Debug)]
struct InterfaceFacts {
    /// The port of untagged frames.
    untagged: u16,
    /// All ports by their tags, sorted by [`tag_key`]; the port of untagged frames is the first.
    tagged: Box<[(u64, u16)]>,
}

/// A snapshot in the form that the stages use.
#[derive(Clone, Debug)]
pub(crate) struct RouteView {
    pub(crate) tables: Arc<ForwardingTables>,
    ports: Box<[PortFacts]>,
    interfaces: Box<[InterfaceFacts]>,
    /// Whether any port checks sources.
    pub(crate) checks_sources: bool,
    pub(crate) own: OwnAddresses,
}

impl RouteView {
    /// Prepares a snapshot. Ports without a policy get the default policy.
    pub(crate) fn new(
        tables: Arc<ForwardingTables>,
        config: &RouteConfig,
        policies: &[PortPolicy],
    ) -> Self {
        let default = PortPolicy::default();
        let policy = |at: usize| policies.get(at).unwrap_or(&default);
        let ports = tables.ports.iter().enumerate().map(|(at, port)| facts(port, policy(at)));
        let ports: Box<[PortFacts]> = ports.collect();
        let interfaces = tables.ports.iter().map(|port| interface(port.ifindex, &tables.ports));
        Self {
            checks_sources: ports.iter().any(PortFacts::checks_sources),
            ports,
            interfaces: interfaces.collect(),
            own: OwnAddresses::new(&tables.ports, &config.own_addresses),
            tables,
        }
    }

    /// The facts about a port.
    #[inline(always)]
    pub(crate) fn port(&self, port: u16) -> Option<&PortFacts> {
        self.ports.get(usize::from(port))
    }

    /// The port of untagged frames on the interface of `ingress`.
    #[inline(always)]
    pub(crate) fn untagged(&self, ingress: FibPortIndex) -> Option<u16> {
        let port = self.interfaces.get(usize::from(ingress.0))?.untagged;
        (port != NO_PORT).then_some(port)
    }

    /// The port of frames with these tags on the interface of `ingress`.
    pub(crate) fn tagged(&self, ingress: FibPortIndex, tags: VlanTags) -> Option<u16> {
        let tagged = &self.interfaces.get(usize::from(ingress.0))?.tagged;
        let key = tag_key(tags);
        let at = tagged.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(tagged[at].1)
    }

    /// The target with this index. An index beyond the table yields the target for the kernel.
    #[inline(always)]
    pub(crate) fn target(&self, target: TargetIndex) -> Target {
        const KERNEL: Target = Target { action: TargetAction::Kernel, mtu: 0 };
        self.tables.targets.get(usize::from(target.0)).copied().unwrap_or(KERNEL)
    }

    /// The adjacency with this index.
    #[inline(always)]
    pub(crate) fn adjacency(&self, index: u16) -> Option<&Adjacency> {
        self.tables.adjacencies.get(usize::from(index))
    }

    /// The adjacency in bucket group `group` for flows with this hash.
    #[inline]
    pub(crate) fn bucket(&self, group: u16, hash: u32) -> Option<AdjacencyIndex> {
        let buckets = self.tables.buckets.get(usize::from(group))?;
        Some(buckets[hash as usize % buckets.len()])
    }

    /// The source address of errors about packets from `port`: the port's address in the subnet of
    /// `peer`; otherwise the port's first address of `peer`'s family that is not link-local;
    /// otherwise such an address of another port in the VRF (RFC 1812, 4.3.2.4; RFC 4443, 2.2).
    pub(crate) fn own_address(&self, port: u16, peer: IpAddr) -> Option<IpAddr> {
        let own = self.tables.ports.get(usize::from(port))?;
        // Senders with link-local addresses get no errors, because their packets are not forwarded.
        let usable =
            |address: &IpAddr| address.is_ipv4() == peer.is_ipv4() && !is_link_local(*address);
        let near = own.addresses.iter().find(|(address, len)| shares_prefix(*address, peer, *len));
        if let Some((address, _)) = near {
            return Some(*address);
        }
        let in_vrf = self.tables.ports.iter().filter(|other| other.vrf == own.vrf);
        let all = [own].into_iter().chain(in_vrf).flat_map(|port| &port.addresses);
        all.map(|(address, _)| *address).find(usable)
    }
}

/// Returns whether both addresses are in the same prefix of `len` bits.
pub(crate) fn shares_prefix(address: IpAddr, other: IpAddr, len: u8) -> bool {
    let (bits, differing) = match (address, other) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (32, u128::from(a.to_bits() ^ b.to_bits())),
        (IpAddr::V6(a), IpAddr::V6(b)) => (128, a.to_bits() ^ b.to_bits()),
        _ => return false,
    };
    differing.checked_shr(bits - u32::from(len).min(bits)).unwrap_or(0) == 0
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

fn facts(port: &FibPort, policy: &PortPolicy) -> PortFacts {
    let is_plain = port.is_up && port.tags == VlanTags::default();
    PortFacts {
        mac: mac_word(port.mac.0),
        mtu: port.mtu,
        plain_mtu: if is_plain { port.mtu } else { 0 },
        vrf: port.vrf.0,
        is_up: port.is_up,
        reverse_path: [port.reverse_path, port.reverse_path_v6]
            .map(|of| of.max(policy.reverse_path)),
        priorities: policy.priorities,
        withholds_v4_redirects: policy.withholds_v4_redirects,
        tags: port.tags,
    }
}

fn interface(ifindex: u32, ports: &[FibPort]) -> InterfaceFacts {
    let on_it = ports.iter().zip(0..NO_PORT).filter(|(port, _)| port.ifindex == ifindex);
    let mut tagged: Vec<_> = on_it.map(|(port, index)| (tag_key(port.tags), index)).collect();
    tagged.sort_unstable();
    let untagged = tagged.first().filter(|(key, _)| *key == 0).map_or(NO_PORT, |(_, port)| *port);
    InterfaceFacts { untagged, tagged: tagged.into() }
}

/// Returns a sort key for the tags of a frame; 0 without tags.
fn tag_key(tags: VlanTags) -> u64 {
    let half = |tag: Option<(u16, u16)>| {
        tag.map_or(0, |(tpid, vid)| u64::from(tpid) << 16 | u64::from(vid))
    };
    half(tags.outer) << 32 | half(tags.inner)
}
