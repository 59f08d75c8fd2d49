//! Tests of the driver's half: what it accepts from a program, and how it handles everything else.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::Ordering::Relaxed;

use slipring_ring::{BufIdx, KernRing, Reinit, RingHalves, Rx, Slot, SlotFlags, Tx};
use support::{
    ROOM, SLOTS, bufs_of, shared_cur, shared_head, shared_region as region, shared_slot,
    shared_tail,
};

#[test]
fn a_new_tx_ring_is_the_programs_but_for_one_slot() {
    let RingHalves { mut app, kern } = RingHalves::<Tx>::create(&region(2048), 0, SLOTS).unwrap();
    assert_eq!((app.avail(), kern.hwtail(), kern.free_slots()), (ROOM, ROOM, 0));
}

#[test]
fn a_new_rx_ring_is_the_drivers() {
    let RingHalves { mut app, kern } = RingHalves::<Rx>::create(&region(2048), 0, SLOTS).unwrap();
    assert_eq!((app.avail(), kern.hwtail(), kern.free_slots()), (0, 0, ROOM));
}

#[test]
fn released_slots_are_those_the_program_has_passed_over() {
    let RingHalves { mut app, mut kern } =
        RingHalves::<Tx>::create(&region(2048), 0, SLOTS).unwrap();
    for round in 0..20 {
        app.push(&[round; 60]);
        app.push(&[round; 61]);
        let head = kern.released().unwrap();
        let lens: Vec<u16> = kern.slots(kern.hwcur(), head).map(|(_, slot)| slot.len).collect();
        assert_eq!((kern.pending(head), lens), (2, vec![60, 61]));
        kern.complete_to(head);
        kern.set_tail(kern.prev(head));
    }
}

#[test]
fn every_head_and_cur_is_accepted_exactly_when_netmap_accepts_it() {
    for hwcur in 0..SLOTS {
        for held in 0..SLOTS {
            for head in 0..=SLOTS {
                for cur in 0..=SLOTS {
                    let RingHalves { app, mut kern } =
                        RingHalves::<Rx>::create(&region(2048), 0, SLOTS).unwrap();
                    kern.complete_to(hwcur);
                    kern.set_tail((hwcur + held) % SLOTS);
                    shared_head(&app).store(head, Relaxed);
                    shared_cur(&app).store(cur, Relaxed);
                    // hwcur <= head <= cur <= hwtail, counted from hwcur.
                    let from_hwcur = |i: u32| (i + SLOTS - hwcur) % SLOTS;
                    let right = head < SLOTS
                        && cur < SLOTS
                        && from_hwcur(head) <= from_hwcur(cur)
                        && from_hwcur(cur) <= held;
                    assert_eq!(kern.released().is_ok(), right, "{hwcur} {held} {head} {cur}");
                }
            }
        }
    }
}

#[test]
fn an_index_outside_the_ring_sets_it_back_to_where_it_was_right() {
    let RingHalves { mut app, mut kern } =
        RingHalves::<Tx>::create(&region(2048), 0, SLOTS).unwrap();
    app.push(&[1; 60]);
    let head = kern.released().unwrap();
    kern.complete_to(head);
    shared_head(&app).store(SLOTS, Relaxed);
    shared_tail(&app).store(u32::MAX, Relaxed);
    let fault = kern.released().unwrap_err();
    assert_eq!(fault, Reinit { head: SLOTS, cur: 1, hwcur: 1, hwtail: ROOM });
    assert_eq!(fault.to_string(), "ring reinitialised: head 8, cur 1 are not within 1..=7");
    let now = [shared_head(&app), shared_cur(&app), shared_tail(&app)].map(|i| i.load(Relaxed));
    assert_eq!((now, kern.released()), ([1, 1, ROOM], Ok(1)));
}

#[test]
fn a_wrong_index_within_the_ring_is_left_for_the_program_to_correct() {
    let RingHalves { app, mut kern } = RingHalves::<Rx>::create(&region(2048), 0, SLOTS).unwrap();
    shared_head(&app).store(3, Relaxed);
    shared_cur(&app).store(3, Relaxed);
    assert!(kern.released().is_err());
    assert_eq!((shared_head(&app).load(Relaxed), shared_cur(&app).load(Relaxed)), (3, 3));
    shared_head(&app).store(0, Relaxed);
    shared_cur(&app).store(0, Relaxed);
    assert_eq!(kern.released(), Ok(0));
}

