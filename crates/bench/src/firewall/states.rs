//! Rows with a million flows.

use std::net::Ipv4Addr;
use std::time::Duration;

use slipring_ipfw::run::Firewall;
use slipring_wire::FrameSpec;
use slipring_wire::frame::{IpSpec, Ipv4Spec};

use super::checks::{BurstChecker, by_cpu, cpu_round, firewall};
use super::draw::SeededRng;
use super::frames;
use crate::measure::{BenchError, BenchTally, PROGRAM_CPU, on_cpu, thread_cpu};
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

const NUM_FLOWS: usize = 1_000_000;
const RULES: &str = "sysctl net.inet.ip.fw.dyn_max=2000000\nadd check-state\n\
                     add allow udp from any to any keep-state";

pub(super) fn rows() -> Vec<BenchRow> {
    vec![
        BenchRow::new("firewall-states", "firewall, 1 M flows, packets", RowUnit::PacketsPerSec)
            .with(ContenderRole::Ours, "slipring", hits)
            .goal(GoalMetric::Value, 20e6),
        BenchRow::new("firewall-new-flows", "firewall, 1 M new flows", RowUnit::PacketsPerSec)
            .with(ContenderRole::Ours, "slipring", new_flows)
            .goal(GoalMetric::Value, 10e6),
    ]
}

/// One packet of each flow. The packets are built in bursts, always in the same few buffers, so
/// that cache misses come from the flows and not from the frames.
struct FlowFrames {
    to: Vec<u32>,
    frames: Vec<Vec<u8>>,
    at: usize,
}

impl FlowFrames {
    fn new() -> Self {
        let mut draw = SeededRng(4);
        let to = (0..NUM_FLOWS).map(|_| draw.next() as u32).collect();
        let ip = IpSpec::V4(Ipv4Spec { dst: Ipv4Addr::UNSPECIFIED, ..Default::default() });
        let frame = frames::built(&FrameSpec { ip, ..Default::default() });
        Self { to, frames: vec![frame; 256], at: 0 }
    }

    fn burst(&mut self) -> &mut [Vec<u8>] {
        let end = (self.at + self.frames.len()).min(NUM_FLOWS);
        let to = &self.to[self.at..end];
        for (frame, to) in self.frames.iter_mut().zip(to) {
            frame[30..34].copy_from_slice(&to.to_be_bytes());
        }
        self.at = end % NUM_FLOWS;
        &mut self.frames[..to.len()]
    }

    fn all(&mut self, firewall: &mut Firewall, checks: &mut BurstChecker) -> u64 {
        let mut count = 0;
        while count < NUM_FLOWS as u64 {
            count += checks.all(firewall, self.burst());
        }
        count
    }
}

fn hits() -> Result<BenchRound, BenchError> {
    let (mut firewall, mut flows) = (firewall(RULES, false)?, FlowFrames::new());
    let mut checks = BurstChecker::default();
    flows.all(&mut firewall, &mut checks);
    Ok(cpu_round(move || checks.all(&mut firewall, flows.burst())))
}

/// Measures the creation of all states. Each run of the contender does this once, whatever time is
/// given.
fn new_flows() -> Result<BenchRound, BenchError> {
    Ok(Box::new(|_: Duration| {
        let (mut firewall, mut flows) = (firewall(RULES, false)?, FlowFrames::new());
        let tally = on_cpu(PROGRAM_CPU, || {
            let before = thread_cpu();
            let packets = flows.all(&mut firewall, &mut BurstChecker::default());
            BenchTally { packets, wall: 0, cpu: thread_cpu() - before }
        });
        Ok(by_cpu(tally))
    }))
}
