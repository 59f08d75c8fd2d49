//! The tables in which packets are looked up: a snapshot, shared by all workers, of which only the
//! entries (cells) of IPv4 tables change.
//!
//! ```text
//!   destination --VrfTables--> TargetIndex --targets--> Target: action, path MTU
//!                                                         |
//!          Forward(i) ----------> adjacencies[i]  <-------+
//!          Balance(g) --hash--> buckets[g][hash % 256] --> adjacencies[i]
//!
//!   Adjacency: port, next hop, MAC address of the next hop (None: not resolved)
//! ```
//!
//! A host on a connected subnet has a route of its own (`/32` or `/128`) as long as its MAC address
//! is known, so a packet for it finds its adjacency in the same lookup. Packets for other hosts of
//! the subnet find the subnet's adjacency, whose next hop is [`NextHopAddress::OnLink`].
//!
//! # Invariants
//! 1. Every index in a snapshot is within the vector that it indexes.
//! 2. An IPv4 table may change while snapshots refer to it, one 16-bit entry at a time. A snapshot
//!    has the targets of both the old and the new entries of the changes that are written after its
//!    publication. A target index is only given to another route when no snapshot with the old
//!    meaning is in use.
//! 3. `targets` has an entry for every index up to [`TargetIndex::MAX`]. Unused entries are
//!    [`TargetAction::Kernel`], so a reader of an older snapshot that finds a new index in an IPv4
//!    table leaves the packet to the kernel.
//!
//! A reader takes the newest snapshot for each batch and drops the older one: freed indices and
//! blocks of tables are used again when the last reference to older snapshots is gone.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_classify::intervals::IntervalTree;
use slipring_wire::mac::MacAddr;

/// The index of a router's interface, or subinterface, in [`ForwardingTables::ports`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FibPortIndex(pub u16);

/// The index of a VRF in [`ForwardingTables::vrfs`]. 0 is the VRF of this machine's own packets and
/// of all interfaces with the same tables, which usually are those that no routing rule names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VrfIndex(pub u16);

/// The index of a [`Target`]: what lookups return. At most [`TargetIndex::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetIndex(pub u16);

impl TargetIndex {
    /// The target of destinations without a route.
    pub const NO_ROUTE: Self = Self(0);
    /// The target of packets that the kernel handles. Routes for which no index was free also have
    /// this target.
    pub const KERNEL: Self = Self(1);
    /// The greatest index.
    pub const MAX: u16 = (1 << 15) - 1;
}

/// The index of an [`Adjacency`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AdjacencyIndex(pub u16);

/// The number of hash buckets of a route with several next hops.
pub const BUCKETS: usize = 256;

/// What happens to the packets for a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// What to do with a packet.
    pub action: TargetAction,
    /// The path MTU that the route sets (`RTAX_MTU`), in bytes; 0 if it sets none.
    pub mtu: u32,
}

/// What to do with a packet that a route matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetAction {
    /// There is no route: ICMP 3/0, ICMPv6 1/0.
    NoRoute,
    /// The kernel handles the packet: the destination is one of this machine's addresses, a
    /// broadcast or a multicast group, the route has properties that the tables cannot represent,
    /// or there was no space for it.
    Kernel,
    /// The packet is dropped without an answer (`blackhole`).
    Blackhole,
    /// ICMP 3/1, ICMPv6 1/3 (`unreachable`).
    Unreachable,
    /// ICMP 3/13, ICMPv6 1/1 (`prohibit`).
    Prohibit,
    /// The packet is forwarded to one next hop.
    Forward(AdjacencyIndex),
    /// The packet is forwarded to one of several next hops. The index refers to
    /// [`ForwardingTables::buckets`].
    Balance(u16),
}

/// The next-hop address, to which a packet is sent on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NextHopAddress {
    /// The packet's destination.
    OnLink,
    /// A gateway, or one resolved host of a connected subnet.
    Via(IpAddr),
}

