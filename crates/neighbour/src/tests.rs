//! Tests that follow the text of the RFCs. The frames are written out by hand, and the cache is
//! compared with a plain model.

mod cache;
mod icmp;
mod interface;
mod messages;
mod model;
mod scans;

use core::net::IpAddr;
use std::vec::Vec;

use slipring_wire::MacAddr;

use crate::{NeighbourCache, NeighbourEvent, NeighbourLimits, NeighbourTimers, NeighbourView};

const SECOND: u64 = 1_000_000_000;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

/// Returns a cache with the timers of the RFC. It holds numbers in place of frames.
fn cache(limits: NeighbourLimits) -> NeighbourCache<u32> {
    NeighbourCache::new(NeighbourTimers::default(), limits, 7)
}

fn events(cache: &mut NeighbourCache<u32>) -> Vec<NeighbourEvent<u32>> {
    core::iter::from_fn(|| cache.poll_event()).collect()
}

fn view(cache: &NeighbourCache<u32>, host: IpAddr, now: u64) -> NeighbourView {
    cache.get(host, now).unwrap()
}
