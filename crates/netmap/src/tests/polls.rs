//! Tests of syncs and polls over a pipe.

use super::*;

/// Both ends of a pipe of 8 slots, and the tx and rx ring of each.
fn pipe(world: &World) -> ([Client<'_>; 2], [[u64; 2]; 2]) {
    let small = NmreqRegister { nr_tx_slots: 8, nr_rx_slots: 8, ..all() };
    let mut ends = [world.open(), world.open()];
    let mut rings = [[0; 2]; 2];
    for ((end, name), rings) in ends.iter_mut().zip(["x{1", "x}1"]).zip(&mut rings) {
        let got = end.register(name, &small).unwrap();
        *rings = [0, 2].map(|i| end.ring_at(&got, i));
    }
    (ends, rings)
}

#[test]
fn a_sync_without_a_bind_is_refused_and_a_poll_says_error() {
    let world = World::new();
    let mut client = world.open();
    assert_eq!(client.ioctl(NIOCTXSYNC), Err(Errno::NXIO));
    assert_eq!(client.ioctl(NIOCRXSYNC), Err(Errno::NXIO));
    assert_eq!(client.poll(PollEvents::IN | PollEvents::OUT), PollEvents::ERR);
}

#[test]
fn a_frame_passes_by_poll_alone_and_its_buffer_is_the_same() {
    let world = World::new();
    let ([a, b], [[tx, _], [_, rx]]) = pipe(&world);
    assert_eq!(b.poll(PollEvents::IN), PollEvents::default());
    assert_eq!(a.poll(PollEvents::OUT), PollEvents::OUT);
    a.queue(tx, 0, 60, 0);
    let sent = a.slot(tx, 0);
    // A poll that waits only for frames also sends.
    assert_eq!(a.poll(PollEvents::IN), PollEvents::default());
    assert_eq!(b.poll(PollEvents::IN), PollEvents::IN);
    let got = b.slot(rx, 0);
    assert_eq!((got.buf_idx, got.len, b.ring(rx).tail), (sent.buf_idx, 60, 1));
}

#[test]
fn a_full_ring_is_writable_again_when_the_reader_lets_go() {
    let world = World::new();
    let ([a, mut b], [[tx, _], [_, rx]]) = pipe(&world);
    (0..7).for_each(|i| a.queue(tx, i, 60, 0));
    assert_eq!(a.poll(PollEvents::OUT), PollEvents::default());
    b.ioctl(NIOCRXSYNC).unwrap();
    assert_eq!(a.poll(PollEvents::OUT), PollEvents::default(), "they were seen, not released");
    b.advance(rx, 3);
    b.ioctl(NIOCRXSYNC).unwrap();
    assert_eq!(a.poll(PollEvents::OUT), PollEvents::OUT);
    assert_eq!(a.ring(tx).tail, 2);
}

#[test]
fn a_reader_that_exchanges_a_buffer_passes_it_to_the_sender() {
    let world = World::new();
    let ([mut a, mut b], [[tx, _], [_, rx]]) = pipe(&world);
    a.queue(tx, 0, 60, 0);
    a.ioctl(NIOCTXSYNC).unwrap();
    b.ioctl(NIOCRXSYNC).unwrap();
    let slot = b.slot(rx, 0);
    b.poke(slot_at(rx, 0), &NetmapSlot { buf_idx: 5000, flags: NS_BUF_CHANGED, ..slot });
    b.advance(rx, 1);
    b.ioctl(NIOCRXSYNC).unwrap();
    a.ioctl(NIOCTXSYNC).unwrap();
    let back = a.slot(tx, 0);
    assert_eq!((back.buf_idx, back.flags & NS_BUF_CHANGED), (5000, NS_BUF_CHANGED));
}

#[test]
fn wrong_indices_reinitialise_the_ring_which_only_poll_tells() {
    let world = World::new();
    let ([mut a, _], [[tx, _], _]) = pipe(&world);
    a.advance(tx, 8);
    assert_eq!(a.ioctl(NIOCTXSYNC), Ok(0));
    assert_eq!((a.ring(tx).head, a.ring(tx).cur, a.ring(tx).tail), (0, 0, 7));
    a.advance(tx, u32::MAX);
    assert!(a.poll(PollEvents::OUT).intersects(PollEvents::ERR));
    assert_eq!(a.poll(PollEvents::OUT), PollEvents::OUT, "it is in order again");
}

#[test]
fn reinit_clears_slots_that_name_no_buffer() {
    let world = World::new();
    let ([mut a, _], [[tx, _], _]) = pipe(&world);
    let slot = a.slot(tx, 1);
    a.poke(slot_at(tx, 0), &NetmapSlot { buf_idx: u32::MAX, ..a.slot(tx, 0) });
    a.poke(slot_at(tx, 1), &NetmapSlot { len: 5000, ..slot });
    a.advance(tx, 99);
    a.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!((a.slot(tx, 0).buf_idx, a.slot(tx, 0).len), (0, 0));
    assert_eq!((a.slot(tx, 1).buf_idx, a.slot(tx, 1).len), (slot.buf_idx, 0));
}

#[test]
fn an_overwritten_tail_is_restored() {
    let world = World::new();
    let ([mut a, _], [[tx, _], _]) = pipe(&world);
    a.poke(tx + std::mem::offset_of!(NetmapRing, tail) as u64, &3u32);
    a.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(a.ring(tx).tail, 7);
}

#[test]
fn a_packet_of_fragments_arrives_when_its_end_is_sent() {
    let world = World::new();
    let ([mut a, b], [[tx, _], [_, rx]]) = pipe(&world);
    a.queue(tx, 0, 1000, NS_MOREFRAG);
    a.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(b.poll(PollEvents::IN), PollEvents::default());
    a.queue(tx, 1, 200, 0);
    a.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(b.poll(PollEvents::IN), PollEvents::IN);
    assert_eq!((b.ring(rx).tail, b.slot(rx, 0).flags & NS_MOREFRAG), (2, NS_MOREFRAG));
}

fn flagged<'w>(world: &'w World, name: &str, nr_flags: u64) -> (Client<'w>, [u64; 2]) {
    let mut client = world.open();
    let got = client.register(name, &NmreqRegister { nr_flags, ..all() }).unwrap();
    let rings = [0, 2].map(|i| client.ring_at(&got, i));
    (client, rings)
}

