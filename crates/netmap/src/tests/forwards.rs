//! Tests of `NS_FORWARD`: frames that a program forwards between an interface and its host.

use super::attaches::{machine, machine_with_two_rings};
use super::*;

/// A program that has bound `nic0`, with the offsets of the rings tx, host tx, rx and host rx. The
/// offset of a ring that is not bound is 0.
struct Bound<'w> {
    client: Client<'w>,
    rings: [u64; 4],
}

impl<'w> Bound<'w> {
    fn new(world: &'w World, mode: u32) -> Self {
        let mut client = world.open();
        let wish = NmreqRegister { nr_mode: mode, ..NmreqRegister::default() };
        let got = client.register("nic0", &wish).unwrap();
        let rings = [0, 1, 2, 3].map(|i| client.ring_at(&got, i));
        Self { client, rings }
    }

    fn allow(&self, ring: u64) {
        let at = ring + std::mem::offset_of!(NetmapRing, flags) as u64;
        self.client.poke(at, &NR_FORWARD);
    }

    /// Receives all frames that have arrived in `ring`, and releases their slots with `flags` set;
    /// returns the number of slots.
    fn give_back(&mut self, ring: u64, flags: u16) -> u32 {
        self.client.ioctl(NIOCRXSYNC).unwrap();
        let NetmapRing { head, tail, num_slots, .. } = self.client.ring(ring);
        let count = (tail + num_slots - head) % num_slots;
        self.release(ring, &vec![flags; count as usize]);
        count
    }

    /// Receives frames, writes `flags` to the next slots of `ring`, one entry to each slot, and
    /// releases these slots.
    fn release(&mut self, ring: u64, flags: &[u16]) {
        self.client.ioctl(NIOCRXSYNC).unwrap();
        let NetmapRing { head, num_slots, .. } = self.client.ring(ring);
        let slots = || (0..).map(|i| (head + i) % num_slots);
        for (i, &flags) in slots().zip(flags) {
            let slot = self.client.slot(ring, i);
            self.client.poke(slot_at(ring, i), &NetmapSlot { flags, ..slot });
        }
        self.client.advance(ring, slots().nth(flags.len()).unwrap());
        self.client.ioctl(NIOCRXSYNC).unwrap();
    }
}

/// The port at the far end of the NIC (`wire`) or of its host rings (`stack`).
struct OtherEnd<'w> {
    client: Client<'w>,
    tx: u64,
    rx: u64,
}

impl<'w> OtherEnd<'w> {
    fn new(world: &'w World, name: &str) -> Self {
        let mut client = world.open();
        let got = client.register(name, &all()).unwrap();
        Self { tx: client.ring_at(&got, 0), rx: client.ring_at(&got, 2), client }
    }

    fn send(&mut self, lens: &[u16]) {
        self.client.ioctl(NIOCTXSYNC).unwrap();
        for &len in lens {
            let i = self.client.ring(self.tx).head;
            self.client.queue(self.tx, i, len, 0);
        }
        self.client.ioctl(NIOCTXSYNC).unwrap();
    }

    /// The length of each slot that has arrived so far. No slot is released.
    fn lens(&mut self) -> Vec<u16> {
        self.slots().into_iter().map(|(len, _)| len).collect()
    }

    /// The length of each slot that has arrived so far, and whether its frame continues in the next
    /// slot. No slot is released.
    fn slots(&mut self) -> Vec<(u16, bool)> {
        self.client.ioctl(NIOCRXSYNC).unwrap();
        let NetmapRing { head, tail, num_slots, .. } = self.client.ring(self.rx);
        let count = (tail + num_slots - head) % num_slots;
        let slots = (0..count).map(|i| self.client.slot(self.rx, (head + i) % num_slots));
        slots.map(|slot| (slot.len, slot.flags & NS_MOREFRAG != 0)).collect()
    }
}

#[test]
fn marked_frames_go_from_the_interface_to_the_host_and_back() {
    let world = machine();
    let mut nic = Bound::new(&world, NR_REG_NIC_SW);
    let [_, _, rx, host_rx] = nic.rings;
    let [mut wire, mut stack] = ["wire", "stack"].map(|name| OtherEnd::new(&world, name));
    nic.allow(rx);
    nic.allow(host_rx);
    wire.send(&[60, 61, 62]);
    assert_eq!(nic.give_back(rx, NS_FORWARD), 3);
    assert_eq!(stack.lens(), [60, 61, 62]);
    stack.send(&[70, 71]);
    assert_eq!(nic.give_back(host_rx, NS_FORWARD), 2);
    assert_eq!(wire.lens(), [70, 71]);
}

