//! Listings of rules, states and sets, in ipfw's format.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::changes::CommandError;
use super::engine::Firewall;
use super::list::{RuleCounters, RuleEntry};
use crate::rule::RESERVED_SET;
use crate::state::{FlowState, StateKind};
use crate::table::IpfwFlowKey;
use crate::text::{NumberRange, RuleStyle, StyledRule, proto_name};

/// The options that determine what a listing contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListOptions {
    /// `-a`, `show`: packets and bytes.
    pub counters: bool,
    /// `-t`, `-T`: when the last packet matched.
    pub times: TimeFormat,
    /// `-d`, `-D`, `-e`: states.
    pub states: StateListing,
    /// `-S`: sets, and the rules of disabled sets.
    pub sets: bool,
    /// The format of rules.
    pub style: RuleStyle,
    /// Lists only rules and states of this set; `None` means all sets.
    pub set: Option<u8>,
}

/// How times are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeFormat {
    /// No time is shown.
    None,
    /// As ctime(3) does, in UTC.
    Calendar,
    /// Seconds since 1970.
    Seconds,
}

/// Which states are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateListing {
    /// No states.
    None,
    /// Living states, after the rules.
    Living,
    /// Living and expired states.
    All,
    /// Living states, without rules.
    Only,
}

/// Size of a state in FreeBSD's listings, in bytes.
const STATE_LEN: usize = 136;

impl Firewall {
    /// Lists the rules with numbers in `ranges`, or all rules if there are no ranges.
    ///
    /// # Errors
    /// [`CommandError`] if a range contains no rule that these options show. The error's field
    /// `text` has the listing of the other ranges.
    pub fn list(
        &self,
        ranges: &[NumberRange],
        options: ListOptions,
        now_ns: u64,
    ) -> Result<String, CommandError> {
        let everything = [NumberRange { first: 0, last: u16::MAX }];
        let chosen = if ranges.is_empty() { &everything } else { ranges };
        let (mut text, mut missing) = (String::new(), None);
        let widths = self.widths(options);
        if options.states != StateListing::Only {
            for range in chosen {
                let rows = self.rows(range, options, widths);
                if rows.is_empty() && !ranges.is_empty() {
                    missing.get_or_insert(*range);
                }
                text.push_str(&rows);
            }
        }
        if options.states != StateListing::None {
            self.states_text(&mut text, chosen, ranges.is_empty(), options, (widths, now_ns));
        }
        match missing {
            None => Ok(text),
            Some(range) => Err(CommandError { text, ..missing_rules(range) }),
        }
    }

    fn widths(&self, options: ListOptions) -> Option<(usize, usize)> {
        let shown = self.config.list.iter().filter(|(entry, _)| of_set(entry, options));
        let rules = shown.map(|(_, counters)| (counters.packets, counters.bytes));
        let states = self.states.sorted();
        let states = states.iter().map(|state| (state.packets, state.bytes));
        let with_states = options.states != StateListing::None;
        let all = rules.chain(states.filter(|_| with_states));
        let digits = |number: u64| number.checked_ilog10().unwrap_or(0) as usize + 1;
        let most = all.fold((0, 0), |(packets, bytes), (p, b)| {
            (digits(p).max(packets), digits(b).max(bytes))
        });
        options.counters.then_some(most)
    }

    fn rows(
        &self,
        range: &NumberRange,
        options: ListOptions,
        widths: Option<(usize, usize)>,
    ) -> String {
        let picked = self
            .config
            .list
            .iter()
            .filter(|(entry, _)| range.holds(entry.number) && of_set(entry, options));
        picked.filter_map(|(entry, counters)| self.row(entry, counters, options, widths)).collect()
    }

    /// Formats the line of a rule; `None` if the rule's set is disabled and sets are not shown.
    fn row(
        &self,
        entry: &RuleEntry,
        counters: &RuleCounters,
        options: ListOptions,
        widths: Option<(usize, usize)>,
    ) -> Option<String> {
        let mut line = String::new();
        if !self.config.is_enabled(entry.rule.set) {
            if !options.sets {
                return None;
            }
            line.push_str("# DISABLED ");
        }
        let _ = write!(line, "{:05} ", entry.number);
        push_counters(&mut line, counters.packets, counters.bytes, widths);
        line.push_str(&self.time(counters.last_match_ns, options.times));
        if options.sets {
            let _ = write!(line, "set {} ", entry.rule.set);
        }
        let _ = writeln!(line, "{}", StyledRule(&entry.rule, options.style));
        Some(line)
    }

    fn time(&self, last_match_ns: Option<u64>, times: TimeFormat) -> String {
        let seconds = last_match_ns.map(|ns| self.epoch_ns.saturating_add(ns) / 1_000_000_000);
        match (times, seconds) {
            (TimeFormat::None, _) => String::new(),
            (TimeFormat::Seconds, seconds) => format!("{:10} ", seconds.unwrap_or(0)),
            (TimeFormat::Calendar, Some(seconds)) => format!("{} ", ctime(seconds)),
            (TimeFormat::Calendar, None) => " ".repeat(24),
        }
    }

