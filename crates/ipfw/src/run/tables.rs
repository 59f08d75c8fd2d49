//! Table commands.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::changes::{CommandError, CommandFlags};
use super::engine::Firewall;
use crate::rule::{AddressPattern, Condition, InterfacePattern, LookupKey, ObjectName, Rule};
use crate::table::{EntryChange, FlowFields, LookupTable, TableError, TableKey, TableKind};
use crate::text::{TableCommand, TableOptions, TableScope, TableVerb};

impl Firewall {
    pub(super) fn table(
        &mut self,
        command: &TableCommand,
        flags: CommandFlags,
    ) -> Result<String, CommandError> {
        let set = self.config.table_set(command.set);
        match &command.scope {
            TableScope::One(name) => self.one_table((set, name), &command.verb, flags),
            TableScope::All => {
                let names: Vec<_> = self
                    .config
                    .tables
                    .sorted()
                    .iter()
                    .map(|(set, name, _)| (*set, (*name).clone()))
                    .collect();
                let mut text = String::new();
                for (set, name) in &names {
                    text.push_str(&self.one_table((*set, name), &command.verb, flags)?);
                }
                Ok(text)
            }
        }
    }

    fn one_table(
        &mut self,
        at: (u8, &ObjectName),
        verb: &TableVerb,
        flags: CommandFlags,
    ) -> Result<String, CommandError> {
        match verb {
            TableVerb::Create(options) => self.create(at, options).map(|()| String::new()),
            TableVerb::Add { atomic, entries } => {
                let notice = self.create_for(at, &entries[0].0)?;
                let tables = &mut self.config.tables;
                let (mut changes, error) = tables.add(at, entries, flags.quiet, *atomic);
                if is_silent(error.as_ref(), flags) {
                    return Ok(String::new());
                }
                tables.rows_of(at, entries, &mut changes);
                changed(notice, &changes, error, "Adding record failed")
            }
            TableVerb::Delete { atomic, keys } => {
                self.existing(at)?;
                let (changes, error) = self.config.tables.remove(at, keys, *atomic);
                if is_silent(error.as_ref(), flags) {
                    return Ok(String::new());
                }
                changed(String::new(), &changes, error, "Deleting record failed")
            }
            TableVerb::Destroy => self.destroy(at).map(|()| String::new()),
            TableVerb::Swap(other) => self.swap(at, other).map(|()| String::new()),
            TableVerb::Modify { limit } => self.change(at, |table| table.options.limit = *limit),
            TableVerb::Lock => self.change(at, |table| table.options.locked = true),
            TableVerb::Unlock => self.change(at, |table| table.options.locked = false),
            TableVerb::Flush => {
                if self.existing(at)?.options.locked {
                    return Err(CommandError::system("failed to flush table: table is locked"));
                }
                self.change(at, LookupTable::clear)
            }
            TableVerb::Lookup(key) => self.lookup(at, key, flags),
            TableVerb::List => {
                let table = self.existing(at)?;
                Ok(format!("--- table({}), set({}) ---\n", at.1, at.0) + &rows(table, flags))
            }
            TableVerb::Info => Ok(self.info(at, self.existing(at)?)),
            TableVerb::Detail => {
                let table = self.existing(at)?;
                Ok(self.info(at, table) + &detail(table))
            }
        }
    }

    fn existing(&self, (set, name): (u8, &ObjectName)) -> Result<&LookupTable, CommandError> {
        let found = self.config.tables.get(set, name.as_str());
        found.ok_or_else(|| CommandError::missing(format!("Table {name} not found")))
    }

    fn change(
        &mut self,
        at: (u8, &ObjectName),
        change: impl FnOnce(&mut LookupTable),
    ) -> Result<String, CommandError> {
        self.existing(at)?;
        if let Some(table) = self.config.tables.get_mut(at.0, at.1) {
            change(table);
        }
        Ok(String::new())
    }

