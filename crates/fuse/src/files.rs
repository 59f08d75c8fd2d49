//! The nodes and the open files of the device, by the numbers that the kernel uses.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use slipring_netmap::{Domain, Errno, FdStore, OpenHandle, Parameters};

use crate::parameters;
use crate::sys;

/// A node with memory: it has open files, or its user owns something that exists without open
/// files. A node is the file that one user sees under the device's name.
#[derive(Debug, Clone)]
pub(crate) struct FuseNode {
    pub(crate) uid: u32,
    pub(crate) domain: Arc<Domain>,
    pub(crate) backing: i32,
    /// Number of open files of the node.
    opens: usize,
}

/// A node that the kernel has looked up and that has no memory, because no program has it open.
#[derive(Debug, Clone, Copy)]
struct IdleFuseNode {
    uid: u32,
    lookups: u64,
}

/// Index of the domain's word ([`Domain::front_word`]) that holds the id of the node's backing
/// file. The three words of a node survive restarts, and are written in this order. The node exists
/// if the last word, which holds its number, is not 0.
const BACKING_WORD: usize = 0;
/// Index of the word that holds the node's lookup count: how often the kernel has looked up the
/// node, minus the lookups that it has forgotten (FORGET).
const LOOKUPS_WORD: usize = 1;
const NUMBER_WORD: usize = 2;

impl FuseNode {
    fn lookups(&self) -> &AtomicU64 {
        self.domain.front_word(LOOKUPS_WORD)
    }

    /// Unregisters the memory of the node.
    fn close_backing(&self, device: BorrowedFd<'_>) {
        self.domain.front_word(NUMBER_WORD).store(0, Ordering::Relaxed);
        // An error does no harm, because the id ends with the connection at the latest.
        let _ = sys::close_backing(device, self.backing);
    }
}

/// The nodes of all users.
#[derive(Debug)]
pub(crate) struct FuseNodes {
    store: Option<Arc<dyn FdStore>>,
    table: Mutex<NodeTable>,
    /// Domains without a node, whose users still own something, for example interfaces in switches.
    lasting: Mutex<Vec<Arc<Domain>>>,
    /// All domains in use, by FUSE or the native socket API.
    domains: Mutex<Vec<Weak<Domain>>>,
    parameters: Arc<Parameters>,
}

/// The nodes, by number. A user has at most one node, which is in one of the two maps.
#[derive(Debug)]
struct NodeTable {
    open: HashMap<u64, FuseNode>,
    idle: HashMap<u64, IdleFuseNode>,
    /// The number of the next node. A number is never reused, so that a late message cannot refer
    /// to a newer node.
    next: u64,
}

impl NodeTable {
    /// Unregisters the memory of a node after its last file was closed. If the kernel still refers
    /// to the node, it becomes idle; otherwise it is removed.
    fn retire(&mut self, device: BorrowedFd<'_>, number: u64) {
        let Some(node) = self.open.remove(&number) else { return };
        let lookups = node.lookups().load(Ordering::Relaxed);
        node.close_backing(device);
        if lookups > 0 {
            self.idle.insert(number, IdleFuseNode { uid: node.uid, lookups });
        }
    }
}

#[derive(Debug)]
struct IdTable<T> {
    entries: HashMap<u64, T>,
    next: u64,
}

impl FuseNodes {
    /// Creates an empty table whose node numbers start above `base`.
    pub(crate) fn new(
        parameters: Arc<Parameters>,
        base: u64,
        store: Option<Arc<dyn FdStore>>,
    ) -> Self {
        let next = base + parameters::FIRST_FREE_NODE;
        let table = NodeTable { open: HashMap::new(), idle: HashMap::new(), next };
        Self {
            table: Mutex::new(table),
            lasting: Mutex::default(),
            domains: Mutex::default(),
            parameters,
            store,
        }
    }

