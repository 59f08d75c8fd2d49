//! Determines what a command changes, and therefore what the engines must receive.

use slipring_ipfw::rule::RESERVED_SET;
use slipring_ipfw::run::{CommandFileError, Firewall, LineError, Ruleset};
use slipring_ipfw::text::{
    DeleteTarget, IpfwCommand, NatCommand, Nptv6Command, Nptv6Verb, TableCommand, TableScope,
    TableVerb,
};

use crate::command_batch::{CommandBatch, CommandFault, CommandStep, MAX_FAULTS};
use crate::shaper_commands::changes_shaper;

/// Returns the ruleset that the engines must adopt; `None` if the steps change neither rules nor
/// tables nor translators. Compiling is slow, so the ruleset has compiled rules only if a step
/// changes rules.
pub(super) fn ruleset_after(master: &Firewall, steps: &[CommandStep]) -> Option<Ruleset> {
    let does = |changes: fn(&IpfwCommand) -> bool| steps.iter().any(|step| changes(&step.command));
    if does(changes_rules) {
        return Some(master.ruleset());
    }
    does(changes_tables).then(|| master.before())
}

/// Returns whether the step changes something that a state file contains.
pub(super) fn changes_anything(step: &CommandStep) -> bool {
    changes_rules(&step.command)
        || changes_tables(&step.command)
        || matches!(step.command, IpfwCommand::State(_))
        || step.shaper.as_ref().is_some_and(changes_shaper)
}

const fn changes_rules(command: &IpfwCommand) -> bool {
    match command {
        IpfwCommand::Add(_)
        | IpfwCommand::Delete(_)
        | IpfwCommand::Flush { .. }
        | IpfwCommand::Set(_)
        | IpfwCommand::Switch { .. } => true,
        IpfwCommand::Sysctl { value, .. } => value.is_some(),
        _ => false,
    }
}

/// Returns whether the command changes only tables and translators. If so, the compiled rules stay
/// valid.
const fn changes_tables(command: &IpfwCommand) -> bool {
    match command {
        IpfwCommand::Table(table) => !matches!(
            table.verb,
            TableVerb::List | TableVerb::Info | TableVerb::Detail | TableVerb::Lookup(_)
        ),
        IpfwCommand::Nat(nat) => !matches!(nat, NatCommand::Show { .. }),
        IpfwCommand::Nptv6(nptv6) => {
            matches!(nptv6.verb, Nptv6Verb::Create(_) | Nptv6Verb::Destroy)
        }
        _ => false,
    }
}

pub(super) const fn is_about_counters(command: &IpfwCommand) -> bool {
    match command {
        IpfwCommand::Zero { .. } | IpfwCommand::ResetLog { .. } => true,
        IpfwCommand::Nptv6(nptv6) => matches!(nptv6.verb, Nptv6Verb::Stats { reset: true }),
        _ => false,
    }
}

pub(super) const fn shows_translations(command: &IpfwCommand) -> bool {
    match command {
        IpfwCommand::Nat(nat) => matches!(nat, NatCommand::Show { .. }),
        IpfwCommand::Nptv6(nptv6) => matches!(nptv6.verb, Nptv6Verb::Stats { .. }),
        _ => false,
    }
}

/// Returns the steps that must precede the steps of a file that replaces the rules. They remove all
/// rules (those of the reserved set 31 only if `steps` add rules to this set), and each existing
/// table or `nptv6` instance that `steps` create again.
pub(super) fn cleared_for(firewall: &Firewall, steps: &[CommandStep]) -> Vec<CommandStep> {
    let step = |command| CommandStep { line: 0, command, shaper: None };
    let mut cleared = vec![step(IpfwCommand::Flush { set: None })];
    for made in steps {
        let taken_away = match &made.command {
            IpfwCommand::Table(TableCommand {
                scope: TableScope::One(name),
                set,
                verb: TableVerb::Create(_),
            }) if firewall.config().tables.get(*set, name.as_str()).is_some() => {
                let (scope, verb) = (TableScope::One(name.clone()), TableVerb::Destroy);
                IpfwCommand::Table(TableCommand { scope, set: *set, verb })
            }
            IpfwCommand::Nptv6(Nptv6Command { name: Some(name), verb: Nptv6Verb::Create(_) })
                if firewall.nptv6_counters().any(|(known, _)| known == name) =>
            {
                IpfwCommand::Nptv6(Nptv6Command {
                    name: Some(name.clone()),
                    verb: Nptv6Verb::Destroy,
                })
            }
            // `flush` does not remove the rules of the reserved set 31.
            IpfwCommand::Add(add) if add.rule.set == RESERVED_SET => {
                IpfwCommand::Delete(DeleteTarget::Set(RESERVED_SET))
            }
            _ => continue,
        };
        let step = step(taken_away);
        if !cleared.iter().any(|other| other.command == step.command) {
            cleared.push(step);
        }
    }
    cleared
}

/// Returns warnings about states that could not be restored. `refused` has the line number of each
/// state's command, and the reason.
pub(super) fn unrestored_states(refused: Vec<(u32, String)>) -> Vec<String> {
    let more = refused.len().saturating_sub(MAX_FAULTS);
    let messages = refused.into_iter().take(MAX_FAULTS);
    let mut messages: Vec<_> = messages.map(|(line, why)| format!("line {line}: {why}")).collect();
    if more > 0 {
        messages.push(format!("{more} more states are left out"));
    }
    messages
}

/// Executes the commands on the master. Returns the text that each command printed. If a single
/// command fails, it may have been executed in part: returns the text that it printed, and its
/// fault.
pub(super) fn dry_run(
    master: &mut Firewall,
    order: &CommandBatch,
    steps: &[CommandStep],
    now: u64,
) -> Result<(Vec<String>, Option<CommandFault>), Vec<LineError>> {
    let flags = order.options();
    if let (false, [step]) = (order.is_file, steps) {
        return Ok(match master.execute(&step.command, now, flags) {
            Ok(reply) => (vec![reply.text], None),
            Err(error) => {
                let fault = CommandFault::new(error.message, error.exit_code);
                (vec![error.text], Some(fault))
            }
        });
    }
    let commands: Vec<_> = steps.iter().map(|step| (step.line, step.command.clone())).collect();
    match master.batch(&commands, now, flags) {
        Ok(replies) => Ok((replies.into_iter().map(|reply| reply.text).collect(), None)),
        Err(CommandFileError::Commands(mistakes)) => Err(mistakes),
        Err(CommandFileError::Text(_)) => unreachable!("commands were read before"),
    }
}
