//! A learning Ethernet switch: netmap's VALE as a decision engine without packets, threads
//! or clocks.
//!
//! ```text
//!   a port's tx slots                 SwitchBatch                  other ports' rx slots
//!   |a|b|c|d|e|  -> Switch::forward ->  port 2, ring 0: a, c, d  -> the caller copies
//!    headers only                       port 7, ring 0: b, d        according to each list
//!                                       port 9, ring 0: d, e        and reports the delivery
//!                                                          `d` is flooded: stored once
//! ```
//!
//! | part | purpose |
//! |---|---|
//! | [`Switch`] | ports, addresses, decisions, counters |
//! | [`SwitchBatch`] | the frames of one source: destinations, and the frames for each in order |
//! | [`SwitchLookup`] | a hook that decides instead of the address table |
//! | [`MacTable`] | the port of each address, with ageing |
//!
//! A batch is handled in three steps. [`Switch::forward`] decides and fills a [`SwitchBatch`]. The
//! caller then copies the frames. It needs only the batch for this, so that other threads can use
//! the switch during the copying. Finally, [`Switch::settle`] counts what was delivered. A decision
//! costs a few nanoseconds per frame; the cost of delivery is proportional to the number of copies.
//!
//! # Invariants
//! 1. Frames from one source to one destination ring stay in order, flooded or not.
//! 2. A frame is never sent back to its source port.
//! 3. Every frame is counted: received + copies = delivered + drops by reason.
//! 4. The table is keyed by a secret and probes a bounded number of buckets, so chosen addresses
//!    cannot slow it down. The number of addresses is bounded.
//!
//! Not for: frame contents beyond the first 18 bytes, the spanning tree protocol, checksum
//! offloads.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod batch;
mod config;
mod counters;
mod flood;
mod lookup;
mod port;
mod storm;
mod switch;
mod table;
mod vlan;

pub use batch::{BatchDestination, Copies, DeliveryCounts, FrameCopy, SwitchBatch};
pub use config::{SwitchConfig, SwitchConfigError, UnknownUnicast};
pub use counters::{SwitchDropReason, SwitchPortCounters, SwitchTraffic};
pub use lookup::{FrameSlots, LearnedLookup, SlotMarks, SwitchLookup, SwitchPacket, SwitchRoute};
pub use port::{SwitchPortConfig, SwitchPortId};
pub use storm::{StormLimit, StormLimits};
pub use switch::Switch;
pub use table::{MacEntry, MacTable};
pub use vlan::{TagAction, VlanId, VlanMembership, VlanSet};
