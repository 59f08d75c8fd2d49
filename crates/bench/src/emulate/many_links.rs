//! Ten thousand links in one process: the rate of one core, and the memory.
//!
//! Time is virtual here. It advances by one step per call of the emulator's `turn`, so that every
//! link carries exactly its thousand packets per second of virtual time. A row shows how many
//! packets a core carries per second of real time. Frames of 64 bytes show the cost of a link.
//! Frames of 1000 bytes show the memory: 200 MB are in flight. A core could not reach the rate even
//! if it only copied frames of this length in and out, so the row with these frames has no goal.

use slipring_link::{LinkSource, LinkTarget, NetworkLink, NetworkSpec};
use slipring_port::now;

use super::ports;
use super::setup::{DELAY_NS, emulator, wire};
use crate::measure::{BenchError, BenchReading, PROGRAM_CPU, on_cpu, tally};
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

const NUM_LINKS: usize = 10_000;
/// Packets per second that all links carry together.
const TOTAL_PPS: f64 = 1e7;
/// The length of a step in ns. Every link has one frame per step.
const STEP_NS: u64 = 1_000_000;

/// Returns the rows with ten thousand links.
pub(super) fn rows() -> Vec<BenchRow> {
    let row = |name, len: u16| {
        let title = format!("emulate, 10,000 links of 1 kpps, {len} B, one core");
        BenchRow::new(name, title, RowUnit::PacketsPerSec).with(
            ContenderRole::Ours,
            "slipring",
            move || round(len),
        )
    };
    vec![
        row("emulate-links", 64).goal(GoalMetric::Value, TOTAL_PPS),
        row("emulate-links-1000", 1000),
    ]
}

fn round(len: u16) -> Result<BenchRound, BenchError> {
    let links = (0..NUM_LINKS).map(|i| NetworkLink {
        spec: wire(&format!("link{i}")),
        from: LinkSource::Entry(i),
        to: LinkTarget::Exit(0),
    });
    let plan = NetworkSpec {
        entries: (0..NUM_LINKS).map(|i| format!("p{i}")).collect(),
        exits: vec!["p0".into()],
        links: links.collect(),
        ..NetworkSpec::default()
    };
    Ok(Box::new(move |time| {
        let mut emulator = emulator(&plan, ports::trickles(NUM_LINKS, len)?)?;
        let mut clock = now();
        let tally = on_cpu(PROGRAM_CPU, || {
            let mut step = || -> Result<u64, BenchError> {
                clock += STEP_NS;
                Ok(emulator.turn(|| clock)?.sent as u64)
            };
            for _ in 0..3 * DELAY_NS / STEP_NS {
                step()?;
            }
            tally(time, step)
        })?;
        let account = emulator.account(clock);
        let payload = account.in_flight().bytes.max(1) as f64;
        let mut reading = BenchReading::from(tally);
        reading.extra.push(("memory/payload cpu", account.storage_bytes as f64 / payload));
        Ok(reading)
    }))
}
