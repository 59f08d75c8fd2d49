//! Tests that monitors see exactly the frames of the port, in order, and do not harm the port.

use super::*;

fn monitor(flags: u64) -> NmreqRegister {
    NmreqRegister { nr_flags: flags, ..all() }
}

/// A program with the offsets of its first tx ring and its first rx ring.
struct Station<'w> {
    client: Client<'w>,
    tx: u64,
    rx: u64,
    mem_id: u16,
}

impl<'w> Station<'w> {
    fn new(world: &'w World, name: &str, wish: &NmreqRegister) -> Self {
        let mut client = world.open();
        let got = client.register(name, wish).unwrap();
        let rx = client.ring_at(&got, u64::from(got.nr_tx_rings) + 1);
        Self { tx: client.ring_at(&got, 0), rx, client, mem_id: got.nr_mem_id }
    }

    fn buffer(&self, ring: u64, slot: &NetmapSlot) -> u64 {
        (ring as i64 + self.client.ring(ring).buf_ofs) as u64 + u64::from(slot.buf_idx) * BUF
    }

    fn queue(&self, mark: u32, flags: u16) {
        let i = self.client.ring(self.tx).head;
        let mut bytes = [255; 60];
        bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        bytes[14..18].copy_from_slice(&mark.to_ne_bytes());
        let at = self.buffer(self.tx, &self.client.slot(self.tx, i));
        rustix::io::pwrite(self.client.world.domain.file(), &bytes, at).unwrap();
        self.client.queue(self.tx, i, 60, flags);
    }

    fn send(&mut self, marks: impl IntoIterator<Item = u32>) {
        marks.into_iter().for_each(|mark| self.queue(mark, 0));
        self.client.ioctl(NIOCTXSYNC).unwrap();
    }

    /// Returns the mark (the word at byte 14) and the flags of each arrived slot, and gives the
    /// slots back.
    fn take(&mut self) -> Vec<(u32, u16)> {
        self.client.ioctl(NIOCRXSYNC).unwrap();
        let ring = self.client.ring(self.rx);
        let (mut at, mut got) = (ring.head, Vec::new());
        while at != ring.tail {
            let slot = self.client.slot(self.rx, at);
            let mark: u32 = self.client.peek(self.buffer(self.rx, &slot) + 14);
            assert_eq!(slot.len, 60);
            got.push((mark, slot.flags));
            at = (at + 1) % ring.num_slots;
        }
        self.client.advance(self.rx, at);
        self.client.ioctl(NIOCRXSYNC).unwrap();
        got
    }

    fn marks(&mut self) -> Vec<u32> {
        self.take().into_iter().map(|(mark, _)| mark).collect()
    }
}

#[test]
fn a_monitor_sees_what_either_end_of_a_pipe_sends_and_receives() {
    let world = World::new();
    let [mut a, mut b] = ["x{1", "x}1"].map(|name| Station::new(&world, name, &all()));
    let mut tx = Station::new(&world, "x{1", &monitor(NR_MONITOR_TX));
    let mut rx = Station::new(&world, "x}1", &monitor(NR_MONITOR_RX));
    let mut both = Station::new(&world, "x}1", &monitor(NR_MONITOR_RX | NR_MONITOR_TX));
    for round in 0..30 {
        let marks: Vec<u32> = (0..100).map(|i| 100 * round + i).collect();
        a.send(marks.clone());
        let expected: Vec<_> = marks.iter().map(|&mark| (mark, NS_TXMON)).collect();
        assert_eq!(tx.take(), expected);
        assert_eq!((rx.marks(), both.marks()), (marks.clone(), marks.clone()), "b is told of them");
        assert_eq!(b.marks(), marks);
        b.send([7]);
        assert_eq!((both.take(), a.marks()), (vec![(7, NS_TXMON)], vec![7]));
        assert!(tx.take().is_empty() && rx.take().is_empty());
        a.client.ioctl(NIOCTXSYNC).unwrap();
        b.client.ioctl(NIOCTXSYNC).unwrap();
    }
}

#[test]
fn a_monitor_of_a_switch_port_sees_what_it_sends_and_what_reaches_it() {
    let world = World::new();
    let [mut a, mut b] = ["vale0:a", "vale0:b"].map(|name| Station::new(&world, name, &all()));
    let [mut sent, mut got] = [("vale0:a", NR_MONITOR_TX), ("vale0:b", NR_MONITOR_RX)]
        .map(|(name, flags)| Station::new(&world, name, &monitor(flags)));
    for round in 0..30 {
        let marks: Vec<u32> = (0..100).map(|i| 100 * round + i).collect();
        a.send(marks.clone());
        assert_eq!((sent.marks(), got.marks()), (marks.clone(), marks.clone()));
        assert_eq!(b.marks(), marks);
    }
    b.send([1]);
    assert!(sent.take().is_empty() && got.take().is_empty());
}

