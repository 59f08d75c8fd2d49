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
//! | engines | [`dataplane`]: rules and pipes: takes a frame, returns its output port; has no I/O |
//! | between threads | `deferred_output`, `shared_stats`, `task_queue`, `cross_thread` |
//! | packet threads | `worker`: rings and dataplane; `distributor`: the ports' thread; `bench` |
//! | running them | `captures`, `flags`, `threads` |
//! | answers | `figures`, `metrics`, `service` |
//! | programs | `run`: the firewall; `ipfw`: the command line of ipfw and dnctl |
//!
//! Commands and their execution are in `slipring-rules`, which the router also uses.
//!
//! Not for: the meaning of rules and pipes (`slipring-ipfw`, `slipring-dummynet`).
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bench;
mod captures;
mod cross_thread;
pub mod dataplane;
mod deferred_output;
mod distributor;
mod figures;
mod flags;
mod ipfw;
mod metrics;
mod run;
mod service;
mod shared_stats;
mod task_queue;
mod threads;
mod worker;

use clap::ArgMatches;
use slipring_cli::{ClassicName, Exit, Failure, Job, Verb};

pub use ipfw::{DNCTL, IPFW};

/// The program `slipring firewall`.
pub const VERB: Verb =
    Verb { name: "firewall", classic: &[CLASSIC], command: flags::command, plan, no_metrics: None };

/// The name of netmap-ipfw's program. If the program is called by this name, packets that match no
/// rule are accepted, unless `--default` says otherwise.
const KIPFW: &str = "kipfw";
/// The properties of the name `kipfw`: under this name, the exit code is 1 after any failure.
const CLASSIC: ClassicName =
    ClassicName { name: KIPFW, status: |exit| u8::from(exit != Exit::Done) };

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let plan = flags::FirewallPlan::of(matches)?;
    // A mistake in the rules counts as a mistake in the command line. `--check` also reports it.
    if let Some(path) = &plan.rules {
        let rules = slipring_rules::rules_file::read_rules(path)?;
        if matches!(matches.try_get_one("check"), Ok(Some(true))) {
            plan.try_rules(&rules, path)?;
        }
    }
    Ok(Box::new(move |session| {
        let accepts = session.classic == Some(KIPFW);
        plan.accepting_by_default(accepts).run(session)
    }))
}
