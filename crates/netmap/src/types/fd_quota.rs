//! A limit on the descriptors that the sync loops of one user hold.

use std::sync::Mutex;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::types::lock::lock;

/// Counts the descriptors of one user's loops. Each user may have a fixed share of the process's
/// descriptors. Root has no limit.
#[derive(Debug, Default)]
pub(crate) struct FdQuota(Mutex<u64>);

/// Reserved descriptors, until this is dropped.
pub(crate) struct FdQuotaGuard<'s>(&'s FdQuota, u64);

impl FdQuota {
    /// One user may have 1/8 of the descriptors that the process may open.
    const SHARE_DIVISOR: u64 = 8;

    /// Reserves `count` descriptors for the user `uid`.
    ///
    /// # Errors
    /// [`Errno::NOMEM`] if the user would then hold more than a user's share.
    pub(crate) fn acquire(&self, uid: u32, count: u64) -> Result<FdQuotaGuard<'_>, Errno> {
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / Self::SHARE_DIVISOR;
        let mut taken = lock(&self.0);
        if uid != 0 && *taken + count > most {
            return Err(Errno::NOMEM);
        }
        *taken += count;
        Ok(FdQuotaGuard(self, count))
    }
}

impl Drop for FdQuotaGuard<'_> {
    fn drop(&mut self) {
        *lock(&self.0.0) -= self.1;
    }
}
