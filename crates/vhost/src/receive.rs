//! Copies frames from the guest's transmit queue to rx slots.

use slipring_port::{DropCause, QueueCounters, TrafficCounts};
use slipring_ring::{KernRing, SharedBuf, SlotFlags};
use virtio_bindings::bindings::virtio_net::{VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_NONE};
use vm_memory::GuestMemoryMmap;

use crate::chain::{DescriptorChain, read};
use crate::vring::{QueueViolation, UsedElem, Vring};

/// Minimum length of a frame in bytes: the length of an Ethernet header.
const MIN_FRAME_LEN: usize = 14;
/// Maximum length of the virtio-net header in bytes.
const MAX_HEADER_LEN: usize = 12;

/// Receives frames, at most one per free slot. Returns their chains to the guest.
pub(crate) fn receive(
    vring: &mut Vring,
    ring: &mut KernRing,
    counters: &QueueCounters,
    scratch: &mut Vec<u8>,
) -> Result<(), QueueViolation> {
    let (mut at, mut room) = (ring.hwtail(), ring.free_slots());
    let mut sum = TrafficCounts::default();
    let mut chains = vring.chains()?;
    let header = chains.negotiated.header;
    while room > 0
        && let Some(chain) = chains.pop()?
    {
        chains.used.push(UsedElem { head: chain.head, len: 0 });
        match take_frame(chains.memory, chain, header, scratch, ring.buffer(at)) {
            Ok(len) => {
                ring.set(at, len as u16, SlotFlags::default());
                (at, room) = (ring.next(at), room - 1);
                sum += TrafficCounts { packets: 1, bytes: len as u64 };
            }
            Err(cause) => counters.dropped(cause, 1),
        }
    }
    ring.set_tail(at);
    counters.received(sum);
    vring.publish_used()
}

/// Copies the frame in a chain, and returns its length. The copy goes through `scratch`, because
/// other processes may write to the guest's memory and to the ring's buffers.
fn take_frame(
    memory: &GuestMemoryMmap,
    mut chain: DescriptorChain<'_>,
    header: usize,
    scratch: &mut Vec<u8>,
    into: SharedBuf<'_>,
) -> Result<usize, DropCause> {
    let mut head = [0; MAX_HEADER_LEN];
    let (mut headed, mut filled) = (0, 0);
    scratch.resize(into.len(), 0);
    for part in chain.by_ref() {
        if part.is_writable {
            return Err(DropCause::RxMalformed);
        }
        let of_head = part.len.min(header - headed);
        if of_head > 0 {
            let wanted = &mut head[headed..headed + of_head];
            read(memory, part.at, wanted).ok_or(DropCause::RxMalformed)?;
            headed += of_head;
        }
        let of_frame = part.len - of_head;
        if of_frame > 0 {
            let to = scratch.get_mut(filled..filled + of_frame).ok_or(DropCause::RxTooLong)?;
            let from = part.at.checked_add(of_head as u64).ok_or(DropCause::RxMalformed)?;
            read(memory, from, to).ok_or(DropCause::RxMalformed)?;
            filled += of_frame;
        }
    }
    let whole = chain.is_whole() && headed == header && filled >= MIN_FRAME_LEN;
    if !whole || !needs_no_offload(head) {
        return Err(DropCause::RxMalformed);
    }
    into.copy_in(&scratch[..filled]);
    Ok(filled)
}

/// Returns whether the frame's header requests no offload. A guest must not request an offload,
/// because the port has offered none.
fn needs_no_offload(head: [u8; MAX_HEADER_LEN]) -> bool {
    u32::from(head[0]) & VIRTIO_NET_HDR_F_NEEDS_CSUM == 0
        && u32::from(head[1]) == VIRTIO_NET_HDR_GSO_NONE
}
