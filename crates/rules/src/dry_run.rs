//! Executes a file of commands on a separate firewall. This finds all mistakes and does not affect
//! the running firewall.

use slipring_dummynet::Dummynet;
use slipring_dummynet::show::RowOrder;
use slipring_dummynet::text::QueueCaps;
use slipring_ipfw::rule::{NextHop, RuleAction};
use slipring_ipfw::run::{CommandFileError, Firewall, IpfwConfig};
use slipring_ipfw::text::IpfwCommand;

use crate::command_batch::{
    CommandBatch, CommandFault, CommandStep, LineFault, MAX_FAULTS, merge_line_faults,
};
use crate::lint;
use crate::shaper_commands::{of_shaper, shape};

/// Which ports exist for the commands of a file that refer to ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRunPorts {
    /// The ports of the firewall for which the file is meant.
    Known,
    /// Every port that a command names counts as existing, because the ports are not known.
    Any,
}

/// The result of executing a file that has no mistakes.
pub struct DryRun {
    /// The parsed commands.
    pub steps: Vec<CommandStep>,
    /// Warnings about suspicious rules.
    pub warnings: Vec<String>,
    /// The configuration that the commands have created.
    pub config: IpfwConfig,
}

/// Executes a file on `firewall`, which must have no rules yet, and on separate pipes.
///
/// # Errors
/// [`CommandFault`] that lists the mistakes in the text and the commands that cannot be executed,
/// in the order of their lines. It lists at most [`MAX_FAULTS`].
pub fn dry_run_file(
    order: &CommandBatch,
    mut firewall: Firewall,
    ports: DryRunPorts,
) -> Result<DryRun, CommandFault> {
    let (steps, mut faults) = order.read(QueueCaps::default())?;
    firewall.set_plain(true);
    if ports == DryRunPorts::Any {
        firewall.set_ports(named_ports(&steps));
    }
    let mut pipes = Dummynet::<u32>::new(0, [0; 2]);
    let failed = failed_commands(order, &steps, &mut firewall, &mut pipes);
    // Only the first mistake of a line is reported, because it may have caused the others.
    let is_new = |(line, _): &(u32, CommandFault)| faults.iter().all(|(other, _)| line != other);
    let failed: Vec<_> = failed.into_iter().filter(is_new).collect();
    faults.extend(failed);
    match merge_line_faults(faults) {
        Some(fault) => Err(fault),
        None => {
            let warnings = lint::warnings(&firewall, &pipes.configuration());
            Ok(DryRun { steps, warnings, config: firewall.config().clone() })
        }
    }
}

/// Returns the commands for rules and for pipes that cannot be executed.
fn failed_commands(
    order: &CommandBatch,
    steps: &[CommandStep],
    firewall: &mut Firewall,
    pipes: &mut Dummynet<u32>,
) -> Vec<LineFault> {
    let commands: Vec<_> = steps.iter().map(|step| (step.line, step.command.clone())).collect();
    let mut failed = Vec::with_capacity(MAX_FAULTS);
    if let Err(CommandFileError::Commands(mistakes)) = firewall.batch(&commands, 0, order.options())
    {
        failed.extend(mistakes.into_iter().map(|mistake| {
            let fault = CommandFault::new(mistake.error.message, mistake.error.exit_code);
            (mistake.line, fault.at_line(mistake.line))
        }));
    }
    if let Err(mistakes) = shape(pipes, &of_shaper(steps), RowOrder::default(), 0).0 {
        failed.extend(mistakes.into_iter().map(|(at, message, exit)| {
            let line = steps[at].line;
            (line, CommandFault::new(message, exit).at_line(line))
        }));
    }
    failed
}

/// Returns the names of the ports to which the rules in `steps` send packets.
fn named_ports(steps: &[CommandStep]) -> Vec<String> {
    let named = steps.iter().filter_map(|step| match &step.command {
        IpfwCommand::Add(add) => match &add.rule.action {
            RuleAction::Forward(NextHop::Port(name)) => Some(name.to_string()),
            _ => None,
        },
        _ => None,
    });
    named.collect()
}
