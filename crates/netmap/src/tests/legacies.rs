//! Tests of the requests of older netmap versions, which `NIOCCTRL` has replaced.

use super::*;

fn old(name: &str) -> Nmreq {
    let mut nr_name = [0; IFNAMSIZ];
    nr_name[..name.len()].copy_from_slice(name.as_bytes());
    Nmreq { nr_name, nr_version: 14, ..Nmreq::default() }
}

fn call(client: &mut Client<'_>, cmd: u32, request: &Nmreq) -> Result<Nmreq, Errno> {
    let mut arg = crate::memory::caller::bytes_of(request);
    client.world.netmap.ioctl(&client.open, cmd, &mut arg, &mut client.memory)?;
    Ok(Nmreq::read_from(&arg).unwrap())
}

#[test]
fn versions_before_fourteen_are_refused_and_all_later_ones_pass() {
    let world = World::new();
    for (nr_version, right) in [(11, false), (13, false), (14, true), (16, true), (999, true)] {
        let request = Nmreq { nr_version, ..old("x{1") };
        assert_eq!(call(&mut world.open(), NIOCREGIF, &request).is_ok(), right, "{nr_version}");
    }
}

#[test]
fn a_bind_answers_where_old_programs_look() {
    let world = World::new();
    let mut client = world.open();
    let request = Nmreq { nr_arg3: 10, nr_tx_slots: 128, ..old("x{1") };
    let got = call(&mut client, NIOCREGIF, &request).unwrap();
    assert_eq!((got.nr_tx_slots, got.nr_rx_slots), (128, 1024));
    assert_eq!((got.nr_tx_rings, got.nr_rx_rings, got.nr_arg2, got.nr_arg3), (1, 1, 1, 10));
    assert!(got.nr_offset > 0 && got.nr_offset < got.nr_memsize);
    let interface: NetmapIf = client.peek(got.nr_offset.into());
    assert_eq!(interface.ni_version, 14);
    assert_eq!(call(&mut client, NIOCREGIF, &request), Err(Errno::BUSY));
}

#[test]
fn pipes_can_be_asked_for_by_mode_and_number() {
    let world = World::new();
    let pipe = |mode| Nmreq { nr_flags: mode, nr_ringid: 7, ..old("x") };
    let (mut master, mut slave) = (world.open(), world.open());
    call(&mut master, NIOCREGIF, &pipe(NR_REG_PIPE_MASTER)).unwrap();
    call(&mut slave, NIOCREGIF, &pipe(NR_REG_PIPE_SLAVE)).unwrap();
    let name = |client: &Client<'_>| client.open.bound.get().unwrap().port.name().to_owned();
    assert_eq!([name(&master), name(&slave)], ["x{7", "x}7"]);
}

#[test]
fn bits_of_the_ring_number_are_modes_and_flags() {
    let world = World::new();
    let bits = |nr_ringid| Nmreq { nr_ringid, ..old("x{1") };
    let refused = call(&mut world.open(), NIOCREGIF, &bits(NETMAP_SW_RING));
    assert_eq!(refused, Err(Errno::INVAL), "a pipe has no host rings");
    let refused = call(&mut world.open(), NIOCREGIF, &bits(NETMAP_HW_RING | 5));
    assert_eq!(refused, Err(Errno::INVAL), "it has no ring 5");
    let mut client = world.open();
    call(&mut client, NIOCREGIF, &bits(NETMAP_NO_TX_POLL | NETMAP_DO_RX_POLL)).unwrap();
    assert_eq!(client.open.bound.get().unwrap().flags, NR_NO_TX_POLL | NR_DO_RX_POLL);
}

#[test]
fn the_probe_with_an_empty_name_succeeds() {
    let world = World::new();
    let got = call(&mut world.open(), NIOCGINFO, &old("")).unwrap();
    assert_eq!(got.nr_arg2, 1);
    assert!(got.nr_memsize > 0);
}

#[test]
fn figures_and_the_list_of_switches_are_had_by_ginfo() {
    let world = World::new();
    let got = call(&mut world.open(), NIOCGINFO, &old("x{1")).unwrap();
    assert_eq!((got.nr_tx_rings, got.nr_tx_slots), (1, 1024));
    assert_eq!(call(&mut world.open(), NIOCGINFO, &old("nowhere")), Err(Errno::NXIO));
    let list = Nmreq { nr_cmd: NETMAP_BDG_LIST, ..old("") };
    assert_eq!(call(&mut world.open(), NIOCGINFO, &list), Err(Errno::NOENT));
}

#[test]
fn a_command_is_legal_on_a_bound_file() {
    let world = World::new();
    let mut client = world.bound("x{1");
    let get = Nmreq { nr_cmd: NETMAP_VNET_HDR_GET, nr_arg1: 12, ..old("x{1") };
    assert_eq!(call(&mut client, NIOCREGIF, &get).unwrap().nr_arg1, 0);
    let set = Nmreq { nr_cmd: NETMAP_BDG_VNET_HDR, ..get };
    assert_eq!(call(&mut client, NIOCREGIF, &set), Err(Errno::INVAL));
}

#[test]
fn dead_commands_and_those_of_switches_that_name_none_are_refused() {
    let world = World::new();
    for (nr_cmd, error) in [
        (NETMAP_PT_HOST_CREATE, Errno::INVAL),
        (NETMAP_PT_HOST_DELETE, Errno::INVAL),
        (99, Errno::INVAL),
        (NETMAP_BDG_REGOPS, Errno::INVAL),
        (NETMAP_BDG_ATTACH, Errno::INVAL),
        (NETMAP_BDG_POLLING_ON, Errno::INVAL),
        (NETMAP_BDG_DETACH, Errno::INVAL),
        (NETMAP_BDG_DELIF, Errno::NXIO),
    ] {
        let request = Nmreq { nr_cmd, ..old("v0") };
        assert_eq!(call(&mut world.open(), NIOCREGIF, &request), Err(error), "{nr_cmd}");
    }
}

#[test]
fn a_port_beyond_what_old_requests_can_say_has_no_memory_for_them() {
    let world = World::new();
    let room = MemoryNeeds { ring_bytes: 1 << 20, bufs: 1 << 21 };
    let low = world.domain.private_memory(room).unwrap();
    let mut new = world.open();
    let got = new.register("x{1", &all()).unwrap();
    assert!(got.nr_memsize > u64::from(u32::MAX));
    let refused = call(&mut world.open(), NIOCREGIF, &old("x}1"));
    assert_eq!(refused, Err(Errno::NOMEM));
    drop(low);
}
