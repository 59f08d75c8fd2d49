//! The pipes between workers, in the region of the interfaces' buffers.

use std::sync::Arc;

use slipring_cli::Failure;
use slipring_port::pipe::{self, PipeQueue};
use slipring_port::{OpenError, Queue, RegionNeeds};
use slipring_ring::{PipePair, Region};

/// Number of slots, per direction, that are divided among the pipes of a worker, before each share
/// is limited to [`SLOTS`] and rounded up to a power of two.
const SLOTS_OF_WORKER: u32 = 2048;
/// Number of slots of a pipe: enough for a few loop iterations of the receiving worker.
const SLOTS: std::ops::RangeInclusive<u32> = 64..=1024;

/// The number of the worker at the other end of a pipe, and this worker's end.
pub(super) type WorkerPipe = (usize, Box<dyn Queue>);

/// The pipes of each worker.
pub(super) struct WorkerPipes {
    pub(super) ends: Vec<Vec<WorkerPipe>>,
}

impl WorkerPipes {
    /// Returns the memory that the pipes between this number of workers need.
    pub(super) fn needs(workers: usize) -> RegionNeeds {
        let pairs = workers * (workers - 1) / 2;
        pipe::needs(pairs as u32, slots(workers))
    }

    /// Makes a pipe between each two of these workers.
    ///
    /// # Errors
    /// If the process is out of descriptors.
    pub(super) fn open(workers: usize, region: &Arc<Region>) -> Result<Self, Failure> {
        let mut ends: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
        for later in 1..workers {
            for earlier in 0..later {
                let name = format!("pipe of threads {earlier} and {later}");
                let pair = PipePair::create(region, 0, slots(workers));
                let PipePair { a, b } = pair.map_err(|error| OpenError::new(&name, error))?;
                ends[earlier].push((later, PipeQueue::boxed(&name, a)));
                ends[later].push((earlier, PipeQueue::boxed(&name, b)));
            }
        }
        Ok(Self { ends })
    }
}

fn slots(workers: usize) -> u32 {
    let others = workers.saturating_sub(1).max(1) as u32;
    (SLOTS_OF_WORKER / others).clamp(*SLOTS.start(), *SLOTS.end()).next_power_of_two()
}
