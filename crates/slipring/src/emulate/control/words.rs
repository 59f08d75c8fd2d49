//! What went wrong on the control socket, in the four parts of every error.

use slipring_cli::codes::{Code, SR0013, SR0014, SR0204, SR0405};
use slipring_cli::{Diagnose, Diagnostic};
use slipring_control::{ControlError, Refusal, Running};

/// An error of the socket for the person.
pub(super) fn diagnostic(error: &ControlError) -> Diagnostic {
    use ControlError as E;
    let new = |code| Diagnostic::new(code, error.to_string());
    match error {
        E::NothingRuns { .. } => new(SR0013)
            .with_cause("no process listens there")
            .with_help("start one: slipring emulate --name lab ..., or say --run-dir DIR"),
        E::Several { .. } => new(SR0013)
            .with_cause("no name says which is meant")
            .with_help("say --name NAME, or --name PID"),
        E::Unknown { running, .. } => new(SR0013)
            .with_cause(match &running[..] {
                [] => "nothing runs there".to_owned(),
                runs => format!("there are: {}", listed(runs)),
            })
            .with_help("say --name NAME, or --run-dir DIR"),
        E::BadName { .. } => new(SR0013)
            .with_cause("names are letters, digits, - _ and ., 64 at most, not digits alone")
            .with_help("say --name lab"),
        E::NameTaken { name } => new(SR0013)
            .with_cause("its control socket is in the run directory")
            .with_help(format!("take another name, or: slipring emulate ctl --name {name} quit")),
        E::Untrusted { dir } => Diagnostic::new(SR0204, error.to_string())
            .with_cause("it belongs to another user, or others may write there")
            .with_help(format!("chmod 700 {0}, or say --run-dir DIR", dir.display())),
        E::System { .. } => new(SR0204)
            .with_cause("control sockets live in the run directory")
            .with_help("say --run-dir DIR with a directory of your own"),
        E::Refused(refusal) => refused(refusal),
        E::NoAnswer(_) => new(SR0405).with_help("see whether it still runs: ps -C slipring"),
    }
}

fn listed(runs: &[Running]) -> String {
    runs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A refusal for the person, as the running program worded it.
fn refused(refusal: &Refusal) -> Diagnostic {
    let code: Code = refusal.code.parse().unwrap_or(SR0014);
    let mut diagnostic = Diagnostic::new(code, &refusal.summary);
    if let Some(cause) = &refusal.cause {
        diagnostic = diagnostic.with_cause(cause);
    }
    if let Some(help) = &refusal.help {
        diagnostic = diagnostic.with_help(help);
    }
    diagnostic
}

/// An error for the client.
pub(super) fn refusal(error: &(impl Diagnose + ?Sized)) -> Refusal {
    Refusal {
        code: error.code().to_string(),
        summary: error.summary(),
        cause: error.cause(),
        help: error.help(),
    }
}
