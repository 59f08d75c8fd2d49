//! `slipring vale`, also called `vale-ctl`: the switches of `/dev/netmap` from the command line.
//!
//! ```text
//!   slipring vale -a vale0:eth0  -- NIOCCTRL -->   /dev/netmap (of slipringd or of netmap itself)
//!   slipring vale --show         -- JSON line -->  control socket of slipringd --> SwitchService
//! ```
//!
//! Requests that netmap defines go to the device. Requests for counters, addresses and settings,
//! which netmap does not define, go to the daemon.
//!
//! # Not for
//! Sending or receiving.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod action;
mod device;
mod flags;
mod settings;
mod show;
mod switches;
#[cfg(test)]
mod tests;

use clap::ArgMatches;
use slipring_cli::{ClassicName, Exit, Failure, Job, Session, Verb};
use slipring_port::kernel::default_device;

pub use show::{BoundPortRow, bound_ports};
pub use switches::SwitchService;

use action::ValeAction;

/// The entry of `slipring vale` in the table of commands.
pub const VERB: Verb = Verb {
    name: "vale",
    classic: &[CLASSIC],
    command: flags::command,
    plan,
    no_metrics: Some("asks a daemon, which has them"),
};

/// netmap's name for this command.
const VALE_CTL: &str = "vale-ctl";

/// netmap's vale-ctl exits with 1 after any failure, and also after listing all ports; see [`run`].
const CLASSIC: ClassicName =
    ClassicName { name: VALE_CTL, status: |exit| u8::from(exit != Exit::Done) };

/// The daemon's name on its control socket.
pub const DAEMON_NAME: &str = "slipringd";

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let plan = flags::ValePlan::of(matches)?;
    Ok(Box::new(move |session| run(&plan, session)))
}

fn run(plan: &flags::ValePlan, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let (json, text) = match &plan.action {
        flags::ValeRequest::Device(action) => {
            let device = plan.device.clone();
            action::perform(&device.unwrap_or_else(|| default_device(&session.run_dir)), action)?
        }
        flags::ValeRequest::Daemon(wish) => show::query_daemon(&session.run_dir, wish)?,
    };
    if !text.is_empty() || session.reporter.format() != slipring_cli::ReportFormat::Text {
        session.reporter.document(&json, text.trim_end())?;
    }
    // netmap's vale-ctl exits with 1 after a list, and scripts may rely on that.
    let listed = matches!(plan.action, flags::ValeRequest::Device(ValeAction::ListAll));
    let classic = session.classic == Some(VALE_CTL) && listed;
    Ok(if classic { Exit::Expectation } else { Exit::Done })
}
