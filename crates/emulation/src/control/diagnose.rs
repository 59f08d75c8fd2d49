//! Errors of the control socket, in the four parts of every error.

use slipring_cli::{Diagnose, Diagnostic};
use slipring_control::{ControlError, ControlRefusal};

/// Converts an error of the socket for the user.
pub(super) fn diagnostic(error: &ControlError) -> Diagnostic {
    Diagnostic::of(error)
}

/// Converts an error for the client.
pub(super) fn refusal(error: &(impl Diagnose + ?Sized)) -> ControlRefusal {
    ControlRefusal {
        code: error.code().to_string(),
        summary: error.summary(),
        cause: error.cause(),
        help: error.help(),
    }
}
