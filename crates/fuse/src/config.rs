//! The settings with which the device is served.

use std::path::PathBuf;
use std::sync::Arc;

use slipring_netmap::Parameters;

use crate::permissions::Permissions;
use crate::uring::UringMode;

/// Where the device is mounted, who may open it, and how requests are served.
#[derive(Debug, Clone)]
pub struct FuseConfig {
    /// The directory on which the device is mounted. It is created if it does not exist.
    pub dir: PathBuf,
    /// Who may open the device. This may be changed while the device is served.
    pub permissions: Arc<Permissions>,
    /// Number of threads that answer requests from the FUSE device. It should be at least two:
    /// while one of them waits briefly, another one can run.
    pub workers: usize,
    /// Whether requests arrive by io_uring instead of through the FUSE device.
    pub uring: UringMode,
    /// The module parameters, which are sizes of memory and rings. They may be changed while the
    /// device is served.
    pub parameters: Arc<Parameters>,
}

impl FuseConfig {
    /// Returns how many threads read from the FUSE device if all requests arrive there.
    pub(crate) fn readers(&self) -> usize {
        self.workers.max(2)
    }
}
