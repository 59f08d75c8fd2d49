//! Poll: it does the work. Tx rings are synced at every call, rx rings when frames are wanted,
//! and the answer is whether any slot lies beyond the program's `cur`.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use slipring_abi::{NR_DO_RX_POLL, NR_NO_TX_POLL};

use crate::adapter::{Adapter, Dir, Synced};
use crate::binding::Binding;
use crate::open::Open;

/// A set of Linux's poll events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events(pub u32);

impl Events {
    /// `POLLIN | POLLRDNORM`.
    pub const IN: Self = Self(0x001 | 0x040);
    /// `POLLOUT | POLLWRNORM`.
    pub const OUT: Self = Self(0x004 | 0x100);
    /// `POLLERR`.
    pub const ERR: Self = Self(0x008);

    /// Whether any event is in both sets.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Events of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl std::ops::BitOr for Events {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// How often a poll is worth waiting for: it is while recent waits were.
#[derive(Debug)]
pub(crate) struct Hold {
    /// Hits and misses of late; waits while above 0.
    credit: AtomicU32,
}

/// Misses in a row after which waiting stops.
const CREDIT: u32 = 8;
/// After that, every so many polls one waits for trial.
const TRIAL: u32 = 64;

impl Default for Hold {
    fn default() -> Self {
        Self { credit: AtomicU32::new(CREDIT) }
    }
}

impl Hold {
    fn is_worth_it(&self) -> bool {
        let credit = self.credit.load(Ordering::Relaxed);
        if credit > 0 && credit <= CREDIT {
            return true;
        }
        // Counts down from TRIAL + CREDIT to CREDIT, which is one trial.
        let next = if credit == 0 { CREDIT + TRIAL } else { credit - 1 };
        self.credit.store(if next == CREDIT { 1 } else { next }, Ordering::Relaxed);
        false
    }

    fn learn(&self, hit: bool) {
        let credit = self.credit.load(Ordering::Relaxed);
        let next = if hit { CREDIT } else { credit.saturating_sub(1) };
        self.credit.store(next, Ordering::Relaxed);
    }
}

impl Open {
    /// Which of `wanted` are so, and [`Events::ERR`] where that is due.
    ///
    /// When nothing is, waits up to `patience` for it, if such waits have paid of late. With
    /// `arm`, the next change will be told to [`crate::Notify`] with that handle.
    pub fn poll(&self, wanted: Events, arm: Option<u64>, patience: Duration) -> Events {
        let Some(binding) = self.bound.get() else { return Events::ERR };
        if self.csb.get().is_some() {
            return Events::ERR;
        }
        self.waker.begin_poll(wanted.meets(Events::OUT), wanted.meets(Events::IN));
        let events = self.poll_bound(binding, wanted, arm, patience);
        self.waker.end_poll();
        events
    }

    fn poll_bound(
        &self,
        binding: &Binding,
        wanted: Events,
        arm: Option<u64>,
        patience: Duration,
    ) -> Events {
        let mut events = self.look(binding, wanted).events;
        if events == Events::default() && !patience.is_zero() && self.hold.is_worth_it() {
            events = self.wait(binding, wanted, patience);
        }
        let Some(handle) = arm else { return events };
        if let Some(kept) = &self.kept {
            kept.words.word(0, 0).store(handle, Ordering::Relaxed);
        }
        let (tx, rx) = (wanted.meets(Events::OUT), wanted.meets(Events::IN));
        let ready = events != Events::default();
        self.waker.arm(handle, tx, rx, ready);
        for (dir, wanted) in [(Dir::Tx, tx), (Dir::Rx, rx)] {
            let rings = if wanted { binding.rings[dir as usize].clone() } else { 0..0 };
            rings.for_each(|i| binding.port.expects(dir, i));
        }
        if ready { events } else { self.look_again(binding, wanted) }
    }

    /// Looks once more, as one who is armed. Whoever is just at a ring may have begun before there was
    /// anything, and will tell nobody: then the program is to come back soon.
    fn look_again(&self, binding: &Binding, wanted: Events) -> Events {
        let seen = self.look(binding, wanted);
        if seen.busy && seen.events == Events::default() {
            self.waker.tell_soon();
        }
        seen.events
    }

    fn wait(&self, binding: &Binding, wanted: Events, patience: Duration) -> Events {
        let start = Instant::now();
        loop {
            for _ in 0..32 {
                std::hint::spin_loop();
            }
            let events = self.look(binding, wanted).events;
            let hit = events != Events::default();
            if hit || start.elapsed() >= patience {
                self.hold.learn(hit);
                return events;
            }
        }
    }

    fn look(&self, binding: &Binding, wanted: Events) -> Seen {
        let (out, inn) = (wanted.meets(Events::OUT), wanted.meets(Events::IN));
        let mut seen = Seen::default();
        if out || binding.flags & NR_NO_TX_POLL == 0 {
            seen.add(sync_all(binding, Dir::Tx, wanted.and(Events::OUT)));
        }
        if inn || out && binding.flags & NR_DO_RX_POLL != 0 {
            seen.add(sync_all(binding, Dir::Rx, wanted.and(Events::IN)));
            self.stamp(binding);
        }
        seen
    }
}

#[derive(Default)]
struct Seen {
    events: Events,
    /// Somebody else was at a ring.
    busy: bool,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.events = self.events | other.events;
        self.busy |= other.busy;
    }
}

/// Syncs the rings of a direction; `ready` is what is so where one has slots.
fn sync_all(binding: &Binding, dir: Dir, ready: Events) -> Seen {
    let mut seen = Seen::default();
    for i in binding.rings[dir as usize].clone() {
        match binding.sync(dir, i) {
            Synced::Reinit | Synced::Gone => seen.events = seen.events | Events::ERR,
            Synced::Busy => seen.busy = true,
            Synced::Done => {}
        }
        if is_ready(&*binding.port, dir, i) {
            seen.events = seen.events | ready;
        }
    }
    seen
}

fn is_ready(port: &dyn Adapter, dir: Dir, i: usize) -> bool {
    port.ring(dir, i).is_some_and(slipring_ring::RingView::is_ready)
}
