use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::entry::{LookupTable, TableError};
use super::key::TableKey;
use super::value::TableValue;
use crate::rule::ObjectName;
use crate::text::TableOptions;

/// All tables of a firewall, by set and name. A copy shares each table until either side changes
/// it.
#[derive(Clone, Debug)]
pub struct Tables {
    sets: BTreeMap<u8, BTreeMap<ObjectName, Arc<LookupTable>>>,
    last_index: u32,
    /// The key of the tables' hashes.
    secret: [u64; 2],
}

/// The result of `add` or `delete` for one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryChange {
    /// The outcome.
    pub result: EntryChangeResult,
    /// Whether the change was undone because another entry of an atomic change failed.
    pub reverted: bool,
    /// Key and value as in listings.
    pub row: String,
}

/// The outcome for one entry of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryChangeResult {
    /// The entry is new.
    Added,
    /// The entry's value changed.
    Updated,
    /// The entry was removed.
    Deleted,
    /// The entry already existed.
    Exists,
    /// The key did not exist.
    NotFound,
    /// The table was full.
    Limit,
    /// The entry's key or value is not valid for this table.
    Error,
    /// The entry was not tried, because an earlier entry failed.
    Ignored,
}

impl EntryChangeResult {
    /// The word for the outcome in listings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Exists => "exists",
            Self::NotFound => "notfound",
            Self::Limit => "limit",
            Self::Error => "error",
            Self::Ignored => "ignored",
        }
    }

    fn of(error: &TableError) -> Self {
        match error {
            TableError::Exists => Self::Exists,
            TableError::NotFound => Self::NotFound,
            TableError::Limit => Self::Limit,
            _ => Self::Error,
        }
    }
}

impl Tables {
    /// Builds a registry without tables. `secret` keys the hashes of all tables.
    #[must_use]
    pub const fn new(secret: [u64; 2]) -> Self {
        Self { sets: BTreeMap::new(), last_index: 0, secret }
    }

