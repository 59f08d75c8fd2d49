//! The emulator in one thread, its links, and how it is run for some time.

use std::time::Duration;

use slipring_link::{DelaySpec, LinkSpec, NetworkSpec};
use slipring_port::{Port, now};

use crate::measure::{BenchError, BenchTally, thread_cpu};
use slipring_emulation::{BurstLimit, Emulator, RealtimeOptions};

/// The delay of the links in all benchmarks of the emulator, in ns; the mean delay where the delay
/// varies.
pub(super) const DELAY_NS: u64 = 20_000_000;
/// Number of frames in flight that the floor uses if that number was not measured before.
pub(super) const DEFAULT_LAG_FRAMES: usize = 200_000;

/// Returns a link that only delays.
pub(super) fn wire(name: &str) -> LinkSpec {
    LinkSpec { delay: DelaySpec::constant(DELAY_NS), ..LinkSpec::wire(name) }
}

/// A link in each direction between two ports.
pub(super) fn plan(link: fn(&str) -> LinkSpec) -> NetworkSpec {
    NetworkSpec::between("source", "sink", link("up"), link("down"))
}

/// Returns the average number of frames in flight.
pub(super) fn in_flight(tally: &BenchTally) -> u64 {
    tally.packets * DELAY_NS / tally.wall.max(1)
}

/// Returns an emulator that runs in one thread.
pub(super) fn emulator(plan: &NetworkSpec, ports: Vec<Port>) -> Result<Emulator<()>, BenchError> {
    let options = RealtimeOptions {
        burst: BurstLimit { frames: 64, ..BurstLimit::default() },
        ..RealtimeOptions::default()
    };
    Emulator::between(ports, plan, &options, (), now())
        .map_err(|error| BenchError::Failed(error.to_string()))
}

/// Runs the emulator for `time`.
pub(super) fn run(emulator: &mut Emulator<()>, time: Duration) -> Result<BenchTally, BenchError> {
    let (start, cpu) = (now(), thread_cpu());
    let until = start + time.as_nanos() as u64;
    let mut packets = 0;
    loop {
        let turn = emulator.turn(now)?;
        packets += turn.sent as u64;
        if turn.at_ns >= until {
            return Ok(BenchTally { packets, wall: turn.at_ns - start, cpu: thread_cpu() - cpu });
        }
    }
}
