//! `slipring route`: the router program.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod announcement;
mod backoff;
mod checks;
mod compat;
mod config;
mod ctl;
mod drain;
mod drop_counts;
mod drops;
mod dump;
mod event_log;
mod events;
#[cfg(test)]
mod failing_queue;
mod feed;
mod figures;
mod flags;
mod helper;
mod inherited_figures;
mod io_choice;
mod kernel_events;
mod kernel_words;
mod known_interfaces;
mod live;
mod lookup_tables;
mod named_vrfs;
mod names;
mod neighbour_space;
mod neighbours;
mod pace;
mod packet_trace;
mod pages;
mod plan;
mod planned_ports;
mod policers;
mod port_settings;
mod publication;
mod punt_answer;
mod queue_gate;
mod queue_wait;
mod reasons;
mod reload;
mod resident;
mod route_document;
mod route_get;
mod router_events;
mod router_figures;
mod router_shape;
mod routing;
mod routing_thread;
mod rules;
mod run;
mod sandbox;
mod service;
mod shell;
mod show;
mod source_checks;
mod start;
mod subinterface;
mod supervision;
mod surviving_queue;
mod takeover;
mod trace;
mod traffic;
mod verification;
mod watch;
mod why;
mod worker;

use clap::ArgMatches;
use slipring_cli::{ClassicName, Exit, Failure, Job, Verb};

use plan::RoutePlan;

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
    if matches.get_flag(plan::PRINT_FLAG) {
        let text = config::print(&plan);
        return Ok(Box::new(move |session| {
            session.reporter.raw(text.as_bytes())?;
            Ok(Exit::Done)
        }));
    }
    // A mistake in the rules has the exit status of a mistake in the command line, also with
    // --check.
    let rules = plan.initial_rules()?;
    Ok(Box::new(move |session| {
        session.metrics.clone_from(&plan.metrics);
        plan.run(rules, session)
    }))
}
