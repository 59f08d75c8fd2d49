//! Commands, one by one and in batches.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::config::Config;
use super::engine::Firewall;
use super::settings::{self, READ_ONLY};
use super::show::{ListOptions, StatesShown};
use crate::rule::{Action, DEFAULT_RULE, Hop, RESERVED_SET};
use crate::text::{
    Add, Command, DeleteWhat, NatCommand, NumberRange, SetCommand, ShaperCommand, Style, Switch,
    TextError, WithStyle, parse_file,
};

/// Rules at most. Ten thousand are many; a quarter of a million take a gigabyte and seconds.
const MOST_RULES: usize = 1 << 18;

/// How commands behave: the flags of the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// `-q`: says nothing, and `table add` changes what is there.
    pub quiet: bool,
    /// `-f`: what is not there is no error.
    pub force: bool,
    /// `-i`: values of tables as addresses.
    pub values_as_ip: bool,
    /// How rules are listed.
    pub list: ListOptions,
}

/// What a command says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// Lines for the output.
    pub text: String,
    /// What the shaper has to do; the caller hands it on once all commands have succeeded.
    pub shaper: Option<ShaperCommand>,
}

/// Why a command is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    /// What is wrong.
    pub message: String,
    /// Lines for the output all the same.
    pub text: String,
    /// The exit code of sysexits(3).
    pub exit_code: u8,
}

/// Mistakes of a file that are told.
pub const MOST_MISTAKES: usize = 20;

/// Why a file of commands is not carried out: none of them was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// A line is no command.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Commands cannot be carried out: the first [`MOST_MISTAKES`] of them.
    #[error("{}", .0.iter().map(Mistake::to_string).collect::<Vec<_>>().join("\n"))]
    Commands(Vec<Mistake>),
}

/// A command of a file that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {error}")]
pub struct Mistake {
    /// Its line.
    pub line: u32,
    /// Why.
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

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self { text, shaper: None }
    }
}

impl Firewall {
    /// Reads and carries out a file of commands, wholly or not at all. Packets never see half.
    ///
    /// # Errors
    /// [`BatchError`] names the line; nothing has changed.
    pub fn load(&mut self, text: &str, now_ns: u64) -> Result<Vec<Reply>, BatchError> {
        self.batch(&parse_file(text)?, now_ns, Manner::default())
    }

    /// Carries out commands, all or none. A rule that is taken out and put in again as it was is the
    /// old one, with its counters and states.
    ///
    /// # Errors
    /// [`BatchError::Commands`] names the lines; nothing has changed.
    pub fn batch(
        &mut self,
        commands: &[(u32, Command)],
        now_ns: u64,
        manner: Manner,
    ) -> Result<Vec<Reply>, BatchError> {
        let saved: Config = self.config.clone();
        let (lifetimes, max, keepalive) =
            (self.states.lifetimes, self.states.max, self.states.keepalive);
        let (mut replies, mut mistakes) = (Vec::with_capacity(commands.len()), Vec::new());
        for &(line, ref command) in commands {
            match self.apply(command, now_ns, manner) {
                Ok(reply) => replies.push(reply),
                Err(error) => mistakes.push(Mistake { line, error }),
            }
            if mistakes.len() == MOST_MISTAKES {
                break;
            }
        }
        if !mistakes.is_empty() {
            self.config = saved;
            self.gone.clear();
            self.restoring.clear();
            (self.states.lifetimes, self.states.max, self.states.keepalive) =
                (lifetimes, max, keepalive);
            return Err(BatchError::Commands(mistakes));
        }
        let stayed = self.config.list.recognize(&saved.list);
        self.gone.retain(|id| stayed.binary_search(id).is_err());
        drop(saved);
        self.settle_states();
        self.settle_restoring(now_ns);
        self.config.tables.settle();
        self.translators.settle(&self.config);
        self.compile();
        Ok(replies)
    }

