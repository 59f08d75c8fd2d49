//! Tests of rings as their host sees them: netmap's words in the header, indices that other
//! processes wrote, payload offsets.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use slipring_abi::{NETMAP_IF_RING_OFS, NetmapIf, NetmapRing, PlainData};
use slipring_ring::{
    BufIdx, Geometry, HugePages, InterfaceRecord, KernRing, Region, RingHalves, RingOffsets,
    RingView, Rx, SlotFlags, Tx,
};
use support::{ROOM, SLOTS, region as private_region, shared_region};

/// The ring's header as a program reads it in its own mapping.
fn header(ring: &RingView) -> NetmapRing {
    let mut bytes = [0; size_of::<NetmapRing>()];
    rustix::io::pread(ring.region().fd(), &mut bytes, ring.offset()).unwrap();
    NetmapRing::read_from(&bytes).unwrap()
}

fn rx_ring() -> RingHalves<Rx> {
    RingHalves::create(&shared_region(2048), 7, SLOTS).unwrap()
}

#[test]
fn the_header_tells_a_program_what_netmap_tells_it() {
    let region = shared_region(2048);
    let tx = header(&RingHalves::<Tx>::create(&region, 3, SLOTS).unwrap().kern.view());
    assert_eq!((tx.num_slots, tx.nr_buf_size, tx.ringid, tx.dir), (SLOTS, 2048, 3, 0));
    assert_eq!((tx.head, tx.cur, tx.tail), (0, 0, ROOM));
    let mut rx = RingHalves::<Rx>::create(&region, 4, SLOTS).unwrap();
    let told = header(&rx.kern.view());
    assert_eq!((told.ringid, told.dir, told.head, told.cur, told.tail), (4, 1, 0, 0, 0));
    // A program finds a buffer by `NETMAP_BUF`: ring + buf_ofs + index * nr_buf_size.
    rx.kern.buffer(2).copy_in(&[5; 64]);
    let index = u64::from(rx.kern.slot(2).buf.0);
    let at = rx.kern.view().offset() + told.buf_ofs as u64 + index * 2048;
    let mut found = [0; 64];
    rustix::io::pread(region.fd(), &mut found, at).unwrap();
    assert_eq!(found, [5; 64]);
}

#[test]
fn words_of_the_header_are_read_and_written_where_netmap_has_them() {
    let ring = rx_ring().kern.view();
    assert_eq!((ring.flags(), ring.lost(), ring.num_slots()), (0, 0, SLOTS));
    ring.set_timestamp(3, 4);
    ring.set_lost(9);
    rustix::io::pwrite(ring.region().fd(), &6u32.to_ne_bytes(), ring.offset() + 32).unwrap();
    let told = header(&ring);
    assert_eq!((told.ts.tv_sec, told.ts.tv_usec, told.lost, told.flags), (3, 4, 9, 6));
    assert_eq!((ring.flags(), ring.lost()), (6, 9));
    let RingHalves { kern, .. } = rx_ring();
    kern.set_timestamp(5, 6);
    assert_eq!(header(&kern.view()).ts.tv_usec, 6);
}

#[test]
fn indices_that_arrive_by_other_means_are_judged_when_the_driver_reads_them() {
    let RingHalves { mut kern, .. } =
        RingHalves::<Tx>::create(&shared_region(2048), 0, SLOTS).unwrap();
    let ring = kern.view();
    ring.store_head_cur(2, 3);
    assert_eq!((ring.head(), ring.cur(), kern.peek_released()), (2, 3, Some(2)));
    ring.store_head_cur(3, 2);
    assert_eq!(kern.peek_released(), None);
    ring.advance_to(4);
    assert_eq!((ring.head(), ring.cur(), kern.released()), (4, 4, Ok(4)));
    assert_eq!(ring.hwcur(), 0);
    kern.complete_to(4);
    assert_eq!((ring.hwcur(), ring.is_ready()), (4, true));
    ring.store_head_cur(4, ROOM);
    assert!(!ring.is_ready(), "nothing beyond the slot that it waits for");
}

#[test]
fn payloads_begin_at_the_offset_in_their_slot_under_the_mask_of_the_ring() {
    let RingHalves { mut kern, .. } = rx_ring();
    let (ring, region) = (kern.view(), kern.region().clone());
    ring.set_slot_ptr(1, 0x7140);
    assert_eq!((ring.slot_ptr(1), ring.slot_ptr(2), ring.payload_offset(1)), (0x7140, 0, 0));
    assert_eq!((ring.offsets(), kern.has_published_offsets()), (None, false));
    let offsets = RingOffsets { mask: 0xff, max: 200 };
    ring.set_offsets(Some(offsets), 64);
    let told = header(&ring);
    assert_eq!((told.offset_mask, told.buf_align), (0xff, 64));
    assert_eq!((ring.offsets(), kern.offsets()), (Some(offsets), Some(offsets)));
    assert!(kern.has_published_offsets());
    assert_eq!(
        (ring.payload_offset(1), kern.payload_offset(1), ring.payload_offset(2)),
        (64, 64, 0)
    );
    region.copy_in_at(kern.slot(1).buf, 64, &[7; 10]);
    kern.set(1, 10, SlotFlags::default());
    assert_eq!(kern.payload(1).to_vec(), [7; 10]);
    assert_eq!((kern.buffer(1).len(), kern.buffer(2).len()), (2048 - 64, 2048));
    ring.set_offsets(None, 0);
    assert_eq!((header(&ring).offset_mask, ring.offsets(), ring.payload_offset(1)), (0, None, 0));
    ring.set_host_offsets(offsets);
    assert_eq!((header(&ring).offset_mask, ring.payload_offset(1)), (0, 64));
}

