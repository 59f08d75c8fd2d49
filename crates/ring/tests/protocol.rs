//! Tests of the index protocol over heap memory, against a peer that writes arbitrary values.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use slipring_ring::{DirectionStorage, PeerFault, PipeReceiver, PipeSender, SharedWord, SlotIdx};

/// The words of one direction, and a record of which slots were moved.
struct Heap {
    num_slots: u32,
    sent: AtomicU32,
    freed: AtomicU32,
    moved: RefCell<Vec<(SlotIdx, SlotIdx)>>,
}

impl Heap {
    fn new(num_slots: u32, sent: u32, freed: u32) -> Self {
        let (sent, freed) = (AtomicU32::new(sent), AtomicU32::new(freed));
        Self { num_slots, sent, freed, moved: RefCell::default() }
    }
}

impl DirectionStorage for &Heap {
    type W = AtomicU32;
    fn num_slots(&self) -> u32 {
        self.num_slots
    }
    fn sent(&self) -> &AtomicU32 {
        &self.sent
    }
    fn freed(&self) -> &AtomicU32 {
        &self.freed
    }
    fn publish_slots(&self, from: SlotIdx, to: SlotIdx) {
        self.moved.borrow_mut().push((from, to));
    }
    fn return_slots(&self, from: SlotIdx, to: SlotIdx) {
        self.moved.borrow_mut().push((from, to));
    }
}

const N: u32 = 5;

#[test]
fn a_role_is_taken_up_where_the_words_stand_unless_they_are_no_indices() {
    for sent in 0..=N {
        for freed in 0..=N {
            let heap = Heap::new(N, sent, freed);
            let possible = sent < N && freed < N;
            assert_eq!(PipeSender::new(&heap).is_ok(), possible);
            assert_eq!(PipeReceiver::new(&heap).is_ok(), possible);
            if possible {
                let sender = PipeSender::new(&heap).unwrap();
                assert_eq!((sender.sent(), sender.in_flight()), (sent, (sent + N - freed) % N));
                assert_eq!(PipeReceiver::new(&heap).unwrap().freed(), freed);
            }
        }
    }
}

#[test]
fn a_sender_believes_a_receiver_that_frees_what_it_holds_and_nothing_else() {
    for freed in 0..N {
        for in_flight in 0..N {
            for word in (0..=N).chain([u32::MAX]) {
                let sent = (freed + in_flight) % N;
                let heap = Heap::new(N, sent, freed);
                let mut sender = PipeSender::new(&heap).unwrap();
                heap.freed.store(word, Relaxed);
                let believable = word < N && (word + N - freed) % N <= in_flight;
                let synced = sender.sync((sent + 1) % N);
                let tail = (word.wrapping_add(N - 1)) % N;
                assert_eq!(synced.ok(), believable.then_some(tail), "{freed} {in_flight} {word}");
            }
        }
    }
}

#[test]
fn a_receiver_believes_a_sender_that_sends_what_it_holds_and_nothing_else() {
    for freed in 0..N {
        for held in 0..N {
            for word in (0..=N).chain([u32::MAX]) {
                let heap = Heap::new(N, (freed + held) % N, freed);
                let mut receiver = PipeReceiver::new(&heap).unwrap();
                assert_eq!(receiver.sync(freed), Ok((freed + held) % N));
                heap.sent.store(word, Relaxed);
                let more = (word.wrapping_add(2 * N - freed - held)) % N;
                let believable = word < N && more <= N - 1 - held;
                let synced = receiver.sync(freed);
                assert_eq!(synced.ok(), believable.then_some(word), "{freed} {held} {word}");
            }
        }
    }
}

#[test]
fn a_sync_that_fails_does_nothing_and_can_be_repeated() {
    let heap = Heap::new(N, 0, 0);
    let mut sender = PipeSender::new(&heap).unwrap();
    heap.freed.store(1, Relaxed);
    let fault = PeerFault::NotItsSlots { from: 0, to: 1, owned: 0 };
    assert_eq!(sender.sync(2), Err(fault));
    assert_eq!((heap.sent.load(Relaxed), heap.moved.borrow().len()), (0, 0));
    heap.freed.store(0, Relaxed);
    assert_eq!(sender.sync(2), Ok(4));
    assert_eq!((heap.sent.load(Relaxed), heap.moved.take()), (2, vec![(0, 2)]));
}

#[test]
fn faults_say_what_the_peer_wrote() {
    let heap = Heap::new(N, 0, 0);
    let mut receiver = PipeReceiver::new(&heap).unwrap();
    heap.sent.store(77, Relaxed);
    let fault = receiver.sync(0).unwrap_err();
    assert_eq!(fault.to_string(), "peer wrote index 77 into a ring of 5 slots");
    let beyond = PeerFault::NotItsSlots { from: 1, to: 4, owned: 2 };
    assert_eq!(beyond.to_string(), "peer moved its index from 1 to 4, beyond the 2 slots it owned");
}

#[test]
fn slots_move_only_when_there_are_any() {
    let heap = Heap::new(N, 0, 0);
    let mut sender = PipeSender::new(&heap).unwrap();
    let mut receiver = PipeReceiver::new(&heap).unwrap();
    assert_eq!((sender.sync(0), receiver.sync(0)), (Ok(4), Ok(0)));
    assert_eq!(heap.moved.take(), []);
    assert_eq!((sender.sync(3), receiver.sync(0), receiver.sync(2)), (Ok(4), Ok(3), Ok(3)));
    assert_eq!((sender.sync(1), receiver.sync(2)), (Ok(1), Ok(1)));
    assert_eq!(heap.moved.take(), [(0, 3), (0, 2), (3, 1)]);
}

#[test]
fn a_receiver_that_resumes_had_taken_over_what_it_says_as_far_as_that_was_sent() {
    for freed in 0..N {
        for in_flight in 0..N {
            for told in (0..=N).chain([u32::MAX]) {
                let heap = Heap::new(N, (freed + in_flight) % N, freed);
                let receiver = PipeReceiver::resume(&heap, told).unwrap();
                let believable = told < N && (told + N - freed) % N <= in_flight;
                assert_eq!(receiver.freed(), freed);
                let sent = if believable { told } else { freed };
                assert_eq!(receiver.sent(), sent, "{freed} {in_flight} {told}");
            }
        }
    }
}

/// Checks that a word keeps the contract of [`SharedWord`], as far as one thread can.
fn holds_what_one_party_says<W: SharedWord>(word: &W) {
    word.release(7);
    assert!(!word.claim(3), "somebody has it");
    assert_eq!((word.acquire(), word.take(), word.take()), (7, 7, 0));
    assert!(word.claim(3) && !word.claim(4));
    assert_eq!((word.acquire(), word.take(), word.acquire()), (3, 3, 0));
}

#[test]
fn words_of_both_widths_are_claimed_and_taken_once() {
    holds_what_one_party_says(&AtomicU32::new(0));
    holds_what_one_party_says(&AtomicU64::new(0));
}
