//! Models of the protocols of this crate. Loom explores every interleaving with up to three
//! preemptions, and for each load every value stored before that the memory model allows; no load
//! returns a value that is stored later. Nearly every model also runs with one mistake, such as a
//! weaker memory ordering, and must then fail: a model that cannot fail proves nothing.

mod halves;

use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU32, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;
use slipring_test_support::models::{explore, fails};

use crate::doorbell::{SleepAnnouncement, announce, must_ring};
use crate::index::{SlotIdx, cyclic};
use crate::protocol::{DirectionStorage, PipeReceiver, PipeSender, SharedWord};

/// An index with configurable orderings.
struct Index {
    value: AtomicU32,
    load: Ordering,
    store: Ordering,
}

impl SharedWord for Index {
    fn acquire(&self) -> u32 {
        self.value.load(self.load)
    }
    fn release(&self, value: u32) {
        self.value.store(value, self.store);
    }
    fn take(&self) -> u32 {
        unreachable!("indices are not taken")
    }
    fn claim(&self, _: u32) -> bool {
        unreachable!("indices are not claimed")
    }
    fn full_fence() {
        unreachable!("indices need no fence")
    }
}

/// The correct orderings of the loads and stores of an index: those of the production code.
const RIGHT: [Ordering; 2] = [Acquire, Release];

/// One direction of a pipe. Loom checks accesses to its slots and buffers: an access that races
/// with an access of the other party fails the model.
struct Direction {
    sent: Index,
    freed: Index,
    tx: Vec<UnsafeCell<usize>>,
    rx: Vec<UnsafeCell<usize>>,
    bufs: Vec<UnsafeCell<usize>>,
}

impl Direction {
    fn new(num_slots: usize, [sent, freed]: [[Ordering; 2]; 2]) -> Arc<Self> {
        let index = |[load, store]: [Ordering; 2]| Index { value: AtomicU32::new(0), load, store };
        let cells = |first| (0..num_slots).map(|i| UnsafeCell::new(first + i)).collect();
        // The last buffer is a spare buffer of the receiver.
        let bufs = (0..=num_slots).map(|_| UnsafeCell::new(0)).collect();
        let (sent, freed) = (index(sent), index(freed));
        Arc::new(Self { sent, freed, tx: cells(0), rx: cells(num_slots), bufs })
    }
}

fn get(cell: &UnsafeCell<usize>) -> usize {
    // SAFETY: loom fails the model if another thread writes the cell meanwhile.
    cell.with(|value| unsafe { *value })
}

fn set(cell: &UnsafeCell<usize>, new: usize) {
    // SAFETY: loom fails the model if another thread accesses the cell meanwhile.
    cell.with_mut(|value| unsafe { *value = new });
}

impl DirectionStorage for Arc<Direction> {
    type W = Index;

    fn num_slots(&self) -> u32 {
        self.tx.len() as u32
    }
    fn sent(&self) -> &Index {
        &self.sent
    }
    fn freed(&self) -> &Index {
        &self.freed
    }
    fn publish_slots(&self, from: SlotIdx, to: SlotIdx) {
        for i in cyclic(from, to, self.num_slots()) {
            set(&self.rx[i as usize], get(&self.tx[i as usize]));
        }
    }
    fn return_slots(&self, from: SlotIdx, to: SlotIdx) {
        for i in cyclic(from, to, self.num_slots()) {
            set(&self.tx[i as usize], get(&self.rx[i as usize]));
        }
    }
}

/// Sends frames 1 to `frames`, and reads them in another thread, which exchanges the buffer of each
/// slot for the buffer of the previous frame.
fn pass_frames(num_slots: usize, frames: usize, orderings: [[Ordering; 2]; 2]) {
    let direction = Direction::new(num_slots, orderings);
    let receiver = thread::spawn({
        let direction = direction.clone();
        move || receive(&direction, frames)
    });
    send(&direction, frames);
    receiver.join().unwrap();
}