#[test]
fn a_copy_between_rings_ends_with_the_shorter_buffer() {
    let (one, other) = (rx_ring(), RingHalves::<Rx>::create(&shared_region(4096), 0, 8).unwrap());
    let (from, to) = (one.kern.view(), other.kern.view());
    let (source, buf) = (from.slot(0).buf, to.slot(0).buf);
    from.region().copy_in_at(source, 5, b"a payload");
    assert_eq!(to.copy((buf, 100), &from, (source, 7), 7), 7);
    let mut seen = [0; 9];
    to.region().copy_out_at(buf, 99, &mut seen).unwrap();
    assert_eq!(&seen, b"\0payload\0");
    assert_eq!(to.copy((buf, 0), &from, (source, 2000), 500), 48);
    assert_eq!(to.copy((buf, 4090), &from, (source, 0), 500), 6);
    assert_eq!(to.copy((buf, 4096), &from, (source, 0), 1), 0);
    let private = RingHalves::<Rx>::create(&private_region(2048), 0, SLOTS).unwrap();
    assert_eq!(to.copy((buf, 0), &private.kern.view(), (source, 0), 8), 0);
}

#[test]
fn a_ring_is_foreign_to_who_has_not_laid_it_out() {
    let (ours, region) = (rx_ring(), shared_region(2048));
    let made = RingHalves::<Rx>::create(&region, 0, SLOTS).unwrap();
    let other = Region::attach(region.fd().try_clone_to_owned().unwrap()).unwrap();
    let mut theirs = KernRing::attach(&other, made.app.offset(), SLOTS).unwrap();
    assert!(theirs.is_foreign() && !made.kern.is_foreign() && !ours.kern.is_foreign());
    assert!(theirs.resync(3, ROOM) && !theirs.resync(SLOTS, 0) && !theirs.resync(0, SLOTS));
    assert_eq!((theirs.hwcur(), theirs.hwtail()), (3, ROOM));
    assert_eq!(theirs.view().hwcur(), 3);
}

#[test]
fn observers_of_a_resumed_ring_see_where_its_driver_goes_on() {
    let region = shared_region(2048);
    let mut made = RingHalves::<Rx>::create(&region, 0, SLOTS).unwrap();
    made.kern.set_tail(ROOM);
    made.kern.view().store_head_cur(2, 2);
    let resumed = RingHalves::<Rx>::resume_existing(&made.kern.view()).kern;
    assert_eq!((resumed.hwcur(), resumed.hwtail(), resumed.view().hwcur()), (2, ROOM, 2));
}

#[test]
fn buffers_are_exchanged_between_slots_of_the_driver_in_one_region_only() {
    let (region, flags) = (private_region(2048), SlotFlags::REPORT);
    let ring = |region: &Arc<Region>| RingHalves::<Rx>::create(region, 0, SLOTS).unwrap().kern;
    let (mut a, mut b, mut far) = (ring(&region), ring(&region), ring(&private_region(2048)));
    let (x, y) = (a.slot(3).buf, b.slot(4).buf);
    assert!(a.exchange_with((3, 60, flags), &mut b, (4, 61, SlotFlags::default())));
    assert_eq!((a.slot(3).buf, a.slot(3).len, a.slot(3).flags), (y, 60, flags));
    assert_eq!((b.slot(4).buf, b.slot(4).len), (x, 61));
    assert!(!a.exchange_with((3, 0, flags), &mut far, (4, 0, flags)), "another region");
    a.set_tail(1);
    assert!(!a.exchange_with((0, 0, flags), &mut b, (4, 0, flags)), "the program's");
    assert!(!b.exchange_with((4, 0, flags), &mut a, (0, 0, flags)), "the program's");
    assert_eq!((b.slot(4).buf, b.slot(4).len), (x, 61));
    assert!(!a.rename(3, b.slot(4)), "peers reach no slot here");
    let mut open = rx_ring().kern;
    let slot = slipring_ring::Slot { buf: BufIdx(9), len: 1, flags };
    assert!(open.rename(3, slot));
    assert_eq!(open.slot(3), slot);
}

/// A region whose ring area has space for 32 interface records of 128 bytes.
fn small_region() -> Arc<Region> {
    let geometry = Geometry { ring_bytes: 4096, bufs: 2, buf_size: 2048 };
    Region::create_shared(geometry, HugePages::Never).unwrap()
}

#[test]
fn records_take_the_bytes_of_their_rings_and_give_them_back() {
    let (region, head) = (small_region(), NetmapIf::default());
    let rings = (128 - NETMAP_IF_RING_OFS) / 8;
    let create = |rings: usize| InterfaceRecord::create(&region, &head, vec![0; rings].into_iter());
    for _ in 0..2 {
        let records: Vec<_> = (0..32).map(|_| create(rings).unwrap()).collect();
        assert!(create(0).is_err(), "the region is full");
        assert!(records.iter().all(|record| record.rings() == rings));
    }
    assert!((0..16).map(|_| create(rings + 1).unwrap()).collect::<Vec<_>>().len() == 16);
    let offset = create(rings).unwrap().offset();
    let again = InterfaceRecord::resume(&region, offset, rings).unwrap();
    assert_eq!((again.offset(), again.rings()), (offset, rings));
    assert!(InterfaceRecord::resume(&region, offset, rings).is_err(), "it is taken");
    assert!(InterfaceRecord::resume(&region, offset + 128, rings).is_ok(), "and nothing after it");
}
