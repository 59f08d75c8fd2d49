//! The figures that each packet thread publishes for reports.

use std::sync::{Mutex, PoisonError};

use crate::dataplane::{Dataplane, DataplaneCounters};

/// The figures that one packet thread published last.
#[derive(Debug, Default)]
pub(crate) struct SharedDataplaneStats {
    latest: Mutex<DataplaneStats>,
}

/// The figures of a packet thread at one moment.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct DataplaneStats {
    pub(crate) counters: DataplaneCounters,
    /// Number of frames that wait for space in the transmit rings.
    pub(crate) pending_frames: u64,
    /// Number of dynamic states of the thread's flows.
    pub(crate) states: u64,
    /// Number of ICMP errors that were not sent because of the limits on their rate.
    pub(crate) suppressed_errors: u64,
    /// Whether frames are also checked on output.
    pub(crate) checks_out: bool,
}

impl SharedDataplaneStats {
    /// Publishes the current figures, unless a reader holds the lock; then the old figures stay.
    /// `late` is the number of frames that wait for space in the transmit rings.
    pub(crate) fn publish(&self, dataplane: &Dataplane, late: u64) {
        if let Ok(mut latest) = self.latest.try_lock() {
            *latest = DataplaneStats::of(dataplane, late);
        }
    }

    /// Publishes the final figures. Waits if a reader holds the lock.
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
