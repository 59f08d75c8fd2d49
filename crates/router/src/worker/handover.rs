//! Gives frames to the worker that must check them: if rules have states, limits, translations or
//! pipes, all packets that share one of these must be checked by the same worker.
//!
//! ```text
//!   rx queue --> steer.rs: RuleStage::steering --own--> forward
//!                                   '--another's--> pipe, doorbell if it sleeps --> its inputs
//! ```
//!
//! Each pair of workers has a pipe in the region of the interfaces' buffers, so that most frames
//! are handed over by an exchange of buffers, not by a copy. If the pipe is full, the frame is
//! dropped. Frames of a flow stay in order, since they take the same path. Frames from a pipe are
//! steered again, because the rules may have changed.

use std::sync::Arc;

use slipring_rules::distribution::{FlowDistribution, Steering};

use super::parking::WorkerParking;

/// The state that a worker needs to give frames to other workers.
pub(super) struct Handover {
    id: usize,
    distribution: FlowDistribution,
    /// The index of the queue that is the pipe to each worker; `None` for this worker.
    pipes: Vec<Option<usize>>,
    /// When each worker, including this one, last ran.
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

    /// Returns the pipe by which a frame must leave; `None` if this worker must check the frame.
    pub(super) fn pipe_of(&self, steering: Steering, frame: &[u8]) -> Option<usize> {
        let thread = steering.thread_of(frame, &self.distribution)?;
        self.pipes[thread]
    }

    /// Returns the time up to which all other workers that get frames from this one have run, by
    /// the clock of heartbeats; `None` if no other worker gets any.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queues_heartbeat_is_that_of_the_oldest_run_among_the_workers_that_get_its_frames() {
        let workers: Vec<Arc<WorkerParking>> = (0..3).map(|_| Arc::default()).collect();
        workers.iter().zip([50, 70, 60]).for_each(|(worker, time)| worker.note_run(time));
        let distribution = FlowDistribution::new([1, 2], 3);
        let pipes = vec![Some(1), None, Some(2)];
        let handover = Handover::new(1, distribution, pipes, workers.clone());
        let oldest = |steering| handover.oldest_beat(steering, 100);
        assert_eq!(oldest(Steering::Anywhere), None);
        assert_eq!((oldest(Steering::ByHosts), oldest(Steering::First)), (Some(50), Some(50)));
        // The first worker sleeps, but a frame would wake it, so it counts as running.
        workers[0].park(100);
        assert_eq!((oldest(Steering::ByHosts), oldest(Steering::First)), (Some(60), Some(100)));
        workers[2].note_run(7);
        assert_eq!(oldest(Steering::ByHosts), Some(7));
    }

    #[test]
    fn the_first_worker_keeps_what_it_must_check_and_others_hand_it_over() {
        let frame = slipring_wire::FrameSpec::default().build(60).map(|frame| frame.bytes);
        let frame = frame.expect("it is long enough");
        let of = |id, pipes| {
            let workers = (0..2).map(|_| Arc::default()).collect();
            Handover::new(id, FlowDistribution::new([1, 2], 2), pipes, workers)
        };
        let (first, second) = (of(0, vec![None, Some(4)]), of(1, vec![Some(3), None]));
        assert_eq!(first.pipe_of(Steering::First, &frame), None);
        assert_eq!(second.pipe_of(Steering::First, &frame), Some(3));
        let by_hosts = [&first, &second].map(|of| of.pipe_of(Steering::ByHosts, &frame));
        assert!(matches!(by_hosts, [None, Some(3)] | [Some(4), None]), "one of them keeps it");
        assert_eq!(second.pipe_of(Steering::First, &frame[..20]), None, "it meets no rules");
    }
}
