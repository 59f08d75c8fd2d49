//! Functions for benchmarks in which firewalls check packets.

use std::time::Duration;

use slipring_ipfw::run::{CheckOutputs, CheckedBatch, Firewall};

use crate::measure::{BenchError, BenchReading, BenchTally, PROGRAM_CPU, on_cpu, tally};
use crate::row::BenchRound;

/// The name of our own firewall when it evaluates rule by rule, as ipfw does.
pub(super) const INTERPRETER_NAME: &str = "rule by rule";

/// Returns a round that repeats `work`, which returns a number of packets. The round measures
/// packets per second of CPU time.
pub(super) fn cpu_round(mut work: impl FnMut() -> u64 + Send + 'static) -> BenchRound {
    Box::new(move |time: Duration| {
        let done = on_cpu(PROGRAM_CPU, || tally(time, || Ok::<_, BenchError>(work())))?;
        Ok(by_cpu(done))
    })
}

/// Returns the rate, computed from the CPU time alone.
pub(super) fn by_cpu(tally: BenchTally) -> BenchReading {
    BenchReading::from(BenchTally { wall: tally.cpu, ..tally })
}

pub(super) fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Failed(error.to_string())
}

/// Creates a firewall with these commands. If `is_plain` is true, it evaluates rule by rule.
pub(super) fn firewall(text: &str, is_plain: bool) -> Result<Firewall, BenchError> {
    let mut firewall = Firewall::open(1, [1, 2]);
    firewall.set_plain(true);
    let commands = slipring_ipfw::text::parse_file(text).map_err(failed)?;
    // Some prefixes may be drawn twice. `quiet` ignores duplicates, as when a file is loaded.
    let flags = slipring_ipfw::run::CommandFlags { quiet: true, ..Default::default() };
    firewall.batch(&commands, 0, flags).map_err(|error| failed(format!("{error:?}")))?;
    firewall.set_plain(is_plain);
    Ok(firewall)
}

/// Checks frames in bursts, as ports would deliver them.
#[derive(Default)]
pub(super) struct BurstChecker {
    outputs: CheckOutputs,
    batch: CheckedBatch,
}

impl BurstChecker {
    /// Checks all frames; returns their number.
    pub(super) fn all(&mut self, firewall: &mut Firewall, frames: &mut [Vec<u8>]) -> u64 {
        const BURST: usize = 256;
        for frames in frames.chunks_mut(BURST) {
            firewall.check_all(frames, frames.len(), (0, 1), &mut self.outputs, &mut self.batch);
            std::hint::black_box(&self.batch);
        }
        frames.len() as u64
    }
}
