//! Tests of switch ports: frames reach the right ports, whole, in order, and counted.

use super::*;
use crate::switch::{SwitchDropReason, SwitchPortCounters};

/// A program with a switch port, and the offsets of its first tx ring and its first rx ring.
pub(super) struct Station<'w> {
    client: Client<'w>,
    tx: u64,
    rx: u64,
}

impl<'w> Station<'w> {
    pub(super) fn new(world: &'w World, name: &str) -> Self {
        Self::with(world, name, &all())
    }

    fn with(world: &'w World, name: &str, wish: &NmreqRegister) -> Self {
        let mut client = world.open();
        let got = client.register(name, wish).unwrap();
        let (tx, rx) =
            (client.ring_at(&got, 0), client.ring_at(&got, u64::from(got.nr_tx_rings) + 1));
        Self { client, tx, rx }
    }

    fn buffer(&self, ring: u64, slot: &NetmapSlot) -> u64 {
        (ring as i64 + self.client.ring(ring).buf_ofs) as u64 + u64::from(slot.buf_idx) * BUF
    }

    fn put(&self, i: u32, bytes: &[u8]) {
        let at = self.buffer(self.tx, &self.client.slot(self.tx, i));
        rustix::io::pwrite(self.client.world.domain.file(), bytes, at).unwrap();
    }

    /// Queues a frame with one slot for each part.
    fn queue_parts(&self, parts: &[&[u8]], flags: u16) {
        for (left, part) in (0..parts.len()).rev().zip(parts) {
            let i = self.client.ring(self.tx).head;
            let more = if left > 0 { NS_MOREFRAG } else { 0 };
            self.put(i, part);
            self.client.queue(self.tx, i, part.len() as u16, flags | more);
        }
    }

    fn queue(&self, frame: &[u8]) {
        self.queue_parts(&[frame], 0);
    }

    pub(super) fn send(&mut self, frame: &[u8]) {
        self.queue(frame);
        assert_eq!(self.client.ioctl(NIOCTXSYNC), Ok(0));
    }

    /// Returns flags and bytes of the arrived slots, and gives the slots back.
    fn slots(&mut self) -> Vec<(u16, Vec<u8>)> {
        self.client.ioctl(NIOCRXSYNC).unwrap();
        let ring = self.client.ring(self.rx);
        let mut at = ring.head;
        let mut slots = Vec::new();
        while at != ring.tail {
            let slot = self.client.slot(self.rx, at);
            let mut bytes = vec![0; slot.len.into()];
            let from = self.buffer(self.rx, &slot);
            rustix::io::pread(self.client.world.domain.file(), &mut bytes, from).unwrap();
            slots.push((slot.flags, bytes));
            at = (at + 1) % ring.num_slots;
        }
        self.client.advance(self.rx, at);
        self.client.ioctl(NIOCRXSYNC).unwrap();
        slots
    }

    pub(super) fn frames(&mut self) -> Vec<Vec<u8>> {
        self.slots().into_iter().map(|(_, bytes)| bytes).collect()
    }
}

/// An Ethernet frame of 60 bytes between stations; 255 is broadcast.
pub(super) fn frame(to: u8, from: u8, mark: u8) -> Vec<u8> {
    let mac = |station| if station == 255 { [255; 6] } else { [2, 0, 0, 0, 0, station] };
    let mut bytes = [mac(to), mac(from)].concat();
    bytes.extend([8, 0, mark]);
    bytes.resize(60, 0);
    bytes
}

fn counters(world: &World, port: &str) -> SwitchPortCounters {
    let infos = world.domain.switches();
    let mut ports = infos.iter().flat_map(|info| &info.ports);
    ports.find(|one| one.name == port).unwrap().counters
}

#[test]
fn a_frame_for_nobody_in_particular_goes_to_all_others() {
    let world = World::new();
    let [mut a, mut b, mut c] = ["vale0:a", "vale0:b", "vale0:c"].map(|n| Station::new(&world, n));
    a.send(&frame(9, 1, 7));
    assert_eq!(b.frames(), [frame(9, 1, 7)]);
    assert_eq!(c.frames(), [frame(9, 1, 7)]);
    assert!(a.frames().is_empty());
}

