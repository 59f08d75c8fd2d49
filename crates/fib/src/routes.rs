//! The mirrored routing tables of one family, and how messages change them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use slipring_rtnetlink::{HeaderFlags, RouteFamily, RouteMessage};

use crate::dirty::DirtyPrefixes;
use crate::mirrored::Origin;
use crate::placement::{Insertion, Removal, find_removed, place};
use crate::prefix::{AddressBits, RoutePrefix};
use crate::purges::Purge;
use crate::rib::{Mention, Rib, RouteRecord};
use crate::specs::{RouteSpec, SpecId, Specs};

/// The table of destinations that are never forwarded. It does not exist in the kernel.
pub(crate) const RESERVED_TABLE: u32 = 0;
/// Maximum number of changed prefixes, and of deleted routes, that are remembered during a dump. If
/// it is reached, another dump is needed.
const MAX_NOTED: usize = 1 << 16;

/// The complete key of a route: table, prefix, TOS and metric, spec.
type RouteKey<A> = (u32, RoutePrefix<A>, (u8, u32), SpecId);

/// The mirrored tables of a family.
#[derive(Debug)]
pub(crate) struct RouteTables<A> {
    pub ribs: BTreeMap<u32, Rib<A>>,
    family: RouteFamily,
    /// Prefixes whose lookups have changed since the last publication, by table.
    pub dirty: DirtyPrefixes<A>,
    /// The number of the running dump, or of the last one.
    mark: u8,
    is_dumping: bool,
    /// Prefixes of routes that notifications have changed since the dump's start.
    touched: BTreeSet<(u32, RoutePrefix<A>)>,
    /// Routes that notifications have deleted or replaced since the dump's start. Each holds a use
    /// of its spec.
    deleted: BTreeSet<RouteKey<A>>,
    /// Reasons for silent removals of routes since the dump's start. The dump may still contain
    /// these routes.
    purges: Vec<Purge>,
    /// Number of routes for which there was no space, counted from the start of the last dump.
    pub refused: u64,
}

/// The result of a message, in addition to the changed tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteOutcome {
    /// Whether the tables may differ from the kernel's now, so that they must be dumped.
    pub is_doubtful: bool,
    /// Whether there was no space for the route.
    pub is_refused: bool,
}

impl<A: AddressBits> RouteTables<A> {
    pub(crate) const fn new(family: RouteFamily) -> Self {
        Self {
            ribs: BTreeMap::new(),
            family,
            dirty: DirtyPrefixes::all(),
            mark: 0,
            is_dumping: false,
            touched: BTreeSet::new(),
            deleted: BTreeSet::new(),
            purges: Vec::new(),
            refused: 0,
        }
    }

    /// Selects the tables to mirror. Returns whether some of them are new.
    pub(crate) fn set_tables(&mut self, tables: &[u32], specs: &mut Specs) -> bool {
        let gone: Vec<u32> =
            self.ribs.keys().copied().filter(|table| !tables.contains(table)).collect();
        for rib in gone.iter().filter_map(|table| self.ribs.remove(table)) {
            rib.all().for_each(|(_, record)| specs.release(record.spec));
        }
        let before = self.ribs.len();
        for table in tables {
            self.ribs.entry(*table).or_default();
        }
        self.ribs.len() > before
    }

    /// The number of routes, without those of the reserved table.
    pub(crate) fn len(&self) -> usize {
        self.ribs
            .iter()
            .filter(|(table, _)| **table != RESERVED_TABLE)
            .map(|(_, rib)| rib.len())
            .sum()
    }

