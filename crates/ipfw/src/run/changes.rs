//! Executes commands, one by one and in batches.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::config::IpfwConfig;
use super::engine::Firewall;
use super::settings::{self, READ_ONLY};
use super::show::{ListOptions, StateListing};
use crate::rule::{DEFAULT_RULE, NextHop, RESERVED_SET, RuleAction};
use crate::text::{
    AddRule, DeleteTarget, EnableTarget, IpfwCommand, NatCommand, NumberRange, RuleStyle,
    RuleTextError, SetCommand, ShaperCommand, StyledRule, parse_file,
};

/// Maximum number of rules. A quarter of a million rules already take a gigabyte of memory and
/// several seconds to compile. Few users have more than ten thousand.
const MAX_RULES: usize = 1 << 18;

/// The command-line flags, which determine how commands behave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandFlags {
    /// `-q`: `add`, `zero`, `resetlog`, `flush`, `nat config` and table changes print nothing,
    /// `table add` changes existing entries, and `table delete` of a missing entry is not an error.
    pub quiet: bool,
    /// `-f`: to delete a missing rule or `nat` instance is not an error.
    pub force: bool,
    /// `-i`: lists table values as addresses.
    pub values_as_ip: bool,
    /// How rules are listed.
    pub list: ListOptions,
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleCommandReply {
    /// Lines for the output.
    pub text: String,
    /// A command for the shaper; `None` if the command was for the rules. The caller passes it to
    /// the shaper once all commands have succeeded.
    pub shaper: Option<ShaperCommand>,
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    /// The error message.
    pub message: String,
    /// Output lines that are printed despite the error.
    pub text: String,
    /// The exit code of sysexits(3).
    pub exit_code: u8,
}

/// Maximum number of reported errors of a file.
pub const MAX_LINE_ERRORS: usize = 20;

/// Why a file of commands failed; none of the commands had an effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandFileError {
    /// A line is not a command.
    #[error(transparent)]
    Text(#[from] RuleTextError),
    /// Some commands failed. Contains the first [`MAX_LINE_ERRORS`] errors.
    #[error("{}", .0.iter().map(LineError::to_string).collect::<Vec<_>>().join("\n"))]
    Commands(Vec<LineError>),
}

/// A command of a file that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {error}")]
pub struct LineError {
    /// The number of the command's line in the file.
    pub line: u32,
    /// The error.
    pub error: CommandError,
}

impl CommandError {
    pub(super) fn data(message: impl Into<String>) -> Self {
        Self { message: message.into(), text: String::new(), exit_code: 65 }
    }

    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self { message: message.into(), text: String::new(), exit_code: 69 }
    }

    pub(super) fn system(message: impl Into<String>) -> Self {
        Self { message: message.into(), text: String::new(), exit_code: 71 }
    }
}

impl From<String> for RuleCommandReply {
    fn from(text: String) -> Self {
        Self { text, shaper: None }
    }
}

impl Firewall {
    /// Parses and executes a file of commands, either completely or not at all. Packets never see a
    /// partial change.
    ///
    /// # Errors
    /// [`CommandFileError`], which names the line. In this case no command had an effect.
    pub fn load(
        &mut self,
        text: &str,
        now_ns: u64,
    ) -> Result<Vec<RuleCommandReply>, CommandFileError> {
        self.batch(&parse_file(text)?, now_ns, CommandFlags::default())
    }

    /// Executes commands, either all or none; returns their replies. A rule that is removed and
    /// added again unchanged remains the same rule, with its counters and states.
    ///
    /// # Errors
    /// [`CommandFileError::Commands`], which names the lines. In this case no command had an
    /// effect.
    pub fn batch(
        &mut self,
        commands: &[(u32, IpfwCommand)],
        now_ns: u64,
        flags: CommandFlags,
    ) -> Result<Vec<RuleCommandReply>, CommandFileError> {
        let saved: IpfwConfig = self.config.clone();
        let nptv6 = self.translators.nptv6_counters();
        let (lifetimes, max, keepalive) =
            (self.states.lifetimes, self.states.max, self.states.keepalive);
        let (mut replies, mut mistakes) = (Vec::with_capacity(commands.len()), Vec::new());
        for &(line, ref command) in commands {
            match self.apply(command, now_ns, flags) {
                Ok(reply) => replies.push(reply),
                Err(error) => mistakes.push(LineError { line, error }),
            }
            if mistakes.len() == MAX_LINE_ERRORS {
                break;
            }
        }
        if !mistakes.is_empty() {
            self.config = saved;
            self.translators.set_nptv6_counters(nptv6);
            self.removed_rules.clear();
            self.pending_states.clear();
            (self.states.lifetimes, self.states.max, self.states.keepalive) =
                (lifetimes, max, keepalive);
            return Err(CommandFileError::Commands(mistakes));
        }
        let stayed = self.config.list.recognize(&saved.list);
        self.removed_rules.retain(|id| stayed.binary_search(id).is_err());
        drop(saved);
        self.settle_states();
        self.settle_restoring(now_ns);
        self.config.tables.settle();
        self.translators.settle(&self.config);
        self.compile();
        Ok(replies)
    }

