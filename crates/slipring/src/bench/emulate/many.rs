//! Ten thousand links in one process: what one core does, and the memory it takes.
//!
//! Time is virtual here, a step per turn, so that every link brings exactly its thousand packets
//! per second; what is measured is how much of a core's real time that takes. Frames of 64 bytes
//! show what a link costs. With 1000 bytes 200 MB are in flight, and a core that did nothing but
//! copy them in and out would not reach the rate: that row shows the memory, and has no goal.

use slipring_link::{NetworkLink, NetworkSpec, Source, Target};
use slipring_port::now;

use super::{DELAY_NS, emulator, ports, wire};
use crate::bench::measure::{PROGRAM_CPU, Reading, Why, on_cpu, tally};
use crate::bench::row::{Bout, Of, Role, Row, Unit};

const LINKS: usize = 10_000;
/// Packets per second that all links carry together.
const RATE: f64 = 1e7;
/// Every link has one frame per step.
const STEP_NS: u64 = 1_000_000;

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    let row = |name, len: u16| {
        let title = format!("emulate, 10,000 links of 1 kpps, {len} B, one core");
        Row::new(name, title, Unit::PacketsPerSec).with(Role::Ours, "slipring", move || bout(len))
    };
    vec![row("emulate-links", 64).goal(Of::Value, RATE), row("emulate-links-1000", 1000)]
}

fn bout(len: u16) -> Result<Bout, Why> {
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
        let mut emulator = emulator(&plan, ports::trickles(LINKS, len)?)?;
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
