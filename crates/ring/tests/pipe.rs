//! Tests of both ends of a pipe: in one thread, in two threads, and over two mappings of the
//! region.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use slipring_ring::{PipeEnd, PipePair, Region, SlotFlags, forward};
use support::{ROOM, SLOTS, shared_head, shared_region as region};

const ALL_BUFS: u32 = 126;

fn pipe(region: &Arc<Region>) -> PipePair {
    PipePair::create(region, 0, SLOTS).unwrap()
}

fn send(end: &mut PipeEnd, frames: &[&[u8]]) {
    for frame in frames {
        assert!(end.tx.push(frame), "there is room");
    }
    end.tx_sync().unwrap();
}

fn receive(end: &mut PipeEnd) -> Vec<Vec<u8>> {
    end.rx_sync().unwrap();
    end.rx.batch(u32::MAX).frames().map(|frame| frame.bytes.to_vec()).collect()
}

/// The other end of `master`'s pipe, over a separate mapping.
fn attach(master: &PipeEnd, region: &Arc<Region>) -> Result<PipeEnd, slipring_ring::RegionError> {
    let (masters, slaves) = master.doorbells();
    let (mine, peers) = (slaves.try_clone().unwrap(), masters.try_clone().unwrap());
    PipeEnd::attach(region, master.offset(), mine, peers)
}

fn second_mapping(region: &Region) -> Arc<Region> {
    Region::attach(region.fd().try_clone_to_owned().unwrap()).unwrap()
}

#[test]
fn frames_pass_both_ways_in_order_with_their_contents() {
    let PipePair { mut a, mut b } = pipe(&region(2048));
    send(&mut a, &[&[1; 60], &[2; 1514], &[3; 1]]);
    send(&mut b, &[&[4; 2048]]);
    assert_eq!(receive(&mut b), [vec![1; 60], vec![2; 1514], vec![3; 1]]);
    assert_eq!(receive(&mut a), [vec![4; 2048]]);
    assert_eq!((receive(&mut a), receive(&mut b)), (vec![], vec![]));
}

#[test]
fn a_packet_of_several_slots_arrives_whole() {
    let PipePair { mut a, mut b } = pipe(&region(2048));
    let packet: Vec<u8> = (0..5000).map(|i| (i / 7) as u8).collect();
    send(&mut a, &[&packet, &[9; 60]]);
    b.rx_sync().unwrap();
    let mut scratch = Vec::new();
    assert_eq!(b.rx.packet(&mut scratch, |bytes| bytes.to_vec()), Some(packet));
    assert_eq!(b.rx.packet(&mut scratch, |bytes| bytes.len()), Some(60));
}

#[test]
fn a_sync_counts_what_it_moved() {
    let PipePair { mut a, mut b } = pipe(&region(2048));
    a.tx.fill(3, |_| 60);
    assert_eq!(a.pending_tx(), Some(3));
    assert_eq!((a.tx_sync(), a.tx_sync(), a.in_flight()), (Ok(3), Ok(0), 3));
    assert_eq!((b.rx_sync(), b.rx_sync()), (Ok(3), Ok(0)));
    assert_eq!(b.rx.batch(2).frames().count(), 2);
    assert_eq!((b.rx_sync(), a.tx_sync(), a.in_flight()), (Ok(0), Ok(0), 1));
}

#[test]
fn a_full_pipe_takes_no_more_until_the_receiver_gives_slots_back() {
    let PipePair { mut a, mut b } = pipe(&region(2048));
    assert_eq!(a.tx.fill(100, |_| 60), ROOM);
    a.tx_sync().unwrap();
    assert!(!a.tx.push(&[1; 60]));
    b.rx_sync().unwrap();
    assert_eq!(b.rx.batch(1).frames().count(), 1);
    a.tx_sync().unwrap();
    assert_eq!(a.tx.avail(), 0, "not given back before the receiver's sync");
    b.rx_sync().unwrap();
    a.tx_sync().unwrap();
    assert_eq!(a.tx.avail(), 1);
}

#[test]
fn a_buffer_the_receiver_exchanged_reaches_the_sender() {
    let region = region(2048);
    let PipePair { mut a, mut b } = pipe(&region);
    let PipePair { a: mut c, b: mut d } = pipe(&region);
    for round in 0..50 {
        send(&mut a, &[&[round; 60], &[round; 61]]);
        b.rx_sync().unwrap();
        assert_eq!(forward(&mut b.rx, &mut c.tx, 8), 2);
        c.tx_sync().unwrap();
        assert_eq!(receive(&mut d), [vec![round; 60], vec![round; 61]]);
        d.rx_sync().unwrap();
        b.rx_sync().unwrap();
        a.tx_sync().unwrap();
        c.tx_sync().unwrap();
    }
    drop((a, b, c, d));
    assert_eq!(region.free_bufs(), ALL_BUFS);
}

