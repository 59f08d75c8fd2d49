//! Converts errors of the control socket to and from the program's error type.

use slipring_cli::{Diagnose, Diagnostic};
use slipring_control::{ControlError, ControlRefusal};

/// Converts an error of the socket to a diagnostic for the user.
pub(super) fn diagnostic(error: &ControlError) -> Diagnostic {
    Diagnostic::of(error)
}

/// Converts an error to a refusal that is sent to the client.
pub(super) fn refusal(error: &(impl Diagnose + ?Sized)) -> ControlRefusal {
    ControlRefusal {
        code: error.code().to_string(),
        summary: error.summary(),
        cause: error.cause(),
        help: error.help(),
    }
}
