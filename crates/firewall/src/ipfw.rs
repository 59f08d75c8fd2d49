//! The programs `slipring ipfw` and `slipring dnctl`. They send commands to a running firewall, and
//! have the syntax, output and exit codes of ipfw(8).
//!
//! The commands are also parsed here. So mistakes are reported, and files can be checked, without a
//! running firewall.

mod client;
mod error;
mod explain;
mod flags;
mod input;

use clap::ArgMatches;
use serde_json::json;
use slipring_cli::codes::SR0018;
use slipring_cli::{ClassicName, Diagnostic, Exit, Failure, Job, ReportFormat, Session, Verb};
use slipring_dummynet::Dummynet;
use slipring_dummynet::text::{DummynetCommand as ShaperCommand, QueueCaps};
use slipring_ipfw::run::Firewall;
use slipring_ipfw::text::{IpfwCommand, StyledRule};

use error::IpfwCommandError;
use input::{IpfwAction, IpfwInput};
use slipring_rules::command_batch::{
    CommandBatch, CommandFault, CommandOutcome, CommandStep, sysexits,
};
use slipring_rules::dry_run::{DryRun, DryRunPorts, dry_run_file};
use slipring_rules::rules_file;
use slipring_rules::shaper_commands::sysctl_exit;

/// The program `slipring ipfw`, which has all commands.
pub const IPFW: Verb = Verb {
    name: "ipfw",
    classic: &[CLASSIC],
    command: flags::ipfw,
    plan: |matches| plan(matches, false),
    no_metrics: Some("asks a firewall, which has them"),
};

/// The program `slipring dnctl`, which has only the commands for pipes, queues and schedulers.
pub const DNCTL: Verb = Verb {
    name: "dnctl",
    classic: &[DNCTL_CLASSIC],
    command: flags::dnctl,
    plan: |matches| plan(matches, true),
    no_metrics: Some("asks a firewall, which has them"),
};

const CLASSIC: ClassicName = ClassicName { name: "ipfw", status };
const DNCTL_CLASSIC: ClassicName = ClassicName { name: "dnctl", status };

/// Returns the exit code, as in sysexits(3), unless the program ends with a [`CommandFault`], which
/// has its own exit code.
const fn status(exit: Exit) -> u8 {
    match exit {
        Exit::Done => 0,
        Exit::Expectation => sysexits::UNAVAILABLE,
        Exit::Usage => sysexits::USAGE,
        Exit::Machine | Exit::PeerLost => sysexits::SYSTEM,
    }
}

fn plan(matches: &ArgMatches, is_dnctl: bool) -> Result<Job, Failure> {
    let input = IpfwInput::of(matches, is_dnctl);
    Ok(Box::new(move |session| {
        if let Some(format) = input.as_ref().ok().and_then(|input| input.format) {
            session.reporter.report_as(format);
        }
        match input.and_then(|input| execute(&input, session)) {
            Ok(()) => Ok(Exit::Done),
            Err(IpfwCommandError::Fault(fault)) => print_fault(&fault, session),
            Err(IpfwCommandError::Failure(failure)) => Err(failure),
        }
    }))
}

/// Prints a fault, and returns its exit code.
fn print_fault(fault: &CommandFault, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let error = Diagnostic::new(SR0018, fault.message.clone()).with_status(fault.exit);
    let error = match (&fault.help, &fault.expected) {
        (Some(help), _) => error.with_help(help),
        (None, Some(expected)) => error.with_help(format!("expected {expected}")),
        (None, None) => error,
    };
    session.status = Some(fault.exit);
    Ok(session.reporter.report_error(&error))
}

fn execute(input: &IpfwInput, session: &mut Session<'_>) -> Result<(), IpfwCommandError> {
    let order = match &input.action {
        IpfwAction::Nothing => return Err(no_command().into()),
        IpfwAction::Monitor => return client::monitor(input, session),
        IpfwAction::Explain => return explain::run(input, &input.words[1..], session),
        IpfwAction::Metrics => return client::metrics(input, session),
        IpfwAction::Save => return client::save(input, session),
        IpfwAction::Order => {
            input.command_batch(session.reporter.format() != ReportFormat::Text)?
        }
    };
    let named = |fault| if order.is_file { input.with_file(fault) } else { fault };
    if input.is_dry_run {
        let outcome = dry_run(input, &order)?;
        show(&outcome, session)?;
        return warn(&outcome, session);
    }
    let steps = input.steps(&order)?;
    if !input.is_confirmed(&steps, session)? {
        return Ok(());
    }
    let outcome = client::execute(input, &order, session)?;
    if outcome.fault.is_none() || !outcome.text.is_empty() {
        show(&outcome, session)?;
    }
    warn(&outcome, session)?;
    outcome.fault.map_or(Ok(()), |fault| Err(named(fault).into()))
}

