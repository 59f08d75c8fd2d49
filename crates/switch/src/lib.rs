//! A learning Ethernet switch: netmap's VALE, as decisions without packets, threads or clocks.
//!
//! ```text
//!   a port's tx slots                    Batch                     other ports' rx slots
//!   |a|b|c|d|e|  -> Switch::forward ->  port 2, ring 0: a, c, d  -> the caller copies
//!    headers only                       port 7, ring 0: b, d        what each list says,
//!                                       port 9, ring 0: d, e        and reports what fitted
//!                                                          `d` is flooded: stored once
//! ```
//!
//! | part | what |
//! |---|---|
//! | [`Switch`] | ports, addresses, decisions, counters |
//! | [`SwitchBatch`] | what one source sends: the destinations, and for each the frames in order |
//! | [`Lookup`] | a hook that decides instead of the address table |
//! | [`MacTable`] | which address lives behind which port, with ageing |
//!
//! A turn has three steps: [`Switch::forward`] decides and fills a [`SwitchBatch`]; the caller copies
//! with only the batch in hand, so other threads can decide meanwhile; [`Switch::settle`] takes
//! back what was delivered. Deciding costs a few nanoseconds a frame, delivery in proportion to
//! the copies made.
//!
//! # Invariants
//! 1. Frames from one source to one destination ring stay in order, flooded or not.
//! 2. A frame never goes back to where it came from.
//! 3. Every frame is counted: received + copies = delivered + drops by reason.
//! 4. The table is keyed by a secret and probes a bounded number of places, so chosen addresses
//!    cannot slow it down; it holds a bounded number of them.
//!
//! Not for: frame contents beyond the first 18 bytes, spanning tree, checksum offloads.
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
