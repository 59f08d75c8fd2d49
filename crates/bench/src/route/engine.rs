//! Measures the router's engine without ports: from parsing to the rewritten header, with the
//! frames in memory.

use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use slipring_dummynet::Dummynet;
use slipring_fib::{FibPortIndex, heap_table};
use slipring_ipfw::run::{CommandFileError, Firewall};
use slipring_port::{Nanos, now};
use slipring_route::{
    MAX_ROUTE_BATCH, RouteBatch, RouteConfig, RouteEngine, RouteFrame, RouteVerdict,
};
use slipring_rtnetlink::RouteFamily;
use slipring_rules::{RuleStage, router_ports};
use slipring_wire::checksum;
use slipring_wire::frame::{FrameSpec, IpSpec, Ipv4Spec, Ipv6Spec};

use super::table::{BenchRoute, BenchTable};
use super::tables::{self, ROUTER_MAC};
use crate::measure::{BenchError, BenchReading, PROGRAM_CPU, on_cpu, thread_cpu};
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

/// Number of random destinations. Each pass uses other destinations than the previous pass. All of
/// them together do not fit into the CPU's own caches (L1 and L2).
const NUM_DESTINATIONS: usize = 1 << 20;
/// Number of frames in a pass: about 256 KiB of frames. Each pass is measured as a whole.
const FRAMES_PER_PASS: usize = 64 * MAX_ROUTE_BATCH;

/// Number of blocks for which the IPv4 table has room. It needs a block for each /24 that has
/// longer prefixes, about 3000.
const TABLE_BLOCKS: usize = 4096;

/// Number of rules in the benchmark row that has rules.
const NUM_RULES: usize = 1000;

pub(super) fn rows() -> Vec<BenchRow> {
    let rows = [
        (RouteFamily::V4, "v4-1", "IPv4, 1 route", 40.0),
        (RouteFamily::V4, "v4-full", "IPv4, 1 M routes", 50.0),
        (RouteFamily::V6, "v6-1", "IPv6, 1 route", 45.0),
        (RouteFamily::V6, "v6-full", "IPv6, 210 k routes", 60.0),
    ];
    let row = |(family, id, title, bound): (RouteFamily, &str, &str, f64)| {
        let is_full = id.ends_with("full");
        let title = format!("route, engine alone, {title}, CPU time");
        BenchRow::new(format!("route-engine-{id}"), title, RowUnit::Nanos)
            .with(ContenderRole::Ours, "slipring", move || round(family, is_full))
            .goal(GoalMetric::Value, bound)
    };
    let ruled = BenchRow::new(
        "route-engine-v4-1-rules",
        format!("route, engine and {NUM_RULES} mixed rules, IPv4, 1 route, CPU time"),
        RowUnit::Nanos,
    );
    let ruled = ruled
        .with(ContenderRole::Ours, "slipring", || ruled_round(true))
        .with(ContenderRole::Floor, "without rules", || ruled_round(false))
        .goal(GoalMetric::Value, 65.0);
    rows.into_iter().map(row).chain([ruled]).collect()
}

fn ruled_round(has_rules: bool) -> Result<BenchRound, BenchError> {
    let mut work = EngineWork::new(&one_route(RouteFamily::V4))?;
    if has_rules {
        work = work.with_rules(&mixed_rules(NUM_RULES))?;
    }
    Ok(Box::new(move |time| on_cpu(PROGRAM_CPU, || work.run(time))))
}

/// Returns rules about addresses, protocols and ports. The last rule accepts all packets. Of the
/// others, one in four counts packets, and the rest match no packet.
fn mixed_rules(count: usize) -> String {
    let rule = |at: usize| {
        let [a, b, c, ..] = (at as u32).wrapping_mul(0x9e37_79b9).to_be_bytes();
        let (net, port) = (32 + a % 32, at % 1000);
        match at % 4 {
            0 => format!("count udp from 10.9.0.0/16 to {net}.{b}.{c}.0/24"),
            1 => format!("deny tcp from 10.9.1.0/24 to {net}.{b}.0.0/16 dst-port {port}"),
            2 => format!("deny udp from any to {net}.{b}.{c}.0/26 dst-port 1-{}", port + 1),
            _ => format!("deny ip from 192.168.{b}.0/24 to any"),
        }
    };
    let rules = (1..count).map(|at| format!("add {at} {}\n", rule(at)));
    rules.chain([format!("add {count} allow ip from any to any")]).collect()
}

fn round(family: RouteFamily, is_full: bool) -> Result<BenchRound, BenchError> {
    let table = if is_full { BenchTable::full(family) } else { one_route(family) };
    let mut work = EngineWork::new(&table)?;
    Ok(Box::new(move |time| on_cpu(PROGRAM_CPU, || work.run(time))))
}

/// Returns a table whose only route is 32.0.0.0/3 or 2000::/3. Packets to these addresses are
/// forwarded.
fn one_route(family: RouteFamily) -> BenchTable {
    let route = BenchRoute { bits: 0x20 << 120, len: 3, gateway: 0 };
    BenchTable { family, routes: vec![route] }
}

