//! Tests of REGISTER: names, modes, memories, sharing, extra buffers, and what a close releases.

use super::*;

fn wish(mode: u32, ring: u16, flags: u64) -> NmreqRegister {
    NmreqRegister { nr_mode: mode, nr_ringid: ring, nr_flags: flags, ..all() }
}

#[test]
fn a_bound_port_finds_its_rings_as_netmap_has_them() {
    let world = World::new();
    let mut client = world.open();
    let got = client.register("x{1", &all()).unwrap();
    assert_eq!(
        (got.nr_tx_slots, got.nr_rx_slots, got.nr_tx_rings, got.nr_rx_rings),
        (1024, 1024, 1, 1)
    );
    let interface: NetmapIf = client.peek(got.nr_offset);
    assert_eq!(&interface.ni_name[..4], b"x{1\0");
    assert_eq!((interface.ni_version, interface.ni_tx_rings, interface.ni_rx_rings), (14, 1, 1));
    let [tx, host_tx, rx, host_rx] = [0, 1, 2, 3].map(|i| client.ring_at(&got, i));
    assert_eq!((host_tx, host_rx), (0, 0), "they only pretend to be there");
    let ring = client.ring(tx);
    assert_eq!((ring.num_slots, ring.nr_buf_size, ring.dir), (1024, BUF_SIZE, 0));
    assert_eq!((ring.head, ring.cur, ring.tail), (0, 0, 1023));
    let ring = client.ring(rx);
    assert_eq!((ring.dir, ring.head, ring.cur, ring.tail), (1, 0, 0, 0));
    let slot = client.slot(tx, 5);
    assert!(slot.buf_idx >= 2 && u64::from(slot.len) == BUF);
    let buffer = (tx as i64 + client.ring(tx).buf_ofs) as u64 + u64::from(slot.buf_idx) * BUF;
    assert!(buffer + BUF <= got.nr_memsize);
}

#[test]
fn a_file_is_bound_once() {
    let world = World::new();
    let mut client = world.bound("x{1");
    assert_eq!(client.register("x{1", &all()), Err(Errno::BUSY));
    assert_eq!(client.register("y{1", &all()), Err(Errno::BUSY));
}

#[test]
fn names_that_no_port_has_are_refused() {
    let world = World::new();
    for (name, error) in
        [("nowhere", Errno::NXIO), ("", Errno::NXIO), ("{1", Errno::INVAL), ("}x", Errno::INVAL)]
    {
        assert_eq!(world.open().register(name, &all()), Err(error), "{name}");
    }
}

#[test]
fn modes_of_old_requests_are_refused() {
    let world = World::new();
    for mode in [0, NR_REG_PIPE_MASTER, NR_REG_PIPE_SLAVE, 9, 0x100] {
        assert_eq!(world.open().register("x{1", &wish(mode, 0, 0)), Err(Errno::INVAL), "{mode}");
    }
}

#[test]
fn a_pipe_has_no_host_rings() {
    let world = World::new();
    for mode in [NR_REG_SW, NR_REG_NIC_SW, NR_REG_ONE_SW] {
        assert_eq!(world.open().register("x{1", &wish(mode, 0, 0)), Err(Errno::INVAL), "{mode}");
    }
}

#[test]
fn a_pipe_can_have_many_rings_and_one_of_them_can_be_bound_alone() {
    let world = World::new();
    let many = NmreqRegister { nr_tx_rings: 3, nr_rx_rings: 2, nr_tx_slots: 64, ..all() };
    let mut first = world.open();
    let got = first.register("x{1", &many).unwrap();
    assert_eq!((got.nr_tx_rings, got.nr_rx_rings, got.nr_tx_slots), (3, 2, 64));
    let mut second = world.open();
    let got = second.register("x}1", &wish(NR_REG_ONE_NIC, 1, 0)).unwrap();
    assert_eq!((got.nr_tx_rings, got.nr_rx_rings, got.nr_rx_slots), (2, 3, 64));
    // The order of the rings in `netmap_if`: tx 0 and 1, host tx, rx 0 to 2, host rx.
    let bound = [0, 1, 2, 3, 4, 5, 6].map(|i| second.ring_at(&got, i) != 0);
    assert_eq!(bound, [false, true, false, false, true, false, false]);
    assert_eq!(world.open().register("x}1", &wish(NR_REG_ONE_NIC, 3, 0)), Err(Errno::INVAL));
}

