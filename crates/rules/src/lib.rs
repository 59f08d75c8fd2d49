//! ipfw's rules in a running program: what `slipring firewall` and `slipring route` have in common,
//! and the rules of a router.
//!
//! ```text
//!   packet threads:  frames of a batch --> RuleStage --> RouteEngine        (a router)
//!                                            ^   '--> LogEvents --> log file, monitors
//!                                            | RuleTask: a whole ruleset, between two bursts
//!   other threads:   slipring ipfw --socket--> ControlPlane: parses, tries and compiles commands
//! ```
//!
//! The modules by layer:
//! - packet threads: [`RuleStage`]; [`dataplane`]: what the control plane does with them;
//!   [`distribution`] of flows among them
//! - commands: [`command_batch`], [`rules_file`], [`shaper_commands`], `lint`, `values`, [`save`]:
//!   parse the text of commands, and print configurations and results
//! - running them: [`control_plane`]: tries and compiles commands outside the packet threads, and
//!   passes them to these threads as one change; [`dry_run`], [`state_file`], [`randomness`]
//! - answers: [`service`]; [`explain`]: what the rules do to a packet; [`packet_words`]: the words
//!   that describe this packet
//!
//! Not for: the meaning of rules and pipes (`slipring-ipfw`, `slipring-dummynet`), ports, clocks.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod command_batch;
pub mod control_plane;
pub mod dataplane;
pub mod distribution;
pub mod dry_run;
mod events;
pub mod explain;
mod lint;
pub mod packet_words;
pub mod randomness;
pub mod rules_file;
pub mod save;
pub mod service;
mod shaped;
pub mod shaper_commands;
mod stage;
pub mod state_file;
mod values;

pub use events::{LogEvents, LogFileWriter, NumberedEvent};
pub use lint::unknown_interfaces;
pub use shaped::flow_of;
pub use stage::{
    ExplainedCheck, PuntedFrame, RuleStage, RuleStageCounters, asks_directions, router_obstacle,
    router_ports,
};
