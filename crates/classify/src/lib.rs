//! Finds which of many rules, prefixes or flows match a packet, in nearly constant time.
//!
//! ```text
//!   field value --lookup--> class --row--> bits of the rules that accept the value
//!   (address)     Trie       |     Rows        \
//!   (port)        Direct     |                  AND --> candidates, in the order of the rules
//!   (protocol)    Direct     |     Rows        /
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`ranges`] | sets of values as ranges: union, intersection, complement |
//! | [`trie`] | maps every value of a wide field to a number: compressed multi-bit tries |
//! | [`dir24`] | maps IPv4 addresses to numbers that change under readers: DIR-24-8 |
//! | [`direct`] | maps every value of a 16-bit field to a number: one table |
//! | [`intervals`] | maps every 128-bit value to a number: a search tree with vector instructions |
//! | [`prefixes`] | longest-prefix match: tables of prefixes that change |
//! | [`partition`] | makes a class of all values of a field that the same rules accept |
//! | [`rows`] | one row of bits for each class, with summaries |
//! | [`matcher`] | the intersection of rows: rules that accept all fields |
//!
//! Values that no rule distinguishes form one class, so the value of a field of any width becomes a
//! small number, and each rule's condition on the field becomes one bit. The structures are built
//! once from a list and then only read; after a change of the list they are built again. Only
//! [`prefixes`], [`intervals`] and [`dir24`] support changes in place; [`dir24`] even while others
//! read.
//!
//! Not for the actions of rules, conditions that are not a set of values of one field, or parsing
//! packets.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod dir24;
pub mod direct;
pub mod intervals;
mod lookup;
pub mod matcher;
pub mod partition;
pub mod prefixes;
pub mod ranges;
pub mod rows;
pub mod trie;
