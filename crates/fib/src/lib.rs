//! The forwarding tables of a router, and their mirror of the kernel's.
//!
//! ```text
//!   kernel's messages --> Mirror --> Rib (all routes, all metrics) --> best routes
//!   (slipring-rtnetlink)   links, addresses, next hops,                   |
//!                          neighbours, rules                              v
//!                                     ForwardingTables: what a packet's destination means
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;

mod tables;

pub use tables::{
    Adjacency, AdjacencyIndex, BUCKETS, FibPort, ForwardingTables, Ipv4Lookup, Ipv6Lookup, NextHopAddress,
    PortIndex, Target, TargetAction, TargetIndex, VlanTags, VrfIndex, VrfTables,
};
