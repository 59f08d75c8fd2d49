//! Tests of rules that hold for every request: versions, bodies, options.

use super::*;

#[test]
fn versions_fourteen_and_fifteen_are_spoken_and_no_others() {
    let world = World::new();
    for (nr_version, answer) in
        [(13, Err(Errno::INVAL)), (14, Ok(0)), (15, Ok(0)), (16, Err(Errno::INVAL))]
    {
        let mut client = world.open();
        client.memory.put(BODY, &all());
        let header = NmreqHeader { nr_version, ..header("x{1", NETMAP_REQ_REGISTER) };
        assert_eq!(client.control(&header), answer, "{nr_version}");
    }
}

#[test]
fn the_reserved_word_must_be_zero() {
    let world = World::new();
    let mut client = world.open();
    let header = NmreqHeader { nr_reserved: 1, ..header("x{1", NETMAP_REQ_REGISTER) };
    assert_eq!(client.control(&header), Err(Errno::INVAL));
}

#[test]
fn a_request_that_is_none_is_refused() {
    let world = World::new();
    for kind in [0, 16, 99, u16::MAX] {
        assert_eq!(world.open().control(&header("x{1", kind)), Err(Errno::INVAL), "{kind}");
    }
}

#[test]
fn a_missing_body_is_refused() {
    let world = World::new();
    for kind in (1..=15).filter(|kind| ![9, 14, 15].contains(kind)) {
        let header = NmreqHeader { nr_body: 0, ..header("x{1", kind) };
        assert_eq!(world.open().control(&header), Err(Errno::INVAL), "{kind}");
    }
}

#[test]
fn a_body_where_none_belongs_is_refused() {
    let world = World::new();
    for kind in [NETMAP_REQ_VALE_DELIF, NETMAP_REQ_SYNC_KLOOP_STOP, NETMAP_REQ_CSB_ENABLE] {
        assert_eq!(world.open().control(&header("x{1", kind)), Err(Errno::INVAL), "{kind}");
    }
}

#[test]
fn a_body_that_cannot_be_read_or_not_wholly_is_a_fault() {
    let world = World::new();
    for nr_body in [1, BASE + (1 << 16) - 8, u64::MAX] {
        let header = NmreqHeader { nr_body, ..header("x{1", NETMAP_REQ_REGISTER) };
        let mut client = world.open();
        assert_eq!(client.control(&header), Err(Errno::FAULT), "{nr_body:#x}");
        assert_eq!(client.ioctl(NIOCTXSYNC), Err(Errno::NXIO), "it is not bound");
    }
}

#[test]
fn a_name_without_end_is_cut() {
    let world = World::new();
    let mut client = world.open();
    client.memory.put(BODY, &all());
    let mut header = header("", NETMAP_REQ_REGISTER);
    header.nr_name = [b'x'; 64];
    header.nr_name[10] = b'{';
    assert_eq!(client.control(&header), Ok(0));
}

#[test]
fn a_name_that_is_no_text_names_no_port() {
    let world = World::new();
    let mut client = world.open();
    client.memory.put(BODY, &all());
    let mut header = header("", NETMAP_REQ_REGISTER);
    header.nr_name[0] = 0xff;
    assert_eq!(client.control(&header), Err(Errno::NXIO));
}

fn option(kind: u32, next: u64) -> NmreqOption {
    NmreqOption { nro_next: next, nro_reqtype: kind, nro_status: 77, nro_size: 0 }
}

/// Makes a REGISTER whose options are the list that the test has written to the address `OPTIONS`.
fn with_options(client: &mut Client<'_>) -> Result<i32, Errno> {
    client.memory.put(BODY, &all());
    client.control(&NmreqHeader { nr_options: OPTIONS, ..header("x{1", NETMAP_REQ_REGISTER) })
}

fn status(client: &mut Client<'_>, addr: u64) -> u32 {
    client.memory.get::<NmreqOption>(addr).nro_status
}

#[test]
fn an_option_that_nobody_knows_is_refused_by_name_and_nothing_is_bound() {
    let world = World::new();
    for kind in [6, 99, NETMAP_REQ_OPT_SYNC_KLOOP_MODE] {
        let mut client = world.open();
        client.memory.put(OPTIONS, &option(kind, 0));
        assert_eq!(with_options(&mut client), Err(Errno::OPNOTSUPP), "{kind}");
        assert_eq!(status(&mut client, OPTIONS), 95, "{kind}");
        assert_eq!(client.ioctl(NIOCTXSYNC), Err(Errno::NXIO));
    }
}

