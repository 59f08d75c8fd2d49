//! What all parts of the program share: the interface's constants, the stack, labels.

use slipring_fib::FibPortIndex;

use crate::flow_hash::ResidentHash;
use crate::layout::{BpfLimits, PassReason};

pub(crate) const XDP_ABORTED: i32 = 0;
pub(crate) const XDP_DROP: i32 = 1;
pub(crate) const XDP_PASS: i32 = 2;
pub(crate) const XDP_REDIRECT: i32 = 4;

/// Offsets in `struct xdp_md`.
pub(super) const CTX_DATA: i16 = 0;
pub(super) const CTX_DATA_END: i16 = 4;
pub(super) const CTX_RX_QUEUE: i16 = 16;

/// Offset of the frame's length in `struct __sk_buff`.
pub(super) const SKB_LEN: i16 = 0;

/// Words on the stack.
pub(super) mod stack {
    /// The key of a lookup.
    pub(in crate::program) const KEY: i16 = -4;
    /// The type and the number of a tag that the device has removed from the frame.
    pub(in crate::program) const TAG: i16 = -16;
    /// The lower half of an IPv6 address that is looked up.
    pub(in crate::program) const LOWER: i16 = -16;
    /// The egress port's MAC address and flags.
    pub(in crate::program) const EGRESS: i16 = -24;
    /// The egress port.
    pub(in crate::program) const EGRESS_PORT: i16 = -32;
    /// Ports, flow label and protocol of a flow whose hash is computed.
    pub(in crate::program) const FLOW: i16 = -40;
    /// The first of the two folds that the hash of IPv6 addresses combines.
    pub(in crate::program) const ADDRESSES: i16 = -48;
    /// The source checks of the ingress port.
    pub(in crate::program) const CHECKS: i16 = -56;
    /// The adjacency's word, while the source is checked.
    pub(in crate::program) const ADJACENCY: i16 = -64;
    /// The target index of the destination, in a socket filter. It is below the copy of the
    /// headers.
    pub(in crate::program) const TARGET: i16 = -136;
    /// The length of a frame that the tcx program forwards, and of the headers that its segments
    /// repeat.
    pub(in crate::program) const LENGTHS: i16 = -144;
}

/// Where a program reads the headers of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderAccess {
    /// In the frame itself (XDP).
    Frame,
    /// In a copy on the stack (socket filters, which have no access to the frame).
    Copy,
}

/// The constants in the program of an interface.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortConstants {
    pub(crate) port: FibPortIndex,
    /// Whether the interface is a software device, whose frames may come from a sender on this
    /// machine that left the transport checksum to the device.
    pub(crate) is_software: bool,
    /// The BTF id of `bpf_xdp_metadata_rx_vlan_tag`, which returns a tag that the device has
    /// removed.
    pub(crate) tag_function: Option<i32>,
    /// The hash that chooses among several next hops.
    pub(crate) hash: ResidentHash,
    pub(crate) limits: BpfLimits,
    /// Whether the frames go to the engine in user space, instead of being forwarded here.
    pub(crate) has_sockets: bool,
    /// Whether packets with IP options go to the sockets as well, instead of to the kernel.
    pub(crate) takes_options: bool,
    pub(crate) headers: HeaderAccess,
}

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// The prefix of the labels in this version's part of the program.
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Self::V4 => "v4",
            Self::V6 => "v6",
        }
    }

    /// Length of the Ethernet and IP headers in bytes.
    pub(super) const fn headers_len(self) -> i32 {
        match self {
            Self::V4 => 34,
            Self::V6 => 54,
        }
    }

    pub(super) fn label(self, name: &str) -> String {
        format!("{}:{name}", self.prefix())
    }
}

/// The label that passes frames to the kernel, or drops them, for this reason.
pub(super) const fn pass_label(reason: PassReason) -> &'static str {
    reason.name()
}
