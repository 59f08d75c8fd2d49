//! Measures the cost of rules, tables, states and pipes of the firewall, without ports and between
//! veth links, and how exactly its pipes shape traffic.
//!
//! Rates without ports are per second of CPU time, which other load on the machine affects less
//! than elapsed time.

mod accuracy;
mod between;
mod checks;
mod draw;
mod frames;
mod pipes;
mod program;
mod rules;
mod states;
mod tables;

use super::row::BenchRow;

/// Returns all benchmark rows that measure the firewall.
pub(crate) fn rows() -> Vec<BenchRow> {
    let mut rows = rules::rows();
    rows.extend(tables::rows());
    rows.extend(states::rows());
    rows.extend(pipes::rows());
    rows.extend(between::rows());
    rows.extend(accuracy::rows());
    rows
}
