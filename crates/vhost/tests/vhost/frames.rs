//! Tests of frames to and from a well-behaved guest.

use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slipring_port::{DropCause, Interest, TrafficCounts, WaitOutcome};
use vm_memory::GuestAddress;

use super::guest::{FEATURES, Guest, INDIRECT, NEXT, Ring, SIZE, Setup, WRITE};
use super::{Rig, frame};

#[test]
fn frames_pass_both_ways_and_are_counted() {
    let mut rig = Rig::new();
    let mut guest = rig.plug();
    guest.offer(0, 16, 2048);
    for i in 0..8 {
        guest.send(&frame(i, 60 + usize::from(i)));
        rig.queue(0, &frame(100 + i, 60));
    }
    rig.port.tx_sync().unwrap();
    let sent: Vec<_> = (0..8).map(|i| (frame(100 + i, 60), 1)).collect();
    assert_eq!(guest.received(), sent);
    let received: Vec<_> = (0..8).map(|i| frame(i, 60 + usize::from(i))).collect();
    assert_eq!(rig.receive(), received);
    let stats = rig.stats();
    assert_eq!(stats.tx, TrafficCounts { packets: 8, bytes: 480 });
    assert_eq!(stats.rx, TrafficCounts { packets: 8, bytes: 480 + 28 });
    assert_eq!((stats.drops().count(), stats.in_flight), (0, 0));
    // All eight buffers were returned.
    assert_eq!(std::iter::from_fn(|| guest.tx().take()).count(), 8);
}

#[test]
fn a_frame_of_many_slots_lies_in_merged_buffers() {
    let mut rig = Rig::new();
    let mut guest = rig.plug();
    guest.offer(0, 16, 1500);
    rig.send(&frame(1, 5000));
    assert_eq!(guest.received(), [(frame(1, 5000), 4)]);
}

#[test]
fn a_frame_longer_than_a_buffer_is_dropped_where_buffers_are_not_merged() {
    let mut rig = Rig::new();
    let features = FEATURES & !(1 << 15);
    let setup = Setup { features, ..Setup::default() };
    let mut guest = Guest::plug(&rig.socket, setup).unwrap();
    guest.offer(0, 16, 1526);
    rig.send(&frame(1, 1515));
    rig.send(&frame(2, 1514));
    assert_eq!(guest.received(), [(frame(2, 1514), 1)]);
    assert_eq!(rig.dropped(DropCause::TxTooLong), 1);
}

#[test]
fn a_frame_that_does_not_fit_in_all_buffers_of_the_queue_is_dropped_and_the_next_one_arrives() {
    let mut rig = Rig::new();
    let setup = Setup { size: 8, ..Setup::default() };
    let mut guest = Guest::plug(&rig.socket, setup).unwrap();
    guest.offer(0, 8, 100);
    rig.send(&frame(1, 800));
    rig.send(&frame(2, 60));
    assert_eq!(guest.received(), [(frame(2, 60), 1)]);
    assert_eq!(rig.dropped(DropCause::TxTooLong), 1);
}

#[test]
fn an_old_guest_has_short_headers() {
    let mut rig = Rig::new();
    let features = 1 << 30;
    let mut guest = Guest::plug(&rig.socket, Setup { features, ..Setup::default() }).unwrap();
    guest.offer(0, 4, 2048);
    rig.send(&frame(1, 60));
    guest.send(&frame(2, 60));
    guest.tx().kick.write(1).unwrap();
    assert_eq!(guest.received(), [(frame(1, 60), 1)]);
    assert_eq!(rig.receive(), [frame(2, 60)]);
}

#[test]
fn frames_wait_for_buffers_and_the_guest_is_asked_to_tell_of_them() {
    let mut rig = Rig::new();
    let mut guest = rig.plug();
    guest.offer(0, 1, 2048);
    rig.queue(0, &frame(1, 60));
    rig.queue(0, &frame(2, 60));
    rig.port.tx_sync().unwrap();
    assert_eq!(guest.received(), [(frame(1, 60), 1)]);
    assert_eq!(rig.stats().in_flight, 1);
    let mut guest = std::thread::scope(|scope| {
        let buffers = scope.spawn(move || {
            // The program waits for frames meanwhile. If it sleeps, the kick for this buffer wakes
            // it to send frame 2, and the kick for frame 3 ends its wait.
            guest.offer(1, 1, 2048);
            std::thread::sleep(std::time::Duration::from_millis(20));
            guest.send(&frame(3, 60));
            guest
        });
        rig.wait();
        buffers.join().unwrap()
    });
    assert_eq!(rig.receive(), [frame(3, 60)]);
    assert_eq!(guest.received(), [(frame(2, 60), 1)]);
    assert_eq!(rig.stats().in_flight, 0);
}

