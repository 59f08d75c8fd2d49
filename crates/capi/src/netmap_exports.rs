//! The functions that `include/net/netmap_sync.h` calls.
//!
//! A program that is compiled with this header may be linked without this library, or may run with
//! another version of it. So the header looks up only one function, which returns the others.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use crate::entry;
use crate::netmap::{self, SyncOutcome, SyncedDirection, keeping_errno};

/// The version of [`NmInprocessCalls`]. It is incremented with every change.
const CALLS_VERSION: u32 = 1;

/// The values of `what` in [`NmInprocessCalls::sync`]. Any other value means a sync of the tx
/// rings, in a poll that only waits for frames to read.
const SYNC_TX: c_int = 0;
const SYNC_RX: c_int = 1;

/// `struct nm_inprocess_calls` of the header, which documents each function.
#[repr(C)]
#[derive(Debug)]
pub struct NmInprocessCalls {
    version: u32,
    reserved: u32,
    start: extern "C" fn(fd: c_int, memory_bytes: u64, flags: u64),
    stop: extern "C" fn(fd: c_int),
    sweep: extern "C" fn(),
    sync: extern "C" fn(fd: c_int, what: c_int, ready: Option<&mut MaybeUninit<c_int>>) -> c_int,
    record: extern "C" fn(fd: c_int, failed: c_int),
    active: extern "C" fn(fd: c_int) -> c_int,
    socket: extern "C" fn(fd: c_int, queue: usize) -> c_int,
}

static CALLS: NmInprocessCalls = NmInprocessCalls {
    version: CALLS_VERSION,
    reserved: 0,
    start,
    stop,
    sweep,
    sync,
    record,
    active,
    socket,
};

/// Returns the functions if `version` is that of this library, otherwise null.
#[unsafe(no_mangle)]
pub extern "C" fn nm_inprocess_calls(version: u32) -> Option<&'static NmInprocessCalls> {
    (version == CALLS_VERSION).then_some(&CALLS)
}

/// Runs a call that must not change `errno`. If it panics, returns `otherwise`.
fn quietly<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    keeping_errno(|| entry::value(otherwise, || Ok(call())))
}

extern "C" fn start(fd: c_int, memory_bytes: u64, flags: u64) {
    quietly((), || netmap::start(fd, memory_bytes, flags));
}

extern "C" fn stop(fd: c_int) {
    quietly((), || netmap::stop(fd));
}

extern "C" fn sweep() {
    quietly((), netmap::sweep);
}

extern "C" fn sync(fd: c_int, what: c_int, ready: Option<&mut MaybeUninit<c_int>>) -> c_int {
    // `sync` itself restores `errno` in the few places that may change it.
    let synced = entry::value(SyncOutcome::default(), || {
        Ok(match what {
            SYNC_TX => netmap::sync(fd, SyncedDirection::Tx),
            SYNC_RX => netmap::sync(fd, SyncedDirection::Rx),
            _ => netmap::sync_tx_in_poll(fd),
        })
    });
    if let Some(ready) = ready {
        ready.write(synced.ready.into());
    }
    synced.done.into()
}

extern "C" fn record(fd: c_int, failed: c_int) {
    quietly((), || netmap::record_device(fd, failed != 0));
}

extern "C" fn active(fd: c_int) -> c_int {
    quietly(0, || netmap::is_active(fd))
}

extern "C" fn socket(fd: c_int, queue: usize) -> c_int {
    quietly(-1, || netmap::socket_of(fd, queue))
}
