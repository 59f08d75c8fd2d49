//! Tests of requests about switches: lists, persistent ports, what cannot be attached.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

pub(super) fn list(
    client: &mut Client<'_>,
    name: &str,
    position: (u16, u32),
) -> Result<(String, u16, u32), Errno> {
    let body =
        NmreqValeList { nr_bridge_idx: position.0, nr_port_idx: position.1, ..Default::default() };
    client.memory.put(BODY, &body);
    let mut arg = crate::memory::caller::bytes_of(&header(name, NETMAP_REQ_VALE_LIST));
    client.world.netmap.ioctl(&client.open, NIOCCTRL, &mut arg, &mut client.memory)?;
    let got: NmreqValeList = client.memory.get(BODY);
    let answer = NmreqHeader::read_from(&arg).unwrap();
    let len = answer.nr_name.iter().position(|&byte| byte == 0).unwrap();
    let name = String::from_utf8(answer.nr_name[..len].to_vec()).unwrap();
    Ok((name, got.nr_bridge_idx, got.nr_port_idx))
}

pub(super) fn new_port(client: &mut Client<'_>, name: &str) -> Result<(), Errno> {
    client.ask(name, NETMAP_REQ_VALE_NEWIF, &NmreqValeNewif::default()).map(|_| ())
}

pub(super) fn remove(client: &mut Client<'_>, name: &str) -> Result<(), Errno> {
    let header = NmreqHeader { nr_body: 0, ..header(name, NETMAP_REQ_VALE_DELIF) };
    client.control(&header).map(|_| ())
}

pub(super) fn attach(client: &mut Client<'_>, name: &str) -> Result<u32, Errno> {
    let body = NmreqValeAttach { reg: all(), ..NmreqValeAttach::default() };
    client.ask(name, NETMAP_REQ_VALE_ATTACH, &body).map(|got| got.port_index)
}

pub(super) fn detach(client: &mut Client<'_>, name: &str) -> Result<u32, Errno> {
    client.ask(name, NETMAP_REQ_VALE_DETACH, &NmreqValeDetach::default()).map(|got| got.port_index)
}

#[test]
fn the_list_goes_through_switches_and_their_ports_and_ends() {
    let world = World::new();
    let _ports = ["vale0:a", "vale7:b", "vale0:c"].map(|name| world.bound(name));
    let mut client = world.open();
    let (mut position, mut seen) = ((0, 0), Vec::new());
    while let Ok((name, switch, port)) = list(&mut client, "", position) {
        seen.push((name, switch, port));
        position = (switch, port + 1);
    }
    let expected = [("vale0:a", 0, 0), ("vale0:c", 0, 1), ("vale7:b", 1, 0)];
    assert_eq!(seen, expected.map(|(name, switch, port)| (name.to_owned(), switch, port)));
    assert_eq!(list(&mut client, "", position), Err(Errno::NOENT));
    assert_eq!(list(&mut client, "", (u16::MAX, u32::MAX)), Err(Errno::NOENT));
}

#[test]
fn the_list_says_where_a_name_stands() {
    let world = World::new();
    let _ports = ["vale0:a", "vale7:b"].map(|name| world.bound(name));
    let mut client = world.open();
    assert_eq!(list(&mut client, "vale7:b", (0, 0)), Ok(("vale7:b".into(), 1, 0)));
    assert_eq!(list(&mut client, "vale7:x", (0, 0)), Ok(("vale7:x".into(), 1, 255)));
    assert_eq!(list(&mut client, "vale9:x", (0, 0)), Err(Errno::NOENT));
    assert_eq!(list(&mut client, "eth0", (0, 0)), Err(Errno::INVAL));
}

#[test]
fn two_first_binds_of_a_port_at_the_same_time_both_succeed() {
    const ROUNDS: u32 = 500;
    let world = World::new();
    let opener = Opener { netns: 1, netns_fd: None, gids: Vec::new() };
    let (domain, name, register) = (&world.domain, "vale0:a", &all());
    let wanted = AdapterRequest { domain, opener: &opener, name, register, memory: None };
    let switch = lock(&domain.names).switches.get_or_create(1, "vale0");
    let port = wanted.vale_port(name, Some(switch)).unwrap();
    let [begun, done] = [(); 2].map(|()| AtomicU32::new(0));
    let wait_for = |word: &AtomicU32, round| {
        while word.load(Ordering::Acquire) < round {
            std::thread::yield_now();
        }
    };
    let refused = AtomicU32::new(0);
    let activate = || u32::from(port.activate(0).is_err());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                wait_for(&begun, round);
                refused.fetch_add(activate(), Ordering::Relaxed);
                done.store(round, Ordering::Release);
            }
        });
        for round in 1..=ROUNDS {
            begun.store(round, Ordering::Release);
            refused.fetch_add(activate(), Ordering::Relaxed);
            wait_for(&done, round);
            port.detach();
        }
    });
    assert_eq!(refused.into_inner(), 0);
}

