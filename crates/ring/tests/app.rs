//! Tests of the program's half: its permitted accesses, their order, and when slots are released.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use slipring_ring::{KernRing, Region, RingHalves, Rx, RxRing, Slot, SlotFlags, Tx, TxRing};
use support::{ROOM, SLOTS, all_different, bufs_of, region};

fn tx() -> (TxRing, KernRing) {
    let pair = RingHalves::<Tx>::create(&region(2048), 0, SLOTS).unwrap();
    (pair.app, pair.kern)
}

/// Creates an rx ring that has received these frames. The flag of each part says whether its packet
/// continues in the next slot.
fn received(frames: &[(&[u8], bool)]) -> (RxRing, KernRing) {
    let RingHalves { app, mut kern } = RingHalves::<Rx>::create(&region(2048), 0, SLOTS).unwrap();
    for &(bytes, more) in frames {
        let at = kern.hwtail();
        let flags = if more { SlotFlags::MOREFRAG } else { SlotFlags::default() };
        kern.buffer(at).copy_in(bytes);
        kern.set(at, bytes.len() as u16, flags);
        kern.set_tail(kern.next(at));
    }
    (app, kern)
}

fn queued(kern: &mut KernRing) -> Vec<(Vec<u8>, SlotFlags)> {
    let head = kern.released().unwrap();
    let slots: Vec<_> = kern.slots(kern.hwcur(), head).collect();
    kern.complete_to(head);
    slots.into_iter().map(|(i, slot)| (kern.bytes(i).to_vec(), slot.flags)).collect()
}

#[test]
fn fill_queues_frames_in_order_with_their_lengths() {
    let (mut tx, mut kern) = tx();
    let mut lens = [60, 60, 1514, 60, 2048].into_iter();
    let filled = tx.fill(5, |buf| {
        let len = lens.next().unwrap();
        buf[..len].fill(len as u8);
        len
    });
    let lens: Vec<usize> = queued(&mut kern).iter().map(|(bytes, _)| bytes.len()).collect();
    assert_eq!((filled, lens), (5, vec![60, 60, 1514, 60, 2048]));
}

#[test]
fn fill_stops_at_a_length_of_zero_and_keeps_what_came_before() {
    let (mut tx, mut kern) = tx();
    let mut left = 3;
    let filled = tx.fill(u32::MAX, |_| {
        if left == 0 {
            0
        } else {
            left -= 1;
            64
        }
    });
    assert_eq!((filled, tx.avail(), queued(&mut kern).len()), (3, ROOM - 3, 3));
}

#[test]
fn fill_offers_whole_buffers_no_more_than_there_are() {
    let (mut tx, _kern) = tx();
    let filled = tx.fill(100, |buf| {
        assert_eq!(buf.len(), 2048);
        usize::MAX
    });
    assert_eq!((filled, tx.avail()), (ROOM, 0));
    assert_eq!(tx.fill(1, |_| unreachable!("there is no free slot")), 0);
}

#[test]
fn fill_leaves_no_flags_of_earlier_frames() {
    let (mut tx, mut kern) = tx();
    for _ in 0..3 {
        tx.set(0, 60, SlotFlags::MOREFRAG);
        tx.fill(5, |_| 60);
        let flags: Vec<_> = queued(&mut kern).iter().map(|(_, flags)| flags.0).collect();
        assert_eq!(flags, [0; 5]);
        kern.set_tail(kern.prev(kern.hwcur()));
    }
}

#[test]
fn a_panic_while_filling_queues_nothing() {
    let (mut tx, mut kern) = tx();
    let mut frames = 0;
    let filling = std::panic::AssertUnwindSafe(|| {
        tx.fill(5, |_| {
            frames += 1;
            assert!(frames < 3, "on purpose");
            60
        })
    });
    assert!(std::panic::catch_unwind(filling).is_err());
    assert!(queued(&mut kern).is_empty());
    assert_eq!(tx.avail(), ROOM);
}

#[test]
fn push_spreads_a_long_frame_and_marks_all_but_the_last_slot() {
    let (mut tx, mut kern) = tx();
    let frame: Vec<u8> = (0..5000).map(|i| i as u8).collect();
    assert!(tx.push(&frame));
    let parts = queued(&mut kern);
    let more: Vec<bool> = parts.iter().map(|(_, flags)| flags.has(SlotFlags::MOREFRAG)).collect();
    let whole: Vec<u8> = parts.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
    assert_eq!((more, whole), (vec![true, true, false], frame));
}