#[test]
fn no_tx_poll_sends_only_when_asked_for_room() {
    let world = World::new();
    let (a, [tx, _]) = flagged(&world, "x{1", NR_NO_TX_POLL);
    let b = world.bound("x}1");
    a.queue(tx, 0, 60, 0);
    a.poll(PollEvents::IN);
    assert_eq!(b.poll(PollEvents::IN), PollEvents::default());
    a.poll(PollEvents::OUT);
    assert_eq!(b.poll(PollEvents::IN), PollEvents::IN);
}

#[test]
fn do_rx_poll_receives_also_when_asked_for_room() {
    let world = World::new();
    let (a, [tx, _]) = flagged(&world, "x{1", 0);
    let (b, [_, rx]) = flagged(&world, "x}1", NR_DO_RX_POLL);
    a.queue(tx, 0, 60, 0);
    a.poll(PollEvents::OUT);
    assert_eq!(b.poll(PollEvents::OUT), PollEvents::OUT, "frames were not asked for");
    assert_eq!(b.ring(rx).tail, 1);
}

#[test]
fn rx_syncs_stamp_the_ring_and_tx_syncs_do_not() {
    let world = World::new();
    let ([mut a, _], [[tx, rx], _]) = pipe(&world);
    a.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!([a.ring(tx).ts.tv_sec, a.ring(rx).ts.tv_sec], [0, 0]);
    a.ioctl(NIOCRXSYNC).unwrap();
    assert_eq!(a.ring(tx).ts.tv_sec, 0);
    assert!(a.ring(rx).ts.tv_sec > 1_000_000_000);
}

#[test]
fn without_timestamps_only_rings_that_ask_are_stamped() {
    let world = World::with(MemoryParams { no_timestamp: true, ..MemoryParams::default() });
    let ([mut a, _], [[_, rx], _]) = pipe(&world);
    a.ioctl(NIOCRXSYNC).unwrap();
    assert_eq!(a.ring(rx).ts.tv_sec, 0);
    a.poke(rx + std::mem::offset_of!(NetmapRing, flags) as u64, &NR_TIMESTAMP);
    a.ioctl(NIOCRXSYNC).unwrap();
    assert!(a.ring(rx).ts.tv_sec > 0);
}

fn notified(world: &World) -> Vec<u64> {
    std::mem::take(&mut lock(&world.notified.0))
}

#[test]
fn a_sleeper_is_told_when_a_frame_is_there() {
    let world = World::new();
    let ([mut a, b], [[tx, _], _]) = pipe(&world);
    assert_eq!(b.open.poll(PollEvents::IN, Some(9), Duration::ZERO), PollEvents::default());
    a.ioctl(NIOCTXSYNC).unwrap();
    assert!(notified(&world).is_empty(), "nothing was sent");
    a.queue(tx, 0, 60, 0);
    a.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(notified(&world), [9]);
}

#[test]
fn a_sleeper_for_room_is_told_when_the_reader_lets_go() {
    let world = World::new();
    let ([a, mut b], [[tx, _], [_, rx]]) = pipe(&world);
    (0..7).for_each(|i| a.queue(tx, i, 60, 0));
    assert_eq!(a.open.poll(PollEvents::OUT, Some(4), Duration::ZERO), PollEvents::default());
    b.ioctl(NIOCRXSYNC).unwrap();
    assert!(notified(&world).is_empty());
    b.advance(rx, 7);
    b.ioctl(NIOCRXSYNC).unwrap();
    assert_eq!(notified(&world), [4]);
}

#[test]
fn an_edge_triggered_reader_that_took_all_is_told_of_the_next_frame() {
    let world = World::new();
    let ([mut a, b], [[tx, _], [_, rx]]) = pipe(&world);
    a.queue(tx, 0, 60, 0);
    a.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(b.open.poll(PollEvents::IN, Some(9), Duration::ZERO), PollEvents::IN);
    b.advance(rx, 1);
    a.queue(tx, 1, 60, 0);
    a.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(notified(&world), [9]);
}

#[test]
fn a_closed_file_is_not_told_of_anything() {
    let world = World::new();
    let ([mut a, b], [[tx, _], _]) = pipe(&world);
    b.open.poll(PollEvents::IN, Some(9), Duration::ZERO);
    drop(b);
    a.queue(tx, 0, 60, 0);
    a.ioctl(NIOCTXSYNC).unwrap();
    assert!(notified(&world).is_empty());
}