#[test]
fn a_zero_copy_monitor_sees_what_is_received_when_its_reader_has_released_it() {
    let world = World::new();
    for [from, to] in [["x{1", "x}1"], ["vale0:a", "vale0:b"]] {
        let [mut a, mut b] = [from, to].map(|name| Station::new(&world, name, &all()));
        let mut seen = Station::new(&world, to, &monitor(NR_MONITOR_RX | NR_ZCOPY_MON));
        for round in 0..30 {
            let marks: Vec<u32> = (0..100).map(|i| 100 * round + i).collect();
            a.send(marks.clone());
            b.client.ioctl(NIOCRXSYNC).unwrap();
            assert!(seen.take().is_empty(), "{to}: nothing was released");
            let ring = b.client.ring(b.rx);
            b.client.advance(b.rx, (ring.head + 40) % ring.num_slots);
            assert!(seen.take().is_empty(), "{to}: nothing was given back by a sync");
            b.client.ioctl(NIOCRXSYNC).unwrap();
            assert_eq!(seen.marks(), marks[..40], "{to}");
            assert_eq!(b.marks(), marks[40..], "{to}");
            assert_eq!(seen.marks(), marks[40..], "{to}");
            a.client.ioctl(NIOCTXSYNC).unwrap();
        }
    }
}

#[test]
fn a_zero_copy_monitor_of_which_nobody_said_what_it_watches_sees_both_ways_and_takes_nothing() {
    let world = World::new();
    for [one, other] in [["x{1", "x}1"], ["vale0:a", "vale0:b"]] {
        let [mut a, mut b] = [one, other].map(|name| Station::new(&world, name, &all()));
        let mut seen = Station::new(&world, other, &monitor(NR_ZCOPY_MON));
        // From this frame, the switch learns the port of `b`.
        b.send([1]);
        assert_eq!((seen.take(), a.marks()), (vec![(1, NS_TXMON)], vec![1]));
        a.send([2, 3]);
        assert_eq!(b.marks(), [2, 3], "{other}: they are the port's");
        assert_eq!(seen.marks(), [2, 3]);
        assert_eq!(seen.client.ioctl(NIOCTXSYNC), Err(Errno::IO), "it is no second handle");
    }
}

#[test]
fn no_request_for_a_monitor_binds_or_attaches_the_port_itself() {
    let world = World::new();
    let _a = world.bound("x{1");
    for directions in [0, NR_MONITOR_TX, NR_MONITOR_RX, NR_MONITOR_TX | NR_MONITOR_RX] {
        for flags in [directions, directions | NR_ZCOPY_MON].into_iter().filter(|&flags| flags != 0)
        {
            let mut client = world.open();
            client.register("x{1", &monitor(flags)).unwrap();
            assert!(client.open.bound.get().unwrap().port.is_monitor(), "{flags:#x}");
            let refused = |name: &str, wish| world.open().register(name, &wish).err();
            assert_eq!(refused("y{1", monitor(flags)), Some(Errno::INVAL), "{flags:#x}");
            assert_eq!(refused("vale0:new", monitor(flags)), Some(Errno::INVAL), "{flags:#x}");
            let null = NmreqRegister { nr_mode: NR_REG_NULL, nr_mem_id: 1, ..monitor(flags) };
            assert_eq!(refused("", null), Some(Errno::INVAL), "{flags:#x}");
            let reg = monitor(flags);
            let attach = NmreqValeAttach { reg, ..NmreqValeAttach::default() };
            let attached = world.open().ask("vale1:x", NETMAP_REQ_VALE_ATTACH, &attach);
            assert_eq!(attached.err(), Some(Errno::INVAL), "{flags:#x}");
        }
    }
}

#[test]
fn a_monitor_gives_slots_back_by_a_sync_and_not_before() {
    let world = World::new();
    let mut a = Station::new(&world, "vale0:a", &all());
    let few = NmreqRegister { nr_rx_slots: 64, ..monitor(NR_MONITOR_TX) };
    let mut seen = Station::new(&world, "vale0:a", &few);
    a.send(0..63);
    seen.client.ioctl(NIOCRXSYNC).unwrap();
    seen.client.advance(seen.rx, 63);
    a.send([63]);
    seen.client.ioctl(NIOCRXSYNC).unwrap();
    a.send([64]);
    assert_eq!(seen.marks(), [64]);
}

