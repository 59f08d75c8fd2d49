//! The rows for pipes. One side writes every byte of every frame. The other side reads every byte,
//! and checks that no frame is lost, duplicated or reordered.

use super::pipe_ends::{ReadMode, one_thread, two_threads};
use super::row::{BenchRow, ContenderRole, GoalMetric, RowUnit};
use super::{memory, process, testpmd};

/// To which thread or process the two ends of the pipe belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipeLayout {
    OneThread,
    TwoThreads,
    TwoProcesses,
}

/// The row for frames of `N` bytes.
pub(crate) fn row<const N: usize>(parties: PipeLayout, mode: ReadMode, batch: u32) -> BenchRow {
    let (short, long) = match parties {
        PipeLayout::OneThread => ("1t", "1 thread"),
        PipeLayout::TwoThreads => ("2t", "2 threads"),
        PipeLayout::TwoProcesses => ("2p", "2 processes"),
    };
    let word = if mode == ReadMode::Swap { "swap" } else { "copy" };
    let id = format!("pipe-{short}-{word}-{N}-{batch}");
    let title = format!("pipe, {long}, {word}, {N} B, batch {batch}");
    let row = BenchRow::new(id, title, RowUnit::PacketsPerSec);
    let row = match parties {
        PipeLayout::OneThread => {
            row.with(ContenderRole::Ours, "slipring", move || one_thread::<N>(mode, batch))
        }
        PipeLayout::TwoThreads => {
            row.with(ContenderRole::Ours, "slipring", move || two_threads::<N>(mode, batch))
        }
        PipeLayout::TwoProcesses => row.with(ContenderRole::Ours, "slipring", move || {
            Ok(process::two_processes::<N>(mode, batch))
        }),
    };
    let row = row.with(ContenderRole::Floor, "memcpy", memory::copies::<N>);
    match (parties, mode) {
        (PipeLayout::OneThread, ReadMode::Swap) if N == 64 => {
            row.with(ContenderRole::Peer, testpmd::RING_NAME, move || testpmd::ring(batch))
        }
        (PipeLayout::TwoProcesses, ReadMode::Swap) => {
            let row = row
                .with(ContenderRole::Peer, testpmd::MEMIF_NAME, move || testpmd::memif(N, batch));
            let row = with_goals::<N>(row, batch);
            if N == 64 { row.goal(GoalMetric::RatioTo(testpmd::MEMIF_NAME), 2.0) } else { row }
        }
        (PipeLayout::TwoThreads, ReadMode::Swap) => with_goals::<N>(row, batch),
        _ => row,
    }
}

fn with_goals<const N: usize>(row: BenchRow, batch: u32) -> BenchRow {
    match (N, batch) {
        (64, 32) => row.goal(GoalMetric::Value, 70e6),
        (64, 256) => row.goal(GoalMetric::Value, 85e6),
        _ => row,
    }
}
