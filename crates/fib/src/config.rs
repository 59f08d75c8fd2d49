//! The configuration with which a mirror starts, before it receives the kernel's first message.

use alloc::string::String;
use alloc::vec::Vec;

use slipring_rtnetlink::{TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN};

use crate::tables::{VlanTags, VrfIndex};

/// An interface of the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The kernel's interface index, to which routes, addresses and neighbours refer.
    pub ifindex: u32,
    /// The index of the parent, if the router itself adds the tags of this subinterface. Frames
    /// leave by the parent. `None` for all other interfaces.
    pub parent: Option<u32>,
    /// The name of the interface, as the user has written it.
    pub name: String,
    /// The VRF in whose tables its packets are looked up.
    pub vrf: VrfIndex,
    /// VLAN tags of the frames, if this is a subinterface.
    pub tags: VlanTags,
}

/// The tables of a VRF, in the order in which the kernel's rules use them. The first table that has
/// a route for a destination decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VrfConfig {
    /// The tables for IPv4.
    pub v4: Vec<u32>,
    /// The tables for IPv6.
    pub v6: Vec<u32>,
}

impl Default for VrfConfig {
    /// The tables of the kernel's default rules.
    fn default() -> Self {
        let v4 = alloc::vec![TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT];
        Self { v4, v6: alloc::vec![TABLE_LOCAL, TABLE_MAIN] }
    }
}

/// Limits of the mirror's memory. Packets that need an object beyond these limits are left to the
/// kernel, and the mirror counts such cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibLimits {
    /// Maximum number of routes in all mirrored tables.
    pub routes: usize,
    /// Maximum number of neighbours on all interfaces.
    pub neighbours: usize,
    /// Maximum number of adjacencies: gateways, resolved hosts, and connected subnets. At most
    /// 65,536.
    pub adjacencies: u32,
    /// Maximum number of bucket arrays: one for each different route content with several next
    /// hops. Each takes 512 bytes in a snapshot. At most 65,536.
    pub balanced: u32,
    /// Maximum number of next-hop objects.
    pub next_hop_objects: usize,
    /// Maximum number of nodes in the IPv6 tree of a VRF; at least 64.
    pub ipv6_nodes: usize,
}

impl Default for FibLimits {
    fn default() -> Self {
        Self {
            routes: 4_000_000,
            neighbours: 65_536,
            adjacencies: 65_536,
            balanced: 4_096,
            next_hop_objects: 1_000_000,
            ipv6_nodes: 1 << 31,
        }
    }
}

/// The configuration with which a mirror starts, before it receives the kernel's first message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorConfig {
    /// The router's interfaces, by [`FibPortIndex`](crate::FibPortIndex).
    pub ports: Vec<PortConfig>,
    /// The VRFs, by [`VrfIndex`]. There is at least one.
    pub vrfs: Vec<VrfConfig>,
    /// Limits of the mirror's memory.
    pub limits: FibLimits,
    /// Whether there are readers that do not hold an `Arc` of a snapshot, such as a BPF program.
    /// Then freed indices are used again only after
    /// [`Mirror::quiesced`](crate::Mirror::quiesced).
    pub has_external_readers: bool,
}
