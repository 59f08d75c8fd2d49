//! One routing table: all routes of all metrics, ordered by prefix.
//!
//! ```text
//!   routes:  prefix --> the first route, 12 bytes     a sweep in order meets each prefix before
//!   others:  prefix --> the routes after it           those inside it
//!   appended: prefixes after all of `routes`, not yet merged
//! ```
//!
//! The kernel lists IPv4 routes in the order of their prefixes. So routes that are added at the end
//! are collected first and then merged into the tree together, which is cheaper than one by one.
//!
//! Routes for one prefix are in the order in which the kernel tries them: the greatest TOS first,
//! then the lowest metric; equal routes in the kernel's order.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;
use core::ops::Bound;

use crate::prefix::{AddressBits, RoutePrefix};
use crate::specs::SpecId;

/// A route, without its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteRecord {
    pub spec: SpecId,
    pub metric: u32,
    pub protocol: u8,
    pub tos: u8,
    /// The number of the latest dump that had begun when a message last mentioned the route.
    pub mark: u8,
    flags: u8,
}

/// Flag of the first route of a prefix: `others` contains further routes for the prefix.
const HAS_OTHERS: u8 = 1;
/// Flag of the first route of a prefix: a route for the prefix or inside it was, or may have been,
/// refused for lack of space.
const COVERS_REFUSED: u8 = 2;

impl RouteRecord {
    pub(crate) const fn new(spec: SpecId, metric: u32, protocol: u8, tos: u8, mark: u8) -> Self {
        Self { spec, metric, protocol, tos, mark, flags: 0 }
    }

    /// Whether a route for the prefix or inside it may have been refused. Only set in the first
    /// route of a prefix.
    pub(crate) const fn covers_refused(self) -> bool {
        self.flags & COVERS_REFUSED != 0
    }

    /// The key by which the kernel orders the routes of a prefix.
    pub(crate) const fn key(self) -> (u8, u32) {
        (u8::MAX - self.tos, self.metric)
    }
}

/// A routing table of one family.
#[derive(Debug)]
pub(crate) struct Rib<A> {
    routes: BTreeMap<RoutePrefix<A>, RouteRecord>,
    /// Prefixes in ascending order, all of which come after those in `routes`.
    appended: Vec<(RoutePrefix<A>, RouteRecord)>,
    others: BTreeMap<RoutePrefix<A>, Vec<RouteRecord>>,
    /// The number of prefixes of each length. A search skips lengths with no prefix.
    lengths: [u32; 129],
    /// The number of all routes.
    len: usize,
    /// Whether a route that is outside all prefixes of the table was refused.
    pub has_uncovered_refusal: bool,
    /// Whether any route was refused. If none was, an insertion need not search for a prefix around
    /// the new one.
    has_refusals: bool,
}

/// The result of [`Rib::mention`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mention {
    /// The route is known, and is the only route of its prefix.
    Known,
    /// The prefix had no route, and the route was inserted.
    Inserted,
    /// Nothing was changed, because the prefix has other routes, or because the route may not be
    /// inserted.
    Open,
}

impl<A: AddressBits> Default for Rib<A> {
    fn default() -> Self {
        Self {
            routes: BTreeMap::new(),
            appended: Vec::new(),
            others: BTreeMap::new(),
            lengths: [0; 129],
            len: 0,
            has_uncovered_refusal: false,
            has_refusals: false,
        }
    }
}