#[test]
fn reinit_empties_slots_that_name_no_buffer_and_those_too_long() {
    let RingHalves { mut app, mut kern } =
        RingHalves::<Tx>::create(&region(2048), 0, SLOTS).unwrap();
    let good = kern.slot(3);
    let word = |buf: u32, len: u16| u64::from(buf) | u64::from(len) << 32;
    shared_slot(&app, 0).store(word(1, 60), Relaxed);
    shared_slot(&app, 1).store(word(u32::MAX, 60), Relaxed);
    shared_slot(&app, 2).store(word(good.buf.0, 2049), Relaxed);
    shared_head(&app).store(u32::MAX, Relaxed);
    assert!(kern.released().is_err());
    let slot = |buf, len| Slot { buf, len, flags: SlotFlags::default() };
    let seen: Vec<Slot> = (0..4).map(|i| kern.slot(i)).collect();
    let none = slot(BufIdx(0), 0);
    assert_eq!(seen, [none, none, slot(good.buf, 0), good]);
    assert!(app.bytes(0).unwrap().is_empty());
}

#[test]
fn an_overwritten_tail_is_restored_by_the_next_sync() {
    let RingHalves { mut app, mut kern } =
        RingHalves::<Rx>::create(&region(2048), 0, SLOTS).unwrap();
    kern.set_tail(2);
    shared_tail(&app).store(u32::MAX, Relaxed);
    assert!(app.refresh().is_err());
    assert_eq!(app.avail(), 0, "a tail that is none releases nothing");
    kern.set_tail(2);
    assert_eq!(app.avail(), 2);
}

#[test]
fn bytes_of_a_slot_without_a_buffer_are_none() {
    let RingHalves { app, mut kern } = RingHalves::<Rx>::create(&region(2048), 0, SLOTS).unwrap();
    for buf in [0, 1, 128, u32::MAX] {
        shared_slot(&app, 0).store(u64::from(buf) | 60 << 32, Relaxed);
        assert!(kern.bytes(0).is_empty() && kern.buffer(0).is_empty(), "buffer {buf}");
        assert!(kern.payload(0).is_empty() && kern.bytes_of(BufIdx(buf), 60).is_empty());
    }
    kern.set(1, u16::MAX, SlotFlags::default());
    assert_eq!(kern.bytes(1).len(), 2048);
}

#[test]
fn a_private_rings_driver_reaches_its_own_slots_only() {
    let region = support::region(2048);
    let RingHalves { mut app, mut kern } = RingHalves::<Tx>::create(&region, 0, SLOTS).unwrap();
    let (none, bufs) = (SlotFlags::default(), bufs_of(&kern));
    let spare = region.alloc_owned().unwrap();
    for i in 0..ROOM {
        assert!(kern.bytes(i).is_empty() && kern.buffer(i).is_empty());
        assert!(kern.bytes_of(bufs[i as usize], 60).is_empty());
        assert!(!kern.exchange((i, 1, none), (ROOM, 1, none)));
    }
    let spare = kern.replace(0, spare, 60, none).unwrap_err();
    assert!(!kern.rename(0, Slot { buf: spare.index(), len: 60, flags: none }));
    // This tail would go backwards, over the program's slots.
    kern.set_tail(3);
    assert_eq!((kern.hwtail(), app.avail(), bufs_of(&kern)), (ROOM, ROOM, bufs.clone()));
    assert!(app.push(&[1; 60]) && app.push(&[2; 60]));
    assert!(kern.bytes(0).is_empty(), "not released");
    assert_eq!(kern.released(), Ok(2));
    assert_eq!((kern.bytes(0).to_vec(), kern.bytes(1).to_vec()), (vec![1; 60], vec![2; 60]));
    assert!(kern.exchange((0, 5, none), (1, 6, none)));
    let had = kern.replace(0, spare, 7, none).unwrap();
    assert_eq!((had.index(), kern.slot(1).buf, kern.slot(0).len), (bufs[1], bufs[0], 7));
    assert!(region.release_owned(had));
    assert_eq!(region.free_bufs(), 126 - SLOTS);
}

