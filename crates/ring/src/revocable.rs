//! Memory that another program has lent us and may revoke.
//!
//! The file is not ours: any process that has it open may truncate it at any moment. An access
//! beyond its end then raises SIGBUS, which would end this process and every client with it. So the
//! first such fault replaces the whole mapping by zero pages ([`RevocableMapping::is_revoked`] is
//! true from then on), and the faulting access is retried. Only the lender loses what it shared
//! with us.
//!
//! ```text
//!   access --> fault --> SIGBUS handler --> is it in the list? --> mapping replaced, access again
//!                                                `- no ---> what handled SIGBUS before
//! ```
//!
//! The handler is process-wide. It is installed with the first mapping and runs in the faulting
//! thread:
//! it takes no lock, allocates nothing, and makes at most two system calls.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// A mapped part of another program's file.
#[derive(Debug)]
pub struct RevocableMapping {
    base: NonNull<u8>,
    len: usize,
    registration: &'static WatchedMapping,
}

// SAFETY:
// - The mapping lives as long as the value, at one address, and is only accessed by atomics, or
//   by a region that upholds what it promises for its own memory.
unsafe impl Send for RevocableMapping {}
// SAFETY: as for Send.
unsafe impl Sync for RevocableMapping {}

impl RevocableMapping {
    /// Maps `len` bytes of `file` from byte `at` on, both multiples of its page size.
    ///
    /// # Errors
    /// The error of `mmap`.
    pub fn map(file: BorrowedFd<'_>, at: u64, len: usize) -> io::Result<Self> {
        install_sigbus_handler();
        // SAFETY:
        // - A null hint lets the kernel choose, so no other mapping is replaced.
        // - The file may end before the mapping does: the handler knows the mapping before any
        //   access.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                at,
            )
        };
        let base = NonNull::new(base?.cast::<u8>()).ok_or(Errno::INVAL)?;
        Ok(Self { base, len, registration: register(base.as_ptr() as usize, len) })
    }

    /// Returns the address of the first byte, valid while `self` lives.
    #[must_use]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: no mapping is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the lender has revoked it: then no other process sees our writes.
    #[must_use]
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.registration.revoked.load(Ordering::Acquire)
    }

    /// The 32-bit word at byte `at`.
    ///
    /// # Panics
    /// If it is out of bounds or not aligned.
    #[must_use]
    pub fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at.checked_add(4).is_some_and(|end| end <= self.len));
        // SAFETY:
        // - In bounds: checked above.
        let word = unsafe { self.base.add(at) };
        // SAFETY:
        // - Aligned: checked above, and a mapping starts at a page. Alive: `self` is borrowed.
        // - Shared: it is an atomic.
        unsafe { word.cast::<AtomicU32>().as_ref() }
    }
}

impl Drop for RevocableMapping {
    fn drop(&mut self) {
        // First, so that a fault at this address never means a later mapping.
        self.registration.unregister();
        // SAFETY:
        // - `base` and `len` are what `map` was given; this is the only unmap.
        // - All borrows of the value have ended.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping");
    }
}

/// One mapping that the handler knows. Entries are never freed, only reused: a handler may read any
/// of
/// them at any time.
#[derive(Debug, Default)]
struct WatchedMapping {
    in_use: AtomicBool,
    /// Odd while `start` and `len` change: they are valid only as a pair.
    version: AtomicUsize,
    /// 0 if the entry is free.
    start: AtomicUsize,
    len: AtomicUsize,
    revoked: AtomicBool,
    /// Set once, before others can see the entry.
    next: AtomicPtr<WatchedMapping>,
}

static FIRST_MAPPING: AtomicPtr<WatchedMapping> = AtomicPtr::new(std::ptr::null_mut());

