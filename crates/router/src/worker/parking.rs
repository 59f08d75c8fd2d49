//! While a worker has no frames, the routing thread writes the worker's heartbeat, so that the idle
//! worker can sleep.
//!
//! Before a worker takes a frame, it applies all tables that it was given. So a sleeping worker
//! will forward by tables that are as new as the routing thread's last read, and the routing thread
//! may write the worker's heartbeat. In each loop iteration, at least every half second, a worker
//! proves that it can run. If it does not, the routing thread stops writing the worker's heartbeat,
//! and the kernel gets the packets of the worker's queues.

use std::sync::atomic::{AtomicU64, Ordering};

/// A worker counts as able to run for this time after its last loop iteration.
const PROOF_NS: u64 = 1_000_000_000;

/// The state of a worker's sleep, shared with the routing thread.
#[derive(Debug, Default)]
pub(super) struct WorkerParking {
    /// End of the last loop iteration, by the heartbeats' clock; 0 while the worker itself writes
    /// the heartbeat.
    parked_at: AtomicU64,
    /// When the worker last ran, by the heartbeats' clock, or the time of its tables if that is
    /// earlier. Workers that give frames to this worker read it.
    ran_at: AtomicU64,
}

impl WorkerParking {
    /// Records that the worker sleeps. It will apply new tables before it takes another frame.
    pub(super) fn park(&self, now: u64) {
        // Release: pairs with the Acquire in `is_parked`. The worker's own heartbeats come before
        // this store.
        self.parked_at.store(now, Ordering::Release);
    }

    /// Records that the worker itself writes the heartbeat, from `now` on.
    pub(super) fn unpark(&self, now: u64) {
        self.note_run(now);
        self.parked_at.store(0, Ordering::Release);
    }

    /// Records when the worker last ran, or the time of its tables if that is earlier.
    pub(super) fn note_run(&self, beat: u64) {
        // Relaxed suffices, because the time guards no other data. `unpark` orders this store
        // before the end of the sleep.
        self.ran_at.store(beat, Ordering::Relaxed);
    }

    /// Returns the last time at which the worker certainly ran. If it sleeps, this is `now`,
    /// because a frame would wake it.
    pub(super) fn last_run(&self, now: u64) -> u64 {
        if self.is_parked(now) { now } else { self.ran_at.load(Ordering::Relaxed) }
    }

    /// Whether the routing thread must write the worker's heartbeat.
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
