//! Tests of moving frames between rings: by exchange, by copy, and in whole packets only.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use slipring_ring::{
    KernRing, Region, RingHalves, Rx, RxRing, SlotFlags, Tx, TxRing, copy, forward,
};
use support::{ROOM, SLOTS, all_different, bufs_of, region, shared_region};

struct Rings {
    rx: RxRing,
    rx_kern: KernRing,
    tx: TxRing,
    tx_kern: KernRing,
}

fn rings(from: &Arc<Region>, to: &Arc<Region>) -> Rings {
    let rx = RingHalves::<Rx>::create(from, 0, SLOTS).unwrap();
    let tx = RingHalves::<Tx>::create(to, 0, SLOTS).unwrap();
    Rings { rx: rx.app, rx_kern: rx.kern, tx: tx.app, tx_kern: tx.kern }
}

impl Rings {
    /// Receives a packet with one part per length in `lens`. Each byte of part `p` is `mark + p`.
    fn receive(&mut self, mark: u8, lens: &[usize]) {
        for (part, &len) in lens.iter().enumerate() {
            let at = self.rx_kern.hwtail();
            let more = part + 1 < lens.len();
            let flags = if more { SlotFlags::MOREFRAG } else { SlotFlags::default() };
            self.rx_kern.buffer(at).copy_in(&vec![mark + part as u8; len]);
            self.rx_kern.set(at, len as u16, flags);
            self.rx_kern.set_tail(self.rx_kern.next(at));
        }
    }

    /// Returns the queued frames: the first byte of each, its length, and whether more parts of its
    /// packet follow.
    fn queued(&mut self) -> Vec<(u8, usize, bool)> {
        let head = self.tx_kern.released().unwrap();
        let slots: Vec<_> = self.tx_kern.slots(self.tx_kern.hwcur(), head).collect();
        let mut parts = Vec::new();
        for (i, slot) in slots {
            let bytes = self.tx_kern.bytes(i).to_vec();
            assert!(bytes.iter().all(|&byte| byte == bytes[0]));
            parts.push((bytes[0], bytes.len(), slot.flags.has(SlotFlags::MOREFRAG)));
        }
        self.tx_kern.complete_to(head);
        self.tx_kern.set_tail(self.tx_kern.prev(head));
        parts
    }
}

#[test]
fn forward_within_a_region_exchanges_buffers() {
    let region = region(2048);
    let mut rings = rings(&region, &region);
    rings.receive(1, &[60]);
    let (frame, free) = (rings.rx_kern.slot(0).buf, rings.tx_kern.slot(0).buf);
    assert_eq!(forward(&mut rings.rx, &mut rings.tx, 8), 1);
    let (from, to) = (rings.rx_kern.slot(0), rings.tx_kern.slot(0));
    assert_eq!((from.buf, to.buf), (free, frame));
    assert!(from.flags.has(SlotFlags::BUF_CHANGED) && to.flags.has(SlotFlags::BUF_CHANGED));
    assert_eq!(rings.queued(), [(1, 60, false)]);
}

#[test]
fn forward_between_regions_copies_and_leaves_buffers_where_they_are() {
    let mut rings = rings(&region(2048), &region(4096));
    let before = (bufs_of(&rings.rx_kern), bufs_of(&rings.tx_kern));
    rings.receive(1, &[60]);
    rings.receive(2, &[2048, 7]);
    assert_eq!(forward(&mut rings.rx, &mut rings.tx, 8), 3);
    assert_eq!(rings.queued(), [(1, 60, false), (2, 2048, true), (3, 7, false)]);
    assert_eq!((bufs_of(&rings.rx_kern), bufs_of(&rings.tx_kern)), before);
}

#[test]
fn copy_leaves_the_frame_in_its_buffer_even_within_a_region() {
    let region = region(2048);
    let mut rings = rings(&region, &region);
    let before = bufs_of(&rings.rx_kern);
    rings.receive(5, &[100]);
    assert_eq!(copy(&mut rings.rx, &mut rings.tx, 8), 1);
    assert_eq!(bufs_of(&rings.rx_kern), before);
    rings.rx_kern.released().unwrap();
    assert_eq!((rings.queued(), rings.rx_kern.buffer(0).to_vec()[99]), (vec![(5, 100, false)], 5));
}

#[test]
fn a_copy_into_smaller_buffers_takes_more_slots_and_loses_no_byte() {
    let mut rings = rings(&region(4096), &region(2048));
    rings.receive(1, &[4096, 10]);
    rings.receive(9, &[60]);
    assert_eq!(forward(&mut rings.rx, &mut rings.tx, 8), 3);
    let frames = rings.queued();
    let lens: Vec<_> = frames.iter().map(|&(_, len, more)| (len, more)).collect();
    assert_eq!(lens, [(2048, true), (2048, true), (10, false), (60, false)]);
}

