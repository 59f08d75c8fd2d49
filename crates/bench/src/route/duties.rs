//! Measures the router's costs apart from forwarding: when nothing happens, and while a subnet is
//! scanned.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use slipring_port::netlink::Netlink;
use slipring_port::{Nanos, now};
use slipring_rtnetlink::RouteFamily;

use super::path::{PathFeed, PathKind, PathTable, RoutePath, frame, routed_lab};
use super::running::RunningRouter;
use super::socket_source::SocketSource;
use crate::kernel::CONTENDER_NAME as KERNEL_NAME;
use crate::lab::{BenchLab, OUTPUT_IFNAME, find};
use crate::measure::{BenchError, BenchReading, BenchTally};
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

const OURS_NAME: &str = "slipring route";
const MAX_IDLE_SHARE: f64 = 0.001;
/// Time over which an idle router is observed.
const IDLE_TIME: Duration = Duration::from_secs(30);
const MAX_SCAN_SHARE: f64 = 0.05;
/// Time between two packets of a scan: 10,000 packets per second.
const SCAN_PERIOD_NS: Nanos = 100_000;
/// The scanned subnet, and the router's address in it.
const SCANNED: Ipv4Addr = Ipv4Addr::new(10, 67, 0, 0);
const SCANNED_ROUTER: Ipv4Addr = Ipv4Addr::new(10, 67, 255, 254);

pub(super) fn rows() -> [BenchRow; 2] {
    let idle = "route, CPU time of an idle router";
    let scan = "route, cost of a packet beside a scan of a /16 at 10 kpps, added";
    [
        BenchRow::new("route-idle", idle, RowUnit::Share)
            .with(ContenderRole::Ours, OURS_NAME, idle_share)
            .goal(GoalMetric::Value, MAX_IDLE_SHARE)
            .once(IDLE_TIME),
        BenchRow::new("route-scan", scan, RowUnit::Share)
            .with(ContenderRole::Ours, OURS_NAME, || beside_scan(PathKind::Slipring))
            .with(ContenderRole::Peer, KERNEL_NAME, || beside_scan(PathKind::Kernel))
            .goal(GoalMetric::Value, MAX_SCAN_SHARE),
    ]
}

/// Measures the CPU time of all processes of a router without traffic, as a share of a core.
fn idle_share() -> Result<BenchRound, BenchError> {
    let lab = routed_lab(BenchLab::new()?, &[RouteFamily::V4, RouteFamily::V6])?;
    let router = RunningRouter::start(&lab)?;
    // The router becomes idle 10 s after its start, so this waits a little longer.
    std::thread::sleep(Duration::from_secs(13));
    Ok(Box::new(move |time| {
        let _ = &lab;
        let (before, start) = (router.cpu(), now());
        std::thread::sleep(time);
        let spent = router.cpu().saturating_sub(before);
        Ok(BenchReading::of(spent as f64 / (now() - start) as f64))
    }))
}

/// Measures how much more CPU time a packet of another flow takes while the subnet is scanned. Both
/// measurements include the cost of sending the frames of the scan: in the measurement without a
/// scan, these frames have another MAC address, so that the kernel drops them.
fn beside_scan(kind: PathKind) -> Result<BenchRound, BenchError> {
    let family = RouteFamily::V4;
    let path = RoutePath::new(kind, family, PathTable::OneDestination, PathFeed::LiveFrames)?;
    let [scan, dropped] = [true, false].map(|is_for_router| {
        path.lab().within(|| SocketSource::new(&frame(family, is_for_router)?, &scanned()))
    });
    let (scan, dropped) = (scan?, dropped?);
    path.lab().within(|| {
        let output = find(OUTPUT_IFNAME)?.index;
        Ok(Netlink::open()?.add_address(output, IpAddr::from(SCANNED_ROUTER), 16)?)
    })?;
    let mut at = 0;
    Ok(Box::new(move |time| {
        let [without, with] = [&dropped, &scan].map(|source| {
            let (start, mut sent) = (now(), 0);
            path.measure_beside(time / 2, &mut || {
                // Sends the frames of the scan that have become due since the last call.
                while sent < (now() - start) / SCAN_PERIOD_NS {
                    source.send_one(at)?;
                    (at, sent) = (at + 1, sent + 1);
                }
                Ok(())
            })
        });
        Ok(BenchReading::of((cost(with?) / cost(without?) - 1.0).max(0.0)))
    }))
}

/// Returns all addresses of the subnet except the network address, the router's address and the
/// broadcast address.
fn scanned() -> Vec<IpAddr> {
    let first = SCANNED.to_bits();
    (first + 1..SCANNED_ROUTER.to_bits()).map(|bits| Ipv4Addr::from_bits(bits).into()).collect()
}

fn cost(tally: BenchTally) -> f64 {
    tally.cpu as f64 / tally.packets.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scan_meets_every_host_of_the_subnet_once() {
        let all: std::collections::HashSet<_> = scanned().into_iter().collect();
        assert_eq!(all.len(), 65_533);
        assert!(!all.contains(&IpAddr::from(SCANNED_ROUTER)));
    }
}
