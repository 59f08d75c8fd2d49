//! Why a command of ipfw or dnctl failed.

use slipring_cli::Failure;

use slipring_rules::command_batch::CommandFault;

/// Why a command of ipfw or dnctl failed.
pub(crate) enum IpfwCommandError {
    Fault(CommandFault),
    Failure(Failure),
}

impl From<CommandFault> for IpfwCommandError {
    fn from(fault: CommandFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Failure> for IpfwCommandError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}
