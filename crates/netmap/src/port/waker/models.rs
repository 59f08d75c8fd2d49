//! Models of the waker. Loom explores every interleaving, with up to three preemptions, of a
//! program that polls and sleeps and a publisher. All models but `shared_file` also run with one
//! deliberate mistake at a time, and must then fail.

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;
use slipring_test_support::models::{explore, fails};

use super::state::{WANTS_RX, WANTS_TX, WakeAction, WakerState, WakerWord, has_listeners};

/// No defect: the word behaves like `AtomicU64`.
const RIGHT: u8 = 0;
/// The mistake: fences have no effect.
const NO_FENCE: u8 = 1;
/// The mistake: fences are acquire and release, not sequentially consistent.
const WEAK_FENCE: u8 = 2;
/// The mistake: updates have relaxed ordering.
const WEAK_UPDATE: u8 = 3;

/// A word, correct or with one mistake.
struct ModelWord<const KIND: u8>(AtomicU64);

impl<const KIND: u8> Default for ModelWord<KIND> {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl<const KIND: u8> WakerWord for ModelWord<KIND> {
    fn acquire(&self) -> u64 {
        self.0.load(Acquire)
    }
    fn load_relaxed(&self) -> u64 {
        self.0.load(Relaxed)
    }
    fn store_relaxed(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
    fn increment(&self) {
        self.0.fetch_add(1, Relaxed);
    }
    fn decrement(&self) {
        self.0.fetch_sub(1, Release);
    }
    fn update(&self, change: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        let (set, fetch) = if KIND == WEAK_UPDATE { (Relaxed, Relaxed) } else { (AcqRel, Acquire) };
        self.0.fetch_update(set, fetch, change).ok()
    }
    fn full_fence() {
        match KIND {
            NO_FENCE => {}
            WEAK_FENCE => fence(AcqRel),
            _ => fence(SeqCst),
        }
    }
}

/// The mistake that the program, the publisher or the ticker makes.
#[derive(Clone, Copy, PartialEq)]
enum Mutation {
    None,
    /// The publisher checks for listeners before it publishes.
    AsksFirst,
    /// The program checks for frames before it arms, and not afterwards.
    LooksFirst,
    /// The ticker never ticks the wakers in its list.
    NoTicks,
}

const HANDLE: u64 = 7;

/// A ring, the open file of its program or programs, and the notifications of that file.
struct Ring<const KIND: u8> {
    /// Frames published so far.
    published: AtomicU64,
    /// Frames that the program knew of and has used up.
    used: AtomicU64,
    any: ModelWord<KIND>,
    waker: WakerState<ModelWord<KIND>>,
    /// Number of notifications.
    notified: AtomicU64,
    enlisted: AtomicU64,
}

impl<const KIND: u8> Ring<KIND> {
    fn with(published: u64) -> Arc<Self> {
        let any = ModelWord::default();
        any.store_relaxed(1);
        Arc::new(Self {
            published: AtomicU64::new(published),
            used: AtomicU64::new(0),
            any,
            waker: WakerState::default(),
            notified: AtomicU64::new(0),
            enlisted: AtomicU64::new(0),
        })
    }

    fn publish(&self, frames: u64, mistake: Mutation) {
        let early = mistake == Mutation::AsksFirst;
        let asked = early && self.wake();
        self.published.store(frames, Release);
        if !early || asked {
            self.wake();
        }
    }

    /// Wakes as `Listeners::wake` does.
    fn wake(&self) -> bool {
        if !has_listeners(&self.any) {
            return false;
        }
        match self.waker.wake_for(WANTS_RX, || self.used.load(Acquire) != 0) {
            WakeAction::Notify(handle) => self.notify(handle),
            WakeAction::Enlist => self.enlisted.store(1, Release),
            WakeAction::Nothing => return false,
        }
        true
    }

    fn notify(&self, handle: u64) {
        assert_eq!(handle, HANDLE, "the handle that the program armed with");
        self.notified.fetch_add(1, AcqRel);
    }

    /// Polls as `OpenHandle::poll` does; returns the number of frames that the poll saw.
    fn poll(&self, interest: u64, mistake: Mutation) -> u64 {
        self.waker.begin_poll(interest);
        let first = self.published.load(Acquire);
        self.waker.arm(HANDLE, interest, first != 0);
        let seen = if first == 0 && mistake != Mutation::LooksFirst {
            self.published.load(Acquire)
        } else {
            first
        };
        self.waker.end_poll();
        seen
    }

