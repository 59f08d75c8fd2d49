//! Netmap ports that this process syncs itself, for `<net/netmap_sync.h>`.
//!
//! ```text
//!   nm_open, nmport_open   --> start: the device lends the rings of a pipe (NIOCLEND), or the
//!                                queues of an interface (NIOCLENDQ); AF_XDP sockets come from
//!                                the native socket
//!   ioctl(NIOC*SYNC), poll --> sync: HostedTx and HostedRx, or DelegatedTx and DelegatedRx
//!                                the device syncs if it lent nothing, once a second, and after
//!                                an error
//! ```
//!
//! Rings of pipes use the code of `slipring-ring`, queues that of `slipring-port`, whose protocols
//! `loom` explores. The descriptor still belongs to the device: all calls except syncs go there.
//!
//! # Invariants
//! 1. A forked child has no ports here, because it does not inherit the table ([`table`]).
//! 2. Each direction of a port has a separate lock, so that two threads can use one descriptor.
//! 3. If a port was closed without [`stop`] and another file got its descriptor number, the library
//!    detects this: the rings are no longer lent to this process, or [`sweep`] finds that the file
//!    has changed.

mod device;
mod rings;
mod table;

use std::ffi::c_int;

pub(crate) use device::keeping_errno;
use rings::{SyncPolicy, SyncedPort};
use table::PortSlot;

/// The direction of rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncedDirection {
    Tx,
    Rx,
}

/// The result of the syncs of a direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SyncOutcome {
    /// Whether the library did the sync; if not, the device must.
    pub(crate) done: bool,
    /// Whether a ring has slots beyond `cur`.
    pub(crate) ready: bool,
}

/// Syncs the rings of `fd` in this process from now on, if the device lends them.
pub(crate) fn start(fd: c_int, memory_bytes: u64, flags: u64) {
    let wishes = SyncPolicy::new(flags);
    if !wishes.allow_sync() {
        return;
    }
    let Some(slot) = table::make_slot(fd) else { return };
    slot.take();
    if let Some(port) = SyncedPort::borrow(fd, memory_bytes, wishes) {
        slot.put(port);
    }
}

/// Ends the syncs in this process, before `fd` is closed.
pub(crate) fn stop(fd: c_int) {
    if let Some(slot) = table::slot(fd) {
        slot.take();
    }
}

/// Releases ports whose descriptors were closed without [`stop`].
pub(crate) fn sweep() {
    for (fd, slot) in table::slots() {
        if !slot.is_current(fd) {
            slot.take();
        }
    }
}

/// Syncs the rings of a direction, unless the device must do this sync.
#[inline]
pub(crate) fn sync(fd: c_int, direction: SyncedDirection) -> SyncOutcome {
    table::slot(fd).map_or(SyncOutcome::default(), |slot| sync_slot(slot, fd, direction, false))
}

/// Does [`sync`] of the tx rings for a poll that only waits for frames to read. Programs can
/// disable tx syncs in these polls.
#[inline]
pub(crate) fn sync_tx_in_poll(fd: c_int) -> SyncOutcome {
    table::slot(fd)
        .map_or(SyncOutcome::default(), |slot| sync_slot(slot, fd, SyncedDirection::Tx, true))
}

#[inline(always)]
fn sync_slot(slot: &PortSlot, fd: c_int, direction: SyncedDirection, polls: bool) -> SyncOutcome {
    // Another thread is syncing and will move all pending slots. Whether a slot is ready is not
    // known.
    let Some(mut rings) = slot.rings(direction).try_lock() else {
        return SyncOutcome { done: true, ready: false };
    };
    match &mut *rings {
        Some(rings) if polls && !rings.syncs_in_poll() => SyncOutcome { done: true, ready: false },
        Some(rings) if !slot.asks_device() => rings.sync(fd),
        _ => SyncOutcome::default(),
    }
}

/// Records the device's answer to a sync of `fd`.
pub(crate) fn record_device(fd: c_int, failed: bool) {
    if let Some(slot) = table::slot(fd) {
        slot.record_device(failed);
    }
}

/// Returns the number of queues of `fd` that this process syncs; -1 if it syncs `fd` as the end of
/// a pipe, 0 if the device does the syncs.
pub(crate) fn is_active(fd: c_int) -> c_int {
    table::slot(fd).map_or(0, PortSlot::active_queues)
}

/// Returns the descriptor of the AF_XDP socket of a queue, which the caller must not close; -1 if
/// there is none.
pub(crate) fn socket_of(fd: c_int, queue: usize) -> c_int {
    table::slot(fd).and_then(|slot| slot.socket(queue)).unwrap_or(-1)
}
