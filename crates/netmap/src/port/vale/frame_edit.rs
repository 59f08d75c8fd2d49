//! The changes to a frame on its way through a switch: its VLAN tag, its virtio-net header, and its
//! division into slots, which differs if the beginning of the frame gets longer or the sizes of
//! buffers differ.
//!
//! ```text
//!   source    | vnet | addresses | tag? | ...
//!   copy      |    head (ours)   | from `skip` on ...
//! ```
//! The first bytes after the head go into the head's slot. Each later slot of the source begins a
//! new slot of the copy.

use slipring_ring::RingView;
use slipring_switch::TagAction;

use crate::port::slot_snapshot::SlotSnapshot;
use crate::port::vale::frames::MAX_VNET_HEADER_LEN;

/// Bytes of both MAC addresses.
const MAC_ADDRESSES_LEN: usize = 12;
const VLAN_TAG_LEN: usize = 4;
const MAX_HEAD_LEN: usize = MAX_VNET_HEADER_LEN + MAC_ADDRESSES_LEN + VLAN_TAG_LEN;

/// The bytes with which the copy of a frame begins, and the offset in the source from which the
/// rest is copied.
#[derive(Debug)]
pub(crate) struct FrameEdit {
    head: [u8; MAX_HEAD_LEN],
    head_len: usize,
    skip: usize,
}

/// A range of bytes to copy.
pub(crate) struct CopyPart {
    /// Number of the slot in the copy; `at` is where in that slot the bytes go.
    pub(crate) slot: u32,
    pub(crate) at: usize,
    /// The slot of the source from which the bytes are copied; `from_at` is where in that slot they
    /// begin.
    pub(crate) from: SlotSnapshot,
    pub(crate) from_at: usize,
    pub(crate) len: usize,
}

impl FrameEdit {
    /// Builds the changes for a VLAN tag and for the lengths of the virtio-net header: `vnet.0`
    /// bytes in the source, `vnet.1` in the copy. The two lengths are equal, or one of them is 0.
    pub(crate) fn new(
        ring: &RingView,
        slots: &[SlotSnapshot],
        tag: TagAction,
        vnet: (usize, usize),
    ) -> Self {
        let mut edit = Self { head: [0; MAX_HEAD_LEN], head_len: 0, skip: 0 };
        if tag == TagAction::Keep && vnet.0 == vnet.1 {
            return edit;
        }
        let source = first_bytes(ring, slots);
        // If the source has no header, the copy gets a header of zeros, which requests nothing.
        if vnet.0 == vnet.1 {
            edit.head[..vnet.0].copy_from_slice(&source[..vnet.0]);
        }
        (edit.head_len, edit.skip) = (vnet.1, vnet.0);
        if tag != TagAction::Keep {
            edit.retag(&source[vnet.0..], tag);
        }
        edit
    }

    fn retag(&mut self, frame: &[u8], tag: TagAction) {
        let (at, old) =
            (self.head_len, &frame[MAC_ADDRESSES_LEN..MAC_ADDRESSES_LEN + VLAN_TAG_LEN]);
        self.head[at..at + MAC_ADDRESSES_LEN].copy_from_slice(&frame[..MAC_ADDRESSES_LEN]);
        self.head_len += MAC_ADDRESSES_LEN;
        self.skip += MAC_ADDRESSES_LEN;
        let new = match tag {
            TagAction::Keep => return,
            TagAction::Remove => {
                self.skip += VLAN_TAG_LEN;
                return;
            }
            TagAction::Insert(id) => u32::from(id) | 0x8100 << 16,
            TagAction::Replace(id) => {
                self.skip += VLAN_TAG_LEN;
                let old = u32::from_be_bytes([old[0], old[1], old[2], old[3]]);
                old & !0xfff | u32::from(id)
            }
        };
        self.head[self.head_len..self.head_len + VLAN_TAG_LEN].copy_from_slice(&new.to_be_bytes());
        self.head_len += VLAN_TAG_LEN;
    }

    /// Returns the bytes with which the copy begins, before the bytes that are copied from the
    /// source; `None` if there are none.
    pub(crate) fn head(&self) -> Option<&[u8]> {
        (self.head_len > 0).then(|| &self.head[..self.head_len])
    }

    /// Returns the number of slots of the copy, with buffers of `size` bytes.
    pub(crate) fn slots(&self, slots: &[SlotSnapshot], size: usize) -> u32 {
        let mut last = 0;
        self.each_part(slots, size, |part| last = part.slot);
        last + 1
    }

    /// Visits each slot of the copy with its length.
    pub(crate) fn each_len(
        &self,
        slots: &[SlotSnapshot],
        size: usize,
        mut see: impl FnMut(u32, usize),
    ) {
        let (mut slot, mut len) = (0, self.head_len);
        self.each_part(slots, size, |part| {
            if part.slot != slot {
                see(slot, len);
                (slot, len) = (part.slot, 0);
            }
            len += part.len;
        });
        see(slot, len);
    }

    /// Visits the ranges to copy, in order.
    pub(crate) fn each_part(
        &self,
        slots: &[SlotSnapshot],
        size: usize,
        mut see: impl FnMut(CopyPart),
    ) {
        let (mut slot, mut at, mut skip) = (0, self.head_len, self.skip);
        // The first bytes after the head go into the same slot as the head.
        let mut begins = false;
        for &from in slots {
            let mut from_at = skip.min(from.len.into());
            skip -= from_at;
            if begins && from_at < from.len.into() {
                (slot, at) = (slot + 1, 0);
            }
            while from_at < from.len.into() {
                if at == size {
                    (slot, at) = (slot + 1, 0);
                }
                let len = (usize::from(from.len) - from_at).min(size - at);
                see(CopyPart { slot, at, from, from_at, len });
                (at, from_at, begins) = (at + len, from_at + len, true);
            }
        }
    }
}

/// Returns the first bytes of a frame, which may be spread over several slots; zeros after the end
/// of the frame.
fn first_bytes(ring: &RingView, slots: &[SlotSnapshot]) -> [u8; MAX_HEAD_LEN] {
    let (mut bytes, mut filled) = ([0; MAX_HEAD_LEN], 0);
    for slot in slots {
        let len = (MAX_HEAD_LEN - filled).min(slot.len.into());
        slot.copy_out(ring, &mut bytes[filled..filled + len]);
        filled += len;
    }
    bytes
}
