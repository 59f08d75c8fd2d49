//! Measures the cost of a forwarded packet: the total, and the part that the forwarding itself
//! takes.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use slipring_rtnetlink::RouteFamily;

use super::path::{PathFeed, PathKind, PathTable, RoutePath};
use crate::kernel::CONTENDER_NAME as KERNEL_NAME;
use crate::measure::{BenchError, BenchReading, BenchTally};
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

const OURS_NAME: &str = "slipring route";
const PACKET_NAME: &str = "slipring route --io packet";
const XDP_DROP_NAME: &str = "first hop, XDP drop";
const KERNEL_DROP_NAME: &str = "first hop, kernel drop";
const TOTAL_NAME: &str = "in all";
const FIRST_HOP_NAME: &str = "first hop";

/// Returns the two rows of a family, table and source. They share their paths.
pub(super) fn rows(family: RouteFamily, table: PathTable, feed: PathFeed) -> [BenchRow; 2] {
    let (id, title, bound) = match (family, table) {
        (RouteFamily::V4, PathTable::OneDestination) => ("v4-1", "IPv4, 1 destination", 0.8),
        (RouteFamily::V6, PathTable::OneDestination) => ("v6-1", "IPv6, 1 destination", 0.8),
        (RouteFamily::V4, PathTable::Full) => ("v4-full", "IPv4, 1 M routes (--full)", 0.5),
        (RouteFamily::V6, PathTable::Full) => ("v6-full", "IPv6, 210 k routes (--full)", 0.35),
    };
    let (id, title) = match feed {
        PathFeed::LiveFrames => (id.to_owned(), format!("{title}, live frames to XDP drop")),
        PathFeed::Socket | PathFeed::PacedSocket => {
            (format!("{id}-skb"), format!("{title}, sendmmsg to XDP drop"))
        }
    };
    let path = |kind| SharedPath { kind, family, table, feed, path: Rc::default() };
    let [ours, kernel, xdp_drop, kernel_drop] =
        [PathKind::Slipring, PathKind::Kernel, PathKind::XdpDrop, PathKind::KernelDrop].map(path);
    let part_title = format!("route, {title}, forwarding part");
    let part = BenchRow::new(format!("route-{id}-part"), part_title, RowUnit::Nanos)
        .with(ContenderRole::Ours, OURS_NAME, part(ours.clone(), xdp_drop.clone()))
        .with(ContenderRole::Peer, KERNEL_NAME, part(kernel.clone(), kernel_drop.clone()))
        .goal(GoalMetric::RatioTo(KERNEL_NAME), bound);
    let whole = format!("route, {title}, by CPU time");
    let whole = BenchRow::new(format!("route-{id}"), whole, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, OURS_NAME, ours.rate())
        .with(ContenderRole::Peer, KERNEL_NAME, kernel.rate())
        .with(ContenderRole::Floor, XDP_DROP_NAME, xdp_drop.rate())
        .with(ContenderRole::Floor, KERNEL_DROP_NAME, kernel_drop.rate());
    [whole, part]
}

/// Returns the row of the router with packet sockets and full tables. Both this router and the
/// kernel's forwarding get a frame after the kernel has received it, so both have the same first
/// hop.
pub(super) fn packet_row(family: RouteFamily) -> BenchRow {
    let (id, title, bound) = match family {
        RouteFamily::V4 => ("v4", "IPv4, 1 M routes (--full)", 1.1),
        RouteFamily::V6 => ("v6", "IPv6, 210 k routes (--full)", 0.55),
    };
    let (table, feed) = (PathTable::Full, PathFeed::PacedSocket);
    let path = |kind| SharedPath { kind, family, table, feed, path: Rc::default() };
    let [ours, kernel, first_hop] =
        [PathKind::PacketSockets, PathKind::Kernel, PathKind::KernelDrop].map(path);
    let title = format!("route --io packet, {title}, 250 kpps by sendmmsg, forwarding part");
    BenchRow::new(format!("route-{id}-full-packet-part"), title, RowUnit::Nanos)
        .with(ContenderRole::Ours, PACKET_NAME, part(ours, first_hop.clone()))
        .with(ContenderRole::Peer, KERNEL_NAME, part(kernel, first_hop))
        .goal(GoalMetric::RatioTo(KERNEL_NAME), bound)
}

