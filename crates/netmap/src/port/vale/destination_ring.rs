//! A ring to which a switch delivers: an rx ring of a program, or a tx ring of an interface.
//!
//! Several senders copy into one ring at the same time. Each leases a range of free slots, copies
//! without any lock, and completes the lease. Slots become visible up to the first lease that is
//! not complete; when its sender completes that lease, it also publishes the complete leases that
//! follow.
//!
//! ```text
//!   slots   | the program's | lease 1 | lease 2 (done) | lease 3 | free |
//!                            ^ tail: moves past lease 2 when lease 1 is done
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use slipring_ring::{KernRing, RingView, SlotIdx};
use slipring_switch::{BatchDestination, DeliveryCounts, TagAction};

use crate::port::adapter::Adapter;
use crate::port::monitor_taps::MonitorTaps;
use crate::port::vale::copy_plan::{CopyPlan, FrameSource, LeasedSlots};
use crate::port::waker::Listeners;
use crate::types::lock::lock;
use crate::types::outcome::SyncStatus;
use crate::types::shape::TxRx;

/// A ring that switch senders fill, and its leases.
#[derive(Debug)]
pub(crate) struct DestinationRing {
    view: RingView,
    leases: Mutex<RingLeases>,
    /// For a tx ring of an interface: the interface and the number of the ring.
    nic: Option<(Arc<dyn Adapter>, usize)>,
    /// The monitors of a program's ring, and the number of the ring.
    monitor_taps: Option<(Arc<MonitorTaps>, usize)>,
    /// Listeners that wait for frames in a program's ring.
    pub(crate) listeners: Listeners,
}

/// The leases of a ring, and where its free slots begin.
#[derive(Debug)]
struct RingLeases {
    /// The driver's half of a program's ring. `None` for an interface's ring: there this process
    /// has the program's half.
    kern: Option<KernRing>,
    /// The first slot that is not leased.
    next_free: SlotIdx,
    leases: VecDeque<SlotLease>,
    /// Number of the first lease in the list.
    first_number: u64,
}

#[derive(Debug)]
struct SlotLease {
    /// The first slot after the lease.
    end: SlotIdx,
    done: bool,
}

impl DestinationRing {
    /// Creates the destination for a program's rx ring. The monitors `taps.0` see its frames, under
    /// the ring number `taps.1`.
    pub(crate) fn of_program(kern: KernRing, taps: (Arc<MonitorTaps>, usize)) -> Self {
        let (view, next) = (kern.view(), kern.hwtail());
        Self { monitor_taps: Some(taps), ..Self::new(view, Some(kern), next, None) }
    }

    /// Creates the destination for a tx ring of an interface; `None` if the interface has no ring
    /// `i`.
    pub(crate) fn of_nic(nic: &Arc<dyn Adapter>, i: usize) -> Option<Self> {
        let view = nic.ring(TxRx::Tx, i)?.clone();
        let next = view.head().min(view.num_slots() - 1);
        Some(Self::new(view, None, next, Some((nic.clone(), i))))
    }

    fn new(
        view: RingView,
        kern: Option<KernRing>,
        next: SlotIdx,
        nic: Option<(Arc<dyn Adapter>, usize)>,
    ) -> Self {
        let room = RingLeases { kern, next_free: next, leases: VecDeque::new(), first_number: 0 };
        Self {
            view,
            leases: Mutex::new(room),
            nic,
            monitor_taps: None,
            listeners: Listeners::default(),
        }
    }

    pub(crate) fn view(&self) -> &RingView {
        &self.view
    }

    /// Takes back the slots that the program has released.
    pub(crate) fn sync(&self) -> SyncStatus {
        // Waiting for the lock is short: a sender that holds it copies nothing except frames for
        // monitors.
        let mut room = lock(&self.leases);
        let Some(kern) = &mut room.kern else { return SyncStatus::Done };
        let Ok(head) = kern.released() else { return SyncStatus::Reinit };
        if let Some((taps, ring)) = &self.monitor_taps {
            taps.observe_released(*ring, &self.view, kern.hwcur(), head);
        }
        kern.complete_to(head);
        let tail = kern.hwtail();
        kern.set_tail(tail);
        SyncStatus::Done
    }

