//! Loom models of the coordination of two threads. Loom explores every interleaving with a few
//! preemptions, and every value that the memory model allows. The models of sleeping and of the
//! shutdown also run with one ordering or one check removed, and must then fail: a model that
//! cannot fail proves nothing.

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicU32, fence};
use loom::thread;
use slipring_test_support::models::{explore, explore_within, fails, fails_within};

use super::flag::SharedFlag;
use super::termination::Termination;
use super::wake_flag::{WakeFlag, WakeReason};

const RIGHT: u8 = 0;
/// Flaw: every Release is Relaxed.
const NO_RELEASE: u8 = 1;
/// Flaw: every Acquire is Relaxed.
const NO_ACQUIRE: u8 = 2;
/// Flaw: the fence is AcqRel instead of SeqCst, so it does not order a write before a later read.
const ACQ_REL_FENCE: u8 = 3;
/// Flaw: there is no fence.
const NO_FENCE: u8 = 4;

/// A flag whose orderings can be weakened.
#[derive(Default)]
struct Word<const FLAW: u8>(AtomicBool);

impl<const FLAW: u8> SharedFlag for Word<FLAW> {
    fn load_relaxed(&self) -> bool {
        self.0.load(Relaxed)
    }
    fn store_relaxed(&self, value: bool) {
        self.0.store(value, Relaxed);
    }
    fn load_acquire(&self) -> bool {
        self.0.load(if FLAW == NO_ACQUIRE { Relaxed } else { Acquire })
    }
    fn store_release(&self, value: bool) {
        self.0.store(value, if FLAW == NO_RELEASE { Relaxed } else { Release });
    }
    fn swap_false(&self) -> bool {
        self.0.swap(false, Relaxed)
    }
    fn fence() {
        match FLAW {
            NO_FENCE => {}
            ACQ_REL_FENCE => fence(AcqRel),
            _ => fence(SeqCst),
        }
    }
}

/// A ring of chunks, reduced to what the wake flags need: counts of pushes and pops.
#[derive(Default)]
struct Ring {
    pushed: AtomicU32,
    popped: AtomicU32,
}

impl Ring {
    /// Pushes a chunk. Only one thread pushes.
    fn push(&self) {
        self.pushed.store(self.pushed.load(Relaxed) + 1, Release);
    }
    /// Pops a chunk; returns whether there was one. Only one thread pops.
    fn pop(&self) -> bool {
        let some = !self.is_empty();
        if some {
            self.popped.store(self.popped.load(Relaxed) + 1, Release);
        }
        some
    }
    fn is_empty(&self) -> bool {
        self.pushed.load(Acquire) == self.popped.load(Acquire)
    }
}

/// State bit: the bell has been rung and has not been cleared yet.
const RINGS: u32 = 1;
/// State bit: the bell's thread sleeps.
const SLEEPS: u32 = 2;
/// State bit: the bell's thread has ended and can no longer ring the other bell.
const GONE: u32 = 4;

/// Models the doorbell of one thread and whether the thread sleeps. Only read-modify-write
/// operations access it, so every read returns the latest value.
#[derive(Default)]
struct Bell(AtomicU32);

impl Bell {
    fn ring(&self) {
        self.0.fetch_or(RINGS, AcqRel);
    }

    fn leave(&self) {
        self.0.fetch_or(GONE, AcqRel);
    }

    fn state(&self) -> u32 {
        self.0.fetch_or(0, AcqRel)
    }

    /// Sleeps until the bell rings.
    ///
    /// # Panics
    /// If the other thread can no longer ring.
    fn wait(&self, other: &Self) {
        self.0.fetch_or(SLEEPS, AcqRel);
        while self.state() & RINGS == 0 {
            let nobody = matches!(other.state(), SLEEPS) || other.state() & GONE != 0;
            assert!(!nobody || self.state() & RINGS != 0, "asleep for ever");
            thread::yield_now();
        }
        self.0.swap(0, AcqRel);
    }
}

/// Builds a model in which one thread waits for chunks, and another thread pushes `chunks` of them.
fn sleep_and_wake<const FLAW: u8>(
    news: WakeReason,
    chunks: u32,
    may_sleep: fn(&WakeFlag<Word<FLAW>>, &Ring) -> bool,
) -> impl Fn() + Send + Sync + 'static {
    move || {
        let bells = [Bell::default(), Bell::default()];
        let shared = Arc::new((Ring::default(), WakeFlag::<Word<FLAW>>::default(), bells));
        let waker = thread::spawn({
            let shared = shared.clone();
            move || {
                let (ring, alarm, [bell, own]) = &*shared;
                for _ in 0..chunks {
                    ring.push();
                    if alarm.take_wake(news) {
                        bell.ring();
                    }
                }
                own.leave();
            }
        });
        let (ring, alarm, [bell, other]) = &*shared;
        let mut taken = 0;
        while taken < chunks {
            if ring.pop() {
                taken += 1;
            } else if may_sleep(alarm, ring) {
                bell.wait(other);
                alarm.revoke();
            }
        }
        waker.join().unwrap();
    }
}

