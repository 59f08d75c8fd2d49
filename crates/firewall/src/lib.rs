//! `slipring firewall`: ipfw's rules and dummynet's pipes between ports, and the commands that ask
//! and change a running one, `slipring ipfw` and `slipring dnctl`.
//!
//! ```text
//!   ports --Lane--> Join (rules, pipes) --Lane--> ports         a thread that never waits for others
//!                     ^ Mail: whole rulesets, between bursts
//!                   Desk <--Order-- control socket <-- slipring ipfw
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`join`] | the engines joined: a frame in, its way out, without I/O |
//! | `lane` | the loop between rings and engine |
//! | `threads`, `dealer`, `shared` | the same in several threads |
//! | `desk` | commands, tried and made ready away from the loop, then handed over whole |
//! | `values` | answers for `--json` |
//! | `mail`, `board`, `events` | what passes between threads |
//! | `run`, `flags`, `manager` | the program, and what it tells the service manager |
//! | `ipfw` | the command line of ipfw and dnctl |
//!
//! Not for: what rules and pipes mean (`slipring-ipfw`, `slipring-dummynet`).
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
mod events;
mod explain;
mod file_trial;
mod flags;
mod ipfw;
mod lint;
mod manager;
mod metrics;
mod run;
mod save;
mod service;
mod shared_stats;
mod state_file;
mod task_queue;
mod threads;
mod values;
mod worker;

use clap::ArgMatches;
use slipring_cli::{ClassicName, Exit, Failure, Job, Verb};

pub use ipfw::{DNCTL, IPFW};

/// The command.
pub const VERB: Verb =
    Verb { name: "firewall", classic: &[CLASSIC], command: flags::command, plan, no_metrics: None };

/// netmap-ipfw's program, whose last rule accepts.
const KIPFW: &str = "kipfw";
/// 1 for any failure.
const CLASSIC: ClassicName =
    ClassicName { name: KIPFW, status: |exit| u8::from(exit != Exit::Done) };

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let plan = flags::FirewallPlan::of(matches)?;
    // A mistake in the rules is one of the command line, for --check too.
    if let Some(path) = &plan.rules {
        let rules = run::read_rules(path)?;
        if matches!(matches.try_get_one("check"), Ok(Some(true))) {
            plan.try_rules(&rules, path)?;
        }
    }
    Ok(Box::new(move |session| plan.with_classic_name(session.classic).run(session)))
}
