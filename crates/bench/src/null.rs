//! Forwarding from `null:` to `null:`: shows what forwarding costs if the ports cost nothing.

use slipring_port::{OpenOptions, forward};

use super::measure::{BenchError, PROGRAM_CPU, on_cpu, tally};
use super::row::{BenchRound, BenchRow, ContenderRole, RowUnit};
use super::testpmd;

/// Returns the row in which frames are created, exchanged between rings, and dropped.
pub(crate) fn row(batch: u32) -> BenchRow {
    let title = format!("null: to null:, 60 B, batch {batch}");
    BenchRow::new(format!("null-{batch}"), title, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring", move || forwarding(batch))
        .with(ContenderRole::Peer, "testpmd net_null", move || testpmd::null(batch))
}

fn forwarding(batch: u32) -> Result<BenchRound, BenchError> {
    let [mut from, mut to] = slipring_core::open_all(["null:", "null:"], &OpenOptions::default())?;
    Ok(Box::new(move |time| {
        let counted = on_cpu(PROGRAM_CPU, || {
            tally(time, || forward(&mut from, &mut to, batch).map(u64::from))
        });
        Ok(counted?.into())
    }))
}