fn send(direction: &Arc<Direction>, frames: usize) {
    let n = direction.num_slots();
    let mut sender = PipeSender::new(direction.clone()).unwrap();
    let (mut head, mut tail, mut frame) = (0, n - 1, 0);
    while frame < frames {
        while head != tail && frame < frames {
            frame += 1;
            set(&direction.bufs[get(&direction.tx[head as usize])], frame);
            head = (head + 1) % n;
        }
        tail = sender.sync(head).unwrap();
        if head == tail {
            thread::yield_now();
        }
    }
}

fn receive(direction: &Arc<Direction>, frames: usize) {
    let n = direction.num_slots();
    let mut receiver = PipeReceiver::new(direction.clone()).unwrap();
    let (mut head, mut frame, mut spare) = (0, 0, n as usize);
    while frame < frames {
        let tail = receiver.sync(head).unwrap();
        if head == tail {
            thread::yield_now();
        }
        while head != tail {
            frame += 1;
            let buf = get(&direction.rx[head as usize]);
            assert_eq!(get(&direction.bufs[buf]), frame);
            set(&direction.rx[head as usize], spare);
            spare = buf;
            head = (head + 1) % n;
        }
    }
}

#[test]
fn frames_and_slots_pass_between_threads_without_a_race() {
    explore(|| pass_frames(2, 3, [RIGHT; 2]));
    explore(|| pass_frames(3, 6, [RIGHT; 2]));
    explore(|| pass_frames(4, 5, [RIGHT; 2]));
}

#[test]
fn without_release_or_acquire_of_either_index_slots_are_raced_for() {
    let weak = [[Acquire, Relaxed], [Relaxed, Release]];
    for weak in weak {
        assert!(fails(move || pass_frames(2, 3, [weak, RIGHT])), "sent: {weak:?}");
        assert!(fails(move || pass_frames(2, 3, [RIGHT, weak])), "freed: {weak:?}");
    }
}

/// The strength of a word's `full_fence`: sequentially consistent, acquire and release, or no
/// fence.
const FULL: u8 = 0;
const ACQ_REL: u8 = 1;
const NONE: u8 = 2;

/// The word that announces a sleeping party.
#[derive(Default)]
struct Flag<const FENCE: u8>(AtomicU32);

impl<const FENCE: u8> SharedWord for Flag<FENCE> {
    fn acquire(&self) -> u32 {
        self.0.load(Acquire)
    }
    fn release(&self, value: u32) {
        self.0.store(value, Release);
    }
    fn take(&self) -> u32 {
        self.0.swap(0, AcqRel)
    }
    fn claim(&self, client_id: u32) -> bool {
        self.0.compare_exchange(0, client_id, Acquire, Relaxed).is_ok()
    }
    fn full_fence() {
        match FENCE {
            FULL => fence(SeqCst),
            ACQ_REL => fence(AcqRel),
            _ => {}
        }
    }
}

/// One thread publishes. Another announces its sleep and checks once more. If the second thread has
/// missed the publication, it must be woken.
fn wake<const FENCE: u8>(
    announce: fn(&Flag<FENCE>),
    must_ring: fn(&Flag<FENCE>) -> bool,
) -> impl Fn() + Send + Sync + 'static {
    move || {
        let shared = Arc::new((AtomicU32::new(0), Flag::<FENCE>::default()));
        let waker = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.0.store(1, Release);
                must_ring(&shared.1)
            }
        });
        announce(&shared.1);
        let seen = shared.0.load(Acquire) == 1;
        let rung = waker.join().unwrap();
        assert!(seen || rung, "asleep for ever");
    }
}

#[test]
fn whoever_sleeps_has_seen_the_work_or_is_rung_for() {
    explore(wake::<FULL>(announce, must_ring));
}

#[test]
fn with_a_fence_missing_a_party_may_sleep_for_ever() {
    assert!(fails(wake::<NONE>(announce, must_ring)), "neither");
    assert!(fails(wake::<ACQ_REL>(announce, must_ring)), "weaker ones");
    assert!(fails(wake::<FULL>(|flag| flag.release(1), must_ring)), "the sleeper's");
    let hasty = |flag: &Flag<FULL>| flag.acquire() != 0 && flag.take() != 0;
    assert!(fails(wake::<FULL>(announce, hasty)), "the waker's");
}

