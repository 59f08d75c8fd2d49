//! What a running program publishes of itself, and how a terminal shows it.
//!
//! ```text
//!   the program                              who watches
//!   Names + words ──> core::counters ──> Attached ──> Frame ──> Model ──> view ──> terminal
//!   what they mean      PID.stats        two looks    figures   history   text, JSON
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`names`] | what the published words mean: objects, their counters, units |
//! | [`attach`] | finds the programs that run, and looks at their words |
//! | [`figures`] | two looks side by side: rates, delays, losses of every link and port |
//! | [`model`] | what the person watches: history, selection, pause; and what keys do |
//! | [`view`] | a model on a screen |
//! | [`plain`] | a frame as plain text |
//! | [`openmetrics`] | the words as OpenMetrics text |
//! | [`watch`] | looks again and again, until a key or a signal |
//! | [`screen`] | the terminal, taken and given back |
//!
//! # Invariants
//! 1. Nothing is asked of the program that is watched: it is not slowed down, and it need not
//!    answer.
//! 2. What another process published is checked before it is used.
//! 3. The terminal is given back on every way out.
//!
//! Not for: changing anything (that is the control socket's), or keeping figures over time.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod attach;
mod diagnose;
pub mod figures;
pub mod model;
pub mod openmetrics;
pub mod plain;
pub mod schema;
pub mod screen;
pub mod view;
pub mod watch;
