//! A list of commands that a user submits to a firewall.

use serde::{Deserialize, Serialize};
use slipring_dummynet::show::RowOrder;
use slipring_dummynet::text::{DummynetCommand as ShaperCommand, QueueCaps};
use slipring_dummynet::{SYSCTL_PREFIX, ShaperConfig, text};
use slipring_ipfw::run::{CommandFlags, ListOptions, MAX_LINE_ERRORS, StateListing, TimeFormat};
use slipring_ipfw::table::{TableKey, TableValue};
use slipring_ipfw::text::{
    IpfwCommand, RuleStyle, RuleTextError, RuleTextErrorKind, ShaperCommand as ShaperText,
    TableCommand, TableOptions, TableScope, TableVerb, parse_command, parse_file, parse_lines,
    printable,
};
use slipring_model::format::DummynetProfile;
use std::collections::BTreeMap;

use crate::save;

/// Exit codes of sysexits(3).
pub mod sysexits {
    /// The command line or the command is used wrongly.
    pub const USAGE: u8 = 64;
    /// The input has mistakes.
    pub const DATA: u8 = 65;
    /// An input file cannot be read.
    pub const NO_INPUT: u8 = 66;
    /// The rule, the pipe or the firewall does not exist.
    pub const UNAVAILABLE: u8 = 69;
    /// The operating system refused an operation.
    pub const SYSTEM: u8 = 71;
    /// The peer sent an invalid reply.
    pub const PROTOCOL: u8 = 76;
}

/// Maximum number of mistakes that are reported for one file.
pub const MAX_FAULTS: usize = MAX_LINE_ERRORS;

/// Commands to carry out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandBatch {
    /// The commands, one per line. If `is_file` is set, there may also be comments and empty lines.
    pub text: String,
    /// Whether the commands come from a file. If they do, either all or none are executed, and
    /// errors name the line.
    #[serde(default)]
    pub is_file: bool,
    /// Letters of the command-line flags, such as `q` for `-q`.
    #[serde(default)]
    pub flags: String,
    /// The argument of the flag `-s`: the counter by which listings of pipes are sorted.
    #[serde(default)]
    pub sort: i32,
    /// The contents of the delay profile files that the batch's pipes name, by file name.
    #[serde(default)]
    pub profiles: BTreeMap<String, String>,
    /// Whether replies are also requested as JSON values.
    #[serde(default)]
    pub json: bool,
}

/// The result of a batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CommandOutcome {
    /// The text that the commands printed.
    pub text: String,
    /// The result as JSON; `None` if JSON was not requested, or the command has no JSON result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<serde_json::Value>,
    /// Why the batch failed; `None` if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<CommandFault>,
    /// Hints about executed commands that are probably not what the user intended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandFault {
    /// What is wrong, and where.
    pub message: String,
    /// A description of the text that would be valid there; `None` if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// Advice to the user, for a mistake that cannot be corrected by replacing a word; `None` if
    /// there is no advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The exit code of sysexits(3).
    pub exit: u8,
}

/// A fault, with the number of the line that caused it.
pub type LineFault = (u32, CommandFault);

impl CommandFault {
    /// Adds the line of a file to the fault. The exit code becomes [`sysexits::DATA`], which
    /// replaces the command's own code.
    pub fn at_line(mut self, line: u32) -> Self {
        self.message = format!("line {line}: {}", self.message);
        self.exit = sysexits::DATA;
        self
    }

    /// Makes a fault with an exit code of [`sysexits`].
    pub fn new(message: impl Into<String>, exit: u8) -> Self {
        // Control characters are escaped, so that no terminal interprets them. Line breaks are
        // kept.
        let message = message.into();
        let lines = message.split('\n').map(printable).collect::<Vec<_>>().join("\n");
        Self { message: lines, expected: None, help: None, exit }
    }
}

/// A parsed command, for the rules, for the shaper, or for both.
#[derive(Debug, Clone)]
pub struct CommandStep {
    /// The number of the command's line, counted from 1.
    pub line: u32,
    /// The command for the rules.
    pub command: IpfwCommand,
    /// The command for the shaper; `None` if the command is only for the rules.
    pub shaper: Option<ShaperCommand>,
}

