//! A trust domain: the memory of one user, the names of the user's ports, and what a successor
//! process needs to continue with both.

use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;

use crate::memory::ledger::Ledger;
use crate::memory::user_memory::UserMemory;
use crate::open::commit_log::{CommitLog, FdStore};
use crate::open::names::AdapterNames;
use crate::types::fd_quota::FdQuota;
use crate::types::lock::lock;
use crate::types::parameters::Parameters;
use crate::types::params::MemoryParams;

/// One user's memory and port names.
#[derive(Debug)]
pub struct Domain {
    memory: UserMemory,
    pub(crate) names: Mutex<AdapterNames>,
    /// Limits the file descriptors that sync loops of the domain use.
    pub(crate) loop_fds: FdQuota,
    /// The ledger for the successor process. Even without a store, it holds the persistent words of
    /// pipes and switch ports.
    pub(crate) ledger: Ledger,
    pub(crate) commit_log: CommitLog,
}

impl Deref for Domain {
    type Target = UserMemory;

    fn deref(&self) -> &UserMemory {
        &self.memory
    }
}

impl Domain {
    /// Creates a domain without memories. Its file is sparse and can neither grow nor shrink.
    ///
    /// # Errors
    /// The kernel's error, if the memory file or the ledger cannot be created.
    pub fn new(uid: u32, params: MemoryParams) -> Result<Arc<Self>, Errno> {
        Self::sharing(uid, &Parameters::new(&params), None)
    }

    /// Like [`Self::new`], but the parameters are shared with other domains and can change later.
    /// If there is a store, it keeps the domain for the successor process.
    ///
    /// # Errors
    /// The kernel's error, if the memory file or the ledger cannot be created.
    pub fn sharing(
        uid: u32,
        parameters: &Arc<Parameters>,
        store: Option<Arc<dyn FdStore>>,
    ) -> Result<Arc<Self>, Errno> {
        let memory = UserMemory::new(uid, parameters)?;
        let domain = Self::of(memory, Ledger::new()?, store);
        domain.commit();
        Ok(domain)
    }

    /// Creates a domain whose memories are still to be restored from the file.
    pub(crate) fn with_file(
        uid: u32,
        file: OwnedFd,
        ledger: Ledger,
        parameters: &Arc<Parameters>,
        store: Option<Arc<dyn FdStore>>,
    ) -> Result<Arc<Self>, Errno> {
        Ok(Self::of(UserMemory::with_file(uid, file, parameters)?, ledger, store))
    }

    fn of(memory: UserMemory, ledger: Ledger, store: Option<Arc<dyn FdStore>>) -> Arc<Self> {
        let commit_log = CommitLog::new(memory.uid(), memory.file(), &ledger, store);
        let (names, loop_fds) = (Mutex::default(), FdQuota::default());
        Arc::new(Self { memory, names, loop_fds, ledger, commit_log })
    }

    /// Returns the inode number of the network namespace and the name of each persistent port,
    /// sorted by number, then by name.
    #[must_use]
    pub fn persistent_ports(&self) -> Vec<(u64, String)> {
        let ports = lock(&self.names).switches.all_persistent();
        let mut keys: Vec<_> = ports.into_iter().map(|(key, _)| key).collect();
        keys.sort();
        keys
    }
}