    /// Executes one command; returns its reply.
    ///
    /// # Errors
    /// [`CommandError`] if the command failed. What the command did before the error remains: it
    /// may have changed rules or objects in the ranges before the one that is missing, created
    /// tables for a rule, and changed the table entries that the error's text lists.
    pub fn execute(
        &mut self,
        command: &IpfwCommand,
        now_ns: u64,
        flags: CommandFlags,
    ) -> Result<RuleCommandReply, CommandError> {
        let reply = self.apply(command, now_ns, flags);
        self.settle_states();
        self.settle_one(now_ns)?;
        match rebuild_scope(command) {
            RebuildScope::Rules => {
                // An `add` command may have created tables: those that its rule names and that did
                // not exist.
                self.config.tables.settle();
                self.compile();
            }
            RebuildScope::Tables => self.config.tables.settle(),
            RebuildScope::Translators => self.translators.settle(&self.config),
            RebuildScope::Else => {}
        }
        reply
    }

    /// Removes the states of deleted rules, or moves them to the default rule.
    fn settle_states(&mut self) {
        let mut gone = core::mem::take(&mut self.removed_rules);
        if gone.is_empty() {
            return;
        }
        gone.sort_unstable();
        let picked = |rule: u64| gone.binary_search(&rule).is_ok();
        if self.config.settings.dyn_keep_states {
            self.states.adopt(|state| picked(state.rule), 0, DEFAULT_RULE);
        } else {
            self.states.remove_where(|state| picked(state.rule));
        }
    }

    fn apply(
        &mut self,
        command: &IpfwCommand,
        now: u64,
        flags: CommandFlags,
    ) -> Result<RuleCommandReply, CommandError> {
        let quiet =
            |text: String| Ok(if flags.quiet { RuleCommandReply::default() } else { text.into() });
        match command {
            IpfwCommand::Add(add) => quiet(self.add(add, flags)?),
            IpfwCommand::Delete(what) => self.delete(what, flags).map(RuleCommandReply::from),
            IpfwCommand::List { counters, set, ranges } => {
                let options = ListOptions {
                    counters: *counters || flags.list.counters,
                    set: *set,
                    ..flags.list
                };
                self.list(ranges, options, now).map(RuleCommandReply::from)
            }
            IpfwCommand::Zero { set, ranges } => quiet(self.zero(*set, ranges)?),
            IpfwCommand::ResetLog { set, ranges } => quiet(self.reset_log(*set, ranges)?),
            IpfwCommand::Flush { set } => {
                let gone = self.config.list.remove(|entry| match set {
                    Some(set) => entry.rule.set == *set,
                    None => entry.rule.set != RESERVED_SET,
                });
                self.removed_rules.extend(gone);
                quiet("Flushed all rules.\n".into())
            }
            IpfwCommand::Set(change) => self.change_sets(change).map(RuleCommandReply::from),
            IpfwCommand::Table(table) => self.table(table, flags).map(RuleCommandReply::from),
            IpfwCommand::Shaper(shaper) => {
                Ok(RuleCommandReply { text: String::new(), shaper: Some(shaper.clone()) })
            }
            IpfwCommand::Nat(nat @ NatCommand::Config { .. }) => {
                quiet(self.nat_command(nat, flags.force)?)
            }
            IpfwCommand::Nat(nat) => self.nat_command(nat, flags.force).map(RuleCommandReply::from),
            IpfwCommand::Nptv6(nptv6) => self.nptv6_command(nptv6).map(RuleCommandReply::from),
            IpfwCommand::Switch { switch, on } => {
                self.switch(*switch, *on);
                Ok(RuleCommandReply::default())
            }
            IpfwCommand::Sysctl { name, value } => {
                self.sysctl(name, *value).map(RuleCommandReply::from)
            }
            IpfwCommand::State(state) => {
                self.pending_states.push((**state).clone());
                Ok(RuleCommandReply::default())
            }
        }
    }

