//! Tests of fault injection at one end of a pipe; the test is the program at both ends.

use slipring_ring::{BufIdx, Geometry, HugePages, Region, SlotFlags};

use super::*;
use crate::options::OpenOptions;
use crate::pipe;

const SLOTS: u32 = 64;

struct Rig {
    plain: Box<dyn Queue>,
    faulty: Box<dyn Queue>,
}

/// Creates a pipe between a plain end and one whose frames are delayed by 1 ns.
fn rig() -> Rig {
    rig_with_delay(1)
}

fn rig_with_delay(delay: Nanos) -> Rig {
    let geometry = Geometry { bufs: 2048, ..Geometry::default() };
    rig_in(&Region::create(geometry, HugePages::Never).unwrap(), delay)
}

fn rig_in(region: &Arc<Region>, delay: Nanos) -> Rig {
    let options = OpenOptions { slots: SLOTS, ..OpenOptions::default() };
    let [mut a, mut b] = pipe::open(["a", "b"], 1, region, &options).unwrap();
    let inner = b.queues.remove(0);
    let faulty = inject("b", 0, inner, &FaultSpec::only_delay(delay)).unwrap();
    Rig { plain: a.queues.remove(0), faulty }
}

/// Queues a packet of `slots` slots and syncs; first takes back the slots of sent packets.
fn send(queue: &mut dyn Queue, slots: u32) {
    queue.tx_sync().unwrap();
    let tx = queue.rings().tx;
    assert!(tx.avail() >= slots);
    for i in 0..slots {
        let more = if i + 1 < slots { SlotFlags::MOREFRAG } else { SlotFlags::default() };
        assert!(tx.write(i, &[7; 60], more));
    }
    tx.advance(slots);
    queue.tx_sync().unwrap();
}

/// Syncs three times, which is enough for a delayed frame to arrive; returns the number of received
/// slots.
fn received(queue: &mut dyn Queue) -> u32 {
    for _ in 0..3 {
        queue.rx_sync().unwrap();
    }
    queue.rings().rx.avail()
}

#[test]
fn a_delayed_packet_waits_until_all_its_slots_fit() {
    let Rig { mut plain, mut faulty } = rig();
    let room = SLOTS - 1;
    for _ in 0..room - 2 {
        send(&mut *plain, 1);
    }
    assert_eq!(received(&mut *faulty), room - 2);
    send(&mut *plain, 3);
    assert_eq!(received(&mut *faulty), room - 2, "two slots are free, the packet has three");
    faulty.rings().rx.advance(1);
    assert_eq!(received(&mut *faulty), room);
}

#[test]
fn a_delayed_packet_is_sent_whole() {
    let Rig { mut plain, mut faulty } = rig();
    let room = SLOTS - 1;
    for _ in 0..room - 2 {
        send(&mut *faulty, 1);
    }
    send(&mut *faulty, 3);
    for _ in 0..3 {
        faulty.tx_sync().unwrap();
    }
    let waiting = received(&mut *plain);
    let rx = plain.rings().rx;
    assert_eq!((waiting, rx.whole_packets(waiting)), (room - 2, room - 2));
    rx.advance(waiting);
    assert_eq!(received(&mut *plain), 0);
    for _ in 0..3 {
        faulty.tx_sync().unwrap();
    }
    assert_eq!(received(&mut *plain), 3);
}

#[test]
fn a_packet_with_an_unusable_buffer_is_dropped_whole_and_counted() {
    let geometry = Geometry { bufs: 2048, ..Geometry::default() };
    let region = Region::create_shared(geometry, HugePages::Never).unwrap();
    let options = OpenOptions { slots: SLOTS, ..OpenOptions::default() };
    let [mut a, mut b] = pipe::open(["a", "b"], 1, &region, &options).unwrap();
    let inner = b.queues.remove(0);
    let mut faulty = inject("b", 0, inner, &FaultSpec::only_delay(1)).unwrap();
    let tx = faulty.rings().tx;
    assert!(
        tx.write(0, &[7; 60], SlotFlags::MOREFRAG) && tx.write(1, &[7; 60], SlotFlags::default())
    );
    let (view, second) = (tx.view(), tx.head() + 1);
    let kept = view.slot(second);
    view.set_slot(second, Slot { buf: BufIdx(u32::MAX), ..kept });
    tx.advance(2);
    for _ in 0..3 {
        faulty.tx_sync().unwrap();
    }
    assert_eq!(faulty.counters().snapshot().dropped(DropCause::TxBadSlot), 1);
    assert_eq!(received(&mut *a.queues[0]), 0);
    view.set_slot(second, kept);
}

#[test]
fn a_slot_without_a_buffer_costs_one_delayed_packet_only() {
    let geometry = Geometry { bufs: 2048, ..Geometry::default() };
    let region = Region::create_shared(geometry, HugePages::Never).unwrap();
    let Rig { mut plain, mut faulty } = rig_in(&region, 1);
    // The program returned slot 1 with an invalid buffer.
    let view = faulty.rings().rx.view();
    let kept = view.slot(1);
    view.set_slot(1, Slot { buf: BufIdx(u32::MAX), ..kept });
    for slots in [2, 1, 3] {
        send(&mut *plain, slots);
    }
    assert_eq!(received(&mut *faulty), 6);
    let rx = faulty.rings().rx;
    let lens: Vec<_> = (0..6).map(|i| rx.slot(i).unwrap().len).collect();
    assert_eq!(lens, [0, 0, 60, 60, 60, 60], "the slots up to the invalid one are empty");
    assert!(!rx.slot(0).unwrap().flags.has(SlotFlags::MOREFRAG));
    assert_eq!(faulty.counters().snapshot().dropped(DropCause::RxNoBuffer), 1);
    view.set_slot(1, kept);
}

#[test]
fn packets_in_the_delay_line_are_unsent() {
    let Rig { plain: _plain, mut faulty } = rig_with_delay(u64::MAX / 2);
    send(&mut *faulty, 1);
    send(&mut *faulty, 3);
    assert_eq!(faulty.unsent(), 2);
}
