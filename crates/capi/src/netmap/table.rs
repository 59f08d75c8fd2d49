//! The ports that this process syncs itself, indexed by descriptor.
//!
//! ```text
//!   PAGE --> page, zeroed by the kernel in a forked child --> table --> slots, never freed
//! ```
//!
//! A forked child has the same rings and sockets as its parent, but must not sync them, because the
//! shared memory of the queues names the parent as the process that syncs. So the child starts
//! without a table, and creates one with its first port. It never touches the locks in the parent's
//! table, which another thread may have held during the fork.

use std::ffi::c_int;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::SyncedDirection;
use super::device::{proc_path, seconds};
use super::rings::{PortSockets, SyncedPort, SyncedRings};

/// The library can sync only ports whose descriptors are below this number.
const MAX_DESCRIPTORS: usize = 1024;
/// How often a sync tries again to lock rings that another thread is syncing.
const MAX_LOCK_RETRIES: u32 = 10_000;
/// Number of bytes mapped for the pointer to the table: one page, or part of a page if pages are
/// larger.
const PAGE_BYTES: usize = 4096;

type Table = [OnceLock<Box<PortSlot>>];

/// A thin pointer to the table.
type TablePointer = AtomicPtr<Box<Table>>;

static PAGE: AtomicPtr<TablePointer> = AtomicPtr::new(ptr::null_mut());

/// Returns the slot of a descriptor; `None` if [`make_slot`] has not created it.
#[inline]
pub(super) fn slot(fd: c_int) -> Option<&'static PortSlot> {
    let slot = table()?.get(usize::try_from(fd).ok()?)?;
    slot.get().map(Box::as_ref)
}

/// Returns the slot of a descriptor, and creates it if necessary. Returns `None` if the descriptor
/// is negative, or [`MAX_DESCRIPTORS`] or higher, or if the kernel cannot map a page that it zeroes
/// in children.
pub(super) fn make_slot(fd: c_int) -> Option<&'static PortSlot> {
    let table = table().or_else(make_table)?;
    let slot = table.get(usize::try_from(fd).ok()?)?;
    Some(slot.get_or_init(Box::default))
}

/// Returns all slots, each with its descriptor.
pub(super) fn slots() -> impl Iterator<Item = (c_int, &'static PortSlot)> {
    let slots = table().unwrap_or(&[]).iter().enumerate();
    slots.filter_map(|(fd, slot)| Some((fd as c_int, slot.get()?.as_ref())))
}

#[inline]
fn table() -> Option<&'static Table> {
    // Acquire: this is paired with the exchange in `make_table`.
    let table = page()?.load(Ordering::Acquire);
    // SAFETY: `table` is null, or points to a table that `make_table` has leaked.
    unsafe { table.as_ref() }.map(Box::as_ref)
}

#[inline]
fn page() -> Option<&'static TablePointer> {
    // Acquire: this is paired with the exchange in `make_page`.
    let page = PAGE.load(Ordering::Acquire);
    // SAFETY:
    // - `page` is null, or the start of a page that `make_page` has mapped. This page is never
    //   unmapped.
    // - Any bits are valid as an atomic pointer. The kernel zeroes the page before a child runs.
    unsafe { page.as_ref() }
}

/// Creates the table of this process. If another thread creates it at the same time, returns the
/// table of that thread.
fn make_table() -> Option<&'static Table> {
    let page = page().or_else(make_page)?;
    let slots = std::iter::repeat_with(OnceLock::new).take(MAX_DESCRIPTORS);
    let made = Box::into_raw(Box::new(slots.collect::<Box<Table>>()));
    let set = page.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
    if set.is_err() {
        // SAFETY: `made` came from `Box::into_raw`, and no other thread has seen it.
        drop(unsafe { Box::from_raw(made) });
    }
    table()
}

