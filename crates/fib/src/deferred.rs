//! What waits until all readers have the newest snapshot: changes of IPv4 tables, and indices to
//! which their present entries lead.
//!
//! ```text
//!   publish, snapshot g     old entry -> old index -> old target       new index -> new target
//!   readers use g           the same
//!   write_ipv4              new entry -> new index -> new target       old index: freed, in g + 1
//! ```
//!
//! So a reader finds the old target or the new one, and never an index without a meaning. That
//! would lead to the kernel, which may already have a route that is newer than both.

use alloc::vec::Vec;

use crate::adjacencies::AdjacencyKey;
use crate::prefix::RoutePrefix;
use crate::tables::TargetIndex;

/// The numbers of all addresses of a prefix, as [`Ipv4Table::set`](crate::Ipv4Table::set) takes
/// them.
#[derive(Debug)]
pub(crate) struct DeferredRanges {
    pub vrf: usize,
    pub prefix: RoutePrefix<u32>,
    pub numbers: Vec<(u32, u16)>,
}

/// Something that is no longer used once the changes are written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReleasedItem {
    Target(TargetIndex),
    /// One use of it.
    Adjacency(AdjacencyKey),
    Buckets(u16),
}

/// Changes that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct DeferredChanges {
    pub ranges: Vec<DeferredRanges>,
    pub released: Vec<ReleasedItem>,
}
