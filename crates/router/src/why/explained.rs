//! The decisions about a packet.

use slipring_fib::FibPortIndex;
use slipring_route::RouteStep;
use slipring_rules::ExplainedCheck;

use super::path::PacketPath;

/// A packet with what the stages have decided about it.
pub(super) struct ExplainedPacket {
    pub(super) path: PacketPath,
    pub(super) steps: Vec<RouteStep>,
    pub(super) checks: Vec<ExplainedCheck>,
    /// The egress port, if the packet is left to the kernel because of this port.
    pub(super) left_to: Option<FibPortIndex>,
}
