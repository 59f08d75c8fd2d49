//! What the threads show of themselves.

use std::sync::{Mutex, PoisonError};

use crate::join::{Join, Tally};

/// The latest figures of one thread.
#[derive(Debug, Default)]
pub(crate) struct Board {
    shown: Mutex<Shown>,
}

/// What is shown.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) tally: Tally,
    /// Frames that wait for room at ports.
    pub(crate) late: u64,
    /// States there are.
    pub(crate) states: u64,
    /// Frames are checked as they go out, too.
    pub(crate) checks_out: bool,
}

impl Board {
    /// Shows how things stand, unless somebody reads right now.
    pub(crate) fn publish(&self, join: &Join, late: u64) {
        if let Ok(mut shown) = self.shown.try_lock() {
            let states = join.firewall().states().len() as u64;
            *shown = Shown { tally: join.tally(), late, states, checks_out: join.checks_out() };
        }
    }

    pub(crate) fn look(&self) -> Shown {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
