//! Routes packets in the kernel's XDP hook, with tables that this process writes.
//!
//! ```text
//!   ForwardingTables --TableWriter--> BPF arrays <--reads-- program on each interface
//!   then IPv4 cells, in place ------->    |                    |-- hit: rewrite, redirect
//!   heartbeat ----------------------->    |                    '-- doubt: XDP_PASS, counted
//! ```
//!
//! [`BpfRouter`] creates the maps, attaches programs ([`BpfRouter::attach`]) and writes snapshots
//! to the maps ([`BpfRouter::apply`]). A program forwards only frames that it understands
//! completely, while forwarding is enabled ([`BpfRouter::enable`]) and the heartbeat of the frame's
//! queue is not older than 100 ms ([`ResidentHeartbeat`]). All other frames go on to the kernel's
//! stack unchanged, except those that the program drops ([`PassReason::is_drop`]). On ports with
//! sockets, an engine in user space forwards.
//!
//! `program` describes the steps for a frame, `layout` the records of the maps, and `writer` the
//! order in which a snapshot replaces another.
//!
//! # Not for
//! Rules, policing and ICMP errors: packets that need these go to the engine in user space, or to
//! the kernel.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cells;
mod counters;
mod driver_drops;
mod flow_hash;
mod inject;
mod interception;
mod layout;
mod maps;
mod probe;
mod program;
mod router;
mod sources;
mod special;
mod succession;
#[cfg(test)]
mod testing;
mod tree;
mod writer;

pub use cells::MappedCells;
pub use counters::ResidentCounters;
pub use driver_drops::DriverDrops;
pub use flow_hash::ResidentHash;
pub use inject::FrameInjector;
pub use interception::PacketInterception;
pub use layout::{BpfLimits, PassReason};
pub use probe::EgressProbe;
pub use router::{
    AttachOptions, BpfRouter, ResidentAttachment, ResidentError, ResidentHeartbeat, ResidentMode,
};
pub use special::{has_address_for_kernel, is_kept_from_sockets};
pub use writer::ResidentOptions;
