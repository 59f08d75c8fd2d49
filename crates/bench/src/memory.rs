//! The floor of all copying. Frames are copied from buffer to buffer, between two areas that are
//! each as large as the buffers of a ring.

use std::hint::black_box;
use std::time::Duration;

use super::measure::{BenchError, PROGRAM_CPU, on_cpu, tally};
use super::row::{BenchRound, BenchRow, ContenderRole, RowUnit};

const NUM_BUFS: usize = 1024;
const BUF_SIZE: usize = slipring_ring::BUF_SIZE as usize;

/// Copies frames of `N` bytes.
pub(crate) fn copies<const N: usize>() -> Result<BenchRound, BenchError> {
    let mut areas = [vec![1u8; NUM_BUFS * BUF_SIZE], vec![0; NUM_BUFS * BUF_SIZE]];
    Ok(Box::new(move |time: Duration| {
        let [from, to] = &mut areas;
        let counted =
            on_cpu(PROGRAM_CPU, || tally(time, || Ok::<_, BenchError>(copy::<N>(from, to))));
        Ok(counted?.into())
    }))
}

/// Copies one frame of `N` bytes from each buffer. Returns the number of frames.
fn copy<const N: usize>(from: &[u8], to: &mut [u8]) -> u64 {
    for (from, to) in from.chunks_exact(BUF_SIZE).zip(to.chunks_exact_mut(BUF_SIZE)) {
        if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
            *to = *black_box(from);
        }
    }
    black_box(to);
    NUM_BUFS as u64
}

/// Returns the row in which only the floor is measured.
pub(crate) fn row<const N: usize>() -> BenchRow {
    BenchRow::new(format!("copy-{N}"), format!("memory copy, {N} B"), RowUnit::PacketsPerSec).with(
        ContenderRole::Floor,
        "memcpy",
        copies::<N>,
    )
}