/// The state of a measurement: an engine, frames, and destinations.
struct EngineWork {
    engine: RouteEngine,
    /// The rules, if there are any.
    stage: Option<RuleStage>,
    batch: Box<RouteBatch>,
    frames: Vec<Vec<u8>>,
    destinations: Vec<IpAddr>,
    /// Index of the next destination.
    at: usize,
}

impl EngineWork {
    fn new(table: &BenchTable) -> Result<Self, BenchError> {
        let mut v4 = heap_table(TABLE_BLOCKS);
        let tables = tables::forwarding_tables(table, v4.as_mut())?;
        let destinations = table.destinations(NUM_DESTINATIONS);
        let first = destinations.iter().cycle().take(FRAMES_PER_PASS);
        let frames: Result<_, _> = first.map(|&destination| frame(destination)).collect();
        let engine = RouteEngine::new(RouteConfig::default(), Arc::new(tables));
        Ok(Self {
            engine,
            stage: None,
            batch: Box::default(),
            frames: frames?,
            destinations,
            at: 0,
        })
    }

    fn with_rules(mut self, commands: &str) -> Result<Self, BenchError> {
        let failed = |error: CommandFileError| BenchError::Failed(error.to_string());
        let mut firewall = Firewall::new(1, [1, 2]);
        let (names, own) = router_ports(self.engine.tables());
        firewall.set_ports(names);
        firewall.set_me(own);
        firewall.load(commands, 0).map_err(failed)?;
        self.stage = Some(RuleStage::new(firewall, Dummynet::new(1, [1, 2]), Arc::default()));
        Ok(self)
    }

    /// Measures the mean CPU time per frame.
    fn run(&mut self, time: Duration) -> Result<BenchReading, BenchError> {
        let until = now() + time.as_nanos() as Nanos;
        let (mut frames, mut spent) = (0, 0);
        while frames == 0 || now() < until {
            self.refresh();
            spent += self.pass()?;
            frames += FRAMES_PER_PASS as u64;
        }
        Ok(BenchReading::of(spent as f64 / frames as f64))
    }

    /// Converts forwarded frames back to arriving frames, with other destinations.
    fn refresh(&mut self) {
        for frame in &mut self.frames {
            refresh(frame, self.destinations[self.at]);
            self.at = (self.at + 1) % self.destinations.len();
        }
    }

    /// Processes all frames; returns the CPU time.
    fn pass(&mut self) -> Result<Nanos, BenchError> {
        let frames = self.frames.iter_mut();
        let mut frames: Vec<_> =
            frames.map(|frame| RouteFrame::new(frame, FibPortIndex(0))).collect();
        let forwarded = self.engine.counters().forwarded;
        let start = thread_cpu();
        for frames in frames.chunks_mut(MAX_ROUTE_BATCH) {
            match &mut self.stage {
                None => self.engine.process(&mut self.batch, black_box(frames), 0),
                Some(stage) => {
                    stage.process(&mut self.engine, &mut self.batch, black_box(frames), 0);
                }
            }
            black_box(&self.batch);
        }
        let spent = thread_cpu() - start;
        let forwarded = self.engine.counters().forwarded - forwarded;
        let is_forwarded = matches!(self.batch.verdict(0), Some(RouteVerdict::Forward(_)));
        if forwarded != FRAMES_PER_PASS as u64 || !is_forwarded {
            return Err(BenchError::Failed(format!("{forwarded} frames of a pass are forwarded")));
        }
        Ok(spent)
    }
}

/// Returns a frame of 64 bytes including the CRC; for IPv6, of 66 bytes.
fn frame(destination: IpAddr) -> Result<Vec<u8>, BenchError> {
    let (ip, len) = match destination {
        IpAddr::V4(dst) => {
            (IpSpec::V4(Ipv4Spec { src: [10, 9, 1, 7].into(), dst, ..Ipv4Spec::default() }), 64)
        }
        IpAddr::V6(dst) => {
            let src = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into();
            (IpSpec::V6(Ipv6Spec { src, dst, ..Ipv6Spec::default() }), 66)
        }
    };
    crate::lab::frame(&FrameSpec { dst_mac: ROUTER_MAC, ip, ..FrameSpec::default() }, len)
}

fn refresh(frame: &mut [u8], destination: IpAddr) {
    frame[..6].copy_from_slice(&ROUTER_MAC.0);
    match destination {
        IpAddr::V4(address) => {
            frame[22] = 64;
            frame[24..26].fill(0);
            frame[30..34].copy_from_slice(&address.octets());
            let sum = checksum::of(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        IpAddr::V6(address) => {
            frame[21] = 64;
            frame[38..54].copy_from_slice(&address.octets());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_of_every_pass_is_forwarded() {
        for family in [RouteFamily::V4, RouteFamily::V6] {
            for table in [one_route(family), BenchTable::draw(family, 3000)] {
                forwards_all(EngineWork::new(&table).unwrap());
            }
        }
    }

    #[test]
    fn the_rules_let_every_frame_pass() {
        let work = EngineWork::new(&one_route(RouteFamily::V4)).unwrap();
        forwards_all(work.with_rules(&mixed_rules(NUM_RULES)).unwrap());
    }

    fn forwards_all(mut work: EngineWork) {
        for _ in 0..3 {
            work.refresh();
            work.pass().unwrap();
        }
        assert_eq!(work.engine.counters().forwarded, 3 * FRAMES_PER_PASS as u64);
    }
}
