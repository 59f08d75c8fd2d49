//! A running virtqueue (split, virtio 1.2 section 2.7). It takes the chains that the guest offers,
//! and returns them to the guest.
//!
//! [`crate::chain`] walks along chains. Used chains are published once per batch. The reason is
//! that the guest must never see only some of the chains of a frame. Also, a store per frame would
//! cause a cache miss on the guest's processor each time.
//!
//! The addresses of the queue are translated once per batch, not at each access.

use std::num::Wrapping;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use virtio_bindings::bindings::virtio_ring::{VRING_AVAIL_F_NO_INTERRUPT, VRING_USED_F_NO_NOTIFY};
use vm_memory::{
    Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, VolatileMemory, VolatileSlice,
};

use crate::chain::DescriptorChain;
use crate::memory::GuestMapping;

/// Maximum number of descriptors of a queue. Its indices have 16 bits.
const MAX_QUEUE_SIZE: u16 = 32_768;

/// The guest has violated the rules of its queue. The queue is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueViolation;

impl From<vm_memory::VolatileMemoryError> for QueueViolation {
    fn from(_: vm_memory::VolatileMemoryError) -> Self {
        Self
    }
}

impl From<vm_memory::GuestMemoryError> for QueueViolation {
    fn from(_: vm_memory::GuestMemoryError) -> Self {
        Self
    }
}

/// The size of a queue, and the addresses of its parts in the guest's address space.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VirtqLayout {
    /// Number of descriptors. It is a power of two.
    pub(crate) size: u16,
    pub(crate) descriptors: GuestAddress,
    pub(crate) avail: GuestAddress,
    pub(crate) used: GuestAddress,
}

impl VirtqLayout {
    fn is_aligned(&self) -> bool {
        let Self { size, descriptors, avail, used } = *self;
        let aligned = descriptors.0 % 16 == 0 && avail.0 % 2 == 0 && used.0 % 4 == 0;
        size.is_power_of_two() && size <= MAX_QUEUE_SIZE && aligned
    }

    /// Returns the offset of `used_event` in the avail ring. With it, the guest requests
    /// notifications.
    fn used_event(&self) -> usize {
        4 + 2 * usize::from(self.size)
    }

    /// Returns the offset of `avail_event` in the used ring. With it, the device requests
    /// notifications.
    fn avail_event(&self) -> usize {
        4 + 8 * usize::from(self.size)
    }

    fn table<'m>(&self, memory: &'m GuestMemoryMmap) -> Result<VolatileSlice<'m>, QueueViolation> {
        Ok(memory.get_slice(self.descriptors, 16 * usize::from(self.size))?)
    }

    fn avail<'m>(&self, memory: &'m GuestMemoryMmap) -> Result<VolatileSlice<'m>, QueueViolation> {
        Ok(memory.get_slice(self.avail, self.used_event() + 2)?)
    }

    fn used<'m>(&self, memory: &'m GuestMemoryMmap) -> Result<VolatileSlice<'m>, QueueViolation> {
        Ok(memory.get_slice(self.used, self.avail_event() + 2)?)
    }
}

/// The features on which the device and the guest have agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NegotiatedFeatures {
    /// Whether notifications are requested by index (VIRTIO_RING_F_EVENT_IDX).
    pub(crate) event_idx: bool,
    /// Whether a frame may span several chains (VIRTIO_NET_F_MRG_RXBUF).
    pub(crate) mergeable: bool,
    /// Length of the virtio-net header in front of each frame: 10 or 12 bytes.
    pub(crate) header: usize,
}

/// A chain that must be returned to the guest (`struct virtq_used_elem`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct UsedElem {
    /// Index of the chain's first descriptor.
    pub(crate) head: u16,
    /// Number of bytes written to the chain.
    pub(crate) len: u32,
}

/// A running queue.
#[derive(Debug)]
pub(crate) struct Vring {
    layout: VirtqLayout,
    memory: GuestMapping,
    call: Option<Arc<OwnedFd>>,
    negotiated: NegotiatedFeatures,
    next_avail: Wrapping<u16>,
    next_used: Wrapping<u16>,
    last_avail: Wrapping<u16>,
    used: Vec<UsedElem>,
}

/// The chains that the guest offers, for one batch.
pub(crate) struct AvailChains<'v> {
    pub(crate) memory: &'v GuestMemoryMmap,
    pub(crate) negotiated: NegotiatedFeatures,
    /// Chains to be returned to the guest at the end of the batch.
    pub(crate) used: &'v mut Vec<UsedElem>,
    table: VolatileSlice<'v>,
    avail: VolatileSlice<'v>,
    size: u16,
    next: &'v mut Wrapping<u16>,
    /// The guest's avail index at the start of the batch. It is one past the last chain that is
    /// offered.
    end: Wrapping<u16>,
}

impl<'v> AvailChains<'v> {
    /// Takes the next chain; `None` if there is none.
    #[inline]
    pub(crate) fn pop(&mut self) -> Result<Option<DescriptorChain<'v>>, QueueViolation> {
        if *self.next == self.end {
            return Ok(None);
        }
        let at = 4 + 2 * usize::from(self.next.0 % self.size);
        let head = u16::from_le(self.avail.get_ref::<u16>(at)?.load());
        *self.next += 1;
        Ok(Some(DescriptorChain::new(self.memory, self.table, head)))
    }

    /// Number of descriptors of the queue.
    pub(crate) fn size(&self) -> usize {
        self.size.into()
    }

    /// Puts the last `count` chains back. They will be taken again.
    pub(crate) fn unpop(&mut self, count: u16) {
        *self.next -= count;
    }
}

