//! The firewall: the cost of rules, tables, states and pipes, without ports and between namespaces.
//!
//! Figures without ports are per second of CPU time, which other load affects less.

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

/// All rows.
pub(crate) fn rows() -> Vec<BenchRow> {
    let mut rows = rules::rows();
    rows.extend(tables::rows());
    rows.extend(states::rows());
    rows.extend(pipes::rows());
    rows.extend(between::rows());
    rows.extend(accuracy::rows());
    rows
}