#[test]
fn an_old_list_writes_the_name_back() {
    let world = World::new();
    let _port = world.bound("vale3:port");
    let mut client = world.open();
    let old = Nmreq { nr_version: 14, nr_cmd: NETMAP_BDG_LIST, ..Nmreq::default() };
    let mut arg = crate::memory::caller::bytes_of(&old);
    client.world.netmap.ioctl(&client.open, NIOCGINFO, &mut arg, &mut client.memory).unwrap();
    assert_eq!(&Nmreq::read_from(&arg).unwrap().nr_name[..11], b"vale3:port\0");
}

#[test]
fn names_that_no_switch_port_can_have_are_refused() {
    let world = World::new();
    for name in ["vale", "vale0", "vale0:", "va-le0:a", "vale-:a", "vale0:0123456789abcdef"] {
        let expected = if name.starts_with("vale") { Errno::INVAL } else { Errno::NXIO };
        assert_eq!(world.open().register(name, &all()), Err(expected), "{name}");
    }
    assert!(world.domain.switches().is_empty());
}

#[test]
fn a_port_of_a_switch_has_no_host_rings() {
    let world = World::new();
    for nr_mode in [NR_REG_SW, NR_REG_NIC_SW, NR_REG_ONE_SW] {
        let wish = NmreqRegister { nr_mode, ..all() };
        assert_eq!(world.open().register("vale0:a", &wish), Err(Errno::INVAL));
    }
    assert!(world.domain.switches().is_empty(), "a bind that failed leaves nothing");
}

#[test]
fn a_persistent_port_stays_is_attached_and_detached_and_removed() {
    let world = World::new();
    let mut client = world.open();
    assert_eq!(new_port(&mut client, "v0"), Ok(()));
    assert_eq!(new_port(&mut client, "v0"), Err(Errno::EXIST));
    assert!(world.domain.is_lasting());
    drop(client);
    let mut client = world.open();
    assert_eq!(attach(&mut client, "vale5:v0"), Ok(0));
    assert_eq!(attach(&mut client, "vale5:v0"), Err(Errno::BUSY));
    assert_eq!(list(&mut client, "", (0, 0)), Ok(("vale5:v0".into(), 0, 0)));
    assert_eq!(remove(&mut client, "v0"), Err(Errno::BUSY));
    assert_eq!(detach(&mut client, "vale6:v0"), Err(Errno::NXIO));
    assert_eq!(detach(&mut client, "vale5:v0"), Ok(0));
    assert_eq!(detach(&mut client, "vale5:v0"), Err(Errno::NXIO));
    let bound = world.bound("v0");
    assert_eq!(remove(&mut client, "v0"), Err(Errno::BUSY));
    drop(bound);
    assert_eq!(remove(&mut client, "v0"), Ok(()));
    assert_eq!(remove(&mut client, "v0"), Err(Errno::NXIO));
    assert!(!world.domain.is_lasting());
}

#[test]
fn a_persistent_port_is_one_port_by_either_name() {
    let world = World::new();
    let mut client = world.open();
    new_port(&mut client, "v0").unwrap();
    attach(&mut client, "vale0:v0").unwrap();
    let mut inner = world.open();
    let outer = client.register("v0", &all()).unwrap();
    assert_eq!(inner.register("vale0:v0", &all()).unwrap().nr_mem_id, outer.nr_mem_id);
    let other = world.bound("vale0:a");
    assert_eq!(world.domain.switches()[0].ports.len(), 2);
    drop(other);
}

#[test]
fn a_name_in_a_switch_is_free_again_when_what_had_it_was_unplugged() {
    let world = World::new();
    let mut client = world.open();
    new_port(&mut client, "v0").unwrap();
    attach(&mut client, "vale0:v0").unwrap();
    // This request must not record the name in the table of ports, because the port may leave the
    // switch.
    client.ask("vale0:v0", NETMAP_REQ_PORT_INFO_GET, &NmreqPortInfoGet::default()).unwrap();
    let inner = world.bound("vale0:v0");
    assert_eq!(detach(&mut client, "vale0:v0"), Ok(0));
    let mem_id = |client: &Client<'_>| client.open.bound.get().unwrap().port.memory().id();
    let other = world.bound("vale0:v0");
    assert_ne!(mem_id(&other), mem_id(&inner));
    assert_eq!(attach(&mut client, "vale0:v0"), Err(Errno::BUSY));
}

