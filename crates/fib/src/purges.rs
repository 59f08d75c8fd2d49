//! Reasons for which the kernel has removed routes without a message.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::specs::{RouteSpec, SpecHops};

/// Why the kernel removes routes without a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purge {
    /// An interface is down or deleted. Routes stay if they have next hops on other interfaces that
    /// are alive.
    Link(u32),
    /// Next-hop objects were removed.
    Objects(Vec<u32>),
    /// An IPv4 address was deleted. Routes that prefer it as their source are removed.
    Source(IpAddr),
}

impl Purge {
    /// Whether a route with this spec may have been removed.
    pub(crate) fn concerns(&self, spec: &RouteSpec) -> bool {
        match self {
            Self::Link(ifindex) => spec.hops.named().iter().any(|hop| hop.ifindex == *ifindex),
            Self::Objects(ids) => matches!(&spec.hops, SpecHops::Object(id) if ids.contains(id)),
            Self::Source(address) => spec.source == Some(*address),
        }
    }
}