    /// Adds a route. `has_space` is true if one more route may be stored.
    pub(crate) fn add(
        &mut self,
        specs: &mut Specs,
        route: &RouteMessage<'_>,
        flags: HeaderFlags,
        origin: Origin,
        has_space: bool,
    ) -> RouteOutcome {
        let Some((table, prefix)) = self.place_of(route) else { return RouteOutcome::default() };
        let spec = self.acquire(specs, RouteSpec::of(route), origin);
        let record = RouteRecord::new(spec, route.metric, route.protocol, route.tos, self.mark);
        let how = insertion(flags, origin);
        if self.was_deleted(specs, (table, prefix, record.key(), spec), how) {
            specs.release(spec);
            return RouteOutcome::default();
        }
        let Some(rib) = self.ribs.get_mut(&table) else { return RouteOutcome::default() };
        let is_plain = how == Insertion::Add || how == Insertion::Dump;
        match rib.mention(prefix, record, has_space && (is_plain || !self.is_dumping)) {
            Mention::Known => {
                specs.release(spec);
                return RouteOutcome::default();
            }
            Mention::Inserted => {
                self.dirty.add(table, prefix);
                if origin == Origin::Notification {
                    self.touch(table, prefix);
                }
                return RouteOutcome::default();
            }
            Mention::Open => {}
        }
        let mut list = rib.list(prefix);
        let len = list.len();
        let result = place(&mut list, record, how, self.family, specs);
        if result.is_superseded {
            specs.release(spec);
            let is_doubtful = result.is_doubtful && self.touched.contains(&(table, prefix));
            return RouteOutcome { is_doubtful, is_refused: false };
        }
        if list.len() > len && !has_space && result.removed.is_empty() {
            specs.release(spec);
            let changed = rib.refuse(prefix);
            self.dirty.add(table, changed);
            self.refused += 1;
            return RouteOutcome { is_refused: true, is_doubtful: false };
        }
        let heir = rib.set_list(prefix, &list);
        self.dirty.add(table, heir.unwrap_or(prefix));
        let is_notification = origin == Origin::Notification;
        for removed in result.removed {
            self.forget(specs, (table, prefix, removed.key(), removed.spec), is_notification);
        }
        let may_differ = is_notification || self.touched.contains(&(table, prefix));
        let is_doubtful =
            result.is_doubtful && may_differ || result.is_unexplained && self.is_dumping;
        if is_notification {
            self.touch(table, prefix);
        }
        RouteOutcome { is_doubtful, is_refused: false }
    }

    fn acquire(&self, specs: &mut Specs, spec: RouteSpec, origin: Origin) -> SpecId {
        if origin == Origin::Dump && self.purges.iter().any(|purge| purge.concerns(&spec)) {
            return specs.acquire_purged(spec);
        }
        specs.acquire(spec)
    }

    /// Records that the kernel has removed routes without a notification.
    pub(crate) fn note_purge(&mut self, purge: &Purge) {
        if self.is_dumping && !self.purges.contains(purge) {
            self.purges.push(purge.clone());
        }
    }

    /// Records that a notification has changed the routes for a prefix.
    fn touch(&mut self, table: u32, prefix: RoutePrefix<A>) {
        if self.is_dumping && self.touched.len() < MAX_NOTED {
            self.touched.insert((table, prefix));
        }
    }

    /// Removes a route that a notification reports as deleted.
    pub(crate) fn delete(&mut self, specs: &mut Specs, route: &RouteMessage<'_>) -> RouteOutcome {
        let Some((table, prefix)) = self.place_of(route) else { return RouteOutcome::default() };
        let Some(rib) = self.ribs.get_mut(&table) else { return RouteOutcome::default() };
        let (deleted, mut list) = (RouteSpec::of(route), rib.list(prefix));
        let key = (u8::MAX - route.tos, route.metric);
        let mut is_doubtful = false;
        let removed = match find_removed(&list, key, &deleted, self.family, specs) {
            Removal::Whole(at) => list.remove(at),
            Removal::Part(at, rest) => {
                // A running dump may have listed this route before or after the deletion. So the
                // route in the mirror may have more next hops than the kernel's route had.
                is_doubtful = self.is_dumping;
                let spec = specs.acquire(rest);
                let record = RouteRecord::new(
                    spec,
                    list[at].metric,
                    list[at].protocol,
                    list[at].tos,
                    self.mark,
                );
                core::mem::replace(&mut list[at], record)
            }
            // The mirror does not contain the route. If routes were refused for lack of space, it
            // may be one of them.
            Removal::Unknown => {
                // A running dump may contain the route as part of a route with several next hops.
                // The mirror may then differ from the kernel's table.
                let may_be_part = self.is_dumping && self.family == RouteFamily::V6;
                let is_doubtful = may_be_part || !list.is_empty() && self.refused == 0;
                self.note_unknown(specs, (table, prefix, key), deleted);
                return RouteOutcome { is_doubtful, is_refused: false };
            }
        };
        let heir = rib.set_list(prefix, &list);
        self.dirty.add(table, heir.unwrap_or(prefix));
        self.touch(table, prefix);
        self.forget(specs, (table, prefix, key, removed.spec), true);
        RouteOutcome { is_doubtful, is_refused: false }
    }

