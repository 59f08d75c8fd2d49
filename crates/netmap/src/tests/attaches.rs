//! Tests of interfaces in switches. A "NIC" here is two or more pipes: frames that the NIC sends
//! arrive at `wire`, those of its second ring at `wire1`; its host stack is `stack`.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::memory::netmap_memory::MemoryNeeds;
use crate::port::pipe::{Pipe, PipePlan};
use crate::port::vale::attach::spawn_limit;
use slipring_abi::name::PipeRole;
use slipring_ring::RingView;

/// A machine with one NIC, for tests.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pipes: Mutex<Vec<Arc<Pipe>>>,
    /// The NIC's rings after the first one.
    more_rings: usize,
    nic_is_gone: Arc<AtomicBool>,
    pub(super) notified: Mutex<Vec<AdapterEvent>>,
}

impl Provider for Arc<Machine> {
    fn find(&self, wanted: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno> {
        let mut pipes = lock(&self.pipes);
        if pipes.is_empty() {
            let register = all();
            let memory = wanted.domain.private_memory(MemoryNeeds::rings(12, 1024, true))?;
            for i in 0..2 + self.more_rings {
                let ends = [format!("near{i}"), format!("far{i}")];
                let shape = AdapterShape { rings: [1; 2], host_rings: [0; 2], slots: [1024; 2] };
                let parent = crate::port::detached::DetachedAdapter::new(
                    ends[0].clone(),
                    shape,
                    memory.clone(),
                );
                let plan = PipePlan::of(&register, PipeRole::Master, &wanted.domain.params());
                pipes.push(Pipe::new(ends, plan, wanted.domain.ledger.words_region(), parent)?);
            }
        }
        let far = |i: usize| pipes[i].end(PipeRole::Slave);
        Ok(match wanted.name {
            "nic0" => {
                let ends = pipes.iter().map(|pipe| pipe.end(PipeRole::Master)).collect();
                Arc::new(Nic::new(ends, self.nic_is_gone.clone()))
            }
            "wire" => far(0),
            "wire1" if self.more_rings > 0 => far(1),
            "stack" => far(pipes.len() - 1),
            _ => return Err(Errno::NXIO),
        })
    }

    fn notify(&self, news: &AdapterEvent) {
        lock(&self.notified).push(news.clone());
    }
}

/// The simulated interface: the last ring is the host's, all others are the NIC's.
#[derive(Debug)]
struct Nic {
    ends: Vec<Arc<dyn Adapter>>,
    base: AdapterBase,
    gone: Arc<AtomicBool>,
}

impl Nic {
    fn new(ends: Vec<Arc<dyn Adapter>>, gone: Arc<AtomicBool>) -> Self {
        let shape = Self::shape_of(&ends);
        let base = AdapterBase::new("nic0".to_owned(), &shape, ends[0].memory().clone());
        Self { ends, base, gone }
    }

    fn shape_of(ends: &[Arc<dyn Adapter>]) -> AdapterShape {
        let rings = ends.len() as u16 - 1;
        AdapterShape { rings: [rings; 2], host_rings: [1; 2], slots: [1024; 2] }
    }
}

impl Adapter for Nic {
    fn base(&self) -> &AdapterBase {
        &self.base
    }

    fn shape(&self) -> AdapterShape {
        Self::shape_of(&self.ends)
    }

    fn ring(&self, dir: TxRx, i: usize) -> Option<&RingView> {
        self.ends.get(i)?.ring(dir, 0)
    }

    fn sync(&self, dir: TxRx, i: usize) -> SyncStatus {
        if self.has_vanished() { SyncStatus::Gone } else { self.ends[i].sync(dir, 0) }
    }

    fn has_vanished(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    fn listeners(&self, dir: TxRx, i: usize) -> Option<&Listeners> {
        self.ends.get(i)?.listeners(dir, 0)
    }
}

pub(super) fn machine() -> World {
    with(&Arc::default())
}

/// A machine whose NIC has two rings in each direction.
pub(super) fn machine_with_two_rings() -> World {
    with(&Arc::new(Machine { more_rings: 1, ..Machine::default() }))
}

fn with(machine: &Arc<Machine>) -> World {
    let netmap = Netmap::new(Box::new(machine.clone()));
    World { netmap, ..World::new() }
}

pub(super) fn attach(world: &World, nr_mode: u32) -> Result<u32, Errno> {
    let reg = NmreqRegister { nr_mode, ..NmreqRegister::default() };
    let body = NmreqValeAttach { reg, ..NmreqValeAttach::default() };
    world.open().ask("vale0:nic0", NETMAP_REQ_VALE_ATTACH, &body).map(|got| got.port_index)
}

fn detach(world: &World) -> Result<u32, Errno> {
    let body = NmreqValeDetach::default();
    world.open().ask("vale0:nic0", NETMAP_REQ_VALE_DETACH, &body).map(|got| got.port_index)
}

fn polling(world: &World, kind: u16, body: &NmreqValePolling) -> Result<(), Errno> {
    world.open().ask("vale0:nic0", kind, body).map(|_| ())
}

/// A program that has bound a port, with the offsets of its tx and its rx ring.
struct Station<'w>(Client<'w>, u64, u64);

impl<'w> Station<'w> {
    fn new(world: &'w World, name: &str) -> Self {
        let mut client = world.open();
        let got = client.register(name, &all()).unwrap();
        let [tx, rx] = [0, 2].map(|i| client.ring_at(&got, i));
        Self(client, tx, rx)
    }

