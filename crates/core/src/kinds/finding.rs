//! Findings of `slipring doctor`, and the context in which a kind of port makes them.

use std::fmt::Display;
use std::path::Path;

use serde::Serialize;
use slipring_abi::name::PortName;
use slipring_port::OpenError;

/// The name of the check in findings about a port.
const PORT_CHECK: &str = "port";
/// The code of [`slipring_port::OpenCause::File`]: a file cannot be opened, or created.
pub(super) const FILE_CODE: &str = "SR0201";

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingState {
    /// The check found no problem.
    Ok,
    /// The problem costs speed or a feature.
    Warn,
    /// The problem keeps slipring, or the port, from working.
    Fail,
}

/// A finding of `slipring doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check.
    pub check: &'static str,
    /// The severity.
    pub state: FindingState,
    /// The result.
    pub finding: String,
    /// The code of the error that opening the port would return, for `slipring explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// A command or advice that fixes the problem; `None` if none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

impl Finding {
    /// Creates a finding without a problem.
    #[must_use]
    pub fn ok(check: &'static str, finding: impl Into<String>) -> Self {
        Self { check, state: FindingState::Ok, finding: finding.into(), code: None, mend: None }
    }

    /// Creates a finding about something that costs speed or a feature.
    #[must_use]
    pub fn warn(check: &'static str, finding: impl Into<String>) -> Self {
        Self { state: FindingState::Warn, ..Self::ok(check, finding) }
    }

    /// Creates a finding about something that does not work.
    #[must_use]
    pub fn fail(check: &'static str, finding: impl Into<String>) -> Self {
        Self { state: FindingState::Fail, ..Self::ok(check, finding) }
    }

    /// Adds a command or advice that fixes the problem.
    #[must_use]
    pub fn with_fix(mut self, command: impl Into<String>) -> Self {
        self.mend = Some(command.into());
        self
    }

    /// Adds the code of the error that opening the port would return.
    #[must_use]
    pub(super) fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// Creates the finding that a port can be opened.
    #[must_use]
    pub fn port_ok(finding: impl Into<String>) -> Self {
        Self::ok(PORT_CHECK, finding)
    }

    /// Creates a warning about a port: for example, it has fewer rings than requested, or this
    /// process cannot determine whether it can be opened.
    #[must_use]
    pub fn port_warn(finding: impl Into<String>) -> Self {
        Self::warn(PORT_CHECK, finding)
    }

    /// Creates the finding that a port cannot be opened.
    #[must_use]
    pub fn port_fail(finding: impl Into<String>) -> Self {
        Self::fail(PORT_CHECK, finding)
    }

    /// Creates the finding that a port can be opened, because it needs neither an interface nor a
    /// privilege.
    #[must_use]
    pub fn port_needs_nothing(port: &PortName) -> Self {
        Self::port_ok(format!("{port} needs no interface and no privilege"))
    }

    /// Returns whether this is the finding that a port can be opened.
    pub(super) fn is_port_ok(&self) -> bool {
        self.check == PORT_CHECK && self.state == FindingState::Ok
    }

    /// Converts the error that opening a port would return to the finding that the port cannot be
    /// opened.
    #[must_use]
    pub fn port_refused(error: &OpenError) -> Self {
        let mend = error.help().unwrap_or_else(|| format!("slipring explain {}", error.code()));
        Self::port_fail(error.to_string()).with_fix(mend).with_code(error.code())
    }
}

/// The commands that grant a privilege, and their consequences.
#[must_use]
pub fn grant_help(grant: impl Display) -> String {
    format!(
        "{grant}; then log in again, and run slipring-net (the group can read and change all traffic)"
    )
}

/// Facts that `slipring doctor` has found out before it examines a port.
pub struct DoctorContext<'d> {
    /// Directory of sockets and counters, in which a daemon may serve its device.
    pub run_dir: &'d Path,
    /// Whether this process may make and configure network devices.
    pub may_make_devices: bool,
    /// Returns the findings about an interface and its driver. They include a failure if the
    /// interface does not exist.
    pub interface: &'d dyn Fn(&PortName) -> Vec<Finding>,
}
