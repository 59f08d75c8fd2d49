//! What is counted of a subinterface.

use slipring_route::RoutePortCounters;

/// What a subinterface has counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubinterfaceFigures {
    pub(crate) counters: SubinterfaceCounters,
    /// What the engine has counted about packets that arrived on it.
    pub(crate) routed: RoutePortCounters,
    /// Neighbours, in any state, and packets that wait for them.
    pub(crate) neighbours: usize,
    pub(crate) waiting: usize,
}

/// The counters of a subinterface, apart from those of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubinterfaceCounters {
    /// Packets from the wire that left by another interface, or as fragments.
    pub(crate) forwarded: u64,
    /// Bytes of these packets with their link headers.
    pub(crate) forwarded_bytes: u64,
    /// Frames that the kernel has sent through the device.
    pub(crate) from_kernel: u64,
    /// Frames that were given to the kernel.
    pub(crate) to_kernel: u64,
    /// Messages of address resolution from the wire that the kernel did not get.
    pub(crate) resolution_from_wire: u64,
    /// Requests of the kernel that did not leave by the wire.
    pub(crate) resolution_from_kernel: u64,
    /// Frames that were given to the kernel because the subinterface is left to it: what workers count
    /// apart from the engine.
    pub(crate) left: u64,
    /// Frames from the wire that found no space in a ring.
    pub(crate) full: u64,
    /// Frames of the kernel, and messages of address resolution, that found no space in the transmit ring
    /// of the interface below.
    pub(crate) unsent: u64,
}