fn carefully<const FLAW: u8>(alarm: &WakeFlag<Word<FLAW>>, ring: &Ring) -> bool {
    alarm.may_sleep(true, || !ring.is_empty())
}

#[test]
fn who_waits_for_frames_or_chunks_is_woken_for_each() {
    for news in [WakeReason::Frames, WakeReason::Chunks] {
        explore(sleep_and_wake::<RIGHT>(news, 1, carefully));
        explore(sleep_and_wake::<RIGHT>(news, 2, carefully));
    }
}

#[test]
fn without_the_fences_or_the_second_look_a_wake_up_is_lost() {
    for news in [WakeReason::Frames, WakeReason::Chunks] {
        assert!(fails(sleep_and_wake::<NO_FENCE>(news, 1, carefully)), "no fence");
        assert!(fails(sleep_and_wake::<ACQ_REL_FENCE>(news, 1, carefully)), "a weaker one");
        let looks_first = |alarm: &WakeFlag<Word<RIGHT>>, ring: &Ring| {
            let news = !ring.is_empty();
            alarm.may_sleep(true, || news)
        };
        assert!(fails(sleep_and_wake::<RIGHT>(news, 1, looks_first)), "looks before it says so");
    }
    let not_starved =
        |alarm: &WakeFlag<Word<RIGHT>>, ring: &Ring| alarm.may_sleep(false, || !ring.is_empty());
    assert!(fails(sleep_and_wake::<RIGHT>(WakeReason::Chunks, 1, not_starved)), "for other news");
}

#[test]
fn an_announcement_is_answered_by_one_ring() {
    explore(|| {
        let alarm = Arc::new(WakeFlag::<Word<RIGHT>>::default());
        assert!(alarm.may_sleep(true, || false));
        let other = thread::spawn({
            let alarm = alarm.clone();
            move || alarm.take_wake(WakeReason::Frames)
        });
        let one = alarm.take_wake(WakeReason::Frames);
        assert!(one != other.join().unwrap());
    });
}

/// The step of the shutdown that a model omits.
#[derive(Clone, Copy, PartialEq)]
enum Mutation {
    Nothing,
    /// The sleeper does not check whether the emulation is over.
    LookForEnd,
    /// The sleeper does not check whether the other thread has taken all frames.
    LookForTaken,
    /// A thread that becomes idle after a port has ended wakes the other thread only if the
    /// emulation is over.
    WakeWhenCalm,
    /// A thread counts as idle although its frames are still on the way to the other thread.
    UnderWay,
    /// A thread does not report that it had frames to handle.
    Stir,
}

/// The state that two threads share. Thread `i` pushes into ring `i`.
#[derive(Default)]
struct Pair<const FLAW: u8> {
    rings: [Ring; 2],
    alarms: [WakeFlag<Word<FLAW>>; 2],
    end: Termination<Word<FLAW>>,
    bells: [Bell; 2],
}

/// One of the two threads, which runs the steps of the loop in `emulator_loop.rs`.
struct Half<const FLAW: u8> {
    me: usize,
    pair: Arc<Pair<FLAW>>,
    omitted: Mutation,
    /// Frames that the port will still bring.
    frames: u32,
    /// Whether the port brings no frames in the next loop iteration.
    pauses: bool,
    /// Whether the port ends after these frames.
    ends: bool,
    is_over: bool,
    lingers: bool,
    /// Number of frames that have left.
    sent: u32,
}

impl<const FLAW: u8> Half<FLAW> {
    /// Runs the thread to its end. Returns the number of frames that left by its port.
    fn run(mut self) -> u32 {
        loop {
            let pauses = std::mem::take(&mut self.pauses);
            let did = self.turn(pauses);
            if did && self.omitted != Mutation::Stir {
                self.pair.end.report_busy(self.me);
            }
            if (!did || self.pair.end.is_over()) && self.is_done(pauses) {
                self.pair.bells[self.me].leave();
                return self.sent;
            }
            if !did && !pauses && self.may_sleep() {
                self.pair.bells[self.me].wait(&self.pair.bells[1 - self.me]);
                self.pair.alarms[self.me].revoke();
            }
        }
    }

