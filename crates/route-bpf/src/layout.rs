//! The records in the maps, which the program reads and this process writes.
//!
//! All maps but the counters, the interfaces and the sockets are arrays of one value, so that the
//! program reaches a record by an offset, without a lookup per record. `v4` and `v6` are arrays of
//! such arrays.
//!
//! ```text
//!   control      | enabled u64 | limits of new hosts, IPv4 and IPv6, u64 each | unused to 64 |
//!                | heartbeat of queue 0 u64 | heartbeat of queue 1 u64 | ...
//!   ports        | MAC 6 bytes, flags u16 | MTU u32, VRF u16, unused |
//!                | ifindex u32, unused |                                      24 bytes a port
//!   targets      | path MTU u32, index u16, action u16 |                      8 bytes a target
//!   sources      | 2 bits a port: does the target lead through it | 8 bytes a target and 32 ports
//!   adjacencies  | MAC 6 bytes, egress port u16 |                             8 bytes each
//!   buckets      | 256 adjacency indices u16 |                                512 bytes a group
//!   local        | bit set of 2^16 hashes |                                   8 KiB
//!   hosts        | hosts in a tick, IPv4 and IPv6, u64 each | unused to 64 |
//!                | 2^16 slots: tick u32, key u32 |                            512 KiB
//!   v4[vrf]   -> | 2^24 cells u16 | 256 cells a block |                       32 MiB and blocks
//!   v6[vrf]   -> | root u32, levels u32, unused to 64 | nodes, 192 bytes each |
//!   counters     a value per CPU and port: packets and bytes forwarded or handed over, packets and
//!                bytes forwarded past the sockets, packets per reason, u64
//!   egress       interfaces to redirect to, by port
//!   sockets      AF_XDP sockets of an interface, by queue; a map of its own for each interface
//! ```
//!
//! A record that a packet needs as a whole is one aligned word of 8 bytes, which the program reads
//! by one instruction and the writer replaces by one store: there are no torn records. Integers are
//! in host byte order, MAC addresses in the byte order of the frame.

use slipring_bpf::{BpfMapKind, BpfMapSpec};
use slipring_classify::{dir24, intervals};
use slipring_wire::mac::MacAddr;

use crate::sources::PORTS_PER_WORD;

/// Names of the maps in the program.
pub(crate) mod map {
    pub(crate) const CONTROL: &str = "control";
    pub(crate) const PORTS: &str = "ports";
    pub(crate) const TARGETS: &str = "targets";
    pub(crate) const SOURCES: &str = "sources";
    pub(crate) const ADJACENCIES: &str = "adjacencies";
    pub(crate) const BUCKETS: &str = "buckets";
    pub(crate) const LOCAL: &str = "local";
    pub(crate) const HOSTS: &str = "hosts";
    pub(crate) const V4: &str = "v4";
    pub(crate) const V6: &str = "v6";
    pub(crate) const COUNTERS: &str = "counters";
    pub(crate) const EGRESS: &str = "egress";
    pub(crate) const SOCKETS: &str = "sockets";
}

/// Number of cells in the root of an IPv4 table: one for each /24.
pub(crate) const ROOT_CELLS: u32 = dir24::ROOT_CELLS as u32;
/// Number of cells in a block of an IPv4 table's tail.
pub(crate) const BLOCK_CELLS: u32 = dir24::BLOCK_CELLS as u32;
/// This bit is set in a root cell that contains a block number. Otherwise, the cell contains a
/// target index.
pub(crate) const BLOCK_FLAG: u16 = dir24::MAX_NUMBER + 1;

/// Offset of the flag that is 1 while the program may forward.
pub(crate) const ENABLED_OFFSET: u32 = 0;
/// Offset of two limits, for IPv4 and for IPv6: how many hosts without a MAC address the kernel is
/// asked to resolve in a tick ([`TICK_BITS`]); 0 for any number.
pub(crate) const HOST_LIMITS_OFFSET: u32 = 8;
/// Offset of the heartbeats, in their own cache lines.
pub(crate) const BEATS_OFFSET: u32 = 64;