    fn create(
        &mut self,
        (set, name): (u8, &ObjectName),
        options: &TableOptions,
    ) -> Result<(), CommandError> {
        if let Some(table) = self.config.tables.get(set, name.as_str()) {
            let same = (table.options.kind, table.options.values) == (options.kind, options.values);
            if !(options.missing || options.or_flush) {
                return Err(CommandError::system(format!("Table {name}: File exists")));
            }
            if !same {
                return Err(CommandError::system(format!("Table {name} exists with another type")));
            }
            if options.or_flush && table.options.locked {
                return Err(CommandError::system("failed to flush table: table is locked"));
            }
            if options.or_flush
                && let Some(table) = self.config.tables.get_mut(set, name)
            {
                table.clear();
            }
            return Ok(());
        }
        let most = self.config.settings.tables_max as usize;
        if self.config.tables.len() >= most {
            return Err(CommandError::system(format!(
                "Table {name}: there are tables_max={most} tables"
            )));
        }
        let options = TableOptions { missing: false, or_flush: false, ..options.clone() };
        self.config.tables.create(set, name, options);
        Ok(())
    }

    /// Creates the table of an `add` command if it does not exist. Returns a notice about this, or
    /// an empty string if the table existed.
    fn create_for(&mut self, at: (u8, &ObjectName), key: &str) -> Result<String, CommandError> {
        let (set, name) = at;
        if self.config.tables.get(set, name.as_str()).is_some() {
            return Ok(String::new());
        }
        let options = TableOptions { kind: TableKey::guess(key), ..TableOptions::default() };
        self.create(at, &options)?;
        Ok(format!("DEPRECATED: inserting data into non-existent table {name}. (auto-created)\n"))
    }

    fn destroy(&mut self, at: (u8, &ObjectName)) -> Result<(), CommandError> {
        self.existing(at)?;
        let uses = self.references(at);
        if uses > 0 {
            let message = format!("failed to destroy table {}: {uses} rules use it", at.1);
            return Err(CommandError::system(message));
        }
        self.config.tables.destroy(at.0, at.1);
        Ok(())
    }

    fn swap(&mut self, at: (u8, &ObjectName), other: &ObjectName) -> Result<(), CommandError> {
        let (one, two) = (self.existing(at)?, self.existing((at.0, other))?);
        let kind = |table: &LookupTable| (table.options.kind, table.options.values);
        let fits = |table: &LookupTable, limit: u32| limit == 0 || table.len() <= limit as usize;
        if kind(one) != kind(two) {
            return Err(CommandError::data("Unable to swap table: check types"));
        }
        if !fits(one, two.options.limit) || !fits(two, one.options.limit) {
            return Err(CommandError::data("Unable to swap table: check limits"));
        }
        if one.options.locked || two.options.locked {
            return Err(CommandError::system("Unable to swap table: table is locked"));
        }
        self.config.tables.swap(at.0, at.1, other);
        Ok(())
    }

    fn lookup(
        &self,
        at: (u8, &ObjectName),
        key: &str,
        flags: CommandFlags,
    ) -> Result<String, CommandError> {
        let table = self.existing(at)?;
        let parsed = TableKey::parse(key, table.options.kind)
            .map_err(|error| CommandError::data(error.to_string()))?;
        let found = table.lookup(&parsed);
        let (key, value) =
            found.ok_or_else(|| CommandError::missing(format!("Entry {key} not found")))?;
        let value = value.show(table.options.values, flags.values_as_ip);
        Ok(format!("{} {value}\n", key.show(table.options.kind)))
    }

    /// Returns how many rules name a table.
    fn references(&self, (set, name): (u8, &ObjectName)) -> usize {
        let uses = |rule: &Rule| {
            let of_set = self.config.table_set(rule.set) == set;
            of_set && tables_of(rule).into_iter().any(|(used, _)| used == name)
        };
        self.config.list.iter().filter(|(entry, _)| uses(&entry.rule)).count()
    }

    /// Creates the tables that a rule names and that do not exist, without entries.
    pub(super) fn make_missing_tables(&mut self, rule: &Rule) -> Result<(), CommandError> {
        let set = self.config.table_set(rule.set);
        for (name, kind) in tables_of(rule) {
            if self.config.tables.get(set, name.as_str()).is_none() {
                self.create((set, name), &TableOptions { kind, ..TableOptions::default() })?;
            }
        }
        Ok(())
    }

    fn info(&self, at: (u8, &ObjectName), table: &LookupTable) -> String {
        let options = &table.options;
        let locked = if options.locked { ", locked" } else { "" };
        let mut text = format!("--- table({}), set({}) ---\n", at.1, at.0);
        text += &format!(" kindex: {}, type: {}{locked}\n", table.index, options.kind);
        text += &format!(" references: {}, valtype: {}\n", self.references(at), options.values);
        text += &format!(" algorithm: {}\n", algorithm(options));
        text += &format!(" items: {}, size: {}\n", table.len(), table.len() * ENTRY_LEN + HEAD_LEN);
        if options.limit > 0 {
            text += &format!(" limit: {}\n", options.limit);
        }
        text
    }
}