    fn send(&mut self, mark: u8) {
        let Self(client, tx, _) = self;
        let i = client.ring(*tx).head;
        let slot = client.slot(*tx, i);
        let mut bytes = [[255; 6], [2, 0, 0, 0, 0, mark]].concat();
        bytes.extend([8, 0, mark]);
        bytes.resize(60, 0);
        let at = (*tx as i64 + client.ring(*tx).buf_ofs) as u64 + u64::from(slot.buf_idx) * BUF;
        rustix::io::pwrite(client.world.domain.file(), &bytes, at).unwrap();
        client.queue(*tx, i, 60, 0);
        client.ioctl(NIOCTXSYNC).unwrap();
    }

    /// Waits for a frame; returns its mark, the byte after the Ethernet header.
    fn receive(&mut self) -> u8 {
        let Self(client, _, rx) = self;
        let start = std::time::Instant::now();
        while !client.poll(PollEvents::IN).intersects(PollEvents::IN) {
            assert!(start.elapsed() < TIMEOUT, "nothing came");
            std::thread::yield_now();
        }
        let i = client.ring(*rx).head;
        let slot = client.slot(*rx, i);
        let at = (*rx as i64 + client.ring(*rx).buf_ofs) as u64 + u64::from(slot.buf_idx) * BUF;
        let mut mark = [0];
        rustix::io::pread(client.world.domain.file(), &mut mark, at + 14).unwrap();
        client.advance(*rx, (i + 1) % client.ring(*rx).num_slots);
        mark[0]
    }
}

#[test]
fn an_interface_in_a_switch_exchanges_frames_with_its_ports() {
    let world = machine();
    let mut a = Station::new(&world, "vale0:a");
    assert_eq!(attach(&world, NR_REG_ALL_NIC), Ok(1));
    let mut wire = Station::new(&world, "wire");
    for mark in 1..50 {
        a.send(mark);
        assert_eq!(wire.receive(), mark);
        wire.send(100 + mark);
        assert_eq!(a.receive(), 100 + mark);
    }
    assert_eq!(detach(&world), Ok(1));
    assert_eq!(detach(&world), Err(Errno::NXIO));
    a.send(99);
    assert_eq!(world.domain.switches()[0].ports.len(), 1);
}

#[test]
fn an_interface_in_a_switch_is_nobody_elses() {
    let world = machine();
    let bound = world.bound("nic0");
    assert_eq!(attach(&world, NR_REG_ALL_NIC), Err(Errno::BUSY));
    assert!(world.domain.switches().is_empty(), "nothing is left of it");
    drop(bound);
    assert_eq!(attach(&world, NR_REG_ALL_NIC), Ok(0));
    assert_eq!(attach(&world, NR_REG_ALL_NIC), Err(Errno::BUSY));
    assert_eq!(world.open().register("nic0", &all()), Err(Errno::BUSY));
    assert_eq!(world.open().register("vale0:nic0", &all()), Err(Errno::BUSY));
    assert!(world.domain.is_lasting());
    detach(&world).unwrap();
    assert!(!world.domain.is_lasting());
    world.bound("nic0");
}

#[test]
fn the_host_stack_of_an_interface_is_a_port_of_its_own() {
    let world = machine();
    assert_eq!(attach(&world, NR_REG_SW), Err(Errno::INVAL));
    assert_eq!(attach(&world, NR_REG_NIC_SW), Ok(0));
    let names: Vec<String> =
        world.domain.switches()[0].ports.iter().map(|port| port.name.clone()).collect();
    assert_eq!(names, ["vale0:nic0", "vale0:nic0^"]);
    let [mut wire, mut stack] = ["wire", "stack"].map(|name| Station::new(&world, name));
    wire.send(7);
    assert_eq!(stack.receive(), 7);
    stack.send(8);
    assert_eq!(wire.receive(), 8);
    detach(&world).unwrap();
    assert!(world.domain.switches().is_empty());
}

#[test]
fn an_interface_is_polled_on_request_and_not_detached_meanwhile() {
    let (on, off) = (NETMAP_REQ_VALE_POLLING_ENABLE, NETMAP_REQ_VALE_POLLING_DISABLE);
    let world = machine();
    let mut a = Station::new(&world, "vale0:a");
    let one = NmreqValePolling {
        nr_mode: NETMAP_POLLING_MODE_SINGLE_CPU,
        nr_num_polling_cpus: 1,
        ..NmreqValePolling::default()
    };
    assert_eq!(polling(&world, on, &one), Err(Errno::NXIO));
    attach(&world, NR_REG_ALL_NIC).unwrap();
    assert_eq!(polling(&world, off, &one), Err(Errno::FAULT));
    let wrong = [
        NmreqValePolling { nr_num_polling_cpus: 0, ..one },
        NmreqValePolling { nr_num_polling_cpus: u32::MAX, ..one },
        NmreqValePolling { nr_first_cpu_id: u32::MAX, ..one },
        NmreqValePolling { nr_mode: 3, ..one },
    ];
    for body in wrong {
        assert_eq!(polling(&world, on, &body), Err(Errno::INVAL), "{body:?}");
    }
    assert_eq!(polling(&world, on, &one), Ok(()));
    assert_eq!(polling(&world, on, &one), Err(Errno::FAULT));
    assert_eq!(detach(&world), Err(Errno::BUSY));
    let mut wire = Station::new(&world, "wire");
    wire.send(7);
    assert_eq!(a.receive(), 7);
    assert_eq!(polling(&world, off, &one), Ok(()));
    wire.send(8);
    assert_eq!(a.receive(), 8);
    assert_eq!(detach(&world), Ok(1));
}

#[test]
fn an_interface_is_switched_as_before_if_the_threads_that_replace_its_worker_cannot_start() {
    let (on, off) = (NETMAP_REQ_VALE_POLLING_ENABLE, NETMAP_REQ_VALE_POLLING_DISABLE);
    let one = NmreqValePolling {
        nr_mode: NETMAP_POLLING_MODE_SINGLE_CPU,
        nr_num_polling_cpus: 1,
        ..NmreqValePolling::default()
    };
    let world = machine();
    let mut a = Station::new(&world, "vale0:a");
    attach(&world, NR_REG_NIC_SW).unwrap();
    let mut wire = Station::new(&world, "wire");
    let mut refused = |kind, threads| {
        spawn_limit::set(threads);
        let answer = polling(&world, kind, &one);
        spawn_limit::set(u32::MAX);
        wire.send(7);
        (answer, a.receive())
    };
    // One thread for the ring of the NIC, one for that of the host.
    assert_eq!(refused(on, 0), (Err(Errno::NOMEM), 7));
    assert_eq!(refused(on, 1), (Err(Errno::NOMEM), 7));
    assert_eq!(refused(on, 2), (Ok(()), 7));
    assert_eq!(refused(off, 0), (Err(Errno::NOMEM), 7));
    assert_eq!(polling(&world, on, &one), Err(Errno::FAULT));
}

/// Removes the interface and wakes its listeners.
pub(super) fn unplug(machine: &Machine) {
    machine.nic_is_gone.store(true, Ordering::SeqCst);
    for pipe in lock(&machine.pipes).iter() {
        pipe.end(PipeRole::Master).listeners(TxRx::Rx, 0).unwrap().wake();
    }
}

pub(super) fn eventually(so: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !so() {
        assert!(start.elapsed() < TIMEOUT, "it never was so");
        std::thread::yield_now();
    }
}

#[test]
fn an_interface_that_is_no_more_leaves_its_switch_which_is_told() {
    let single = NmreqValePolling {
        nr_mode: NETMAP_POLLING_MODE_SINGLE_CPU,
        nr_num_polling_cpus: 1,
        ..NmreqValePolling::default()
    };
    for polls in [false, true] {
        let machine = Arc::<Machine>::default();
        let world = with(&machine);
        let _a = Station::new(&world, "vale0:a");
        assert_eq!(attach(&world, NR_REG_NIC_SW), Ok(1));
        if polls {
            assert_eq!(polling(&world, NETMAP_REQ_VALE_POLLING_ENABLE, &single), Ok(()));
        }
        unplug(&machine);
        eventually(|| !world.domain.is_lasting());
        eventually(|| world.domain.switches()[0].ports.len() == 1);
        assert_eq!(detach(&world), Err(Errno::NXIO));
        let gone = AdapterEvent::InterfaceGone { uid: 0, port: "vale0:nic0".to_owned() };
        eventually(|| *lock(&machine.notified) == [gone.clone()]);
        machine.nic_is_gone.store(false, Ordering::SeqCst);
        eventually(|| attach(&world, NR_REG_ALL_NIC).is_ok());
    }
}
