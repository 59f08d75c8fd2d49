//! The commands, and their parsing by the first word.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::cursor::WordCursor;
use super::error::{RuleTextError, RuleTextErrorKind};
use super::nat::{self, NatCommand};
use super::nptv6::{self, Nptv6Command};
use super::rule_number::{AddRule, NumberRange, range};
use super::shaper::ShaperCommand;
use super::state::{self, StateCommand};
use super::table::{self, TableCommand};
use super::words::SourceWord;
use super::{header, number};
use crate::rule::{NUM_SETS, RuleNumber};

/// A parsed command.
#[derive(Clone, Debug, PartialEq)]
pub enum IpfwCommand {
    /// The `add` command.
    Add(Box<AddRule>),
    /// The `delete` command.
    Delete(DeleteTarget),
    /// `list` and `show`.
    List {
        /// `show`: with counters.
        counters: bool,
        /// Lists only rules of this set; `None` means all sets.
        set: Option<u8>,
        /// Only rules with these numbers; empty means all.
        ranges: Vec<NumberRange>,
    },
    /// `zero`: resets packet counters and the counts of logged lines.
    Zero {
        /// Resets only rules of this set; `None` means all sets.
        set: Option<u8>,
        /// Only rules with these numbers; empty means all.
        ranges: Vec<NumberRange>,
    },
    /// `resetlog`: resets only the counts of logged lines.
    ResetLog {
        /// Resets only rules of this set; `None` means all sets.
        set: Option<u8>,
        /// Only rules with these numbers; empty means all.
        ranges: Vec<NumberRange>,
    },
    /// The `flush` command.
    Flush {
        /// Deletes only rules of this set; `None` means all sets except 31.
        set: Option<u8>,
    },
    /// `set …`.
    Set(SetCommand),
    /// `table …`.
    Table(TableCommand),
    /// `pipe …`, `queue …`, `sched …`.
    Shaper(ShaperCommand),
    /// `nat …`.
    Nat(NatCommand),
    /// `nptv6 …`.
    Nptv6(Nptv6Command),
    /// `enable` and `disable`.
    Switch {
        /// What is enabled or disabled.
        switch: EnableTarget,
        /// Whether the command is `enable` instead of `disable`.
        on: bool,
    },
    /// `state …`.
    State(Box<StateCommand>),
    /// `sysctl NAME` and `sysctl NAME=VALUE`; all sysctls if the name is empty.
    Sysctl {
        /// The name; empty with `-a`.
        name: String,
        /// The new value; `None` reads the current value.
        value: Option<u32>,
    },
}

/// The objects that `delete` deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeleteTarget {
    /// Rules with these numbers; only rules of `set`, if it is given.
    Rules {
        /// Deletes only rules of this set; `None` means all sets.
        set: Option<u8>,
        /// The numbers.
        ranges: Vec<NumberRange>,
    },
    /// A whole set.
    Set(u8),
}

/// The action of a `set` command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetCommand {
    /// Shows which sets are enabled.
    Show,
    /// Disables some sets and enables others, in one step. Bit `i` of each mask means set `i`.
    Change {
        /// Sets to disable.
        disable: u32,
        /// Sets to enable.
        enable: u32,
    },
    /// Swaps the rules of two sets.
    Swap(u8, u8),
    /// Moves all rules of a set to another.
    Move {
        /// The source set.
        from: u8,
        /// The target set.
        to: u8,
    },
    /// Moves the rules with a number to a set.
    MoveRule {
        /// The number of the rules to move.
        rule: RuleNumber,
        /// The target set.
        to: u8,
    },
}

/// The target of `enable` and `disable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnableTarget {
    /// The firewall as a whole.
    Firewall,
    /// Whether packets that leave a pipe or queue, and packets that were translated or reassembled,
    /// are accepted instead of being checked by the rules that follow.
    OnePass,
    /// No effect; accepted so that scripts work.
    Debug,
    /// Whether packets are logged to the system log instead of captures, if their rule names no
    /// destination.
    Verbose,
    /// Keepalives of states.
    DynKeepalive,
    /// No effect, since this engine has no such cache; accepted so that scripts work.
    SkipToCache,
}