    /// Records the deletion of an unknown route, because a running dump may still contain it.
    fn note_unknown(
        &mut self,
        specs: &mut Specs,
        route: (u32, RoutePrefix<A>, (u8, u32)),
        spec: RouteSpec,
    ) {
        if self.is_dumping {
            let spec = specs.acquire(spec);
            self.forget(specs, (route.0, route.1, route.2, spec), true);
        }
    }

    /// The table and the prefix of a route; `None` if the route is not mirrored.
    fn place_of(&self, route: &RouteMessage<'_>) -> Option<(u32, RoutePrefix<A>)> {
        let is_mirrored = route.table != RESERVED_TABLE && self.ribs.contains_key(&route.table);
        let address = A::of(route.destination).filter(|_| is_mirrored && !route.is_cached)?;
        Some((route.table, RoutePrefix::around(address, route.prefix_len)))
    }

    /// Whether a message of a dump is about a route that a notification has deleted. A later
    /// notification about the route ends this state.
    fn was_deleted(&mut self, specs: &mut Specs, key: RouteKey<A>, how: Insertion) -> bool {
        if self.deleted.is_empty() {
            return false;
        }
        if how == Insertion::Dump {
            return self.deleted.contains(&key);
        }
        if self.deleted.remove(&key) {
            specs.release(key.3);
        }
        false
    }

    /// Releases the removed route's use of its spec, or keeps the use for the record of the
    /// deletion.
    fn forget(&mut self, specs: &mut Specs, key: RouteKey<A>, is_notification: bool) {
        let is_noted = is_notification && self.is_dumping && self.deleted.len() < MAX_NOTED;
        if !is_noted || !self.deleted.insert(key) {
            specs.release(key.3);
        }
    }

    /// Whether more has changed since the start of the dump than can be remembered, so that another
    /// dump is needed.
    pub(crate) fn has_lost_changes(&self) -> bool {
        self.deleted.len() >= MAX_NOTED || self.touched.len() >= MAX_NOTED
    }

    pub(crate) fn begin_dump(&mut self, specs: &mut Specs) {
        self.clear_deleted(specs);
        self.purges.clear();
        self.mark = next_mark(self.mark);
        self.is_dumping = true;
        self.touched.clear();
        self.refused = 0;
    }

    /// Ends the dump. If it was complete, removes the routes that it did not contain. Returns their
    /// number.
    pub(crate) fn end_dump(&mut self, specs: &mut Specs, is_complete: bool) -> usize {
        self.is_dumping = false;
        self.clear_deleted(specs);
        if !is_complete {
            return 0;
        }
        let mut removed = 0;
        let (mark, refused) = (self.mark, self.refused);
        for (table, rib) in self.ribs.iter_mut().filter(|(table, _)| **table != RESERVED_TABLE) {
            rib.settle();
            if refused == 0 && rib.forget_refusals() {
                self.dirty.add(*table, RoutePrefix::ALL);
            }
            let stale: Vec<_> = rib.all().filter(|(_, record)| record.mark != mark).collect();
            removed += stale.len();
            for chunk in stale.chunk_by(|a, b| a.0 == b.0) {
                let prefix = chunk[0].0;
                let mut list = rib.list(prefix);
                list.retain(|record| record.mark == mark);
                let heir = rib.set_list(prefix, &list);
                self.dirty.add(*table, heir.unwrap_or(prefix));
                chunk.iter().for_each(|(_, record)| specs.release(record.spec));
            }
        }
        removed
    }