pub(crate) const PORT_SIZE: u32 = 24;
pub(crate) const PORT_FLAGS_OFFSET: u32 = 6;
pub(crate) const PORT_MTU_OFFSET: u32 = 8;
pub(crate) const PORT_VRF_OFFSET: u32 = 12;
/// Offset of the kernel's index of the interface, which programs for socket buffers redirect to.
pub(crate) const PORT_IFINDEX_OFFSET: u32 = 16;
/// Flag of a port: frames that arrive on it may be forwarded, by the program or by the engine in
/// user space.
pub(crate) const PORT_INGRESS: u16 = 1 << 0;
/// Flag of a port: frames may leave through it.
pub(crate) const PORT_EGRESS: u16 = 1 << 1;
/// Flag of a port: for IPv4 packets that arrive on it, there must be a route to the source.
pub(crate) const PORT_LOOSE: u16 = 1 << 2;
/// Flag of a port: for IPv4 packets that arrive on it, the route to the source must lead through
/// it.
pub(crate) const PORT_STRICT: u16 = 1 << 3;
/// The flags of both checks of IPv4 sources.
pub(crate) const PORT_CHECKS: u16 = PORT_LOOSE | PORT_STRICT;
/// The flags for IPv6 are those for IPv4, shifted left by this number of bits.
pub(crate) const PORT_V6_SHIFT: u32 = 2;

/// Flag of a port with packet sockets: the program at tcx ingress may forward frames that arrive on
/// the port, instead of the sockets' reader.
pub(crate) const PORT_DIRECT: u16 = 1 << 6;

pub(crate) const TARGET_SIZE: u32 = 8;
pub(crate) const ADJACENCY_SIZE: u32 = 8;
pub(crate) const GROUP_SIZE: u32 = 512;
/// The port in an adjacency through which the program does not send, because the MAC address is not
/// known.
pub(crate) const NO_PORT: u16 = u16::MAX;
/// Like [`NO_PORT`], for the hosts of a connected subnet that have no adjacency of their own,
/// except on subinterfaces.
pub(crate) const HOST_WITHOUT_MAC: u16 = u16::MAX - 1;

/// Binary logarithm of the length of a tick in ns: 2^30 ns are 1.07 s. New hosts are counted per
/// tick.
pub(crate) const TICK_BITS: i32 = 30;
/// The kernel asks for a host's MAC address three times, one second apart, before it gives up.
pub(crate) const RESOLVING_TICKS: i32 = 3;
/// Binary logarithm of the number of host slots.
pub(crate) const HOST_SLOT_BITS: i32 = 16;
/// Offset of the slots, after the numbers of hosts, which have their own cache line.
pub(crate) const HOST_SLOTS_OFFSET: u32 = 64;
/// The greatest limit for which hosts rarely share a slot.
pub(crate) const MAX_HOST_LIMIT: u32 = 1 << 14;

/// Size in bytes of the bit set of local addresses, which is indexed by hash.
pub(crate) const LOCAL_SIZE: u32 = (1 << 16) / 8;
/// The multiplier of the hash, odd and irregular (about 2^32 divided by the golden ratio).
pub(crate) const LOCAL_MULTIPLIER: u32 = 0x9e37_79b1;
/// The multiplier of the hash of IPv6 addresses (2^64 divided by the golden ratio).
pub(crate) const LOCAL_MULTIPLIER_V6: u64 = 0x9e37_79b9_7f4a_7c15;

/// Offset of the first node of an IPv6 tree.
pub(crate) const NODES_OFFSET: u32 = 64;
pub(crate) const NODE_SIZE: u32 = intervals::NODE_BYTES as u32;
pub(crate) const NODE_KEYS: u32 = intervals::FANOUT as u32;
/// Offset of the entries in a node, after the keys.
pub(crate) const NODE_ENTRIES_OFFSET: u32 = 8 * NODE_KEYS;

/// Maximum age of a heartbeat, in ns.
pub(crate) const BEAT_LIMIT_NS: u64 = 100_000_000;

/// The capacity of a router's maps. Kernel memory is taken when the maps are created, except for
/// IPv4 and IPv6 tables, which are created per VRF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BpfLimits {
    /// Number of interfaces and subinterfaces; at most 4096.
    pub ports: u16,
    /// Number of receive queues per interface. Frames of further queues go to the kernel.
    pub queues: u16,
    /// Number of VRFs.
    pub vrfs: u16,
    /// Number of targets; at most 32768.
    pub targets: u16,
    /// Number of adjacencies; at most 65535.
    pub adjacencies: u16,
    /// Number of groups of next hops.
    pub groups: u16,
    /// Number of blocks per VRF for prefixes longer than /24; 512 bytes each, at most 32768.
    pub tail_blocks: u16,
    /// Number of nodes of a VRF's IPv6 tree; at most 2^21. Each takes twice 192 bytes.
    pub v6_nodes: u32,
}

