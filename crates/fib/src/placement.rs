//! Where among the routes for a prefix a new one goes, and which ones it replaces.

use alloc::vec::Vec;
use core::ops::Range;

use slipring_rtnetlink::RouteFamily;

use crate::rib::RouteRecord;
use crate::specs::{RouteSpec, SpecHop, SpecHops, SpecId, Specs};

/// How a route is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Insertion {
    /// Before others with the same key (`ip route add`, `prepend`).
    Add,
    /// After others with the same key (`append`).
    Append,
    /// In place of another with the same key (`replace`).
    Replace,
    /// As the next in the order of a dump.
    Dump,
}

/// What a message has done to the routes for a prefix.
#[derive(Debug, Default)]
pub(crate) struct PlacementResult {
    /// Routes that are no longer there.
    pub removed: Vec<RouteRecord>,
    /// The message says nothing new, and was not used.
    pub is_superseded: bool,
    /// The message has replaced or extended a route that we do not have. A running dump may still
    /// mention that one.
    pub is_unexplained: bool,
    /// The kernel has chosen among several routes, perhaps others than we have.
    pub is_doubtful: bool,
}

/// The routes with the same key; where they would be if there are none.
fn group(list: &[RouteRecord], key: (u8, u32)) -> Range<usize> {
    let start = list.partition_point(|other| other.key() < key);
    start..start + list[start..].iter().take_while(|other| other.key() == key).count()
}

/// Adds a route to those for its prefix.
pub(crate) fn place(
    list: &mut Vec<RouteRecord>,
    record: RouteRecord,
    how: Insertion,
    family: RouteFamily,
    specs: &Specs,
) -> PlacementResult {
    let mut result = PlacementResult::default();
    if how != Insertion::Dump {
        // Notifications tell of a route again that was removed silently: it is a new one.
        let is_gone = |other: &mut RouteRecord| {
            let is_purged = specs.get(other.spec).is_some_and(|state| state.is_purged);
            other.key() == record.key() && is_purged && says_same(specs, other.spec, record.spec)
        };
        result.removed.extend(list.extract_if(.., is_gone));
    }
    let group = group(list, record.key());
    let same =
        list[group.clone()].iter().position(|other| says_same(specs, other.spec, record.spec));
    let same = same.map(|at| group.start + at);
    match (how, family) {
        // A notification has come since the dump's start, so the dump's order may be older.
        (Insertion::Dump, _) if same.is_some_and(|at| list[at].mark == record.mark) => {
            result.is_superseded = true;
            result.is_doubtful = group.len() > 1;
        }
        // What the dump has not mentioned yet comes after, or no longer exists.
        (Insertion::Dump, _) => {
            let unmarked = list[group.clone()].iter().position(|other| other.mark != record.mark);
            // If notifications have changed the others, the order may be another, or this one is what
            // they have replaced.
            result.is_doubtful = group.len() > usize::from(same.is_some());
            result.removed.extend(same.map(|at| list.remove(at)));
            list.insert(unmarked.map_or(group.end, |at| group.start + at), record);
        }
        // A changed next-hop object makes the kernel repeat all routes that use it, as replacements,
        // also of a route that is not the first.
        (Insertion::Add | Insertion::Append | Insertion::Replace, _) if same.is_some() => {
            result.is_doubtful =
                how == Insertion::Replace && family == RouteFamily::V6 && group.len() > 1;
            let at = same.unwrap_or(group.start);
            result.removed.push(core::mem::replace(&mut list[at], record));
        }
        (Insertion::Replace, _) if group.is_empty() => {
            result.is_unexplained = true;
            list.insert(group.start, record);
        }
        (Insertion::Replace, RouteFamily::V4) => {
            result.is_doubtful = group.len() > 1;
            // One of several that was removed silently was not there to be replaced.
            let is_there =
                |other: &RouteRecord| specs.get(other.spec).is_some_and(|state| !state.is_purged);
            let first = list[group.clone()].iter().position(is_there).unwrap_or(0);
            result.removed.push(core::mem::replace(&mut list[group.start + first], record));
        }
        (Insertion::Replace, RouteFamily::V6) => {
            result.is_doubtful = group.len() > 1;
            result.removed.extend(list.splice(group, [record]));
        }
        (Insertion::Add, RouteFamily::V4) => list.insert(group.start, record),
        (Insertion::Append, RouteFamily::V4) => {
            result.is_unexplained = group.is_empty();
            list.insert(group.end, record);
        }
        (Insertion::Add | Insertion::Append, RouteFamily::V6) => {
            // Routes for the same prefix with the same metric become one with several next hops,
            // which the message names all.
            let is_part = |other: &RouteRecord| is_part_of(specs, other.spec, record.spec);
            let before = list.len();
            result.removed.extend(list.extract_if(group.clone(), |other| is_part(other)));
            result.is_unexplained = how == Insertion::Append && before == list.len();
            list.insert(group.end - (before - list.len()), record);
        }
    }
    result
}

fn says_same(specs: &Specs, a: SpecId, b: SpecId) -> bool {
    a == b || specs.get(a).zip(specs.get(b)).is_some_and(|(a, b)| a.spec == b.spec)
}

/// Whether a route with several next hops has all those of another.
fn is_part_of(specs: &Specs, part: SpecId, whole: SpecId) -> bool {
    let Some((part, whole)) = specs.get(part).zip(specs.get(whole)) else { return false };
    let (part, whole) = (part.spec.hops.named(), whole.spec.hops.named());
    !part.is_empty()
        && part.len() < whole.len()
        && part.iter().all(|hop| whole.iter().any(|it| leads_as(it, hop)))
}

fn leads_as(a: &SpecHop, b: &SpecHop) -> bool {
    (a.ifindex, a.gateway) == (b.ifindex, b.gateway)
}

/// What remains of a route after a deletion.
#[derive(Debug)]
pub(crate) enum Removal {
    /// The route at this place is gone.
    Whole(usize),
    /// The route at this place has lost next hops (IPv6), and says this now.
    Part(usize, RouteSpec),
    /// The kernel has deleted a route that we do not have.
    Unknown,
}

/// Finds what the deletion of a route removes.
pub(crate) fn find_removed(
    list: &[RouteRecord],
    key: (u8, u32),
    deleted: &RouteSpec,
    family: RouteFamily,
    specs: &Specs,
) -> Removal {
    let group = group(list, key);
    for at in group.clone() {
        if specs.get(list[at].spec).is_some_and(|state| state.spec == *deleted) {
            return Removal::Whole(at);
        }
    }
    if family == RouteFamily::V6 {
        for at in group {
            let rest = specs.get(list[at].spec).and_then(|state| without(&state.spec, deleted));
            if let Some(rest) = rest {
                return Removal::Part(at, rest);
            }
        }
    }
    Removal::Unknown
}

/// What a route with several next hops says without those of `deleted`, if it had them all.
fn without(spec: &RouteSpec, deleted: &RouteSpec) -> Option<RouteSpec> {
    let gone = deleted.hops.named();
    let is_gone = |hop: &SpecHop| gone.iter().any(|it| leads_as(it, hop));
    let rest: Vec<SpecHop> =
        spec.hops.named().iter().copied().filter(|hop| !is_gone(hop)).collect();
    let is_part =
        !gone.is_empty() && !rest.is_empty() && rest.len() + gone.len() == spec.hops.named().len();
    is_part.then(|| RouteSpec { hops: SpecHops::of(rest), ..spec.clone() })
}
