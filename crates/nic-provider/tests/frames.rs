//! Tests of clients on the two ends of a virtual cable: frames between the ends and to and from the
//! host, access rights, switches and monitors. One test is of a vhost-user port.
//!
//! Needs root. The cable is in a network namespace that is removed at the end of the test.
#![allow(clippy::unwrap_used)]

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use slipring_abi::*;
use slipring_core::netns::Netns;
use slipring_netmap::*;
use slipring_nic_provider::{NicAccess, Nics};
use slipring_port::netlink::Netlink;

/// Maximum time to wait for an event. It is only reached if something is broken.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Reports each wake-up as a message on a channel.
struct ChannelNotify(Sender<u64>);

impl Notify for ChannelNotify {
    fn notify(&self, handle: u64) {
        // The receiver no longer exists if the test has ended.
        let _ = self.0.send(handle);
    }
}

/// A program's memory: a request's body, followed by options. Its first byte has the address 8.
struct Body(Vec<u8>);

/// The address of the option.
const OPTION: u64 = 512;

impl Body {
    fn range(&mut self, addr: u64, len: usize) -> &mut [u8] {
        &mut self.0[addr as usize - 8..][..len]
    }
}

impl CallerMemory for Body {
    fn read(&mut self, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        let len = out.len();
        out.copy_from_slice(self.range(addr, len));
        Ok(())
    }

    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.range(addr, bytes.len()).copy_from_slice(bytes);
        Ok(())
    }
}

struct World {
    netns: Netns,
    netmap: Netmap,
    domain: Arc<Domain>,
    bell: Arc<ChannelNotify>,
    rung: Receiver<u64>,
}

struct Client {
    open: OpenHandle,
    domain: Arc<Domain>,
    register: NmreqRegister,
}

impl World {
    /// Creates a virtual cable with the ends `left` and `right`.
    fn new(uid: u32, access: NicAccess) -> Self {
        Self::with_queues(uid, access, 1)
    }

    /// Like [`Self::new`], but each end has `queues` queues in each direction.
    fn with_queues(uid: u32, access: NicAccess, queues: u32) -> Self {
        let netns = Netns::new().unwrap();
        netns
            .run(|| {
                let netlink = Netlink::open()?;
                netlink.add_veth_with_queues("left", "right", None, [queues; 2])?;
                netlink.links()?.iter().try_for_each(|link| netlink.set_up(link.index))
            })
            .unwrap();
        let (ring, rung) = channel();
        let domain =
            Domain::new(uid, MemoryParams { buf_num: 16_384, ..MemoryParams::default() }).unwrap();
        let netmap = Netmap::new(Box::new(Nics::new(access)));
        Self { netns, netmap, domain, bell: Arc::new(ChannelNotify(ring)), rung }
    }

    fn open(&self, name: &str) -> Result<Client, Errno> {
        self.open_rings(name, NR_REG_ALL_NIC)
    }

    fn open_rings(&self, name: &str, nr_mode: u32) -> Result<Client, Errno> {
        self.open_as(name, &NmreqRegister { nr_mode, ..NmreqRegister::default() })
    }

    fn open_as(&self, name: &str, register: &NmreqRegister) -> Result<Client, Errno> {
        let (open, register) = self.ask(name, NETMAP_REQ_REGISTER, register)?;
        Ok(Client { open, domain: self.domain.clone(), register })
    }

    /// Opens `name` with payloads that start 64 bytes into their buffers, and that may start at
    /// most `most` bytes into them.
    fn open_with_offsets(&self, name: &str, most: u64) -> Result<Client, Errno> {
        let option = NmreqOptOffsets {
            nro_opt: NmreqOption { nro_reqtype: NETMAP_REQ_OPT_OFFSETS, ..NmreqOption::default() },
            nro_max_offset: most,
            nro_initial_offset: 64,
            nro_offset_bits: 16,
            ..NmreqOptOffsets::default()
        };
        let register = NmreqRegister { nr_mode: NR_REG_ALL_NIC, ..NmreqRegister::default() };
        let asked = self.ask_with(name, NETMAP_REQ_REGISTER, &register, Some(&option));
        asked.map(|(open, register)| Client { open, domain: self.domain.clone(), register })
    }

