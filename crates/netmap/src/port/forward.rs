//! Forwards frames between an interface and its host without a copy in the program. On an rx ring
//! with `NR_FORWARD`, each frame that the program marks with `NS_FORWARD` and gives back goes to
//! the other side. With the parameter `fwd`, all frames that the program gives back on any rx ring
//! are forwarded, marked or not.
//!
//! Frames move from an rx ring to a tx ring of the same open file, at the rx sync that would have
//! released them. Buffers are exchanged, or copied where payloads have offsets. Both sides have to
//! be bound: the host's tx rings for frames that the interface received, and all tx rings of the
//! interface for frames that the host sent.
//!
//! A frame of several slots is forwarded whole or not at all; the mark on its first slot counts. If
//! the program gives back only the first slots of a frame, their bytes move to the slots of the tx
//! ring from `head` on, and `head` advances only when the frame's last slot has followed. The frame
//! is dropped, which means that its slots are released like any others, if no tx ring has free
//! slots for its first part, if later the chosen ring has none for the rest, or if the program has
//! sent frames of its own on that ring meanwhile.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use slipring_abi::{NR_FORWARD, NS_FORWARD};
use slipring_ring::{RingView, Slot, SlotFlags, SlotIdx};

use crate::port::adapter::Adapter;
use crate::types::lock::lock;
use crate::types::parameters::Parameters;
use crate::types::shape::{AdapterShape, TxRx};

/// How far an rx ring is forwarded.
#[derive(Debug)]
struct RxProgress {
    /// The first slot that is still to be looked at.
    next: SlotIdx,
    /// The frame whose first slots were before `next`; `None` between two frames.
    frame: Option<PartialFrame>,
}

/// A frame of which the program has not yet given back all slots.
#[derive(Debug)]
struct PartialFrame {
    /// The slots that the frame has in a tx ring so far; `None`: the frame is not forwarded.
    tx: Option<TxSlots>,
}

/// Slots from the head of a tx ring on.
#[derive(Debug, Clone, Copy)]
struct TxSlots {
    ring: usize,
    head: SlotIdx,
    count: u32,
}

/// Forwarding between the rings of one open file.
#[derive(Debug)]
pub(crate) struct Forward {
    /// Number of the interface's rx rings; the host's rx rings follow them.
    nic_rx: usize,
    /// The bound tx rings that lead to the host. `to_nic` contains all tx rings that lead to the
    /// interface, or none unless all of them are bound.
    to_host: Range<usize>,
    to_nic: Range<usize>,
    /// How far each rx ring is forwarded. One lock for all, because they share the tx rings.
    progress: Mutex<Vec<RxProgress>>,
    /// The module parameters; if `fwd` is set, all frames are forwarded, marked or not. `None`:
    /// only marked frames are forwarded.
    parameters: Option<Arc<Parameters>>,
}

impl Forward {
    /// Creates the forwarding; `None` if the port has no host rings, or no tx ring or no rx ring is
    /// bound.
    pub(crate) fn new(
        port: &dyn Adapter,
        shape: &AdapterShape,
        rings: &[Range<usize>; 2],
    ) -> Option<Self> {
        let [tx, rx] = rings;
        let [nic_tx, nic_rx] = shape.rings.map(usize::from);
        if shape.host_rings == [0; 2] || tx.is_empty() || rx.is_empty() {
            return None;
        }
        let all_nic = tx.start == 0 && tx.end >= nic_tx;
        let next = |i| port.ring(TxRx::Rx, i).map_or(0, RingView::head);
        let progress = (0..rx.end).map(|i| RxProgress { next: next(i), frame: None });
        Some(Self {
            nic_rx,
            to_host: nic_tx.max(tx.start)..tx.end.max(nic_tx.max(tx.start)),
            to_nic: if all_nic { 0..nic_tx } else { 0..0 },
            progress: Mutex::new(progress.collect()),
            parameters: None,
        })
    }

    /// Sets the module parameters; the parameter `fwd` applies from now on.
    pub(crate) fn set_parameters(&mut self, parameters: &Arc<Parameters>) {
        self.parameters = Some(parameters.clone());
    }