impl<A: AddressBits> Rib<A> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The first route for exactly this prefix.
    pub(crate) fn first(&self, prefix: RoutePrefix<A>) -> Option<RouteRecord> {
        let appended = || {
            let at = self.appended.binary_search_by_key(&prefix, |route| route.0).ok()?;
            Some(self.appended[at].1)
        };
        self.routes.get(&prefix).copied().or_else(appended)
    }

    /// The second route for exactly this prefix.
    pub(crate) fn second(&self, prefix: RoutePrefix<A>, first: RouteRecord) -> Option<RouteRecord> {
        if first.flags & HAS_OTHERS == 0 {
            return None;
        }
        self.others.get(&prefix)?.first().copied()
    }

    /// Copies the routes for exactly this prefix, in order.
    pub(crate) fn list(&self, prefix: RoutePrefix<A>) -> Vec<RouteRecord> {
        let Some(first) = self.first(prefix) else { return Vec::new() };
        let others = self.others.get(&prefix).map_or(&[][..], Vec::as_slice);
        let mut list = Vec::with_capacity(1 + others.len());
        list.push(first);
        list.extend_from_slice(others);
        list
    }

    /// Appends the first route of a prefix, if the prefix comes after all others; returns whether
    /// the route was appended. Of two prefixes that begin at the same address, the kernel lists the
    /// longer one first.
    fn append(&mut self, prefix: RoutePrefix<A>, record: RouteRecord) -> bool {
        let is_inside = |other: RoutePrefix<A>| other.start == prefix.start && other > prefix;
        let inside = self.appended.iter().rev().take_while(|other| is_inside(other.0)).count();
        let at = self.appended.len() - inside;
        let before = match at.checked_sub(1) {
            Some(before) => Some(self.appended[before].0),
            None => self.routes.last_key_value().map(|(last, _)| *last),
        };
        // If routes were refused, appending is not enough: a search must find the prefix around the
        // new one.
        if self.has_refusals || before.is_some_and(|before| before >= prefix) {
            return false;
        }
        self.appended.insert(at, (prefix, record));
        true
    }

    /// Merges the appended routes into the tree.
    pub(crate) fn settle(&mut self) {
        if self.appended.is_empty() {
            return;
        }
        let appended = core::mem::take(&mut self.appended);
        // Merging costs a pass over all routes, so it is done only for many appended routes.
        if appended.len() < self.routes.len() / 8 {
            self.routes.extend(appended);
        } else {
            self.routes.append(&mut appended.into_iter().collect());
        }
    }

    /// Handles the usual message of a dump with one search. If the only route of the prefix equals
    /// `record`, marks the route as mentioned. If the prefix has no route and `may_insert` is true,
    /// adds the route. Returns which of this was done.
    pub(crate) fn mention(
        &mut self,
        prefix: RoutePrefix<A>,
        record: RouteRecord,
        may_insert: bool,
    ) -> Mention {
        if may_insert && self.append(prefix, RouteRecord { flags: 0, ..record }) {
            self.lengths[usize::from(prefix.len)] += 1;
            self.len += 1;
            return Mention::Inserted;
        }
        self.settle();
        let flags = if self.inherits_refusal(prefix) { COVERS_REFUSED } else { 0 };
        match self.routes.entry(prefix) {
            Entry::Occupied(mut entry) => {
                let stored = entry.get_mut();
                let is_same = stored.spec == record.spec && stored.key() == record.key();
                if !is_same || stored.flags & HAS_OTHERS != 0 {
                    return Mention::Open;
                }
                (stored.mark, stored.protocol) = (record.mark, record.protocol);
                Mention::Known
            }
            Entry::Vacant(entry) if may_insert => {
                entry.insert(RouteRecord { flags, ..record });
                self.lengths[usize::from(prefix.len)] += 1;
                self.len += 1;
                Mention::Inserted
            }
            Entry::Vacant(_) => Mention::Open,
        }
    }

    /// Adds the only route of a prefix without routes.
    pub(crate) fn insert_first(&mut self, prefix: RoutePrefix<A>, record: RouteRecord) {
        let mention = self.mention(prefix, record, true);
        debug_assert_eq!(mention, Mention::Inserted, "the prefix had no routes");
    }

    /// Sets the routes of a prefix. With an empty list, removes the prefix. If a refusal was
    /// recorded at the removed prefix, records it at a shorter prefix, as [`Self::refuse`] does,
    /// and returns the prefix whose lookups this changes.
    pub(crate) fn set_list(
        &mut self,
        prefix: RoutePrefix<A>,
        list: &[RouteRecord],
    ) -> Option<RoutePrefix<A>> {
        let before = self.list(prefix).len();
        self.len = self.len - before + list.len();
        match (before, list.split_first()) {
            (0, None) => None,
            (_, None) => self.remove(prefix),
            (_, Some((first, others))) => {
                if before == 0 {
                    self.len -= 1;
                    self.insert_first(prefix, *first);
                }
                self.set_others(prefix, others);
                self.settle();
                if let Some(stored) = self.routes.get_mut(&prefix) {
                    let others = if others.is_empty() { 0 } else { HAS_OTHERS };
                    let flags = stored.flags & COVERS_REFUSED | others;
                    *stored = RouteRecord { flags, ..*first };
                }
                None
            }
        }
    }

    fn set_others(&mut self, prefix: RoutePrefix<A>, others: &[RouteRecord]) {
        if others.is_empty() {
            self.others.remove(&prefix);
        } else {
            let others = others.iter().map(|other| RouteRecord { flags: 0, ..*other });
            self.others.insert(prefix, others.collect());
        }
    }

    fn remove(&mut self, prefix: RoutePrefix<A>) -> Option<RoutePrefix<A>> {
        self.settle();
        let removed = self.routes.remove(&prefix);
        self.others.remove(&prefix);
        self.lengths[usize::from(prefix.len)] -= 1;
        removed.is_some_and(RouteRecord::covers_refused).then(|| self.refuse(prefix))
    }

    /// Records that a route for the prefix, or inside it, was refused. Returns the prefix whose
    /// lookups this changes: the longest prefix with a route that contains it, or all addresses.
    pub(crate) fn refuse(&mut self, prefix: RoutePrefix<A>) -> RoutePrefix<A> {
        self.has_refusals = true;
        self.settle();
        let covering = self.covering(prefix);
        match covering.and_then(|covering| self.routes.get_mut(&covering)) {
            Some(record) => record.flags |= COVERS_REFUSED,
            None => self.has_uncovered_refusal = true,
        }
        covering.unwrap_or(RoutePrefix::ALL)
    }

    /// Whether a new prefix may contain a refused route. The refusal was recorded at a larger
    /// prefix, which contains both, or for the whole table.
    fn inherits_refusal(&self, prefix: RoutePrefix<A>) -> bool {
        if !self.has_refusals {
            return false;
        }
        match self.covering(prefix).and_then(|covering| self.first(covering)) {
            Some(record) => record.covers_refused(),
            None => self.has_uncovered_refusal,
        }
    }

    /// Forgets all refusals, because there was space for all routes. Returns whether there were
    /// any.
    pub(crate) fn forget_refusals(&mut self) -> bool {
        let mut had = core::mem::take(&mut self.has_uncovered_refusal);
        if !core::mem::take(&mut self.has_refusals) {
            return had;
        }
        self.settle();
        for record in self.routes.values_mut() {
            had |= record.covers_refused();
            record.flags &= !COVERS_REFUSED;
        }
        had
    }

    /// Returns the longest prefix with routes that equals or contains this prefix.
    pub(crate) fn covering(&self, prefix: RoutePrefix<A>) -> Option<RoutePrefix<A>> {
        (0..=prefix.len)
            .rev()
            .filter(|len| self.lengths[usize::from(*len)] > 0)
            .map(|len| RoutePrefix::around(prefix.start, len))
            .find(|around| self.first(*around).is_some())
    }

    /// The prefixes inside this prefix, in order. The prefix itself is not among them.
    pub(crate) fn inside(
        &self,
        prefix: RoutePrefix<A>,
    ) -> impl Iterator<Item = (RoutePrefix<A>, RouteRecord)> + '_ {
        // All prefixes that begin at the same address and are not longer come before `from`, so
        // they are left out.
        let from = RoutePrefix { start: prefix.start, len: prefix.len.saturating_add(1) };
        let to = RoutePrefix { start: prefix.last(), len: u8::MAX };
        let routes = self.routes.range(from..=to).map(|(prefix, record)| (*prefix, *record));
        routes.chain(self.appended_from(from).take_while(move |route| route.0 <= to))
    }

    fn appended_from(
        &self,
        from: RoutePrefix<A>,
    ) -> impl Iterator<Item = (RoutePrefix<A>, RouteRecord)> + '_ {
        let at = self.appended.partition_point(|route| route.0 < from);
        self.appended[at..].iter().copied()
    }

    /// All routes, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = (RoutePrefix<A>, RouteRecord)> + '_ {
        self.all_after(None)
    }

    /// All routes for prefixes after this one, in order.
    pub(crate) fn all_after(
        &self,
        prefix: Option<RoutePrefix<A>>,
    ) -> impl Iterator<Item = (RoutePrefix<A>, RouteRecord)> + '_ {
        let start = prefix.map_or(Bound::Unbounded, Bound::Excluded);
        let firsts = self.routes.range((start, Bound::Unbounded));
        let firsts = firsts.map(|(prefix, first)| (*prefix, *first));
        let appended = self.appended_from(prefix.unwrap_or(RoutePrefix::ALL));
        let appended = appended.filter(move |route| prefix != Some(route.0));
        firsts.chain(appended).flat_map(|(prefix, first)| {
            let others =
                if first.flags & HAS_OTHERS == 0 { None } else { self.others.get(&prefix) };
            let others = others.map_or(&[][..], Vec::as_slice).iter().copied();
            core::iter::once(first).chain(others).map(move |record| (prefix, record))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: u32, len: u8) -> RoutePrefix<u32> {
        RoutePrefix::around(text, len)
    }

    fn record(metric: u32) -> RouteRecord {
        RouteRecord::new(SpecId(0), metric, 0, 0, 1)
    }

    /// Returns a table with these routes, which are in the kernel's order, and the number of its
    /// appended routes.
    fn listed(routes: &[(u32, u8)]) -> (Rib<u32>, usize) {
        let mut rib = Rib::default();
        for (metric, (start, len)) in (0..).zip(routes) {
            let mention = rib.mention(prefix(*start, *len), record(metric), true);
            assert_eq!(mention, Mention::Inserted);
        }
        let appended = rib.appended.len();
        (rib, appended)
    }

    const KERNEL_ORDER: [(u32, u8); 6] = [
        (0x0a00_0000, 24),
        (0x0a00_0000, 16),
        (0x0a00_0000, 8),
        (0x0a00_0100, 24),
        (0x0b00_0000, 32),
        (0x0b00_0000, 30),
    ];

    #[test]
    fn routes_in_the_kernels_order_are_in_the_table_before_and_after_they_are_settled() {
        let (mut rib, appended) = listed(&KERNEL_ORDER);
        assert_eq!(appended, KERNEL_ORDER.len());
        for _ in 0..2 {
            for (metric, (start, len)) in (0..).zip(KERNEL_ORDER) {
                assert_eq!(rib.first(prefix(start, len)).unwrap().metric, metric);
            }
            let all: Vec<_> = rib.all().map(|(prefix, _)| prefix).collect();
            assert!(all.is_sorted() && all.len() == rib.len() && rib.len() == 6);
            assert_eq!(rib.all_after(Some(prefix(0x0a00_0000, 24))).count(), 3);
            assert_eq!(rib.inside(prefix(0x0a00_0000, 8)).count(), 3);
            assert_eq!(rib.covering(prefix(0x0a00_0001, 32)), Some(prefix(0x0a00_0000, 24)));
            assert_eq!(rib.first(prefix(0x0a00_0000, 9)), None);
            rib.settle();
            assert!(rib.appended.is_empty());
        }
    }

    #[test]
    fn a_route_that_is_not_the_last_settles_the_others_and_none_is_lost() {
        let (mut rib, _) = listed(&KERNEL_ORDER);
        assert_eq!(rib.mention(prefix(0x0a00_0100, 24), record(3), true), Mention::Known);
        assert!(rib.appended.is_empty());
        assert_eq!(rib.mention(prefix(0x0900_0000, 8), record(9), true), Mention::Inserted);
        assert_eq!(rib.mention(prefix(0x0c00_0000, 8), record(9), true), Mention::Inserted);
        assert_eq!(rib.set_list(prefix(0x0b00_0000, 30), &[]), None);
        assert_eq!(rib.set_list(prefix(0x0d00_0000, 8), &[record(1), record(2)]), None);
        assert_eq!(rib.list(prefix(0x0d00_0000, 8)).len(), 2);
        assert_eq!((rib.len(), rib.all().count()), (9, 9));
        assert_eq!(rib.covering(prefix(0x0b00_0001, 32)), None);
    }
}
