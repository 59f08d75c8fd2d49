//! The keys that identify a frame's link of entry on later links.
//!
//! A key is derived from the seed and the link's name, so adding a link to the plan does not change
//! the keys of other links (unless two derived keys are equal and the later one has to give way).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::frame_id::FirstFrameNumbers;
use crate::link::Link;
use crate::spec::{LinkSource, NetworkSpec};
use crate::streams::LinkStreams;

/// Returns one key per link, none of them 0.
pub(super) fn of(plan: &NetworkSpec, seed: u64) -> Vec<u32> {
    let mut taken = BTreeSet::from([0]);
    let key = |link: &crate::spec::NetworkLink| {
        let streams =
            LinkStreams { seed, link: &link.spec.name, next: FirstFrameNumbers::default() };
        let mut key = streams.draws("key").at(0) as u32;
        while !taken.insert(key) {
            key = key.wrapping_add(1);
        }
        key
    };
    plan.links.iter().map(key).collect()
}

/// Returns the key of each link of entry and the number of frames that entered the network by this
/// link, ordered by key.
pub(super) fn entered(keys: &[u32], links: &[Link], plan: &NetworkSpec) -> Vec<(u32, u64)> {
    let ends = keys.iter().zip(links).zip(&plan.links);
    let enter = ends.filter(|(_, planned)| matches!(planned.from, LinkSource::Entry(_)));
    let mut entered: Vec<_> = enter.map(|((key, link), _)| (*key, link.entered())).collect();
    entered.sort_unstable();
    entered
}
