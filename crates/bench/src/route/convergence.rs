//! Measures how soon a change of the kernel's routes takes effect for packets, and whether other
//! traffic is affected while full tables are loaded.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use slipring_rtnetlink::RouteFamily;

use super::install;
use super::path::{frame, gateway, install_routes, routed_lab};
use super::running::RunningRouter;
use super::source::set_destination;
use super::stream::{self, Arrival};
use super::table::BenchTable;
use crate::lab::{BenchLab, OUTPUT_IFNAME, find};
use crate::measure::{BenchError, BenchReading};
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

const OURS_NAME: &str = "slipring route";
/// Maximum time in ns until a change takes effect.
const MAX_CHANGE_NS: f64 = 1e8;
/// The MAC address of the gateway of the new routes, and the number of this gateway.
const NEW_MAC: [u8; 6] = [2, 0, 0, 0, 9, 9];
const NEW_GATEWAY: u16 = 210;
/// Duration of the stream before and after a change.
const PART: Duration = Duration::from_millis(200);

pub(super) fn rows() -> [BenchRow; 2] {
    let change = "route, 1 M routes, a new route to its first packet (--full)";
    let loss = "route, lost of 20 kpps while 1 M + 210 k routes are installed (--full)";
    [
        BenchRow::new("route-fib-change", change, RowUnit::Nanos)
            .with(ContenderRole::Ours, OURS_NAME, changes)
            .goal(GoalMetric::Value, MAX_CHANGE_NS),
        BenchRow::new("route-fib-loss", loss, RowUnit::Packets)
            .with(ContenderRole::Ours, OURS_NAME, || Ok(Box::new(|_| loss_while_loading())))
            .goal(GoalMetric::Value, 0.0)
            .once(Duration::ZERO),
    ]
}

fn changes() -> Result<BenchRound, BenchError> {
    let lab = routed_lab(BenchLab::without_sink()?, &[RouteFamily::V4])?;
    lab.within(|| {
        install_routes(&BenchTable::full(RouteFamily::V4))?;
        let output = find(OUTPUT_IFNAME)?.index;
        install::neighbours(output, [(gateway(RouteFamily::V4, NEW_GATEWAY), NEW_MAC)].into_iter())
    })?;
    let router = RunningRouter::start(&lab)?;
    let mut hosts = 1..;
    Ok(Box::new(move |_| {
        let _ = &router;
        // The full table has routes within 20.0.0.0/8, but only few of them are /32, so the route
        // of a measurement is almost always new.
        let host = hosts.next().unwrap_or(u32::MAX);
        let nanos = change(&lab, Ipv4Addr::from_bits(0x14ff_0000 + host))?;
        Ok(BenchReading::of(nanos as f64))
    }))
}

/// Measures the time from the request to the kernel to the arrival of the first packet by the new
/// route.
fn change(lab: &Rc<BenchLab>, to: Ipv4Addr) -> Result<u64, BenchError> {
    let (output, mut frame) =
        lab.within(|| Ok((find(OUTPUT_IFNAME)?.index, frame(RouteFamily::V4, true)?)))?;
    set_destination(&mut frame, to.into());
    let (asked_at, tally) = stream::during(lab, &frame, || {
        std::thread::sleep(PART);
        let asked_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let via = gateway(RouteFamily::V4, NEW_GATEWAY);
        lab.within(|| install::route(output, (IpAddr::from(to), 32), via))?;
        std::thread::sleep(PART);
        Ok(asked_at.as_nanos() as u64)
    })?;
    let is_new = |arrival: &&Arrival| arrival.mac == NEW_MAC;
    let first = tally.arrivals.iter().find(is_new);
    let first = first.ok_or_else(|| BenchError::Failed("no packet by the new route".into()))?;
    Ok(first.at.saturating_sub(asked_at))
}

/// Counts the packets to a neighbour that are lost while full tables are added to the kernel and
/// read by the router.
fn loss_while_loading() -> Result<BenchReading, BenchError> {
    let families = [RouteFamily::V4, RouteFamily::V6];
    let lab = routed_lab(BenchLab::without_sink()?, &families)?;
    let router = RunningRouter::start(&lab)?;
    let frame = lab.within(|| frame(RouteFamily::V4, true))?;
    let tables = families.map(BenchTable::full);
    let ((), tally) = stream::during(&lab, &frame, || {
        tables.iter().try_for_each(|table| lab.within(|| install_routes(table)))?;
        std::thread::sleep(PART);
        Ok(())
    })?;
    drop(router);
    Ok(BenchReading::of(tally.lost() as f64))
}