    /// Carries out one command.
    ///
    /// # Errors
    /// [`CommandError`]; nothing has changed, but for tables whose entries say so in its text.
    pub fn execute(
        &mut self,
        command: &Command,
        now_ns: u64,
        manner: Manner,
    ) -> Result<Reply, CommandError> {
        let reply = self.apply(command, now_ns, manner);
        self.settle_states();
        self.settle_one(now_ns)?;
        match what_changes(command) {
            Changes::Rules => {
                // Rules make tables that are not there.
                self.config.tables.settle();
                self.compile();
            }
            Changes::Tables => self.config.tables.settle(),
            Changes::Translators => self.translators.settle(&self.config),
            Changes::Else => {}
        }
        reply
    }

    /// States of rules that are gone go too, or hang off the default rule.
    fn settle_states(&mut self) {
        let mut gone = core::mem::take(&mut self.gone);
        if gone.is_empty() {
            return;
        }
        gone.sort_unstable();
        let picked = |rule: u64| gone.binary_search(&rule).is_ok();
        if self.config.settings.dyn_keep_states {
            self.states.adopt(|state| picked(state.rule), 0, DEFAULT_RULE);
        } else {
            self.states.forget(|state| picked(state.rule));
        }
    }

    fn apply(
        &mut self,
        command: &Command,
        now: u64,
        manner: Manner,
    ) -> Result<Reply, CommandError> {
        let quiet = |text: String| Ok(if manner.quiet { Reply::default() } else { text.into() });
        match command {
            Command::Add(add) => quiet(self.add(add, manner)?),
            Command::Delete(what) => self.delete(what, manner).map(Reply::from),
            Command::List { counters, set, ranges } => {
                let options = ListOptions {
                    counters: *counters || manner.list.counters,
                    set: *set,
                    ..manner.list
                };
                self.list(ranges, options, now).map(Reply::from)
            }
            Command::Zero { set, ranges } => quiet(self.zero(*set, ranges)?),
            Command::ResetLog { set, ranges } => quiet(self.reset_log(*set, ranges)?),
            Command::Flush { set } => {
                let gone = self.config.list.remove(|entry| match set {
                    Some(set) => entry.rule.set == *set,
                    None => entry.rule.set != RESERVED_SET,
                });
                self.gone.extend(gone);
                quiet("Flushed all rules.\n".into())
            }
            Command::Set(change) => self.change_sets(change).map(Reply::from),
            Command::Table(table) => self.table(table, manner).map(Reply::from),
            Command::Shaper(shaper) => {
                Ok(Reply { text: String::new(), shaper: Some(shaper.clone()) })
            }
            Command::Nat(nat @ NatCommand::Config { .. }) => {
                quiet(self.nat_command(nat, manner.force)?)
            }
            Command::Nat(nat) => self.nat_command(nat, manner.force).map(Reply::from),
            Command::Nptv6(nptv6) => self.nptv6_command(nptv6).map(Reply::from),
            Command::Switch { switch, on } => {
                self.switch(*switch, *on);
                Ok(Reply::default())
            }
            Command::Sysctl { name, value } => self.sysctl(name, *value).map(Reply::from),
            Command::State(state) => {
                self.restoring.push((**state).clone());
                Ok(Reply::default())
            }
        }
    }

    fn add(&mut self, add: &Add, manner: Manner) -> Result<String, CommandError> {
        let mut rule = add.rule.clone();
        self.check_translator(&rule.action)?;
        self.check_hop(&rule.action)?;
        if self.config.list.len() >= MOST_RULES {
            let message = format!("there are {MOST_RULES} rules, the most there can be");
            return Err(CommandError::system(message));
        }
        let settings = self.config.settings;
        if let Some(log) = rule.log.as_mut().filter(|_| settings.verbose_limit != 0) {
            log.amount.get_or_insert(settings.verbose_limit);
        }
        self.make_missing_tables(&rule)?;
        let shown = rule.clone();
        let number = self.config.list.add(add.number, rule, settings.autoinc_step);
        Ok(format!("{number:05} {}\n", WithStyle(&shown, manner.list.style)))
    }