#[test]
fn a_station_that_has_spoken_gets_its_frames_alone() {
    let world = World::new();
    let [mut a, mut b, mut c] = ["vale0:a", "vale0:b", "vale0:c"].map(|n| Station::new(&world, n));
    b.send(&frame(255, 2, 0));
    assert_eq!([a.frames().len(), c.frames().len()], [1, 1]);
    a.send(&frame(2, 1, 7));
    assert_eq!(b.frames(), [frame(2, 1, 7)]);
    assert!(c.frames().is_empty());
}

#[test]
fn switches_of_other_names_hear_nothing() {
    let world = World::new();
    let [mut a, mut b] = ["vale0:a", "vale1:b"].map(|n| Station::new(&world, n));
    a.send(&frame(255, 1, 7));
    assert!(b.frames().is_empty());
}

#[test]
fn sent_slots_are_free_at_once_and_their_order_is_kept() {
    let world = World::new();
    let [mut a, mut b] = ["vale0:a", "vale0:b"].map(|n| Station::new(&world, n));
    for mark in 0..100 {
        a.queue(&frame(if mark % 3 == 0 { 255 } else { 2 }, 1, mark));
    }
    a.client.ioctl(NIOCTXSYNC).unwrap();
    let ring = a.client.ring(a.tx);
    assert_eq!((ring.head, ring.tail), (100, 99));
    let marks: Vec<u8> = b.frames().iter().map(|frame| frame[14]).collect();
    assert_eq!(marks, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_full_receiver_loses_frames_that_are_counted_and_delays_nobody() {
    let world = World::new();
    let small = NmreqRegister { nr_rx_slots: 64, ..all() };
    let mut a = Station::new(&world, "vale0:a");
    let mut slow = Station::with(&world, "vale0:slow", &small);
    let mut b = Station::new(&world, "vale0:b");
    for _ in 0..5 {
        for mark in 0..100 {
            a.queue(&frame(255, 1, mark));
        }
        a.client.ioctl(NIOCTXSYNC).unwrap();
        assert_eq!(b.frames().len(), 100);
    }
    assert_eq!(slow.frames().len(), 63);
    let counters = counters(&world, "vale0:slow");
    assert_eq!(
        (counters.tx.packets, counters.dropped(SwitchDropReason::DestinationFull)),
        (63, 437)
    );
    a.send(&frame(255, 1, 1));
    assert_eq!(slow.frames().len(), 1, "it goes on where there is room again");
}

#[test]
fn a_program_that_writes_its_indices_just_then_loses_nothing() {
    let world = World::new();
    let [mut a, mut b] = ["vale0:a", "vale0:b"].map(|n| Station::new(&world, n));
    a.send(&frame(255, 1, 1));
    b.client.ioctl(NIOCRXSYNC).unwrap();
    b.client.move_head(b.rx, 1);
    a.send(&frame(255, 1, 2));
    b.client.advance(b.rx, 1);
    assert_eq!(b.frames(), [frame(255, 1, 2)]);
}

#[test]
fn slots_are_given_back_by_a_sync_and_not_before() {
    let world = World::new();
    let mut a = Station::new(&world, "vale0:a");
    let mut b = Station::with(&world, "vale0:b", &NmreqRegister { nr_rx_slots: 64, ..all() });
    (0..63).for_each(|mark| a.send(&frame(255, 1, mark)));
    b.client.ioctl(NIOCRXSYNC).unwrap();
    b.client.advance(b.rx, 63);
    a.send(&frame(255, 1, 63));
    assert_eq!(counters(&world, "vale0:b").dropped(SwitchDropReason::DestinationFull), 1);
    b.client.ioctl(NIOCRXSYNC).unwrap();
    a.send(&frame(255, 1, 64));
    assert_eq!(b.frames(), [frame(255, 1, 64)]);
}

#[test]
fn sender_and_receiver_balance_whatever_happens() {
    let world = World::new();
    let [mut a, mut b, c] = ["vale0:a", "vale0:b", "vale0:c"].map(|n| Station::new(&world, n));
    b.send(&frame(255, 2, 0));
    for to in [2, 9, 255, 1] {
        a.queue(&frame(to, 1, to));
    }
    a.queue(&[1, 2, 3]);
    a.client.ioctl(NIOCTXSYNC).unwrap();
    let ports = &world.domain.switches()[0].ports;
    let sum = |of: &dyn Fn(&SwitchPortCounters) -> u64| {
        ports.iter().map(|p| of(&p.counters)).sum::<u64>()
    };
    let lost = sum(&|c| c.drops().map(|(_, count)| count).sum());
    assert_eq!(sum(&|c| c.rx.packets + c.copies), sum(&|c| c.tx.packets) + lost);
    assert_eq!(counters(&world, "vale0:a").dropped(SwitchDropReason::Runt), 1);
    drop(c);
}

#[test]
fn a_frame_of_several_slots_arrives_so_and_says_how_many() {
    let world = World::new();
    let [mut a, mut b] = ["vale0:a", "vale0:b"].map(|n| Station::new(&world, n));
    let whole = frame(255, 1, 7);
    a.queue_parts(&[&whole[..8], &whole[8..40], &whole[40..]], 0);
    a.client.ioctl(NIOCTXSYNC).unwrap();
    let slots = b.slots();
    let flags: Vec<u16> = slots.iter().map(|(flags, _)| *flags).collect();
    assert_eq!(flags, [3 << 8 | NS_MOREFRAG, 3 << 8 | NS_MOREFRAG, 3 << 8]);
    let lens: Vec<usize> = slots.iter().map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(lens, [8, 32, 20]);
    assert_eq!(slots.into_iter().flat_map(|(_, bytes)| bytes).collect::<Vec<_>>(), whole);
}

#[test]
fn a_frame_without_its_end_waits_for_it() {
    let world = World::new();
    let [mut a, mut b] = ["vale0:a", "vale0:b"].map(|n| Station::new(&world, n));
    let whole = frame(255, 1, 7);
    a.put(0, &whole[..30]);
    a.client.queue(a.tx, 0, 30, NS_MOREFRAG);
    a.client.ioctl(NIOCTXSYNC).unwrap();
    assert!(b.frames().is_empty());
    a.put(1, &whole[30..]);
    a.client.queue(a.tx, 1, 30, 0);
    a.client.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(b.frames().concat(), whole);
}

#[test]
fn a_frame_of_too_many_slots_is_lost_whole_and_counted_once_however_it_comes() {
    // Each list contains the numbers of slots that successive syncs see.
    for syncs in [&[100][..], &[64, 36], &[65, 35], &[70, 29, 1], &[1; 100], &[30, 60, 10]] {
        let world = World::new();
        let [mut a, mut b] = ["vale0:a", "vale0:b"].map(|n| Station::new(&world, n));
        a.send(&frame(255, 1, 6));
        let mut left = 100;
        for &count in syncs {
            for _ in 0..count {
                left -= 1;
                let part = frame(255, 1, 66);
                a.queue_parts(&[&part], if left > 0 { NS_MOREFRAG } else { 0 });
            }
            a.client.ioctl(NIOCTXSYNC).unwrap();
        }
        a.send(&frame(255, 1, 7));
        assert_eq!(b.frames(), [frame(255, 1, 6), frame(255, 1, 7)], "{syncs:?}");
        let sent = counters(&world, "vale0:a");
        let lost: Vec<_> = sent.drops().collect();
        assert_eq!((sent.rx.packets, lost), (3, vec![(SwitchDropReason::TooLong, 1)]), "{syncs:?}");
    }
}

#[test]
fn a_frame_of_64_slots_is_none_too_many() {
    let world = World::new();
    let [mut a, mut b] = ["vale0:a", "vale0:b"].map(|n| Station::new(&world, n));
    let part = frame(255, 1, 7);
    a.queue_parts(&[&part[..]; 64], 0);
    a.client.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(b.slots().len(), 64);
}

#[test]
fn a_frame_that_fills_its_ring_without_an_end_does_not_block_it() {
    let world = World::new();
    let small = NmreqRegister { nr_tx_slots: 16, ..all() };
    let mut a = Station::with(&world, "vale0:a", &small);
    let mut b = Station::new(&world, "vale0:b");
    for _ in 0..15 {
        a.queue_parts(&[&frame(255, 1, 66)], NS_MOREFRAG);
    }
    a.client.ioctl(NIOCTXSYNC).unwrap();
    a.send(&frame(255, 1, 66));
    a.send(&frame(255, 1, 7));
    assert_eq!(b.frames(), [frame(255, 1, 7)]);
    assert_eq!(counters(&world, "vale0:a").dropped(SwitchDropReason::TooLong), 1);
}

#[test]
fn a_frame_may_lie_in_the_programs_own_memory() {
    let world = World::new();
    let [mut a, mut b] = ["vale0:a", "vale0:b"].map(|n| Station::new(&world, n));
    let mine = BASE + 0x4000;
    a.client.memory.write(mine, &frame(255, 1, 7)).unwrap();
    for (i, ptr) in [(0, mine), (1, 8)] {
        let slot = a.client.slot(a.tx, i);
        a.client.poke(slot_at(a.tx, i), &NetmapSlot { ptr, ..slot });
        a.client.queue(a.tx, i, 60, NS_INDIRECT);
    }
    assert!(a.client.open.has_indirect());
    a.client.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(b.frames(), [frame(255, 1, 7)], "and the one that cannot be read is none");
    assert_eq!(counters(&world, "vale0:a").dropped(SwitchDropReason::Runt), 1);
}

#[test]
fn a_poll_tells_of_impossible_indices_whoever_looked_at_them_before() {
    let world = World::new();
    let a = Station::new(&world, "vale0:a");
    let set = |field: usize, to: u32| a.client.poke(a.tx + field as u64, &to);
    for (head, cur) in [(5000, 5000), (u32::MAX, 0), (0, 5000)] {
        set(std::mem::offset_of!(NetmapRing, cur), cur);
        set(std::mem::offset_of!(NetmapRing, head), head);
        assert!(!a.client.open.has_indirect());
        assert!(a.client.poll(PollEvents::OUT).intersects(PollEvents::ERR), "{head} {cur}");
        let ring = a.client.ring(a.tx);
        assert_eq!((ring.head, ring.cur), (0, 0), "it was reinitialised");
        assert_eq!(a.client.poll(PollEvents::OUT), PollEvents::OUT);
    }
}

#[test]
fn a_poll_that_may_not_wait_leaves_frames_that_lie_elsewhere() {
    let world = World::new();
    let [mut a, mut b] = ["vale0:a", "vale0:b"].map(|n| Station::new(&world, n));
    a.queue(&frame(255, 1, 1));
    let slot = a.client.slot(a.tx, 1);
    a.client.poke(slot_at(a.tx, 1), &NetmapSlot { ptr: BASE, ..slot });
    a.client.queue(a.tx, 1, 60, NS_INDIRECT);
    a.client.poll(PollEvents::OUT);
    assert_eq!(b.frames(), [frame(255, 1, 1)]);
    a.client.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(a.client.ring(a.tx).tail, 1);
}

#[test]
fn a_slot_can_name_the_port_and_forbid_learning() {
    let world = World::new();
    let [mut a, mut b, mut c] = ["vale0:a", "vale0:b", "vale0:c"].map(|n| Station::new(&world, n));
    a.queue_parts(&[&frame(255, 1, 7)], 2 << NS_PORT_SHIFT);
    a.queue_parts(&[&frame(255, 4, 8)], NS_NO_LEARN);
    a.client.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(b.frames(), [frame(255, 4, 8)]);
    assert_eq!(c.frames(), [frame(255, 1, 7), frame(255, 4, 8)]);
    let known: Vec<u8> =
        world.domain.switches()[0].addresses.iter().map(|one| one.mac.0[5]).collect();
    assert_eq!(known, [1]);
}

#[test]
fn rings_lead_to_the_ring_of_the_same_number() {
    let world = World::new();
    let many = NmreqRegister { nr_tx_rings: 3, nr_rx_rings: 2, ..all() };
    let mut a = world.open();
    let got = a.register("vale0:a", &many).unwrap();
    assert_eq!((got.nr_tx_rings, got.nr_rx_rings), (3, 2));
    let mut b = world.open();
    let registered = b.register("vale0:b", &many).unwrap();
    let talk = |client: &mut Client<'_>, ring: u64, bytes: &[u8]| {
        let slot = client.slot(ring, 0);
        let at = (ring as i64 + client.ring(ring).buf_ofs) as u64 + u64::from(slot.buf_idx) * BUF;
        rustix::io::pwrite(world.domain.file(), bytes, at).unwrap();
        client.queue(ring, 0, bytes.len() as u16, 0);
        client.ioctl(NIOCTXSYNC).unwrap();
    };
    let b_tx = b.ring_at(&registered, 0);
    talk(&mut b, b_tx, &frame(255, 2, 0));
    for (ring, expected) in [(1, [0, 1]), (2, [1, 1])] {
        let a_tx = a.ring_at(&got, ring);
        talk(&mut a, a_tx, &frame(2, 1, 1));
        let tails = [4, 5].map(|i| b.ring(b.ring_at(&registered, i)).tail);
        assert_eq!(tails, expected, "tx ring {ring}");
    }
}

#[test]
fn a_port_has_memory_of_its_own_unless_it_is_given_anothers() {
    let world = World::new();
    let [mut a, mut b] = [world.open(), world.open()];
    let first = a.register("vale0:a", &all()).unwrap();
    let second = b.register("vale0:b", &all()).unwrap();
    assert!(first.nr_mem_id > 1 && second.nr_mem_id > 1 && first.nr_mem_id != second.nr_mem_id);
    let mut c = world.open();
    let wish = NmreqRegister { nr_mem_id: first.nr_mem_id, ..all() };
    assert_eq!(c.register("vale0:c", &wish).unwrap().nr_mem_id, first.nr_mem_id);
}

#[test]
fn a_port_is_shared_by_those_who_open_it_and_goes_with_the_last() {
    let world = World::new();
    let first = world.bound("vale0:a");
    let second = world.bound("vale0:a");
    assert_eq!(world.domain.switches()[0].ports.len(), 1);
    drop(first);
    assert_eq!(world.domain.switches().len(), 1);
    drop(second);
    assert!(world.domain.switches().is_empty());
}

#[test]
fn a_receiver_that_sleeps_is_woken() {
    let world = World::new();
    let [mut a, b] = ["vale0:a", "vale0:b"].map(|n| Station::new(&world, n));
    assert_eq!(b.client.open.poll(PollEvents::IN, Some(5), Duration::ZERO), PollEvents::default());
    a.send(&frame(255, 1, 7));
    assert_eq!(*lock(&world.notified.0), [5]);
    assert_eq!(b.client.poll(PollEvents::IN), PollEvents::IN);
}

#[test]
fn ports_with_virtio_headers_of_different_lengths_understand_each_other() {
    let world = World::new();
    let [mut a, mut b] = ["vale0:a", "vale0:b"].map(|n| Station::new(&world, n));
    let set = |client: &mut Client<'_>, name: &str, nr_hdr_len| {
        client.ask(name, NETMAP_REQ_PORT_HDR_SET, &NmreqPortHdr { nr_hdr_len, pad1: 0 })
    };
    assert_eq!(set(&mut a.client, "vale0:a", 11).err(), Some(Errno::INVAL));
    assert_eq!(set(&mut b.client, "vale0:b", 12).map(|_| ()), Ok(()));
    a.send(&frame(255, 1, 7));
    assert_eq!(b.frames(), [[vec![0; 12], frame(255, 1, 7)].concat()]);
    b.send(&[vec![0; 12], frame(255, 2, 8)].concat());
    assert_eq!(a.frames(), [frame(255, 2, 8)]);
    assert_eq!(world.open().register("vale0:b", &all()), Err(Errno::IO));
    let wish = NmreqRegister { nr_flags: NR_ACCEPT_VNET_HDR, ..all() };
    assert!(world.open().register("vale0:b", &wish).is_ok());
}