impl Default for BpfLimits {
    /// Limits for a complete Internet table in one VRF: about 70 MiB.
    fn default() -> Self {
        Self {
            ports: 256,
            queues: 64,
            vrfs: 16,
            targets: 1 << 15,
            adjacencies: u16::MAX,
            groups: 4096,
            tail_blocks: 16384,
            v6_nodes: 65536,
        }
    }
}

impl BpfLimits {
    /// The greatest number of nodes of an IPv6 tree: the kernel's limit for offsets in a value.
    pub const MAX_V6_NODES: u32 = 1 << 21;

    /// The specification of the array `name` of one value. `None` for maps of other kinds.
    pub(crate) fn array(&self, name: &str) -> Option<BpfMapSpec> {
        let size = match name {
            map::CONTROL => BEATS_OFFSET + 8 * u32::from(self.queues),
            map::PORTS => PORT_SIZE * u32::from(self.ports),
            map::TARGETS => TARGET_SIZE * u32::from(self.targets),
            map::SOURCES => self.source_size() * u32::from(self.targets),
            map::ADJACENCIES => ADJACENCY_SIZE * u32::from(self.adjacencies),
            map::BUCKETS => GROUP_SIZE * u32::from(self.groups),
            map::LOCAL => LOCAL_SIZE,
            map::HOSTS => HOST_SLOTS_OFFSET + (8 << HOST_SLOT_BITS),
            map::V4 => 2 * (ROOT_CELLS + BLOCK_CELLS * u32::from(self.tail_blocks)),
            map::V6 => NODES_OFFSET + NODE_SIZE * self.v6_nodes,
            _ => return None,
        };
        // The kernel does not create empty values.
        Some(BpfMapSpec::mappable_array(size.max(8), 1))
    }

    /// Size in bytes of a target's entry in `sources`.
    pub(crate) fn source_size(&self) -> u32 {
        8 * u32::from(self.ports).div_ceil(PORTS_PER_WORD)
    }

    /// The specification of the counters.
    pub(crate) fn counters(&self) -> BpfMapSpec {
        let size = 8 * counter::COUNT;
        BpfMapSpec::new(BpfMapKind::PerCpuArray, 4, size, self.ports.into())
    }

    /// The specification of the interfaces to redirect to.
    pub(crate) fn egress(&self) -> BpfMapSpec {
        BpfMapSpec::of_descriptors(BpfMapKind::DevMap, self.ports.into())
    }
}

/// What the program does with packets for a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActionCode {
    NoRoute = 0,
    Kernel = 1,
    Forward = 2,
    Balance = 3,
}

/// Encodes a target in one word.
pub(crate) const fn target_word(action: ActionCode, index: u16, mtu: u32) -> u64 {
    mtu as u64 | (index as u64) << 32 | (action as u64) << 48
}

/// A word with a MAC address and 16 more bits: an adjacency and its port, or a port and its flags.
pub(crate) const fn mac_word(mac: MacAddr, with: u16) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    let [g, h] = with.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// The number of the bit for a local IPv4 address. Several addresses may share a bit, so packets
/// from some addresses that are not local also go to the kernel.
pub(crate) const fn local_bit(address: [u8; 4]) -> u16 {
    (u32::from_be_bytes(address).wrapping_mul(LOCAL_MULTIPLIER) >> 16) as u16
}

/// Like [`local_bit`], but of an IPv6 address.
pub(crate) const fn local_bit_v6(address: u128) -> u16 {
    let halves = (address >> 64) as u64 ^ address as u64;
    (halves.wrapping_mul(LOCAL_MULTIPLIER_V6) >> 48) as u16
}

/// Positions in the value of a port's counters, in words of 8 bytes.
pub(crate) mod counter {
    use super::PassReason;

    pub(crate) const PACKETS: u32 = 0;
    pub(crate) const BYTES: u32 = 1;
    /// Frames that the program of a port with packet sockets has forwarded itself; a super-frame
    /// counts as its segments.
    pub(crate) const DIRECT_PACKETS: u32 = 2;
    pub(crate) const DIRECT_BYTES: u32 = 3;
    pub(crate) const REASONS: u32 = 4;
    pub(crate) const COUNT: u32 = REASONS + PassReason::ALL.len() as u32;
}