    fn states_text(
        &self,
        text: &mut String,
        ranges: &[NumberRange],
        all: bool,
        options: ListOptions,
        (widths, now): (Option<(usize, usize)>, u64),
    ) {
        let is_shown = |state: &&&FlowState| {
            let living = state.expires_ns > now || options.states == StateListing::All;
            living && options.set.is_none_or(|set| self.set_of(state) == Some(set))
        };
        let sorted = self.states.sorted();
        let states: Vec<_> = sorted.iter().filter(is_shown).collect();
        let parents = self.parents(options);
        let count = states.len() + parents.len();
        if count == 0 {
            return;
        }
        let size = count * STATE_LEN;
        let head = format!("## Dynamic rules ({count} {size}):\n");
        text.push_str(if all { &head } else { "## Dynamic rules:\n" });
        let holds = |number| ranges.iter().any(|range| range.holds(number));
        for (number, flow, children) in parents.iter().filter(|(number, _, _)| holds(*number)) {
            let _ = write!(text, "{number:05}");
            push_state_counters(text, (0, 0), 0, widths);
            let _ = writeln!(text, " PARENT {children}{}", flow_text(flow));
        }
        for state in states.iter().filter(|state| holds(state.number)) {
            let seconds = state.expires_ns.saturating_sub(now).div_ceil(1_000_000_000);
            let _ = write!(text, "{:05}", state.number);
            push_state_counters(text, (state.packets, state.bytes), seconds, widths);
            let kind = if state.kind == StateKind::Keep { "STATE" } else { "LIMIT" };
            let _ = writeln!(text, " {kind}{} :{}", flow_text(&state.flow), state.name);
        }
    }

    /// Returns the set of a state's rule; `None` if the rule no longer exists.
    fn set_of(&self, state: &FlowState) -> Option<u8> {
        let position = self.config.list.position(state.rule)?;
        Some(self.config.list.entries[position].rule.set)
    }

    fn parents(&self, options: ListOptions) -> Vec<(u16, IpfwFlowKey, u32)> {
        let mut parents: Vec<_> = self
            .states
            .parents()
            .filter_map(|(rule, flow, count)| {
                let entry = self.config.list.iter().nth(self.config.list.position(rule)?)?.0;
                of_set(entry, options).then_some((entry.number, flow, count))
            })
            .collect();
        parents.sort_unstable();
        parents
    }

    pub(super) fn show_sets(&self) -> String {
        let members = |enabled: bool| {
            let sets = (0..RESERVED_SET).filter(move |&set| self.config.is_enabled(set) == enabled);
            sets.map(|set| format!(" {set}")).collect::<String>()
        };
        let (disabled, enabled) = (members(false), members(true));
        let word = |word: &str, sets: &str| {
            if sets.is_empty() { String::new() } else { format!("{word}{sets}") }
        };
        let both = [word("disable", &disabled), word("enable", &enabled)];
        let shown: Vec<_> =
            both.iter().filter(|part| !part.is_empty()).map(String::as_str).collect();
        format!("{}\n", shown.join(" "))
    }
}

fn of_set(entry: &RuleEntry, options: ListOptions) -> bool {
    options.set.is_none_or(|set| entry.rule.set == set)
}

fn missing_rules(range: NumberRange) -> CommandError {
    CommandError::missing(if range.first == range.last {
        format!("rule {range} does not exist")
    } else {
        format!("no rules in range {range}")
    })
}

fn push_counters(line: &mut String, packets: u64, bytes: u64, widths: Option<(usize, usize)>) {
    if let Some((packets_width, bytes_width)) = widths {
        let _ = write!(line, "{packets:packets_width$} {bytes:bytes_width$} ");
    }
}

fn push_state_counters(
    text: &mut String,
    (packets, bytes): (u64, u64),
    seconds: u64,
    widths: Option<(usize, usize)>,
) {
    if widths.is_some() {
        text.push(' ');
        push_counters(text, packets, bytes, widths);
        let _ = write!(text, "({seconds}s)");
    }
}

fn flow_text(flow: &IpfwFlowKey) -> String {
    let address = |bits: u128| match flow.is_v6 {
        true => Ipv6Addr::from_bits(bits).to_string(),
        false => Ipv4Addr::from_bits(bits as u32).to_string(),
    };
    let proto =
        proto_name(flow.proto).map_or_else(|| format!("proto {}", flow.proto), String::from);
    let (src, dst) = (address(flow.src), address(flow.dst));
    format!(" {proto} {src} {} <-> {dst} {}", flow.src_port, flow.dst_port)
}

/// Formats seconds since 1970 as `Thu Jan  1 00:00:00 1970`.
fn ctime(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let (weekday, month) = (DAYS[(days % 7) as usize], MONTHS[month]);
    format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
}

/// Converts a day counted from 1970 to year, month (from 0) and day (from 1), by walking years and
/// months.
fn civil(days: u64) -> (u64, usize, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 0;
    for len in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < len {
            break;
        }
        left -= len;
        month += 1;
    }
    (year, month, left + 1)
}