    /// Takes over a domain of the previous daemon. `opens` is the number of its open files.
    pub(crate) fn adopt(&self, domain: Arc<Domain>, opens: usize) {
        self.lock_domains().push(Arc::downgrade(&domain));
        let word = |i: usize| domain.front_word(i).load(Ordering::Acquire);
        let (number, backing) = (word(NUMBER_WORD), word(BACKING_WORD) as i32);
        if number != 0 {
            let node = FuseNode { uid: domain.uid(), domain, backing, opens };
            self.lock().open.insert(number, node);
        } else if domain.is_lasting() {
            self.lock_lasting().push(domain);
        }
    }

    /// Returns the number of the node of `uid`, and creates the node if needed. A lookup alone
    /// needs no memory of the user.
    pub(crate) fn look_up(&self, uid: u32) -> u64 {
        let mut table = self.lock();
        if let Some((&number, node)) = table.open.iter().find(|(_, node)| node.uid == uid) {
            node.lookups().fetch_add(1, Ordering::Relaxed);
            return number;
        }
        if let Some((&number, node)) = table.idle.iter_mut().find(|(_, node)| node.uid == uid) {
            node.lookups += 1;
            return number;
        }
        let number = table.next;
        table.next += 1;
        table.idle.insert(number, IdleFuseNode { uid, lookups: 1 });
        number
    }

    /// Returns the node with this number; `None` if it has no memory.
    pub(crate) fn get(&self, number: u64) -> Option<FuseNode> {
        self.lock().open.get(&number).cloned()
    }

    /// Counts a file that user `uid` opens on node `number`, and returns the node. From now until
    /// the last [`Self::close`], the node has memory.
    pub(crate) fn open(
        &self,
        device: BorrowedFd<'_>,
        number: u64,
        uid: u32,
    ) -> Result<FuseNode, Errno> {
        let mut table = self.lock();
        if let Some(node) = table.open.get_mut(&number).filter(|node| node.uid == uid) {
            node.opens += 1;
            return Ok(node.clone());
        }
        // If the node was looked up by another user, or by no user, ESTALE makes the kernel look it
        // up again.
        let idle = table.idle.get(&number).copied().filter(|node| node.uid == uid);
        let IdleFuseNode { lookups, .. } = idle.ok_or(Errno::STALE)?;
        let domain = self.domain(uid)?;
        let backing = sys::open_backing(device, domain.file())?;
        self.lock_lasting().retain(|one| one.uid() != uid);
        domain.front_word(BACKING_WORD).store(backing as u64, Ordering::Relaxed);
        domain.front_word(LOOKUPS_WORD).store(lookups, Ordering::Relaxed);
        domain.front_word(NUMBER_WORD).store(number, Ordering::Release);
        let node = FuseNode { uid, domain, backing, opens: 1 };
        table.idle.remove(&number);
        table.open.insert(number, node.clone());
        Ok(node)
    }

    /// Closes a file on node `number`. The last close frees the user's memory, including pages that
    /// belong to no port. If the user owns an object that exists without open files, the memory
    /// stays.
    pub(crate) fn close(&self, device: BorrowedFd<'_>, number: u64) {
        let mut table = self.lock();
        let Some(node) = table.open.get_mut(&number) else { return };
        node.opens = node.opens.saturating_sub(1);
        if node.opens > 0 || node.domain.is_lasting() {
            return;
        }
        table.retire(device, number);
        drop(table);
        self.lock_lasting().retain(|one| one.is_lasting());
    }

    /// Frees the memory of users who have no open files and own nothing that exists without open
    /// files.
    pub(crate) fn release_unused(&self, device: BorrowedFd<'_>) {
        let mut table = self.lock();
        let idle = |node: &FuseNode| node.opens == 0 && !node.domain.is_lasting();
        let nodes = table.open.iter().filter(|(_, node)| idle(node));
        let numbers: Vec<_> = nodes.map(|(&number, _)| number).collect();
        numbers.into_iter().for_each(|number| table.retire(device, number));
        drop(table);
        self.lock_lasting().retain(|one| one.is_lasting());
    }

