//! Netmap ports whose rings this process syncs itself, for `<net/netmap_sync.h>`.
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
//! The rings of pipes are synced by code in `slipring-ring`, queues by code in `slipring-port`.
//! `loom` has explored the protocols of both. All calls except syncs still go to the device, to
//! which the descriptor belongs.
//!
//! # Invariants
//! 1. A forked child has no ports in this module, because it does not inherit the table
//!    ([`table`]).
//! 2. Each direction of a port has its own lock, so that two threads can use one descriptor.
//! 3. A port may be closed without [`stop`], and another file may then get its descriptor number.
//!    The library notices this: either the rings are no longer lent to this process, or [`sweep`]
//!    finds that the descriptor belongs to another file.

mod device;
mod rings;
mod table;

use std::ffi::c_int;

pub(crate) use device::keeping_errno;
use rings::{SyncPolicy, SyncedPort};
use table::PortSlot;

/// Whether rings send or receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncedDirection {
    Tx,
    Rx,
}

/// The result of syncing the rings of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SyncOutcome {
    /// Whether the library has done the sync, or no sync is necessary. If this is false, the device
    /// must do the sync.
    pub(crate) done: bool,
    /// Whether a ring has slots after `cur`.
    pub(crate) ready: bool,
}

/// From now on, syncs the rings of `fd` in this process, if the device lends them.
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

/// Ends the syncs in this process. Must be called before `fd` is closed.
pub(crate) fn stop(fd: c_int) {
    if let Some(slot) = table::slot(fd) {
        slot.take();
    }
}

/// Frees the ports whose descriptors were closed without [`stop`].
pub(crate) fn sweep() {
    for (fd, slot) in table::slots() {
        if !slot.is_current(fd) {
            slot.take();
        }
    }
}

/// Syncs the rings of one direction, unless the device must do this.
#[inline]
pub(crate) fn sync(fd: c_int, direction: SyncedDirection) -> SyncOutcome {
    table::slot(fd).map_or(SyncOutcome::default(), |slot| sync_slot(slot, fd, direction, false))
}

/// Like [`sync`], but for the tx rings in a poll that only waits for frames to read. A program can
/// request that such polls do not sync tx rings.
#[inline]
pub(crate) fn sync_tx_in_poll(fd: c_int) -> SyncOutcome {
    table::slot(fd)
        .map_or(SyncOutcome::default(), |slot| sync_slot(slot, fd, SyncedDirection::Tx, true))
}

#[inline(always)]
fn sync_slot(slot: &PortSlot, fd: c_int, direction: SyncedDirection, polls: bool) -> SyncOutcome {
    // Another thread that syncs at this moment may have read `head` before the program released its
    // last slots, so this call waits for that thread. As in netmap, a poll for frames does not wait
    // for the tx rings.
    let rings = if polls { slot.rings(direction).try_lock() } else { slot.lock_briefly(direction) };
    let Some(mut rings) = rings else { return SyncOutcome { done: polls, ready: false } };
    match &mut *rings {
        Some(rings) if polls && !rings.syncs_in_poll() => SyncOutcome { done: true, ready: false },
        Some(rings) if !slot.asks_device() => rings.sync(fd),
        _ => SyncOutcome::default(),
    }
}

/// Records whether the device has failed to sync `fd`.
pub(crate) fn record_device(fd: c_int, failed: bool) {
    if let Some(slot) = table::slot(fd) {
        slot.record_device(failed);
    }
}

/// Returns the number of queues of `fd` that this process syncs. Returns -1 if this process syncs
/// `fd` as the end of a pipe, and 0 if the device does the syncs.
pub(crate) fn is_active(fd: c_int) -> c_int {
    table::slot(fd).map_or(0, PortSlot::active_queues)
}

/// Returns the descriptor of a queue's AF_XDP socket, or -1 if there is none. The caller must not
/// close it.
pub(crate) fn socket_of(fd: c_int, queue: usize) -> c_int {
    table::slot(fd).and_then(|slot| slot.socket(queue)).unwrap_or(-1)
}
