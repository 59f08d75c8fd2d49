//! One routing table: all routes of all metrics, ordered by prefix.
//!
//! ```text
//!   routes:  prefix --> the first route, 12 bytes     a sweep in order meets each prefix before
//!   others:  prefix --> the routes after it           those inside it
//! ```
//!
//! Routes for one prefix are in the order in which the kernel tries them: the greatest TOS first,
//! then the lowest metric; equals as the kernel has them.

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
    /// The dump, or the change since its start, that has mentioned the route last.
    pub mark: u8,
    flags: u8,
}

/// Of the first route of a prefix: there are entries in `others`.
const HAS_OTHERS: u8 = 1;
/// Of the first route of a prefix: a route inside the prefix was refused for lack of space.
const COVERS_REFUSED: u8 = 2;

impl RouteRecord {
    pub(crate) const fn new(spec: SpecId, metric: u32, protocol: u8, tos: u8, mark: u8) -> Self {
        Self { spec, metric, protocol, tos, mark, flags: 0 }
    }

    /// Whether a refused route is inside the prefix; only of a prefix's first route.
    pub(crate) const fn covers_refused(self) -> bool {
        self.flags & COVERS_REFUSED != 0
    }

    /// What the kernel orders the routes of a prefix by.
    pub(crate) const fn key(self) -> (u8, u32) {
        (u8::MAX - self.tos, self.metric)
    }
}

/// A routing table of one family.
#[derive(Debug)]
pub(crate) struct Rib<A> {
    routes: BTreeMap<RoutePrefix<A>, RouteRecord>,
    others: BTreeMap<RoutePrefix<A>, Vec<RouteRecord>>,
    /// The number of prefixes by their length, so that a search skips absent lengths.
    lengths: [u32; 129],
    /// The number of all routes.
    len: usize,
    /// Whether a refused route is inside no prefix of the table.
    pub has_uncovered_refusal: bool,
    /// Whether any route was refused. Without that, an insertion need not look for a prefix around
    /// the new one.
    has_refusals: bool,
}

/// What [`Rib::mention`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mention {
    /// The route was the prefix's only one.
    Known,
    /// The prefix had no route.
    Inserted,
    /// Nothing: the prefix has other routes, or may not be inserted.
    Open,
}

impl<A: AddressBits> Default for Rib<A> {
    fn default() -> Self {
        Self {
            routes: BTreeMap::new(),
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
        self.routes.get(&prefix).copied()
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

    /// Handles the usual case of a dump with one search: if the only route of the prefix is the same
    /// as `record`, notes that it was mentioned; if there is none and `may_insert`, adds it.
    pub(crate) fn mention(
        &mut self,
        prefix: RoutePrefix<A>,
        record: RouteRecord,
        may_insert: bool,
    ) -> Mention {
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

    /// Sets the routes of a prefix; without routes, the prefix is removed. Returns the prefix around
    /// it that takes over the note of a refused route, if there is one.
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
        let removed = self.routes.remove(&prefix);
        self.others.remove(&prefix);
        self.lengths[usize::from(prefix.len)] -= 1;
        removed.is_some_and(RouteRecord::covers_refused).then(|| self.refuse(prefix))
    }

    /// Notes that a route inside the prefix, or for it, is not in the table. Returns the prefix
    /// whose meaning changes by that: the longest around it that has a route, or all.
    pub(crate) fn refuse(&mut self, prefix: RoutePrefix<A>) -> RoutePrefix<A> {
        self.has_refusals = true;
        let covering = self.covering(prefix);
        match covering.and_then(|covering| self.routes.get_mut(&covering)) {
            Some(record) => record.flags |= COVERS_REFUSED,
            None => self.has_uncovered_refusal = true,
        }
        covering.unwrap_or(RoutePrefix::ALL)
    }

    /// A new prefix may be around a route that was refused inside the prefix that covers both.
    fn inherits_refusal(&self, prefix: RoutePrefix<A>) -> bool {
        if !self.has_refusals {
            return false;
        }
        match self.covering(prefix).and_then(|covering| self.first(covering)) {
            Some(record) => record.covers_refused(),
            None => self.has_uncovered_refusal,
        }
    }

    /// Forgets the refusals, after all routes have found space. Returns whether there were any.
    pub(crate) fn forget_refusals(&mut self) -> bool {
        let mut had = core::mem::take(&mut self.has_uncovered_refusal);
        if !core::mem::take(&mut self.has_refusals) {
            return had;
        }
        for record in self.routes.values_mut() {
            had |= record.covers_refused();
            record.flags &= !COVERS_REFUSED;
        }
        had
    }

    /// The longest prefix with routes around this one, which may be itself.
    pub(crate) fn covering(&self, prefix: RoutePrefix<A>) -> Option<RoutePrefix<A>> {
        (0..=prefix.len)
            .rev()
            .filter(|len| self.lengths[usize::from(*len)] > 0)
            .map(|len| RoutePrefix::around(prefix.start, len))
            .find(|around| self.routes.contains_key(around))
    }

    /// The prefixes inside this one, without itself, in order.
    pub(crate) fn inside(
        &self,
        prefix: RoutePrefix<A>,
    ) -> impl Iterator<Item = (RoutePrefix<A>, RouteRecord)> + '_ {
        // The prefixes that begin at the same address and are not longer sort before `from`.
        let from = RoutePrefix { start: prefix.start, len: prefix.len.saturating_add(1) };
        let to = RoutePrefix { start: prefix.last(), len: u8::MAX };
        self.routes.range(from..=to).map(|(prefix, record)| (*prefix, *record))
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
        firsts.flat_map(|(&prefix, &first)| {
            let others =
                if first.flags & HAS_OTHERS == 0 { None } else { self.others.get(&prefix) };
            let others = others.map_or(&[][..], Vec::as_slice).iter().copied();
            core::iter::once(first).chain(others).map(move |record| (prefix, record))
        })
    }
}
