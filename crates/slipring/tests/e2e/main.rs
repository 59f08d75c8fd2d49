//! The binary from end to end, in network namespaces of the tests' own, with real programs as
//! witnesses.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod behaviour;
mod cleanup;
mod confined;
mod crossing;
mod down;
mod errors;
mod programs;
mod taking;
mod units;