#[test]
fn sizes_out_of_range_are_brought_into_it() {
    let world = World::new();
    let huge = NmreqRegister { nr_tx_slots: u32::MAX, nr_rx_slots: 1, nr_tx_rings: 9999, ..all() };
    let mut client = world.open();
    let got = client.ask(
        "x{1",
        NETMAP_REQ_PORT_INFO_GET,
        &NmreqPortInfoGet {
            nr_tx_slots: huge.nr_tx_slots,
            nr_rx_slots: huge.nr_rx_slots,
            ..NmreqPortInfoGet::default()
        },
    );
    let got = got.unwrap();
    assert_eq!((got.nr_tx_slots, got.nr_rx_slots), (4096, 2));
}

#[test]
fn flags_leave_one_direction_out() {
    let world = World::new();
    for (flag, bound) in [(NR_TX_RINGS_ONLY, [true, false]), (NR_RX_RINGS_ONLY, [false, true])] {
        let mut client = world.open();
        let got = client.register("x{1", &wish(NR_REG_ALL_NIC, 0, flag)).unwrap();
        assert_eq!([0, 2].map(|i| client.ring_at(&got, i) != 0), bound);
    }
}

#[test]
fn several_files_share_a_port_and_see_the_same_rings() {
    let world = World::new();
    let (mut one, mut two) = (world.open(), world.open());
    let (first, second) =
        (one.register("x{1", &all()).unwrap(), two.register("x{1", &all()).unwrap());
    assert_ne!(first.nr_offset, second.nr_offset, "each has a record of its own");
    assert_eq!(one.ring_at(&first, 0), two.ring_at(&second, 0));
}

#[test]
fn an_exclusive_bind_and_any_other_refuse_each_other() {
    let world = World::new();
    let alone = wish(NR_REG_ALL_NIC, 0, NR_EXCLUSIVE);
    let mut loner = world.open();
    loner.register("x{1", &alone).unwrap();
    assert_eq!(world.open().register("x{1", &all()), Err(Errno::BUSY));
    assert_eq!(world.open().register("x{1", &alone), Err(Errno::BUSY));
    assert!(world.open().register("x}1", &alone).is_ok(), "the other end is another port");
    drop(loner);
    let _sharer = world.bound("x{1");
    assert_eq!(world.open().register("x{1", &alone), Err(Errno::BUSY));
}

#[test]
fn a_null_port_needs_a_memory_and_may_have_no_rings() {
    let world = World::new();
    let null = wish(NR_REG_NULL, 0, 0);
    assert_eq!(world.open().register("n", &null), Err(Errno::INVAL));
    let mut client = world.open();
    let got = client.register("n", &NmreqRegister { nr_mem_id: 1, ..null }).unwrap();
    assert_eq!((got.nr_tx_rings, got.nr_rx_rings, got.nr_mem_id), (0, 0, 1));
    assert_eq!(client.ioctl(NIOCTXSYNC), Ok(0));
    let ring = NmreqRegister { nr_mem_id: 1, nr_tx_rings: 1, nr_tx_slots: 8, ..null };
    let mut client = world.open();
    let got = client.register("n", &ring).unwrap();
    let tx = client.ring_at(&got, 0);
    client.queue(tx, 0, 60, 0);
    client.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(client.ring(tx).tail, 0, "what was sent is gone");
}

#[test]
fn a_memory_that_is_none_is_refused_and_so_is_one_of_another_port() {
    let world = World::new();
    let with = |nr_mem_id| NmreqRegister { nr_mem_id, ..all() };
    assert_eq!(world.open().register("x{1", &with(9)), Err(Errno::INVAL));
    let private = world.domain.private_memory(MemoryNeeds::rings(8, 64, true)).unwrap();
    let _bound = world.bound("x{1");
    assert_eq!(world.open().register("x}1", &with(private.id())), Err(Errno::INVAL));
    assert!(world.open().register("x}1", &with(1)).is_ok());
}

#[test]
fn pipes_of_one_name_share_a_memory_and_the_name_itself_is_a_port() {
    let world = World::new();
    let (mut one, mut two) = (world.open(), world.open());
    let first = one.register("x{1", &all()).unwrap();
    let second = two.register("x{2", &all()).unwrap();
    assert_eq!(first.nr_mem_id, second.nr_mem_id);
    let mut parent = world.open();
    let got = parent.register("x", &all()).unwrap();
    let tx = parent.ring_at(&got, 0);
    parent.queue(tx, 0, 60, 0);
    parent.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(parent.ring(tx).tail, 0);
    drop((one, two, parent));
    assert_eq!(world.open().register("x", &all()), Err(Errno::NXIO), "it went with its pipes");
}

#[test]
fn names_of_another_network_namespace_are_others() {
    let world = World::new();
    let _here = world.bound("x{1");
    let opener = Opener { netns: 2, netns_fd: None, gids: Vec::new() };
    let open = world.netmap.open(world.domain.clone(), opener, world.notified.clone());
    let mut client = Client { world: &world, open, memory: ProgramMemory::new() };
    let alone = wish(NR_REG_ALL_NIC, 0, NR_EXCLUSIVE);
    assert!(client.register("x{1", &alone).is_ok());
}

