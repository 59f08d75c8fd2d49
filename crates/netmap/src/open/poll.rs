//! Poll, which also syncs. It syncs tx rings, unless the bind has `NR_NO_TX_POLL` and the caller
//! does not wait for free tx slots. It syncs rx rings if the caller waits for frames, or if it
//! waits for free tx slots and the bind has `NR_DO_RX_POLL`. It reports whether a slot is available
//! at or after the program's `cur`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use slipring_abi::{NR_DO_RX_POLL, NR_NO_TX_POLL};

use crate::open::handle::OpenHandle;
use crate::port::adapter::Adapter;
use crate::port::binding::Binding;
use crate::types::outcome::SyncStatus;
use crate::types::shape::TxRx;

/// A set of Linux's poll events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PollEvents(pub u32);

impl PollEvents {
    /// `POLLIN | POLLRDNORM`.
    pub const IN: Self = Self(0x001 | 0x040);
    /// `POLLOUT | POLLWRNORM`.
    pub const OUT: Self = Self(0x004 | 0x100);
    /// `POLLERR`: the file is not bound or has control blocks of a sync loop, its port or memory no
    /// longer exists, or the indices of a ring were invalid.
    pub const ERR: Self = Self(0x008);

    /// Returns whether any event is in both sets.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The events that are in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl std::ops::BitOr for PollEvents {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl OpenHandle {
    /// Returns the events of `wanted` that are ready. After an error, the result contains
    /// [`PollEvents::ERR`].
    ///
    /// If no event is ready, waits up to `patience`, provided that recent waits of this file
    /// succeeded; if they failed, now and then one poll waits as a trial. If `arm` is a handle,
    /// arms the [`crate::Waker`] of the file, which reports new frames or slots to
    /// [`crate::Notify`] with that handle.
    pub fn poll(&self, wanted: PollEvents, arm: Option<u64>, patience: Duration) -> PollEvents {
        let Some(binding) = self.bound.get() else { return PollEvents::ERR };
        if self.csb.get().is_some() {
            return PollEvents::ERR;
        }
        self.waker
            .begin_poll(wanted.intersects(PollEvents::OUT), wanted.intersects(PollEvents::IN));
        let events = self.poll_bound(binding, wanted, arm, patience);
        self.waker.end_poll();
        events
    }

    fn poll_bound(
        &self,
        binding: &Binding,
        wanted: PollEvents,
        arm: Option<u64>,
        patience: Duration,
    ) -> PollEvents {
        let mut events = self.sync_and_check(binding, wanted).events;
        if events == PollEvents::default() && !patience.is_zero() && self.poll_credit.should_wait()
        {
            events = self.wait(binding, wanted, patience);
        }
        let Some(handle) = arm else { return events };
        if let Some(kept) = &self.persisted {
            kept.words.word(0, 0).store(handle, Ordering::Relaxed);
        }
        let (tx, rx) = (wanted.intersects(PollEvents::OUT), wanted.intersects(PollEvents::IN));
        let ready = events != PollEvents::default();
        self.waker.arm(handle, tx, rx, ready);
        for (dir, wanted) in [(TxRx::Tx, tx), (TxRx::Rx, rx)] {
            let rings = if wanted { binding.rings[dir as usize].clone() } else { 0..0 };
            rings.for_each(|i| binding.port.announce_sleep(dir, i));
        }
        if ready { events } else { self.recheck(binding, wanted) }
    }

    /// Checks once more after arming. A ring may be busy because another thread is syncing it. That
    /// thread may have begun its sync too early to see a new frame or slot, or to see that this
    /// program waits. In that case it sends no notification. So if nothing else is ready, a timer
    /// wakes the program soon.
    fn recheck(&self, binding: &Binding, wanted: PollEvents) -> PollEvents {
        let seen = self.sync_and_check(binding, wanted);
        if seen.busy && seen.events == PollEvents::default() {
            self.waker.notify_soon();
        }
        seen.events
    }

    fn wait(&self, binding: &Binding, wanted: PollEvents, patience: Duration) -> PollEvents {
        let start = Instant::now();
        loop {
            for _ in 0..32 {
                std::hint::spin_loop();
            }
            let events = self.sync_and_check(binding, wanted).events;
            let hit = events != PollEvents::default();
            if hit || start.elapsed() >= patience {
                self.poll_credit.record(hit);
                return events;
            }
        }
    }

    fn sync_and_check(&self, binding: &Binding, wanted: PollEvents) -> PollState {
        let (out, inn) = (wanted.intersects(PollEvents::OUT), wanted.intersects(PollEvents::IN));
        let mut seen = PollState::default();
        if out || binding.flags & NR_NO_TX_POLL == 0 {
            seen.add(sync_all(binding, TxRx::Tx, wanted.intersection(PollEvents::OUT)));
        }
        if inn || out && binding.flags & NR_DO_RX_POLL != 0 {
            seen.add(sync_all(binding, TxRx::Rx, wanted.intersection(PollEvents::IN)));
            self.write_timestamp(binding);
        }
        seen
    }
}

#[derive(Default)]
struct PollState {
    events: PollEvents,
    /// Whether a ring was skipped because another thread was syncing it.
    busy: bool,
}

impl PollState {
    fn add(&mut self, other: Self) {
        self.events = self.events | other.events;
        self.busy |= other.busy;
    }
}

/// Syncs the rings of a direction; `ready` is the event to report if a ring has an available slot.
fn sync_all(binding: &Binding, dir: TxRx, ready: PollEvents) -> PollState {
    let mut seen = PollState::default();
    for i in binding.rings[dir as usize].clone() {
        match binding.sync(dir, i) {
            SyncStatus::Reinit | SyncStatus::Gone => seen.events = seen.events | PollEvents::ERR,
            SyncStatus::Busy => seen.busy = true,
            SyncStatus::Done => {}
        }
        if is_ready(&*binding.port, dir, i) {
            seen.events = seen.events | ready;
        }
    }
    seen
}

fn is_ready(port: &dyn Adapter, dir: TxRx, i: usize) -> bool {
    port.ring(dir, i).is_some_and(slipring_ring::RingView::is_ready)
}
