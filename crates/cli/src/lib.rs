//! Code shared by all commands of slipring: flags, units, errors, reports, signals.
//!
//! A command is a [`Verb`]. It has a clap [`Command`](clap::Command), the table of flags from which
//! help, manual pages and completions are made; a *plan*, which turns the command line into a job
//! without any effect; and the *job* that the plan returns, which runs and reports. [`CliProgram`]
//! finds the verb by name, classic name or unique abbreviation, parses, plans, runs, prints errors,
//! and returns the exit status.
//!
//! ```
//! use clap::{Arg, ArgMatches, Command};
//! use slipring_cli::report::{PortReport, ReportSample};
//! use slipring_cli::units::Count;
//! use slipring_cli::{Exit, Failure, Job, CliProgram, Session, Verb, flags};
//!
//! const COUNT: Verb = Verb { name: "count", classic: &[], command, plan, no_metrics: None };
//!
//! fn command() -> Command {
//!     let upto = Arg::new("count").short('n').long("count").default_value("3");
//!     let upto = upto.value_parser(str::parse::<Count>).help("Packets to pretend");
//!     flags::configuration(flags::reporting(Command::new("count").about("Count").arg(upto)))
//! }
//!
//! fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
//!     let Count(upto) = *matches.get_one("count").expect("it has a default");
//!     Ok(Box::new(move |session| run(upto, session)))
//! }
//!
//! fn run(upto: u64, session: &mut Session<'_>) -> Result<Exit, Failure> {
//!     let mut port = PortReport { name: "null:".into(), ..PortReport::default() };
//!     session.reporter.start(None, "none", std::slice::from_ref(&port))?;
//!     port.tx.packets = upto;
//!     let extra = serde_json::json!({ "rate_pps": 0 });
//!     let elapsed = std::time::Duration::ZERO;
//!     let end = ReportSample { elapsed, ports: vec![port], in_flight: 0, copies: 0, extra };
//!     session.reporter.end(&end, format_args!("sent {upto}"))?;
//!     Ok(Exit::Done)
//! }
//!
//! static VERBS: [Verb; 1] = [COUNT];
//! let program = CliProgram { name: "demo", about: "Shows", version: "1.0", verbs: &VERBS };
//! let args = ["demo", "count", "-n", "2k", "--json"].map(Into::into);
//! assert_eq!(program.run(&args, slipring_cli::OutputStreams::standard()), 0);
//! ```
//!
//! # Not for
//! Code on the packet path. No engine depends on this crate.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bench;
mod builtin;
mod candidates;
pub mod codes;
pub mod config;
mod diagnose;
mod diagnostic;
mod exit;
pub mod flags;
mod generate;
pub mod manager;
pub mod metrics;
mod output_streams;
mod program;
pub mod report;
mod reporter;
pub mod sections;
mod sibling_program;
mod signals;
pub mod units;
mod usage;
mod verb;

pub use clap_complete::Shell;
pub use diagnostic::{Diagnose, Diagnostic, Failure};
pub use exit::Exit;
pub use generate::{completions, man, man_pages};
pub use output_streams::OutputStreams;
pub use program::parse_refusal;
pub use report::SCHEMA_VERSION;
pub use reporter::{ReportFormat, Reporter, UNCAPTURED};
pub use sibling_program::find_sibling_program;
pub use signals::Signals;
pub use usage::nearest;
pub use verb::{ClassicName, CliProgram, Job, Session, Verb};
