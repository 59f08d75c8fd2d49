//! One running virtqueue (split, virtio 1.2 section 2.7): chains that the guest offers, and those
//! that it gets back.
//!
//! Chains are walked in [`crate::chain`]. What is given back is published once for a batch: a frame
//! over several chains must not be seen half, and a store per frame would cost the guest's
//! processor a cache line each.
//!
//! Where the queue lies is looked up once for a batch, not for each access.

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

/// Most descriptors of a queue: its indices have 16 bits.
const MAX_QUEUE_SIZE: u16 = 32_768;

/// The guest broke the rules of its queue, which is stopped.
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

/// Where a queue lies, in the guest's addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VirtqLayout {
    /// Descriptors that it has room for; a power of two.
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

    /// Byte in the avail ring where the guest says which chain it wants to be told of.
    fn used_event(&self) -> usize {
        4 + 2 * usize::from(self.size)
    }

    /// Byte in the used ring where it is told which chain we want to be told of.
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

/// What was agreed with the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NegotiatedFeatures {
    /// Notifications are asked for by index.
    pub(crate) event_idx: bool,
    /// A frame may lie in several chains.
    pub(crate) mergeable: bool,
    /// Bytes of the virtio-net header before each frame: 10 or 12.
    pub(crate) header: usize,
}

/// A chain that is given back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UsedElem {
    /// Its first descriptor.
    pub(crate) head: u16,
    /// Bytes that were written to it.
    pub(crate) len: u32,
}

/// The queue.
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

/// What a batch of chains is worked on with.
pub(crate) struct AvailChains<'v> {
    pub(crate) memory: &'v GuestMemoryMmap,
    pub(crate) negotiated: NegotiatedFeatures,
    /// Those to be given back.
    pub(crate) used: &'v mut Vec<UsedElem>,
    table: VolatileSlice<'v>,
    avail: VolatileSlice<'v>,
    size: u16,
    next: &'v mut Wrapping<u16>,
    /// Behind the last on offer, as of the start of the batch.
    end: Wrapping<u16>,
}

impl<'v> AvailChains<'v> {
    /// Takes the next chain.
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

    /// Leaves the last `count` chains for another time.
    pub(crate) fn unpop(&mut self, count: u16) {
        *self.next -= count;
    }
}

impl Vring {
    /// A queue that goes on at `base`.
    pub(crate) fn new(
        place: VirtqLayout,
        memory: GuestMapping,
        base: u16,
        agreed: NegotiatedFeatures,
        call: Option<Arc<OwnedFd>>,
    ) -> Result<Self, QueueViolation> {
        if !place.is_aligned() {
            return Err(QueueViolation);
        }
        place.table(&memory)?;
        place.avail(&memory)?;
        let next_used = place.used(&memory)?.load::<u16>(2, Ordering::Acquire)?;
        let (next_avail, next_used) = (Wrapping(base), Wrapping(u16::from_le(next_used)));
        let done = Vec::with_capacity(place.size.into());
        let seen = next_avail;
        let mut vring = Self {
            layout: place,
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

    /// The first chain that was not taken.
    pub(crate) fn base(&self) -> u16 {
        self.next_avail.0
    }

    /// How many chains the guest had offered in all when the last batch began.
    pub(crate) fn last_avail(&self) -> u16 {
        self.last_avail.0
    }

    fn avail_index(&self) -> Result<Wrapping<u16>, QueueViolation> {
        let offered = self.layout.avail(&self.memory)?.load::<u16>(2, Ordering::Acquire)?;
        let offered = Wrapping(u16::from_le(offered));
        // No more than the queue has descriptors, or a chain would be offered twice.
        let right = (offered - self.next_avail).0 <= self.layout.size;
        if right { Ok(offered) } else { Err(QueueViolation) }
    }

    /// Begins a batch, which [`Self::settle`] ends.
    pub(crate) fn chains(&mut self) -> Result<AvailChains<'_>, QueueViolation> {
        self.last_avail = self.avail_index()?;
        let (memory, place) = (&*self.memory, self.layout);
        Ok(AvailChains {
            memory,
            negotiated: self.negotiated,
            used: &mut self.used,
            table: place.table(memory)?,
            avail: place.avail(memory)?,
            size: place.size,
            next: &mut self.next_avail,
            end: self.last_avail,
        })
    }

    /// Gives back what the batch is done with, and tells the guest if it wants to be told.
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
        // Release: the guest sees what was written before it sees that it is done.
        used.store(self.next_used.0.to_le(), 2, Ordering::Release)?;
        if self.needs_call(old)? {
            self.signal_used();
        }
        Ok(())
    }

    /// Whether the guest wants to hear of what was given back since `old`.
    fn needs_call(&self, old: Wrapping<u16>) -> Result<bool, QueueViolation> {
        // The guest first asks and then looks; we first give back and then look.
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
            // A counter that is full has told already.
            let _ = rustix::io::write(call, &1u64.to_ne_bytes());
        }
    }

    /// Asks for a notification as soon as there are more chains than now; how many the guest has
    /// offered in all, looked at after that.
    pub(crate) fn enable_notification(&mut self) -> Result<u16, QueueViolation> {
        match self.negotiated.event_idx {
            true => self.set_event(self.avail_index()?.0)?,
            false => self.set_flags(0)?,
        }
        // We first ask and then look; the guest first offers and then looks.
        fence(Ordering::SeqCst);
        Ok(self.avail_index()?.0)
    }

    /// Asks for no more notifications.
    pub(crate) fn disable_notification(&mut self) -> Result<(), QueueViolation> {
        match self.negotiated.event_idx {
            // Behind us, where the guest does not come by before it has offered 65536 more.
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