#[test]
fn persistent_ports_have_names_of_their_own() {
    let world = World::new();
    let mut client = world.open();
    let long = ["0123456789abcdef", &"x".repeat(63)];
    let strange = ["vale0:x", "", "x{1", "a/b", ".", "..", "x%d", "a b", "a\tb", "a:b"];
    for name in strange.into_iter().chain(long) {
        assert_eq!(new_port(&mut client, name), Err(Errno::INVAL), "{name}");
    }
    assert!(!world.domain.is_lasting());
    assert_eq!(["a.b", "eth-0"].map(|name| new_port(&mut client, name)), [Ok(()); 2]);
    let _pipe = world.bound("x{1");
    assert_eq!(new_port(&mut client, "x"), Err(Errno::EXIST));
}

#[test]
fn a_persistent_port_takes_no_descriptor_and_nobody_makes_them_without_end() {
    let world = World::new();
    let mut client = world.open();
    let open_files = || std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
    let in_domain = || {
        let memfd = |file: &std::fs::DirEntry| {
            let link = std::fs::read_link(file.path());
            link.is_ok_and(|link| link.to_string_lossy().contains("slipring-domain"))
        };
        open_files().filter(memfd).count()
    };
    // Other tests in this process open files at the same time, so the count is not exact.
    let before = in_domain();
    let tiny = NmreqValeNewif { nr_tx_slots: 2, nr_rx_slots: 2, ..NmreqValeNewif::default() };
    for i in 0..1024 {
        let made = client.ask(&format!("v{i}"), NETMAP_REQ_VALE_NEWIF, &tiny);
        assert_eq!(made.map(|_| ()), Ok(()), "{i}");
    }
    assert!(in_domain() < before + 500);
    assert_eq!(new_port(&mut client, "more"), Err(Errno::NOMEM));
    assert_eq!(remove(&mut client, "v7"), Ok(()));
    assert_eq!(new_port(&mut client, "more"), Ok(()));
}

/// An access rule that denies one kind of port.
#[derive(Debug)]
struct DenyPortKind(PortKind);

impl Provider for DenyPortKind {
    fn find(&self, _: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno> {
        Err(Errno::NXIO)
    }

    fn admit(&self, _: &AdapterRequest<'_>, kind: PortKind) -> Result<(), Errno> {
        if kind == self.0 { Err(Errno::PERM) } else { Ok(()) }
    }
}

#[test]
fn who_may_have_no_ports_of_switches_makes_and_binds_no_persistent_ones() {
    let mut world = World::new();
    assert_eq!(new_port(&mut world.open(), "old"), Ok(()));
    world.netmap = Netmap::new(Box::new(DenyPortKind(PortKind::Switch)));
    let mut client = world.open();
    assert_eq!(new_port(&mut client, "v0"), Err(Errno::PERM));
    assert_eq!(attach(&mut client, "vale0:old"), Err(Errno::PERM));
    assert_eq!(client.register("old", &all()), Err(Errno::PERM));
    assert_eq!(client.register("nowhere", &all()), Err(Errno::NXIO));
    world.netmap = Netmap::new(Box::new(DenyPortKind(PortKind::Interface)));
    let mut client = world.open();
    assert_eq!(attach(&mut client, "vale0:old"), Ok(0));
    assert!(client.register("old", &all()).is_ok());
}

#[test]
fn what_is_no_interface_cannot_be_attached_nor_detached() {
    let world = World::new();
    let _a = world.bound("vale0:a");
    let mut client = world.open();
    assert_eq!(attach(&mut client, "vale0:a"), Err(Errno::BUSY));
    assert_eq!(attach(&mut client, "vale0:nowhere"), Err(Errno::INVAL));
    assert_eq!(attach(&mut client, "eth0"), Err(Errno::INVAL));
    assert_eq!(detach(&mut client, "vale0:a"), Err(Errno::INVAL));
    assert_eq!(detach(&mut client, "vale0:nowhere"), Err(Errno::NXIO));
    assert_eq!(detach(&mut client, "eth0"), Err(Errno::INVAL));
}

#[test]
fn only_interfaces_are_polled() {
    let world = World::new();
    let _a = world.bound("vale0:a");
    let mut client = world.open();
    for kind in [NETMAP_REQ_VALE_POLLING_ENABLE, NETMAP_REQ_VALE_POLLING_DISABLE] {
        let mut ask = |name| client.ask(name, kind, &NmreqValePolling::default()).err();
        assert_eq!(ask("vale0:a"), Some(Errno::OPNOTSUPP));
        assert_eq!(ask("vale0:b"), Some(Errno::NXIO));
        assert_eq!(ask("eth0"), Some(Errno::INVAL));
    }
}
