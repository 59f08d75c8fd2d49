//! ipfw's rule language on Ethernet frames between ports: text, rules and tables.
//!
//! | module | what |
//! |---|---|
//! | [`text`] | commands as text: reading them, and writing rules as `ipfw list` does |
//! | [`rule`] | what a rule is |
//! | [`table`] | tables that rules look up |
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod rule;
pub mod table;
pub mod text;