    /// Performs the ticks of an idle period.
    fn tick_twice(&self, mistake: Mutation) {
        if mistake == Mutation::NoTicks || self.enlisted.load(Acquire) == 0 {
            return;
        }
        for _ in 0..2 {
            if let Some(handle) = self.waker.tick().notify {
                self.notify(handle);
            }
        }
    }

    /// Checks that the program, which saw `seen` frames and sleeps, knows of all frames or is
    /// notified.
    fn assert_awake(&self, seen: u64) {
        let was_notified = self.notified.load(Acquire) != 0;
        assert!(seen == self.published.load(Acquire) || was_notified, "asleep for ever");
    }
}

/// A program polls while a frame is published, and sleeps if it finds nothing.
fn sleeper<const KIND: u8>(mistake: Mutation) -> impl Fn() + Send + Sync + 'static {
    move || {
        let ring = Ring::<KIND>::with(0);
        let publisher = thread::spawn({
            let ring = ring.clone();
            move || ring.publish(1, mistake)
        });
        let seen = ring.poll(WANTS_RX, mistake);
        publisher.join().unwrap();
        if seen == 0 {
            ring.tick_twice(mistake);
        }
        ring.assert_awake(seen);
    }
}

#[test]
fn a_program_that_sleeps_sees_what_is_published_or_is_notified() {
    explore(sleeper::<RIGHT>(Mutation::None));
}

#[test]
fn without_either_fence_or_order_of_steps_a_program_may_sleep_for_ever() {
    assert!(fails(sleeper::<NO_FENCE>(Mutation::None)), "no fences");
    assert!(fails(sleeper::<WEAK_FENCE>(Mutation::None)), "weaker fences");
    assert!(fails(sleeper::<RIGHT>(Mutation::AsksFirst)), "a publisher that asks first");
    assert!(fails(sleeper::<RIGHT>(Mutation::LooksFirst)), "a program that looks first");
}

#[test]
fn without_the_order_of_updates_a_handle_is_notified_that_nobody_has() {
    assert!(fails(|| {
        let ring = Ring::<WEAK_UPDATE>::with(0);
        let publisher = thread::spawn({
            let ring = ring.clone();
            move || ring.publish(1, Mutation::None)
        });
        let seen = ring.poll(WANTS_RX, Mutation::None);
        publisher.join().unwrap();
        ring.assert_awake(seen);
    }));
}

/// An edge-triggered program is answered "ready", uses up everything, and sleeps without another
/// poll, while one more frame is published.
fn edge_triggered<const KIND: u8>(mistake: Mutation) -> impl Fn() + Send + Sync + 'static {
    move || {
        let ring = Ring::<KIND>::with(1);
        let publisher = thread::spawn({
            let ring = ring.clone();
            move || ring.publish(2, mistake)
        });
        ring.poll(WANTS_RX, mistake);
        let seen = ring.published.load(Acquire);
        ring.used.store(1, Release);
        publisher.join().unwrap();
        ring.tick_twice(mistake);
        ring.assert_awake(seen);
    }
}

#[test]
fn an_edge_triggered_program_is_notified_of_what_came_after_its_last_look() {
    explore(edge_triggered::<RIGHT>(Mutation::None));
}

#[test]
fn without_fences_or_ticks_an_edge_triggered_program_may_sleep_for_ever() {
    assert!(fails(edge_triggered::<RIGHT>(Mutation::NoTicks)), "no ticks");
    assert!(fails(edge_triggered::<NO_FENCE>(Mutation::None)), "no fences");
}

/// Two programs share an open file: one sleeps for frames, the other polls for tx slots, which are
/// free.
fn shared_file(tick: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let ring = Ring::<RIGHT>::with(0);
        let publisher = thread::spawn({
            let ring = ring.clone();
            move || ring.publish(1, Mutation::None)
        });
        let other = thread::spawn({
            let ring = ring.clone();
            move || {
                ring.waker.begin_poll(WANTS_TX);
                ring.waker.arm(HANDLE, WANTS_TX, true);
                ring.waker.end_poll();
            }
        });
        let seen = ring.poll(WANTS_RX, Mutation::None);
        publisher.join().unwrap();
        other.join().unwrap();
        if tick {
            ring.tick_twice(Mutation::None);
        }
        ring.assert_awake(seen);
    }
}

#[test]
fn a_poll_for_the_other_direction_leaves_nobody_asleep() {
    explore(shared_file(true));
}