#[test]
fn push_queues_all_of_a_frame_or_nothing() {
    let (mut tx, mut kern) = tx();
    assert!(tx.push(&[1; 5 * 2048]));
    assert!(!tx.push(&[2; 2 * 2048 + 1]));
    assert!(tx.push(&[3; 2 * 2048]));
    assert_eq!((queued(&mut kern).len(), tx.avail()), (7, 0));
}

#[test]
fn push_of_an_empty_frame_takes_no_slot() {
    let (mut tx, _kern) = tx();
    assert!(tx.push(&[]));
    assert_eq!(tx.avail(), ROOM);
}

#[test]
fn a_batch_gives_back_what_was_looked_at() {
    let (mut rx, mut kern) = received(&[(&[1; 60], false), (&[2; 61], false), (&[3; 62], false)]);
    let mut batch = rx.batch(8);
    assert_eq!(batch.frames().len(), 3);
    let seen: Vec<u8> = batch.frames().take(2).map(|frame| frame.bytes[0]).collect();
    drop(batch);
    assert_eq!((seen, kern.released()), (vec![1, 2], Ok(2)));
    assert_eq!(rx.batch(8).frames().map(|frame| frame.bytes.len()).collect::<Vec<_>>(), [62]);
}

#[test]
fn a_batch_takes_no_more_than_asked_for() {
    let (mut rx, mut kern) = received(&[(&[1; 60], false), (&[2; 61], false), (&[3; 62], false)]);
    assert_eq!(rx.batch(2).frames().count(), 2);
    assert_eq!((rx.batch(0).frames().count(), kern.released()), (0, Ok(2)));
}

#[test]
fn frames_of_a_batch_can_be_written_to() {
    let (mut rx, _kern) = received(&[(&[1; 60], false), (&[2; 60], false)]);
    let mut batch = rx.batch(2);
    let mut frames: Vec<_> = batch.frames().collect();
    let (first, second) = frames.split_at_mut(1);
    first[0].bytes.swap_with_slice(second[0].bytes);
    assert_eq!((frames[0].bytes[0], frames[1].bytes[0]), (2, 1));
}

#[test]
fn a_packet_in_one_slot_is_read_in_place() {
    let (mut rx, mut kern) = received(&[(&[7; 60], false)]);
    let mut scratch = Vec::new();
    assert_eq!(rx.packet(&mut scratch, |bytes| bytes.to_vec()), Some(vec![7; 60]));
    assert_eq!((scratch.capacity(), kern.released()), (0, Ok(1)));
}

#[test]
fn a_packet_in_several_slots_is_gathered() {
    let (mut rx, mut kern) =
        received(&[(&[1; 2048], true), (&[2; 10], true), (&[3; 5], false), (&[4; 60], false)]);
    let gathered = rx.packet(&mut vec![9; 100], |bytes| bytes.to_vec()).unwrap();
    assert_eq!(gathered, [vec![1; 2048], vec![2; 10], vec![3; 5]].concat());
    assert_eq!(kern.released(), Ok(3));
}

#[test]
fn a_packet_whose_end_is_not_there_stays() {
    let (mut rx, mut kern) = received(&[(&[1; 60], true), (&[2; 60], true)]);
    assert_eq!(rx.packet(&mut Vec::new(), |_| unreachable!("it is not whole")), None::<()>);
    assert_eq!((kern.released(), rx.avail()), (Ok(0), 2));
}

#[test]
fn whole_packets_leaves_out_parts() {
    let (mut rx, _kern) = received(&[
        (&[1; 60], false),
        (&[2; 60], true),
        (&[2; 60], false),
        (&[3; 60], true),
        (&[3; 60], true),
    ]);
    rx.avail();
    let counts: Vec<u32> = (0..=6).map(|max| rx.whole_packets(max)).collect();
    assert_eq!(counts, [0, 1, 1, 3, 3, 3, 3]);
}