/// A next hop: a neighbour, or all hosts of a connected subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Adjacency {
    /// The interface that leads to it.
    pub port: FibPortIndex,
    /// The address of the next hop.
    pub next_hop: NextHopAddress,
    /// The MAC address of the next hop, if it is known. Otherwise frames wait until the neighbour
    /// answers.
    pub mac: Option<MacAddr>,
}

/// The VLAN tags of a subinterface, outermost first: TPID and VLAN identifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VlanTags {
    /// The outer tag, or the only one.
    pub outer: Option<(u16, u16)>,
    /// The inner tag of QinQ.
    pub inner: Option<(u16, u16)>,
}

/// Modes of the reverse path check (RFC 3704), in order of strictness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReversePathMode {
    /// Sources are not checked.
    #[default]
    Off,
    /// Loose mode: there must be a route to the source.
    Loose,
    /// Strict mode: the route to the source must lead through the port. If the route has several
    /// next hops, one of them must.
    Strict,
}

/// An interface or subinterface of the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FibPort {
    /// The kernel's interface index. For a subinterface that the router has created, the index of
    /// the parent.
    pub ifindex: u32,
    /// The name of the interface, as the user has written it.
    pub name: alloc::string::String,
    /// The MAC address of the interface. Frames to this address are routed.
    pub mac: MacAddr,
    /// Maximum length of an IP packet, in bytes. Tags do not count.
    pub mtu: u32,
    /// Whether packets can be sent: administratively up, with a carrier.
    pub is_up: bool,
    /// The VRF in whose tables packets from the port are looked up.
    pub vrf: VrfIndex,
    /// How the sources of IPv4 packets from the port are checked. It is the stricter of the
    /// kernel's setting (`rp_filter`) and the setting of the router's administrator.
    pub reverse_path: ReversePathMode,
    /// How the sources of IPv6 packets from the port are checked. The kernel has no setting for
    /// this.
    pub reverse_path_v6: ReversePathMode,
    /// Tags of the frames of a subinterface.
    pub tags: VlanTags,
    /// The addresses of the interface with their prefix lengths, the primary addresses first. They
    /// are the sources of ICMP errors.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// Looks up IPv4 destinations.
pub trait Ipv4Lookup: Send + Sync + core::fmt::Debug {
    /// Writes the target of each destination, in host byte order, to the same index in `targets`.
    ///
    /// # Panics
    /// If the lengths differ.
    fn lookup(&self, destinations: &[u32], targets: &mut [TargetIndex]);
}

/// Looks up IPv6 destinations.
pub trait Ipv6Lookup: Send + Sync + core::fmt::Debug {
    /// Writes the target of each destination to the same index in `targets`.
    ///
    /// # Panics
    /// If the lengths differ.
    fn lookup(&self, destinations: &[u128], targets: &mut [TargetIndex]);

    /// Returns the table's tree, if the table is a tree, for BPF programs, which do not search with
    /// this crate. Its numbers are target indices.
    fn intervals(&self) -> Option<&IntervalTree> {
        None
    }
}

/// The tables of a VRF.
#[derive(Clone, Debug)]
pub struct VrfTables {
    /// The IPv4 destinations.
    pub v4: Arc<dyn Ipv4Lookup>,
    /// The IPv6 destinations.
    pub v6: Arc<dyn Ipv6Lookup>,
}

/// A snapshot of everything that forwarding needs.
#[derive(Clone, Debug)]
pub struct ForwardingTables {
    /// Number of the snapshot. Each snapshot has a greater number than the one before.
    pub generation: u64,
    /// Interfaces and subinterfaces, by [`FibPortIndex`].
    pub ports: Arc<[FibPort]>,
    /// VRFs, by [`VrfIndex`].
    pub vrfs: Arc<[VrfTables]>,
    /// Targets, by [`TargetIndex`].
    pub targets: Arc<[Target]>,
    /// Adjacencies, by [`AdjacencyIndex`].
    pub adjacencies: Arc<[Adjacency]>,
    /// The buckets of routes with several next hops.
    pub buckets: Arc<[[AdjacencyIndex; BUCKETS]]>,
}
