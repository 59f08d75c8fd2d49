//! Whose the device is, and who may open it.

use std::sync::{Mutex, PoisonError};

/// Mode, owner and group of the device; they may change at any time.
#[derive(Debug, Default)]
pub struct Permissions(Mutex<Shown>);

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shown {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Permissions {
    /// Sets permission bits, owner and group. Who has the device open keeps it.
    pub fn set(&self, mode: u32, uid: u32, gid: u32) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Shown { mode: mode & 0o777, uid, gid };
    }

    pub(crate) fn shown(&self) -> Shown {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