    /// Sends a request about `name` on a newly opened file.
    fn ask<T: PlainData>(&self, name: &str, kind: u16, body: &T) -> Result<(OpenHandle, T), Errno> {
        self.ask_with(name, kind, body, None)
    }

    fn ask_with<T: PlainData>(
        &self,
        name: &str,
        kind: u16,
        body: &T,
        option: Option<&NmreqOptOffsets>,
    ) -> Result<(OpenHandle, T), Errno> {
        let fd = self.netns.as_fd().try_clone_to_owned().unwrap();
        let netns = std::fs::File::from(fd.try_clone().unwrap()).metadata().unwrap().ino();
        let opener = Opener { netns, netns_fd: Some(fd.into()), gids: Vec::new() };
        let open = self.netmap.open(self.domain.clone(), opener, self.bell.clone());
        let mut bytes = Body(vec![0; 1024]);
        body.write_to(bytes.range(8, T::SIZE));
        if let Some(option) = option {
            option.write_to(bytes.range(OPTION, NmreqOptOffsets::SIZE));
        }
        let mut nr_name = [0; NETMAP_REQ_IFNAMSIZ];
        nr_name[..name.len()].copy_from_slice(name.as_bytes());
        let header = NmreqHeader {
            nr_version: 14,
            nr_reqtype: kind,
            nr_name,
            nr_body: 8,
            nr_options: if option.is_some() { OPTION } else { 0 },
            ..NmreqHeader::default()
        };
        let mut arg = vec![0; NmreqHeader::SIZE];
        header.write_to(&mut arg);
        self.netmap.ioctl(&open, NIOCCTRL, &mut arg, &mut bytes)?;
        Ok((open, T::read_from(bytes.range(8, T::SIZE)).unwrap()))
    }
}

impl Client {
    fn peek<T: PlainData>(&self, at: u64) -> T {
        let mut bytes = vec![0; T::SIZE];
        rustix::io::pread(self.domain.file(), &mut bytes, at).unwrap();
        T::read_from(&bytes).unwrap()
    }

    fn poke(&self, at: u64, bytes: &[u8]) {
        rustix::io::pwrite(self.domain.file(), bytes, at).unwrap();
    }

    /// Returns ring `i`, where the rings are counted in this order: tx, host tx, rx, host rx.
    fn ring(&self, i: u64) -> (u64, NetmapRing) {
        let ofs: i64 = self.peek(self.register.nr_offset + NETMAP_IF_RING_OFS as u64 + 8 * i);
        let at = self.register.nr_offset.wrapping_add_signed(ofs);
        (at, self.peek(at))
    }

    /// Returns the number of the first rx ring.
    fn first_rx(&self) -> u64 {
        u64::from(self.register.nr_tx_rings + self.register.nr_host_tx_rings)
    }

    fn slot(&self, ring: u64, i: u32) -> (u64, NetmapSlot) {
        let at = ring + NETMAP_RING_SLOTS_OFS as u64 + 16 * u64::from(i);
        (at, self.peek(at))
    }

    fn buffer(&self, ring: u64, slot: &NetmapSlot) -> u64 {
        let header: NetmapRing = self.peek(ring);
        ring.wrapping_add_signed(header.buf_ofs)
            + u64::from(header.nr_buf_size) * u64::from(slot.buf_idx)
    }

    fn send(&self, frame: &[u8]) {
        self.send_on(0, frame);
    }

    fn send_on(&self, i: u64, frame: &[u8]) {
        let (at, ring) = self.ring(i);
        let (slot_at, slot) = self.slot(at, ring.head);
        let offset = slot.ptr & ring.offset_mask;
        self.poke(self.buffer(at, &slot) + offset, frame);
        self.poke(slot_at + 4, &(frame.len() as u16).to_ne_bytes());
        let next = (ring.head + 1) % ring.num_slots;
        self.poke(at + 24, &next.to_ne_bytes());
        self.poke(at + 20, &next.to_ne_bytes());
        self.open.poll(PollEvents::OUT, None, Duration::ZERO);
    }