/// A TCP segment of `payload` bytes with an unfinished checksum, after a header of 12 bytes that
/// requests the checksum, and segmentation if `size` is above 0.
fn unfinished(payload: usize, size: u16) -> Vec<u8> {
    use slipring_wire::offload::VnetHeader;
    let mut bytes = frame(255, 1, 0);
    bytes.truncate(14);
    let len = (40 + payload) as u16;
    bytes.extend([0x45, 0, (len >> 8) as u8, len as u8, 0, 1, 0, 0, 64, 6, 0, 0]);
    bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    // Ports, numbers, flags, window; the checksum field holds the sum of the pseudo header.
    bytes.extend([0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 16, 0]);
    let pseudo = 0x0a00 + 1 + 0x0a00 + 2 + 6 + (20 + payload as u32);
    bytes.extend([(pseudo >> 8) as u8, pseudo as u8, 0, 0]);
    bytes.extend((0..payload).map(|i| i as u8));
    let header = VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        gso_type: if size > 0 { VnetHeader::GSO_TCPV4 } else { VnetHeader::GSO_NONE },
        hdr_len: 54,
        gso_size: size,
        csum_start: 34,
        csum_offset: 16,
        ..VnetHeader::default()
    };
    [header.encode().to_vec(), bytes].concat()
}

