//! The command `table …`.

use alloc::string::String;
use alloc::vec::Vec;

use super::address::table_name;
use super::cursor::WordCursor;
use super::error::RuleTextError;
use super::number;
use super::words::SourceWord;
use crate::rule::ObjectName;
use crate::table::{FlowFields, TableKind, ValueKind, ValueKinds};

/// A command about tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableCommand {
    /// The tables that the command applies to.
    pub scope: TableScope,
    /// The set in which the table's name is looked up. It only matters if sets have their own
    /// tables.
    pub set: u8,
    /// The action.
    pub verb: TableVerb,
}

/// The tables that a command applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableScope {
    /// One table.
    One(ObjectName),
    /// All tables.
    All,
}

/// An action on tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableVerb {
    /// Creates a table.
    Create(TableOptions),
    /// Removes the table.
    Destroy,
    /// Changes the limit.
    Modify {
        /// Maximum number of entries; 0 means no limit.
        limit: u32,
    },
    /// Swaps the contents with another table.
    Swap(ObjectName),
    /// Refuses changes by `add`, `delete`, `flush` and `swap`.
    Lock,
    /// Allows changes again.
    Unlock,
    /// Adds entries: key and value.
    Add {
        /// Whether the command adds either all entries or none.
        atomic: bool,
        /// Keys and values.
        entries: Vec<(String, Option<String>)>,
    },
    /// Removes entries.
    Delete {
        /// Whether the command removes either all entries or none.
        atomic: bool,
        /// Keys to delete.
        keys: Vec<String>,
    },
    /// Finds the entry that a packet with this key would find.
    Lookup(String),
    /// Removes all entries.
    Flush,
    /// Lists the entries.
    List,
    /// Shows the properties of the table.
    Info,
    /// Shows the properties, with the algorithm.
    Detail,
}

/// The options of `create`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// The kind of keys.
    pub kind: TableKind,
    /// The kinds of values.
    pub values: ValueKinds,
    /// The requested algorithm, which listings show; `None` if none was requested.
    pub algorithm: Option<String>,
    /// The only prefix lengths for IPv4 and IPv6 that `addr:hash` accepts; `None` means that all
    /// are accepted.
    pub masks: Option<[u8; 2]>,
    /// Maximum number of entries; 0 means no limit.
    pub limit: u32,
    /// Whether the table is locked from the start.
    pub locked: bool,
    /// `missing`: an existing table is accepted if it has the same kinds of keys and values.
    pub missing: bool,
    /// `or-flush`: an existing table is emptied if it has the same kinds of keys and values.
    pub or_flush: bool,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            kind: TableKind::Addr,
            values: ValueKinds::LEGACY,
            algorithm: None,
            masks: None,
            limit: 0,
            locked: false,
            missing: false,
            or_flush: false,
        }
    }
}

const EXPECTED: &str = "create, destroy, modify, swap, lock, unlock, add, atomic, delete, lookup, \
                        flush, list, info or detail";

pub(super) fn parse(cursor: &mut WordCursor<'_>, set: u8) -> Result<TableCommand, RuleTextError> {
    let word = cursor.next("the name of a table, or `all`")?;
    let scope = if word.text == "all" { TableScope::All } else { TableScope::One(name(word)?) };
    let verb_word = cursor.next(EXPECTED)?;
    let verb = verb(cursor, verb_word)?;
    let for_all = matches!(
        verb,
        TableVerb::Destroy
            | TableVerb::Flush
            | TableVerb::List
            | TableVerb::Info
            | TableVerb::Detail
    );
    if scope == TableScope::All && !for_all {
        return Err(RuleTextError::at(
            word,
            "`all` is no single table".into(),
            "the name of a table",
        ));
    }
    Ok(TableCommand { scope, set, verb })
}

fn name(word: &SourceWord) -> Result<ObjectName, RuleTextError> {
    table_name(&word.text).ok_or_else(|| RuleTextError::unexpected(word, "the name of a table"))
}

fn verb(cursor: &mut WordCursor<'_>, word: &SourceWord) -> Result<TableVerb, RuleTextError> {
    Ok(match word.text.as_str() {
        "create" => TableVerb::Create(options(cursor)?),
        "destroy" => TableVerb::Destroy,
        "modify" => {
            cursor.must_eat("limit", "`limit` and a number")?;
            TableVerb::Modify { limit: limit(cursor)? }
        }
        "swap" => TableVerb::Swap(name(cursor.next("the name of the other table")?)?),
        "lock" => TableVerb::Lock,
        "unlock" => TableVerb::Unlock,
        "add" => add(cursor, false)?,
        "delete" => delete(cursor, false)?,
        "atomic" => {
            let word = cursor.next("`add` or `delete`")?;
            match word.text.as_str() {
                "add" => add(cursor, true)?,
                "delete" => delete(cursor, true)?,
                _ => return Err(RuleTextError::unexpected(word, "`add` or `delete`")),
            }
        }
        "lookup" => TableVerb::Lookup(cursor.next("a key")?.text.clone()),
        "flush" => TableVerb::Flush,
        "list" => TableVerb::List,
        "info" => TableVerb::Info,
        "detail" => TableVerb::Detail,
        _ => return Err(RuleTextError::unexpected(word, EXPECTED)),
    })
}