#[test]
fn looking_before_the_announcement_is_not_enough() {
    assert!(fails(|| {
        let shared = Arc::new((AtomicU32::new(0), Flag::<FULL>::default()));
        let waker = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.0.store(1, Release);
                must_ring(&shared.1)
            }
        });
        let seen = shared.0.load(Acquire) == 1;
        announce(&shared.1);
        assert!(waker.join().unwrap() || seen);
    }));
}

#[test]
fn of_two_wakers_one_rings() {
    explore(|| {
        let sleeping = Arc::new(Flag::<FULL>::default());
        announce(&*sleeping);
        let other = thread::spawn({
            let sleeping = sleeping.clone();
            move || must_ring(&*sleeping)
        });
        let one = must_ring(&*sleeping);
        assert!(one != other.join().unwrap());
    });
}

/// Mistakes in moving the words of a half to memory that programs can access, so that they sync the
/// half themselves.
#[derive(Clone, Copy, PartialEq)]
enum Mutation {
    Nothing,
    /// The moved words do not announce the host's sleepers.
    Silent,
    /// The moved words announce the host's sleepers only after a program may already sync.
    Late,
    /// The sleeper does not check again after it has announced itself.
    LooksFirst,
    /// There is no fence between the sleeper's mark and its check whether the words have moved.
    ArmsLoosely,
    /// The sleeper never announces itself.
    Mute,
}

/// The host's state of a half that becomes shared. Each sleeper in the host has its own mark, which
/// is 1 until the sleeper is woken.
#[derive(Default)]
struct Half {
    marks: [AtomicU32; 2],
    shared: AtomicU32,
    lock: Mutex<()>,
    sleeps: Flag<FULL>,
    announced: Mutex<Option<SleepAnnouncement>>,
    sent: AtomicU32,
}

impl Half {
    fn add(&self) {
        let mut announced = self.announced.lock().unwrap();
        let missed =
            announced.get_or_insert_with(SleepAnnouncement::already_announced).add(&self.sleeps);
        drop(announced);
        if missed {
            self.wake();
        }
    }

    fn kicked(&self) {
        let mut announced = self.announced.lock().unwrap();
        let known = announced.get_or_insert_with(SleepAnnouncement::already_announced);
        let called = known.take_if_consumed(&self.sleeps);
        drop(announced);
        if called {
            self.wake();
        }
    }

    fn wake(&self) {
        fence(SeqCst);
        for mark in &self.marks {
            // As in `Listeners::wake`, a read precedes the write.
            if mark.load(Acquire) != 0 {
                mark.swap(0, AcqRel);
            }
        }
    }

    /// Returns whether sleeper `i` has seen everything that was sent, or has been woken for it.
    fn knows(&self, i: usize, seen: u32, sent: u32) -> bool {
        seen == sent || self.marks[i].load(Acquire) == 0
    }

    /// Runs sleeper `i`: checks, announces its sleep and checks once more; returns the last value
    /// of `sent` that it saw.
    fn sleep(&self, i: usize, wrong: Mutation) -> u32 {
        let observe = || {
            // A sync by the host, which excludes other threads of the host.
            let _sync = self.lock.lock().unwrap();
            self.sent.load(Acquire)
        };
        self.marks[i].swap(1, AcqRel);
        if wrong != Mutation::ArmsLoosely {
            fence(SeqCst);
        }
        let early = observe();
        if wrong != Mutation::Mute && self.shared.load(Acquire) == 1 {
            self.add();
        }
        if wrong == Mutation::LooksFirst { early } else { observe() }
    }

    /// Moves the words to the program's memory; then a program sends `frames` times through them.
    fn share_and_send(&self, frames: u32, wrong: Mutation) {
        let sync = self.lock.lock().unwrap();
        if !matches!(wrong, Mutation::Silent | Mutation::Late) {
            self.sleeps.release(1);
        }
        drop(sync);
        self.shared.store(1, Release);
        for frame in 1..=frames {
            self.sent.store(frame, Release);
            if must_ring(&self.sleeps) {
                self.kicked();
            }
            if wrong == Mutation::Late && frame == 1 {
                self.sleeps.release(1);
            }
        }
    }
}

