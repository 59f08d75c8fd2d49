//! Frames that a program passes on between an interface and its host without touching them: on a
//! ring with `NR_FORWARD`, those that it marks `NS_FORWARD` and gives back go to the other side. With
//! the parameter `fwd` all do, on all rings.
//!
//! They move by exchange of buffers, or as copies where payloads have offsets, from an rx ring to a
//! tx ring of the same open, at the rx sync that would have let them go. So both have to be bound:
//! the host's tx rings for what the interface received, and all tx rings of the interface for what
//! the host sent. A frame for which there is no room is lost, as it would have been with the mark
//! forgotten.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use slipring_abi::{NR_FORWARD, NS_FORWARD};
use slipring_ring::{RingView, Slot, SlotFlags, SlotIdx};

use crate::port::adapter::Adapter;
use crate::types::parameters::Parameters;
use crate::types::shape::{AdapterShape, TxRx};

/// What passes between the rings of one open.
#[derive(Debug)]
pub(crate) struct Forward {
    /// Rx rings of the interface; those of the host have the numbers behind.
    nic_rx: usize,
    /// Tx rings that lead to the host, and those of the interface.
    to_host: Range<usize>,
    to_nic: Range<usize>,
    /// For each rx ring, the first slot that was not looked at yet.
    forwarded: Vec<AtomicU32>,
    /// Whose parameter `fwd` says whether all frames pass, marked or not.
    parameters: Option<Arc<Parameters>>,
}

impl Forward {
    /// For a port that has a host, with these rings bound.
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

    /// Heeds `fwd` from now on.
    pub(crate) fn set_parameters(&mut self, parameters: &Arc<Parameters>) {
        self.parameters = Some(parameters.clone());
    }

    /// Passes on what the program has given back of rx ring `i`, which is synced next.
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
            // A side that is gone is told to the program when it syncs that side.
            port.sync(TxRx::Tx, to);
        }
    }
}

/// Exchanges the buffers of slot `at` and of the first tx slot that is free.
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
        // An offset belongs to its slot, and the other one may have none.
        let (from, place) =
            ((slot.buf, ring.payload_offset(at)), (free.buf, tx.payload_offset(to)));
        let len = tx.copy(place, ring, from, slot.len.into());
        tx.set_slot(to, Slot { len: len as u16, flags: more, ..free });
        return tx.advance_to(next_slot(to, tx.num_slots()));
    }
    tx.set_slot(to, Slot { flags: more | SlotFlags::BUF_CHANGED, ..slot });
    ring.set_slot(at, Slot { buf: free.buf, flags: kept | SlotFlags::BUF_CHANGED, ..slot });
    tx.advance_to(next_slot(to, tx.num_slots()));
}

/// Whether the next slot is free, and the program holds none back (`cur` beyond `head`).
fn has_room(tx: &RingView) -> bool {
    let (head, n) = (tx.head(), tx.num_slots());
    head < n && head != tx.tail() && head == tx.cur()
}

fn next_slot(i: SlotIdx, n: u32) -> SlotIdx {
    if i + 1 == n { 0 } else { i + 1 }
}
