//! Counters that a running program publishes, and their display on a terminal.
//!
//! ```text
//!  the program                                    the watcher
//!  MetricSchema + words ──> core::counters ──> AttachedProgram ──> TopSample ──> TopModel ──> view
//!  meaning        values    PID.stats          two snapshots       figures       history
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`schema`] | the meaning of the published counters: objects, names, units |
//! | [`attach`] | finds running programs, and reads their counters |
//! | [`figures`] | compares two snapshots: rates, delays, losses of every link and port |
//! | [`router`] | what a router publishes, and its figures |
//! | [`model`] | the state of the screen: history, selection, pause; and the effect of keys |
//! | [`view`] | draws a model on a screen |
//! | [`plain`] | a sample as plain text |
//! | [`openmetrics`] | the counters as OpenMetrics text |
//! | [`watch`] | reads samples until a key or a signal |
//! | [`screen`] | takes and restores the terminal |
//!
//! # Invariants
//! 1. The watched program receives no requests, and need not answer. A read of its counters does
//!    not slow it down, but may wake the thread that publishes them.
//! 2. Data of another process is checked before use.
//! 3. The terminal is always restored.
//!
//! Not for changing anything (use the control socket), or storing figures over time.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod attach;
mod diagnose;
pub mod figures;
pub mod model;
pub mod openmetrics;
pub mod plain;
pub mod router;
pub mod schema;
pub mod screen;
pub mod view;
pub mod watch;