/// The internet checksum over a TCP segment and its pseudo header: 0 if it is correct.
fn tcp_sum(frame: &[u8]) -> u16 {
    let tcp = &frame[34..];
    let words = frame[26..34].chunks(2).chain(tcp.chunks(2));
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum = words.map(word).sum::<u32>() + 6 + tcp.len() as u32;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn what_a_virtio_header_asks_for_is_done_for_ports_without_one() {
    let world = World::new();
    let [mut a, mut b] = ["vale0:a", "vale0:b"].map(|n| Station::new(&world, n));
    let header = NmreqPortHdr { nr_hdr_len: 12, pad1: 0 };
    a.client.ask("vale0:a", NETMAP_REQ_PORT_HDR_SET, &header).unwrap();
    a.send(&unfinished(100, 0));
    let got = b.frames();
    assert_eq!((got.len(), got[0].len(), tcp_sum(&got[0])), (1, 154, 0));
    let whole = unfinished(3000, 1000);
    a.queue_parts(&[&whole[..2000], &whole[2000..]], 0);
    a.client.ioctl(NIOCTXSYNC).unwrap();
    let got = b.frames();
    assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), [1054; 3]);
    assert!(got.iter().all(|frame| tcp_sum(frame) == 0));
    let payload: Vec<u8> = got.iter().flat_map(|frame| frame[54..].to_vec()).collect();
    assert_eq!(payload, (0..3000).map(|i| i as u8).collect::<Vec<_>>());
    // A frame with an invalid request is lost, and counted.
    let mut wrong = unfinished(100, 0);
    wrong[6..8].fill(0xff);
    a.send(&wrong);
    assert!(b.frames().is_empty());
    assert_eq!(counters(&world, "vale0:b").dropped(SwitchDropReason::DestinationFull), 1);
}

