//! The router: what it adds to a packet's cost beside the kernel's forwarding, with one route and
//! with full tables, the engine alone, and the take-over of full tables.
//!
//! Frames come from an XDP program on live frames and reach the router's interface as XDP frames.
//! That suits programs in XDP; the kernel first has to make socket buffers of them. So each
//! forwarding part is the cost beyond the first hop of its own kind.

mod engine;
mod forwarding;
mod install;
mod load;
mod path;
mod running;
mod softirq;
mod source;
mod table;
mod tables;

use path::PathTable;
use slipring_rtnetlink::RouteFamily;

use super::row::BenchRow;

/// The rows; those with full tables in the kernel, which take longer, only with `full`.
pub(crate) fn rows(full: bool) -> Vec<BenchRow> {
    let families = [RouteFamily::V4, RouteFamily::V6];
    let mut rows: Vec<_> = families
        .into_iter()
        .flat_map(|family| forwarding::rows(family, PathTable::OneDestination))
        .collect();
    rows.extend(engine::rows());
    if full {
        let tables = families.into_iter();
        rows.extend(tables.flat_map(|family| forwarding::rows(family, PathTable::Full)));
        rows.extend(load::rows());
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_tables_in_the_kernel_are_measured_on_request_only() {
        let (quick, full) = (rows(false), rows(true));
        assert!(quick.iter().all(|row| !row.title.contains("--full")));
        let more: Vec<_> = full[quick.len()..].iter().map(|row| &row.title).collect();
        assert!(
            !more.is_empty() && more.iter().all(|title| title.contains("(--full)")),
            "{more:?}"
        );
    }
}
