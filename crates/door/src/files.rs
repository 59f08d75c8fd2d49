//! Nodes and open files, by the numbers that the kernel has for them.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use slipring_netmap::{Domain, Errno, Open, Parameters, Store};

use crate::parameters;
use crate::sys;

/// What one user finds under the device's name.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) uid: u32,
    pub(crate) domain: Arc<Domain>,
    pub(crate) backing: i32,
}

/// Words of a domain in which the front keeps what it has to know of the node, in the order in
/// which they are written: the number of a node says that it is there.
const BACKING: usize = 0;
/// How often the kernel has looked it up and not forgotten it.
const LOOKUPS: usize = 1;
const NUMBER: usize = 2;

impl Node {
    fn lookups(&self) -> &AtomicU64 {
        self.domain.front_word(LOOKUPS)
    }
}

/// All users' nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    store: Option<Arc<dyn Store>>,
    by_number: Mutex<Numbered<Node>>,
    /// Those of users without a node in which something goes on: interfaces in switches.
    kept: Mutex<Vec<Arc<Domain>>>,
    /// All that somebody has, whichever way he came.
    known: Mutex<Vec<Weak<Domain>>>,
    parameters: Arc<Parameters>,
}

#[derive(Debug)]
struct Numbered<T> {
    entries: HashMap<u64, T>,
    next: u64,
}

impl<T> Numbered<T> {
    fn add(&mut self, entry: T) -> u64 {
        let number = self.next;
        // Never given twice, so that a late message cannot mean a newer entry.
        self.next += 1;
        self.entries.insert(number, entry);
        number
    }
}

impl Nodes {
    /// None yet; their numbers begin behind `base`.
    pub(crate) fn new(
        parameters: Arc<Parameters>,
        base: u64,
        store: Option<Arc<dyn Store>>,
    ) -> Self {
        let numbered = Numbered { entries: HashMap::new(), next: base + parameters::BEHIND };
        Self {
            by_number: Mutex::new(numbered),
            kept: Mutex::default(),
            known: Mutex::default(),
            parameters,
            store,
        }
    }

    /// Takes a domain over as a process that is no more had it.
    pub(crate) fn adopt(&self, domain: Arc<Domain>) {
        self.lock_known().push(Arc::downgrade(&domain));
        let word = |i: usize| domain.front_word(i).load(Ordering::Acquire);
        let (number, backing) = (word(NUMBER), word(BACKING) as i32);
        if number != 0 {
            let node = Node { uid: domain.uid(), domain, backing };
            self.lock().entries.insert(number, node);
        } else if domain.is_lasting() {
            self.lock_kept().push(domain);
        }
    }

    /// The node of `uid`, made if it is not there; its number.
    pub(crate) fn look_up(&self, device: BorrowedFd<'_>, uid: u32) -> Result<u64, Errno> {
        let mut nodes = self.lock();
        if let Some((&number, node)) = nodes.entries.iter_mut().find(|(_, node)| node.uid == uid) {
            node.lookups().fetch_add(1, Ordering::Relaxed);
            return Ok(number);
        }
        let domain = self.domain(uid)?;
        self.lock_kept().retain(|one| one.uid() != uid);
        let backing = sys::open_backing(device, domain.file())?;
        domain.front_word(BACKING).store(backing as u64, Ordering::Relaxed);
        domain.front_word(LOOKUPS).store(1, Ordering::Relaxed);
        let number = nodes.add(Node { uid, domain: domain.clone(), backing });
        domain.front_word(NUMBER).store(number, Ordering::Release);
        Ok(number)
    }

    pub(crate) fn get(&self, number: u64) -> Option<Node> {
        self.lock().entries.get(&number).cloned()
    }

    /// The kernel does not know the node any more by so many lookups.
    pub(crate) fn forget(&self, device: BorrowedFd<'_>, number: u64, lookups: u64) {
        let mut nodes = self.lock();
        let Some(node) = nodes.entries.get_mut(&number) else { return };
        let left = node.lookups().load(Ordering::Relaxed).saturating_sub(lookups);
        node.lookups().store(left, Ordering::Relaxed);
        if left == 0 {
            node.domain.front_word(NUMBER).store(0, Ordering::Relaxed);
            // The number is the connection's; it ends with that at the latest.
            let _ = sys::close_backing(device, node.backing);
            let gone = nodes.entries.remove(&number);
            self.lock_kept().extend(gone.map(|node| node.domain).filter(|one| one.is_lasting()));
        }
    }

    /// That of `uid`, made if there is none.
    pub(crate) fn domain(&self, uid: u32) -> Result<Arc<Domain>, Errno> {
        let mut known = self.lock_known();
        let mut there = known.iter().filter_map(Weak::upgrade);
        if let Some(domain) = there.find(|domain| domain.uid() == uid) {
            return Ok(domain);
        }
        let domain = Domain::sharing(uid, &self.parameters, self.store.clone())?;
        known.retain(|one| one.strong_count() > 0);
        known.push(Arc::downgrade(&domain));
        Ok(domain)
    }

    /// Somebody has no more to do with `domain` who did not come by a node.
    pub(crate) fn let_go(&self, domain: Arc<Domain>) {
        if domain.is_lasting() {
            let mut kept = self.lock_kept();
            kept.retain(|one| one.uid() != domain.uid());
            kept.push(domain);
        }
    }

    fn lock_known(&self) -> MutexGuard<'_, Vec<Weak<Domain>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_kept(&self) -> MutexGuard<'_, Vec<Arc<Domain>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All domains that are there.
    pub(crate) fn domains(&self) -> Vec<Arc<Domain>> {
        self.lock_known().iter().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Numbered<Node>> {
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All open files.
#[derive(Debug)]
pub(crate) struct Files(RwLock<Numbered<Arc<Open>>>);

impl Files {
    /// None yet; their numbers begin behind `base`.
    pub(crate) fn new(base: u64) -> Self {
        Self(RwLock::new(Numbered { entries: HashMap::new(), next: base + 1 }))
    }

    /// A number for a file that is being opened.
    pub(crate) fn number(&self) -> u64 {
        let mut files = self.0.write().unwrap_or_else(PoisonError::into_inner);
        files.next += 1;
        files.next - 1
    }

    /// The file that was opened by this call before a restart.
    pub(crate) fn opened_by(&self, call: u64) -> Option<u64> {
        let files = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let tickets = files.entries.values().filter_map(|open| open.ticket());
        tickets.into_iter().find(|ticket| ticket.call == call).map(|ticket| ticket.handle)
    }

    pub(crate) fn put(&self, handle: u64, open: Open) {
        let mut files = self.0.write().unwrap_or_else(PoisonError::into_inner);
        files.entries.insert(handle, Arc::new(open));
    }

    /// Wakes all who slept in a poll when the process before this one ended.
    pub(crate) fn wake_old(&self) {
        let files = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let opens: Vec<_> = files.entries.values().cloned().collect();
        drop(files);
        opens.iter().for_each(|open| open.wake_old());
    }

    #[inline]
    pub(crate) fn get(&self, handle: u64) -> Option<Arc<Open>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).entries.get(&handle).cloned()
    }

    pub(crate) fn remove(&self, handle: u64) -> Option<Arc<Open>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).entries.remove(&handle)
    }

    /// Takes all out.
    pub(crate) fn take(&self) -> HashMap<u64, Arc<Open>> {
        let mut files = self.0.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut files.entries)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).entries.len()
    }
}
