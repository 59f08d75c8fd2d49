//! Ports of every kind behind netmap rings.
//!
//! A name opens a [`Port`]: one or more [`Queue`]s, each a tx and an rx ring with the driver that
//! moves frames between them and the outside. A program fills and reads rings; no slot passes
//! between it and the driver until it calls [`Queue::tx_sync`] or [`Queue::rx_sync`], once per
//! batch.
//!
//! | module | port |
//! |---|---|
//! | [`xdp`] | AF_XDP socket of an interface queue |
//! | [`packet`] | AF_PACKET ring, works on every interface |
//! | [`tap`] | TAP device |
//! | [`host`] | host rings of an interface |
//! | [`pipe`] | one end of a pipe |
//! | [`pcap`] | capture file |
//! | [`kernel`] | port of a netmap device |
//! | [`native`] | pipe of the daemon, synced in this process |
//! | [`null`] | sink and source of known cost |
//!
//! [`middleware`] wraps any queue: capture, faults, trace. [`netns`] creates network namespaces
//! that leave nothing behind. Opening ports by name and sharing a region between ports is the task
//! of `slipring-core`.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod clock;
mod error;
mod gather;
mod info;
mod lender;
mod link_watch;
mod options;
mod port;
mod queue;
mod stats;
mod succession;
mod wait;

pub mod bpf;
pub mod capture;
pub mod host;
pub mod iface;
pub mod inherited;
pub mod kernel;
pub mod middleware;
pub mod native;
pub mod netlink;
pub mod netns;
pub mod nic;
pub mod null;
pub mod packet;
pub mod pcap;
pub mod pipe;
pub mod taken;
pub mod tap;
pub mod xdp;

pub use clock::{Nanos, now, sleep_until};
pub use error::{
    CODES, ErrorClass, GRANT_COMMANDS, OpenCause, OpenError, QueueOwner, RunCause, RunError,
    in_user_namespace,
};
pub use info::{PortCaps, PortInfo, PortMode};
pub use lender::{DelegatedQueue, QueueLender};
pub use options::{MAX_VLAN_IDS, OpenOptions, RegionNeeds, XdpMode};
pub use port::{Port, forward};
pub use queue::{Interest, Queue, QueueRings, TxWait, WaitFds};
pub use stats::{DropCause, QueueCounters, QueueSnapshot, TrafficCounts};
pub use succession::{InheritedSocket, SocketRing};
pub use wait::{ArmResult, QueueVisitor, WaitOutcome, WaitSet, WaitStrategy, Waiter};