fn add(cursor: &mut WordCursor<'_>, atomic: bool) -> Result<TableVerb, RuleTextError> {
    let mut entries = Vec::new();
    let first = cursor.next("a key")?.text.clone();
    let mut key = Some(first);
    while let Some(this) = key {
        let value = cursor.peek().map(|word| word.text.clone());
        cursor.skip();
        entries.push((this, value));
        key = cursor.peek().map(|word| word.text.clone());
        cursor.skip();
    }
    Ok(TableVerb::Add { atomic, entries })
}

fn delete(cursor: &mut WordCursor<'_>, atomic: bool) -> Result<TableVerb, RuleTextError> {
    let mut keys = alloc::vec![cursor.next("a key")?.text.clone()];
    while let Some(word) = cursor.peek() {
        cursor.skip();
        keys.push(word.text.clone());
    }
    Ok(TableVerb::Delete { atomic, keys })
}

fn limit(cursor: &mut WordCursor<'_>) -> Result<u32, RuleTextError> {
    let word = cursor.next("how many entries")?;
    Ok(number::within(word, 0, u32::MAX.into(), "number of entries")? as u32)
}

fn options(cursor: &mut WordCursor<'_>) -> Result<TableOptions, RuleTextError> {
    let mut options = TableOptions::default();
    while let Some(word) = cursor.peek() {
        cursor.skip();
        match word.text.as_str() {
            "type" => options.kind = kind(cursor)?,
            "valtype" => options.values = values(cursor)?,
            "algo" => {
                let (name, masks) = algorithm(cursor)?;
                (options.algorithm, options.masks) = (Some(name), masks);
            }
            "limit" => options.limit = limit(cursor)?,
            "locked" => options.locked = true,
            "missing" => options.missing = true,
            "or-flush" => options.or_flush = true,
            _ => {
                let expected = "type, valtype, algo, limit, locked, missing or or-flush";
                return Err(RuleTextError::unexpected(word, expected));
            }
        }
    }
    Ok(options)
}

fn kind(cursor: &mut WordCursor<'_>) -> Result<TableKind, RuleTextError> {
    let expected = "addr, iface, number, mac, or flow with `:` and some of src-ip, proto, \
                    src-port, dst-ip, dst-port";
    let word = cursor.next(expected)?;
    let wrong = || RuleTextError::unexpected(word, expected);
    Ok(match word.text.as_str() {
        "addr" | "cidr" => TableKind::Addr,
        "iface" => TableKind::Iface,
        "number" => TableKind::Number,
        "mac" => TableKind::Mac,
        "flow" => TableKind::Flow(FlowFields::ALL),
        text => {
            let fields = text.strip_prefix("flow:").ok_or_else(wrong)?;
            TableKind::Flow(FlowFields::parse(fields).ok_or_else(wrong)?)
        }
    })
}

fn values(cursor: &mut WordCursor<'_>) -> Result<ValueKinds, RuleTextError> {
    let expected = "legacy, or some of skipto, pipe, fib, nat, dscp, tag, divert, netgraph, \
                    limit, ipv4, ipv6, mark";
    let word = cursor.next(expected)?;
    if word.text == "legacy" {
        return Ok(ValueKinds::LEGACY);
    }
    let kinds: Option<Vec<_>> = word.text.split(',').map(ValueKind::from_name).collect();
    let kinds = kinds.ok_or_else(|| RuleTextError::unexpected(word, expected))?;
    Ok(kinds.into_iter().collect())
}

/// Parses the name and options of an ipfw algorithm. They appear in listings, but the engine
/// chooses its algorithm itself. Entries that ipfw's `addr:hash` could not hold are still refused.
fn algorithm(cursor: &mut WordCursor<'_>) -> Result<(String, Option<[u8; 2]>), RuleTextError> {
    let expected = "addr:radix, addr:hash, addr:kfib, iface:array, number:array, flow:hash or \
                    mac:radix";
    let word = cursor.next(expected)?;
    let name = word.text.split_whitespace().next().unwrap_or("");
    let known = [
        "addr:radix",
        "addr:hash",
        "addr:kfib",
        "iface:array",
        "number:array",
        "flow:hash",
        "mac:radix",
    ];
    if !known.contains(&name) {
        return Err(RuleTextError::unexpected(word, expected));
    }
    let is_hash = name == "addr:hash";
    let expected = "masks=/LENGTH,/LENGTH of IPv4 and IPv6 prefixes, as in masks=/24,/64";
    // The name and each option are separate words, even if the shell passed them as one argument.
    let (mut text, mut at, mut hashed) = (word.text.clone(), word, [32, 128]);
    let mut options: Vec<_> = word.text.split_whitespace().skip(1).collect();
    loop {
        for option in options.drain(..).filter(|_| is_hash) {
            let given = option.strip_prefix("masks=").and_then(masks);
            hashed = given.ok_or_else(|| RuleTextError::unexpected(at, expected))?;
        }
        if !cursor.peek_text().contains('=') {
            return Ok((text, is_hash.then_some(hashed)));
        }
        at = cursor.next(expected)?;
        text = text + " " + &at.text;
        options.push(&at.text);
    }
}

/// Parses `/24,/64`; an omitted part is a full address.
fn masks(text: &str) -> Option<[u8; 2]> {
    let (v4, v6) = text.split_once(',').unwrap_or((text, ""));
    let len = |text: &str, most: u8| match text {
        "" => Some(most),
        _ => text.strip_prefix('/')?.parse().ok().filter(|&len| len <= most),
    };
    Some([len(v4, 32)?, len(v6, 128)?])
}