#[test]
fn vlans_keep_ports_apart_and_tags_come_and_go() {
    use crate::switch::{SwitchPortConfig, VlanId, VlanMembership, VlanSet};
    let world = World::new();
    let [mut a, mut b, mut c] = ["vale0:a", "vale0:b", "vale0:c"].map(|n| Station::new(&world, n));
    let id = |id| VlanId::new(id).unwrap();
    let changed = world.domain.with_switch(1, "vale0", |switch, _, ports| {
        switch.set_vlan_aware(true);
        let trunk = VlanMembership::Trunk { native: None, allowed: VlanSet::all() };
        let vlans = [VlanMembership::Access(id(5)), VlanMembership::Access(id(6)), trunk];
        for (vlan, (port, _)) in vlans.into_iter().zip(ports) {
            switch
                .reconfigure(*port, SwitchPortConfig { vlan, ..SwitchPortConfig::default() })
                .unwrap();
        }
    });
    assert_eq!(changed, Ok(()));
    a.send(&frame(255, 1, 7));
    assert!(b.frames().is_empty());
    let mut tagged = frame(255, 1, 7);
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    assert_eq!(c.frames(), [tagged]);
    let mut reply = frame(255, 3, 9);
    reply.splice(12..12, [0x81, 0, 0x60, 6]);
    c.send(&reply);
    assert_eq!(b.frames(), [frame(255, 3, 9)]);
    assert!(a.frames().is_empty());
}

