//! What commands change, and so what engines have to be told.

use slipring_dummynet::text::Command as ShaperCommand;
use slipring_ipfw::rule::RESERVED_SET;
use slipring_ipfw::run::{Firewall, Ruleset};
use slipring_ipfw::text::{
    Command, DeleteWhat, NatCommand, Nptv6Command, Nptv6Verb, TableCommand, TableScope, TableVerb,
};

use crate::order::Step;

/// What the engines have to adopt. Rules take long to be made ready, so that is done only where
/// it is needed.
pub(super) fn ruleset_after(master: &Firewall, steps: &[Step]) -> Option<Ruleset> {
    let does = |changes: fn(&Command) -> bool| steps.iter().any(|step| changes(&step.command));
    if does(changes_rules) {
        return Some(master.ruleset());
    }
    does(changes_tables).then(|| master.before())
}

/// Whether what a state file has is another one afterwards.
pub(super) fn changes_anything(step: &Step) -> bool {
    let shapes = |shaper: &ShaperCommand| {
        !matches!(shaper, ShaperCommand::Show(..) | ShaperCommand::Sysctl(_, None))
    };
    changes_rules(&step.command)
        || changes_tables(&step.command)
        || matches!(step.command, Command::State(_))
        || step.shaper.as_ref().is_some_and(shapes)
}

const fn changes_rules(command: &Command) -> bool {
    match command {
        Command::Add(_)
        | Command::Delete(_)
        | Command::Flush { .. }
        | Command::Set(_)
        | Command::Switch { .. } => true,
        Command::Sysctl { value, .. } => value.is_some(),
        _ => false,
    }
}

/// Tables and translators: rules that were made ready stay so.
const fn changes_tables(command: &Command) -> bool {
    match command {
        Command::Table(table) => !matches!(
            table.verb,
            TableVerb::List | TableVerb::Info | TableVerb::Detail | TableVerb::Lookup(_)
        ),
        Command::Nat(nat) => !matches!(nat, NatCommand::Show { .. }),
        Command::Nptv6(nptv6) => {
            matches!(nptv6.verb, Nptv6Verb::Create(_) | Nptv6Verb::Destroy)
        }
        _ => false,
    }
}

pub(super) const fn is_about_counters(command: &Command) -> bool {
    match command {
        Command::Zero { .. } | Command::ResetLog { .. } => true,
        Command::Nptv6(nptv6) => matches!(nptv6.verb, Nptv6Verb::Stats { reset: true }),
        _ => false,
    }
}

pub(super) const fn shows_translations(command: &Command) -> bool {
    match command {
        Command::Nat(nat) => matches!(nat, NatCommand::Show { .. }),
        Command::Nptv6(nptv6) => matches!(nptv6.verb, Nptv6Verb::Stats { .. }),
        _ => false,
    }
}

/// What takes away all rules, and each table and instance of `nptv6` that `steps` make and
/// `firewall` has.
pub(super) fn cleared_for(firewall: &Firewall, steps: &[Step]) -> Vec<Step> {
    let step = |command| Step { line: 0, command, shaper: None };
    let mut cleared = vec![step(Command::Flush { set: None })];
    for made in steps {
        let taken_away = match &made.command {
            Command::Table(TableCommand {
                scope: TableScope::One(name),
                set,
                verb: TableVerb::Create(_),
            }) if firewall.config().tables.get(*set, name.as_str()).is_some() => {
                let (scope, verb) = (TableScope::One(name.clone()), TableVerb::Destroy);
                Command::Table(TableCommand { scope, set: *set, verb })
            }
            Command::Nptv6(Nptv6Command { name: Some(name), verb: Nptv6Verb::Create(_) })
                if firewall.nptv6_counters().any(|(known, _)| known == name) =>
            {
                Command::Nptv6(Nptv6Command { name: Some(name.clone()), verb: Nptv6Verb::Destroy })
            }
            // `flush` spares it.
            Command::Add(add) if add.rule.set == RESERVED_SET => {
                Command::Delete(DeleteWhat::Set(RESERVED_SET))
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