    fn add(&mut self, add: &AddRule, flags: CommandFlags) -> Result<String, CommandError> {
        let mut rule = add.rule.clone();
        self.check_translator(&rule.action)?;
        self.check_hop(&rule.action)?;
        if self.config.list.len() >= MAX_RULES {
            let message = format!("there are {MAX_RULES} rules, the most there can be");
            return Err(CommandError::system(message));
        }
        let settings = self.config.settings;
        if let Some(log) = rule.log.as_mut().filter(|_| settings.verbose_limit != 0) {
            log.amount.get_or_insert(settings.verbose_limit);
        }
        self.make_missing_tables(&rule)?;
        let shown = rule.clone();
        let number = self.config.list.add(add.number, rule, settings.autoinc_step);
        Ok(format!("{number:05} {}\n", StyledRule(&shown, flags.list.style)))
    }

    /// Checks that the port named by `fwd` exists.
    fn check_hop(&self, action: &RuleAction) -> Result<(), CommandError> {
        match action {
            RuleAction::Forward(NextHop::Port(name)) if !self.config.ports.contains(name) => {
                let ports = self.config.ports.join(", ");
                Err(CommandError::missing(format!("there is no port {name}: there are {ports}")))
            }
            _ => Ok(()),
        }
    }

    fn delete(&mut self, what: &DeleteTarget, flags: CommandFlags) -> Result<String, CommandError> {
        let (set, ranges) = match what {
            DeleteTarget::Set(set) => {
                let gone = self.config.list.remove(|entry| entry.rule.set == *set);
                self.removed_rules.extend(gone);
                return Ok(String::new());
            }
            DeleteTarget::Rules { set, ranges } => (set, ranges),
        };
        for range in ranges {
            let gone = self.config.list.remove(|entry| {
                range.holds(entry.number) && set.is_none_or(|set| entry.rule.set == set)
            });
            if gone.is_empty() && !flags.force {
                return Err(CommandError::missing(format!("rule {range} not found")));
            }
            self.removed_rules.extend(gone);
        }
        Ok(String::new())
    }

    fn zero(&mut self, set: Option<u8>, ranges: &[NumberRange]) -> Result<String, CommandError> {
        let zero = |counters: &mut super::list::RuleCounters| *counters = Default::default();
        self.reset(set, ranges, zero, ("Accounting cleared.", "cleared"))
    }

    fn reset_log(
        &mut self,
        set: Option<u8>,
        ranges: &[NumberRange],
    ) -> Result<String, CommandError> {
        let reset = |counters: &mut super::list::RuleCounters| counters.logged = 0;
        self.reset(set, ranges, reset, ("Logging counts reset.", "logging count reset"))
    }

    fn reset(
        &mut self,
        set: Option<u8>,
        ranges: &[NumberRange],
        change: impl Fn(&mut super::list::RuleCounters) + Copy,
        (all, one): (&str, &str),
    ) -> Result<String, CommandError> {
        let of_set = |rule_set: u8| set.is_none_or(|set| set == rule_set);
        if ranges.is_empty() {
            self.config.list.reset(|entry| of_set(entry.rule.set), change);
            return Ok(format!("{all}\n"));
        }
        let mut text = String::new();
        for range in ranges {
            let picked = |entry: &super::list::RuleEntry| {
                range.holds(entry.number) && of_set(entry.rule.set)
            };
            if self.config.list.reset(picked, change) == 0 {
                let missing = CommandError::missing(format!("Entry {range} not found"));
                return Err(CommandError { text, ..missing });
            }
            text.push_str(&format!("Entry {range} {one}.\n"));
        }
        Ok(text)
    }