#[test]
fn dropping_both_ends_returns_every_buffer_and_byte() {
    let region = region(2048);
    for _ in 0..200 {
        let PipePair { mut a, b } = pipe(&region);
        a.tx.fill(3, |_| 60);
        a.tx_sync().unwrap();
        drop(a);
        drop(b);
        assert_eq!(region.free_bufs(), ALL_BUFS);
    }
}

#[test]
fn a_pipe_dropped_with_exchanged_frames_under_way_frees_what_it_owns_only() {
    let region = region(2048);
    let PipePair { mut a, mut b } = pipe(&region);
    let PipePair { a: mut c, b: mut d } = pipe(&region);
    send(&mut a, &[&[1; 60], &[2; 60]]);
    b.rx_sync().unwrap();
    forward(&mut b.rx, &mut c.tx, 8);
    c.tx_sync().unwrap();
    // `b` has not returned its slots yet. They contain buffers of `c`, whose peer `d` has the
    // buffers of `a`.
    drop((a, b));
    let taken = region.alloc_bufs(region.free_bufs()).unwrap();
    for buf in taken {
        region.copy_in(buf, &[0xff; 2048]);
    }
    assert_eq!(receive(&mut d), [vec![1; 60], vec![2; 60]]);
    drop((c, d));
    assert_eq!(region.free_bufs(), 2 * SLOTS);
}

#[test]
fn a_ring_that_outlives_its_pipe_keeps_its_buffers() {
    let region = region(2048);
    let mut rx = {
        let PipePair { mut a, mut b } = pipe(&region);
        send(&mut a, &[&[1; 60]]);
        b.rx_sync().unwrap();
        b.rx
    };
    assert_eq!(region.free_bufs(), ALL_BUFS - SLOTS);
    assert_eq!(rx.batch(8).frames().map(|frame| frame.bytes[59]).collect::<Vec<_>>(), [1]);
    drop(rx);
    assert_eq!(region.free_bufs(), ALL_BUFS);
}

#[test]
fn a_pipe_that_does_not_fit_takes_nothing() {
    let region = region(2048);
    assert!(PipePair::create(&region, 0, 100).is_err(), "buffers for one direction only");
    assert_eq!(region.free_bufs(), ALL_BUFS);
    let mut pipes: Vec<PipePair> = Vec::new();
    while let Ok(pipe) = PipePair::create(&region, 0, 2) {
        pipes.push(pipe);
    }
    assert_eq!(region.free_bufs(), ALL_BUFS - 4 * pipes.len() as u32);
    pipes.clear();
    assert!(PipePair::create(&region, 0, 0).is_err());
    assert_eq!(region.free_bufs(), ALL_BUFS);
    assert!(PipePair::create(&region, 0, 60).is_ok(), "all ring bytes are back");
}

#[test]
fn a_failed_sync_moves_nothing() {
    let PipePair { mut a, mut b } = pipe(&region(2048));
    a.tx.fill(2, |_| 60);
    let right = shared_head(&a.tx).swap(99, std::sync::atomic::Ordering::Relaxed);
    assert!(a.tx_sync().is_err());
    assert_eq!(receive(&mut b).len(), 0);
    shared_head(&a.tx).store(right, std::sync::atomic::Ordering::Relaxed);
    a.tx.advance(0);
    assert_eq!((a.tx_sync(), receive(&mut b).len()), (Ok(2), 2));
}

#[test]
fn an_end_attached_over_a_second_mapping_is_an_end() {
    let region = region(2048);
    let PipePair { mut a, b } = pipe(&region);
    drop(b);
    let other = second_mapping(&region);
    let mut b = attach(&a, &other).unwrap();
    for round in 0..20 {
        send(&mut a, &[&[round; 60], &[round + 1; 61]]);
        assert_eq!(receive(&mut b), [vec![round; 60], vec![round + 1; 61]]);
        send(&mut b, &[&[round + 2; 62]]);
        assert_eq!(receive(&mut a), [vec![round + 2; 62]]);
    }
}

#[test]
fn a_slave_end_in_use_is_not_taken_up_again() {
    let region = region(2048);
    let PipePair { a, mut b } = pipe(&region);
    send(&mut b, &[&[1; 60]]);
    let refused = attach(&a, &second_mapping(&region)).unwrap_err();
    assert_eq!(refused.to_string(), "not a slipring region: the slave end of this pipe is in use");
}

#[test]
fn an_end_that_gets_frames_before_it_is_attached_receives_them() {
    let region = region(2048);
    let PipePair { mut a, b } = pipe(&region);
    drop(b);
    send(&mut a, &[&[1; 60], &[2; 60]]);
    let mut b = attach(&a, &second_mapping(&region)).unwrap();
    assert_eq!(receive(&mut b), [vec![1; 60], vec![2; 60]]);
}