#[test]
fn a_mark_means_nothing_where_the_ring_does_not_allow_it_nor_the_other_way() {
    let world = machine();
    let mut nic = Bound::new(&world, NR_REG_NIC_SW);
    let rx = nic.rings[2];
    let [mut wire, mut stack] = ["wire", "stack"].map(|name| OtherEnd::new(&world, name));
    wire.send(&[60]);
    assert_eq!(nic.give_back(rx, NS_FORWARD), 1);
    nic.allow(rx);
    wire.send(&[61]);
    assert_eq!(nic.give_back(rx, 0), 1);
    assert!(stack.lens().is_empty());
}

#[test]
fn with_the_parameter_fwd_all_frames_pass_that_are_given_back() {
    let world = machine();
    let mut nic = Bound::new(&world, NR_REG_NIC_SW);
    let [_, _, rx, host_rx] = nic.rings;
    let [mut wire, mut stack] = ["wire", "stack"].map(|name| OtherEnd::new(&world, name));
    world.domain.parameters().set("fwd", 1).unwrap();
    wire.send(&[60, 61]);
    assert_eq!(nic.give_back(rx, 0), 2);
    assert_eq!(stack.lens(), [60, 61]);
    stack.send(&[70]);
    assert_eq!(nic.give_back(host_rx, 0), 1);
    assert_eq!(wire.lens(), [70]);
    world.domain.parameters().set("fwd", 0).unwrap();
    wire.send(&[62]);
    assert_eq!(nic.give_back(rx, 0), 1);
    assert_eq!(stack.lens(), [60, 61]);
}

#[test]
fn a_frame_that_is_not_given_back_stays() {
    let world = machine();
    let mut nic = Bound::new(&world, NR_REG_NIC_SW);
    let rx = nic.rings[2];
    let [mut wire, mut stack] = ["wire", "stack"].map(|name| OtherEnd::new(&world, name));
    nic.allow(rx);
    wire.send(&[60, 61]);
    nic.client.ioctl(NIOCRXSYNC).unwrap();
    for i in 0..2 {
        let slot = nic.client.slot(rx, i);
        nic.client.poke(slot_at(rx, i), &NetmapSlot { flags: NS_FORWARD, ..slot });
    }
    nic.client.advance(rx, 1);
    nic.client.ioctl(NIOCRXSYNC).unwrap();
    assert_eq!(stack.lens(), [60]);
}

#[test]
fn without_the_rings_of_the_other_side_a_marked_frame_is_let_go() {
    let world = machine();
    let mut nic = Bound::new(&world, NR_REG_ALL_NIC);
    let rx = nic.rings[2];
    let [mut wire, mut stack] = ["wire", "stack"].map(|name| OtherEnd::new(&world, name));
    nic.allow(rx);
    wire.send(&[60]);
    assert_eq!(nic.give_back(rx, NS_FORWARD), 1);
    assert!(stack.lens().is_empty());
}

#[test]
fn buffers_are_exchanged_and_none_is_lost_or_doubled() {
    let world = machine();
    let mut nic = Bound::new(&world, NR_REG_NIC_SW);
    let rx = nic.rings[2];
    let [mut wire, stack] = ["wire", "stack"].map(|name| OtherEnd::new(&world, name));
    nic.allow(rx);
    wire.send(&[60; 200]);
    assert_eq!(nic.give_back(rx, NS_FORWARD), 200);
    let bufs = |ring| (0..1024).map(|i| nic.client.slot(ring, i).buf_idx).collect::<Vec<_>>();
    let mut seen = [bufs(nic.rings[1]), bufs(wire.tx), bufs(stack.tx)].concat();
    seen.sort_unstable();
    let all = seen.len();
    seen.dedup();
    assert_eq!(seen.len(), all);
}

