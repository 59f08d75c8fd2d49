//! Who may change a domain and who may write it down, and what is to be written that no list of
//! names has: the open files.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use slipring_ring::Region;

use crate::domain::{Domain, lock};
use crate::open::{Open, OpenFile};
use crate::request::Request;
use crate::restart::state::State;
use crate::restart::{Answered, Ledger, Store, ledger_name, memory_name};

/// The part of a domain that is there for the process that follows.
#[derive(Debug)]
pub(crate) struct Book {
    uid: u32,
    store: Option<Arc<dyn Store>>,
    turns: Arc<Turns>,
    files: Mutex<BTreeMap<u64, Arc<OpenFile>>>,
}

impl Book {
    /// Whether a process may follow this one.
    pub(crate) fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// Keeps both files, if there is a store.
    pub(super) fn keep(&self, memory: &OwnedFd, ledger: &Ledger) {
        if let Some(store) = &self.store {
            store.keep(&memory_name(self.uid), memory.as_fd());
            store.keep(&ledger_name(self.uid), ledger.file());
        }
    }

    pub(crate) fn new(
        uid: u32,
        memory: &OwnedFd,
        ledger: &Ledger,
        store: Option<Arc<dyn Store>>,
    ) -> Self {
        let book = Self { uid, store, turns: Arc::default(), files: Mutex::default() };
        book.keep(memory, ledger);
        book
    }

    /// The open files.
    pub(super) fn files(&self) -> Vec<Arc<OpenFile>> {
        lock(&self.files).values().cloned().collect()
    }
}

impl Drop for Book {
    fn drop(&mut self) {
        if let Some(store) = &self.store {
            store.forget(&memory_name(self.uid));
            store.forget(&ledger_name(self.uid));
        }
    }
}

impl Domain {
    /// Where words are kept for the process that follows; `None` where there is no store.
    pub(crate) fn cells(&self) -> Option<&Arc<Region>> {
        self.book.store.as_ref().map(|_| self.ledger.cells())
    }

    /// A word of the front's own, kept with the domain; there are sixteen.
    ///
    /// # Panics
    /// If there is none of this number.
    #[must_use]
    pub fn front_word(&self, i: usize) -> &std::sync::atomic::AtomicU64 {
        self.ledger.front_word(i)
    }

    /// A file was opened.
    pub(crate) fn enter(&self, file: &Arc<OpenFile>) {
        if let Some(kept) = &file.kept {
            lock(&self.book.files).insert(kept.ticket.handle, file.clone());
        }
    }

    /// It is being closed.
    pub(crate) fn leave(&self, handle: u64) {
        let left = lock(&self.book.files).remove(&handle);
        drop(left);
    }

    /// Begins a change, which is over when this is dropped; `None` where nothing is written down.
    pub(crate) fn change(&self) -> Option<Change> {
        self.book.store.as_ref().map(|_| Turns::begin(&self.book.turns))
    }

    /// Writes down what there is now.
    pub(crate) fn commit(&self) {
        if self.book.store.is_none() {
            return;
        }
        let _alone = self.book.turns.alone();
        // Given up before others go on, who count how many hold a port.
        let (state, _held) = State::of(self);
        match postcard::to_stdvec(&state) {
            Ok(bytes) => self.ledger.write(&bytes),
            Err(error) => debug_assert!(false, "{error}: a state has nothing that cannot be said"),
        }
    }
}

impl Open {
    /// Answers a request as it was answered before a restart, if it is the same.
    pub(crate) fn repeat(&self, request: &mut Request) -> bool {
        let Some(kept) = &self.kept else { return false };
        let answered = lock(&kept.answered);
        let Some(same) = answered.as_ref().filter(|one| Some(one.call) == request.call) else {
            return false;
        };
        request.body.clone_from(&same.body);
        request.options.grant(&same.options);
        true
    }

    /// Notes what a request is going to be answered.
    pub(crate) fn remember(&self, request: &Request) {
        if let (Some(kept), Some(call)) = (&self.kept, request.call) {
            let (body, options) = (request.body.clone(), request.options.granted());
            *lock(&kept.answered) = Some(Answered { call, body, options });
        }
    }
}

/// Any number of changes at the same time, or one who writes down.
#[derive(Debug, Default)]
struct Turns {
    now: Mutex<Now>,
    next: Condvar,
}

#[derive(Debug, Default)]
struct Now {
    changes: usize,
    /// Those who want to write down: they go first, or a busy user would never be written.
    writers: usize,
    writing: bool,
}

/// A change under way.
#[derive(Debug)]
pub(crate) struct Change(Arc<Turns>);

/// Nobody changes anything.
struct Alone<'t>(&'t Turns);

impl Turns {
    fn begin(turns: &Arc<Self>) -> Change {
        let busy = |now: &mut Now| now.writers > 0;
        let now = turns.next.wait_while(lock(&turns.now), busy);
        now.unwrap_or_else(PoisonError::into_inner).changes += 1;
        Change(turns.clone())
    }

    fn alone(&self) -> Alone<'_> {
        let mut now = lock(&self.now);
        now.writers += 1;
        let busy = |now: &mut Now| now.changes > 0 || now.writing;
        let now = self.next.wait_while(now, busy);
        now.unwrap_or_else(PoisonError::into_inner).writing = true;
        Alone(self)
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        lock(&self.0.now).changes -= 1;
        self.0.next.notify_all();
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        let mut now = lock(&self.0.now);
        (now.writers, now.writing) = (now.writers - 1, false);
        drop(now);
        self.0.next.notify_all();
    }
}