    /// Forwards frames that the program has given back on rx ring `i`: the marked ones, or all of
    /// them with the parameter `fwd`. Called just before the ring is synced.
    pub(crate) fn before_sync(&self, port: &dyn Adapter, i: usize) {
        let Some(ring) = port.ring(TxRx::Rx, i) else { return };
        let all = self.parameters.as_ref().is_some_and(|one| one.forwards_between_nic_and_host());
        let is_on = all || ring.flags() & NR_FORWARD != 0;
        let targets = if i < self.nic_rx { &self.to_host } else { &self.to_nic };
        let mut progress = lock(&self.progress);
        let others = progress.iter().enumerate().filter(|(other, _)| *other != i);
        let in_use: Vec<usize> = others.filter_map(|(_, of)| of.frame.as_ref()?.ring()).collect();
        let targets_now = targets.clone().filter(|to| !in_use.contains(to));
        let begin = |rx| PartialFrame::begin(port, rx, targets_now.clone(), all);
        let is_moved = progress.get_mut(i).is_some_and(|progress| match is_on {
            true => progress.forward(ring, begin, port),
            false => progress.skip(ring),
        });
        drop(progress);
        if !is_moved {
            return;
        }
        for to in targets.clone() {
            // If the tx rings' port no longer exists, the program gets the error when it syncs them
            // itself.
            port.sync(TxRx::Tx, to);
        }
    }
}

impl RxProgress {
    /// Passes over the slots that the program has given back; returns false, as nothing is
    /// forwarded.
    fn skip(&mut self, ring: &RingView) -> bool {
        let (to, n) = (ring.head(), ring.num_slots());
        if to < n && to != self.next {
            self.frame = has_more(ring, add(to, n - 1, n)).then_some(PartialFrame { tx: None });
            self.next = to;
        }
        false
    }

    /// Forwards the slots that the program has given back; `begin` is called with the first slots
    /// of each frame. Returns whether there were any slots.
    fn forward<'r>(
        &mut self,
        ring: &'r RingView,
        begin: impl Fn(RxSlots<'r>) -> PartialFrame,
        port: &dyn Adapter,
    ) -> bool {
        let (to, n) = (ring.head(), ring.num_slots());
        if to >= n || to == self.next {
            return false;
        }
        if self.next >= n {
            // The ring was damaged before. Forwarding begins again with the next frame.
            (self.next, self.frame) = (to, None);
            return false;
        }
        while self.next != to {
            let (end, is_whole) = frame_end(ring, self.next, to);
            let rx = RxSlots { ring, at: self.next, count: distance(self.next, end, n) };
            let mut frame = self.frame.take().unwrap_or_else(|| begin(rx));
            frame.add(port, rx);
            self.frame = if is_whole { frame.finish(port) } else { Some(frame) };
            self.next = end;
        }
        true
    }
}

/// `count` slots of an rx ring from slot `at` on, all of one frame.
#[derive(Clone, Copy)]
struct RxSlots<'r> {
    ring: &'r RingView,
    at: SlotIdx,
    count: u32,
}

impl RxSlots<'_> {
    fn slots(self) -> impl Iterator<Item = SlotIdx> {
        (0..self.count).map(move |i| add(self.at, i, self.ring.num_slots()))
    }

    fn clear_marks(self) {
        for at in self.slots() {
            let slot = self.ring.slot(at);
            let flags = SlotFlags(slot.flags.0 & !NS_FORWARD);
            self.ring.set_slot(at, Slot { flags, ..slot });
        }
    }
}

impl PartialFrame {
    /// The tx ring that has slots of the frame.
    fn ring(&self) -> Option<usize> {
        self.tx.as_ref().map(|tx| tx.ring)
    }

    /// Begins a frame whose first slots are `rx`. If its first slot is marked, or if `all` is set,
    /// chooses the first ring of `targets` that has enough free slots for `rx`. Otherwise the frame
    /// is not forwarded. The caller has left out of `targets` the tx rings that hold a part of a
    /// frame from another rx ring.
    fn begin(
        port: &dyn Adapter,
        rx: RxSlots<'_>,
        targets: impl Iterator<Item = usize>,
        all: bool,
    ) -> Self {
        let is_marked = all || rx.ring.slot(rx.at).flags.0 & NS_FORWARD != 0;
        let mut rings = targets.filter(|_| is_marked);
        let tx = rings.find_map(|ring| {
            let view = port.ring(TxRx::Tx, ring)?;
            let fits = free_slots(view) >= rx.count;
            fits.then(|| TxSlots { ring, head: view.head(), count: 0 })
        });
        Self { tx }
    }