/// One thread sleeps in the host while the other end is lent to a program that sends.
fn hand_over(frames: u32, wrong: Mutation) -> impl Fn() + Send + Sync + 'static {
    move || {
        let half = Arc::new(Half::default());
        let program = thread::spawn({
            let half = half.clone();
            move || half.share_and_send(frames, wrong)
        });
        let seen = half.sleep(0, wrong);
        program.join().unwrap();
        assert!(half.knows(0, seen, frames), "asleep for ever");
    }
}

#[test]
fn who_sleeps_while_the_other_end_is_lent_sees_what_comes_or_is_woken() {
    explore(hand_over(1, Mutation::Nothing));
    explore(hand_over(2, Mutation::Nothing));
}

#[test]
fn with_any_step_of_the_hand_over_wrong_one_may_sleep_for_ever() {
    assert!(fails(hand_over(1, Mutation::Silent)), "no announcement for earlier sleepers");
    assert!(fails(hand_over(1, Mutation::Late)), "one that comes late");
    assert!(fails(hand_over(2, Mutation::Mute)), "none of later ones");
    assert!(fails(hand_over(2, Mutation::LooksFirst)), "no look after it");
    assert!(fails(hand_over(2, Mutation::ArmsLoosely)), "no fence of the sleeper");
}

/// Two threads sleep in the host for the same half, whose other end a program syncs. `add`
/// announces a sleeper; `kicked` is the host's action when it is kicked.
fn two_sleepers(add: fn(&Half), kicked: fn(&Half)) -> impl Fn() + Send + Sync + 'static {
    move || {
        let (add, kicked) = (add, kicked);
        let half = Arc::new(Half::default());
        let sleep = move |half: &Half, i: usize| {
            half.marks[i].swap(1, AcqRel);
            fence(SeqCst);
            add(half);
            half.sent.load(Acquire)
        };
        let other = thread::spawn({
            let half = half.clone();
            move || sleep(&half, 1)
        });
        let program = thread::spawn({
            let half = half.clone();
            move || {
                half.sent.store(1, Release);
                if must_ring(&half.sleeps) {
                    kicked(&half);
                }
            }
        });
        let seen = sleep(&half, 0);
        let seen = [seen, other.join().unwrap()];
        program.join().unwrap();
        assert!((0..2).all(|i| half.knows(i, seen[i], 1)), "asleep for ever");
    }
}

#[test]
fn of_two_who_sleep_for_the_same_half_both_see_what_comes_or_are_woken() {
    explore(two_sleepers(Half::add, Half::kicked));
}

#[test]
fn a_second_announcement_that_hides_what_was_told_to_the_first_leaves_him_asleep() {
    let kicked = |half: &Half| {
        if half.sleeps.acquire() == 0 {
            half.wake();
        }
    };
    assert!(fails(two_sleepers(|half| announce(&half.sleeps), kicked)));
}

/// Two processes take turns at syncing the same half, and each continues where the other left off;
/// `claim` acquires the half.
fn take_turns(claim: fn(&AtomicU32) -> bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let claim = claim;
        let direction = Direction::new(4, [RIGHT; 2]);
        let shared = Arc::new((direction, AtomicU32::new(0), UnsafeCell::new(0)));
        let turn = move |shared: &Arc<(Arc<Direction>, AtomicU32, UnsafeCell<usize>)>| {
            let (direction, owner, sent) = &**shared;
            if !claim(owner) {
                return;
            }
            let mut sender = PipeSender::new(direction.clone()).unwrap();
            assert_eq!(sender.position() as usize, get(sent), "it goes on where the other was");
            sender.sync(sender.position() + 1).unwrap();
            set(sent, sender.position() as usize);
            owner.store(0, Release);
        };
        let other = thread::spawn({
            let shared = shared.clone();
            move || turn(&shared)
        });
        turn(&shared);
        other.join().unwrap();
    }
}

#[test]
fn a_half_is_synced_by_one_process_at_a_time() {
    explore(take_turns(|owner| owner.compare_exchange(0, 1, Acquire, Relaxed).is_ok()));
}

#[test]
fn without_the_claim_or_its_acquire_two_processes_race_for_a_half() {
    assert!(fails(take_turns(|_| true)), "nothing claimed");
    assert!(fails(take_turns(|owner| { owner.compare_exchange(0, 1, Relaxed, Relaxed).is_ok() })));
}
