//! Prefixes whose lookups have changed since the last publication.

use alloc::vec::Vec;

use crate::prefix::{AddressBits, RoutePrefix};

/// Maximum number of remembered prefixes. If more have changed, all addresses are written, which
/// then takes no more time.
const MAX_PREFIXES: usize = 1 << 16;

/// Changed prefixes, by table.
#[derive(Debug)]
pub(crate) struct DirtyPrefixes<A> {
    prefixes: Vec<(u32, RoutePrefix<A>)>,
    is_all: bool,
}

impl<A: AddressBits> DirtyPrefixes<A> {
    /// Starts in a state in which all addresses count as changed.
    pub(crate) const fn all() -> Self {
        Self { prefixes: Vec::new(), is_all: true }
    }

    pub(crate) fn add(&mut self, table: u32, prefix: RoutePrefix<A>) {
        if self.is_all {
            return;
        }
        if self.prefixes.len() >= MAX_PREFIXES {
            self.add_all();
            return;
        }
        self.prefixes.push((table, prefix));
    }

    pub(crate) fn add_all(&mut self) {
        self.is_all = true;
        self.prefixes = Vec::new();
    }

    pub(crate) fn clear(&mut self) {
        self.is_all = false;
        self.prefixes.clear();
    }

    /// Returns the changed prefixes of some tables, together with `others`, in ascending order.
    /// Prefixes inside another one are left out.
    pub(crate) fn of(
        &self,
        tables: &[u32],
        others: impl Iterator<Item = RoutePrefix<A>>,
    ) -> Vec<RoutePrefix<A>> {
        if self.is_all {
            return alloc::vec![RoutePrefix::ALL];
        }
        let changed = self.prefixes.iter().filter(|dirty| tables.contains(&dirty.0));
        let mut prefixes: Vec<_> = changed.map(|dirty| dirty.1).chain(others).collect();
        prefixes.sort_unstable();
        let mut outer: Option<RoutePrefix<A>> = None;
        prefixes.retain(|prefix| {
            let is_inside = outer.is_some_and(|outer| outer.contains(prefix.start));
            outer = outer.filter(|_| is_inside).or(Some(*prefix));
            !is_inside
        });
        prefixes
    }
}
