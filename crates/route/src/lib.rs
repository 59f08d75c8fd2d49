//! Makes a router's decision about each packet.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod answer;
mod batch;
mod cause;
mod check_sources;
mod config;
mod counters;
mod egress;
mod engine;
mod explain;
mod field;
mod hash;
mod look_up;
mod output;
mod packet;
mod parse;
mod police;
mod punt;
mod rewrite;
mod staging;
#[cfg(test)]
mod tests;
mod verdict;
mod view;

pub use batch::{MAX_ROUTE_BATCH, RouteBatch, RouteFrame};
pub use cause::RouteDropCause;
pub use config::{ExceedAction, PolicerSpec, PortPolicy, RouteConfig};
pub use counters::{RouteCounters, RoutePortCounters};
pub use engine::RouteEngine;
pub use explain::{ExplainedStages, RouteStep};
pub use output::RouteOutput;
pub use police::PortPolicer;
pub use punt::{PuntClass, PuntReason};
pub use verdict::{ForwardedFrame, HeldPacket, RouteVerdict};