/// Sizes of an entry and of the header in FreeBSD's table listing, in bytes.
const ENTRY_LEN: usize = 120;
const HEAD_LEN: usize = 296;

fn algorithm(options: &TableOptions) -> &str {
    options.algorithm.as_deref().unwrap_or(match options.kind {
        TableKind::Addr => "addr:radix",
        TableKind::Iface => "iface:array",
        TableKind::Number => "number:array",
        TableKind::Mac => "mac:radix",
        TableKind::Flow(_) => "flow:hash",
    })
}

fn detail(table: &LookupTable) -> String {
    let name = algorithm(&table.options).split(' ').next().unwrap_or("");
    let class = name.rsplit(':').next().unwrap_or("");
    let part = |family: &str, items: usize, item_len: usize| {
        // Listings show no size for a radix tree.
        let size = if class == "radix" { String::new() } else { format!("size: {items} ") };
        format!(" {family}algorithm {class} info\n  {size}items: {items} itemsize: {item_len}\n")
    };
    match table.family_lens() {
        Some((v4, v6)) => part("IPv4 ", v4, 200) + &part("IPv6 ", v6, 200),
        None => part("", table.len(), 64),
    }
}

fn rows(table: &LookupTable, flags: CommandFlags) -> String {
    let row = |(key, value): (TableKey, &crate::table::TableValue)| {
        let value = value.show(table.options.values, flags.values_as_ip);
        format!("{} {value}\n", key.show(table.options.kind))
    };
    table.sorted().into_iter().map(row).collect()
}

/// Returns whether a change of entries succeeds without output: with `-q`, if its only errors were
/// existing or missing keys.
fn is_silent(error: Option<&TableError>, flags: CommandFlags) -> bool {
    flags.quiet && error.is_none_or(TableError::is_harmless)
}

fn changed(
    notice: String,
    changes: &[EntryChange],
    error: Option<TableError>,
    what: &str,
) -> Result<String, CommandError> {
    let mut text = notice;
    for change in changes {
        let reverted = if change.reverted { "(reverted)" } else { "" };
        text.extend([change.result.as_str(), reverted, ": ", &change.row, "\n"]);
    }
    match error {
        None => Ok(text),
        Some(error) => {
            let message = format!("{what}: {error}");
            let error = match error {
                TableError::Key(_) | TableError::Value(_) => CommandError::data(message),
                _ => CommandError::system(message),
            };
            Err(CommandError { text, ..error })
        }
    }
}

/// Returns the tables that a rule looks up, each with the kind with which it is created if it does
/// not exist.
#[must_use]
pub fn tables_of(rule: &Rule) -> Vec<(&ObjectName, TableKind)> {
    let conditions = rule.body.clauses().flatten().map(|pattern| &pattern.condition);
    conditions
        .filter_map(|condition| match condition {
            Condition::Src(AddressPattern::Table(test))
            | Condition::Dst(AddressPattern::Table(test)) => Some((&test.table, TableKind::Addr)),
            Condition::Recv(InterfacePattern::Table(test))
            | Condition::Xmit(InterfacePattern::Table(test))
            | Condition::Via(InterfacePattern::Table(test)) => {
                Some((&test.table, TableKind::Iface))
            }
            Condition::SrcMac(test) | Condition::DstMac(test) => {
                Some((&test.table, TableKind::Mac))
            }
            Condition::Flow(test) => Some((&test.table, TableKind::Flow(FlowFields::ALL))),
            Condition::Lookup { key, table, .. } => Some((table, lookup_kind(*key))),
            _ => None,
        })
        .collect()
}

const fn lookup_kind(key: LookupKey) -> TableKind {
    use LookupKey as K;
    match key {
        K::DstIp | K::SrcIp | K::DstIp4 | K::SrcIp4 | K::DstIp6 | K::SrcIp6 => TableKind::Addr,
        K::DstMac | K::SrcMac => TableKind::Mac,
        K::DstPort | K::SrcPort | K::Dscp | K::Mark | K::RuleNumber => TableKind::Number,
    }
}
