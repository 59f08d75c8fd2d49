//! End-to-end tests of the binary, in the tests' own network namespaces, with real programs as
//! peers.
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
