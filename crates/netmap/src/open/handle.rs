//! The entry point: [`Netmap`], which holds what all domains share, and one open file of a client.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use slipring_abi::NR_TIMESTAMP;
use slipring_ring::PersistentWords;

use crate::memory::caller::CallerMemory;
use crate::open::commit_lock::ChangeGuard;
use crate::open::commit_log::PersistentOpen;
use crate::open::csb::Csb;
use crate::open::domain::Domain;
use crate::open::kloop::Kloop;
use crate::open::poll_credit::PollCredit;
use crate::open::provider::Provider;
use crate::port::binding::Binding;
use crate::port::delegation::PendingSockets;
use crate::port::kicks::KickDispatcher;
use crate::port::persist::SavedPortIndex;
use crate::port::waker::{Notify, Ticker, Waker};
use crate::types::lock::lock;
use crate::types::opener::Opener;
use crate::types::outcome::SyncStatus;
use crate::types::shape::TxRx;
use crate::types::state::AnsweredCall;
use crate::types::state::OpenState;

/// netmap's state that all clients share: one value per daemon.
#[derive(Debug)]
pub struct Netmap {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) ticker: Arc<Ticker>,
    pub(crate) kick_dispatcher: Mutex<Option<Arc<KickDispatcher>>>,
    pub(crate) pending_sockets: PendingSockets,
}

/// One open file of a client. Forks and receivers of the descriptor share it.
#[derive(Debug)]
pub struct OpenHandle {
    file: Arc<OpenFile>,
    /// Must be the last field: when it is dropped, the other fields have already released all that
    /// the file held.
    end: Option<OpenFileEnd>,
}

/// The state of an open file. If there is a store for a restart, the domain also refers to this
/// value, to save it.
#[derive(Debug)]
#[doc(hidden)]
#[allow(unreachable_pub)]
pub struct OpenFile {
    pub(crate) domain: Arc<Domain>,
    pub(crate) opener: Opener,
    pub(crate) waker: Arc<Waker>,
    /// Locked while a bind, or the request `CSB_ENABLE`, is in progress.
    pub(crate) binding: Mutex<()>,
    pub(crate) bound: OnceLock<Binding>,
    /// The control blocks of the rings; while they exist, only a sync loop syncs the rings.
    pub(crate) csb: OnceLock<Csb>,
    pub(crate) kloop: Kloop,
    pub(crate) poll_credit: PollCredit,
    pub(crate) persisted: Option<PersistedOpen>,
}

/// Identifies an open file by two numbers of the front (the code that passes programs' calls to
/// this crate). They are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenId {
    /// The number by which the front knows the open file.
    pub handle: u64,
    /// The number of the call that opened the file.
    pub call: u64,
}

/// The part of an open file that is saved for the successor process.
#[derive(Debug)]
pub(crate) struct PersistedOpen {
    pub(crate) open_id: OpenId,
    /// Word 0: the handle that wakes pollers of the file, once a program has polled.
    pub(crate) words: PersistentWords,
    pub(crate) last_answer: Mutex<Option<AnsweredCall>>,
}

impl std::ops::Deref for OpenHandle {
    type Target = OpenFile;

    #[inline(always)]
    fn deref(&self) -> &OpenFile {
        &self.file
    }
}

/// Commits the domain's state when it is dropped, which is after the file has released everything.
#[derive(Debug)]
struct OpenFileEnd {
    domain: Arc<Domain>,
    change: Option<ChangeGuard>,
}

impl PersistentOpen for OpenFile {
    fn state(&self, ports: &mut dyn SavedPortIndex) -> Option<OpenState> {
        let kept = self.persisted.as_ref()?;
        // Control blocks are in pages of the program, which a successor process cannot map.
        let bound = self.bound.get().filter(|_| self.csb.get().is_none());
        let bound = bound.filter(|binding| !binding.port.memory().is_external());
        Some(OpenState {
            handle: kept.open_id.handle,
            call: kept.open_id.call,
            netns: self.opener.netns,
            gids: self.opener.gids.clone(),
            words: kept.words.offset(),
            answered: lock(&kept.last_answer).clone(),
            bound: bound.map(|binding| binding.state(ports)),
        })
    }
}

