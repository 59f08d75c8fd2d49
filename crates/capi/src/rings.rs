//! Rings, syncs, and copying frames in and out.
//!
//! Programs move `head` and `cur` in the rings themselves, as netmap's macros do. The rings of
//! `slipring-ring` have a private copy of `head`. So each call that uses the copy first updates it
//! from the shared ring.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::{self, null_mut};
use std::time::Duration;

use slipring_abi::NetmapRing;
use slipring_port::{Queue, now};
use slipring_ring::{AppRing, forward};

use crate::error::CallError;
use crate::port::{LockedQueue, PortHandle};
use crate::wait;

/// Returns the address of a ring; null if the ring has fewer than two slots, so can hold no frame.
fn address<D>(ring: &AppRing<D>) -> *mut NetmapRing {
    if ring.num_slots() < 2 {
        return null_mut();
    }
    ring.region().base().as_ptr().wrapping_add(ring.offset() as usize).cast()
}

/// Returns the tx ring of a queue.
pub(crate) fn tx_ring(port: &PortHandle, queue: u32) -> Result<*mut NetmapRing, CallError> {
    Ok(address(port.queue(queue)?.rings().tx))
}

/// Returns the rx ring of a queue.
pub(crate) fn rx_ring(port: &PortHandle, queue: u32) -> Result<*mut NetmapRing, CallError> {
    Ok(address(port.queue(queue)?.rings().rx))
}

/// Returns 1 if buffers may be exchanged between the rings of two ports, otherwise 0.
pub(crate) fn share_buffers(one: &PortHandle, other: &PortHandle) -> Result<c_int, CallError> {
    let region = |port: &PortHandle| -> Result<_, CallError> {
        Ok(port.queue(0)?.rings().tx.region().base())
    };
    Ok((region(one)? == region(other)?).into())
}

/// Sends the queued frames of one queue, or of all queues.
pub(crate) fn tx_sync(port: &PortHandle, queue: u32) -> Result<c_int, CallError> {
    port.some(queue)?.iter().try_for_each(|queue| Ok(port.lock(queue)?.tx_sync()?)).map(|()| 0)
}

/// Syncs the rx ring of one queue, or of all queues: gives back to the port the slots that the
/// program has read, and makes received frames visible.
pub(crate) fn rx_sync(port: &PortHandle, queue: u32) -> Result<c_int, CallError> {
    port.some(queue)?.iter().try_for_each(|queue| Ok(port.lock(queue)?.rx_sync()?)).map(|()| 0)
}

/// Returns 1 if no frame will ever be received again, otherwise 0.
pub(crate) fn has_ended(port: &PortHandle) -> Result<c_int, CallError> {
    for queue in port.some(crate::structs::SLIPRING_ALL_QUEUES)? {
        if !port.lock(queue)?.ended() {
            return Ok(0);
        }
    }
    Ok(1)
}

/// Queues a copy of a frame. Returns 1, or 0 if the frame does not fit.
pub(crate) fn send(port: &PortHandle, queue: u32, frame: &[u8]) -> Result<c_int, CallError> {
    let mut queue = port.queue(queue)?;
    let ring = queue.rings().tx;
    ring.take_over_head();
    Ok(ring.push(frame).into())
}

/// Removes a frame from the ring, and copies as much of it as fits. Returns the frame's length;
/// `None` if there is no frame.
pub(crate) fn receive(
    port: &PortHandle,
    queue: u32,
    into: &mut [MaybeUninit<u8>],
) -> Result<Option<usize>, CallError> {
    let mut queue = port.queue(queue)?;
    let ring = queue.rings().rx;
    ring.take_over_head();
    let mut scratch = Vec::new();
    Ok(ring.packet(&mut scratch, |frame| {
        into.iter_mut().zip(&*frame).for_each(|(to, from)| {
            to.write(*from);
        });
        frame.len()
    }))
}

/// For each queue of `from`, syncs its rx ring, forwards at most `max` slots to a queue of `to`,
/// and syncs the tx ring of that queue. Returns the number of forwarded slots.
pub(crate) fn forward_all(
    from: &PortHandle,
    to: &PortHandle,
    max: u32,
) -> Result<c_int, CallError> {
    let outputs = to.queue_count();
    let mut moved = 0;
    for source in 0..from.queue_count() {
        moved += forward_one(from, from.one(source)?, to, to.one(source % outputs)?, max)?;
    }
    Ok(c_int::try_from(moved).unwrap_or(c_int::MAX))
}

fn forward_one(
    from_port: &PortHandle,
    from: &LockedQueue,
    to_port: &PortHandle,
    to: &LockedQueue,
    max: u32,
) -> Result<u32, CallError> {
    if ptr::eq(from, to) {
        let mut queue = from_port.lock(from)?;
        queue.rx_sync()?;
        let rings = queue.rings();
        let moved = take_over_and_forward(rings.rx, rings.tx, max);
        queue.tx_sync()?;
        return Ok(moved);
    }
    // The locks are taken in the order of their addresses. So two threads that forward in opposite
    // directions do not deadlock.
    let early = (ptr::from_ref(from) < ptr::from_ref(to)).then(|| from_port.lock(from));
    let early = early.transpose()?;
    let mut target = to_port.lock(to)?;
    let mut source = match early {
        Some(source) => source,
        None => from_port.lock(from)?,
    };
    source.rx_sync()?;
    let moved = take_over_and_forward(source.rings().rx, target.rings().tx, max);
    target.tx_sync()?;
    Ok(moved)
}

fn take_over_and_forward(
    rx: &mut slipring_ring::RxRing,
    tx: &mut slipring_ring::TxRing,
    max: u32,
) -> u32 {
    rx.take_over_head();
    tx.take_over_head();
    forward(rx, tx, max)
}

/// Syncs until all queued frames have been sent or the timeout has expired. Returns how many slots
/// have not been sent.
pub(crate) fn drain(port: &PortHandle, timeout: Option<Duration>) -> Result<c_int, CallError> {
    let deadline = timeout.map(|timeout| now().saturating_add(timeout.as_nanos() as u64));
    loop {
        let mut left = 0;
        for queue in port.some(crate::structs::SLIPRING_ALL_QUEUES)? {
            let mut queue = port.lock(queue)?;
            left += under_way(queue.as_mut())?;
        }
        if left == 0 || deadline.is_some_and(|deadline| now() >= deadline) {
            return Ok(c_int::try_from(left).unwrap_or(c_int::MAX));
        }
        wait::pause(deadline);
    }
}

fn under_way(queue: &mut dyn Queue) -> Result<u32, CallError> {
    queue.tx_sync()?;
    let ring = queue.rings().tx;
    if ring.num_slots() < 2 {
        return Ok(0);
    }
    ring.take_over_head();
    Ok(ring.with_driver())
}