#[test]
fn an_option_of_type_zero_is_invalid() {
    let world = World::new();
    let mut client = world.open();
    client.memory.put(OPTIONS, &option(0, 0));
    assert_eq!(with_options(&mut client), Err(Errno::INVAL));
    assert_eq!(status(&mut client, OPTIONS), 22);
}

#[test]
fn an_option_given_twice_is_invalid_and_both_say_so() {
    let world = World::new();
    let mut client = world.open();
    client.memory.put(OPTIONS, &option(3, OPTIONS + 64));
    client.memory.put(OPTIONS + 64, &option(3, 0));
    assert_eq!(with_options(&mut client), Err(Errno::INVAL));
    assert_eq!([status(&mut client, OPTIONS), status(&mut client, OPTIONS + 64)], [22, 22]);
}

#[test]
fn an_unknown_option_given_twice_is_no_duplicate_but_unknown() {
    let world = World::new();
    for kinds in [[99, 99], [6, 6], [99, 98]] {
        let mut client = world.open();
        client.memory.put(OPTIONS, &option(kinds[0], OPTIONS + 64));
        client.memory.put(OPTIONS + 64, &option(kinds[1], 0));
        assert_eq!(with_options(&mut client), Err(Errno::OPNOTSUPP), "{kinds:?}");
        assert_eq!([status(&mut client, OPTIONS), status(&mut client, OPTIONS + 64)], [95, 95]);
    }
}

#[test]
fn an_option_that_says_it_is_longer_than_a_page_is_too_long_whatever_its_kind() {
    let world = World::new();
    let mut client = world.open();
    for kind in 1..=5 {
        let huge = NmreqOption { nro_size: 4097, ..option(kind, 0) };
        client.memory.put(OPTIONS, &huge);
        assert_eq!(with_options(&mut client), Err(Errno::MSGSIZE), "{kind}");
    }
    // An option of unknown type is refused for its type, whatever length it states.
    client.memory.put(OPTIONS, &NmreqOption { nro_size: u64::MAX, ..option(99, 0) });
    assert_eq!(with_options(&mut client), Err(Errno::OPNOTSUPP));
}

#[test]
fn a_list_of_one_option_too_many_is_too_long() {
    let world = World::new();
    let room = (NETMAP_REQ_MAXSIZE - NmreqRegister::SIZE) / NmreqOption::SIZE;
    for (count, error) in [(room, Errno::OPNOTSUPP), (room + 1, Errno::MSGSIZE)] {
        let mut client = world.open();
        for i in 0..count as u64 {
            let (at, last) = (OPTIONS + 24 * i, i + 1 == count as u64);
            client.memory.put(at, &option(99, if last { 0 } else { at + 24 }));
        }
        assert_eq!(with_options(&mut client), Err(error), "{count}");
    }
}

#[test]
fn a_list_in_circles_is_too_long() {
    let world = World::new();
    let mut client = world.open();
    client.memory.put(OPTIONS, &option(3, OPTIONS));
    assert_eq!(with_options(&mut client), Err(Errno::MSGSIZE));
}

#[test]
fn options_of_more_than_a_page_are_too_long() {
    let world = World::new();
    let mut client = world.open();
    let huge = NmreqOption { nro_size: 5000, ..option(NETMAP_REQ_OPT_SYNC_KLOOP_EVENTFDS, 0) };
    client.memory.put(OPTIONS, &huge);
    assert_eq!(with_options(&mut client), Err(Errno::MSGSIZE));
    client.memory.put(OPTIONS, &NmreqOption { nro_size: u64::MAX, ..huge });
    assert_eq!(with_options(&mut client), Err(Errno::MSGSIZE));
}

#[test]
fn an_option_that_cannot_be_read_is_a_fault() {
    let world = World::new();
    let mut client = world.open();
    client.memory.put(OPTIONS, &option(99, 12));
    assert_eq!(with_options(&mut client), Err(Errno::FAULT));
}

#[test]
fn a_sync_loop_needs_control_blocks() {
    let world = World::new();
    let start = NmreqSyncKloopStart::default();
    let mut client = world.open();
    assert_eq!(client.ask("", NETMAP_REQ_SYNC_KLOOP_START, &start), Err(Errno::NXIO));
    let stop = NmreqHeader { nr_body: 0, ..header("", NETMAP_REQ_SYNC_KLOOP_STOP) };
    assert_eq!(client.control(&stop), Err(Errno::NXIO));
    let mut client = world.bound("x{1");
    assert_eq!(client.ask("", NETMAP_REQ_SYNC_KLOOP_START, &start), Err(Errno::INVAL));
    assert_eq!(client.control(&stop), Ok(0));
    let enable = NmreqHeader { nr_body: 0, ..header("", NETMAP_REQ_CSB_ENABLE) };
    assert_eq!(client.control(&enable), Err(Errno::INVAL));
}

