//! Nodes and open files, by the numbers that the kernel has for them.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use slipring_netmap::{Domain, Errno, Open, Parameters};

use crate::parameters;
use crate::sys;

/// What one user finds under the device's name.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) uid: u32,
    pub(crate) domain: Arc<Domain>,
    pub(crate) backing: i32,
    /// How often the kernel has looked it up and not forgotten it.
    lookups: u64,
}

/// All users' nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    by_number: Mutex<Numbered<Node>>,
    /// Those of users without a node in which something goes on: interfaces in switches.
    kept: Mutex<Vec<Arc<Domain>>>,
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
    pub(crate) fn new(parameters: Arc<Parameters>) -> Self {
        let numbered = Numbered { entries: HashMap::new(), next: parameters::BEHIND };
        Self { by_number: Mutex::new(numbered), kept: Mutex::default(), parameters }
    }

    /// The node of `uid`, made if it is not there; its number.
    pub(crate) fn look_up(&self, device: BorrowedFd<'_>, uid: u32) -> Result<u64, Errno> {
        let mut nodes = self.lock();
        if let Some((&number, node)) = nodes.entries.iter_mut().find(|(_, node)| node.uid == uid) {
            node.lookups += 1;
            return Ok(number);
        }
        let domain = match self.take_kept(uid) {
            Some(domain) => domain,
            None => Domain::sharing(uid, &self.parameters)?,
        };
        let backing = sys::open_backing(device, domain.file())?;
        Ok(nodes.add(Node { uid, domain, backing, lookups: 1 }))
    }

    pub(crate) fn get(&self, number: u64) -> Option<Node> {
        self.lock().entries.get(&number).cloned()
    }

    /// The kernel does not know the node any more by so many lookups.
    pub(crate) fn forget(&self, device: BorrowedFd<'_>, number: u64, lookups: u64) {
        let mut nodes = self.lock();
        let Some(node) = nodes.entries.get_mut(&number) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0 {
            // The number is the connection's; it ends with that at the latest.
            let _ = sys::close_backing(device, node.backing);
            let gone = nodes.entries.remove(&number);
            self.lock_kept().extend(gone.map(|node| node.domain).filter(|one| one.is_lasting()));
        }
    }

    fn take_kept(&self, uid: u32) -> Option<Arc<Domain>> {
        let mut kept = self.lock_kept();
        let at = kept.iter().position(|domain| domain.uid() == uid)?;
        Some(kept.swap_remove(at))
    }

    fn lock_kept(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Domain>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All domains that are there.
    pub(crate) fn domains(&self) -> Vec<Arc<Domain>> {
        let nodes = self.lock();
        let nodes = nodes.entries.values().map(|node| node.domain.clone());
        nodes.chain(self.lock_kept().iter().cloned()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Numbered<Node>> {
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All open files.
#[derive(Debug)]
pub(crate) struct Files(RwLock<Numbered<Arc<Open>>>);

impl Default for Files {
    fn default() -> Self {
        Self(RwLock::new(Numbered { entries: HashMap::new(), next: 1 }))
    }
}

impl Files {
    pub(crate) fn add(&self, open: Open) -> u64 {
        self.0.write().unwrap_or_else(PoisonError::into_inner).add(Arc::new(open))
    }

    #[inline]
    pub(crate) fn get(&self, handle: u64) -> Option<Arc<Open>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).entries.get(&handle).cloned()
    }

    pub(crate) fn remove(&self, handle: u64) -> Option<Arc<Open>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).entries.remove(&handle)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).entries.len()
    }
}