/// A path that several rows use. The first row creates it, and the last row removes it.
#[derive(Clone)]
struct SharedPath {
    kind: PathKind,
    family: RouteFamily,
    table: PathTable,
    feed: PathFeed,
    path: Rc<RefCell<Option<RoutePath>>>,
}

impl SharedPath {
    /// Creates the path if it does not exist.
    fn open(&self) -> Result<(), BenchError> {
        let mut path = self.path.borrow_mut();
        if path.is_none() {
            *path = Some(RoutePath::new(self.kind, self.family, self.table, self.feed)?);
        }
        Ok(())
    }

    fn measure(&self, time: Duration) -> Result<BenchTally, BenchError> {
        let path = self.path.borrow();
        path.as_ref().ok_or_else(|| BenchError::Failed("no path".into()))?.measure(time)
    }

    /// Measures packets per second of CPU time.
    fn rate(self) -> impl FnOnce() -> Result<BenchRound, BenchError> {
        move || {
            self.open()?;
            Ok(Box::new(move |time| {
                let tally = self.measure(time)?;
                Ok(BenchTally { wall: tally.cpu, ..tally }.into())
            }))
        }
    }
}

/// Measures the cost of a packet minus the cost of the path to the first hop. Each is measured for
/// half of the time.
fn part(
    whole: SharedPath,
    first_hop: SharedPath,
) -> impl FnOnce() -> Result<BenchRound, BenchError> {
    move || {
        whole.open()?;
        first_hop.open()?;
        Ok(Box::new(move |time| {
            let first_hop = cost(first_hop.measure(time / 2)?);
            Ok(beyond(cost(whole.measure(time / 2)?), first_hop))
        }))
    }
}

/// Returns the CPU time per packet in nanoseconds.
fn cost(tally: BenchTally) -> f64 {
    tally.cpu as f64 / tally.packets.max(1) as f64
}

fn beyond(whole: f64, first_hop: f64) -> BenchReading {
    let extra = vec![(TOTAL_NAME, whole), (FIRST_HOP_NAME, first_hop)];
    BenchReading { value: (whole - first_hop).max(0.0), per_cpu_second: None, extra }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forwarding_part_is_the_cost_beyond_the_first_hop() {
        let tally = |packets, cpu| BenchTally { packets, wall: 1, cpu };
        let reading = beyond(cost(tally(10, 8000)), cost(tally(10, 5000)));
        assert_eq!(reading.value, 300.0);
        assert_eq!(reading.extra, [(TOTAL_NAME, 800.0), (FIRST_HOP_NAME, 500.0)]);
    }

    #[test]
    fn the_engine_behind_packet_sockets_is_compared_with_the_kernel() {
        let row = packet_row(RouteFamily::V4);
        assert_eq!((row.id.as_str(), row.contenders.len()), ("route-v4-full-packet-part", 2));
    }

    #[test]
    fn each_table_has_a_row_in_all_and_one_for_the_part() {
        let ids = |feed| {
            let rows = rows(RouteFamily::V6, PathTable::Full, feed);
            rows.map(|row| (row.id, row.contenders.len()))
        };
        let live = [("route-v6-full".into(), 4), ("route-v6-full-part".into(), 2)];
        assert_eq!(ids(PathFeed::LiveFrames), live);
        let socket = [("route-v6-full-skb".into(), 4), ("route-v6-full-skb-part".into(), 2)];
        assert_eq!(ids(PathFeed::Socket), socket);
    }
}
