//! How the device is served.

use std::path::PathBuf;
use std::sync::Arc;

use slipring_netmap::Parameters;

use crate::permissions::Permissions;
use crate::uring::UringMode;

/// Where the device is mounted, who may open it, and how requests are served.
#[derive(Debug, Clone)]
pub struct FuseConfig {
    /// The directory to mount the device on; created if it does not exist.
    pub dir: PathBuf,
    /// Who may open the device. May change while the device is served.
    pub permissions: Arc<Permissions>,
    /// Number of threads that answer requests read from the FUSE device; at least two, so that
    /// while one thread waits briefly another can run.
    pub workers: usize,
    /// Whether requests arrive by io_uring instead of through the FUSE device.
    pub uring: UringMode,
    /// The module parameters: sizes of memory and rings. May change while the device runs.
    pub parameters: Arc<Parameters>,
}

impl FuseConfig {
    /// Number of threads that read from the FUSE device when all requests arrive there.
    pub(crate) fn readers(&self) -> usize {
        self.workers.max(2)
    }
}