const EXPECTED: &str = "a command: add, delete, list, show, zero, resetlog, flush, set, table, \
                        pipe, queue, sched, nat, nptv6, enable, disable, state, sysctl, monitor, \
                        explain, metrics, save";

pub(super) fn parse(cursor: &mut WordCursor<'_>) -> Result<IpfwCommand, RuleTextError> {
    cursor.eat("ipfw");
    if let Some(add) = number_first(cursor)? {
        return Ok(IpfwCommand::Add(Box::new(add)));
    }
    let mut of_set = None;
    if cursor.peek_text() == "set" {
        cursor.skip();
        match set(cursor)? {
            Ok(command) => return Ok(IpfwCommand::Set(command)),
            Err(set) => of_set = Some(set),
        }
    }
    let word = cursor.next(EXPECTED)?;
    verb(cursor, word, of_set)
}

/// Parses `N add …`, which means `add N …`; returns `None` if the line does not begin so.
fn number_first(cursor: &mut WordCursor<'_>) -> Result<Option<AddRule>, RuleTextError> {
    let mut ahead = cursor.clone();
    let Some(word) = ahead.peek() else { return Ok(None) };
    ahead.skip();
    let Some(found) = number::decimal(&word.text).filter(|_| ahead.eat("add")) else {
        return Ok(None);
    };
    let number = RuleNumber::try_from(found).ok().filter(|&number| number < 65535);
    let number = number.ok_or_else(|| number::out_of(word, 1, 65534, "rule number"))?;
    *cursor = ahead;
    let add = header::add(cursor)?;
    Ok(Some(AddRule { number: add.number.or(Some(number).filter(|&number| number != 0)), ..add }))
}

fn verb(
    cursor: &mut WordCursor<'_>,
    word: &SourceWord,
    set: Option<u8>,
) -> Result<IpfwCommand, RuleTextError> {
    Ok(match word.text.as_str() {
        "add" => {
            let mut add = header::add(cursor)?;
            if let Some(set) = set.filter(|_| add.rule.set == 0) {
                add.rule.set = set;
            }
            IpfwCommand::Add(Box::new(add))
        }
        "delete" => IpfwCommand::Delete(delete(cursor, set)?),
        "list" => IpfwCommand::List { counters: false, set, ranges: ranges(cursor)? },
        "show" => IpfwCommand::List { counters: true, set, ranges: ranges(cursor)? },
        "zero" => IpfwCommand::Zero { set, ranges: ranges(cursor)? },
        "resetlog" => IpfwCommand::ResetLog { set, ranges: ranges(cursor)? },
        "flush" => IpfwCommand::Flush { set },
        "table" => IpfwCommand::Table(table::parse(cursor, set.unwrap_or(0))?),
        "pipe" | "queue" | "sched" => IpfwCommand::Shaper(ShaperCommand {
            text: cursor.rest_of_line(word).into(),
            column: word.column,
        }),
        "enable" | "disable" => switch(cursor, word.text == "enable")?,
        "state" => IpfwCommand::State(Box::new(state::parse(cursor, word)?)),
        "sysctl" => sysctl(cursor)?,
        "nat" => IpfwCommand::Nat(nat::parse(cursor)?),
        "nptv6" => IpfwCommand::Nptv6(nptv6::parse(cursor)?),
        "internal" => {
            let instead = "`table all info` for tables, `monitor` for log lines: there are no \
                           lists inside a kernel to show";
            return Err(RuleTextError::refused(word, instead));
        }
        _ => {
            let error = RuleTextError::unexpected(word, EXPECTED);
            return Err(RuleTextError { kind: RuleTextErrorKind::Usage, ..error });
        }
    })
}

fn ranges(cursor: &mut WordCursor<'_>) -> Result<Vec<NumberRange>, RuleTextError> {
    let mut ranges = Vec::new();
    while let Some(word) = cursor.peek() {
        cursor.skip();
        for item in word.text.split(',') {
            ranges.push(range(item).ok_or_else(|| {
                let message = format!("`{item}` is no rule number");
                RuleTextError::at(word, message, "rule numbers, or ranges of them, up to 65535")
            })?);
        }
    }
    Ok(ranges)
}

