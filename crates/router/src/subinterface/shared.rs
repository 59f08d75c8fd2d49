//! Subinterfaces that several workers serve. The workers share the neighbours.
//!
//! ```text
//!   worker 0: ARP, ND, packets that must wait --.                      .--> mailbox 0 --> worker 0
//!                                               +--> SubinterfaceLink -+
//!   worker 1: ARP, ND, packets that must wait --'    (one, locked)     '--> mailbox 1 --> worker 1
//! ```
//!
//! A worker locks a link for each frame between the wire and the kernel, which may be a message of
//! address resolution; for packets whose next hop the tables do not know; when the link's timer is
//! due; and for a new snapshot. A packet that has waited goes back to the worker whose engine has
//! counted it, in the order in which the link has released packets.
//!
//! # Invariants
//! 1. The worker that has changed a link collects its outputs in the same loop iteration.
//! 2. Mailboxes are filled while the link is locked, so packets for one neighbour stay in order.
//! 3. A mailbox holds only packets that the link has counted as waiting, so the limits of the link
//!    also bound the mailbox.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use slipring_fib::{FibPortIndex, ForwardingTables, VlanTags};
use slipring_neighbour::HoldDropCause;
use slipring_port::Nanos;
use slipring_wire::MacAddr;

use super::link::{SubinterfaceLink, SubinterfaceOutput, WaitingPacket};
use super::tags;

/// The value of `next_ns` if no timer runs.
const NEVER: Nanos = Nanos::MAX;

/// A packet that no longer waits.
#[derive(Debug)]
pub(crate) enum WaitEnd {
    /// The next hop of the packet has this MAC address.
    Released(WaitingPacket, MacAddr),
    /// The packet is dropped, for this cause.
    Lost(WaitingPacket, HoldDropCause),
}

/// What a worker must send for a link. Frames have no tags.
#[derive(Debug)]
pub(crate) enum SubinterfaceFrame {
    Wire(Vec<u8>),
    Kernel(Vec<u8>),
}

/// A subinterface that all workers share.
#[derive(Debug)]
pub(crate) struct SharedSubinterface {
    pub(crate) port: FibPortIndex,
    /// The kernel's index of the interface that carries the subinterface's frames.
    pub(crate) parent: u32,
    pub(crate) tags: VlanTags,
    link: Mutex<SharedLink>,
    /// When the link's timer is due. This is a copy that workers read without locking the link.
    /// Relaxed: each worker sees its own stores, so it does not sleep beyond a timer that it has
    /// started.
    next_ns: AtomicU64,
}

#[derive(Debug)]
struct SharedLink {
    link: SubinterfaceLink,
    /// Generation of the snapshot from which the link's addresses come.
    generation: u64,
}

impl SharedSubinterface {
    pub(crate) fn new(
        port: FibPortIndex,
        (parent, tags): (u32, VlanTags),
        link: SubinterfaceLink,
    ) -> Self {
        let link = Mutex::new(SharedLink { link, generation: 0 });
        Self { port, parent, tags, link, next_ns: AtomicU64::new(NEVER) }
    }

    fn lock(&self) -> MutexGuard<'_, SharedLink> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the link and passes it to `use_link`. Returns the result of `use_link`.
    pub(crate) fn with<T>(&self, use_link: impl FnOnce(&mut SubinterfaceLink) -> T) -> T {
        let mut locked = self.lock();
        let result = use_link(&mut locked.link);
        self.next_ns.store(locked.link.next_ns().unwrap_or(NEVER), Ordering::Relaxed);
        result
    }

    /// Takes the addresses from a snapshot, unless the link already has those of a newer snapshot.
    fn set_addresses(&self, tables: &ForwardingTables) {
        let mut locked = self.lock();
        let Some(port) = tables.ports.get(usize::from(self.port.0)) else { return };
        if locked.generation < tables.generation {
            locked.generation = tables.generation;
            locked.link.set_addresses(port.mac, &port.addresses);
            // The new addresses may have ended the wait of packets. So the timer is made due: the
            // next worker that looks at it collects the link's outputs.
            self.next_ns.store(0, Ordering::Relaxed);
        }
    }
}

/// All subinterfaces, and the mailboxes of the workers.
#[derive(Debug)]
pub(crate) struct SharedSubinterfaces {
    all: Vec<SharedSubinterface>,
    /// The packets that no longer wait, by worker.
    mailboxes: Vec<Mutex<VecDeque<WaitEnd>>>,
}

impl SharedSubinterfaces {
    pub(crate) fn new(all: Vec<SharedSubinterface>, workers: usize) -> Self {
        Self { all, mailboxes: (0..workers).map(|_| Mutex::default()).collect() }
    }

    pub(crate) fn all(&self) -> &[SharedSubinterface] {
        &self.all
    }

    /// Returns the number of the subinterface at which a frame of interface `parent` arrived;
    /// `None` if its tags are those of no subinterface. The filters of sockets check the outer tag
    /// alone.
    pub(crate) fn number_of(&self, parent: u32, frame: &[u8]) -> Option<usize> {
        let (tags, _) = tags::parse(frame)?;
        self.all.iter().position(|it| (it.parent, it.tags) == (parent, tags))
    }

    /// Takes the addresses of the devices from a snapshot.
    pub(crate) fn set_tables(&self, tables: &ForwardingTables) {
        self.all.iter().for_each(|it| it.set_addresses(tables));
    }

    /// Returns when the first timer of any link is due.
    pub(crate) fn next_ns(&self) -> Option<Nanos> {
        let due = self.all.iter().map(|it| it.next_ns.load(Ordering::Relaxed)).min();
        due.filter(|due| *due != NEVER)
    }

    /// Whether a link's timer is due.
    pub(crate) fn is_due(&self, number: usize, now_ns: Nanos) -> bool {
        self.all[number].next_ns.load(Ordering::Relaxed) <= now_ns
    }

    /// Takes the outputs of a link: frames for the caller to send, and packets, which go into the
    /// mailboxes of their owners. Calls `mail` with each worker that got a packet.
    pub(crate) fn collect(
        &self,
        number: usize,
        now_ns: Nanos,
        mut mail: impl FnMut(usize),
    ) -> Vec<SubinterfaceFrame> {
        let mut frames = Vec::new();
        self.all[number].with(|link| {
            link.tick(now_ns);
            while let Some(output) = link.pop() {
                match output {
                    SubinterfaceOutput::Wire(frame) => frames.push(SubinterfaceFrame::Wire(frame)),
                    SubinterfaceOutput::Kernel(frame) => {
                        frames.push(SubinterfaceFrame::Kernel(frame))
                    }
                    SubinterfaceOutput::Released(packet, mac) => {
                        mail(self.post(WaitEnd::Released(packet, mac)));
                    }
                    SubinterfaceOutput::Lost(packet, cause) => {
                        mail(self.post(WaitEnd::Lost(packet, cause)));
                    }
                }
            }
        });
        frames
    }

    /// Puts a packet into its owner's mailbox. Returns the owner.
    fn post(&self, end: WaitEnd) -> usize {
        let (WaitEnd::Released(packet, _) | WaitEnd::Lost(packet, _)) = &end;
        let owner = packet.owner;
        self.mailbox(owner).push_back(end);
        owner
    }

    /// Takes the packets in a worker's mailbox.
    pub(crate) fn take_mail(&self, worker: usize) -> VecDeque<WaitEnd> {
        std::mem::take(&mut *self.mailbox(worker))
    }

    fn mailbox(&self, worker: usize) -> MutexGuard<'_, VecDeque<WaitEnd>> {
        self.mailboxes[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
