//! The network namespaces in which the device is open. For each of them there is one descriptor, no
//! matter how many files were opened in it. The number of descriptors per user is limited.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::process::{Resource, getrlimit};
use slipring_netmap::{Errno, FdStore};

use crate::caller::errno_of;
use crate::sys;

/// The descriptors for one user's namespaces may be at most this fraction (1 / 8) of the
/// descriptors that this process can have. Root has no limit.
const SHARE_DIVISOR: u64 = 8;

/// The namespaces, by inode number.
#[derive(Debug)]
pub(crate) struct Namespaces {
    namespaces: Mutex<HashMap<u64, HeldNamespace>>,
    /// Maximum number of namespaces for which one user may cause a descriptor to be open.
    max_per_user: usize,
    /// The store that keeps the descriptors for the next daemon; `None` if there is no store.
    store: Option<Arc<dyn FdStore>>,
}

#[derive(Debug)]
struct HeldNamespace {
    namespace: Weak<OwnedFd>,
    /// The user who was the first to open the device in this namespace; 0 if the descriptor is from
    /// the previous daemon.
    uid: u32,
}

/// The start of a namespace's name in a store. The inode number follows.
pub(crate) const STORE_PREFIX: &str = "netns-";

impl Namespaces {
    /// Creates an empty table. The limit per user depends on how many descriptors this process can
    /// have.
    pub(crate) fn new(store: Option<Arc<dyn FdStore>>) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self { store, ..Self::with_share((limit / SHARE_DIVISOR) as usize) }
    }

    fn with_share(max_per_user: usize) -> Self {
        Self { namespaces: Mutex::default(), max_per_user, store: None }
    }

    /// Takes over a descriptor of the previous daemon; `None` if it cannot be examined.
    pub(crate) fn adopt(&self, namespace: OwnedFd, uid: u32) -> Option<(u64, Arc<OwnedFd>)> {
        let inode = rustix::fs::fstat(&namespace).ok()?.st_ino;
        let namespace = Arc::new(namespace);
        let held = HeldNamespace { namespace: Arc::downgrade(&namespace), uid };
        self.lock().insert(inode, held);
        Some((inode, namespace))
    }

    /// Removes all namespaces from the store.
    pub(crate) fn forget_all(&self) {
        if let Some(store) = &self.store {
            self.lock().keys().for_each(|inode| store.remove(&format!("{STORE_PREFIX}{inode}")));
        }
    }

    /// Removes namespaces that no open file uses.
    pub(crate) fn remove_closed(&self) {
        self.remove_dead(&mut self.lock());
    }

    fn remove_dead(&self, held: &mut HashMap<u64, HeldNamespace>) {
        held.retain(|inode, one| {
            let is_used = one.namespace.strong_count() > 0;
            if let (false, Some(store)) = (is_used, &self.store) {
                store.remove(&format!("{STORE_PREFIX}{inode}"));
            }
            is_used
        });
    }

    /// Returns the inode number and the descriptor of the namespace of thread `tid`, for user
    /// `uid`. The caller must check afterwards that the thread belongs to that user.
    ///
    /// # Errors
    /// [`Errno::NFILE`] if this process lacks descriptors or memory, or the user has reached the
    /// limit of namespaces; [`Errno::ACCESS`] if the thread's namespace cannot be opened.
    pub(crate) fn of(&self, tid: u32, uid: u32) -> Result<(u64, Arc<OwnedFd>), Errno> {
        let path = format!("/proc/{tid}/ns/net");
        let refused = |error| errno_of(&error, Errno::NFILE, Errno::ACCESS);
        let mut held = self.lock();
        let inode = fs::metadata(&path).map_err(refused)?.ino();
        if let Some(known) = held.get(&inode).and_then(|one| one.namespace.upgrade()) {
            return Ok((inode, known));
        }
        self.remove_dead(&mut held);
        if uid != 0 && held.values().filter(|one| one.uid == uid).count() >= self.max_per_user {
            return Err(Errno::NFILE);
        }
        let file = File::open(&path).map_err(refused)?;
        // The inode number is read from the open file, because the thread may have moved to another
        // namespace since the file was opened.
        let inode = file.metadata().map_err(refused)?.ino();
        let namespace = Arc::new(OwnedFd::from(file));
        if let Some(store) = &self.store {
            store.store(&format!("{STORE_PREFIX}{inode}"), namespace.as_fd());
        }
        held.insert(inode, HeldNamespace { namespace: Arc::downgrade(&namespace), uid });
        Ok((inode, namespace))
    }

    /// Returns the network namespace of a client of user `uid` that is connected through `socket`:
    /// the namespace in which the client created its end.
    ///
    /// # Errors
    /// The errors of [`Self::of`].
    pub(crate) fn of_socket(
        &self,
        socket: BorrowedFd<'_>,
        uid: u32,
    ) -> Result<(u64, Arc<OwnedFd>), Errno> {
        let namespace = sys::namespace_of(socket)?;
        let inode = rustix::fs::fstat(&namespace)?.st_ino;
        let mut held = self.lock();
        if let Some(known) = held.get(&inode).and_then(|one| one.namespace.upgrade()) {
            return Ok((inode, known));
        }
        held.retain(|_, one| one.namespace.strong_count() > 0);
        if uid != 0 && held.values().filter(|one| one.uid == uid).count() >= self.max_per_user {
            return Err(Errno::NFILE);
        }
        let namespace = Arc::new(namespace);
        held.insert(inode, HeldNamespace { namespace: Arc::downgrade(&namespace), uid });
        Ok((inode, namespace))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, HeldNamespace>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> u32 {
        rustix::thread::gettid().as_raw_nonzero().get() as u32
    }

    #[test]
    fn all_files_of_a_namespace_share_one_descriptor() {
        let namespaces = Namespaces::new(None);
        let (inode, first) = namespaces.of(me(), 1000).unwrap();
        let (again, second) = namespaces.of(me(), 1001).unwrap();
        assert!(inode == again && Arc::ptr_eq(&first, &second));
        let weak = Arc::downgrade(&first);
        drop((first, second));
        assert!(weak.upgrade().is_none(), "the last one closes it");
    }

    #[test]
    fn a_user_gets_no_more_than_his_share_and_root_what_he_needs() {
        let namespaces = Namespaces::with_share(0);
        assert_eq!(namespaces.of(me(), 1000).err(), Some(Errno::NFILE));
        let (_, held) = namespaces.of(me(), 0).unwrap();
        assert!(namespaces.of(me(), 1000).is_ok(), "it costs nothing more");
        drop(held);
    }
}
