//! The firewall: what rules, tables, states and pipes cost, without ports and between namespaces.
//!
//! Figures without ports are per second of CPU time: a busy machine changes them less.

mod accuracy;
mod between;
mod draw;
mod frames;
mod pipes;
mod program;
mod rules;
mod states;
mod tables;

use std::time::Duration;

use slipring_ipfw::run::{CheckOutputs, CheckedBatch, Firewall};

use super::measure::{BenchError, BenchReading, BenchTally, PROGRAM_CPU, on_cpu, tally};
use super::row::{BenchRound, BenchRow};

/// Our own interpreter, which goes from rule to rule as ipfw does.
const INTERPRETER_NAME: &str = "rule by rule";

/// All rows.
pub(crate) fn rows() -> Vec<BenchRow> {
    let mut rows = rules::rows();
    rows.extend(tables::rows());
    rows.extend(states::rows());
    rows.extend(pipes::rows());
    rows.extend(between::rows());
    rows.extend(accuracy::rows());
    rows
}

/// Runs `work` again and again; its packets by CPU time.
fn cpu_round(mut work: impl FnMut() -> u64 + Send + 'static) -> BenchRound {
    Box::new(move |time: Duration| {
        let done = on_cpu(PROGRAM_CPU, || tally(time, || Ok::<_, BenchError>(work())))?;
        Ok(by_cpu(done))
    })
}

/// The rate by CPU time alone.
fn by_cpu(tally: BenchTally) -> BenchReading {
    BenchReading::from(BenchTally { wall: tally.cpu, ..tally })
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Failed(error.to_string())
}

/// A firewall with these commands; one that asks rule by rule if `is_plain`.
fn firewall(text: &str, is_plain: bool) -> Result<Firewall, BenchError> {
    let mut firewall = Firewall::open(1);
    firewall.set_plain(true);
    let commands = slipring_ipfw::text::parse_file(text).map_err(failed)?;
    // Prefixes may be drawn twice: quiet, as a file of them is loaded.
    let manner = slipring_ipfw::run::CommandFlags { quiet: true, ..Default::default() };
    firewall.batch(&commands, 0, manner).map_err(|error| failed(format!("{error:?}")))?;
    firewall.set_plain(is_plain);
    Ok(firewall)
}

/// Checks frames, in bursts as ports give them.
#[derive(Default)]
struct BurstChecker {
    outputs: CheckOutputs,
    batch: CheckedBatch,
}

impl BurstChecker {
    /// Checks all frames; how many.
    fn all(&mut self, firewall: &mut Firewall, frames: &mut [Vec<u8>]) -> u64 {
        const BURST: usize = 256;
        for frames in frames.chunks_mut(BURST) {
            firewall.check_all(frames, frames.len(), (0, 1), &mut self.outputs, &mut self.batch);
            std::hint::black_box(&self.batch);
        }
        frames.len() as u64
    }
}
