//! The engine: a list of rules that processes packets and commands.
//!
//! ```text
//!   frame --PacketHeaders--> rules in order --RuleVerdict--> caller
//!                              | tables, states, random draws
//!                              +--> counters, log lines, frames to send ([`CheckOutputs`])
//! ```
//!
//! The plain interpreter, one rule after another, is the reference. [`CompiledRules`] find the
//! relevant rules faster and give the same results.
//!
//! Not for parsing commands (see [`crate::text`]).

mod batch;
mod changes;
mod check_buffers;
mod checking;
mod compiled;
mod config;
mod engine;
mod explain;
mod hosts;
mod interpret;
mod list;
mod log;
mod matches;
mod metadata;
mod reassembly;
mod reply;
mod restore;
mod restored_states;
mod rewrite;
mod ruleset;
mod search;
mod settings;
mod show;
mod tables;
mod translate;
mod translate_commands;
mod translate_stats;
mod translations;

#[cfg(test)]
mod tests;

pub use batch::{CheckResult, CheckedBatch, FrameBatch};
pub use changes::{
    CommandError, CommandFileError, CommandFlags, LineError, MAX_LINE_ERRORS, RuleCommandReply,
};
pub use compiled::CompiledRules;
pub use config::{IpfwConfig, PortIndex};
pub use engine::{CheckCounters, Firewall};
pub use explain::{RuleOutcome, RuleTrace};
pub use interpret::{DenyReason, RuleVerdict};
pub use list::{RuleCounters, RuleEntry, RuleList};
pub use log::LogEvent;
pub use metadata::{CheckPass, PacketMetadata, ResumePoint};
pub use reassembly::FragmentCounters;
pub use reply::{CheckOutputs, EmissionTarget, EmittedFrame};
pub use restored_states::RestoredStates;
pub use rewrite::mark_congestion;
pub use ruleset::{FlowSnapshot, Ruleset};
pub use settings::{IpfwSettings, IpfwSysctlError, NonIpPolicy};
pub use show::{ListOptions, StateListing, TimeFormat};
pub use tables::tables_of;
pub use translate_stats::{NatView, TranslationStats};
pub use translations::Translations;