#[test]
fn a_port_without_a_virtio_header_has_one_of_zero_bytes_and_keeps_it() {
    let world = World::new();
    let mut client = world.open();
    let _pipe = world.bound("x{1");
    let body = NmreqPortHdr { nr_hdr_len: 12, pad1: 0 };
    let got = client.ask("x{1", NETMAP_REQ_PORT_HDR_GET, &body).unwrap();
    assert_eq!(got.nr_hdr_len, 0);
    assert_eq!(client.ask("x{1", NETMAP_REQ_PORT_HDR_SET, &body), Err(Errno::INVAL));
    assert_eq!(client.ask("nowhere", NETMAP_REQ_PORT_HDR_GET, &body), Err(Errno::NXIO));
}

#[test]
fn a_header_length_is_neither_set_nor_told_where_there_is_no_port() {
    let world = World::new();
    let mut client = world.open();
    let body = NmreqPortHdr { nr_hdr_len: 12, pad1: 0 };
    for name in ["vale0:a", "vale0:", "x{1", "x}1", "nowhere", ""] {
        for kind in [NETMAP_REQ_PORT_HDR_SET, NETMAP_REQ_PORT_HDR_GET] {
            assert_eq!(client.ask(name, kind, &body), Err(Errno::NXIO), "{name} {kind}");
        }
    }
    assert!(world.domain.switches().is_empty());
    let _port = world.bound("vale0:a");
    assert_eq!(client.ask("vale0:a", NETMAP_REQ_PORT_HDR_SET, &body).map(|_| ()), Ok(()));
    let got = client.ask("vale0:a", NETMAP_REQ_PORT_HDR_GET, &NmreqPortHdr::default()).unwrap();
    assert_eq!(got.nr_hdr_len, 12);
}

#[test]
fn an_ioctl_that_is_none_is_not_supported() {
    let world = World::new();
    let mut client = world.open();
    assert_eq!(client.ioctl(0x6993), Err(Errno::OPNOTSUPP));
    assert_eq!(client.ioctl(0x5401), Err(Errno::OPNOTSUPP));
    assert_eq!(client.ioctl(NIOCCONFIG), Err(Errno::INVAL));
}

#[test]
fn figures_of_a_port_are_had_without_binding_it() {
    let world = World::new();
    let mut client = world.open();
    let wish = NmreqPortInfoGet { nr_tx_slots: 256, ..NmreqPortInfoGet::default() };
    let got = client.ask("x{1", NETMAP_REQ_PORT_INFO_GET, &wish).unwrap();
    assert_eq!((got.nr_tx_slots, got.nr_rx_slots), (256, 1024));
    assert_eq!((got.nr_tx_rings, got.nr_rx_rings), (1, 1));
    assert_eq!((got.nr_host_tx_rings, got.nr_host_rx_rings, got.nr_mem_id), (1, 1, 1));
    let got = world.bound("x{1");
    assert_eq!(got.open.bound.get().unwrap().port.shape().slots, [1024, 1024], "it had gone again");
}

#[test]
fn figures_without_a_name_are_those_of_a_memory() {
    let world = World::new();
    let mut client = world.open();
    let got = client.ask("", NETMAP_REQ_PORT_INFO_GET, &NmreqPortInfoGet::default()).unwrap();
    assert_eq!(got.nr_mem_id, 1);
    assert!(got.nr_memsize > 163_840 * BUF);
    let wrong = NmreqPortInfoGet { nr_mem_id: 9, ..NmreqPortInfoGet::default() };
    assert_eq!(client.ask("", NETMAP_REQ_PORT_INFO_GET, &wrong), Err(Errno::INVAL));
    assert_eq!(
        client.ask("nowhere", NETMAP_REQ_PORT_INFO_GET, &NmreqPortInfoGet::default()),
        Err(Errno::NXIO)
    );
}

#[test]
fn pools_are_told_of_a_port_and_not_of_nothing() {
    let world = World::new();
    let mut client = world.open();
    let got = client.ask("x{1", NETMAP_REQ_POOLS_INFO_GET, &NmreqPoolsInfo::default()).unwrap();
    assert_eq!((got.nr_buf_pool_objtotal, got.nr_buf_pool_objsize), (163_840, BUF_SIZE));
    assert!(got.nr_buf_pool_offset > got.nr_ring_pool_offset);
    assert_eq!(
        client.ask("", NETMAP_REQ_POOLS_INFO_GET, &NmreqPoolsInfo::default()),
        Err(Errno::NXIO)
    );
}
