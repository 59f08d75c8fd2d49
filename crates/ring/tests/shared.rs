//! Tests of rings that other processes map: a program gets copies of the buffers.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use slipring_ring::{PipeEnd, PipePair, Region, SlotFlags};
use support::{SLOTS, shared_region};

/// A pipe in memory that others may map, and a second mapping of the memory, as another process has
/// it.
fn pipe() -> (PipePair, Arc<Region>) {
    let region = shared_region(2048);
    let pair = PipePair::create(&region, 0, SLOTS).unwrap();
    let other = Region::attach(region.fd().try_clone_to_owned().unwrap()).unwrap();
    (pair, other)
}

fn send(end: &mut PipeEnd, frame: &[u8]) {
    assert!(end.tx.push(frame));
    end.tx_sync().unwrap();
}

#[test]
fn a_frame_that_is_lent_does_not_change_when_another_process_writes_to_it() {
    let (PipePair { mut a, mut b }, other) = pipe();
    send(&mut a, &[1; 60]);
    b.rx_sync().unwrap();
    let buf = (b.rx.avail() == 1).then(|| b.rx.slot(0)).flatten().unwrap().buf;
    let frame = b.rx.frame(0).unwrap();
    other.copy_in(buf, &[9; 60]);
    assert_eq!(frame.bytes, [1; 60]);
    assert_eq!(b.rx.bytes(0).unwrap().to_vec(), [9; 60]);
    assert!(b.rx.buffer(0).is_none() && !b.rx.bytes(0).unwrap().is_empty());
    assert!(b.rx.bytes(0).unwrap().first(0).is_empty());
}

#[test]
fn what_is_changed_of_a_frame_counts_once_it_is_written_back() {
    let (PipePair { mut a, mut b }, _) = pipe();
    send(&mut a, &[1; 60]);
    b.rx_sync().unwrap();
    b.rx.avail();
    b.rx.frame(0).unwrap().bytes[7] = 2;
    assert_eq!(b.rx.bytes(0).unwrap().read(7), Some([1]));
    b.rx.frame(0).unwrap().bytes[7] = 3;
    b.rx.write_back(0);
    b.rx.write_back(1);
    assert_eq!(b.rx.bytes(0).unwrap().read(7), Some([3]));
}

#[test]
fn frames_are_filled_drained_and_gathered_as_in_private_memory() {
    let (PipePair { mut a, mut b }, _) = pipe();
    let mut fill = 0;
    let filled = a.tx.fill(4, |buf| {
        assert_eq!(buf.len(), 2048);
        fill += 1;
        buf[..60].fill(fill);
        if fill == 4 { 0 } else { 60 + usize::from(fill) }
    });
    assert_eq!(filled, 3);
    assert_eq!(a.tx.fill_by_value(1, |buf| buf.copy_in(&[7; 64])), 1);
    assert!(a.tx.push(&[8; 5000]));
    a.tx_sync().unwrap();
    b.rx_sync().unwrap();
    let mut seen = Vec::new();
    for frame in b.rx.batch(2).frames() {
        seen.push((frame.bytes[0], frame.bytes.len()));
    }
    assert_eq!(b.rx.drain(1, |bytes, _| seen.push((bytes[0], bytes.len()))), 1);
    b.rx.drain_by_value(1, |bytes, _| seen.push((bytes.to_vec()[0], bytes.len())));
    assert_eq!(seen, [(1, 61), (2, 62), (3, 63), (7, 64)]);
    assert_eq!(b.rx.packet(&mut Vec::new(), |bytes| bytes.to_vec()), Some(vec![8; 5000]));
}

#[test]
fn frames_are_drained_in_order_and_changes_to_them_are_not_written_back() {
    let (PipePair { mut a, mut b }, _) = pipe();
    for round in 0..3 {
        let count = SLOTS - 1;
        for i in 0..count {
            assert!(a.tx.push(&vec![i as u8; 60 + (i + round) as usize]));
        }
        a.tx_sync().unwrap();
        b.rx_sync().unwrap();
        assert_eq!(b.rx.avail(), count);
        let bufs: Vec<_> = (0..count).filter_map(|i| b.rx.slot(i)).map(|slot| slot.buf).collect();
        let mut expected = 0..count;
        let drained = b.rx.drain(SLOTS, |bytes, _| {
            let i = expected.next().unwrap();
            assert_eq!(bytes, vec![i as u8; 60 + (i + round) as usize]);
            bytes.fill(0xee);
        });
        assert_eq!((drained, expected.next()), (count, None));
        for (i, buf) in (0..).zip(bufs) {
            let mut byte = [0];
            b.rx.region().copy_out(buf, &mut byte);
            assert_eq!(byte, [i]);
        }
        b.rx_sync().unwrap();
        a.tx_sync().unwrap();
    }
}

#[test]
fn frames_are_written_into_slots_by_copy() {
    let (PipePair { mut a, mut b }, _) = pipe();
    send(&mut a, &[4; 100]);
    b.rx_sync().unwrap();
    assert_eq!((b.rx.avail(), b.tx.avail() > 1), (1, true));
    let more = SlotFlags::MOREFRAG;
    assert!(b.tx.write_copy(0, &b.rx, 0, more) && b.tx.write(1, &[5; 3000], SlotFlags::default()));
    assert!(!b.tx.write_copy(0, &b.rx, 1, more) && !b.tx.write(SLOTS, &[5; 60], more));
    b.tx.advance(2);
    b.tx_sync().unwrap();
    a.rx_sync().unwrap();
    let whole = [vec![4; 100], vec![5; 2048]].concat();
    assert_eq!(a.rx.packet(&mut Vec::new(), |bytes| bytes.to_vec()), Some(whole));
}

#[test]
fn a_process_that_writes_all_the_time_spoils_bytes_and_nothing_else() {
    let (PipePair { mut a, mut b }, other) = pipe();
    let (stop, bufs) = (&AtomicBool::new(false), other.num_bufs());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for i in (2..bufs).cycle().take_while(|_| !stop.load(Relaxed)) {
                other.copy_in(slipring_ring::BufIdx(i), &[i as u8; 2048]);
            }
        });
        for round in 0..2000 {
            a.tx.fill(SLOTS, |buf| {
                let len = 1 + round % buf.len();
                buf[..len].fill(1);
                len
            });
            a.tx_sync().unwrap();
            b.rx_sync().unwrap();
            for frame in b.rx.batch(SLOTS).frames() {
                let once = frame.bytes.to_vec();
                assert_eq!((frame.bytes.len(), &*frame.bytes), (1 + round % 2048, &once[..]));
            }
        }
        stop.store(true, Relaxed);
    });
}