fn delete(cursor: &mut WordCursor<'_>, set: Option<u8>) -> Result<DeleteTarget, RuleTextError> {
    if cursor.eat("set") {
        return header::set_number(cursor).map(DeleteTarget::Set);
    }
    let ranges = ranges(cursor)?;
    match (ranges.is_empty(), set) {
        (false, _) => Ok(DeleteTarget::Rules { set, ranges }),
        (true, Some(set)) => Ok(DeleteTarget::Set(set)),
        (true, None) => Err(cursor.too_short("rule numbers, or `set` and a set")),
    }
}

/// Parses the words after `set`: a subcommand of `set`, or the set that another command applies to.
fn set(cursor: &mut WordCursor<'_>) -> Result<Result<SetCommand, u8>, RuleTextError> {
    let expected = "show, enable, disable, swap, move, or a set";
    let word = cursor.next(expected)?;
    Ok(Ok(match word.text.as_str() {
        "show" => SetCommand::Show,
        "swap" => SetCommand::Swap(header::set_number(cursor)?, header::set_number(cursor)?),
        "move" => set_move(cursor)?,
        "enable" | "disable" => set_change(cursor, word.text == "enable")?,
        _ => return number::within(word, 0, 31, "set").map(|set| Err(set as u8)),
    }))
}

fn set_move(cursor: &mut WordCursor<'_>) -> Result<SetCommand, RuleTextError> {
    if cursor.eat("rule") {
        let word = cursor.next("a rule number")?;
        let rule = number::within(word, 1, 65534, "rule number")? as RuleNumber;
        cursor.must_eat("to", "`to`")?;
        return Ok(SetCommand::MoveRule { rule, to: header::set_number(cursor)? });
    }
    let from = header::set_number(cursor)?;
    cursor.must_eat("to", "`to`")?;
    Ok(SetCommand::Move { from, to: header::set_number(cursor)? })
}

fn set_change(cursor: &mut WordCursor<'_>, enable: bool) -> Result<SetCommand, RuleTextError> {
    let mut masks = [0_u32; 2];
    let mut which = usize::from(enable);
    while let Some(word) = cursor.peek() {
        cursor.skip();
        match word.text.as_str() {
            "disable" => which = 0,
            "enable" => which = 1,
            _ => {
                let set = number::within(word, 0, u64::from(NUM_SETS) - 1, "set")?;
                masks[which] |= 1 << set;
                if masks[0] & masks[1] != 0 {
                    let message = format!("set {set} is to be both enabled and disabled");
                    return Err(RuleTextError::at(word, message, "each set in one of both lists"));
                }
            }
        }
    }
    Ok(SetCommand::Change { disable: masks[0], enable: masks[1] })
}

fn switch(cursor: &mut WordCursor<'_>, on: bool) -> Result<IpfwCommand, RuleTextError> {
    let expected = "firewall, one_pass, debug, verbose, dyn_keepalive or skipto_cache";
    let word = cursor.next(expected)?;
    let switch = match word.text.as_str() {
        "firewall" => EnableTarget::Firewall,
        "one_pass" => EnableTarget::OnePass,
        "debug" => EnableTarget::Debug,
        "verbose" => EnableTarget::Verbose,
        "dyn_keepalive" => EnableTarget::DynKeepalive,
        "skipto_cache" => EnableTarget::SkipToCache,
        "altq" => return Err(RuleTextError::refused(word, "`queue` or `pipe`: there is no ALTQ")),
        _ => return Err(RuleTextError::unexpected(word, expected)),
    };
    Ok(IpfwCommand::Switch { switch, on })
}

fn sysctl(cursor: &mut WordCursor<'_>) -> Result<IpfwCommand, RuleTextError> {
    let word = cursor.next("`-a`, NAME or NAME=VALUE")?;
    if word.text == "-a" {
        return Ok(IpfwCommand::Sysctl { name: String::new(), value: None });
    }
    let (name, value) = match word.text.split_once('=') {
        None => (word.text.as_str(), None),
        Some((name, value)) => {
            let value = number::parse(value).and_then(|number| u32::try_from(number).ok());
            let wrong = || RuleTextError::unexpected(word, "NAME=VALUE with a number as value");
            (name, Some(value.ok_or_else(wrong)?))
        }
    };
    Ok(IpfwCommand::Sysctl { name: name.into(), value })
}