#[test]
fn what_did_not_fit_the_port_its_monitor_does_not_see() {
    let world = World::new();
    let mut a = Station::new(&world, "vale0:a", &all());
    let mut b = Station::new(&world, "vale0:b", &NmreqRegister { nr_rx_slots: 64, ..all() });
    let mut got = Station::new(&world, "vale0:b", &monitor(NR_MONITOR_RX));
    a.send(0..100);
    assert_eq!(b.marks(), (0..63).collect::<Vec<_>>());
    assert_eq!(got.marks(), (0..63).collect::<Vec<_>>());
}

#[test]
fn a_monitor_that_is_full_loses_whole_frames_and_harms_nobody() {
    let world = World::new();
    let [mut a, mut b] = ["x{1", "x}1"].map(|name| Station::new(&world, name, &all()));
    let small = NmreqRegister { nr_rx_slots: 64, ..monitor(NR_MONITOR_TX) };
    let mut tx = Station::new(&world, "x{1", &small);
    a.send(0..62);
    for mark in 100..103 {
        a.queue(mark, if mark < 102 { NS_MOREFRAG } else { 0 });
    }
    a.send([200, 201]);
    assert_eq!(b.marks().len(), 67);
    let mut expected: Vec<u32> = (0..62).collect();
    expected.push(200);
    assert_eq!(tx.marks(), expected);
}

#[test]
fn what_a_monitor_loses_is_counted_in_its_ring_and_at_the_port() {
    let world = World::new();
    let mut a = Station::new(&world, "vale0:a", &all());
    let small = NmreqRegister { nr_rx_slots: 64, ..monitor(NR_MONITOR_TX) };
    let mut full = Station::new(&world, "vale0:a", &small);
    let wide = Station::new(&world, "vale0:a", &monitor(NR_MONITOR_TX | NR_MONITOR_RX));
    a.send(0..100);
    let lost = |one: &Station<'_>| one.client.ring(one.rx).lost;
    assert_eq!((lost(&full), lost(&wide)), (37, 0));
    full.marks();
    a.send(0..70);
    assert_eq!(lost(&full), 44);
    let fates = world.domain.switches()[0].ports[0].monitors.clone();
    let [tx, both] = [[true, false], [true, true]];
    let expected = [
        MonitorInfo { wants: tx, frames: 126, lost: 44 },
        MonitorInfo { wants: both, frames: 170, lost: 0 },
    ];
    assert_eq!(fates, expected);
}

#[test]
fn a_monitor_sees_of_an_overlong_frame_as_little_as_the_switch_does() {
    let world = World::new();
    let mut a = Station::new(&world, "vale0:a", &all());
    let mut seen = Station::new(&world, "vale0:a", &monitor(NR_MONITOR_TX));
    for mark in 0..100 {
        a.queue(mark, NS_MOREFRAG);
    }
    a.send([100, 101]);
    assert_eq!(seen.take(), [(101, NS_TXMON)]);
}

#[test]
fn fragments_of_a_frame_stay_together() {
    let world = World::new();
    let mut a = Station::new(&world, "x{1", &all());
    let mut tx = Station::new(&world, "x{1", &monitor(NR_MONITOR_TX));
    a.queue(1, NS_MOREFRAG);
    a.client.ioctl(NIOCTXSYNC).unwrap();
    assert!(tx.take().is_empty());
    a.send([2]);
    assert_eq!(tx.take(), [(1, NS_MOREFRAG | NS_TXMON), (2, NS_TXMON)]);
}

#[test]
fn one_ring_can_be_monitored_alone() {
    let world = World::new();
    let many = NmreqRegister { nr_tx_rings: 2, nr_rx_rings: 2, ..all() };
    let mut client = world.open();
    let got = client.register("x{1", &many).unwrap();
    let wish =
        |nr_ringid| NmreqRegister { nr_mode: NR_REG_ONE_NIC, nr_ringid, ..monitor(NR_MONITOR_TX) };
    let mut second = world.open();
    let seen = second.register("x{1", &wish(1)).unwrap();
    assert_eq!((seen.nr_tx_rings, seen.nr_rx_rings), (1, 2));
    for i in 0..2 {
        client.queue(client.ring_at(&got, i), 0, 60, 0);
    }
    client.ioctl(NIOCTXSYNC).unwrap();
    // The order of the rings is tx, host tx, rx 0, rx 1.
    assert_eq!(second.ring_at(&seen, 2), 0);
    assert_eq!(second.ring(second.ring_at(&seen, 3)).tail, 1);
    assert_eq!(world.open().register("x{1", &wish(2)), Err(Errno::INVAL));
}

