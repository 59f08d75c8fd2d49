//! What the threads show of themselves.

use std::sync::{Mutex, PoisonError};

use crate::dataplane::{Dataplane, DataplaneCounters};

/// The latest figures of one thread.
#[derive(Debug, Default)]
pub(crate) struct SharedDataplaneStats {
    latest: Mutex<DataplaneStats>,
}

/// What is shown.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct DataplaneStats {
    pub(crate) counters: DataplaneCounters,
    /// Frames that wait for room at ports.
    pub(crate) pending_frames: u64,
    /// States there are.
    pub(crate) states: u64,
    /// Frames are checked as they go out, too.
    pub(crate) checks_out: bool,
}

impl SharedDataplaneStats {
    /// Shows how things stand, unless somebody reads right now.
    pub(crate) fn publish(&self, join: &Dataplane, late: u64) {
        if let Ok(mut shown) = self.latest.try_lock() {
            let states = join.firewall().states().len() as u64;
            *shown = DataplaneStats {
                counters: join.counters(),
                pending_frames: late,
                states,
                checks_out: join.checks_out(),
            };
        }
    }

    pub(crate) fn snapshot(&self) -> DataplaneStats {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