    /// A port that `fwd` names must be there.
    fn check_hop(&self, action: &Action) -> Result<(), CommandError> {
        match action {
            Action::Forward(Hop::Port(name)) if !self.config.ports.contains(name) => {
                let ports = self.config.ports.join(", ");
                Err(CommandError::missing(format!("there is no port {name}: there are {ports}")))
            }
            _ => Ok(()),
        }
    }

    fn delete(&mut self, what: &DeleteWhat, manner: Manner) -> Result<String, CommandError> {
        let (set, ranges) = match what {
            DeleteWhat::Set(set) => {
                let gone = self.config.list.remove(|entry| entry.rule.set == *set);
                self.gone.extend(gone);
                return Ok(String::new());
            }
            DeleteWhat::Rules { set, ranges } => (set, ranges),
        };
        for range in ranges {
            let gone = self.config.list.remove(|entry| {
                range.holds(entry.number) && set.is_none_or(|set| entry.rule.set == set)
            });
            if gone.is_empty() && !manner.force {
                return Err(CommandError::missing(format!("rule {range} not found")));
            }
            self.gone.extend(gone);
        }
        Ok(String::new())
    }

    fn zero(&mut self, set: Option<u8>, ranges: &[NumberRange]) -> Result<String, CommandError> {
        let zero = |counters: &mut super::list::Counters| *counters = Default::default();
        self.reset(set, ranges, zero, ("Accounting cleared.", "cleared"))
    }

    fn reset_log(
        &mut self,
        set: Option<u8>,
        ranges: &[NumberRange],
    ) -> Result<String, CommandError> {
        let reset = |counters: &mut super::list::Counters| counters.logged = 0;
        self.reset(set, ranges, reset, ("Logging counts reset.", "logging count reset"))
    }

    fn reset(
        &mut self,
        set: Option<u8>,
        ranges: &[NumberRange],
        change: impl Fn(&mut super::list::Counters) + Copy,
        (all, one): (&str, &str),
    ) -> Result<String, CommandError> {
        let of_set = |rule_set: u8| set.is_none_or(|set| set == rule_set);
        if ranges.is_empty() {
            self.config.list.reset(|entry| of_set(entry.rule.set), change);
            return Ok(format!("{all}\n"));
        }
        let mut text = String::new();
        for range in ranges {
            let picked =
                |entry: &super::list::Entry| range.holds(entry.number) && of_set(entry.rule.set);
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

    fn switch(&mut self, switch: Switch, on: bool) {
        let settings = &mut self.config.settings;
        match switch {
            Switch::Firewall => settings.enable = on,
            Switch::OnePass => settings.one_pass = on,
            Switch::Debug => settings.debug = on.into(),
            Switch::Verbose => settings.verbose = on,
            Switch::DynKeepalive => self.states.keepalive = on,
            Switch::SkipToCache => {}
        }
    }

    fn sysctl(&mut self, name: &str, value: Option<u32>) -> Result<String, CommandError> {
        if name.is_empty() {
            let all = settings::names().chain(READ_ONLY.iter().copied());
            return Ok(all.filter_map(|name| self.sysctl_line(name)).collect());
        }
        let before = self.sysctl_value(name);
        let unknown = || CommandError::missing(format!("unknown oid '{name}'"));
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

/// What has to be made ready again after a command.
enum Changes {
    Rules,
    Tables,
    Translators,
    Else,
}

const fn what_changes(command: &Command) -> Changes {
    match command {
        Command::Add(_) | Command::Delete(_) | Command::Flush { .. } | Command::Set(_) => {
            Changes::Rules
        }
        Command::Table(_) => Changes::Tables,
        Command::Nat(_) | Command::Nptv6(_) => Changes::Translators,
        Command::List { .. }
        | Command::Zero { .. }
        | Command::ResetLog { .. }
        | Command::Shaper(_)
        | Command::Switch { .. }
        | Command::State(_)
        | Command::Sysctl { .. } => Changes::Else,
    }
}

impl NumberRange {
    /// Whether a number lies in it.
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
            times: super::show::Times::None,
            states: StatesShown::None,
            sets: false,
            style: Style::default(),
            set: None,
        }
    }
}