    fn turn(&mut self, pauses: bool) -> bool {
        let mut did = false;
        if self.frames > 0 && !pauses {
            self.frames -= 1;
            self.pair.rings[self.me].push();
            self.wake(WakeReason::Frames);
            did = true;
        }
        if self.pair.rings[1 - self.me].pop() {
            self.wake(WakeReason::Chunks);
            self.sent += 1;
            did = true;
        }
        did
    }

    fn is_done(&mut self, pauses: bool) -> bool {
        let pair = self.pair.clone();
        let is_empty = pair.rings[1 - self.me].is_empty();
        self.is_over |= pair.end.is_over();
        if !self.is_over {
            let sent = pair.rings[self.me].is_empty() || self.omitted == Mutation::UnderWay;
            self.lingers = is_empty && !sent;
            let waiting = self.frames > 0 && !pauses;
            let ended = self.ends && self.frames == 0;
            let settled = pair.end.report_idle(self.me, ended, is_empty && !waiting && sent);
            self.is_over = settled.is_over;
            if settled.is_over || (settled.must_wake_peer && self.omitted != Mutation::WakeWhenCalm)
            {
                self.wake(WakeReason::Frames);
            }
        }
        self.is_over && is_empty
    }

    fn may_sleep(&self) -> bool {
        let (pair, omitted) = (&self.pair, self.omitted);
        pair.alarms[self.me].may_sleep(false, || {
            !pair.rings[1 - self.me].is_empty()
                || (self.lingers
                    && omitted != Mutation::LookForTaken
                    && pair.rings[self.me].is_empty())
                || (!self.is_over && omitted != Mutation::LookForEnd && pair.end.is_over())
        })
    }

    fn wake(&self, news: WakeReason) {
        if self.pair.alarms[1 - self.me].take_wake(news) {
            self.pair.bells[1 - self.me].ring();
        }
    }
}

/// Builds a model that runs both threads to their ends. If the other port ends, a port brings its
/// frames from the first loop iteration on, because the shutdown could happen in an iteration
/// without frames. Otherwise it brings no frames in the first iteration.
fn to_the_end<const FLAW: u8>(
    frames: [u32; 2],
    ends: [bool; 2],
    omitted: Mutation,
) -> impl Fn() + Send + Sync + 'static {
    move || {
        let pair = Arc::new(Pair::<FLAW>::default());
        let [left, right] = [0, 1].map(|me| Half {
            me,
            pair: pair.clone(),
            omitted,
            frames: frames[me],
            pauses: !ends[1 - me],
            ends: ends[me],
            is_over: false,
            lingers: false,
            sent: 0,
        });
        let other = thread::spawn(move || right.run());
        let sent = [left.run(), other.join().unwrap()];
        assert_eq!(sent, [frames[1], frames[0]], "frames are left behind");
    }
}

/// Returns all cases: how many frames each port brings, and which of the ports end.
fn cases() -> impl Iterator<Item = ([u32; 2], [bool; 2])> {
    let ends = [[true, false], [false, true], [true, true]];
    [[1, 0], [0, 1], [0, 0]].into_iter().flat_map(move |frames| ends.map(|ends| (frames, ends)))
}

#[test]
fn both_threads_end_and_leave_nothing_behind() {
    for (frames, ends) in cases() {
        explore_within(2, to_the_end::<RIGHT>(frames, ends, Mutation::Nothing));
    }
}

#[test]
fn without_any_of_this_a_thread_sleeps_for_ever_or_leaves_frames_behind() {
    // It is enough that one case fails, because some cases do not need the omitted step.
    let fails_without = |omitted| {
        cases().any(|(frames, ends)| fails_within(2, to_the_end::<RIGHT>(frames, ends, omitted)))
    };
    assert!(fails_without(Mutation::LookForEnd), "the end");
    assert!(fails_without(Mutation::LookForTaken), "taken");
    assert!(fails_without(Mutation::WakeWhenCalm), "calm");
    assert!(fails_without(Mutation::UnderWay), "under way");
    assert!(fails_without(Mutation::Stir), "stir");
}

#[test]
fn without_release_or_acquire_of_the_end_frames_are_left_behind() {
    let (frames, ends) = ([1, 0], [true, false]);
    assert!(fails_within(2, to_the_end::<NO_RELEASE>(frames, ends, Mutation::Nothing)), "release");
    assert!(fails_within(2, to_the_end::<NO_ACQUIRE>(frames, ends, Mutation::Nothing)), "acquire");
}

#[test]
fn without_the_fences_nobody_sees_the_end() {
    let (frames, ends) = ([0, 0], [true, true]);
    assert!(fails_within(2, to_the_end::<NO_FENCE>(frames, ends, Mutation::Nothing)), "no fence");
    assert!(
        fails_within(2, to_the_end::<ACQ_REL_FENCE>(frames, ends, Mutation::Nothing)),
        "a weaker one"
    );
}
