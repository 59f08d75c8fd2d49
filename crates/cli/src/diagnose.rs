//! Diagnostics for errors that lower crates define.

mod control;

use slipring_abi::name::PortNameError;

use slipring_port::{ErrorClass, OpenError, RunError};

use crate::codes::{ErrorCode, SR0101};
use crate::{Diagnose, Exit};

impl Diagnose for PortNameError {
    fn code(&self) -> ErrorCode {
        SR0101
    }

    fn summary(&self) -> String {
        format!("`{}` is not a port name", self.input)
    }

    fn cause(&self) -> Option<String> {
        Some(format!("{} at column {}", self.reason, self.column))
    }

    fn help(&self) -> Option<String> {
        Some(self.advice())
    }
}

impl Diagnose for OpenError {
    fn code(&self) -> ErrorCode {
        registered(self.code())
    }

    fn summary(&self) -> String {
        format!("cannot open {}", self.port)
    }

    fn cause(&self) -> Option<String> {
        Some(self.cause.to_string())
    }

    fn help(&self) -> Option<String> {
        self.help()
    }

    fn note(&self) -> Option<String> {
        self.note()
    }

    fn exit(&self) -> Exit {
        exit_of(self.class())
    }
}

impl Diagnose for RunError {
    fn code(&self) -> ErrorCode {
        registered(self.code())
    }

    fn summary(&self) -> String {
        format!("{} stopped working", self.port)
    }

    fn cause(&self) -> Option<String> {
        Some(self.cause.to_string())
    }

    fn help(&self) -> Option<String> {
        self.help()
    }

    fn exit(&self) -> Exit {
        exit_of(self.class())
    }
}

/// Parses a code that a lower crate gives as text, because it cannot depend on this crate.
fn registered(code: &str) -> ErrorCode {
    code.parse().expect("a test looks up every code that ports use")
}

fn exit_of(class: ErrorClass) -> Exit {
    match class {
        ErrorClass::Usage => Exit::Usage,
        ErrorClass::Machine => Exit::Machine,
        ErrorClass::Peer => Exit::PeerLost,
    }
}

#[cfg(test)]
mod tests {
    use slipring_port::{OpenCause, QueueOwner, RunCause};

    use super::*;

    #[test]
    fn every_code_that_ports_use_is_registered() {
        for code in slipring_port::CODES {
            assert_eq!(registered(code).to_string(), *code);
        }
    }

    #[test]
    fn explanations_and_commands_agree_on_the_exit_status() {
        let ifname = String::new;
        let causes = [
            OpenCause::Name { reason: String::new(), help: None },
            OpenCause::NoInterface { ifname: ifname() },
            OpenCause::Down { ifname: ifname() },
            OpenCause::QueueRange { ifname: ifname(), queue: 1, queues: 1 },
            OpenCause::Mtu { ifname: ifname(), mtu: 2, limit: 1, kind: "xdp" },
            OpenCause::Busy { ifname: ifname(), queue: 0, by: QueueOwner::Unknown },
            OpenCause::DefaultRoute { ifname: ifname() },
            OpenCause::LockedMemory { bytes: 1 },
            OpenCause::Unsupported { what: String::new(), needs: "" },
            OpenCause::PipeTaken { pipe: String::new(), end: "master" },
            OpenCause::Card { reason: String::new(), help: None },
            OpenCause::NotACapture { path: String::new(), reason: String::new() },
            OpenCause::Truncated { path: String::new(), reason: String::new() },
        ];
        for cause in causes {
            let error = OpenError::new("x", cause);
            assert_eq!(Diagnose::exit(&error), Diagnose::code(&error).exit(), "{error}");
        }
    }

    #[test]
    fn a_vanished_interface_is_a_lost_peer() {
        let error = RunError::new("xdp:eth0", RunCause::Vanished);
        assert_eq!(Diagnose::exit(&error), Exit::PeerLost);
        assert_eq!(Diagnose::cause(&error).as_deref(), Some("the interface is gone"));
    }
}