fn warn(outcome: &CommandOutcome, session: &mut Session<'_>) -> Result<(), IpfwCommandError> {
    outcome.warnings.iter().try_for_each(|warning| Ok(session.reporter.warn(warning)?))
}

fn no_command() -> CommandFault {
    let help = "a command, such as: add 100 allow ip from any to any; see --help";
    let fault = CommandFault::new("there is no command", sysexits::USAGE);
    CommandFault { expected: Some(help.to_owned()), ..fault }
}

/// Returns the output of `-n`, which is the rules as they were parsed. A file is executed
/// completely, on a separate firewall without rules. A single command depends on the rules of the
/// firewall for which it is meant, so it is only parsed; but a sysctl is tried.
fn dry_run(input: &IpfwInput, order: &CommandBatch) -> Result<CommandOutcome, IpfwCommandError> {
    let (steps, warnings) = if order.is_file {
        let tried = dry_run_file(order, Firewall::new(0, [0; 2]), DryRunPorts::Any);
        let DryRun { steps, warnings, .. } = tried.map_err(|fault| input.with_file(fault))?;
        input.allows(&steps)?;
        (steps, warnings)
    } else {
        let steps = input.steps(order)?;
        steps.iter().try_for_each(|step| try_sysctl(order, step))?;
        (steps, Vec::new())
    };
    let added = steps.iter().filter_map(|step| match &step.command {
        IpfwCommand::Add(add) if !order.has_flag('q') => {
            let rule = StyledRule(&add.rule, order.options().list.style);
            Some(format!("{:05} {rule}\n", add.number.unwrap_or(0)))
        }
        _ => None,
    });
    Ok(CommandOutcome { text: added.collect(), warnings, ..CommandOutcome::default() })
}

/// Tries a sysctl on a separate firewall, because it has the same effect in every firewall.
fn try_sysctl(order: &CommandBatch, step: &CommandStep) -> Result<(), CommandFault> {
    match (&step.command, &step.shaper) {
        (_, Some(ShaperCommand::Sysctl(name, value))) => {
            let tried = Dummynet::<()>::new(0, [0; 2]).sysctl(name, *value);
            tried
                .map(drop)
                .map_err(|error| CommandFault::new(error.to_string(), sysctl_exit(&error)))
        }
        (IpfwCommand::Sysctl { .. }, None) => {
            let tried = Firewall::new(0, [0; 2]).execute(&step.command, 0, order.options());
            tried.map(drop).map_err(|error| CommandFault::new(error.message, error.exit_code))
        }
        _ => Ok(()),
    }
}

fn show(outcome: &CommandOutcome, session: &mut Session<'_>) -> Result<(), IpfwCommandError> {
    if session.reporter.format() != ReportFormat::Text {
        let answer = outcome.value.clone().unwrap_or_else(|| json!([{ "text": outcome.text }]));
        return Ok(session.reporter.document(&json!({ "answer": answer }), "")?);
    }
    Ok(session.reporter.raw(outcome.text.as_bytes())?)
}

impl IpfwInput {
    /// Converts the command line to a batch, reading the files that it names.
    fn command_batch(&self, json: bool) -> Result<CommandBatch, IpfwCommandError> {
        let (text, is_file) = self.text()?;
        let mut order = CommandBatch {
            text,
            is_file,
            flags: self.flags.clone(),
            sort: self.sort,
            json,
            ..CommandBatch::default()
        };
        for name in CommandBatch::profiles_of(&order.text, is_file) {
            let text = rules_file::read(&name)?;
            order.profiles.insert(name, text);
        }
        Ok(order)
    }

    /// Parses the commands of a batch and checks that this program has them. In a dry run, the
    /// maximum lengths of queues have their default values. Otherwise they are not checked here,
    /// but by the firewall that executes the commands.
    fn steps(&self, order: &CommandBatch) -> Result<Vec<CommandStep>, IpfwCommandError> {
        let steps =
            order.steps(if self.is_dry_run { QueueCaps::default() } else { QueueCaps::NONE });
        let steps =
            steps.map_err(|fault| if order.is_file { self.with_file(fault) } else { fault })?;
        self.allows(&steps)?;
        Ok(steps)
    }
}

#[cfg(test)]
mod script;
#[cfg(test)]
mod tests;
