//! The engine: a list of rules, and what it does to packets and commands.
//!
//! ```text
//!   frame --Packet--> rules in order --Verdict--> caller
//!                       | tables, states, random draws
//!                       +--> counters, log lines, frames to send ([`Outputs`])
//! ```
//!
//! The plain interpreter, one rule after the other, says what is right; a [`Program`] finds the
//! rules that matter faster, and does the same.
//!
//! Not for: reading commands (see [`crate::text`]).

mod batch;
mod changes;
mod checking;
mod compiled;
mod config;
mod crossing;
mod engine;
mod explain;
mod hosts;
mod interpret;
mod list;
mod log;
mod matches;
mod reassembly;
mod reply;
mod restoring;
mod rewrite;
mod ruleset;
mod search;
mod settings;
mod show;
mod tables;
mod translate;
mod translate_commands;
mod translate_figures;

#[cfg(test)]
mod tests;

pub use batch::{Batch, Checked, Frames};
pub use changes::{BatchError, CommandError, MOST_MISTAKES, Manner, Mistake, Reply};
pub use compiled::Program;
pub use config::{Config, PortId};
pub use crossing::{Crossing, Pass, Resume};
pub use engine::{DropCounters, Firewall};
pub use explain::{Crossed, Outcome};
pub use interpret::{Denied, Verdict};
pub use list::{Counters, Entry, List};
pub use log::LogEvent;
pub use reassembly::FragmentCounters;
pub use reply::{Emission, Outputs, Toward};
pub use restoring::Restored;
pub use rewrite::mark_congestion;
pub use ruleset::{KnownFlows, Ruleset};
pub use settings::{NonIp, Settings, SysctlError};
pub use show::{ListOptions, StatesShown, Times};
pub use tables::tables_of;
pub use translate::Translations;
pub use translate_figures::{NatView, TranslationFigures};
