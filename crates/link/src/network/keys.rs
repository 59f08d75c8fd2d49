//! The keys by which links that frames enter by are known on the links that follow.
//!
//! A key follows from the link's name, so that another link in the plan changes no other one's.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::frame_id::FirstFrameNumbers;
use crate::link::Link;
use crate::spec::{LinkSource, NetworkSpec};
use crate::streams::LinkStreams;

/// One for each link, none of them 0.
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

/// How many frames entered by which link, in the order of the keys.
pub(super) fn entered(keys: &[u32], links: &[Link], plan: &NetworkSpec) -> Vec<(u32, u64)> {
    let ends = keys.iter().zip(links).zip(&plan.links);
    let enter = ends.filter(|(_, planned)| matches!(planned.from, LinkSource::Entry(_)));
    let mut entered: Vec<_> = enter.map(|((key, link), _)| (*key, link.entered())).collect();
    entered.sort_unstable();
    entered
}
