//! Ten thousand links in one process: what one core does, and the memory it takes.
//!
//! Time is virtual here, a step per turn, so that every link brings exactly its thousand packets
//! per second; what is measured is how much of a core's real time that takes.

use slipring_link::{NetworkLink, NetworkSpec, Source, Target};
use slipring_port::now;

use super::{DELAY_NS, emulator, ports, wire};
use crate::bench::measure::{PROGRAM_CPU, Reading, Why, on_cpu, tally};
use crate::bench::row::{Bout, Of, Role, Row, Unit};

const LINKS: usize = 10_000;
const LEN: u16 = 1000;
/// Packets per second that all links carry together.
const RATE: f64 = 1e7;
/// Every link has one frame per step.
const STEP_NS: u64 = 1_000_000;

/// The row.
pub(super) fn row() -> Row {
    let title = "emulate, 10,000 links of 1 kpps, one core";
    Row::new("emulate-links", title, Unit::PacketsPerSec)
        .with(Role::Ours, "slipring", bout)
        .goal(Of::Value, RATE)
}

fn bout() -> Result<Bout, Why> {
    let links = (0..LINKS).map(|i| NetworkLink {
        spec: wire(&format!("link{i}")),
        from: Source::Entry(i),
        to: Target::Exit(0),
    });
    let plan = NetworkSpec {
        entries: (0..LINKS).map(|i| format!("p{i}")).collect(),
        exits: vec!["p0".into()],
        links: links.collect(),
        ..NetworkSpec::default()
    };
    Ok(Box::new(move |time| {
        let mut emulator = emulator(&plan, ports::trickles(LINKS, LEN)?)?;
        let mut clock = now();
        let tally = on_cpu(PROGRAM_CPU, || {
            let mut step = || -> Result<u64, Why> {
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
        let mut reading = Reading::from(tally);
        reading.extra.push(("memory/payload cpu", account.storage_bytes as f64 / payload));
        Ok(reading)
    }))
}
