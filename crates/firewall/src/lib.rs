//! `slipring firewall`: ipfw's rules and dummynet's pipes between ports. Also `slipring ipfw` and
//! `slipring dnctl`, the programs with which users query and change a running firewall.
//!
//! ```text
//!   packet thread:   ports --> FirewallProcessor --> Dataplane (rules, pipes) --> ports
//!                                                        ^
//!                                                        | TaskQueue: a whole ruleset, executed
//!                                                        | between two bursts of frames
//!   other threads:   slipring ipfw --socket--> ControlPlane: parses, tries and compiles commands
//! ```
//!
//! A packet thread never blocks.
//!
//! A module uses only modules in its own row of this table and in the rows above it:
//!
//! | layer | modules |
//! |---|---|
//! | engines | [`dataplane`]: the engines for rules and pipes combined: it takes a frame and returns its output port, without I/O |
//! | between threads | `events`, `deferred_output`, `shared_stats`, `task_queue`, `cross_thread` |
//! | packet threads | `worker`: the loop between rings and dataplane; `distributor`: with several packet threads, the thread that owns the ports; `bench` |
//! | commands | `save`, `command_batch`, `shaper_commands`, `lint`, `values`: parse the text of commands, and print configurations and results; `captures`, `flags` |
//! | running them | `threads`, `state_file`; `control_plane`: tries and compiles commands outside the packet threads, and passes them to these threads as one change; `dry_run` |
//! | answers | `figures`, `metrics`, `explain`, `service` |
//! | programs | `rules_file`, `manager`, `run`: the firewall; `ipfw`: the command line of ipfw and dnctl |
//!
//! Not for: the meaning of rules and pipes (`slipring-ipfw`, `slipring-dummynet`).
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bench;
mod captures;
mod command_batch;
mod control_plane;
mod cross_thread;
pub mod dataplane;
mod deferred_output;
mod distributor;
mod dry_run;
mod explain;
mod figures;
mod flags;
mod ipfw;
mod lint;
mod manager;
mod metrics;
mod randomness;
mod rules_file;
mod run;
mod save;
mod service;
mod shaper_commands;
mod shared_stats;
mod state_file;
mod task_queue;
mod threads;
mod values;
mod worker;

use clap::ArgMatches;
use slipring_cli::{ClassicName, Exit, Failure, Job, Verb};

pub use ipfw::{DNCTL, IPFW};

/// The program `slipring firewall`.
pub const VERB: Verb =
    Verb { name: "firewall", classic: &[CLASSIC], command: flags::command, plan, no_metrics: None };

/// The name of netmap-ipfw's program. Called by this name, the firewall accepts packets that no
/// rule matches.
const KIPFW: &str = "kipfw";
/// The properties of the name `kipfw`: a program that is called by it exits with code 1 after any
/// failure.
const CLASSIC: ClassicName =
    ClassicName { name: KIPFW, status: |exit| u8::from(exit != Exit::Done) };

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let plan = flags::FirewallPlan::of(matches)?;
    // A mistake in the rules counts as a mistake in the command line, also for --check.
    if let Some(path) = &plan.rules {
        let rules = rules_file::read_rules(path)?;
        if matches!(matches.try_get_one("check"), Ok(Some(true))) {
            plan.try_rules(&rules, path)?;
        }
    }
    Ok(Box::new(move |session| {
        let accepts = session.classic == Some(KIPFW);
        plan.accepting_by_default(accepts).run(session)
    }))
}
