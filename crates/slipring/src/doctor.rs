//! `slipring doctor`: what slipring can do on this machine, and how to improve that.
//!
//! Most facts are read from `/proc`, `/sys` and netlink. Facts that need a trial are tried on
//! objects that no other process can see: an unbound socket, a program that is not attached, a pair
//! of links in a network namespace that ends with the trial.
//!
//! A *warning* costs speed or a feature. A *failure* prevents slipring, or the requested port, from
//! working here.

mod machine;
mod moderation;
mod port;
mod privilege;
#[cfg(test)]
mod tests;
mod text;
mod trials;

use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use slipring_abi::name::PortName;
use slipring_cli::codes::ErrorCode;
use slipring_cli::{Exit, Failure, Job, Session, Verb, flags};
use slipring_core::kinds::{self, DoctorContext, Finding, FindingState};

pub(crate) const VERB: Verb =
    Verb { name: "doctor", classic: &[], command, plan, no_metrics: Some("looks once") };

fn command() -> Command {
    let port = Arg::new("port")
        .value_name(flags::PORT_VALUE)
        .value_parser(PortName::parse_classic)
        .help("Port to look at as well");
    let command = Command::new("doctor")
        .about("Say what this machine can do, and mend what it cannot")
        .arg(port)
        .after_help(
            "Needs no privilege and changes nothing.\n\
             Exit status: 0 nothing failed, 2 the port's name is wrong, 3 something else failed.\n\n\
             Examples:\n  \
             slipring doctor\n  \
             slipring doctor netmap:eth0",
        );
    flags::reporting(command)
}

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let port = matches.get_one::<PortName>("port").cloned();
    Ok(Box::new(move |session| run(port.as_ref(), session)))
}

fn run(port: Option<&PortName>, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let findings = examine(port, &session.run_dir);
    let exit = exit_of(&findings);
    let fields = serde_json::json!({
        "kernel": machine::kernel_release(),
        "cpu": machine::cpu_model(),
        "healthy": exit == Exit::Done,
        "findings": findings,
    });
    let head = format!(
        "slipring {} on Linux {}, {}\n\n",
        session.program.version,
        machine::kernel_release(),
        machine::cpu_model()
    );
    session.reporter.document(&fields, head + &text::report(&findings))?;
    Ok(exit)
}

/// Returns the exit status for the findings. If the port's name, options or files are wrong, it is
/// the status with which other commands refuse this port.
fn exit_of(findings: &[Finding]) -> Exit {
    let failed = || findings.iter().filter(|finding| finding.state == FindingState::Fail);
    let is_usage =
        |code: &str| code.parse().is_ok_and(|code: ErrorCode| code.exit() == Exit::Usage);
    if failed().any(|finding| finding.code.is_some_and(is_usage)) {
        return Exit::Usage;
    }
    if failed().next().is_some() { Exit::Machine } else { Exit::Done }
}

fn examine(port: Option<&PortName>, run_dir: &Path) -> Vec<Finding> {
    let mut findings = machine::examine();
    let privileges = privilege::Privileges::of_this_process();
    findings.extend(privileges.examine());
    findings.extend(trials::examine());
    if let Some(port) = port {
        let context = DoctorContext {
            run_dir,
            may_make_devices: privileges.may_make_devices(),
            interface: &|port| port::examine(port, &privileges),
        };
        findings.extend(kinds::examine(port, &context));
    }
    // This check comes last, since it may move this process into another namespace.
    findings.push(privilege::user_namespaces(&privileges));
    findings
}