#[test]
fn swap_exchanges_buffers_and_says_so_on_both_sides() {
    let region = region(2048);
    let mut a = RingHalves::<Tx>::create(&region, 0, SLOTS).unwrap();
    let mut b = RingHalves::<Tx>::create(&region, 1, SLOTS).unwrap();
    a.app.set(1, 60, SlotFlags::REPORT);
    let (x, y) = (a.app.slot(1).unwrap(), b.app.slot(2).unwrap());
    assert!(a.app.swap(1, &mut b.app, 2));
    let flags = SlotFlags::REPORT | SlotFlags::BUF_CHANGED;
    assert_eq!(a.app.slot(1), Some(Slot { buf: y.buf, len: 60, flags }));
    assert_eq!(b.app.slot(2), Some(Slot { buf: x.buf, flags: SlotFlags::BUF_CHANGED, ..y }));
    assert!(all_different(&[bufs_of(&a.kern), bufs_of(&b.kern)].concat()));
}

#[test]
fn swap_does_nothing_beyond_the_programs_slots_or_between_regions() {
    let (one, other) = (region(2048), region(2048));
    let mut a = RingHalves::<Tx>::create(&one, 0, SLOTS).unwrap();
    let mut b = RingHalves::<Tx>::create(&one, 1, SLOTS).unwrap();
    let mut c = RingHalves::<Tx>::create(&other, 0, SLOTS).unwrap();
    let before = bufs_of(&a.kern);
    assert!(!a.app.swap(ROOM, &mut b.app, 0));
    assert!(!a.app.swap(0, &mut b.app, ROOM));
    assert!(!a.app.swap(0, &mut c.app, 0));
    assert_eq!(bufs_of(&a.kern), before);
}

#[test]
fn exchange_moves_a_frame_within_the_ring() {
    let (mut rx, kern) = received(&[(&[1; 60], false), (&[2; 61], true)]);
    rx.avail();
    rx.exchange(0, 1);
    let (first, second) = (rx.slot(0).unwrap(), rx.slot(1).unwrap());
    assert_eq!((first.len, second.len), (61, 60));
    assert_eq!(first.flags, SlotFlags::MOREFRAG | SlotFlags::BUF_CHANGED);
    assert_eq!(rx.frame(0).unwrap().bytes, [2; 61]);
    rx.exchange(1, 1);
    rx.exchange(0, 2);
    assert_eq!(rx.frame(1).unwrap().bytes, [1; 60]);
    assert!(all_different(&bufs_of(&kern)));
}

#[test]
fn replace_gives_the_old_buffer_out() {
    let (mut rx, kern) = received(&[(&[1; 60], false)]);
    rx.avail();
    let spare = rx.region().alloc_owned().unwrap();
    let spare_idx = spare.index();
    let old = rx.replace(0, spare).unwrap();
    assert_eq!((rx.slot(0).unwrap().buf, rx.slot(0).unwrap().len), (spare_idx, 60));
    assert!(!bufs_of(&kern).contains(&old.index()));
    let old = rx.replace(1, old).unwrap_err();
    assert!(rx.region().clone().release_owned(old));
}

#[test]
fn nothing_beyond_the_programs_slots_can_be_reached() {
    let (mut rx, kern) = received(&[(&[1; 60], false)]);
    rx.avail();
    let before: Vec<Slot> = (0..SLOTS).map(|i| kern.slot(i)).collect();
    rx.set(1, 9, SlotFlags::REPORT);
    assert!(rx.slot(1).is_none() && rx.frame(1).is_none() && rx.buffer(u32::MAX).is_none());
    rx.advance(u32::MAX);
    assert_eq!((rx.head(), rx.slot(0)), (1, None));
    assert_eq!((0..SLOTS).map(|i| kern.slot(i)).collect::<Vec<_>>(), before);
}

#[test]
fn set_cuts_a_length_to_the_buffer() {
    let (mut tx, _kern) = tx();
    tx.set(0, 1 << 20, SlotFlags::REPORT);
    assert_eq!(tx.slot(0).map(|slot| (slot.len, slot.flags)), Some((2048, SlotFlags::REPORT)));
    assert_eq!(tx.buffer(0).unwrap().len(), 2048);
}

#[test]
fn show_reads_slots_of_either_half() {
    let (mut rx, _kern) = received(&[(&[1; 60], false), (&[2; 61], false)]);
    rx.batch(2).frames().for_each(drop);
    let mut seen = Vec::new();
    rx.for_each_frame(0, 2, |bytes, _| seen.push(bytes.to_vec()));
    rx.for_each_frame(0, SLOTS, |_, _| unreachable!("the ring has no such slot"));
    assert_eq!(seen, [vec![1; 60], vec![2; 61]]);
}

