//! The part of a domain that exists for a successor process: the store that keeps the domain's
//! descriptors, and a list of open files.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use crate::memory::ledger::Ledger;
use crate::open::commit_lock::CommitLock;
use crate::port::persist::SavedPortIndex;
use crate::types::lock::lock;
use crate::types::state::OpenState;

/// Keeps descriptors for the successor process.
pub trait FdStore: Send + Sync + Debug {
    /// Stores a descriptor under a name, until [`Self::remove`].
    fn store(&self, name: &str, fd: BorrowedFd<'_>);

    /// Removes the descriptor.
    fn remove(&self, name: &str);
}

/// An open file that can be saved for a successor process.
pub(crate) trait PersistentOpen: Send + Sync + Debug {
    /// Returns the saved form of the open file. `ports` assigns an index to the port that the file
    /// has bound. `None` if the file is not to be kept for the successor process.
    fn state(&self, ports: &mut dyn SavedPortIndex) -> Option<OpenState>;
}

/// The part of a domain that exists for the successor process.
#[derive(Debug)]
pub(crate) struct CommitLog {
    uid: u32,
    store: Option<Arc<dyn FdStore>>,
    pub(crate) lock: Arc<CommitLock>,
    /// The open files to save, by the numbers under which the front knows them.
    files: Mutex<BTreeMap<u64, Arc<dyn PersistentOpen>>>,
}

impl CommitLog {
    /// Returns whether the state is saved, so that a successor process can take over.
    pub(crate) fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// Puts the memory file and the ledger into the store, if there is a store.
    pub(crate) fn store_files(&self, memory: BorrowedFd<'_>, ledger: &Ledger) {
        if let Some(store) = &self.store {
            store.store(&memory_name(self.uid), memory);
            store.store(&ledger_name(self.uid), ledger.file());
        }
    }

    pub(crate) fn new(
        uid: u32,
        memory: BorrowedFd<'_>,
        ledger: &Ledger,
        store: Option<Arc<dyn FdStore>>,
    ) -> Self {
        let book = Self { uid, store, lock: Arc::default(), files: Mutex::default() };
        book.store_files(memory, ledger);
        book
    }

    /// Returns the open files to save.
    pub(crate) fn files(&self) -> Vec<Arc<dyn PersistentOpen>> {
        lock(&self.files).values().cloned().collect()
    }

    /// Adds an open file, which the front knows by `handle`.
    pub(crate) fn register_file(&self, handle: u64, file: Arc<dyn PersistentOpen>) {
        lock(&self.files).insert(handle, file);
    }

    /// Removes a file that is being closed.
    pub(crate) fn unregister_file(&self, handle: u64) {
        let left = lock(&self.files).remove(&handle);
        drop(left);
    }
}

impl Drop for CommitLog {
    fn drop(&mut self) {
        if let Some(store) = &self.store {
            store.remove(&memory_name(self.uid));
            store.remove(&ledger_name(self.uid));
        }
    }
}

/// Returns the name under which the store keeps a user's memory.
#[must_use]
pub fn memory_name(uid: u32) -> String {
    format!("memory-{uid}")
}

/// Returns the name under which the store keeps a user's ledger.
#[must_use]
pub fn ledger_name(uid: u32) -> String {
    format!("ledger-{uid}")
}