impl Drop for OpenHandle {
    fn drop(&mut self) {
        if let (Some(end), Some(kept)) = (&mut self.end, &self.file.persisted) {
            end.change = end.domain.begin_change();
            end.domain.commit_log.unregister_file(kept.open_id.handle);
        }
    }
}

impl Drop for OpenFileEnd {
    fn drop(&mut self) {
        drop(self.change.take());
        self.domain.commit();
    }
}

impl Netmap {
    /// Creates the state for one daemon; NICs and other external ports come from `provider`.
    #[must_use]
    pub fn new(provider: Box<dyn Provider>) -> Self {
        Self::with_provider(provider.into())
    }

    fn with_provider(provider: Arc<dyn Provider>) -> Self {
        let (kick_dispatcher, pending_sockets) = (Mutex::default(), PendingSockets::default());
        Self { provider, ticker: Arc::default(), kick_dispatcher, pending_sockets }
    }

    /// Creates another [`Netmap`] with the same provider, and with no other state in common.
    #[must_use]
    pub fn sibling(&self) -> Self {
        Self::with_provider(self.provider.clone())
    }

    /// Opens a new file in `domain`; wake-ups go to `notify`. The file ends with this process.
    #[must_use]
    pub fn open(&self, domain: Arc<Domain>, opener: Opener, notify: Arc<dyn Notify>) -> OpenHandle {
        self.new_file(domain, opener, notify, None)
    }

    /// Like [`Self::open`], but the file continues in a successor process if the domain has a
    /// store.
    ///
    /// # Errors
    /// [`Errno::NFILE`] if the ledger has no space to save the file.
    pub fn open_persistent(
        &self,
        domain: Arc<Domain>,
        opener: Opener,
        notify: Arc<dyn Notify>,
        ticket: OpenId,
    ) -> Result<OpenHandle, Errno> {
        let Some(cells) = domain.persistent_words() else {
            return Ok(self.open(domain, opener, notify));
        };
        let words = PersistentWords::new(cells).map_err(|_| Errno::NFILE)?;
        let kept = PersistedOpen { open_id: ticket, words, last_answer: Mutex::default() };
        let open = self.new_file(domain, opener, notify, Some(kept));
        open.domain.commit();
        Ok(open)
    }

    /// Creates an open file and registers it with its domain if it is persistent.
    pub(crate) fn new_file(
        &self,
        domain: Arc<Domain>,
        opener: Opener,
        notify: Arc<dyn Notify>,
        kept: Option<PersistedOpen>,
    ) -> OpenHandle {
        let end = kept.as_ref().map(|_| OpenFileEnd { domain: domain.clone(), change: None });
        let file = Arc::new(OpenFile {
            domain,
            opener,
            waker: Waker::new(notify, self.ticker.clone()),
            binding: Mutex::default(),
            bound: OnceLock::new(),
            csb: OnceLock::new(),
            kloop: Kloop::default(),
            poll_credit: PollCredit::default(),
            persisted: kept,
        });
        if let Some(kept) = &file.persisted {
            file.domain.commit_log.register_file(kept.open_id.handle, file.clone());
        }
        OpenHandle { file, end }
    }

    /// Sends delayed notifications until [`Self::stop`] is called. A front runs this in a separate
    /// thread.
    pub fn run_ticker(&self) {
        self.ticker.run();
    }

    /// Makes [`Self::run_ticker`] return.
    pub fn stop(&self) {
        self.ticker.stop();
    }
}

impl OpenHandle {
    /// Returns the numbers that identify the file in a successor process; `None` if the file ends
    /// with this process.
    #[must_use]
    pub fn open_id(&self) -> Option<OpenId> {
        self.persisted.as_ref().map(|kept| kept.open_id)
    }

    /// Wakes the programs that were polling the file when the previous process ended, whatever they
    /// wait for.
    pub fn wake_earlier_pollers(&self) {
        let handle = self.persisted.as_ref().map_or(0, |kept| kept.words.word(0, 0).load(Relaxed));
        if handle != 0 {
            self.waker.notify_handle(handle);
        }
    }