    fn change_sets(&mut self, change: &SetCommand) -> Result<String, CommandError> {
        match *change {
            SetCommand::Show => return Ok(self.show_sets()),
            SetCommand::Change { disable, enable } => {
                let spared = 1 << RESERVED_SET;
                let disabled = &mut self.config.disabled_sets;
                *disabled = (*disabled | disable) & !enable & !spared;
            }
            SetCommand::Swap(one, other) => {
                self.config.list.change_sets(|entry| match entry.rule.set {
                    set if set == one => other,
                    set if set == other => one,
                    set => set,
                })
            }
            SetCommand::Move { from, to } => self
                .config
                .list
                .change_sets(|entry| if entry.rule.set == from { to } else { entry.rule.set }),
            SetCommand::MoveRule { rule, to } => {
                if !self.config.list.iter().any(|(entry, _)| entry.number == rule) {
                    return Err(CommandError::missing(format!("rule {rule} not found")));
                }
                self.config
                    .list
                    .change_sets(|entry| if entry.number == rule { to } else { entry.rule.set });
            }
        }
        Ok(String::new())
    }

    fn switch(&mut self, switch: EnableTarget, on: bool) {
        let settings = &mut self.config.settings;
        match switch {
            EnableTarget::Firewall => settings.enable = on,
            EnableTarget::OnePass => settings.one_pass = on,
            EnableTarget::Debug => settings.debug = on.into(),
            EnableTarget::Verbose => settings.verbose = on,
            EnableTarget::DynKeepalive => self.states.keepalive = on,
            EnableTarget::SkipToCache => {}
        }
    }

    fn sysctl(&mut self, name: &str, value: Option<u32>) -> Result<String, CommandError> {
        if name.is_empty() {
            let all = settings::names().chain(READ_ONLY.iter().copied());
            return Ok(all.filter_map(|name| self.sysctl_line(name)).collect());
        }
        let before = self.sysctl_value(name);
        let unknown =
            || CommandError::missing(format!("unknown oid '{name}'; `sysctl -a` lists all names"));
        let before = before.ok_or_else(unknown)?;
        match value {
            None => Ok(format!("{name}: {before}\n")),
            Some(value) => {
                let set = self.config.settings.set(&mut self.states, name, value);
                set.map_err(|error| CommandError::data(error.to_string()))?;
                Ok(format!("{name}: {before} -> {value}\n"))
            }
        }
    }

    fn sysctl_line(&self, name: &str) -> Option<String> {
        Some(format!("{name}: {}\n", self.sysctl_value(name)?))
    }

    fn sysctl_value(&self, name: &str) -> Option<u32> {
        if !settings::names().chain(READ_ONLY.iter().copied()).any(|known| known == name) {
            return None;
        }
        Some(match name {
            "net.inet.ip.fw.default_rule" => DEFAULT_RULE.into(),
            "net.inet.ip.fw.static_count" => self.config.list.len() as u32,
            "net.inet.ip.fw.dyn_count" => self.states.len() as u32,
            _ => return self.config.settings.get(&self.states, name),
        })
    }
}

/// What has to be rebuilt after a command.
enum RebuildScope {
    Rules,
    Tables,
    Translators,
    Else,
}

const fn rebuild_scope(command: &IpfwCommand) -> RebuildScope {
    match command {
        IpfwCommand::Add(_)
        | IpfwCommand::Delete(_)
        | IpfwCommand::Flush { .. }
        | IpfwCommand::Set(_) => RebuildScope::Rules,
        IpfwCommand::Table(_) => RebuildScope::Tables,
        IpfwCommand::Nat(_) | IpfwCommand::Nptv6(_) => RebuildScope::Translators,
        IpfwCommand::List { .. }
        | IpfwCommand::Zero { .. }
        | IpfwCommand::ResetLog { .. }
        | IpfwCommand::Shaper(_)
        | IpfwCommand::Switch { .. }
        | IpfwCommand::State(_)
        | IpfwCommand::Sysctl { .. } => RebuildScope::Else,
    }
}

impl NumberRange {
    /// Returns whether the range contains `number`.
    #[must_use]
    pub const fn holds(&self, number: u16) -> bool {
        self.first <= number && number <= self.last
    }
}

impl core::fmt::Display for NumberRange {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.first == self.last {
            return write!(f, "{}", self.first);
        }
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl Default for ListOptions {
    fn default() -> Self {
        Self {
            counters: false,
            times: super::show::TimeFormat::None,
            states: StateListing::None,
            sets: false,
            style: RuleStyle::default(),
            set: None,
        }
    }
}
