//! The counters of a subinterface.

use slipring_port::DropCause;
use slipring_route::RoutePortCounters;

/// The figures of a subinterface.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubinterfaceFigures {
    pub(crate) counters: SubinterfaceCounters,
    /// The engine's counters of packets that arrived on the subinterface.
    pub(crate) routed: RoutePortCounters,
    /// Number of neighbours in any state.
    pub(crate) neighbours: usize,
    pub(crate) waiting: usize,
    /// Frames that the queues of a thread of subinterfaces have lost. Those of a socket count at
    /// the first subinterface of its interface.
    pub(crate) lost: Vec<(DropCause, u64)>,
}

/// The counters of a subinterface, apart from those of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubinterfaceCounters {
    /// Packets from the wire that left by another interface, or as fragments.
    pub(crate) forwarded: u64,
    /// Bytes of the packets in `forwarded`, with their link headers.
    pub(crate) forwarded_bytes: u64,
    /// Frames that the kernel has sent through the device.
    pub(crate) from_kernel: u64,
    /// Frames that were given to the kernel.
    pub(crate) to_kernel: u64,
    /// Messages of address resolution from the wire that were not passed to the kernel.
    pub(crate) resolution_from_wire: u64,
    /// Requests of the kernel that were not sent on the wire.
    pub(crate) resolution_from_kernel: u64,
    /// Frames that were given to the kernel because the subinterface is left to it. Only workers
    /// use this counter. With a thread of subinterfaces, [`crate::figures`] finds the number of
    /// such frames from other counters.
    pub(crate) left: u64,
    /// Frames that were dropped because a ring was full: that of the device or, with a thread of
    /// subinterfaces, that of an egress interface. The latter count at the first subinterface if
    /// they did not arrive on one. With workers, only answers to the kernel's address resolution
    /// count here.
    pub(crate) full: u64,
    /// Frames of the kernel, messages of address resolution and, with a thread of subinterfaces,
    /// the router's own packets (answers and fragments), that were dropped because a transmit ring
    /// was full; and frames of the kernel that a worker had not taken when it ended.
    pub(crate) unsent: u64,
}