#[test]
fn senders_on_two_threads_reach_one_receiver_and_nothing_is_lost_uncounted() {
    let world = World::new();
    let senders = [1u8, 2].map(|id| Station::new(&world, &format!("vale0:s{id}")));
    let mut sink = Station::new(&world, "vale0:sink");
    sink.send(&frame(255, 9, 0));
    const ROUNDS: usize = 300;
    let done = std::sync::atomic::AtomicUsize::new(0);
    let got = std::thread::scope(|scope| {
        for (mut sender, id) in senders.into_iter().zip([1u8, 2]) {
            let done = &done;
            scope.spawn(move || {
                sender.frames();
                for round in 0..ROUNDS {
                    for i in 0..50 {
                        sender.queue(&frame(9, id, (round * 50 + i) as u8));
                    }
                    sender.client.ioctl(NIOCTXSYNC).unwrap();
                }
                done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                // The sender's port stays in the switch until the counters have been read.
                std::mem::forget(sender.client.open);
            });
        }
        let mut got = Vec::new();
        while done.load(std::sync::atomic::Ordering::SeqCst) < 2 {
            got.extend(sink.frames());
        }
        got.extend(sink.frames());
        got
    });
    let lost = counters(&world, "vale0:sink").dropped(SwitchDropReason::DestinationFull);
    assert_eq!(got.len() as u64 + lost, 2 * 50 * ROUNDS as u64);
    for frame in got {
        assert_eq!((frame.len(), frame[5]), (60, 9));
    }
}
