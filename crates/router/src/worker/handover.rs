//! Frames that another worker must check: rules that keep something of a packet (a state, a count, a
//! pipe) need all packets that share it in one worker.
//!
//! ```text
//!   rx queue --> steer.rs: RuleStage::steering --own--> forward
//!                                   '--another's--> pipe, a bell if it sleeps --> its queue like an rx queue
//! ```
//!
//! Each pair of workers has a pipe in the region of all ports, so that buffers are exchanged and
//! nothing is copied. A frame that finds the pipe full is dropped. Frames of a flow stay in order, since they
//! take the same way. What comes out of a pipe is steered again: the rules may have changed.

use std::sync::Arc;

use slipring_rules::distribution::{FlowDistribution, Steering};

use super::parking::WorkerParking;

/// What a worker knows of the others.
pub(super) struct Handover {
    id: usize,
    distribution: FlowDistribution,
    /// The queue that is the pipe to each worker; none to itself.
    pipes: Vec<Option<usize>>,
    /// When each worker has run, itself included.
    workers: Vec<Arc<WorkerParking>>,
    /// Frames given to other workers.
    handed: u64,
}

impl Handover {
    pub(super) fn new(
        id: usize,
        distribution: FlowDistribution,
        pipes: Vec<Option<usize>>,
        workers: Vec<Arc<WorkerParking>>,
    ) -> Self {
        Self { id, distribution, pipes, workers, handed: 0 }
    }

    pub(super) const fn handed(&self) -> u64 {
        self.handed
    }

    pub(super) const fn count_handed(&mut self) {
        self.handed += 1;
    }

    /// The pipe by which a frame must leave; `None` if it is this worker's.
    pub(super) fn pipe_of(&self, steering: Steering, frame: &[u8]) -> Option<usize> {
        let thread = steering.thread_of(frame, &self.distribution)?;
        self.pipes[thread]
    }

    /// Time up to which all other workers have run that get frames from this one, by the clock of
    /// heartbeats.
    pub(super) fn oldest_beat(&self, steering: Steering, now: u64) -> Option<u64> {
        let targets = match steering {
            Steering::Anywhere => 0..0,
            Steering::ByHosts => 0..self.workers.len(),
            Steering::First => 0..1,
        };
        let others = targets.filter(|target| *target != self.id);
        others.map(|other| self.workers[other].last_run(now)).min()
    }
}
