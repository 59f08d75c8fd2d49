//! Forwards frames between an interface and its host without a copy in the program. On an rx ring
//! with `NR_FORWARD`, each frame that the program marks with `NS_FORWARD` and gives back goes to
//! the other side. With the parameter `fwd`, all frames that the program gives back on any rx ring
//! are forwarded, marked or not.
//!
//! Frames move from an rx ring to a tx ring of the same open file, at the rx sync that would have
//! released them. Buffers are exchanged, or copied where payloads have offsets. Both sides have to
//! be bound: the host's tx rings for frames that the interface received, and all tx rings of the
//! interface for frames that the host sent. If there is no free tx slot for a frame, it is dropped:
//! its slot is released like any other.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use slipring_abi::{NR_FORWARD, NS_FORWARD};
use slipring_ring::{RingView, Slot, SlotFlags, SlotIdx};

use crate::port::adapter::Adapter;
use crate::types::parameters::Parameters;
use crate::types::shape::{AdapterShape, TxRx};

/// Forwarding between the rings of one open file.
#[derive(Debug)]
pub(crate) struct Forward {
    /// Number of the interface's rx rings; the host's rx rings follow them.
    nic_rx: usize,
    /// The bound tx rings that lead to the host. `to_nic` contains all tx rings that lead to the
    /// interface, or none unless all of them are bound.
    to_host: Range<usize>,
    to_nic: Range<usize>,
    /// For each rx ring, the first slot that was not yet checked for a mark.
    forwarded: Vec<AtomicU32>,
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
        let head = |i| port.ring(TxRx::Rx, i).map_or(0, RingView::head);
        Some(Self {
            nic_rx,
            to_host: nic_tx.max(tx.start)..tx.end.max(nic_tx.max(tx.start)),
            to_nic: if all_nic { 0..nic_tx } else { 0..0 },
            forwarded: (0..rx.end).map(|i| AtomicU32::new(head(i))).collect(),
            parameters: None,
        })
    }

    /// Sets the module parameters; the parameter `fwd` applies from now on.
    pub(crate) fn set_parameters(&mut self, parameters: &Arc<Parameters>) {
        self.parameters = Some(parameters.clone());
    }

    /// Forwards, of the frames that the program has given back on rx ring `i`, those that are
    /// marked, or all with the parameter `fwd`. Called just before the ring is synced.
    pub(crate) fn before_sync(&self, port: &dyn Adapter, i: usize) {
        let (Some(ring), Some(seen)) = (port.ring(TxRx::Rx, i), self.forwarded.get(i)) else {
            return;
        };
        let (head, n) = (ring.head(), ring.num_slots());
        if head >= n {
            return;
        }
        let from = seen.swap(head, Ordering::Relaxed);
        let all = self.parameters.as_ref().is_some_and(|one| one.forwards_between_nic_and_host());
        if from == head || from >= n || !all && ring.flags() & NR_FORWARD == 0 {
            return;
        }
        let targets = if i < self.nic_rx { &self.to_host } else { &self.to_nic };
        let mut at = from;
        while at != head {
            if all || ring.slot(at).flags.0 & NS_FORWARD != 0 {
                forward_slot(port, ring, at, targets);
            }
            at = next_slot(at, n);
        }
        for to in targets.clone() {
            // If the tx rings' port no longer exists, the program gets the error when it syncs them
            // itself.
            port.sync(TxRx::Tx, to);
        }
    }
}

/// Moves the frame in slot `at` to the first free slot of the tx rings `targets`, by exchange of
/// buffers or by a copy.
fn forward_slot(port: &dyn Adapter, ring: &RingView, at: SlotIdx, targets: &Range<usize>) {
    let slot = ring.slot(at);
    let kept = SlotFlags(slot.flags.0 & !NS_FORWARD);
    ring.set_slot(at, Slot { flags: kept, ..slot });
    let region = ring.region();
    if !region.is_usable(slot.buf) || u32::from(slot.len) > region.buf_size() {
        return;
    }
    let mut tx = targets.clone().filter_map(|to| port.ring(TxRx::Tx, to));
    let Some(tx) = tx.find(|tx| has_room(tx)) else { return };
    let to = tx.head();
    let free = tx.slot(to);
    let more = SlotFlags(slot.flags.0 & SlotFlags::MOREFRAG.0);
    if ring.offsets().is_some() || tx.offsets().is_some() {
        // An offset belongs to a slot, and the other ring may have no offsets. So the frame is
        // copied.
        let (from, slot_index) =
            ((slot.buf, ring.payload_offset(at)), (free.buf, tx.payload_offset(to)));
        let len = tx.copy(slot_index, ring, from, slot.len.into());
        tx.set_slot(to, Slot { len: len as u16, flags: more, ..free });
        return tx.advance_to(next_slot(to, tx.num_slots()));
    }
    tx.set_slot(to, Slot { flags: more | SlotFlags::BUF_CHANGED, ..slot });
    ring.set_slot(at, Slot { buf: free.buf, flags: kept | SlotFlags::BUF_CHANGED, ..slot });
    tx.advance_to(next_slot(to, tx.num_slots()));
}

/// Returns whether the tx slot at `head` is free, and the program has not reserved slots by a `cur`
/// beyond `head`.
fn has_room(tx: &RingView) -> bool {
    let (head, n) = (tx.head(), tx.num_slots());
    head < n && head != tx.tail() && head == tx.cur()
}

fn next_slot(i: SlotIdx, n: u32) -> SlotIdx {
    if i + 1 == n { 0 } else { i + 1 }
}