impl WatchedMapping {
    fn load_next(link: &AtomicPtr<Self>) -> Option<&'static Self> {
        // SAFETY:
        // - Links are null or lead to entries that were leaked, and were whole before the link was
        //   stored (acquire, paired with the release in `watch`).
        unsafe { link.load(Ordering::Acquire).as_ref() }
    }

    fn all() -> impl Iterator<Item = &'static Self> {
        std::iter::successors(Self::load_next(&FIRST_MAPPING), |one| Self::load_next(&one.next))
    }

    /// Only the thread that has claimed the entry calls this.
    fn set(&self, start: usize, len: usize) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // Pairs with the fence in `range_containing`: a reader of a new word also sees the odd
        // version.
        fence(Ordering::Release);
        self.start.store(start, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        // Release: pairs with the first load in `range_containing`.
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    fn unregister(&self) {
        self.set(0, 0);
        self.in_use.store(false, Ordering::Release);
    }

    /// Returns start and length if `addr` is within. An entry that is changing cannot be the one
    /// that
    /// faulted: its mapping stays until the faulting thread goes on.
    fn range_containing(&self, addr: usize) -> Option<(usize, usize)> {
        let version = self.version.load(Ordering::Acquire);
        let range = (self.start.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let whole = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        let within = range.0 != 0 && addr.checked_sub(range.0).is_some_and(|at| at < range.1);
        (whole && within).then_some(range)
    }
}

/// Replaces the mapping that contains the faulting address by zero pages; false if it is not ours.
fn replace_mapping(addr: usize) -> bool {
    let found =
        WatchedMapping::all().find_map(|one| one.range_containing(addr).map(|range| (one, range)));
    let Some((entry, (start, len))) = found else { return false };
    entry.revoked.store(true, Ordering::Release);
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY:
    // - The range is exactly that of a mapping of ours, whose owner is alive: the thread that
    //   faulted borrows it. Its pages may change under atomics and raw copies at any time.
    unsafe { mmap_anonymous(start as *mut _, len, access, flags) }.is_ok()
}

/// Makes a mapping known to the handler.
fn register(start: usize, len: usize) -> &'static WatchedMapping {
    let free = |one: &&WatchedMapping| !one.in_use.swap(true, Ordering::AcqRel);
    let entry = WatchedMapping::all().find(free).unwrap_or_else(|| {
        let entry: &'static mut WatchedMapping = Box::leak(Box::default());
        *entry.in_use.get_mut() = true;
        let entry: &'static WatchedMapping = entry;
        let link = |first| {
            entry.next.store(first, Ordering::Relaxed);
            Some(std::ptr::from_ref(entry).cast_mut())
        };
        // Never refused: `link` always returns an entry.
        let _ = FIRST_MAPPING.fetch_update(Ordering::AcqRel, Ordering::Acquire, link);
        entry
    });
    entry.revoked.store(false, Ordering::Relaxed);
    entry.set(start, len);
    entry
}

/// The previous SIGBUS action.
static PREVIOUS_SIGBUS_ACTION: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler, once per process.
fn install_sigbus_handler() {
    PREVIOUS_SIGBUS_ACTION.get_or_init(|| {
        let handler: extern "C" fn(_, _, _) = on_bus_error;
        // SAFETY: all zeros are a `sigaction` without flags, mask and handler.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        let mut before = action;
        // SAFETY:
        // - Both are whole `sigaction`s, alive during the call.
        // - The handler only does what is allowed in a signal handler; see its comment.
        let done = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) };
        debug_assert_eq!(done, 0, "SIGBUS can be handled");
        before
    });
}

extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel gives a whole one, alive during the call.
    let info = unsafe { &*info };
    // A SIGBUS sent by `kill` has no address.
    let is_fault = info.si_code > 0;
    // SAFETY: for a fault the kernel sets the address.
    let addr = is_fault.then(|| unsafe { info.si_addr() } as usize);
    if !addr.is_some_and(replace_mapping) {
        call_previous_handler(is_fault);
    }
}

/// Restores the previous action. A fault then repeats by itself; a sent signal is raised again.
fn call_previous_handler(is_fault: bool) {
    let Some(before) = PREVIOUS_SIGBUS_ACTION.get() else { return };
    // SAFETY:
    // - A whole `sigaction`, as the kernel gave it to us; both calls may be made in a handler.
    unsafe { libc::sigaction(libc::SIGBUS, std::ptr::from_ref(before), std::ptr::null_mut()) };
    if !is_fault {
        // SAFETY: `raise` has no preconditions; the signal is blocked until the handler returns.
        unsafe { libc::raise(libc::SIGBUS) };
    }
}
