//! ipfw's rules in a running program: what `slipring firewall` and `slipring route` have in common,
//! and the rules of a router.
//!
//! ```text
//!   frames of a batch --> RuleStage --> RouteEngine
//!                           | lines of rules with `log`
//!                           '--> LogEvents --> log file, monitors
//! ```
//!
//! Not for: the meaning of rules and pipes (`slipring-ipfw`, `slipring-dummynet`), ports, clocks.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod events;
mod shaped;
mod stage;

pub use events::{LogEvents, LogFileWriter, NumberedEvent};
pub use shaped::flow_of;
pub use stage::{PuntedFrame, RuleStage, RuleStageCounters, asks_directions, router_ports};