#[test]
fn slots_with_the_driver_and_with_the_program_add_up() {
    let (mut tx, mut kern) = tx();
    assert_eq!(tx.with_driver(), 0);
    tx.fill(3, |_| 60);
    assert_eq!((tx.with_driver(), tx.avail()), (3, 4));
    let head = kern.released().unwrap();
    kern.complete_to(head);
    kern.set_tail(kern.prev(head));
    assert_eq!(tx.with_driver(), 0);
}

#[test]
fn slots_are_weighed_listed_and_judged_without_their_bytes() {
    let (mut rx, mut kern) = received(&[(&[1; 60], true), (&[2; 61], false), (&[3; 62], false)]);
    assert_eq!((rx.num_slots(), rx.first_flags()), (SLOTS, None), "none is ours yet");
    rx.avail();
    let weigh = |slot: Slot| u64::from(slot.len);
    assert_eq!([0, 1, 2, 3, 9].map(|max| rx.sum(max, weigh)), [0, 60, 121, 183, 183]);
    assert_eq!(rx.first_flags(), Some(SlotFlags::MOREFRAG));
    assert_eq!([0, 1].map(|i| rx.frame(i).unwrap().more()), [true, false]);
    let mut lens = Vec::new();
    rx.for_each_len(1, 3, |len, flags| lens.push((len, flags.0)));
    rx.for_each_len(0, SLOTS, |_, _| unreachable!("the ring has no such slot"));
    rx.for_each_len(SLOTS, 0, |_, _| unreachable!("the ring has no such slot"));
    assert_eq!(lens, [(61, 0), (62, 0)]);
    // The frames of all rounds together go past the end of the ring, so slots are used again.
    for round in 0..SLOTS as u16 {
        rx.advance(3);
        let head = kern.released().unwrap();
        kern.complete_to(head);
        let at = kern.hwtail();
        (0..3).for_each(|i| kern.set(kern.add(at, i), 100 + round, SlotFlags::default()));
        kern.set_tail(kern.add(at, 3));
        rx.avail();
        assert_eq!(rx.sum(u32::MAX, weigh), 3 * u64::from(100 + round));
    }
}

#[test]
fn a_frame_moves_to_a_slot_of_a_driver_of_the_same_region_and_a_free_buffer_comes_back() {
    let (mut rx, kern) = received(&[(&[1; 60], false)]);
    rx.avail();
    let other = |region: &Arc<Region>| RingHalves::<Rx>::create(region, 1, SLOTS).unwrap().kern;
    let mut driver = other(&rx.region().clone());
    let (frame, free) = (rx.slot(0).unwrap(), driver.slot(2));
    let more = SlotFlags::MOREFRAG;
    assert!(!rx.swap_to_driver(1, &mut driver, 2, more), "not ours");
    assert!(!rx.swap_to_driver(0, &mut other(&region(2048)), 2, more), "another region");
    driver.set_tail(1);
    assert!(!rx.swap_to_driver(0, &mut driver, 0, more), "not the driver's");
    assert_eq!((rx.slot(0), driver.slot(2)), (Some(frame), free));
    assert!(rx.swap_to_driver(0, &mut driver, 2, more));
    assert_eq!(driver.slot(2), Slot { buf: frame.buf, len: 60, flags: more });
    let flags = SlotFlags::BUF_CHANGED;
    assert_eq!(rx.slot(0), Some(Slot { buf: free.buf, len: 60, flags }));
    assert!(all_different(&[bufs_of(&kern), bufs_of(&driver)].concat()));
}

#[test]
fn indices_that_a_program_moves_itself_are_taken_over_if_they_are_slots() {
    let RingHalves { app: mut rx, .. } =
        RingHalves::<Rx>::create(&support::shared_region(2048), 0, SLOTS).unwrap();
    for (head, cur) in [(3, 5), (ROOM, 0)] {
        support::shared_head(&rx).store(head, Relaxed);
        support::shared_cur(&rx).store(cur, Relaxed);
        rx.take_over_cur();
        assert_eq!(rx.head(), cur);
        rx.take_over_head();
        assert_eq!(rx.head(), head);
    }
    for impossible in [SLOTS, u32::MAX] {
        support::shared_head(&rx).store(impossible, Relaxed);
        rx.take_over_head();
        assert_eq!(rx.head(), ROOM);
    }
}
