//! Figures that the packet threads publish for reports.

use std::sync::{Mutex, PoisonError};

use crate::dataplane::{Dataplane, DataplaneCounters};

/// The latest figures of one thread.
#[derive(Debug, Default)]
pub(crate) struct SharedDataplaneStats {
    latest: Mutex<DataplaneStats>,
}

/// A snapshot of a thread's figures.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct DataplaneStats {
    pub(crate) counters: DataplaneCounters,
    /// Number of frames that wait for space in transmit rings.
    pub(crate) pending_frames: u64,
    /// Number of dynamic states.
    pub(crate) states: u64,
    /// Number of ICMP errors that were not sent because of the limits on their rate.
    pub(crate) suppressed_errors: u64,
    /// Whether frames are also checked on output.
    pub(crate) checks_out: bool,
}

impl SharedDataplaneStats {
    /// Publishes the current figures, unless a reader holds the lock; `late` is the number of
    /// pending frames.
    pub(crate) fn publish(&self, dataplane: &Dataplane, late: u64) {
        if let Ok(mut latest) = self.latest.try_lock() {
            *latest = DataplaneStats::of(dataplane, late);
        }
    }

    /// Publishes the final figures, waiting for a reader that holds the lock.
    pub(crate) fn publish_final(&self, dataplane: &Dataplane, late: u64) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = DataplaneStats::of(dataplane, late);
    }

    pub(crate) fn snapshot(&self) -> DataplaneStats {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DataplaneStats {
    fn of(dataplane: &Dataplane, late: u64) -> Self {
        Self {
            counters: dataplane.counters(),
            pending_frames: late,
            states: dataplane.firewall().states().len() as u64,
            suppressed_errors: dataplane.firewall().suppressed_errors(),
            checks_out: dataplane.checks_out(),
        }
    }
}
