//! `slipring route`: the router program.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod checks;
mod compat;
mod ctl;
mod dump;
mod feed;
mod figures;
mod flags;
mod io_choice;
mod lookup_tables;
mod neighbours;
mod pace;
mod pages;
mod reasons;
mod reload;
mod resident;
mod route_get;
mod routing;
mod routing_thread;
mod rules;
mod run;
mod service;
mod show;
mod start;
mod subinterface;
mod supervision;
mod traffic;
mod verification;
mod watch;
mod worker;

use clap::ArgMatches;
use slipring_cli::{ClassicName, Exit, Failure, Job, Verb};

use flags::RoutePlan;

/// The command.
pub const VERB: Verb =
    Verb { name: "route", classic: &[CLASSIC], command: flags::command, plan, no_metrics: None };

/// netmap-fwd exits with 1 for any failure.
const CLASSIC: ClassicName =
    ClassicName { name: "netmap-fwd", status: |exit| u8::from(exit != Exit::Done) };

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    if let Some((ctl::COMMAND_NAME, asked)) = matches.subcommand() {
        return ctl::plan(asked);
    }
    let plan = RoutePlan::of(matches)?;
    Ok(Box::new(move |session| plan.run(session)))
}
