//! The writer of the heartbeat of a worker that has no frames is the routing thread, so that an idle
//! worker can sleep.
//!
//! Before a worker takes a frame, it takes over all tables that it was given. So a sleeping worker
//! will forward by tables that are as new as the routing thread's last reading, and the routing thread
//! may beat for it. That a worker can run, it proves at least each half second, in each turn of its
//! loop; if it does not, the routing thread stops beating for it, and the kernel gets the packets of
//! its queues.

use std::sync::atomic::{AtomicU64, Ordering};

/// How long a worker counts as able to run after its last turn.
const PROOF_NS: u64 = 1_000_000_000;

/// What a worker and the routing thread know of the worker's sleep.
#[derive(Debug, Default)]
pub(super) struct WorkerParking {
    /// End of the last turn, by the clock of heartbeats; 0 while the worker beats itself.
    parked_at: AtomicU64,
    /// The last heartbeat that the worker had for itself, for workers that give it frames.
    ran_at: AtomicU64,
}

impl WorkerParking {
    /// Notes that the worker sleeps, and takes over new tables before it takes a frame.
    pub(super) fn park(&self, now: u64) {
        // Release: pairs with the Acquire in `is_parked`; the worker's own beats come before.
        self.parked_at.store(now, Ordering::Release);
    }

    /// Notes that the worker beats itself, from `now` on.
    pub(super) fn unpark(&self, now: u64) {
        self.note_run(now);
        self.parked_at.store(0, Ordering::Release);
    }

    /// Notes a heartbeat of the worker itself.
    pub(super) fn note_run(&self, beat: u64) {
        // Relaxed suffices for a time. `unpark` orders it before its end of the sleep.
        self.ran_at.store(beat, Ordering::Relaxed);
    }

    /// When the worker last ran as far as others may rely on it: now if it sleeps.
    pub(super) fn last_run(&self, now: u64) -> u64 {
        if self.is_parked(now) { now } else { self.ran_at.load(Ordering::Relaxed) }
    }

    /// Whether the routing thread is to beat for the worker.
    pub(super) fn is_parked(&self, now: u64) -> bool {
        let parked_at = self.parked_at.load(Ordering::Acquire);
        parked_at > 0 && now.saturating_sub(parked_at) <= PROOF_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_does_not_prove_that_it_runs_is_not_kept_alive() {
        let parking = WorkerParking::default();
        assert!(!parking.is_parked(7));
        parking.park(7);
        assert!(parking.is_parked(7) && parking.is_parked(7 + PROOF_NS));
        assert!(!parking.is_parked(8 + PROOF_NS));
        parking.park(8 + PROOF_NS);
        assert!(parking.is_parked(9 + PROOF_NS));
        parking.unpark(9 + PROOF_NS);
        assert!(!parking.is_parked(9 + PROOF_NS));
    }

    #[test]
    fn a_sleeping_worker_can_be_given_frames_and_a_hanging_one_shows_when_it_last_ran() {
        let parking = WorkerParking::default();
        parking.note_run(7);
        assert_eq!(parking.last_run(1000), 7);
        parking.park(20);
        assert_eq!(parking.last_run(20 + PROOF_NS), 20 + PROOF_NS);
        assert_eq!(parking.last_run(21 + PROOF_NS), 7, "it does not wake");
        parking.unpark(50);
        assert_eq!(parking.last_run(1000), 50);
    }
}