#[test]
fn the_mark_on_the_first_slot_of_a_frame_counts_for_all_its_slots() {
    let world = machine();
    let mut nic = Bound::new(&world, NR_REG_NIC_SW);
    let rx = nic.rings[2];
    let [mut wire, mut stack] = ["wire", "stack"].map(|name| OtherEnd::new(&world, name));
    nic.allow(rx);
    wire.send(&[60, 61, 62, 63, 64]);
    let marked = NS_MOREFRAG | NS_FORWARD;
    nic.release(rx, &[marked, 0, NS_MOREFRAG, NS_FORWARD, NS_FORWARD]);
    assert_eq!(stack.slots(), [(60, true), (61, false), (64, false)]);
}

#[test]
fn a_frame_with_too_few_free_slots_for_all_of_it_is_dropped_whole() {
    let world = machine();
    let mut nic = Bound::new(&world, NR_REG_NIC_SW);
    let rx = nic.rings[2];
    let [mut wire, mut stack] = ["wire", "stack"].map(|name| OtherEnd::new(&world, name));
    nic.allow(rx);
    // A pipe takes 1,023 slots until the receiver releases some.
    wire.send(&[60; 1021]);
    assert_eq!(nic.give_back(rx, NS_FORWARD), 1021);
    wire.send(&[61, 62, 63, 64, 65]);
    let (more, last) = (NS_MOREFRAG | NS_FORWARD, NS_FORWARD);
    nic.release(rx, &[more, more, last, more, last]);
    assert_eq!(stack.slots()[1021..], [(64, true), (65, false)]);
}

#[test]
fn a_frame_that_is_given_back_in_parts_is_forwarded_when_it_is_whole() {
    let world = machine();
    let mut nic = Bound::new(&world, NR_REG_NIC_SW);
    let [_, host_tx, rx, _] = nic.rings;
    let [mut wire, mut stack] = ["wire", "stack"].map(|name| OtherEnd::new(&world, name));
    nic.allow(rx);
    wire.send(&[60, 61, 62, 63, 64]);
    nic.release(rx, &[NS_FORWARD, NS_MOREFRAG | NS_FORWARD]);
    assert_eq!(nic.client.ring(host_tx).head, 1);
    nic.release(rx, &[NS_MOREFRAG]);
    nic.release(rx, &[0, NS_FORWARD]);
    assert_eq!(stack.slots(), [(60, false), (61, true), (62, true), (63, false), (64, false)]);
}

#[test]
fn a_frame_in_parts_is_dropped_whole_if_the_program_sends_a_frame_meanwhile() {
    let world = machine();
    let mut nic = Bound::new(&world, NR_REG_NIC_SW);
    let [_, host_tx, rx, _] = nic.rings;
    let [mut wire, mut stack] = ["wire", "stack"].map(|name| OtherEnd::new(&world, name));
    nic.allow(rx);
    wire.send(&[60, 61, 62]);
    nic.release(rx, &[NS_MOREFRAG | NS_FORWARD]);
    nic.client.queue(host_tx, 0, 70, 0);
    nic.release(rx, &[0, NS_FORWARD]);
    assert_eq!(stack.slots(), [(70, false), (62, false)]);
}

#[test]
fn a_frame_in_parts_is_not_torn_by_one_of_another_rx_ring() {
    let world = machine_with_two_rings();
    let mut client = world.open();
    let wish = NmreqRegister { nr_mode: NR_REG_NIC_SW, ..NmreqRegister::default() };
    let got = client.register("nic0", &wish).unwrap();
    let [host_tx, first, second] = [2, 3, 4].map(|i| client.ring_at(&got, i));
    let mut nic = Bound { client, rings: [0, host_tx, first, second] };
    let [mut wire, mut wire1, mut stack] =
        ["wire", "wire1", "stack"].map(|name| OtherEnd::new(&world, name));
    nic.allow(first);
    nic.allow(second);
    wire.send(&[60, 61]);
    wire1.send(&[70, 71, 72]);
    let begun = NS_MOREFRAG | NS_FORWARD;
    nic.release(first, &[begun]);
    // The only ring to the host has a part of a frame, so this frame is dropped.
    nic.release(second, &[begun]);
    nic.release(first, &[0]);
    nic.release(second, &[0, NS_FORWARD]);
    assert_eq!(stack.slots(), [(60, true), (61, false), (72, false)]);
}
