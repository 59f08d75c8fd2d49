//! One running virtqueue: chains that the guest offers, and those that it gets back.
//!
//! The walk over chains is virtio-queue's. What is given back is published here, once for a batch:
//! a frame over several chains must not be seen half, and a store per frame would cost the guest's
//! processor a cache line each.

use std::num::Wrapping;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use virtio_bindings::bindings::virtio_ring::{VRING_AVAIL_F_NO_INTERRUPT, VRING_USED_F_NO_NOTIFY};
use virtio_queue::{AvailIter, Queue, QueueOwnedT, QueueT};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

use crate::memory::Mapped;

/// Most parts of one chain that are looked at: a Linux guest's have 19 at most.
pub(crate) const MAX_PARTS: usize = 64;

/// The guest broke the rules of its queue, which is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken;

impl From<virtio_queue::Error> for Broken {
    fn from(_: virtio_queue::Error) -> Self {
        Self
    }
}

impl From<vm_memory::GuestMemoryError> for Broken {
    fn from(_: vm_memory::GuestMemoryError) -> Self {
        Self
    }
}

/// Where a queue lies, in the guest's addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Descriptors that it has room for.
    pub(crate) size: u16,
    pub(crate) descriptors: GuestAddress,
    pub(crate) avail: GuestAddress,
    pub(crate) used: GuestAddress,
}

/// What was agreed with the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// Notifications are asked for by index.
    pub(crate) event_idx: bool,
    /// A frame may lie in several chains.
    pub(crate) mergeable: bool,
    /// Bytes of the virtio-net header before each frame: 10 or 12.
    pub(crate) header: usize,
}

/// A chain that is given back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    /// Its first descriptor.
    pub(crate) head: u16,
    /// Bytes that were written to it.
    pub(crate) len: u32,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Vring {
    queue: Queue,
    place: Place,
    memory: Mapped,
    call: Option<Arc<OwnedFd>>,
    agreed: Agreed,
    next_used: Wrapping<u16>,
    seen: u16,
    done: Vec<Done>,
}

/// What a batch of chains is worked on with.
pub(crate) struct Chains<'v> {
    /// Those on offer, as of the start of the batch: no more than the queue has descriptors.
    pub(crate) offered: AvailIter<'v, &'v GuestMemoryMmap>,
    pub(crate) memory: &'v GuestMemoryMmap,
    pub(crate) agreed: Agreed,
    /// Those to be given back.
    pub(crate) done: &'v mut Vec<Done>,
}

impl Vring {
    /// A queue that goes on at `base`.
    pub(crate) fn new(
        place: Place,
        memory: Mapped,
        base: u16,
        agreed: Agreed,
        call: Option<Arc<OwnedFd>>,
    ) -> Result<Self, Broken> {
        let mut queue = Queue::new(32768)?;
        queue.try_set_size(place.size)?;
        queue.try_set_desc_table_address(place.descriptors)?;
        queue.try_set_avail_ring_address(place.avail)?;
        queue.try_set_used_ring_address(place.used)?;
        queue.set_next_avail(base);
        queue.set_ready(true);
        if !queue.is_valid(&*memory) {
            return Err(Broken);
        }
        let next_used = queue.used_idx(&*memory, Ordering::Acquire)?;
        let done = Vec::with_capacity(place.size.into());
        let mut vring = Self { queue, place, memory, call, agreed, next_used, seen: base, done };
        vring.be_silent()?;
        Ok(vring)
    }

    /// The first chain that was not taken.
    pub(crate) fn base(&self) -> u16 {
        self.queue.next_avail()
    }

    /// How many chains the guest had offered in all when the last batch began.
    pub(crate) fn seen(&self) -> u16 {
        self.seen
    }

    /// Begins a batch, which [`Self::settle`] ends.
    pub(crate) fn chains(&mut self) -> Result<Chains<'_>, Broken> {
        let Self { queue, memory, agreed, done, .. } = self;
        self.seen = queue.avail_idx(&**memory, Ordering::Acquire)?.0;
        let offered = queue.iter(&**memory)?;
        Ok(Chains { offered, memory, agreed: *agreed, done })
    }

    /// Gives back what the batch is done with, and tells the guest if it wants to be told.
    pub(crate) fn settle(&mut self) -> Result<(), Broken> {
        if self.done.is_empty() {
            return Ok(());
        }
        let (used, size, old) = (self.place.used, self.place.size, self.next_used);
        for Done { head, len } in self.done.drain(..) {
            let element = u64::from(head) | u64::from(len) << 32;
            // Within the ring that `is_valid` looked at; there are 4 bytes before it.
            let at = used.unchecked_add(4 + 8 * u64::from(self.next_used.0 % size));
            self.memory.write_obj(element.to_le(), at)?;
            self.next_used += 1;
        }
        let index = self.next_used.0.to_le();
        self.memory.store(index, used.unchecked_add(2), Ordering::Release)?;
        if self.wants_call(old)? {
            self.call();
        }
        Ok(())
    }

    /// Whether the guest wants to hear of what was given back since `old`.
    fn wants_call(&self, old: Wrapping<u16>) -> Result<bool, Broken> {
        // The guest first asks and then looks; we first give back and then look.
        fence(Ordering::SeqCst);
        let Place { avail, size, .. } = self.place;
        if !self.agreed.event_idx {
            let flags = u16::from_le(self.memory.load(avail, Ordering::Relaxed)?);
            return Ok(u32::from(flags) & VRING_AVAIL_F_NO_INTERRUPT == 0);
        }
        let wish = avail.unchecked_add(4 + 2 * u64::from(size));
        let event = Wrapping(u16::from_le(self.memory.load(wish, Ordering::Relaxed)?));
        Ok(self.next_used - event - Wrapping(1) < self.next_used - old)
    }

    fn call(&self) {
        if let Some(call) = &self.call {
            // A counter that is full has told already.
            let _ = rustix::io::write(call, &1u64.to_ne_bytes());
        }
    }

    /// Asks for a notification as soon as there are more chains than now; how many the guest has
    /// offered in all, looked at after that.
    pub(crate) fn be_told(&mut self) -> Result<u16, Broken> {
        match self.agreed.event_idx {
            true => self.set_event(self.queue.avail_idx(&*self.memory, Ordering::Acquire)?.0)?,
            false => self.memory.store(0u16, self.place.used, Ordering::Relaxed)?,
        }
        // We first ask and then look; the guest first offers and then looks.
        fence(Ordering::SeqCst);
        Ok(self.queue.avail_idx(&*self.memory, Ordering::Acquire)?.0)
    }

    /// Asks for no more notifications.
    pub(crate) fn be_silent(&mut self) -> Result<(), Broken> {
        match self.agreed.event_idx {
            // Behind us, where the guest does not come by before it has offered 65536 more.
            true => self.set_event(self.base().wrapping_sub(1)),
            false => {
                let flags = (VRING_USED_F_NO_NOTIFY as u16).to_le();
                Ok(self.memory.store(flags, self.place.used, Ordering::Relaxed)?)
            }
        }
    }

    fn set_event(&mut self, index: u16) -> Result<(), Broken> {
        let Place { used, size, .. } = self.place;
        let wish = used.unchecked_add(4 + 8 * u64::from(size));
        Ok(self.memory.store(index.to_le(), wish, Ordering::Relaxed)?)
    }
}
