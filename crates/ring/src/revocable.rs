//! Memory that another program, the lender, shares with this process and may revoke.
//!
//! The memory is a file of the lender: any process that has the file open may truncate it at any
//! moment. An access beyond its end then raises SIGBUS, which would end this process and every
//! client with it. So the first such fault replaces the whole mapping by zero pages
//! ([`RevocableMapping::is_revoked`] is true from then on), and the faulting access is retried.
//! Only the lender loses data: what it shared with this process.
//!
//! ```text
//!   access --> fault --> SIGBUS handler --> in a watched mapping? --> replaces it, access repeated
//!                                                `- no ---> previous handler of SIGBUS
//! ```
//!
//! The handler is process-wide and installed with the first mapping. It runs in the faulting
//! thread: it takes no lock, allocates nothing, and makes only a few system calls. A fault that
//! is not in a watched mapping goes to the handler that the program had set before.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// A mapping of a part of another program's file.
#[derive(Debug)]
pub struct RevocableMapping {
    base: NonNull<u8>,
    len: usize,
    registration: &'static WatchedMapping,
}

// SAFETY:
// - The mapping lives as long as the value, at one address. It is only accessed by atomics, or by a
//   region, under the same rules as other memory of regions.
unsafe impl Send for RevocableMapping {}
// SAFETY: as for Send.
unsafe impl Sync for RevocableMapping {}

impl RevocableMapping {
    /// Maps `len` bytes of `file` from byte `at` on; both are multiples of the file's page size.
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

    /// Returns whether an access has shown that the lender revoked the memory. If so, no other
    /// process sees writes to it.
    #[must_use]
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.registration.revoked.load(Ordering::Acquire)
    }

    /// The 32-bit word at byte `at` of the mapping.
    ///
    /// # Panics
    /// If the word is out of bounds or not aligned.
    #[must_use]
    pub fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at.checked_add(4).is_some_and(|end| end <= self.len));
        // SAFETY:
        // - In bounds: checked above.
        let word = unsafe { self.base.add(at) };
        // SAFETY:
        // - Aligned: checked above, and a mapping starts at a page. Alive: `self` is borrowed.
        // - Shared: the word is an atomic.
        unsafe { word.cast::<AtomicU32>().as_ref() }
    }
}

impl Drop for RevocableMapping {
    fn drop(&mut self) {
        // Unregistered before it is unmapped, so that the handler never mistakes a later mapping at
        // this address for this one.
        self.registration.unregister();
        // SAFETY:
        // - `base` and `len` describe exactly the mapping that `map` created; it is unmapped only
        //   here.
        // - All borrows of the value have ended.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping");
    }
}

/// A list entry with one mapping that the handler watches. Entries are never freed, only reused,
/// because a handler may read any entry at any time.
#[derive(Debug, Default)]
struct WatchedMapping {
    in_use: AtomicBool,
    /// Odd while `start` and `len` change: they are valid only as a pair.
    version: AtomicUsize,
    /// Address of the mapping; 0 if the entry has none.
    start: AtomicUsize,
    len: AtomicUsize,
    revoked: AtomicBool,
    /// The next entry of the list. Set before other threads can see this entry, and never changed.
    next: AtomicPtr<WatchedMapping>,
}

static FIRST_MAPPING: AtomicPtr<WatchedMapping> = AtomicPtr::new(std::ptr::null_mut());

impl WatchedMapping {
    fn load_next(link: &AtomicPtr<Self>) -> Option<&'static Self> {
        // SAFETY:
        // - Links are null or point to leaked entries, which were complete before the link was
        //   stored (acquire: pairs with the release when the link was stored).
        unsafe { link.load(Ordering::Acquire).as_ref() }
    }

    fn all() -> impl Iterator<Item = &'static Self> {
        std::iter::successors(Self::load_next(&FIRST_MAPPING), |one| Self::load_next(&one.next))
    }

    /// Stores a mapping in the entry. Only the thread that has claimed the entry may call this.
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

    /// Returns start and length of the mapping if it contains `addr`; otherwise `None`. Also
    /// returns `None` for an entry that is being changed. The mapping of such an entry cannot
    /// contain `addr`, because the mapping that faulted stays registered until the faulting thread
    /// continues.
    fn range_containing(&self, addr: usize) -> Option<(usize, usize)> {
        let version = self.version.load(Ordering::Acquire);
        let range = (self.start.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let whole = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        let within = range.0 != 0 && addr.checked_sub(range.0).is_some_and(|at| at < range.1);
        (whole && within).then_some(range)
    }
}

/// Replaces the watched mapping that contains the faulting address by zero pages; returns false if
/// no watched mapping contains it, or if the kernel refuses.
fn replace_mapping(addr: usize) -> bool {
    let found =
        WatchedMapping::all().find_map(|one| one.range_containing(addr).map(|range| (one, range)));
    let Some((entry, (start, len))) = found else { return false };
    entry.revoked.store(true, Ordering::Release);
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY:
    // - The range is exactly that of a watched mapping, whose `RevocableMapping` is alive, because
    //   the faulting thread borrows it. Atomics and raw copies allow its pages to change at any
    //   time.
    unsafe { mmap_anonymous(start as *mut _, len, access, flags) }.is_ok()
}

/// Adds a mapping to the list that the handler searches, in a free entry or a new one.
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
        // The update never fails, because `link` always returns an entry.
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
        let handler: SignalHandler = on_bus_error;
        // SAFETY: all zeros are a `sigaction` without flags, mask and handler.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        let mut before = action;
        // SAFETY:
        // - Both pointers are to complete `sigaction`s, alive during the call.
        // - The handler only does what is allowed in a signal handler: system calls, atomics, and a
        //   call of the former handler, which must itself be allowed there.
        let done = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) };
        debug_assert_eq!(done, 0, "SIGBUS can be handled");
        before
    });
}

/// A handler with `SA_SIGINFO`.
type SignalHandler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

extern "C" fn on_bus_error(
    signal: libc::c_int,
    source: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: with SA_SIGINFO the kernel passes a complete `siginfo_t`, alive during the call.
    let info = unsafe { &*source };
    // A SIGBUS sent by `kill` has no address.
    let is_fault = info.si_code > 0;
    // SAFETY: for a fault the kernel sets the address.
    let addr = is_fault.then(|| unsafe { info.si_addr() } as usize);
    if !addr.is_some_and(replace_mapping) {
        let before = PREVIOUS_SIGBUS_ACTION.get();
        before.into_iter().for_each(|before| pass_on(before, is_fault, signal, source, context));
    }
}

/// Leaves a signal to `before`, the action that was set before this crate's handler. If `before`
/// has a handler, calls it; this crate's handler stays set. If `before` ignores the signal, and a
/// process sent it, does nothing. Otherwise sets `before` again, so that the kernel applies it: a
/// fault occurs again as soon as this crate's handler returns, and a signal that a process sent is
/// raised again.
fn pass_on(
    before: &libc::sigaction,
    is_fault: bool,
    signal: libc::c_int,
    source: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    match before.sa_sigaction {
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY:
            // - `before` is a complete `sigaction` that the kernel returned. Both calls are allowed
            //   in a signal handler.
            unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
            if !is_fault {
                // SAFETY: `raise` has no preconditions; the signal is blocked until the handler
                // returns.
                unsafe { libc::raise(signal) };
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY:
            // - With SA_SIGINFO, the address is that of a handler with these three parameters. It
            //   gets those of this call.
            let handler: SignalHandler = unsafe { std::mem::transmute(handler) };
            handler(signal, source, context);
        }
        handler => {
            // SAFETY: without SA_SIGINFO, a handler has one parameter.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
