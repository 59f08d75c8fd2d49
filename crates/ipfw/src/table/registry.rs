use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::entry::{Table, TableError};
use super::key::Key;
use super::value::Value;
use crate::rule::Name;
use crate::text::TableOptions;

/// All tables of a firewall, by set and name. A copy shares every table that neither changes.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    sets: BTreeMap<u8, BTreeMap<Name, Arc<Table>>>,
    last_index: u32,
}

/// What became of one entry of `add` or `delete`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What became of it.
    pub result: ChangeResult,
    /// It was undone, since another entry of an atomic change failed.
    pub reverted: bool,
    /// Key and value as listings show them.
    pub row: String,
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeResult {
    /// It is new.
    Added,
    /// Its value changed.
    Updated,
    /// It is gone.
    Deleted,
    /// It was there already.
    Exists,
    /// It was not there.
    NotFound,
    /// There was no room.
    Limit,
    /// Its key or value is none of this table.
    Error,
    /// An earlier one failed, so it was not tried.
    Ignored,
}

impl ChangeResult {
    /// The word in the listing.
    #[must_use]
    pub const fn word(self) -> &'static str {
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
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sets.values().map(BTreeMap::len).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The table of a name.
    #[must_use]
    pub fn get(&self, set: u8, name: &str) -> Option<&Table> {
        self.sets.get(&set)?.get(name).map(|table| &**table)
    }

    /// The table of a name, to be changed.
    pub fn get_mut(&mut self, set: u8, name: &Name) -> Option<&mut Table> {
        self.shared_mut(set, name).map(Arc::make_mut)
    }

    fn shared_mut(&mut self, set: u8, name: &Name) -> Option<&mut Arc<Table>> {
        self.sets.get_mut(&set)?.get_mut(name)
    }

    /// The table of a name, shared.
    #[must_use]
    pub fn shared(&self, set: u8, name: &Name) -> Option<&Arc<Table>> {
        self.sets.get(&set)?.get(name)
    }

    /// Makes lookups fast again after changes.
    pub fn settle(&mut self) {
        for table in self.sets.values_mut().flat_map(BTreeMap::values_mut) {
            if !table.is_settled() {
                Arc::make_mut(table).settle();
            }
        }
    }

    /// Makes a table; `false` if there is one of that name.
    pub fn create(&mut self, set: u8, name: &Name, options: TableOptions) -> bool {
        let tables = self.sets.entry(set).or_default();
        if tables.contains_key(name) {
            return false;
        }
        self.last_index += 1;
        tables.insert(name.clone(), Arc::new(Table::new(options, self.last_index)));
        true
    }

    /// Removes a table; `false` if there is none.
    pub fn destroy(&mut self, set: u8, name: &Name) -> bool {
        self.sets.get_mut(&set).is_some_and(|tables| tables.remove(name).is_some())
    }

    /// Two tables change places.
    pub fn swap(&mut self, set: u8, one: &Name, other: &Name) {
        let Some(tables) = self.sets.get_mut(&set) else { return };
        if let (Some(a), Some(b)) = (tables.get(one).cloned(), tables.get(other).cloned()) {
            tables.insert(one.clone(), b);
            tables.insert(other.clone(), a);
        }
    }

    /// All tables, sorted by name; numbers sort as numbers.
    #[must_use]
    pub fn sorted(&self) -> Vec<(u8, &Name, &Table)> {
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

    /// Puts entries into a table. Returns what became of each, without rows
    /// ([`Self::rows_of`]), and the first error.
    pub fn add(
        &mut self,
        at: (u8, &Name),
        entries: &[(String, Option<String>)],
        update: bool,
        atomic: bool,
    ) -> (Vec<Change>, Option<TableError>) {
        self.change(at, atomic, entries.len(), |table, index| {
            let (key, value) = parsed(&entries[index], &table.options)?;
            let old = table.insert(&key, value, update)?;
            Ok(if old.is_some() { ChangeResult::Updated } else { ChangeResult::Added })
        })
    }

    /// Gives the changes of [`Self::add`] their rows: a file of many entries is spared them.
    pub fn rows_of(
        &self,
        (set, name): (u8, &Name),
        entries: &[(String, Option<String>)],
        changes: &mut [Change],
    ) {
        let Some(table) = self.get(set, name.as_str()) else { return };
        for (change, entry) in changes.iter_mut().zip(entries) {
            change.row = match parsed(entry, &table.options) {
                // Shown as it was written: it was not tried on the table.
                _ if change.result == ChangeResult::Ignored => entry.0.clone(),
                Ok((key, value)) => row(table, &key, &value),
                Err(_) => format!("{} {}", entry.0, entry.1.as_deref().unwrap_or("0")),
            };
        }
    }

    /// Takes entries out of a table. Returns what became of each, and the first error.
    pub fn remove(
        &mut self,
        at: (u8, &Name),
        keys: &[String],
        atomic: bool,
    ) -> (Vec<Change>, Option<TableError>) {
        let mut rows = Vec::with_capacity(keys.len());
        let (mut changes, error) = self.change(at, atomic, keys.len(), |table, index| {
            let key = Key::parse(&keys[index], table.options.kind);
            let key = key.inspect_err(|_| rows.push(format!("{} 0", keys[index])))?;
            let removed = table.remove(&key);
            rows.push(row(table, &key, removed.as_ref().unwrap_or(&Value::default())));
            removed.map(|_| ChangeResult::Deleted)
        });
        // Those that were not tried are shown as they were written.
        let rows = rows.iter().chain(keys.get(rows.len()..).unwrap_or_default());
        changes.iter_mut().zip(rows).for_each(|(change, row)| change.row.clone_from(row));
        (changes, error)
    }

    fn change(
        &mut self,
        (set, name): (u8, &Name),
        atomic: bool,
        count: usize,
        mut one: impl FnMut(&mut Table, usize) -> Result<ChangeResult, TableError>,
    ) -> (Vec<Change>, Option<TableError>) {
        let Some(shared) = self.shared_mut(set, name) else {
            return (Vec::new(), Some(TableError::NotFound));
        };
        if shared.options.locked {
            return (Vec::new(), Some(TableError::Locked));
        }
        // The copy is what an atomic change falls back to; a plain one needs none.
        let before = atomic.then(|| Arc::clone(shared));
        let table = Arc::make_mut(shared);
        let (mut changes, mut first_error) = (Vec::with_capacity(count), None);
        for index in 0..count {
            let result = if atomic && first_error.is_some() {
                ChangeResult::Ignored
            } else {
                one(table, index).unwrap_or_else(|error| {
                    let result = ChangeResult::of(&error);
                    first_error.get_or_insert(error);
                    result
                })
            };
            changes.push(Change { result, reverted: false, row: String::new() });
        }
        if let (Some(before), Some(_)) = (before, &first_error) {
            *shared = before;
            let done = |change: &&mut Change| {
                use ChangeResult as R;
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
) -> Result<(Key, Value), TableError> {
    let key = Key::for_table(key, options)?;
    let value = value.as_deref().map(|text| Value::parse(text, options.values));
    Ok((key, value.transpose()?.unwrap_or_default()))
}

fn row(table: &Table, key: &Key, value: &Value) -> String {
    let options = &table.options;
    format!("{} {}", key.shown(options.kind), value.shown(options.values, false))
}
