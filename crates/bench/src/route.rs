//! Benchmarks of the router: the cost of a packet compared with the kernel's forwarding, with one
//! destination and with full tables; the engine alone; the time to take over full tables; the cost
//! of an idle router and of a scan; and the traffic while the kernel takes over from the router.
//!
//! Frames come from an XDP program on live frames, or from a packet socket. XDP frames favour XDP
//! programs, because the kernel must first convert them to socket buffers. Frames of a packet
//! socket favour the kernel, because a veth link must first convert them to XDP frames for a
//! program. So the cost of the forwarding alone is the cost of the whole path, minus that of the
//! first hop with the same kind of frames.

mod convergence;
mod duties;
mod engine;
mod forwarding;
mod install;
mod load;
mod pace;
mod path;
mod running;
mod socket_source;
mod softirq;
mod source;
mod stream;
mod table;
mod tables;
mod takeover;

use path::{PathFeed, PathTable};
use slipring_rtnetlink::RouteFamily;

use super::row::BenchRow;

/// Returns the rows. Rows with full tables in the kernel take longer, and are only included with
/// `full`.
pub(crate) fn rows(full: bool) -> Vec<BenchRow> {
    let families = [RouteFamily::V4, RouteFamily::V6];
    let of_table = |table| {
        let feeds = [PathFeed::LiveFrames, PathFeed::Socket].into_iter();
        feeds.flat_map(move |feed| {
            families.into_iter().flat_map(move |family| forwarding::rows(family, table, feed))
        })
    };
    let mut rows: Vec<_> = of_table(PathTable::OneDestination).collect();
    rows.extend(engine::rows());
    rows.extend(takeover::rows());
    rows.extend(duties::rows());
    if full {
        rows.extend(of_table(PathTable::Full));
        rows.extend(families.map(forwarding::packet_row));
        rows.extend(load::rows());
        rows.extend(convergence::rows());
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