    /// Moves the bytes of the slots `rx` to the tx ring, after the slots that the frame already has
    /// there. If they cannot be moved, the frame is not forwarded.
    fn add(&mut self, port: &dyn Adapter, rx: RxSlots<'_>) {
        let Some(tx) = self.tx.take() else { return rx.clear_marks() };
        rx.clear_marks();
        let Some(view) = port.ring(TxRx::Tx, tx.ring) else { return };
        let count = tx.count + rx.count;
        // If `head` has moved, the program has sent frames of its own, and so has overwritten this
        // frame.
        if view.head() != tx.head || free_slots(view) < count {
            return;
        }
        let to = (tx.count..count).map(|i| add(tx.head, i, view.num_slots()));
        if rx.slots().zip(to).all(|(at, to)| move_slot(rx.ring, at, view, to)) {
            self.tx = Some(TxSlots { count, ..tx });
        }
    }

    /// Gives the frame to the tx ring. Always returns `None`, as no part of it is left.
    fn finish(self, port: &dyn Adapter) -> Option<Self> {
        let tx = self.tx?;
        let (view, TxSlots { head, count, .. }) = (port.ring(TxRx::Tx, tx.ring)?, tx);
        for i in 0..count - 1 {
            let at = add(head, i, view.num_slots());
            let slot = view.slot(at);
            view.set_slot(at, Slot { flags: slot.flags | SlotFlags::MOREFRAG, ..slot });
        }
        view.advance_to(add(head, count, view.num_slots()));
        None
    }
}

/// Moves the bytes in rx slot `at` to the tx slot `to`, by exchange of buffers or by a copy.
/// Returns false if the rx slot is invalid or the bytes do not fit. `NS_MOREFRAG` is not set yet:
/// until the frame is whole, the program may send frames of its own from these slots.
fn move_slot(ring: &RingView, at: SlotIdx, tx: &RingView, to: SlotIdx) -> bool {
    let (slot, free, region) = (ring.slot(at), tx.slot(to), ring.region());
    if !region.is_usable(slot.buf) || u32::from(slot.len) > region.buf_size() {
        return false;
    }
    if ring.offsets().is_some() || tx.offsets().is_some() {
        // An offset belongs to a slot, and the other ring may have no offsets. So the bytes are
        // copied.
        let (from, dst) = ((slot.buf, ring.payload_offset(at)), (free.buf, tx.payload_offset(to)));
        let len = tx.copy(dst, ring, from, slot.len.into());
        tx.set_slot(to, Slot { len: len as u16, flags: SlotFlags::default(), ..free });
        return len == usize::from(slot.len);
    }
    tx.set_slot(to, Slot { flags: SlotFlags::BUF_CHANGED, ..slot });
    ring.set_slot(at, Slot { buf: free.buf, flags: slot.flags | SlotFlags::BUF_CHANGED, ..slot });
    true
}

/// Returns the end of the frame at slot `at`, and whether all of it is before slot `to`.
fn frame_end(ring: &RingView, mut at: SlotIdx, to: SlotIdx) -> (SlotIdx, bool) {
    loop {
        let more = has_more(ring, at);
        at = add(at, 1, ring.num_slots());
        if !more || at == to {
            return (at, !more);
        }
    }
}

fn has_more(ring: &RingView, at: SlotIdx) -> bool {
    ring.slot(at).flags.has(SlotFlags::MOREFRAG)
}

/// Returns the number of free tx slots from `head` on; 0 if the program has reserved slots by a
/// `cur` beyond `head`.
fn free_slots(tx: &RingView) -> u32 {
    let (head, tail, n) = (tx.head(), tx.tail(), tx.num_slots());
    if head < n && tail < n && head == tx.cur() { distance(head, tail, n) } else { 0 }
}

fn add(at: SlotIdx, count: u32, n: u32) -> SlotIdx {
    (at + count) % n
}

/// Returns the number of slots from `from` to `to`.
fn distance(from: SlotIdx, to: SlotIdx, n: u32) -> u32 {
    (to + n - from) % n
}