/// Whether a program that sleeps on a pair would be woken.
fn is_woken(rig: &Rig, pair: usize) -> bool {
    let fd = rig.port.queues[pair].wait_fds().rx.unwrap();
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

#[test]
fn buffers_of_the_first_queue_pair_wake_a_ring_pair_that_the_guest_does_not_use() {
    let mut rig = Rig::with_pairs(2);
    let mut guest = rig.plug();
    guest.offer(0, 1, 2048);
    rig.queue(1, &frame(1, 60));
    rig.queue(1, &frame(2, 60));
    rig.port.tx_sync().unwrap();
    assert_eq!(guest.received(), [(frame(1, 60), 1)]);
    for queue in &mut rig.port.queues {
        queue.after_sleep();
    }
    rig.port.queues[1].before_sleep(Interest::BOTH);
    rig.port.queues[0].before_sleep(Interest::BOTH);
    rig.port.queues[0].after_sleep();
    assert!(!is_woken(&rig, 1));
    guest.offer(1, 1, 2048);
    assert!(is_woken(&rig, 1));
    rig.port.queues[1].after_sleep();
    rig.port.tx_sync().unwrap();
    assert_eq!(guest.received(), [(frame(2, 60), 1)]);
    assert!(!is_woken(&rig, 1));
}

#[test]
fn who_sleeps_is_woken_by_a_frame_and_asks_only_then() {
    let mut rig = Rig::new();
    let mut guest = rig.plug();
    assert!(rig.receive().is_empty());
    assert!(!guest.send(&frame(1, 60)), "nobody sleeps, so nobody asks");
    assert_eq!(rig.receive(), [frame(1, 60)]);
    let (ready, may_send) = std::sync::mpsc::channel();
    let (notify, was_told) = std::sync::mpsc::channel();
    let sender = std::thread::spawn(move || {
        for () in may_send {
            // The port requests a kick before it sleeps. If this frame comes before the request, no
            // kick is sent, and the test tries again.
            std::thread::sleep(std::time::Duration::from_millis(20));
            notify.send(guest.send(&frame(2, 60))).unwrap();
        }
    });
    let slept = (0..100).any(|_| {
        ready.send(()).unwrap();
        assert_eq!(rig.wait(), WaitOutcome::Ready);
        assert_eq!(rig.receive(), [frame(2, 60)]);
        was_told.recv().unwrap()
    });
    assert!(slept);
    drop(ready);
    sender.join().unwrap();
}

#[test]
fn the_guest_is_called_when_it_asks_for_that() {
    let mut rig = Rig::new();
    let mut guest = rig.plug();
    guest.offer(0, 4, 2048);
    rig.send(&frame(1, 60));
    assert_eq!(guest.rx().call.read().unwrap(), 1);
    // The guest has not read the used ring yet. So it needs no second notification.
    rig.send(&frame(2, 60));
    assert!(guest.rx().call.read().is_err());
    assert_eq!(guest.received().len(), 2);
    rig.send(&frame(3, 60));
    assert_eq!(guest.rx().call.read().unwrap(), 1);
}

#[test]
fn what_fits_no_slot_or_is_unfinished_is_dropped_by_name() {
    let mut rig = Rig::new();
    let mut guest = rig.plug();
    guest.send(&frame(1, 2048));
    guest.send(&frame(2, 2049));
    guest.send(&frame(3, 13));
    guest.send_with(1, &frame(4, 60));
    guest.send(&frame(5, 14));
    assert_eq!(rig.receive(), [frame(1, 2048), frame(5, 14)]);
    assert_eq!(rig.dropped(DropCause::RxTooLong), 1);
    assert_eq!(rig.dropped(DropCause::RxMalformed), 2);
    assert_eq!(std::iter::from_fn(|| guest.tx().take()).count(), 5);
}

#[test]
fn a_full_rx_ring_leaves_frames_with_the_guest() {
    let mut rig = Rig::new();
    let mut guest = rig.plug();
    (0..100).for_each(|i| assert!(!guest.send(&frame(i, 60))));
    let mut all = rig.receive();
    assert_eq!(all.len(), super::SLOTS as usize - 1);
    all.extend(rig.receive());
    assert_eq!(all, (0..100).map(|i| frame(i, 60)).collect::<Vec<_>>());
}

/// How a driver lays out a frame in descriptors.
#[derive(Debug, Clone)]
struct Layout {
    len: usize,
    /// The offsets at which the frame, including its header, is split; modulo its length.
    cuts: Vec<usize>,
    indirect: bool,
}

fn layout() -> impl Strategy<Value = Layout> {
    let cuts = proptest::collection::vec(0..2000_usize, 0..6);
    (14..=2000_usize, cuts, any::<bool>()).prop_map(|(len, cuts, indirect)| Layout {
        len,
        cuts,
        indirect,
    })
}

/// Offers a frame as a chain of descriptors, starting at `first`. Returns how many descriptors of
/// the queue's own table the chain takes.
fn lay_out(ring: &mut Ring, first: u16, number: u8, layout: &Layout) -> u16 {
    let mut bytes = vec![0; 12];
    bytes.extend(frame(number, layout.len));
    let start = ring.buffer(first);
    ring.write(start, &bytes);
    let mut ends: Vec<_> = layout.cuts.iter().map(|cut| cut % bytes.len()).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    // Indirect tables are at the end of the buffer.
    let table = GuestAddress(start.0 + 3072);
    let (mut at, last) = (0, ends.len() as u16 - 1);
    for (i, end) in (0..).zip(&ends) {
        let flags = if i == last { 0 } else { NEXT };
        let (from, len) = (GuestAddress(start.0 + at as u64), (end - at) as u32);
        match layout.indirect {
            true => ring.describe_at(table, i, from, len, flags, i + 1),
            false => ring.describe(first + i, from, len, flags, first + i + 1),
        }
        at = *end;
    }
    if layout.indirect {
        ring.describe(first, table, 16 * ends.len() as u32, INDIRECT, 0);
    }
    ring.offer(first);
    if layout.indirect { 1 } else { ends.len() as u16 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn frames_cut_anyhow_arrive_whole_and_in_order(
        layouts in proptest::collection::vec(layout(), 1..30),
    ) {
        let mut rig = Rig::new();
        let mut guest = rig.plug();
        let (mut first, mut frames) = (0, Vec::new());
        for (number, layout) in (0..).zip(&layouts) {
            first += lay_out(guest.tx(), first, number, layout);
            frames.push(frame(number, layout.len));
        }
        prop_assert_eq!(rig.receive(), frames);
    }

    #[test]
    fn frames_fill_buffers_of_any_shape(
        frames in proptest::collection::vec(14..4000_usize, 1..12),
        buffers in proptest::collection::vec((12..2000_u32, 0..2000_u32), 120),
    ) {
        let mut rig = Rig::new();
        let mut guest = rig.plug();
        let ring = guest.rx();
        for (i, &(one, other)) in (0..).zip(&buffers) {
            let (first, second) = (2 * i % SIZE, (2 * i + 1) % SIZE);
            let at = ring.buffer(first);
            ring.describe(first, at, one, WRITE | NEXT, second);
            ring.describe(second, GuestAddress(at.0 + u64::from(one)), other, WRITE, 0);
            ring.offer(first);
        }
        let mut sent = Vec::new();
        for (number, &len) in (0..).zip(&frames) {
            rig.queue(0, &frame(number, len));
            sent.push(frame(number, len));
        }
        rig.port.tx_sync().unwrap();
        let room: u32 = buffers.iter().map(|(one, other)| one + other).sum();
        let got: Vec<_> = guest.received().into_iter().map(|(bytes, _)| bytes).collect();
        let stats = rig.stats();
        prop_assert_eq!(&got[..], &sent[..got.len()]);
        prop_assert_eq!(got.len() as u64 + stats.in_flight, sent.len() as u64);
        prop_assert!(room < 60_000 || got.len() == sent.len());
    }
}