    /// Copies as many frames as fit into the free slots; returns the numbers of frames and bytes
    /// delivered.
    pub(crate) fn deliver(
        &self,
        source: FrameSource<'_>,
        dest: &BatchDestination<'_>,
        vnet: usize,
    ) -> DeliveryCounts {
        let plain = !source.frames.is_fragmented() && self.view.offsets().is_none();
        let whole = plain && source.vnet == vnet;
        let simple =
            whole && (dest.is_as_is() || dest.copies().all(|one| one.tag == TagAction::Keep));
        let tells_count = self.nic.is_none();
        let plan = CopyPlan { view: &self.view, tells_count, source, vnet };
        if source.vnet > 0 && source.vnet != vnet && dest.copies().any(|one| plan.needs_fixup(one))
        {
            return self.deliver_with_fixup(plan, dest);
        }
        let wanted = |room: u32| match simple {
            true => dest.packets().min(room),
            false => plan.slots_within(dest.copies(), room),
        };
        let Some(run) = self.lease(wanted) else { return DeliveryCounts::default() };
        let delivered = match simple {
            true => plan.copy_simple(&run, dest.copies()),
            false => plan.copy_all(&run, dest.copies()),
        };
        self.publish(&run);
        delivered
    }

    /// Like [`Self::deliver`], but the frames' virtio-net headers may request offloads, so the
    /// frames are rebuilt.
    #[cold]
    fn deliver_with_fixup(
        &self,
        plan: CopyPlan<'_>,
        dest: &BatchDestination<'_>,
    ) -> DeliveryCounts {
        let frames: Vec<_> =
            dest.copies().map(|copy| (copy.len, plan.apply_offloads(copy))).collect();
        let fitting = |room: u32| {
            let mut left = room;
            let fits = frames.iter().map_while(|(_, parts)| {
                left = left.checked_sub(plan.slots_of(parts))?;
                Some(plan.slots_of(parts))
            });
            fits.sum()
        };
        let Some(run) = self.lease(fitting) else { return DeliveryCounts::default() };
        let delivered = plan.write_all(&run, &frames);
        self.publish(&run);
        delivered
    }

    /// Leases slots. `wanted` gets the number of free slots and returns how many to lease; `None`
    /// if it returns 0.
    fn lease(&self, wanted: impl Fn(u32) -> u32) -> Option<LeasedSlots> {
        let mut room = lock(&self.leases);
        let mut count = wanted(room.free(&self.view));
        if count == 0
            && let Some((nic, i)) = &self.nic
        {
            // Not even one frame fits into the free slots. The interface may have sent frames in
            // the meantime, so a flush may free slots. The lock is released first, because the
            // flush may deliver to another switch.
            drop(room);
            nic.flush(*i);
            room = lock(&self.leases);
            count = wanted(room.free(&self.view));
        }
        (count > 0).then(|| room.grant(count, self.view.num_slots()))
    }

    fn publish(&self, run: &LeasedSlots) {
        let mut room = lock(&self.leases);
        let published = room.complete(run, &self.view, self.monitor_taps.as_ref());
        drop(room);
        if !published {
            return;
        }
        match &self.nic {
            Some((nic, i)) => {
                nic.flush(*i);
            }
            None => self.listeners.wake(),
        }
    }
}

impl RingLeases {
    fn free(&self, view: &RingView) -> u32 {
        let n = view.num_slots();
        match &self.kern {
            // Only the slots that the program gave back by its last sync are free. Between two
            // syncs the program may already have written `head` and still read the slots before it.
            Some(kern) => n - 1 - distance(kern.hwcur(), self.next_free, n),
            // The driver in this process writes the tail, but programs of the same user can
            // overwrite it, so its value is limited.
            None => distance(self.next_free, view.tail().min(n - 1), n),
        }
    }

    fn grant(&mut self, count: u32, num_slots: u32) -> LeasedSlots {
        let start = self.next_free;
        let end = start + count;
        self.next_free = if end >= num_slots { end - num_slots } else { end };
        self.leases.push_back(SlotLease { end: self.next_free, done: false });
        LeasedSlots { start, number: self.first_number + self.leases.len() as u64 - 1, count }
    }

    /// Completes a lease; returns whether more slots became visible.
    fn complete(
        &mut self,
        run: &LeasedSlots,
        view: &RingView,
        taps: Option<&(Arc<MonitorTaps>, usize)>,
    ) -> bool {
        let at = (run.number - self.first_number) as usize;
        self.leases[at].done = true;
        let mut end = None;
        while let Some(lease) = self.leases.pop_front_if(|lease| lease.done) {
            self.first_number += 1;
            end = Some(lease.end);
        }
        let Some(end) = end else { return false };
        match &mut self.kern {
            Some(kern) => {
                if let Some((taps, ring)) = taps {
                    taps.observe(TxRx::Rx, *ring, view, kern.hwtail(), end);
                }
                kern.set_tail(end);
            }
            None => view.advance_to(end),
        }
        true
    }
}

pub(super) fn distance(from: SlotIdx, to: SlotIdx, n: u32) -> u32 {
    if to >= from { to - from } else { to + n - from }
}