#[test]
fn both_ends_live_while_one_is_open_and_keep_what_was_sent() {
    let world = World::new();
    let mut master = world.open();
    let got = master.register("x{1", &all()).unwrap();
    master.queue(master.ring_at(&got, 0), 0, 77, 0);
    master.ioctl(NIOCTXSYNC).unwrap();
    let mut slave = world.open();
    let got = slave.register("x}1", &all()).unwrap();
    drop(master);
    slave.ioctl(NIOCRXSYNC).unwrap();
    let rx = slave.ring_at(&got, 2);
    assert_eq!((slave.ring(rx).tail, slave.slot(rx, 0).len), (1, 77));
    let mut again = world.open();
    let got = again.register("x{1", &all()).unwrap();
    assert_eq!(again.ring(again.ring_at(&got, 0)).head, 1, "the ring is as it was");
}

fn extra(count: u32) -> NmreqRegister {
    NmreqRegister { nr_extra_bufs: count, ..all() }
}

/// Returns the list of extra buffers as the program traverses it.
fn extra_list(client: &Client<'_>, got: &NmreqRegister) -> Vec<u32> {
    let ring = client.ring_at(got, 0);
    let bufs = (ring as i64 + client.ring(ring).buf_ofs) as u64;
    let interface: NetmapIf = client.peek(got.nr_offset);
    let (mut list, mut next) = (Vec::new(), interface.ni_bufs_head);
    while next != 0 {
        list.push(next);
        next = client.peek(bufs + u64::from(next) * BUF);
    }
    list
}

#[test]
fn extra_buffers_are_listed_and_come_back_at_close() {
    let world = World::new();
    let memory = world.domain.memory(1).unwrap();
    let free = memory.region().free_bufs();
    let mut client = world.open();
    let got = client.register("x{1", &extra(100)).unwrap();
    assert_eq!(got.nr_extra_bufs, 100);
    let mut list = extra_list(&client, &got);
    assert_eq!(list.len(), 100);
    list.sort_unstable();
    list.dedup();
    assert_eq!(list.len(), 100);
    drop(client);
    assert_eq!(memory.region().free_bufs(), free);
}

#[test]
fn a_wish_for_more_buffers_than_there_are_is_granted_in_part() {
    let world = World::with(MemoryParams { buf_num: 3000, ..MemoryParams::default() });
    let mut client = world.open();
    let got = client.register("x{1", &extra(1_000_000)).unwrap();
    assert_eq!(got.nr_extra_bufs, 3000 - 2 - 2048);
}

#[test]
fn a_hostile_extra_list_ends_somewhere_and_gives_back_each_buffer_once() {
    let world = World::new();
    let memory = world.domain.memory(1).unwrap();
    let free = memory.region().free_bufs();
    let mut lost = 0;
    for head in [0, 1, 2, u32::MAX, 163_840] {
        let mut client = world.open();
        let got = client.register("x{1", &extra(4)).unwrap();
        let list = extra_list(&client, &got);
        let ring = client.ring_at(&got, 0);
        let bufs = (ring as i64 + client.ring(ring).buf_ofs) as u64;
        // The last buffer links to the first. If `head` is not 0, it replaces the head of the list,
        // which then contains none of the four buffers.
        client.poke(bufs + u64::from(list[3]) * BUF, &list[0]);
        if head != 0 {
            client.poke(got.nr_offset + 32, &head);
            lost += 4;
        }
        drop(client);
        assert_eq!(memory.region().free_bufs(), free - lost, "{head}");
    }
    // If a buffer was given back twice, a program would get it twice.
    let mut client = world.open();
    let got = client.register("x{1", &extra(u32::MAX)).unwrap();
    let mut list = extra_list(&client, &got);
    list.sort_unstable();
    list.dedup();
    assert_eq!(list.len() as u32, got.nr_extra_bufs);
}

#[test]
fn buffers_that_a_killed_client_lost_are_found_when_its_memory_is_idle() {
    let world = World::new();
    let mut client = world.open();
    let got = client.register("x{1", &extra(50)).unwrap();
    // The program is killed while it holds the buffers outside its rings: the extra list is empty,
    // and a slot has no buffer.
    client.poke(got.nr_offset + 32, &0u32);
    client.poke(slot_at(client.ring_at(&got, 0), 3), &0u32);
    drop(client);
    let memory = world.domain.memory(1).unwrap();
    assert_eq!(memory.region().free_bufs(), 163_840 - 2);
}
