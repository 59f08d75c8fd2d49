//! Finds the place of a new route among the routes for its prefix, and the routes that it replaces.

use alloc::vec::Vec;
use core::ops::Range;

use slipring_rtnetlink::RouteFamily;

use crate::rib::RouteRecord;
use crate::specs::{RouteSpec, SpecHop, SpecHops, SpecId, Specs};

/// How a route is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Insertion {
    /// Before other routes with the same key (`ip route add`, `prepend`); for IPv6, after them.
    Add,
    /// After other routes with the same key (`append`).
    Append,
    /// In place of another route with the same key (`replace`); for IPv6, in place of all of them.
    Replace,
    /// As the next route in the order of a dump.
    Dump,
}

/// What a message has changed among the routes for a prefix.
#[derive(Debug, Default)]
pub(crate) struct PlacementResult {
    /// Routes that were removed.
    pub removed: Vec<RouteRecord>,
    /// Whether the message was ignored because it may be older than the known state.
    pub is_superseded: bool,
    /// Whether the message has replaced or extended an unknown route. A running dump may still
    /// contain that route.
    pub is_unexplained: bool,
    /// Whether there are several routes with the same key, so that the kernel may have replaced
    /// others than the mirror, or may have them in another order.
    pub is_doubtful: bool,
}

/// Returns the positions of the routes with this key; an empty range where they would be inserted
/// if there are none.
fn group(list: &[RouteRecord], key: (u8, u32)) -> Range<usize> {
    let start = list.partition_point(|other| other.key() < key);
    start..start + list[start..].iter().take_while(|other| other.key() == key).count()
}

/// Adds a route to those for its prefix. Returns what has changed among them.
pub(crate) fn place(
    list: &mut Vec<RouteRecord>,
    record: RouteRecord,
    how: Insertion,
    family: RouteFamily,
    specs: &Specs,
) -> PlacementResult {
    let mut result = PlacementResult::default();
    if how != Insertion::Dump {
        // A notification about a route that was removed silently means that the kernel has added
        // the route again.
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
        // Since the start of the dump, a notification (or the dump itself) has already mentioned
        // this route, so the order in the dump may be out of date.
        (Insertion::Dump, _) if same.is_some_and(|at| list[at].mark == record.mark) => {
            result.is_superseded = true;
            result.is_doubtful = group.len() > 1;
        }
        // Routes that neither the dump nor a notification has mentioned since the dump began follow
        // later in the dump, or no longer exist. So this route is placed before the first of them.
        (Insertion::Dump, _) => {
            let unmarked = list[group.clone()].iter().position(|other| other.mark != record.mark);
            // If notifications have changed the other routes, their order may differ from the
            // dump's, or they may have replaced this route.
            result.is_doubtful = group.len() > usize::from(same.is_some());
            result.removed.extend(same.map(|at| list.remove(at)));
            list.insert(unmarked.map_or(group.end, |at| group.start + at), record);
        }
        // If a next-hop object changes, the kernel again announces all routes that use the object,
        // as replacements. It also does so for routes that are not the first of their prefix.
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
            // A replaced route was in the kernel's table, so it cannot be one that was removed
            // silently.
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
            // Routes for the same prefix with the same metric can become one route with several
            // next hops. The message then contains all of these.
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

/// Whether the route `whole` contains all next hops of the route `part`, and more.
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

/// What a deletion removes.
#[derive(Debug)]
pub(crate) enum Removal {
    /// The whole route at this place.
    Whole(usize),
    /// Some next hops of the route at this place (IPv6). Without them, the route has this spec.
    Part(usize, RouteSpec),
    /// The mirror does not have the route that was deleted.
    Unknown,
}

/// Returns what the deletion of a route removes from `list`.
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

/// Returns the spec of a route without the next hops of `deleted`, if the route has all of them and
/// at least one other.
fn without(spec: &RouteSpec, deleted: &RouteSpec) -> Option<RouteSpec> {
    let gone = deleted.hops.named();
    let is_gone = |hop: &SpecHop| gone.iter().any(|it| leads_as(it, hop));
    let rest: Vec<SpecHop> =
        spec.hops.named().iter().copied().filter(|hop| !is_gone(hop)).collect();
    let is_part =
        !gone.is_empty() && !rest.is_empty() && rest.len() + gone.len() == spec.hops.named().len();
    is_part.then(|| RouteSpec { hops: SpecHops::of(rest), ..spec.clone() })
}