#[test]
fn a_copy_into_smaller_buffers_waits_for_room_for_the_whole_packet() {
    let mut rings = rings(&region(4096), &region(2048));
    for mark in 1..=3 {
        rings.receive(mark, &[3000]);
    }
    rings.receive(4, &[3000]);
    assert_eq!(forward(&mut rings.rx, &mut rings.tx, 8), 3, "six of seven slots");
    assert_eq!((rings.rx.avail(), rings.tx.avail()), (1, 1));
    rings.queued();
    assert_eq!(forward(&mut rings.rx, &mut rings.tx, 8), 1);
}

#[test]
fn a_packet_is_never_split() {
    let region = region(2048);
    for max in 0..=6 {
        for forward in [forward, copy] {
            let mut rings = rings(&region, &region);
            rings.receive(1, &[60]);
            rings.receive(11, &[60, 60, 60]);
            rings.receive(21, &[60, 60]);
            let expected = [0, 1, 1, 1, 4, 4, 6][max as usize];
            assert_eq!(forward(&mut rings.rx, &mut rings.tx, max), expected, "max {max}");
            assert_eq!(rings.queued().len() as u32, expected);
        }
    }
}

#[test]
fn a_packet_whose_end_has_not_come_waits_for_it() {
    let region = shared_region(2048);
    let mut rings = rings(&region, &region);
    rings.receive(1, &[60]);
    rings.receive(2, &[60, 60]);
    let end = rings.rx_kern.prev(rings.rx_kern.hwtail());
    rings.rx_kern.set_tail(end);
    assert_eq!(forward(&mut rings.rx, &mut rings.tx, 8), 1);
    rings.rx_kern.set_tail(rings.rx_kern.next(end));
    assert_eq!(forward(&mut rings.rx, &mut rings.tx, 8), 2);
}

#[test]
fn forward_moves_no_more_than_there_is_room_for() {
    let region = region(2048);
    let mut rings = rings(&region, &region);
    rings.tx.fill(ROOM - 2, |_| 60);
    for mark in 1..=4 {
        rings.receive(mark, &[60]);
    }
    assert_eq!(forward(&mut rings.rx, &mut rings.tx, 8), 2);
    assert_eq!((rings.rx.avail(), rings.tx.avail()), (2, 0));
}

#[test]
fn no_buffer_is_lost_or_doubled_over_many_rounds() {
    let region = region(2048);
    let mut rings = rings(&region, &region);
    let mut before = [bufs_of(&rings.rx_kern), bufs_of(&rings.tx_kern)].concat();
    for round in 0..100 {
        for mark in 0..round % 5 {
            rings.receive(mark, &[60 + usize::from(round)]);
        }
        forward(&mut rings.rx, &mut rings.tx, 3);
        rings.queued();
        let head = rings.rx_kern.released().unwrap();
        rings.rx_kern.complete_to(head);
        let mut now = [bufs_of(&rings.rx_kern), bufs_of(&rings.tx_kern)].concat();
        assert!(all_different(&now));
        now.sort_unstable();
        before.sort_unstable();
        assert_eq!(now, before);
        while forward(&mut rings.rx, &mut rings.tx, 8) > 0 {
            rings.queued();
        }
        let head = rings.rx_kern.released().unwrap();
        rings.rx_kern.complete_to(head);
    }
}

#[test]
fn a_copy_of_a_frame_onto_itself_changes_nothing() {
    let region = shared_region(2048);
    let mut rings = rings(&region, &region);
    rings.receive(1, &[60]);
    // Two slots have the same buffer: a state that only a peer which breaks the rules can cause.
    let doubled = rings.rx_kern.slot(0).buf;
    let tx = rings.tx_kern.view();
    tx.set_slot(0, slipring_ring::Slot { buf: doubled, ..tx.slot(0) });
    assert_eq!(copy(&mut rings.rx, &mut rings.tx, 8), 1);
    assert_eq!(rings.queued(), [(1, 60, false)]);
}

#[test]
fn flags_that_say_something_of_the_frame_travel_with_it() {
    let region = shared_region(2048);
    for forward in [forward, copy] {
        let mut rings = rings(&region, &region);
        rings.receive(1, &[60]);
        let all = SlotFlags(0xff ^ SlotFlags::MOREFRAG.0);
        let view = rings.rx_kern.view();
        view.set_slot(0, slipring_ring::Slot { flags: all, ..view.slot(0) });
        forward(&mut rings.rx, &mut rings.tx, 8);
        let kept = rings.tx_kern.slot(0).flags.0 & !SlotFlags::BUF_CHANGED.0;
        assert_eq!(kept, SlotFlags::REPORT.0);
    }
}
