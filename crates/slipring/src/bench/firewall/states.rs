//! A million flows.

use std::net::Ipv4Addr;
use std::time::Duration;

use slipring_ipfw::run::Firewall;
use slipring_wire::FrameSpec;
use slipring_wire::frame::{IpSpec, Ipv4Spec};

use super::draw::Draw;
use super::{Checks, bout, by_cpu, firewall, frames};
use crate::bench::measure::{PROGRAM_CPU, Tally, Why, on_cpu, thread_cpu};
use crate::bench::row::{Bout, Of, Role, Row, Unit};

const FLOWS: usize = 1_000_000;
const RULES: &str = "sysctl net.inet.ip.fw.dyn_max=2000000\nadd check-state\n\
                     add allow udp from any to any keep-state";

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new("firewall-states", "firewall, 1 M flows, packets", Unit::PacketsPerSec)
            .with(Role::Ours, "slipring", hits)
            .goal(Of::Value, 20e6),
        Row::new("firewall-new-flows", "firewall, 1 M new flows", Unit::PacketsPerSec)
            .with(Role::Ours, "slipring", new_flows)
            .goal(Of::Value, 10e6),
    ]
}

/// A packet of each flow, in bursts that are built in the same few buffers: the flows are to be
/// far away, not the frames.
struct Flows {
    to: Vec<u32>,
    frames: Vec<Vec<u8>>,
    at: usize,
}

impl Flows {
    fn new() -> Self {
        let mut draw = Draw(4);
        let to = (0..FLOWS).map(|_| draw.next() as u32).collect();
        let ip = IpSpec::V4(Ipv4Spec { dst: Ipv4Addr::UNSPECIFIED, ..Default::default() });
        let frame = frames::built(&FrameSpec { ip, ..Default::default() });
        Self { to, frames: vec![frame; 256], at: 0 }
    }

    fn burst(&mut self) -> &mut [Vec<u8>] {
        let end = (self.at + self.frames.len()).min(FLOWS);
        let to = &self.to[self.at..end];
        for (frame, to) in self.frames.iter_mut().zip(to) {
            frame[30..34].copy_from_slice(&to.to_be_bytes());
        }
        self.at = end % FLOWS;
        &mut self.frames[..to.len()]
    }

    fn all(&mut self, firewall: &mut Firewall, checks: &mut Checks) -> u64 {
        let mut count = 0;
        while count < FLOWS as u64 {
            count += checks.all(firewall, self.burst());
        }
        count
    }
}

fn hits() -> Result<Bout, Why> {
    let (mut firewall, mut flows) = (firewall(RULES, false)?, Flows::new());
    let mut checks = Checks::default();
    flows.all(&mut firewall, &mut checks);
    Ok(bout(move || checks.all(&mut firewall, flows.burst())))
}

/// All of them once, whatever the time of a turn.
fn new_flows() -> Result<Bout, Why> {
    Ok(Box::new(|_: Duration| {
        let (mut firewall, mut flows) = (firewall(RULES, false)?, Flows::new());
        let tally = on_cpu(PROGRAM_CPU, || {
            let before = thread_cpu();
            let packets = flows.all(&mut firewall, &mut Checks::default());
            Tally { packets, wall: 0, cpu: thread_cpu() - before }
        });
        Ok(by_cpu(tally))
    }))
}
