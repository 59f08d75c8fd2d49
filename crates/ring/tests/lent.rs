//! Tests of memory that a lender may revoke. They are in a separate process, because the crate's
//! unit tests use loom, which handles SIGBUS itself.
#![allow(clippy::unwrap_used)]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use slipring_ring::{Geometry, Region, RevocableMapping, RingHalves, Tx};

const PAGE: usize = 4096;

fn file(pages: usize) -> OwnedFd {
    let file = memfd_create("lent", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, (pages * PAGE) as u64).unwrap();
    file
}

#[test]
fn what_is_written_is_seen_by_whoever_has_the_file() {
    let file = file(2);
    let lent = RevocableMapping::map(file.as_fd(), PAGE as u64, PAGE).unwrap();
    lent.word(8).store(7, Ordering::Relaxed);
    let mut seen = [0; 4];
    rustix::io::pread(&file, &mut seen, PAGE as u64 + 8).unwrap();
    assert_eq!((u32::from_ne_bytes(seen), lent.is_revoked()), (7, false));
}

#[test]
fn a_file_that_is_cut_off_under_us_leaves_zeros_and_says_so() {
    let (file, other) = (file(4), file(1));
    let lent = RevocableMapping::map(file.as_fd(), 0, 4 * PAGE).unwrap();
    let untouched = RevocableMapping::map(other.as_fd(), 0, PAGE).unwrap();
    lent.word(0).store(1, Ordering::Relaxed);
    ftruncate(&file, 0).unwrap();
    assert_eq!(lent.word(3 * PAGE).load(Ordering::Relaxed), 0);
    assert!(lent.is_revoked() && !untouched.is_revoked());
    lent.word(0).store(5, Ordering::Relaxed);
    assert_eq!(lent.word(0).load(Ordering::Relaxed), 5, "it is memory of our own now");
}

#[test]
fn many_threads_survive_many_files_that_are_cut_off() {
    let threads = [(); 8].map(|()| {
        std::thread::spawn(|| {
            for i in 0..200 {
                // Adjacent mappings get different lengths, so that the test notices if a mapping is
                // mistaken for its neighbour.
                let pages = 2 + i % 5;
                let file = file(pages);
                let lent = RevocableMapping::map(file.as_fd(), 0, pages * PAGE).unwrap();
                assert!(!lent.is_revoked());
                ftruncate(&file, 0).unwrap();
                lent.word(PAGE).store(1, Ordering::Relaxed);
                assert!(lent.is_revoked());
            }
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_fault_that_is_not_ours_ends_the_process_as_ever() {
    // Runs in a child process, since the fault ends the process and the test must continue.
    if std::env::var_os("SLIPRING_TEST_FAULT").is_some() {
        let (file, ours) = (file(1), file(1));
        let _lent = RevocableMapping::map(ours.as_fd(), 0, PAGE).unwrap();
        let access = ProtFlags::READ;
        // SAFETY: a mapping of its own, which nothing else refers to.
        let map = unsafe {
            mmap(std::ptr::null_mut(), PAGE, access, MapFlags::SHARED, &file, 0).unwrap()
        };
        ftruncate(&file, 0).unwrap();
        // SAFETY: the read faults, which is the purpose of the test.
        unsafe { map.cast::<u8>().read_volatile() };
        return;
    }
    let name = "a_fault_that_is_not_ours_ends_the_process_as_ever";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let status = child.args(["--exact", name]).env("SLIPRING_TEST_FAULT", "1").output().unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(status.status.signal(), Some(rustix::process::Signal::BUS.as_raw()));
}

static OTHER_SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_signal(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    OTHER_SIGNALS.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_handler_of_the_program_gets_its_signals_and_files_may_be_cut_off_afterwards() {
    if std::env::var_os("SLIPRING_TEST_HANDLER").is_some() {
        let handler: extern "C" fn(_, _, _) = count_signal;
        // SAFETY: all zeros are a `sigaction` without flags, mask and handler.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO;
        // SAFETY: the handler only adds to an atomic.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
        let file = file(1);
        let lent = RevocableMapping::map(file.as_fd(), 0, PAGE).unwrap();
        for expected in 1..=2 {
            // SAFETY: `raise` has no preconditions.
            unsafe { libc::raise(libc::SIGBUS) };
            assert_eq!(OTHER_SIGNALS.load(Ordering::Relaxed), expected);
        }
        ftruncate(&file, 0).unwrap();
        assert_eq!(lent.word(0).load(Ordering::Relaxed), 0);
        assert!(lent.is_revoked());
        assert_eq!(OTHER_SIGNALS.load(Ordering::Relaxed), 2);
        return;
    }
    let name = "a_handler_of_the_program_gets_its_signals_and_files_may_be_cut_off_afterwards";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = child.args(["--exact", name]).env("SLIPRING_TEST_HANDLER", "1").output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
fn memory_that_is_lent_holds_rings_until_it_is_taken_away_and_harms_nobody_then() {
    let file = memfd_create("lent", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, 256 << 10).unwrap();
    let lent = RevocableMapping::map(file.as_fd(), 0, 256 << 10).unwrap();
    let geometry = Geometry { ring_bytes: 32 << 10, bufs: 10_000, buf_size: 2048 };
    let region = Region::from_revocable(lent, 256 << 10, geometry).unwrap();
    assert_eq!((region.num_bufs(), region.free_bufs()), (109, 107));
    let mut pair = RingHalves::<Tx>::create(&region, 0, 16).unwrap();
    assert!(pair.app.push(&[7; 100]));
    let mut seen = [0; 100];
    let at = region.data_start() + 2 * 2048;
    rustix::io::pread(&file, &mut seen, at).unwrap();
    assert_eq!((seen, region.is_revoked()), ([7; 100], false));
    let head = pair.kern.released().unwrap();
    pair.kern.complete_to(head);
    ftruncate(&file, 0).unwrap();
    assert!(pair.kern.released().is_err(), "all indices are zero, and the ring was beyond that");
    assert!(region.is_revoked());
    drop((pair, region));
}

#[test]
fn a_region_takes_no_more_than_it_was_given_though_more_is_mapped() {
    let file = file(64);
    let region = |len: usize| {
        let lent = RevocableMapping::map(file.as_fd(), 0, 64 * PAGE).unwrap();
        let geometry = Geometry { ring_bytes: 0, bufs: 10_000, buf_size: 2048 };
        Region::from_revocable(lent, len as u64, geometry).map(|region| region.size())
    };
    assert_eq!(region(64 * PAGE).unwrap(), 64 * PAGE as u64);
    assert_eq!(region(10 * PAGE + 100).unwrap(), 10 * PAGE as u64);
    assert!(region(2 * PAGE).is_err() && region(0).is_err());
}
