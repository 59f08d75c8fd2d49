//! A list of rules compiled for searching: the same verdicts, counters and side effects as the
//! plain interpreter, in a time that for most lists depends little on the number of rules.
//!
//! ```text
//!   list --compile--> fields  (class of each header value)      packet --> classes
//!                     matcher (rows of bits for each class)            --> candidates, ascending
//!                     plans   (checks that are left, what to do)       --> walked in order
//! ```
//!
//! A clause that accepts a set of values of one field, or of bytes of an address, goes into the
//! rows; all other clauses remain checks, except those that always hold. Rows only exclude rules
//! that would not affect the packet. State lookups are stored separately ([`state_lookups`]): a
//! packet is looked up once per name, before it passes the first rule that uses the name. Simple
//! effects of a candidate are applied directly. For other effects, the plain interpreter executes
//! the rule, and tests all its conditions again. Header values that rules can change (`setdscp`,
//! tags, marks) are not fields, so the classes of a packet hold for the whole list, jumps included.
//!
//! Candidates are cached by flow and by classes ([`flow_cache`]). All packets of a batch first
//! advance through the rules as far as their classes decide ([`class_path`]), and then as far as
//! their headers decide ([`fast_path`]).
//!
//! Short lists are walked rule by rule, with all clauses as checks.
//!
//! Not for: changing rules. After a change of the list, of a set, a port or an address of `me`, the
//! list must be compiled again. After a change of a table, only the table's lookup speed must be
//! restored (`settle`).

mod bytes;
mod check;
mod class_path;
mod fast_path;
mod field;
mod flow_cache;
mod plan;
mod program;
mod state_lookups;
mod table_prefetch;
mod walk;

#[cfg(test)]
mod tests;

pub(super) use class_path::ClassGroup;
pub use program::CompiledRules;
pub(super) use walk::{CandidateCaches, PacketState};