#[test]
fn a_monitor_has_memory_of_its_own_or_the_ports() {
    let world = World::new();
    let a = Station::new(&world, "vale0:a", &all());
    let copy = Station::new(&world, "vale0:a", &monitor(NR_MONITOR_TX));
    let shared = Station::new(&world, "vale0:a", &monitor(NR_MONITOR_TX | NR_ZCOPY_MON));
    assert_eq!(shared.mem_id, a.mem_id);
    assert_ne!(copy.mem_id, a.mem_id);
}

#[test]
fn a_port_of_a_switch_has_room_for_many_pipes_and_monitors_and_pays_for_none() {
    let world = World::new();
    let a = Station::new(&world, "vale0:a", &all());
    let used = || rustix::fs::fstat(world.domain.file()).unwrap().st_blocks * 512;
    assert!(used() < 256 << 10, "{}", used());
    let pipes: Vec<_> =
        (0..20).map(|i| Station::new(&world, &format!("vale0:a{{{i}"), &all())).collect();
    let wish = monitor(NR_MONITOR_TX | NR_ZCOPY_MON);
    let monitors: Vec<_> = (0..20).map(|_| Station::new(&world, "vale0:a", &wish)).collect();
    assert!(pipes.iter().chain(&monitors).all(|one| one.mem_id == a.mem_id));
}

#[test]
fn ports_of_switches_leave_room_for_each_other_where_old_programs_can_map_it() {
    let world = World::new();
    let ports: Vec<_> = (0..254).map(|i| world.bound(&format!("vale0:p{i}"))).collect();
    let end = |client: &Client<'_>| client.open.bound.get().unwrap().port.memory().map_len();
    assert!(ports.iter().map(end).max().unwrap() < 1 << 32);
    let _last = world.bound("vale0:p253{1");
}

#[test]
fn only_ports_in_use_are_monitored() {
    let world = World::new();
    let refused = |name: &str| world.open().register(name, &monitor(NR_MONITOR_RX)).err();
    assert_eq!(refused("nowhere"), Some(Errno::NXIO));
    for name in ["x{1", "x}1", "vale0:a"] {
        assert_eq!(refused(name), Some(Errno::INVAL), "{name}");
    }
    let _a = world.bound("x{1");
    assert_eq!(refused("x}1"), Some(Errno::INVAL), "its other end is not");
    assert_eq!(refused("x{1"), None);
}

#[test]
fn a_monitor_sends_nothing_and_ends_with_the_port() {
    let world = World::new();
    let a = world.bound("x{1");
    let _b = world.bound("x}1");
    let mut seen = Station::new(&world, "x{1", &monitor(NR_MONITOR_TX));
    assert_eq!(seen.client.ioctl(NIOCTXSYNC), Err(Errno::IO));
    assert_eq!(seen.client.ioctl(NIOCRXSYNC), Ok(0));
    assert_eq!(
        seen.client.open.poll(PollEvents::IN, Some(3), Duration::ZERO),
        PollEvents::default()
    );
    let again = world.bound("x{1");
    drop(a);
    assert!(lock(&world.notified.0).is_empty(), "somebody has it still");
    drop(again);
    assert_eq!(*lock(&world.notified.0), [3]);
    assert_eq!(seen.client.ioctl(NIOCRXSYNC), Err(Errno::IO));
    assert!(seen.client.poll(PollEvents::IN).intersects(PollEvents::ERR));
}

#[test]
fn a_bind_that_fails_after_the_last_program_has_left_ends_the_monitors() {
    let world = World::new();
    let a = world.bound("x{1");
    let mut seen = Station::new(&world, "x{1", &monitor(NR_MONITOR_TX));
    // The claim of a bind that is about to fail, for its option or for want of memory.
    let port = a.open.bound.get().unwrap().port.clone();
    let claim = port.claims().acquire([0..1, 0..1], false).unwrap();
    drop(a);
    assert_eq!(seen.client.ioctl(NIOCRXSYNC), Ok(0));
    drop(claim);
    assert_eq!(seen.client.ioctl(NIOCRXSYNC), Err(Errno::IO));
}

#[test]
fn a_monitor_that_sleeps_is_woken() {
    let world = World::new();
    let mut a = Station::new(&world, "x{1", &all());
    let seen = Station::new(&world, "x{1", &monitor(NR_MONITOR_TX));
    assert_eq!(
        seen.client.open.poll(PollEvents::IN, Some(3), Duration::ZERO),
        PollEvents::default()
    );
    a.send([1]);
    assert_eq!(*lock(&world.notified.0), [3]);
}
