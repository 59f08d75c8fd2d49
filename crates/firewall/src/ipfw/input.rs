//! The command line of ipfw and dnctl.

use std::io::{self, BufRead, IsTerminal};
use std::path::Path;

use clap::ArgMatches;
use slipring_cli::{ReportFormat, Session};
use slipring_ipfw::text::{IpfwCommand, printable};

use super::error::IpfwCommandError;
use super::flags;
use slipring_rules::command_batch::{CommandFault, CommandStep, sysexits};
use slipring_rules::rules_file;

/// A parsed command line.
pub(super) struct IpfwInput {
    pub(super) action: IpfwAction,
    /// Whether the command `save` has the flag `--states`.
    pub(super) with_states: bool,
    /// Letters of the command-line flags, such as `q` for `-q`.
    pub(super) flags: String,
    /// The argument of `-s`: the counter by which pipe listings are sorted.
    pub(super) sort: i32,
    pub(super) is_dry_run: bool,
    pub(super) name: Option<String>,
    pub(super) words: Vec<String>,
    /// The report format; `None` if none was given after the command.
    pub(super) format: Option<ReportFormat>,
    preprocessor: Option<String>,
    is_dnctl: bool,
}

/// What the command line requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IpfwAction {
    /// Nothing: the command line has no command.
    Nothing,
    /// Prints the log lines of rules with `log` as they come.
    Monitor,
    /// Explains what the rules do to a packet.
    Explain,
    /// Shows the counters of rules and pipes, and the losses, as OpenMetrics text.
    Metrics,
    /// Shows the running configuration as a file of commands.
    Save,
    /// Executes ipfw or dnctl commands.
    Order,
}

impl IpfwInput {
    pub(super) fn of(matches: &ArgMatches, is_dnctl: bool) -> Result<Self, IpfwCommandError> {
        let mut words: Vec<String> =
            matches.get_many::<String>("words").into_iter().flatten().cloned().collect();
        let format = trailing_format(&mut words);
        let given = flags::letters().filter(|(_, name)| matches.get_flag(name));
        let task = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => IpfwAction::Nothing,
            ["monitor"] | ["internal", "monitor"] => IpfwAction::Monitor,
            ["explain", ..] => IpfwAction::Explain,
            ["metrics"] => IpfwAction::Metrics,
            ["save"] | ["save", "--states"] => IpfwAction::Save,
            _ => IpfwAction::Order,
        };
        let with_states = words.last().is_some_and(|word| word == "--states");
        Ok(Self {
            action: task,
            with_states,
            flags: given.map(|(letter, _)| letter).collect(),
            sort: matches.get_one("sort").copied().unwrap_or(0),
            is_dry_run: matches.get_flag("trial"),
            name: matches.get_one("name").cloned(),
            words,
            format,
            preprocessor: matches.get_one("preprocessor").cloned(),
            is_dnctl,
        })
    }

    /// Returns the text of the commands, and whether it comes from a file.
    pub(super) fn text(&self) -> Result<(String, bool), IpfwCommandError> {
        let (last, before) = self.words.split_last().expect("there is a command");
        if let Some(preprocessor) = &self.preprocessor {
            return Ok((rules_file::preprocessed(preprocessor, before, last)?, true));
        }
        if before.is_empty() && (last == "-" || last.starts_with('/') || Path::new(last).is_file())
        {
            return Ok((rules_file::read(last)?, true));
        }
        Ok((self.words.join(" "), false))
    }

    /// Adds the name of the file to a fault. The commands must come from a file.
    pub(super) fn with_file(&self, fault: CommandFault) -> CommandFault {
        let path = match self.words.last().map(String::as_str) {
            Some("-") | None => "standard input",
            Some(path) => path,
        };
        CommandFault { message: format!("{}: {}", printable(path), fault.message), ..fault }
    }

    /// Returns an error if the program is dnctl and one of the commands is neither for the shaper
    /// nor a sysctl.
    pub(super) fn allows(&self, steps: &[CommandStep]) -> Result<(), IpfwCommandError> {
        let known = |step: &CommandStep| {
            matches!(step.command, IpfwCommand::Shaper(_) | IpfwCommand::Sysctl { .. })
        };
        if !self.is_dnctl || steps.iter().all(known) {
            return Ok(());
        }
        let fault =
            CommandFault::new("dnctl knows pipes, queues and schedulers only", sysexits::USAGE);
        let expected = Some("pipe, queue or sched; rules are ipfw's".to_owned());
        Err(CommandFault { expected, ..fault }.into())
    }

    /// Asks the user for confirmation if the only command is a flush, unless `-f`, `-q` or a report
    /// format other than text was given, or standard input is no terminal. Returns whether to
    /// execute the commands.
    pub(super) fn is_confirmed(
        &self,
        steps: &[CommandStep],
        session: &mut Session<'_>,
    ) -> Result<bool, IpfwCommandError> {
        let flushes = |step: &CommandStep| match (&step.command, &step.shaper) {
            (IpfwCommand::Flush { .. }, _) => true,
            (_, Some(shaper)) => *shaper == slipring_dummynet::text::DummynetCommand::Flush,
            _ => false,
        };
        let is_told =
            self.flags.contains(['f', 'q']) || session.reporter.format() != ReportFormat::Text;
        let [step] = steps else { return Ok(true) };
        if is_told || !flushes(step) || !io::stdin().is_terminal() {
            return Ok(true);
        }
        session.reporter.raw(b"Are you sure? [yn] ")?;
        let mut line = String::new();
        let _ = io::stdin().lock().read_line(&mut line);
        Ok(line.trim_start().starts_with(['y', 'Y']))
    }
}

/// Removes `--json`, `--json=document`, `--json=lines` or `-j` from the end of a command, and
/// returns the format. No command has one of these as a word.
fn trailing_format(words: &mut Vec<String>) -> Option<ReportFormat> {
    let format = match words.last()?.as_str() {
        "--json" | "--json=document" | "-j" => ReportFormat::Json,
        "--json=lines" => ReportFormat::JsonLines,
        _ => return None,
    };
    words.pop();
    Some(format)
}
