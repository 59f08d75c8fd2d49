//! What the mirror is to know before the first message.

use alloc::string::String;
use alloc::vec::Vec;

use slipring_rtnetlink::{TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN};

use crate::tables::{VlanTags, VrfIndex};

/// An interface of the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The index by which routes, addresses and neighbours name the interface.
    pub ifindex: u32,
    /// The index of the interface that frames leave by, if that is another: the parent of a
    /// subinterface whose tags the router adds itself.
    pub parent: Option<u32>,
    /// The name, as typed.
    pub name: String,
    /// The tables in which its packets are looked up.
    pub vrf: VrfIndex,
    /// Tags of the frames of a subinterface.
    pub tags: VlanTags,
}

/// The tables of a VRF, in the order in which the kernel's rules look them up: the first that has
/// any route for a destination decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VrfConfig {
    /// The tables for IPv4.
    pub v4: Vec<u32>,
    /// The tables for IPv6.
    pub v6: Vec<u32>,
}

impl Default for VrfConfig {
    /// The tables of the rules that every kernel begins with.
    fn default() -> Self {
        let v4 = alloc::vec![TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT];
        Self { v4, v6: alloc::vec![TABLE_LOCAL, TABLE_MAIN] }
    }
}

/// How much the mirror stores. What finds no space is left to the kernel, and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibLimits {
    /// Routes of all mirrored tables.
    pub routes: usize,
    /// Neighbours of all interfaces.
    pub neighbours: usize,
    /// Adjacencies: gateways, resolved hosts, and connected subnets. At most 65,536.
    pub adjacencies: u32,
    /// Routes with several next hops that differ; each takes 512 bytes in a snapshot. At most
    /// 65,536.
    pub balanced: u32,
    /// Next-hop objects.
    pub next_hop_objects: usize,
    /// Nodes of the IPv6 tree of a VRF, at least 64.
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

/// What the mirror is to know before the first message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorConfig {
    /// The router's interfaces, by [`FibPortIndex`](crate::FibPortIndex).
    pub ports: Vec<PortConfig>,
    /// The VRFs, by [`VrfIndex`]; at least the first.
    pub vrfs: Vec<VrfConfig>,
    /// How much is stored.
    pub limits: FibLimits,
    /// Whether there are readers that do not hold an `Arc` of a snapshot, such as a BPF program.
    /// Then freed indices are used again only after
    /// [`Mirror::quiesced`](crate::Mirror::quiesced).
    pub has_external_readers: bool,
}
