//! The forwarding tables of a router, computed from a mirror of the kernel's routing state.
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

mod adjacencies;
mod balanced;
mod buckets;
mod config;
mod crowding;
mod deferred;
mod dirty;
mod indices;
mod links;
mod lookups;
mod mirror;
mod mirrored;
mod neighbours;
mod next_hops;
mod placement;
mod prefix;
mod purges;
mod ranges;
mod resync;
mod rib;
mod routes;
mod rules;
mod settings;
mod specs;
mod tables;
mod targets;

pub use config::{FibLimits, MirrorConfig, PortConfig, VrfConfig};
pub use lookups::{Ipv4Table, dir24_table, heap_table};
pub use mirror::{
    GatewayRequest, InterfaceEntry, Mirror, MirrorCounters, NeighbourInfo, RouteAnswer, RouteEntry,
    RouteLead, VerifyBusy, VerifyReport,
};
pub use resync::{DumpKind, DumpSet};
pub use rules::RoutingRule;
pub use tables::{
    Adjacency, AdjacencyIndex, BUCKETS, FibPort, FibPortIndex, ForwardingTables, Ipv4Lookup,
    Ipv6Lookup, NextHopAddress, ReversePathMode, Target, TargetAction, TargetIndex, VlanTags,
    VrfIndex, VrfTables,
};
