//! Moving frames from an rx ring to a tx ring: the inner loop of every forwarding program.

use crate::app::{AppRing, Rx, RxRing, Tx, TxRing};
use crate::index::next;
use crate::mem::{Slot, SlotFlags};

/// Moves whole packets from `rx` to `tx`, at most `max` slots of them. Exchanges buffers if both
/// rings are in one region; copies otherwise. Returns how many slots were moved.
///
/// The next sync of `tx` sends the frames, and the next sync of `rx` returns the freed slots.
#[inline]
pub fn forward(rx: &mut RxRing, tx: &mut TxRing, max: u32) -> u32 {
    if !rx.same_region(tx) {
        return copy(rx, tx, max);
    }
    let count = ready(rx, tx, max);
    exchange(rx, tx, count);
    rx.advance(count);
    tx.advance(count);
    count
}

/// Like [`forward`], but always copies, so the slots of `rx` keep their buffers. A frame that is
/// longer than a buffer of `tx` takes several slots of `tx`.
pub fn copy(rx: &mut RxRing, tx: &mut TxRing, max: u32) -> u32 {
    if rx.buf_size() > tx.buf_size() {
        return refragment(rx, tx, max);
    }
    let count = ready(rx, tx, max);
    copy_slots(rx, tx, count);
    rx.advance(count);
    tx.advance(count);
    count
}

#[inline(always)]
fn ready(rx: &mut RxRing, tx: &mut TxRing, max: u32) -> u32 {
    let count = rx.avail().min(tx.avail()).min(max);
    rx.whole_packets(count)
}

#[inline(always)]
fn exchange(rx: &mut AppRing<Rx>, tx: &mut AppRing<Tx>, count: u32) {
    let (mut i, mut j) = (rx.head(), tx.head());
    let (n, m) = (rx.mem().num_slots(), tx.mem().num_slots());
    for _ in 0..count {
        let (from, to) = (rx.mem().slot(i), tx.mem().slot(j));
        let (frame, free) = (from.get(), to.get());
        to.set(Slot { flags: preserved_flags(frame.flags) | SlotFlags::BUF_CHANGED, ..frame });
        from.set(Slot { buf: free.buf, len: 0, flags: SlotFlags::BUF_CHANGED });
        i = next(i, n);
        j = next(j, m);
    }
}

/// Copies `count` slots one by one; the caller has checked that every rx frame fits into a tx
/// buffer.
#[inline(always)]
fn copy_slots(rx: &mut AppRing<Rx>, tx: &mut AppRing<Tx>, count: u32) {
    let (mut i, mut j) = (rx.head(), tx.head());
    let (n, m) = (rx.mem().num_slots(), tx.mem().num_slots());
    for _ in 0..count {
        let (frame, cell) = (rx.mem().slot(i).get(), tx.mem().slot(j));
        let buf = cell.get().buf;
        let len = u32::from(frame.len).min(rx.buf_size());
        tx.mem().copy_from(buf, rx.mem(), frame.buf, len as usize);
        cell.set(Slot { buf, len: len as u16, flags: preserved_flags(frame.flags) });
        i = next(i, n);
        j = next(j, m);
    }
}

/// Copies packet by packet, and splits each packet to fit the smaller buffers of `tx`.
fn refragment(rx: &mut RxRing, tx: &mut TxRing, max: u32) -> u32 {
    let (mut packet, mut moved) = (Vec::new(), 0);
    while let Some(slots) = rx.peek_packet(&mut packet, max - moved) {
        if !tx.push(&packet) {
            break;
        }
        rx.advance(slots);
        moved += slots;
    }
    moved
}

/// The flags that are copied along with a frame.
#[inline(always)]
fn preserved_flags(flags: SlotFlags) -> SlotFlags {
    SlotFlags(flags.0 & (SlotFlags::MOREFRAG.0 | SlotFlags::REPORT.0))
}