    /// Returns the user ID of the file's domain.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.domain.uid()
    }

    /// Returns the file's domain, which has its user's memory and port names.
    #[must_use]
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Returns the file that the user's programs map, and its size in bytes.
    ///
    /// # Errors
    /// The kernel's error, if this process has no descriptors left.
    pub fn memory(&self) -> Result<(OwnedFd, u64), Errno> {
        let file = rustix::io::fcntl_dupfd_cloexec(self.domain.file(), 0)?;
        let bytes = rustix::fs::fstat(&file)?.st_size as u64;
        Ok((file, bytes))
    }

    /// Returns whether a tx sync or poll first has to fetch frames from the program's memory with
    /// [`Self::fetch_indirect`]. Only a thread that may wait for a program should fetch them.
    #[must_use]
    pub fn has_indirect(&self) -> bool {
        let Some(binding) = self.bound.get() else { return false };
        binding.rings[TxRx::Tx as usize].clone().any(|i| binding.port.has_indirect(i))
    }

    /// Fetches frames that the program has queued only by their address (`NS_INDIRECT`).
    ///
    /// # Errors
    /// The error of the port's `fetch_indirect`.
    pub fn fetch_indirect(&self, caller: &mut dyn CallerMemory) -> Result<(), Errno> {
        let Some(binding) = self.bound.get() else { return Ok(()) };
        let rings = binding.rings[TxRx::Tx as usize].clone();
        let mut indirect = rings.filter(|&i| binding.port.has_indirect(i));
        indirect.try_for_each(|i| binding.port.fetch_indirect(i, caller))
    }

    /// Handles `NIOCTXSYNC` and `NIOCRXSYNC`: syncs all bound rings of a direction.
    pub(crate) fn sync(&self, dir: TxRx) -> Result<i32, Errno> {
        let binding = self.bound.get().ok_or(Errno::NXIO)?;
        if self.csb.get().is_some() {
            return Err(Errno::BUSY);
        }
        if dir == TxRx::Tx && binding.port.is_monitor() {
            return Err(Errno::IO);
        }
        for i in binding.rings[dir as usize].clone() {
            // Invalid indices reinitialise the ring, which is no error here.
            if sync_after_others(|| binding.sync(dir, i)) == SyncStatus::Gone {
                return Err(Errno::IO);
            }
        }
        if dir == TxRx::Rx {
            self.write_timestamp(binding);
        }
        Ok(0)
    }

    /// Writes the current time to the bound rx rings: to all of them, or, with the parameter
    /// `no_timestamp`, only to those with the flag `NR_TIMESTAMP`.
    pub(crate) fn write_timestamp(&self, binding: &Binding) {
        let always = !self.domain.params().no_timestamp;
        let mut now = None;
        for i in binding.rings[TxRx::Rx as usize].clone() {
            let Some(ring) = binding.port.ring(TxRx::Rx, i) else { continue };
            if always || ring.flags() & NR_TIMESTAMP != 0 {
                let (sec, usec) = *now.get_or_insert_with(wall_clock);
                ring.set_timestamp(sec, usec);
            }
        }
    }
}

fn wall_clock() -> (i64, i64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_secs() as i64, now.subsec_micros().into())
}

/// How often a busy ring is tried again.
const MAX_SYNC_RETRIES: u32 = 1000;

/// Syncs a ring after the threads that are syncing it: they may have begun before the program
/// released its last slots. Returns `Busy` if the ring stays busy. Then a program was stopped in
/// the middle of a sync of its own.
fn sync_after_others(mut sync: impl FnMut() -> SyncStatus) -> SyncStatus {
    let mut synced = sync();
    for _ in 0..MAX_SYNC_RETRIES {
        if synced != SyncStatus::Busy {
            break;
        }
        std::thread::yield_now();
        synced = sync();
    }
    synced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_another_thread_is_syncing_is_synced_after_it() {
        let mut busy = 3;
        let synced = sync_after_others(|| {
            busy -= 1;
            if busy > 0 { SyncStatus::Busy } else { SyncStatus::Done }
        });
        assert_eq!((synced, busy), (SyncStatus::Done, 0));
        assert_eq!(sync_after_others(|| SyncStatus::Busy), SyncStatus::Busy);
    }
}
