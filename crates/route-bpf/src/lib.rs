//! Packets routed inside the kernel's XDP hook, by tables that this process writes.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cells;
mod counters;
mod flow_hash;
mod layout;
mod maps;
mod program;
mod router;
#[cfg(test)]
mod testing;
mod tree;
mod writer;

pub use cells::MappedCells;
pub use counters::ResidentCounters;
pub use flow_hash::flow_bucket;
pub use layout::{BpfLimits, PassReason};
pub use router::{
    AttachOptions, BpfRouter, ResidentAttachment, ResidentError, ResidentHeartbeat, ResidentMode,
};
pub use writer::ResidentOptions;
