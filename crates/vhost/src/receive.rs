//! Frames of the guest: from its transmit queue into rx slots.

use slipring_port::{Counters, DropCause, Traffic};
use slipring_ring::{KernRing, Slot, SlotFlags};
use virtio_bindings::bindings::virtio_net::{VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_NONE};
use virtio_queue::DescriptorChain;
use vm_memory::{Address, Bytes, GuestMemoryMmap};

use crate::vring::{Broken, Done, MAX_PARTS, Vring};

/// The shortest frame, in bytes: a bare Ethernet header.
const MIN_FRAME: usize = 14;
/// The longest header.
const HEADER: usize = 12;

/// Takes as many frames as there are slots for; the guest gets their chains back.
pub(crate) fn receive(
    vring: &mut Vring,
    ring: &mut KernRing,
    counters: &Counters,
) -> Result<(), Broken> {
    let (mut at, mut room) = (ring.hwtail(), ring.room());
    let mut sum = Traffic::default();
    let mut chains = vring.chains()?;
    let header = chains.agreed.header;
    while room > 0
        && let Some(chain) = chains.offered.next()
    {
        chains.done.push(Done { head: chain.head_index(), len: 0 });
        match take_frame(chains.memory, chain, header, ring.buffer(at)) {
            Ok(len) => {
                let slot = ring.slot(at);
                ring.set_slot(at, Slot { len: len as u16, flags: SlotFlags::default(), ..slot });
                (at, room) = (ring.next(at), room - 1);
                sum += Traffic { packets: 1, bytes: len as u64 };
            }
            Err(cause) => counters.dropped(cause, 1),
        }
    }
    ring.set_tail(at);
    counters.received(sum);
    vring.settle()
}

/// Copies the frame of one chain; its length.
fn take_frame(
    memory: &GuestMemoryMmap,
    mut chain: DescriptorChain<&GuestMemoryMmap>,
    header: usize,
    into: &mut [u8],
) -> Result<usize, DropCause> {
    let mut head = [0; HEADER];
    let (mut headed, mut filled, mut goes_on) = (0, 0, true);
    for part in chain.by_ref().take(MAX_PARTS) {
        if part.is_write_only() {
            return Err(DropCause::RxMalformed);
        }
        let len = part.len() as usize;
        let of_head = len.min(header - headed);
        if of_head > 0 {
            let wanted = &mut head[headed..headed + of_head];
            memory.read_slice(wanted, part.addr()).map_err(|_| DropCause::RxMalformed)?;
            headed += of_head;
        }
        let of_frame = len - of_head;
        if of_frame > 0 {
            let to = into.get_mut(filled..filled + of_frame).ok_or(DropCause::RxTooLong)?;
            let from = part.addr().checked_add(of_head as u64).ok_or(DropCause::RxMalformed)?;
            memory.read_slice(to, from).map_err(|_| DropCause::RxMalformed)?;
            filled += of_frame;
        }
        goes_on = part.has_next();
    }
    // A walk that ends before the chain does has met a bad part, or too many.
    let whole = !goes_on && headed == header && filled >= MIN_FRAME;
    if whole && is_finished(head) { Ok(filled) } else { Err(DropCause::RxMalformed) }
}

/// Whether the guest did what it was not offered to leave undone.
fn is_finished(head: [u8; HEADER]) -> bool {
    u32::from(head[0]) & VIRTIO_NET_HDR_F_NEEDS_CSUM == 0
        && u32::from(head[1]) == VIRTIO_NET_HDR_GSO_NONE
}