    fn clear_deleted(&mut self, specs: &mut Specs) {
        for key in core::mem::take(&mut self.deleted) {
            specs.release(key.3);
        }
    }
}

/// The counts of a verification, and the mark of its dump.
#[derive(Debug)]
pub(crate) struct RouteCheck<A> {
    mark: u8,
    /// The last table and prefix whose unmentioned routes were counted.
    counted: Option<(u32, RoutePrefix<A>)>,
    pub checked: u64,
    pub missing: u64,
    pub different: u64,
    pub extra: u64,
}

impl<A: AddressBits> RouteTables<A> {
    /// Begins a verification, and returns its counts, which are 0. The verification's dump gets a
    /// new mark, like any other dump.
    pub(crate) const fn begin_check(&mut self) -> RouteCheck<A> {
        self.mark = next_mark(self.mark);
        let mark = self.mark;
        RouteCheck { mark, counted: None, checked: 0, missing: 0, different: 0, extra: 0 }
    }

    /// Compares a route of the verification's dump with the mirror.
    pub(crate) fn check(
        &mut self,
        check: &mut RouteCheck<A>,
        specs: &Specs,
        route: &RouteMessage<'_>,
    ) {
        let Some((table, prefix)) = self.place_of(route) else { return };
        let Some(rib) = self.ribs.get_mut(&table) else { return };
        check.checked += 1;
        let (spec, key) = (RouteSpec::of(route), (u8::MAX - route.tos, route.metric));
        let mut list = rib.list(prefix);
        let says = |record: &RouteRecord| {
            specs.get(record.spec).is_some_and(|state| !state.is_purged && state.spec == spec)
        };
        let exact = list.iter().position(|record| record.key() == key && says(record));
        let Some(at) = exact.or_else(|| list.iter().position(|record| record.key() == key)) else {
            check.missing += 1;
            return;
        };
        check.different += u64::from(exact.is_none());
        list[at].mark = check.mark;
        rib.set_list(prefix, &list);
    }

    /// Among about `limit` further routes, counts those that the dump of a verification did not
    /// contain. Returns whether there are more routes.
    pub(crate) fn count_unmentioned(&self, check: &mut RouteCheck<A>, limit: usize) -> bool {
        let counted = check.counted;
        let first = counted.map_or(RESERVED_TABLE + 1, |counted| counted.0);
        let records = self.ribs.range(first..).flat_map(|(table, rib)| {
            let after = counted.filter(|counted| counted.0 == *table).map(|counted| counted.1);
            rib.all_after(after).map(move |(prefix, record)| ((*table, prefix), record))
        });
        for (at, (place, record)) in records.enumerate() {
            // All routes for a prefix are counted in the same call.
            if at >= limit && check.counted != Some(place) {
                return true;
            }
            check.counted = Some(place);
            check.extra += u64::from(record.mark != check.mark);
        }
        false
    }

    /// Whether the tables of `chain` together have more than `limit` prefixes inside `prefix`.
    pub(crate) fn has_more_inside(
        &self,
        chain: &[u32],
        prefix: RoutePrefix<A>,
        limit: usize,
    ) -> bool {
        let ribs = chain.iter().filter_map(|table| self.ribs.get(table));
        ribs.flat_map(|rib| rib.inside(prefix)).take(limit + 1).count() > limit
    }
}

/// Returns the mark after `mark`. It is never 0, because the mark 0 is that of routes from before
/// the first dump, and of the reserved table.
const fn next_mark(mark: u8) -> u8 {
    match mark.checked_add(1) {
        Some(next) => next,
        None => 1,
    }
}

const fn insertion(flags: HeaderFlags, origin: Origin) -> Insertion {
    match origin {
        Origin::Dump => Insertion::Dump,
        Origin::Notification if flags.has(HeaderFlags::REPLACE) => Insertion::Replace,
        Origin::Notification if flags.has(HeaderFlags::APPEND) => Insertion::Append,
        Origin::Notification => Insertion::Add,
    }
}