macro_rules! pass_reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal,)*) => {
        /// Why the program leaves a frame to the kernel, or drops it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum PassReason {
            $($(#[$doc])* $reason,)*
        }

        impl PassReason {
            /// All reasons, in the order of their counters.
            pub const ALL: &[Self] = &[$(Self::$reason),*];

            /// The name of the reason, as printed.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$reason => $name),* }
            }

            /// Whether frames with this reason are dropped, not left to the kernel.
            #[must_use]
            pub const fn is_drop(self) -> bool {
                matches!(
                    self,
                    Self::NoDevice
                        | Self::ReversePathStrict
                        | Self::ReversePathLoose
                        | Self::UnresolvedLimit
                )
            }
        }
    };
}

pass_reasons! {
    /// Forwarding is disabled: the tables are not complete.
    Disabled = "disabled",
    /// There was no heartbeat for 100 ms, or the queue has no heartbeat.
    Stale = "no-heartbeat",
    /// Frames that arrive on the port are left to the kernel (`ResidentOptions::ingress`), or the
    /// port is not up.
    Policy = "policy",
    /// The frame was not sent to the port's MAC address.
    OtherMac = "other-mac",
    /// The device has removed a VLAN tag from the frame.
    Tagged = "vlan-tag",
    /// There is neither IPv4 nor IPv6 directly after the Ethernet header, or the frame is too
    /// short.
    NotIp = "not-ip",
    /// The packet has a wrong version, IPv4 options, or an IPv6 hop-by-hop header.
    Options = "options",
    /// The length in the header is impossible, the frame is too short for it, or the frame cannot
    /// be segmented or cut to this length.
    Length = "length",
    /// The checksum of the IPv4 header is wrong.
    Checksum = "checksum",
    /// The time to live or hop limit is 0 or 1.
    Ttl = "ttl",
    /// The source may be an own address, or an address of the packet is unspecified, loopback,
    /// multicast, reserved or, for IPv6, link-local.
    Address = "address",
    /// The transport checksum may be unfinished: the frame may be from a sender on this machine, or
    /// it is a super-frame of a protocol other than TCP.
    PartialChecksum = "partial-checksum",
    /// There is no route to the destination.
    NoRoute = "no-route",
    /// The route is local, or of a kind that the kernel handles.
    Kernel = "kernel-route",
    /// The next hop's MAC address is not known, or its port is beyond the limit of the maps.
    Unresolved = "unresolved",
    /// There are more hosts with unknown MAC address than the kernel could resolve: the frame was
    /// dropped.
    UnresolvedLimit = "unresolved-limit",
    /// The next hop is on the interface on which the frame arrived: the kernel sends a redirect.
    SamePort = "same-port",
    /// Frames cannot leave through the next hop's interface.
    PortDown = "port-down",
    /// The packet is larger than the MTU of the interface or of the route.
    TooBig = "too-big",
    /// Only the kernel knows the route to the source, so only the kernel can check it.
    ReversePath = "reverse-path",
    /// The route to the source does not lead through the port (`rp_filter` of 1): the frame was
    /// dropped.
    ReversePathStrict = "reverse-path-strict",
    /// No route to the source forwards packets (`rp_filter` of 2): the frame was dropped.
    ReversePathLoose = "reverse-path-loose",
    /// The VRF has no table of this family, or an index is out of range.
    NoTable = "no-table",
    /// The queue has no socket of the engine in user space.
    NoSocket = "no-socket",
    /// The map of interfaces had no interface: the frame was dropped.
    NoDevice = "no-device",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_their_fields_at_the_documented_bytes() {
        let word = mac_word(MacAddr([1, 2, 3, 4, 5, 6]), 0x0807).to_ne_bytes();
        assert_eq!(word[..6], [1, 2, 3, 4, 5, 6]);
        assert_eq!(u16::from_ne_bytes([word[6], word[7]]), 0x0807);
        assert_eq!(target_word(ActionCode::Balance, 7, 9), 3 << 48 | 7 << 32 | 9);
    }

    #[test]
    fn every_reason_has_a_name_and_a_counter_of_its_own() {
        let names: std::collections::BTreeSet<_> =
            PassReason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), PassReason::ALL.len());
        assert_eq!(
            PassReason::ALL.last().map(|last| *last as u32 + counter::REASONS + 1),
            Some(counter::COUNT)
        );
    }
}