    /// Subtracts `lookups` from the kernel's references to the node; removes the node if none is
    /// left.
    pub(crate) fn forget(&self, device: BorrowedFd<'_>, number: u64, lookups: u64) {
        let mut table = self.lock();
        if let Some(node) = table.idle.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(lookups);
            if node.lookups == 0 {
                table.idle.remove(&number);
            }
            return;
        }
        let Some(node) = table.open.get(&number) else { return };
        let left = node.lookups().load(Ordering::Relaxed).saturating_sub(lookups);
        node.lookups().store(left, Ordering::Relaxed);
        if left == 0 {
            node.close_backing(device);
            let gone = table.open.remove(&number);
            self.lock_lasting().extend(gone.map(|node| node.domain).filter(|one| one.is_lasting()));
        }
    }

    /// Returns the domain of `uid`, creating it if needed.
    pub(crate) fn domain(&self, uid: u32) -> Result<Arc<Domain>, Errno> {
        let mut known = self.lock_domains();
        let mut there = known.iter().filter_map(Weak::upgrade);
        if let Some(domain) = there.find(|domain| domain.uid() == uid) {
            return Ok(domain);
        }
        let domain = Domain::sharing(uid, &self.parameters, self.store.clone())?;
        known.retain(|one| one.strong_count() > 0);
        known.push(Arc::downgrade(&domain));
        Ok(domain)
    }

    /// Releases a domain that was used without a node.
    pub(crate) fn release_domain(&self, domain: Arc<Domain>) {
        let mut kept = self.lock_lasting();
        kept.retain(|one| one.uid() != domain.uid() && one.is_lasting());
        if domain.is_lasting() {
            kept.push(domain);
        }
    }

    fn lock_domains(&self) -> MutexGuard<'_, Vec<Weak<Domain>>> {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_lasting(&self) -> MutexGuard<'_, Vec<Arc<Domain>>> {
        self.lasting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all domains in use.
    pub(crate) fn domains(&self) -> Vec<Arc<Domain>> {
        self.lock_domains().iter().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, NodeTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All open files, by handle.
#[derive(Debug)]
pub(crate) struct OpenFiles(RwLock<IdTable<Arc<OpenHandle>>>);

impl OpenFiles {
    /// Creates an empty table whose handles start above `base`.
    pub(crate) fn new(base: u64) -> Self {
        Self(RwLock::new(IdTable { entries: HashMap::new(), next: base + 1 }))
    }

    /// Returns a new handle for a file that is being opened.
    pub(crate) fn next_handle(&self) -> u64 {
        let mut files = self.0.write().unwrap_or_else(PoisonError::into_inner);
        files.next += 1;
        files.next - 1
    }

    /// Returns the handle that the open request `call` got before a restart; `None` if it got none.
    pub(crate) fn handle_opened_by(&self, call: u64) -> Option<u64> {
        let files = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let open_ids = files.entries.values().filter_map(|open| open.open_id());
        open_ids.into_iter().find(|open_id| open_id.call == call).map(|open_id| open_id.handle)
    }

    pub(crate) fn insert(&self, handle: u64, open: OpenHandle) {
        let mut files = self.0.write().unwrap_or_else(PoisonError::into_inner);
        files.entries.insert(handle, Arc::new(open));
    }

    /// Notifies the pollers of all files. Some of them may have slept when the previous daemon
    /// ended.
    pub(crate) fn wake_earlier_pollers(&self) {
        let files = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let opens: Vec<_> = files.entries.values().cloned().collect();
        drop(files);
        opens.iter().for_each(|open| open.wake_earlier_pollers());
    }

    #[inline]
    pub(crate) fn get(&self, handle: u64) -> Option<Arc<OpenHandle>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).entries.get(&handle).cloned()
    }

    pub(crate) fn remove(&self, handle: u64) -> Option<Arc<OpenHandle>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).entries.remove(&handle)
    }

    /// Removes and returns all files.
    pub(crate) fn take_all(&self) -> HashMap<u64, Arc<OpenHandle>> {
        let mut files = self.0.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut files.entries)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).entries.len()
    }
}
