//! A list of rules made ready to be searched: the same verdicts, counters and side effects as the
//! plain interpreter, in nearly the same time however many rules there are.
//!
//! ```text
//!   list --compile--> fields  (class of each header value)      packet --> classes
//!                     matcher (rows of bits for each class)            --> candidates, ascending
//!                     plans   (checks that are left, what to do)       --> walked in order
//! ```
//!
//! Every clause of a rule that is a set of values of one header field goes into the rows; all
//! others stay as checks. Rows leave out only rules that would do nothing to the packet. Where states
//! are looked up is known apart ([`lookups`]): a packet is looked up once for each name, before it
//! goes further than the first rule that asks for it. What a candidate does is done here if it is simple, else by a step of the plain interpreter, which
//! asks everything again. Header values that rules can change (`setdscp`, tags, marks) are no
//! fields, so classes hold for a packet's whole way through the list, jumps included.
//!
//! Candidates that were found are remembered by their flow and by their classes ([`memo`]). Packets
//! that come together go as far as their headers lead before any of them goes further ([`lead`]).
//!
//! Short lists are walked rule by rule, with all clauses as checks.
//!
//! Not for: changing rules. A changed list, set, port or address of `me` wants a new program, a
//! changed table that tables are bound again.

mod bytes;
mod check;
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

pub use program::CompiledRules;
pub(super) use walk::{PacketState, RuleFinders};
