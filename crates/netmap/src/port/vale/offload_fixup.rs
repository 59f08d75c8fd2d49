//! Performs the offloads that a virtio-net header requests, for a receiver that gets no header, or
//! a header of another length.
//!
//! A sender of virtio-net headers may leave checksums unfinished and send 64 KiB as one frame. A
//! receiver without the header could not know that the frame is unfinished.

use slipring_ring::RingView;
use slipring_switch::TagAction;
use slipring_wire::offload::{Segmenter, VnetForm, VnetHeader, complete_at};

use crate::port::slot_snapshot::SlotSnapshot;

/// The maximum number of segments of a frame: about twice as many as 64 KiB take with the IPv4
/// default of 536 bytes per segment.
const MAX_SEGMENTS: usize = 256;
/// Bytes of both MAC addresses.
const MAC_ADDRESSES_LEN: usize = 12;
const VLAN_TAG_LEN: usize = 4;

/// Converts one frame of the sender to the frames that the receiver gets, each after the receiver's
/// header, if it expects one; `None` on failure. `from` and `to` are the lengths of the sender's
/// and the receiver's virtio-net headers.
pub(crate) fn apply_offloads(
    ring: &RingView,
    slots: &[SlotSnapshot],
    tag: TagAction,
    (from, to): (usize, usize),
) -> Option<Vec<Vec<u8>>> {
    let mut bytes = gather_frame(ring, slots);
    let header = VnetHeader::parse(&bytes, VnetForm::from_len(from)?).ok()?;
    bytes.drain(..from);
    if to > 0 {
        // The receiver gets the header, and performs the requested offloads itself.
        let header = header.encode();
        bytes.splice(..0, header.get(..to)?.iter().copied());
        return Some(vec![retag(bytes, to, tag)?]);
    }
    let frames = match header.gso().ok()? {
        Some(gso) => {
            let mut segments = Segmenter::new(&bytes, gso).ok()?;
            let count = Some(segments.remaining()).filter(|count| *count <= MAX_SEGMENTS)?;
            let mut frames = Vec::with_capacity(count);
            while let Some((head, payload)) = segments.next_segment() {
                frames.push([head, payload].concat());
            }
            frames
        }
        None => {
            if header.needs_checksum() {
                complete_at(&mut bytes, header.csum_start, header.csum_offset).ok()?;
            }
            vec![bytes]
        }
    };
    frames.into_iter().map(|frame| retag(frame, 0, tag)).collect()
}

fn gather_frame(ring: &RingView, slots: &[SlotSnapshot]) -> Vec<u8> {
    let mut bytes = vec![0; slots.iter().map(|slot| usize::from(slot.len)).sum()];
    let mut filled = 0;
    for slot in slots {
        let end = filled + usize::from(slot.len);
        slot.copy_out(ring, &mut bytes[filled..end]);
        filled = end;
    }
    bytes
}

/// Changes the tag of the frame that begins at byte `at`; `None` if the frame is too short.
fn retag(mut frame: Vec<u8>, at: usize, tag: TagAction) -> Option<Vec<u8>> {
    let at = at + MAC_ADDRESSES_LEN;
    let old = |frame: &[u8]| frame.get(at..at + VLAN_TAG_LEN)?.first_chunk().copied();
    match tag {
        TagAction::Keep => {}
        TagAction::Remove => drop(frame.drain(at..at + old(&frame).map(|_| VLAN_TAG_LEN)?)),
        TagAction::Insert(id) => {
            let new = u32::from(id) | 0x8100 << 16;
            frame.get(at..)?;
            frame.splice(at..at, new.to_be_bytes());
        }
        TagAction::Replace(id) => {
            let new = u32::from_be_bytes(old(&frame)?) & !0xfff | u32::from(id);
            frame.get_mut(at..at + VLAN_TAG_LEN)?.copy_from_slice(&new.to_be_bytes());
        }
    }
    Some(frame)
}