    /// Receives the next test frame. Skips frames that the kernel's network stack sends.
    fn receive(&self, world: &World) -> Vec<u8> {
        self.receive_on(world, self.first_rx(), |frame| frame[12..14] == [0x88, 0xb5])
    }

    /// Receives all frames on a ring.
    fn drain(&self, i: u64) -> Vec<Vec<u8>> {
        let (at, mut ring) = self.ring(i);
        let mut frames = Vec::new();
        while ring.head != ring.tail {
            let (_, slot) = self.slot(at, ring.head);
            let mut frame = vec![0; slot.len.into()];
            rustix::io::pread(self.domain.file(), &mut frame, self.buffer(at, &slot)).unwrap();
            frames.push(frame);
            ring.head = (ring.head + 1) % ring.num_slots;
        }
        self.poke(at + 24, &ring.head.to_ne_bytes());
        self.poke(at + 20, &ring.head.to_ne_bytes());
        frames
    }

    /// Receives frames of the host until `count` of them satisfy `wanted`. Returns these, each with
    /// the number of its host ring.
    fn receive_of_host(
        &self,
        world: &World,
        count: usize,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Vec<(u64, Vec<u8>)> {
        let first = self.first_rx() + u64::from(self.register.nr_rx_rings);
        let mut frames = Vec::new();
        while frames.len() < count {
            while self.open.poll(PollEvents::IN, Some(5), Duration::ZERO) == PollEvents::default() {
                assert_eq!(world.rung.recv_timeout(TIMEOUT), Ok(5));
            }
            for i in 0..u64::from(self.register.nr_host_rx_rings) {
                let arrived = self.drain(first + i).into_iter().filter(|frame| wanted(frame));
                frames.extend(arrived.map(|frame| (i, frame)));
            }
        }
        frames
    }

    /// Receives the next frame that satisfies `wanted` on a ring.
    fn receive_on(&self, world: &World, i: u64, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        loop {
            while self.open.poll(PollEvents::IN, Some(5), Duration::ZERO) == PollEvents::default() {
                assert_eq!(world.rung.recv_timeout(TIMEOUT), Ok(5));
            }
            let (at, ring) = self.ring(i);
            let (_, slot) = self.slot(at, ring.head);
            let mut frame = vec![0; slot.len.into()];
            let from = self.buffer(at, &slot) + (slot.ptr & ring.offset_mask);
            rustix::io::pread(self.domain.file(), &mut frame, from).unwrap();
            let next = (ring.head + 1) % ring.num_slots;
            self.poke(at + 24, &next.to_ne_bytes());
            self.poke(at + 20, &next.to_ne_bytes());
            if wanted(&frame) {
                return frame;
            }
        }
    }
}

fn frame(last: u8) -> Vec<u8> {
    let mut frame = vec![0xff; 60];
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    // The EtherType for local experiments.
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[59] = last;
    frame
}

#[test]
fn what_one_client_sends_on_an_interface_the_other_end_receives() {
    let world = World::new(0, NicAccess::default());
    let (left, right) = (world.open("left").unwrap(), world.open("right").unwrap());
    assert_eq!(left.register.nr_mem_id, right.register.nr_mem_id);
    for i in 0..100 {
        left.send(&frame(i));
        assert_eq!(right.receive(&world), frame(i));
        right.send(&frame(i));
        assert_eq!(left.receive(&world), frame(i));
    }
}

#[test]
fn payloads_on_an_interface_begin_at_the_offsets_of_their_slots() {
    let world = World::new(0, NicAccess::default());
    let left = world.open_with_offsets("left", 256).unwrap();
    let right = world.open("right").unwrap();
    for (mark, offset) in [(1, 0u64), (2, 64), (3, 200), (4, 256)] {
        let (at, ring) = left.ring(0);
        let (slot_at, _) = left.slot(at, ring.head);
        left.poke(slot_at + 8, &offset.to_ne_bytes());
        left.send(&frame(mark));
        assert_eq!(right.receive(&world), frame(mark));
        let (at, ring) = left.ring(left.first_rx());
        assert_eq!((ring.offset_mask, left.slot(at, ring.head).1.ptr), (0xffff, 64));
        right.send(&frame(mark));
        assert_eq!(left.receive(&world), frame(mark));
    }
}

#[test]
fn offsets_that_leave_no_room_for_what_an_interface_receives_are_refused() {
    let world = World::new(0, NicAccess::default());
    assert_eq!(world.open_with_offsets("left", 257).err(), Some(Errno::INVAL));
    assert!(world.open_with_offsets("left", 256).is_ok());
}

#[test]
fn an_interface_comes_back_to_the_host_with_its_last_client() {
    let world = World::new(0, NicAccess::default());
    for _ in 0..3 {
        let first = world.open("left").unwrap();
        let second = world.open("left").unwrap();
        assert_eq!(first.ring(0).0, second.ring(0).0, "they share it");
    }
}

#[test]
fn names_that_no_interface_has_are_refused() {
    let world = World::new(0, NicAccess::default());
    assert_eq!(world.open("nowhere").err(), Some(Errno::NXIO));
}

#[test]
fn a_pipe_that_bears_an_interfaces_name_does_not_take_the_interface() {
    let world = World::new(0, NicAccess::default());
    let pipe = world.open("left{1").unwrap();
    let other = world.open("left}1").unwrap();
    assert_eq!(pipe.register.nr_mem_id, other.register.nr_mem_id);
}

#[test]
fn only_those_who_may_take_interfaces() {
    let world = World::new(1000, NicAccess::default());
    assert_eq!(world.open("left").err(), Some(Errno::PERM));
    let world = World::new(1000, NicAccess { all_users: true, ..NicAccess::default() });
    assert!(world.open("left").is_ok());
}

#[test]
fn the_interface_of_the_default_route_is_kept_unless_said_otherwise() {
    for take_over in [false, true] {
        let world = World::new(0, NicAccess { take_over, ..NicAccess::default() });
        world
            .netns
            .run(|| {
                let netlink = Netlink::open()?;
                let links = netlink.links()?;
                let left = links.iter().find(|link| link.name == "left").unwrap().index;
                netlink.add_address(left, "10.9.9.1".parse().unwrap(), 24)?;
                netlink.add_default_route(left, "10.9.9.2".parse().unwrap())
            })
            .unwrap();
        let opened = world.open("left").map(|_| ()).err();
        assert_eq!(opened, if take_over { None } else { Some(Errno::BUSY) });
        let host = world.open_rings("left", NR_REG_SW).map(|_| ()).err();
        assert_eq!(host, opened);
        assert!(world.open("right").is_ok());
    }
}

/// Gives the host the address 10.9.9.1 on `left`.
fn give_host_an_address(world: &World) {
    let given = world.netns.run(|| {
        let netlink = Netlink::open()?;
        let left = netlink.links()?.iter().find(|link| link.name == "left").unwrap().index;
        netlink.add_address(left, "10.9.9.1".parse().unwrap(), 24)
    });
    given.unwrap();
}

/// Builds an ARP request of 10.9.9.2 for the address 10.9.9.1.
fn question() -> Vec<u8> {
    let mut frame = frame(0);
    frame[12..14].copy_from_slice(&[8, 6]);
    frame[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    frame[22..28].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[28..32].copy_from_slice(&[10, 9, 9, 2]);
    frame[32..38].fill(0);
    frame[38..42].copy_from_slice(&[10, 9, 9, 1]);
    frame
}

/// Returns whether a frame is the answer to [`question`].
fn is_answer(frame: &[u8]) -> bool {
    frame.len() >= 42 && frame[12..14] == [8, 6] && frame[21] == 2 && frame[28..32] == [10, 9, 9, 1]
}

#[test]
fn the_host_talks_through_the_rings_of_the_host() {
    let world = World::new(0, NicAccess::default());
    give_host_an_address(&world);
    for mode in [NR_REG_SW, NR_REG_ONE_SW, NR_REG_NIC_SW] {
        let client = world.open_rings("left", mode).unwrap();
        let host_tx = u64::from(client.register.nr_tx_rings);
        let host_rx = client.first_rx() + u64::from(client.register.nr_rx_rings);
        client.send_on(host_tx, &question());
        assert!(is_answer(&client.receive_on(&world, host_rx, is_answer)), "mode {mode}");
    }
}

fn wish([to_host, from_host]: [u16; 2]) -> NmreqRegister {
    NmreqRegister {
        nr_mode: NR_REG_SW,
        nr_host_tx_rings: to_host,
        nr_host_rx_rings: from_host,
        ..NmreqRegister::default()
    }
}

#[test]
fn the_host_has_as_many_rings_as_are_asked_for_up_to_those_of_the_interface() {
    let world = World::with_queues(0, NicAccess::default(), 4);
    give_host_an_address(&world);
    for (asked, given) in [([0, 0], [1, 1]), ([2, 2], [2, 2]), ([1, 3], [1, 3]), ([9, 99], [4, 4])]
    {
        let [nr_host_tx_rings, nr_host_rx_rings] = asked;
        let info =
            NmreqPortInfoGet { nr_host_tx_rings, nr_host_rx_rings, ..NmreqPortInfoGet::default() };
        let (_, info) = world.ask("left", NETMAP_REQ_PORT_INFO_GET, &info).unwrap();
        assert_eq!([info.nr_host_tx_rings, info.nr_host_rx_rings], given);
        let client = world.open_as("left", &wish(asked)).unwrap();
        let register = &client.register;
        assert_eq!([register.nr_host_tx_rings, register.nr_host_rx_rings], given);
        // Each host tx ring leads to the host.
        for i in 0..given[0] {
            client.send_on(u64::from(register.nr_tx_rings + i), &question());
            client.receive_of_host(&world, 1, is_answer);
        }
        let last = NmreqRegister { nr_mode: NR_REG_ONE_SW, ..wish(asked) };
        let one = |nr_ringid| world.open_as("left", &NmreqRegister { nr_ringid, ..last });
        assert!(one(given[1] - 1).is_ok() && one(given[1]).is_err());
    }
}

#[test]
fn flows_of_the_host_spread_over_its_rings_and_none_is_torn() {
    const FLOWS: u8 = 80;
    let world = World::with_queues(0, NicAccess::default(), 4);
    give_host_an_address(&world);
    let client = world.open_as("left", &wish([1, 4])).unwrap();
    let sent = world.netns.run(|| {
        let sockets = (0..FLOWS).map(|_| std::net::UdpSocket::bind("10.9.9.1:0"));
        let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
        for round in 0..3 {
            for (flow, socket) in (0..FLOWS).zip(&sockets) {
                socket.set_broadcast(true)?;
                socket.send_to(&[flow, round], "10.9.9.255:9")?;
            }
        }
        Ok(())
    });
    sent.unwrap();
    let is_ours = |frame: &[u8]| frame[12..14] == [8, 0] && frame[23] == 17 && frame[37] == 9;
    let mut rings = vec![Vec::new(); FLOWS.into()];
    for (ring, frame) in client.receive_of_host(&world, 3 * usize::from(FLOWS), is_ours) {
        let (flow, round) = (usize::from(frame[42]), frame[43]);
        assert_eq!(usize::from(round), rings[flow].len(), "in order");
        rings[flow].push(ring);
    }
    assert!(rings.iter().all(|rings| rings[0] == rings[1] && rings[0] == rings[2]), "{rings:?}");
    let used: std::collections::BTreeSet<_> = rings.iter().map(|rings| rings[0]).collect();
    assert_eq!(used.len(), 4, "{rings:?}");
}

#[test]
fn both_sides_of_an_interface_can_be_bound_by_two_programs() {
    let world = World::new(0, NicAccess::default());
    give_host_an_address(&world);
    let nic = world.open("left").unwrap();
    let host = world.open_rings("left", NR_REG_SW).unwrap();
    let right = world.open("right").unwrap();
    right.send(&frame(7));
    assert_eq!(nic.receive(&world), frame(7));
    let host_rx = host.first_rx() + u64::from(host.register.nr_rx_rings);
    host.send_on(u64::from(host.register.nr_tx_rings), &question());
    host.receive_on(&world, host_rx, is_answer);
}

fn attach(world: &World, nr_mode: u32) -> Result<u32, Errno> {
    let reg = NmreqRegister { nr_mode, ..NmreqRegister::default() };
    let body = NmreqValeAttach { reg, ..NmreqValeAttach::default() };
    world.ask("vale0:left", NETMAP_REQ_VALE_ATTACH, &body).map(|(_, got)| got.port_index)
}

#[test]
fn an_interface_in_a_switch_is_one_of_its_ports() {
    let world = World::new(0, NicAccess::default());
    let port = world.open("vale0:a").unwrap();
    let right = world.open("right").unwrap();
    assert_eq!(attach(&world, NR_REG_ALL_NIC), Ok(1));
    for i in 0..50 {
        port.send(&frame(i));
        assert_eq!(right.receive(&world), frame(i));
        right.send(&frame(100 + i));
        assert_eq!(port.receive(&world), frame(100 + i));
    }
    let body = NmreqValeDetach::default();
    let detached = world.ask("vale0:left", NETMAP_REQ_VALE_DETACH, &body);
    assert_eq!(detached.map(|(_, got)| got.port_index).ok(), Some(1));
    assert!(world.open("left").is_ok());
}

#[test]
fn the_host_stack_of_an_interface_in_a_switch_answers_its_ports() {
    let world = World::new(0, NicAccess::default());
    give_host_an_address(&world);
    let port = world.open("vale0:a").unwrap();
    let right = world.open("right").unwrap();
    attach(&world, NR_REG_NIC_SW).unwrap();
    port.send(&question());
    port.receive_on(&world, port.first_rx(), is_answer);
    right.send(&question());
    right.receive_on(&world, right.first_rx(), is_answer);
}

#[test]
fn monitors_see_what_passes_an_interface_while_others_use_it() {
    let world = World::new(0, NicAccess::default());
    let monitor = |name: &str, nr_flags| {
        let nr_mode = NR_REG_ALL_NIC;
        world.open_as(name, &NmreqRegister { nr_mode, nr_flags, ..NmreqRegister::default() })
    };
    assert_eq!(monitor("left", NR_MONITOR_TX).err(), Some(Errno::INVAL));
    let (left, right) = (world.open("left").unwrap(), world.open("right").unwrap());
    let sent = monitor("left", NR_MONITOR_TX).unwrap();
    let got = monitor("right", NR_MONITOR_RX).unwrap();
    let released = monitor("right", NR_MONITOR_RX | NR_ZCOPY_MON).unwrap();
    for i in 0..100 {
        left.send(&frame(i));
        assert_eq!(right.receive(&world), frame(i));
        assert_eq!(sent.receive(&world), frame(i));
        assert_eq!(got.receive(&world), frame(i));
        // This poll gives the slot of the frame back, so that the zero-copy monitor gets the frame.
        right.open.poll(PollEvents::IN, None, Duration::ZERO);
        assert_eq!(released.receive(&world), frame(i));
    }
}

#[test]
fn a_virtual_machine_is_bound_by_root_alone_and_has_no_host_side() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let name = format!("vhost:{}", socket.display());
    let world = World::new(0, NicAccess::default());
    let wish =
        NmreqRegister { nr_mode: NR_REG_ALL_NIC, nr_tx_rings: 2, ..NmreqRegister::default() };
    let client = world.open_as(&name, &wish).unwrap();
    assert_eq!((client.register.nr_tx_rings, client.register.nr_rx_rings), (2, 2));
    assert!(socket.exists());
    assert_eq!(world.open_rings(&name, NR_REG_NIC_SW).err(), Some(Errno::INVAL));
    drop(client);
    assert!(!socket.exists(), "it goes with the last close");
    let _other = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_eq!(world.open(&name).err(), Some(Errno::ADDRINUSE));
    let everybody = NicAccess { all_users: true, take_over: true };
    assert_eq!(World::new(65_534, everybody).open(&name).err(), Some(Errno::PERM));
}