impl CommandStep {
    /// Returns the maximum queue lengths that apply after this step. `caps` are those that apply
    /// before it.
    pub fn caps_after(&self, caps: QueueCaps) -> QueueCaps {
        match &self.shaper {
            Some(ShaperCommand::Sysctl(name, Some(value))) => caps.with_sysctl(name, *value),
            _ => caps,
        }
    }
}

/// Returns a command without an effect, for the field `command` of a step that only concerns the
/// shaper.
fn nothing() -> IpfwCommand {
    IpfwCommand::Shaper(ShaperText { text: String::new(), column: 1 })
}

impl CommandBatch {
    /// Returns whether a flag was given.
    pub fn has_flag(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    /// Parses all commands. `caps` are the initial maximum lengths of queues. A command may change
    /// them for later commands.
    ///
    /// # Errors
    /// A [`CommandFault`] that lists the mistakes, at most [`MAX_FAULTS`] of them.
    pub fn steps(&self, caps: QueueCaps) -> Result<Vec<CommandStep>, CommandFault> {
        let (steps, faults) = self.read(caps)?;
        merge_line_faults(faults).map_or(Ok(steps), Err)
    }

    /// Parses the commands, up to the first [`MAX_FAULTS`] mistakes. Returns the valid commands,
    /// and each mistake with its line.
    ///
    /// # Errors
    /// [`CommandFault`] if the file was written by `ipfw save` and is truncated.
    pub fn read(
        &self,
        mut caps: QueueCaps,
    ) -> Result<(Vec<CommandStep>, Vec<LineFault>), CommandFault> {
        self.is_whole()?;
        let (mut commands, mut steps, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        let text = if self.is_file { without_flags(&self.text) } else { String::new() };
        let one = (!self.is_file).then(|| (1, parse_command(&self.text)));
        for (line, read) in parse_lines(&text).chain(one) {
            let read = read.map_err(|error| self.fault(error)).and_then(|command| {
                commands.push((line, command.clone()));
                self.step(line, command, &caps)
            });
            match read {
                Ok(step) => {
                    caps = step.caps_after(caps);
                    steps.push(step);
                }
                Err(fault) => faults.push((line, fault)),
            }
            if faults.len() == MAX_FAULTS {
                break;
            }
        }
        faults.extend(self.check_entries(&commands));
        Ok((steps, faults))
    }

    /// Returns an error if the text was written by `ipfw save` and is truncated.
    fn is_whole(&self) -> Result<(), CommandFault> {
        let Some(line) = self.is_file.then(|| save::truncated_at(&self.text)).flatten() else {
            return Ok(());
        };
        let message = format!("line {line}: the end of what was saved is not there");
        let expected = "the whole file; what is left of it loads once its first line is removed";
        let fault = CommandFault::new(message, sysexits::DATA);
        Err(CommandFault { expected: Some(expected.to_owned()), ..fault })
    }

    fn fault(&self, error: RuleTextError) -> CommandFault {
        let exit = match error.kind {
            RuleTextErrorKind::Usage => sysexits::USAGE,
            RuleTextErrorKind::Data | RuleTextErrorKind::Refused => sysexits::DATA,
        };
        let message = self.with_position(error.line, error.column, &error.message);
        CommandFault { message, expected: Some(error.expected), help: None, exit }
    }

    /// Checks the keys and values of tables that the same batch creates, and returns the mistakes.
    /// So they are found before the batch is sent to a firewall.
    fn check_entries(&self, commands: &[(u32, IpfwCommand)]) -> Vec<LineFault> {
        let (mut made, mut faults) = (BTreeMap::new(), Vec::new());
        for (line, command) in commands {
            let IpfwCommand::Table(TableCommand { scope: TableScope::One(name), set, verb }) =
                command
            else {
                continue;
            };
            match verb {
                // If the table already exists, it keeps its options, which are unknown here. So
                // entries for it are not checked.
                TableVerb::Create(options) if options.missing || options.or_flush => {
                    made.remove(&(*set, name));
                }
                TableVerb::Create(options) => drop(made.insert((*set, name), options)),
                TableVerb::Destroy => drop(made.remove(&(*set, name))),
                TableVerb::Swap(other) => {
                    made.remove(&(*set, name));
                    made.remove(&(*set, other));
                }
                TableVerb::Add { entries, .. } => {
                    let Some(options) = made.get(&(*set, name)) else { continue };
                    let wrong = entries.iter().filter_map(|(key, value)| {
                        let checked = self.check_entry(*line, (key, value.as_deref()), options);
                        Some((*line, checked.err()?))
                    });
                    faults.extend(wrong.take(MAX_FAULTS - faults.len()));
                }
                _ => {}
            }
        }
        faults
    }

    fn check_entry(
        &self,
        line: u32,
        (key, value): (&str, Option<&str>),
        options: &TableOptions,
    ) -> Result<(), CommandFault> {
        let wrong = |word: &str, message: &dyn std::fmt::Display| {
            let text = self.text.lines().nth(line as usize - 1).unwrap_or("");
            let before = text.find(word).map_or("", |at| &text[..at]);
            let column = before.chars().count() as u32 + 1;
            CommandFault::new(
                self.with_position(line, column, &message.to_string()),
                sysexits::DATA,
            )
        };
        TableKey::for_table(key, options).map_err(|error| wrong(key, &error))?;
        let value = value.map(|value| (value, TableValue::parse(value, options.values)));
        match value {
            Some((value, Err(error))) => Err(wrong(value, &error)),
            _ => Ok(()),
        }
    }

    fn with_position(&self, line: u32, column: u32, message: &str) -> String {
        match self.is_file {
            true => format!("line {line}, column {column}: {message}"),
            false => format!("column {column}: {message}"),
        }
    }

    fn step(
        &self,
        line: u32,
        command: IpfwCommand,
        caps: &QueueCaps,
    ) -> Result<CommandStep, CommandFault> {
        let shaper = match &command {
            IpfwCommand::Shaper(shaper) => shaper,
            IpfwCommand::Sysctl { name, value } => {
                let is_all = name.is_empty();
                let shaper = ShaperCommand::Sysctl(name.clone(), *value);
                return Ok(match is_all || name.starts_with(SYSCTL_PREFIX) {
                    false => CommandStep { line, command, shaper: None },
                    true if is_all => CommandStep { line, command, shaper: Some(shaper) },
                    // The rules have no sysctl with this prefix, so the step is only for the
                    // shaper.
                    true => CommandStep { line, command: nothing(), shaper: Some(shaper) },
                });
            }
            _ => return Ok(CommandStep { line, command, shaper: None }),
        };
        let parsed = text::DummynetCommand::parse_within(&shaper.text, caps).map_err(|error| {
            let column = shaper.column + error.column as u32 - 1;
            let message = self.with_position(line, column, &error.what);
            CommandFault {
                message,
                expected: Some(error.expected),
                help: None,
                exit: sysexits::DATA,
            }
        })?;
        let parsed = self.with_profile(parsed, line)?;
        Ok(CommandStep { line, command, shaper: Some(parsed) })
    }

    /// If a pipe names a delay profile, adds the profile's contents to the pipe's configuration.
    fn with_profile(
        &self,
        command: ShaperCommand,
        line: u32,
    ) -> Result<ShaperCommand, CommandFault> {
        let ShaperCommand::ConfigWithProfile(mut config, name) = command else {
            return Ok(command);
        };
        let missing = || {
            let message = format!("line {line}: the profile {name} cannot be read");
            CommandFault::new(message, sysexits::NO_INPUT)
        };
        let text = self.profiles.get(&name).ok_or_else(missing)?;
        let profile = DummynetProfile::parse(text).map_err(|error| {
            CommandFault::new(format!("profile {name}: {error}"), sysexits::DATA)
        })?;
        if let ShaperConfig::Pipe(_, pipe) = &mut config {
            pipe.load(&profile);
        }
        Ok(ShaperCommand::Config(config))
    }

    /// Returns the names of the delay profiles that the pipes of a text use.
    pub fn profiles_of(text: &str, is_file: bool) -> Vec<String> {
        let order = Self { text: text.to_owned(), is_file, ..Self::default() };
        let commands = if is_file {
            parse_file(&without_flags(&order.text)).unwrap_or_default()
        } else {
            parse_command(&order.text).map(|command| vec![(1, command)]).unwrap_or_default()
        };
        let named = commands.iter().filter_map(|(_, command)| match command {
            IpfwCommand::Shaper(shaper) => {
                match text::DummynetCommand::parse_within(&shaper.text, &QueueCaps::NONE) {
                    Ok(ShaperCommand::ConfigWithProfile(_, name)) => Some(name),
                    _ => None,
                }
            }
            _ => None,
        });
        named.collect()
    }

    /// Returns the sort order of pipe listings.
    pub const fn rows(&self) -> RowOrder {
        RowOrder(self.sort)
    }

    /// Converts the flag letters to [`CommandFlags`].
    pub fn options(&self) -> CommandFlags {
        let has = |flag| self.has_flag(flag);
        let times = match (has('T'), has('t')) {
            (true, _) => TimeFormat::Seconds,
            (_, true) => TimeFormat::Calendar,
            _ => TimeFormat::None,
        };
        let states = match (has('D'), has('e'), has('d')) {
            (true, ..) => StateListing::Only,
            (_, true, _) => StateListing::All,
            (_, _, true) => StateListing::Living,
            _ => StateListing::None,
        };
        let style = RuleStyle {
            compact: has('c') || has('b'),
            brief: has('b'),
            names: has('N'),
            exact: false,
        };
        let list =
            ListOptions { counters: has('a'), times, states, sets: has('S'), style, set: None };
        CommandFlags { quiet: has('q'), force: has('f'), values_as_ip: has('i'), list }
    }
}

/// Merges faults into one fault that lists them, at most [`MAX_FAULTS`]; `None` if `faults` is
/// empty.
pub fn merge_faults(mut faults: Vec<CommandFault>) -> Option<CommandFault> {
    if faults.len() < 2 {
        return faults.pop();
    }
    let count = match faults.len() {
        MAX_FAULTS.. => format!("{MAX_FAULTS} mistakes, and perhaps more"),
        count => format!("{count} mistakes"),
    };
    let message = |fault: &CommandFault| match &fault.expected {
        Some(expected) => format!("\n  {}; expected {expected}", fault.message),
        None => format!("\n  {}", fault.message),
    };
    let all: String = faults.iter().take(MAX_FAULTS).map(message).collect();
    Some(CommandFault::new(format!("{count}:{all}"), faults[0].exit))
}

/// Merges faults into one fault that lists them in the order of their lines, limited to the first
/// [`MAX_FAULTS`]; `None` if `faults` is empty.
pub fn merge_line_faults(mut faults: Vec<LineFault>) -> Option<CommandFault> {
    faults.sort_by_key(|(line, _)| *line);
    faults.truncate(MAX_FAULTS);
    merge_faults(faults.into_iter().map(|(_, fault)| fault).collect())
}

/// Replaces the word `ipfw` and command-line flags at the start of a line, as in `-f flush`, by
/// blanks. Such words have no effect in a file. The blanks keep the columns in error messages
/// right.
fn without_flags(text: &str) -> String {
    text.split_inclusive('\n').map(line_without_flags).collect()
}

fn line_without_flags(line: &str) -> String {
    let mut done = String::with_capacity(line.len());
    let mut rest = line;
    loop {
        let word = rest.trim_start_matches([' ', '\t']);
        done.push_str(&rest[..rest.len() - word.len()]);
        let end = word.find(char::is_whitespace).unwrap_or(word.len());
        let is_flag = word.len() > 1
            && word.starts_with('-')
            && word[1..end].chars().all(|c| c.is_ascii_alphabetic());
        if !is_flag && &word[..end] != "ipfw" {
            done.push_str(word);
            return done;
        }
        done.extend(word[..end].chars().map(|_| ' '));
        rest = &word[end..];
    }
}