    /// Number of tables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sets.values().map(BTreeMap::len).sum()
    }

    /// Returns whether there are no tables.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the table with this name.
    #[must_use]
    pub fn get(&self, set: u8, name: &str) -> Option<&LookupTable> {
        self.sets.get(&set)?.get(name).map(|table| &**table)
    }

    /// Returns the table with this name, for changes.
    pub fn get_mut(&mut self, set: u8, name: &ObjectName) -> Option<&mut LookupTable> {
        self.shared_mut(set, name).map(Arc::make_mut)
    }

    fn shared_mut(&mut self, set: u8, name: &ObjectName) -> Option<&mut Arc<LookupTable>> {
        self.sets.get_mut(&set)?.get_mut(name)
    }

    /// Returns the table with this name, shared.
    #[must_use]
    pub fn shared(&self, set: u8, name: &ObjectName) -> Option<&Arc<LookupTable>> {
        self.sets.get(&set)?.get(name)
    }

    /// Restores full lookup speed after changes.
    pub fn settle(&mut self) {
        for table in self.sets.values_mut().flat_map(BTreeMap::values_mut) {
            if !table.is_settled() {
                Arc::make_mut(table).settle();
            }
        }
    }

    /// Creates a table; returns `false` if the name already exists.
    pub fn create(&mut self, set: u8, name: &ObjectName, options: TableOptions) -> bool {
        let tables = self.sets.entry(set).or_default();
        if tables.contains_key(name) {
            return false;
        }
        self.last_index += 1;
        let table = LookupTable::new(options, self.last_index, self.secret);
        tables.insert(name.clone(), Arc::new(table));
        true
    }

    /// Removes a table; returns `false` if the table does not exist.
    pub fn destroy(&mut self, set: u8, name: &ObjectName) -> bool {
        self.sets.get_mut(&set).is_some_and(|tables| tables.remove(name).is_some())
    }

    /// Swaps the contents of two tables, and their algorithms and masks, as in FreeBSD. Each table
    /// keeps its limit, its lock and its number.
    pub fn swap(&mut self, set: u8, one: &ObjectName, other: &ObjectName) {
        let Some(tables) = self.sets.get_mut(&set) else { return };
        if let (Some(mut a), Some(mut b)) = (tables.get(one).cloned(), tables.get(other).cloned()) {
            let (first, second) = (Arc::make_mut(&mut a), Arc::make_mut(&mut b));
            core::mem::swap(&mut first.index, &mut second.index);
            core::mem::swap(&mut first.options.limit, &mut second.options.limit);
            core::mem::swap(&mut first.options.locked, &mut second.options.locked);
            tables.insert(one.clone(), b);
            tables.insert(other.clone(), a);
        }
    }

    /// Returns all tables, sorted by name; names that are numbers are sorted by value.
    #[must_use]
    pub fn sorted(&self) -> Vec<(u8, &ObjectName, &LookupTable)> {
        let sets = self.sets.iter();
        let mut all: Vec<_> = sets
            .flat_map(|(set, tables)| tables.iter().map(|(name, table)| (*set, name, &**table)))
            .collect();
        all.sort_by_key(|(set, name, _)| {
            let number = name.as_str().parse::<u64>().ok();
            (number.is_none(), number, name.as_str(), *set)
        });
        all
    }

    /// Adds entries to a table. Returns the result of each, without rows ([`Self::rows_of`]), and
    /// one error: the first error other than an existing key, or else the first existing key. If
    /// the table does not exist or is locked, returns only the error.
    pub fn add(
        &mut self,
        at: (u8, &ObjectName),
        entries: &[(String, Option<String>)],
        update: bool,
        atomic: bool,
    ) -> (Vec<EntryChange>, Option<TableError>) {
        self.change(at, atomic, entries.len(), |table, index| {
            let (key, value) = parsed(&entries[index], &table.options)?;
            let old = table.insert(&key, value, update)?;
            Ok(if old.is_some() { EntryChangeResult::Updated } else { EntryChangeResult::Added })
        })
    }

    /// Fills in the rows of [`Self::add`]'s results. They are computed separately, because a
    /// command without output does not need them.
    pub fn rows_of(
        &self,
        (set, name): (u8, &ObjectName),
        entries: &[(String, Option<String>)],
        changes: &mut [EntryChange],
    ) {
        let Some(table) = self.get(set, name.as_str()) else { return };
        for (change, entry) in changes.iter_mut().zip(entries) {
            change.row = match parsed(entry, &table.options) {
                // The entry was not tried, so only its key is shown, as written.
                _ if change.result == EntryChangeResult::Ignored => entry.0.clone(),
                Ok((key, value)) => row(table, &key, &value),
                Err(_) => format!("{} {}", entry.0, entry.1.as_deref().unwrap_or("0")),
            };
        }
    }

    /// Removes entries from a table. Returns the result of each, and one error: the first error
    /// other than a missing key, or else the first missing key. If the table does not exist or is
    /// locked, returns only the error.
    pub fn remove(
        &mut self,
        at: (u8, &ObjectName),
        keys: &[String],
        atomic: bool,
    ) -> (Vec<EntryChange>, Option<TableError>) {
        let mut rows = Vec::with_capacity(keys.len());
        let (mut changes, error) = self.change(at, atomic, keys.len(), |table, index| {
            let key = TableKey::parse(&keys[index], table.options.kind);
            let key = key.inspect_err(|_| rows.push(format!("{} 0", keys[index])))?;
            let removed = table.remove(&key);
            rows.push(row(table, &key, removed.as_ref().unwrap_or(&TableValue::default())));
            removed.map(|_| EntryChangeResult::Deleted)
        });
        // Entries that were not tried are shown as written.
        let rows = rows.iter().chain(keys.get(rows.len()..).unwrap_or_default());
        changes.iter_mut().zip(rows).for_each(|(change, row)| change.row.clone_from(row));
        (changes, error)
    }

    fn change(
        &mut self,
        (set, name): (u8, &ObjectName),
        atomic: bool,
        count: usize,
        mut one: impl FnMut(&mut LookupTable, usize) -> Result<EntryChangeResult, TableError>,
    ) -> (Vec<EntryChange>, Option<TableError>) {
        let Some(shared) = self.shared_mut(set, name) else {
            return (Vec::new(), Some(TableError::NotFound));
        };
        if shared.options.locked {
            return (Vec::new(), Some(TableError::Locked));
        }
        // Only an atomic change needs this copy, to restore the table after an error.
        let before = atomic.then(|| Arc::clone(shared));
        let table = Arc::make_mut(shared);
        let (mut changes, mut first_error) = (Vec::with_capacity(count), None::<TableError>);
        for index in 0..count {
            let result = if atomic && first_error.is_some() {
                EntryChangeResult::Ignored
            } else {
                one(table, index).unwrap_or_else(|error| {
                    let result = EntryChangeResult::of(&error);
                    // Another error takes precedence over an existing or missing key.
                    match &first_error {
                        Some(first) if !first.is_harmless() || error.is_harmless() => {}
                        _ => first_error = Some(error),
                    }
                    result
                })
            };
            changes.push(EntryChange { result, reverted: false, row: String::new() });
        }
        if let (Some(before), Some(_)) = (before, &first_error) {
            *shared = before;
            let done = |change: &&mut EntryChange| {
                use EntryChangeResult as R;
                matches!(change.result, R::Added | R::Updated | R::Deleted)
            };
            changes.iter_mut().filter(done).for_each(|change| change.reverted = true);
        }
        (changes, first_error)
    }
}

fn parsed(
    (key, value): &(String, Option<String>),
    options: &TableOptions,
) -> Result<(TableKey, TableValue), TableError> {
    let key = TableKey::for_table(key, options)?;
    let value = value.as_deref().map(|text| TableValue::parse(text, options.values));
    Ok((key, value.transpose()?.unwrap_or_default()))
}

fn row(table: &LookupTable, key: &TableKey, value: &TableValue) -> String {
    let options = &table.options;
    format!("{} {}", key.display(options.kind), value.display(options.values, false))
}
