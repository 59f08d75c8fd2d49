//! The router's counters at one moment, as plain data. [`crate::figures`] collects them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::traffic::ForwardedTraffic;

/// The counters of an interface: packets that arrived on it and were forwarded, dropped, or left to
/// the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct InterfaceFigures {
    pub(crate) name: String,
    pub(crate) mode: &'static str,
    /// `forwarding`, `kernel` if its packets are left to the kernel, or `deleted`.
    pub(crate) state: &'static str,
    pub(crate) forwarded: ForwardedTraffic,
    /// Packets left to the kernel, by reason.
    pub(crate) passed: BTreeMap<&'static str, u64>,
    /// Packets dropped by the program or by the engine in user space, or lost at its queues, by
    /// cause. The causes `driver`, `ring-full-from-kernel` and those with `tx_` count packets that
    /// were to leave by this interface.
    pub(crate) dropped: BTreeMap<&'static str, u64>,
    /// Packets that the engine in user space has left to the kernel, by class. `passed` includes
    /// them.
    pub(crate) punted: BTreeMap<&'static str, u64>,
    /// Packets that exceeded the rate of a policer and therefore got another DSCP.
    pub(crate) marked: u64,
}

/// The counters of a thread of the engine in user space.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WorkerSummary {
    pub(crate) id: usize,
    /// Numbers of the queues that it owns, of all interfaces together.
    pub(crate) queues: Vec<u16>,
    /// Frames received.
    pub(crate) frames: u64,
    /// Frames given to another thread, whose rules must check them. That thread counts them in its
    /// `frames`.
    pub(crate) handed: u64,
    /// Time of loop iterations that moved frames, in ns.
    pub(crate) busy_ns: u64,
    /// Packets that wait for a neighbour.
    pub(crate) held: u64,
    /// Packets that the thread's engine has created, such as ICMP errors and redirects.
    pub(crate) generated: u64,
    /// Packets for the kernel that were dropped because they exceeded the rate of their class, by
    /// class.
    pub(crate) limited: BTreeMap<&'static str, u64>,
    /// Packets that the kernel did not take.
    pub(crate) failed: u64,
    /// The counters of the thread's rules; `None` without rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rules: Option<RuleFigures>,
}

/// Counters of a thread's rules as a whole. `slipring ipfw -a list` shows the counters of each
/// rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuleFigures {
    /// Packets that rules and pipes have dropped.
    pub(crate) dropped: u64,
    /// Packets that were put into pipes, or that waited for other fragments.
    pub(crate) delayed: u64,
    /// Packets that wait in pipes or for fragments now.
    pub(crate) waiting: u64,
    /// Packets that the rules have made: resets and keepalives.
    pub(crate) made: u64,
    /// How many of the packets in `made` could not be sent, because there was no route.
    pub(crate) unsent: u64,
}

/// The sizes and events of the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FibFigures {
    pub(crate) v4: u64,
    pub(crate) v6: u64,
    /// Neighbours on the router's interfaces.
    pub(crate) neighbours: u64,
    /// Number of snapshots that have come into use.
    pub(crate) generation: u64,
    /// How often a table of the kernel was dumped again after its first dump.
    pub(crate) resyncs: u64,
    pub(crate) overruns: u64,
    /// How often a route, neighbour, next hop or prefix found no space, so that the kernel forwards
    /// its packets.
    pub(crate) refused: u64,
    /// How often the kernel refused a snapshot.
    pub(crate) failed: u64,
    /// Requests for neighbours that were dropped because there were too many at a time.
    pub(crate) dropped_requests: u64,
}

/// All counters at one moment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RouterFigures {
    pub(crate) state: &'static str,
    pub(crate) fib: FibFigures,
    pub(crate) interfaces: Vec<InterfaceFigures>,
    /// The threads of the engine in user space.
    pub(crate) workers: Vec<WorkerSummary>,
}

/// The drop cause of packets that were redirected to an interface and then dropped by its driver.
pub(crate) const DRIVER_DROP: &str = "driver";

/// The drop cause of frames that
/// [`SubinterfaceCounters::full`](crate::subinterface::SubinterfaceCounters::full) counts.
pub(crate) const QUEUE_FULL: &str = "ring-full";

/// The drop cause of frames of the kernel, and messages of address resolution, that were to leave
/// by a subinterface. Either the ring of the parent interface had no space for them, or a worker
/// ended before it took them from the device. They have not arrived on the subinterface.
pub(crate) const UNSENT_OF_KERNEL: &str = "ring-full-from-kernel";

/// The drop cause of packets that threads had received, but had not yet taken from their rx rings
/// when the router ended.
pub(crate) const UNREAD: &str = "unread";

/// Further reasons why the kernel gets packets of a subinterface: those that are no decision of the
/// engine.
pub(crate) const OWN_PASSES: [&str; 2] = ["unresolved", "left-to-kernel"];

/// The mode of subinterfaces that the kernel does not have.
pub(crate) const OWN_MODE: &str = "packet, tap";