/// Maps the page for the pointer to the table. If another thread does so at the same time, returns
/// the page of that thread.
fn make_page() -> Option<&'static TablePointer> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses a free address, so the new mapping replaces no other.
    let page = unsafe { mmap_anonymous(ptr::null_mut(), PAGE_BYTES, access, MapFlags::PRIVATE) };
    let page = page.ok()?;
    // SAFETY: the range is the whole new mapping, which nothing else uses.
    let zeroed = unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) }.is_ok();
    let set = zeroed
        && PAGE
            .compare_exchange(ptr::null_mut(), page.cast(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
    if !set {
        // SAFETY: no other thread has seen the mapping.
        let _ = unsafe { munmap(page, PAGE_BYTES) };
    }
    self::page()
}

/// The rings of one direction. The two directions are in separate cache lines, because two threads
/// may use them.
#[derive(Debug, Default)]
#[repr(align(128))]
struct RingsLock(spin::Mutex<Option<SyncedRings>>);

/// The port of a descriptor, if it has one. Slots are never freed. So a sync that runs at the same
/// time as a close finds an empty slot.
#[derive(Debug, Default)]
pub(super) struct PortSlot {
    tx: RingsLock,
    rx: RingsLock,
    open: Mutex<Option<OpenPort>>,
    /// The second (since 1970) in which a sync was last left to the device, or in which the port
    /// was opened.
    second: AtomicU32,
    /// Whether the device's last sync has failed. If so, it does every sync.
    failed: AtomicBool,
}

/// The state of a port that its syncs do not use.
#[derive(Debug)]
struct OpenPort {
    /// The path of the port's file, according to the kernel. If the descriptor has another path
    /// now, its number belongs to another file.
    file: PathBuf,
    sockets: PortSockets,
}

impl PortSlot {
    #[inline]
    pub(super) fn rings(&self, direction: SyncedDirection) -> &spin::Mutex<Option<SyncedRings>> {
        match direction {
            SyncedDirection::Tx => &self.tx.0,
            SyncedDirection::Rx => &self.rx.0,
        }
    }

    fn lock_open(&self) -> MutexGuard<'_, Option<OpenPort>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a port into this slot, which must be empty.
    pub(super) fn put(&self, port: SyncedPort) {
        let SyncedPort { file, sockets, tx, rx } = port;
        let mut open = self.lock_open();
        self.second.store(seconds(), Ordering::Relaxed);
        self.failed.store(false, Ordering::Relaxed);
        self.replace([Some(tx), Some(rx)]);
        *open = Some(OpenPort { file, sockets });
    }

    /// Removes the port: unmaps its rings and closes its sockets. When the descriptor is closed,
    /// too, the rings can be lent again.
    pub(super) fn take(&self) {
        let mut open = self.lock_open();
        self.replace([None, None]);
        *open = None;
    }

    /// Locks the rings of one direction. If a sync is in progress, waits for its end; `None` if the
    /// sync does not end soon, because the caller is a signal handler that has interrupted it.
    #[inline]
    pub(super) fn lock_briefly(
        &self,
        direction: SyncedDirection,
    ) -> Option<spin::MutexGuard<'_, Option<SyncedRings>>> {
        let first = self.rings(direction).try_lock();
        first.or_else(|| self.retry_lock(direction))
    }

    #[cold]
    fn retry_lock(
        &self,
        direction: SyncedDirection,
    ) -> Option<spin::MutexGuard<'_, Option<SyncedRings>>> {
        (0..MAX_LOCK_RETRIES).find_map(|_| {
            std::thread::yield_now();
            self.rings(direction).try_lock()
        })
    }

    /// Locks the rings of one direction. If a sync is in progress, waits until it has ended.
    fn lock(&self, direction: SyncedDirection) -> spin::MutexGuard<'_, Option<SyncedRings>> {
        loop {
            match self.rings(direction).try_lock() {
                Some(rings) => return rings,
                None => std::thread::yield_now(),
            }
        }
    }

    fn replace(&self, rings: [Option<SyncedRings>; 2]) {
        for (direction, new) in [SyncedDirection::Tx, SyncedDirection::Rx].into_iter().zip(rings) {
            // There are two statements, so that the lock is released before the old rings are
            // unmapped.
            let old = std::mem::replace(&mut *self.lock(direction), new);
            drop(old);
        }
    }

    /// Returns whether `fd` still refers to the file that was opened, and all rings of the port are
    /// still lent to this program. Also returns true for an empty slot.
    pub(super) fn is_current(&self, fd: c_int) -> bool {
        let open = self.lock_open();
        let Some(port) = &*open else { return true };
        let lent = |direction| self.lock(direction).as_ref().is_none_or(SyncedRings::are_lent);
        fs::read_link(proc_path(fd)).is_ok_and(|file| file == port.file)
            && lent(SyncedDirection::Tx)
            && lent(SyncedDirection::Rx)
    }

    /// Returns whether the device must do this sync, instead of the library. Only the device knows
    /// whether the interface or the daemon has ended, so it does one sync per second. After it has
    /// returned an error, it does every sync until one succeeds.
    #[inline]
    pub(super) fn asks_device(&self) -> bool {
        let now = seconds();
        if self.failed.load(Ordering::Relaxed) {
            return true;
        }
        let due = self.second.load(Ordering::Relaxed) != now;
        if due {
            self.second.store(now, Ordering::Relaxed);
        }
        due
    }

    pub(super) fn record_device(&self, failed: bool) {
        self.failed.store(failed, Ordering::Relaxed);
    }

    /// Returns the result of [`super::is_active`].
    pub(super) fn active_queues(&self) -> c_int {
        self.lock_open().as_ref().map_or(0, |port| match port.sockets.len() {
            0 => -1,
            queues => queues as c_int,
        })
    }

    pub(super) fn socket(&self, queue: usize) -> Option<c_int> {
        Some(self.lock_open().as_ref()?.sockets.get(queue)?.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_found_again_and_only_for_numbers_within_the_table() {
        let made = make_slot(700).expect("a kernel that zeroes pages in children");
        assert!(ptr::eq(made, slot(700).unwrap()));
        assert!(slots().any(|(fd, _)| fd == 700));
        assert!(slot(701).is_none());
        for fd in [-1, 1024, c_int::MAX, c_int::MIN] {
            assert!(make_slot(fd).is_none() && slot(fd).is_none(), "{fd}");
        }
    }

    #[test]
    fn the_device_is_asked_in_each_second_and_while_it_fails() {
        let slot = PortSlot::default();
        slot.second.store(seconds().wrapping_sub(1), Ordering::Relaxed);
        assert!(slot.asks_device());
        // The clock's second may change between two of these calls, but not before each of them. So
        // at least one call returns false.
        assert!((0..3).any(|_| !slot.asks_device()));
        slot.record_device(true);
        assert!(slot.asks_device() && slot.asks_device());
        slot.record_device(false);
        assert!((0..3).any(|_| !slot.asks_device()));
    }

    #[test]
    fn a_sync_waits_for_the_sync_of_another_thread() {
        let slot = PortSlot::default();
        let held = slot.rings(SyncedDirection::Tx).lock();
        let (asked, is_asked) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                asked.send(()).unwrap();
                // The 10000 retries of one call may end before `held` is dropped, so this loop
                // calls it again.
                loop {
                    if slot.lock_briefly(SyncedDirection::Tx).is_some() {
                        return;
                    }
                }
            });
            is_asked.recv().unwrap();
            drop(held);
            waits.join().unwrap();
        });
    }

    #[test]
    fn a_sync_that_a_signal_handler_has_interrupted_is_not_waited_for_for_ever() {
        let slot = PortSlot::default();
        let _interrupted = slot.rings(SyncedDirection::Tx).lock();
        assert!(slot.lock_briefly(SyncedDirection::Tx).is_none());
    }

    #[test]
    fn threads_that_make_a_slot_at_once_get_the_same() {
        let make = || make_slot(800).map(|slot| ptr::from_ref(slot) as usize);
        let made = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(made[0].is_some() && made.iter().all(|one| *one == made[0]));
    }
}