#[test]
fn no_end_is_attached_where_no_pipe_lies() {
    let region = region(2048);
    let PipePair { a, .. } = pipe(&region);
    let other = second_mapping(&region);
    let bell = || a.doorbells().0.try_clone().unwrap();
    for offset in [0, 1, 64, 4096 + 32 * 1024, 4096 + (64 << 10), u64::MAX, u64::MAX - 127] {
        assert!(PipeEnd::attach(&other, offset, bell(), bell()).is_err(), "offset {offset}");
    }
}

/// Sleeps until there is something to receive.
fn sleep_for_frames(end: &mut PipeEnd) {
    loop {
        end.announce_sleep(true, false);
        if end.rx_sync().unwrap() > 0 {
            return end.wake();
        }
        poll(&mut [PollFd::new(end.doorbells().0, PollFlags::IN)], None).unwrap();
        end.wake();
    }
}

/// Sleeps until there is space to send.
fn sleep_for_slots(end: &mut PipeEnd) {
    loop {
        end.announce_sleep(false, true);
        end.tx_sync().unwrap();
        if end.tx.avail() > 0 {
            return end.wake();
        }
        poll(&mut [PollFd::new(end.doorbells().0, PollFlags::IN)], None).unwrap();
        end.wake();
    }
}

const MANY: u64 = 200_000;

fn send_many(end: &mut PipeEnd) {
    let mut next = 0u64;
    while next < MANY {
        let sent = end.tx.fill((MANY - next).min(5) as u32, |buf| {
            buf[..8].copy_from_slice(&next.to_ne_bytes());
            next += 1;
            8 + next as usize % 100
        });
        end.tx_sync().unwrap();
        if sent == 0 {
            sleep_for_slots(end);
        }
    }
}

fn receive_many(end: &mut PipeEnd) {
    let mut next = 0u64;
    while next < MANY {
        let mut seen = 0;
        for frame in end.rx.batch(7).frames() {
            assert_eq!(frame.bytes[..8], next.to_ne_bytes());
            next += 1;
            assert_eq!(frame.bytes.len(), 8 + next as usize % 100);
            seen += 1;
        }
        end.rx_sync().unwrap();
        if seen == 0 && end.rx.avail() == 0 {
            sleep_for_frames(end);
        }
    }
}

#[test]
fn two_threads_that_sleep_for_each_other_lose_nothing() {
    let region = region(2048);
    let PipePair { mut a, mut b } = pipe(&region);
    thread::scope(|scope| {
        scope.spawn(|| send_many(&mut a));
        scope.spawn(|| receive_many(&mut b));
    });
    drop((a, b));
    assert_eq!(region.free_bufs(), ALL_BUFS);
}

#[test]
fn nobody_is_rung_for_who_is_awake() {
    let PipePair { mut a, b } = pipe(&region(2048));
    let rings = |end: &PipeEnd| {
        poll(&mut [PollFd::new(end.doorbells().0, PollFlags::IN)], Some(&Default::default()))
            .unwrap()
    };
    a.tx.fill(1, |_| 60);
    a.tx_sync().unwrap();
    assert_eq!(rings(&b), 0, "awake");
    b.announce_sleep(false, true);
    a.tx.fill(1, |_| 60);
    a.tx_sync().unwrap();
    assert_eq!(rings(&b), 0, "asleep for slots, not for frames");
    b.announce_sleep(true, false);
    a.tx_sync().unwrap();
    assert_eq!(rings(&b), 0, "nothing was sent");
    a.tx.fill(1, |_| 60);
    a.tx_sync().unwrap();
    assert_eq!(rings(&b), 1);
    b.wake();
    assert_eq!(rings(&b), 0);
}

#[test]
fn flags_reach_the_peer() {
    let PipePair { mut a, mut b } = pipe(&region(2048));
    a.tx.set(0, 60, SlotFlags::REPORT);
    a.tx.advance(1);
    a.tx_sync().unwrap();
    b.rx_sync().unwrap();
    b.rx.avail();
    assert_eq!(b.rx.slot(0).map(|slot| slot.flags), Some(SlotFlags::REPORT));
}

#[test]
fn the_word_beside_a_frame_arrives_with_it() {
    let PipePair { mut a, mut b } = pipe(&region(2048));
    assert!(a.tx.push(&[1; 60]) && a.tx.push(&[2; 60]));
    assert_eq!(a.tx.word(SLOTS), None, "no such slot");
    a.tx_sync().unwrap();
    for word in [7, u64::MAX] {
        assert!(a.tx.write(0, &[3; 60], SlotFlags::default()));
        a.tx.set_word(0, word);
        a.tx.advance(1);
    }
    a.tx_sync().unwrap();
    b.rx_sync().unwrap();
    b.rx.avail();
    assert_eq!([2, 3].map(|at| b.rx.word(at)), [Some(7), Some(u64::MAX)]);
}