impl Vring {
    /// Creates a queue whose next chain has the avail index `base`.
    pub(crate) fn new(
        layout: VirtqLayout,
        memory: GuestMapping,
        base: u16,
        agreed: NegotiatedFeatures,
        call: Option<Arc<OwnedFd>>,
    ) -> Result<Self, QueueViolation> {
        if !layout.is_aligned() {
            return Err(QueueViolation);
        }
        layout.table(&memory)?;
        layout.avail(&memory)?;
        let next_used = layout.used(&memory)?.load::<u16>(2, Ordering::Acquire)?;
        let (next_avail, next_used) = (Wrapping(base), Wrapping(u16::from_le(next_used)));
        let done = Vec::with_capacity(layout.size.into());
        let seen = next_avail;
        let mut vring = Self {
            layout,
            memory,
            call,
            negotiated: agreed,
            next_avail,
            next_used,
            last_avail: seen,
            used: done,
        };
        vring.disable_notification()?;
        Ok(vring)
    }

    /// Returns the avail index of the chain that will be taken next.
    pub(crate) fn base(&self) -> u16 {
        self.next_avail.0
    }

    /// Returns the guest's avail index at the start of the last batch.
    pub(crate) fn last_avail(&self) -> u16 {
        self.last_avail.0
    }

    fn avail_index(&self) -> Result<Wrapping<u16>, QueueViolation> {
        let offered = self.layout.avail(&self.memory)?.load::<u16>(2, Ordering::Acquire)?;
        let offered = Wrapping(u16::from_le(offered));
        // The guest cannot offer more chains than the queue has descriptors.
        let right = (offered - self.next_avail).0 <= self.layout.size;
        if right { Ok(offered) } else { Err(QueueViolation) }
    }

    /// Begins a batch, which [`Self::publish_used`] ends.
    pub(crate) fn chains(&mut self) -> Result<AvailChains<'_>, QueueViolation> {
        self.last_avail = self.avail_index()?;
        let (memory, layout) = (&*self.memory, self.layout);
        Ok(AvailChains {
            memory,
            negotiated: self.negotiated,
            used: &mut self.used,
            table: layout.table(memory)?,
            avail: layout.avail(memory)?,
            size: layout.size,
            next: &mut self.next_avail,
            end: self.last_avail,
        })
    }

    /// Publishes the used chains of the batch. If the guest has requested a notification, sends it.
    pub(crate) fn publish_used(&mut self) -> Result<(), QueueViolation> {
        if self.used.is_empty() {
            return Ok(());
        }
        let (old, size) = (self.next_used, self.layout.size);
        let used = self.layout.used(&self.memory)?;
        for UsedElem { head, len } in self.used.drain(..) {
            let element = u64::from(head) | u64::from(len) << 32;
            let at = 4 + 8 * usize::from(self.next_used.0 % size);
            used.get_ref::<u64>(at)?.store(element.to_le());
            self.next_used += 1;
        }
        // Release: the guest sees the data before it sees the new index.
        used.store(self.next_used.0.to_le(), 2, Ordering::Release)?;
        if self.needs_call(old)? {
            self.signal_used();
        }
        Ok(())
    }

    /// Returns whether the guest wants to be notified of the chains that were returned since the
    /// used index was `old`.
    fn needs_call(&self, old: Wrapping<u16>) -> Result<bool, QueueViolation> {
        // This is paired with the guest's barrier. The guest writes its request, and then reads the
        // used index. The device has written the used index, and now reads the request. So at least
        // one of them sees what the other has written.
        fence(Ordering::SeqCst);
        let avail = self.layout.avail(&self.memory)?;
        if !self.negotiated.event_idx {
            let flags = u16::from_le(avail.load(0, Ordering::Relaxed)?);
            return Ok(u32::from(flags) & VRING_AVAIL_F_NO_INTERRUPT == 0);
        }
        let event = avail.load(self.layout.used_event(), Ordering::Relaxed)?;
        let event = Wrapping(u16::from_le(event));
        Ok(self.next_used - event - Wrapping(1) < self.next_used - old)
    }

    fn signal_used(&self) {
        if let Some(call) = &self.call {
            // If the counter is full, the guest is notified anyway.
            let _ = rustix::io::write(call, &1u64.to_ne_bytes());
        }
    }

    /// Requests a notification from the guest for when it offers more chains. Returns the avail
    /// index, which is read after the request.
    pub(crate) fn enable_notification(&mut self) -> Result<u16, QueueViolation> {
        match self.negotiated.event_idx {
            true => self.set_event(self.avail_index()?.0)?,
            false => self.set_flags(0)?,
        }
        // This is paired with the guest's barrier. The device writes its request, and then reads
        // the avail index. The guest writes the avail index, and then reads the request. So at
        // least one of them sees what the other has written.
        fence(Ordering::SeqCst);
        Ok(self.avail_index()?.0)
    }

    /// Ends the request for notifications.
    pub(crate) fn disable_notification(&mut self) -> Result<(), QueueViolation> {
        match self.negotiated.event_idx {
            // Event indices cannot turn notifications off. So a notification is requested for the
            // index before the next one, which the guest reaches only after 65536 more chains.
            true => self.set_event(self.base().wrapping_sub(1)),
            false => self.set_flags(VRING_USED_F_NO_NOTIFY as u16),
        }
    }

    fn set_flags(&mut self, flags: u16) -> Result<(), QueueViolation> {
        Ok(self.layout.used(&self.memory)?.store(flags.to_le(), 0, Ordering::Relaxed)?)
    }

    fn set_event(&mut self, index: u16) -> Result<(), QueueViolation> {
        let used = self.layout.used(&self.memory)?;
        Ok(used.store(index.to_le(), self.layout.avail_event(), Ordering::Relaxed)?)
    }
}
