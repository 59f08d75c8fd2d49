//! Which of many rules, prefixes or flows a packet meets, in nearly the same time however many
//! there are.
//!
//! ```text
//!   field value --lookup--> class --row--> bits of the rules that accept the value
//!   (address)     Trie       |     Rows        \
//!   (port)        Direct     |                  AND --> candidates, in the order of the rules
//!   (protocol)    Direct     |     Rows        /
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`ranges`] | sets of values as ranges: union, intersection, complement |
//! | [`trie`] | a number for every value of a wide field: compressed multi-bit tries |
//! | [`direct`] | the same for 16-bit fields: one table |
//! | [`prefixes`] | longest prefix first: tables of prefixes that change |
//! | [`partition`] | values of a field that the same rules accept are one class |
//! | [`rows`] | one row of bits for each class, with summaries |
//! | [`matcher`] | the intersection of rows: rules that accept all fields |
//!
//! Values that no two rules tell apart are one class, so a field of any width becomes a small
//! number, and what each rule wants of it one bit. Everything here is built once from a list and
//! then only read; a changed list is built anew.
//!
//! Not for: what a rule does, conditions that are no set of values of one field, or reading packets.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod direct;
pub mod matcher;
pub mod partition;
pub mod prefixes;
pub mod ranges;
pub mod rows;
pub mod trie;
