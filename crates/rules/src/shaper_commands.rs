//! Executes the shaper's commands. Either all commands of a batch are executed or none. Each
//! command has a reply.

use slipring_dummynet::show::{RowOrder, ShaperListing};
use slipring_dummynet::text::DummynetCommand as ShaperCommand;
use slipring_dummynet::{Dummynet, ShaperEvent, ShaperSysctlError};
use slipring_ipfw::text::proto_name;

use crate::command_batch::{CommandStep, MAX_FAULTS, sysexits};

/// The shaper's reply to a command, with the index of the command's step in the batch.
#[derive(Default)]
pub struct ShaperReply {
    /// Index of the step.
    pub at: usize,
    /// What the command prints.
    pub text: String,
    /// The listing as data; `None` if the command is not a listing.
    pub listing: Option<ShaperListing>,
}

/// A command that failed: the index of its step in the batch, the cause, the exit code.
type FailedCommand = (usize, String, u8);

/// The replies to all commands, or, if any command failed, the failed commands.
pub type CommandsResult = Result<Vec<ShaperReply>, Vec<FailedCommand>>;

/// Returns those steps that are commands of the shaper, with their indices in the batch.
pub fn of_shaper(steps: &[CommandStep]) -> Vec<(usize, ShaperCommand)> {
    (0..).zip(steps).filter_map(|(at, step)| Some((at, step.shaper.clone()?))).collect()
}

/// Returns whether the command changes the shaper, rather than only showing something.
pub const fn changes_shaper(command: &ShaperCommand) -> bool {
    !matches!(command, ShaperCommand::Show(..) | ShaperCommand::Sysctl(_, None))
}

/// Returns the maximum number of changes that a command makes. Each of them may fail.
fn num_changes(command: &ShaperCommand) -> usize {
    match command {
        ShaperCommand::Delete(_, ranges) => ranges.len(),
        command => usize::from(changes_shaper(command)),
    }
}

/// Executes commands in the shaper, either all or none. If any fail, returns those that failed, at
/// most [`MAX_FAULTS`]. Also returns the events that the changes have caused.
pub fn shape(
    shaper: &mut Dummynet<u32>,
    commands: &[(usize, ShaperCommand)],
    rows: RowOrder,
    now: u64,
) -> (CommandsResult, Vec<ShaperEvent<u32>>) {
    let changes: usize = commands.iter().map(|(_, command)| num_changes(command)).sum();
    let saved = (changes > 1).then(|| shaper.clone());
    let (mut texts, mut events, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (at, command) in commands {
        match shape_once(shaper, command, rows, (now, &mut events)) {
            Ok(reply) => texts.push(ShaperReply { at: *at, ..reply }),
            Err((message, exit)) => failed.push((*at, message, exit)),
        }
        if failed.len() == MAX_FAULTS {
            break;
        }
    }
    if failed.is_empty() {
        return (Ok(texts), events);
    }
    if let Some(saved) = saved {
        *shaper = saved;
        events.clear();
    }
    (Err(failed), events)
}

fn shape_once(
    shaper: &mut Dummynet<u32>,
    command: &ShaperCommand,
    rows: RowOrder,
    (now, events): (u64, &mut Vec<ShaperEvent<u32>>),
) -> Result<ShaperReply, (String, u8)> {
    let tell = &mut |event| events.push(event);
    match command {
        ShaperCommand::Config(config) => {
            let made = shaper.configure(now, config.clone(), tell);
            made.map_err(|error| (error.to_string(), sysexits::DATA))?;
        }
        ShaperCommand::ConfigWithProfile(_, name) => {
            return Err((format!("the profile {name} was not read"), sysexits::NO_INPUT));
        }
        ShaperCommand::Delete(kind, ranges) => {
            for range in ranges {
                let gone = shaper.delete(now, *kind, range.clone(), tell);
                gone.map_err(|error| (error.to_string(), sysexits::UNAVAILABLE))?;
            }
        }
        ShaperCommand::Show(kind, ranges) => {
            let listing = shaper.show(now, *kind, ranges, rows);
            let text = listing.text(protocol);
            return Ok(ShaperReply { text, listing: Some(listing), ..ShaperReply::default() });
        }
        ShaperCommand::Sysctl(name, value) => {
            let reply = shaper.sysctl(name, *value);
            let reply = reply.map_err(|error| (error.to_string(), sysctl_exit(&error)));
            return reply.map(|text| ShaperReply { text, ..ShaperReply::default() });
        }
        ShaperCommand::Flush => {
            shaper.flush(now, tell);
            return Ok(ShaperReply {
                text: "Flushed all pipes.\n".to_owned(),
                ..ShaperReply::default()
            });
        }
    }
    Ok(ShaperReply::default())
}

/// Returns the exit code for an error of one of the shaper's sysctls.
pub fn sysctl_exit(error: &ShaperSysctlError) -> u8 {
    match error {
        ShaperSysctlError::Unknown(_) => sysexits::UNAVAILABLE,
        _ => sysexits::DATA,
    }
}

/// Returns the name of a protocol in listings of pipes. It is the name in protocols(5), or `ip` for
/// 0.
pub fn protocol(number: u8) -> Option<&'static str> {
    if number == 0 { Some("ip") } else { proto_name(number) }
}