#[test]
fn nothing_of_a_private_region_is_reached_by_index() {
    let region = support::region(2048);
    let RingHalves { app, kern } = RingHalves::<Rx>::create(&region, 0, SLOTS).unwrap();
    let (view, buf, free) = (kern.view(), kern.slot(0).buf, region.free_bufs());
    assert_eq!(region.copy_in(buf, &[1; 9]), None);
    assert_eq!(region.copy_out_at(buf, 0, &mut [1; 9]), None);
    assert_eq!(view.copy((buf, 0), &view, (BufIdx(9), 0), 60), 0);
    region.release_bufs([buf]);
    assert_eq!(region.free_bufs(), free, "a ring has it");
    assert!(slipring_ring::RxRing::attach(&region, app.offset(), SLOTS).is_err());
    assert!(KernRing::resume(&region, app.offset(), SLOTS).is_err());
    let refused = |what: &dyn Fn()| {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(what));
        assert!(result.is_err(), "it would lend a buffer twice");
    };
    refused(&|| view.set_slot(0, view.slot(1)));
    refused(&|| view.advance_to(1));
    refused(&|| view.store_head_cur(1, 1));
    refused(&|| drop(RingHalves::<Rx>::resume_existing(&view)));
    refused(&|| {
        let _ = region.fd();
    });
}

#[test]
fn a_buffer_goes_into_rings_of_its_own_region_only() {
    let (here, other) = (support::region(2048), support::region(2048));
    let RingHalves { mut app, mut kern } = RingHalves::<Rx>::create(&here, 0, SLOTS).unwrap();
    let stranger = other.alloc_owned().unwrap();
    let stranger = kern.replace(0, stranger, 60, SlotFlags::default()).unwrap_err();
    kern.set_tail(1);
    assert_eq!(app.avail(), 1);
    let stranger = app.replace(0, stranger).unwrap_err();
    assert!(!here.release_owned(stranger));
}

#[test]
fn an_absent_direction_has_a_ring_that_holds_nothing() {
    let region = region(2048);
    let before = region.free_bufs();
    let RingHalves { mut app, mut kern } = RingHalves::<Tx>::absent(&region, 0).unwrap();
    assert!(!app.push(&[0; 60]));
    assert_eq!((app.fill(9, |_| 60), kern.released(), region.free_bufs()), (0, Ok(0), before));
}

#[test]
fn a_ring_of_no_slots_or_too_many_is_refused() {
    let region = region(2048);
    for slots in [0, (1 << 20) + 1, u32::MAX] {
        assert!(RingHalves::<Tx>::create(&region, 0, slots).is_err());
    }
    assert_eq!(region.free_bufs(), 126);
}

#[test]
fn a_dropped_ring_gives_its_bytes_and_buffers_back() {
    let region = region(2048);
    let before = region.free_bufs();
    let at = RingHalves::<Tx>::create(&region, 0, SLOTS).unwrap().app.offset();
    assert_eq!(region.free_bufs(), before);
    assert_eq!(RingHalves::<Rx>::create(&region, 0, SLOTS).unwrap().app.offset(), at);
    // All these rings together would not fit, but each is freed before the next is created.
    for _ in 0..1000 {
        RingHalves::<Rx>::create(&region, 0, 64).unwrap();
    }
}

#[test]
fn a_ring_that_does_not_fit_takes_nothing() {
    let region = region(2048);
    let held = RingHalves::<Tx>::create(&region, 0, 100).unwrap();
    let before = region.free_bufs();
    assert!(RingHalves::<Tx>::create(&region, 0, before + 1).is_err(), "too few buffers");
    let rings: Vec<_> = std::iter::from_fn(|| RingHalves::<Tx>::absent(&region, 0).ok()).collect();
    assert!(RingHalves::<Tx>::create(&region, 0, 2).is_err(), "too few ring bytes");
    assert_eq!(region.free_bufs(), before);
    drop((rings, held));
}
