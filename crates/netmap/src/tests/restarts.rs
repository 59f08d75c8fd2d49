//! Tests of daemons that are killed, and of their successors.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// A store of descriptors that keeps them in a map.
#[derive(Debug, Default)]
pub(super) struct MemoryFdStore(Mutex<HashMap<String, OwnedFd>>);

impl FdStore for MemoryFdStore {
    fn store(&self, name: &str, fd: BorrowedFd<'_>) {
        lock(&self.0).insert(name.to_owned(), fd.try_clone_to_owned().unwrap());
    }

    fn remove(&self, name: &str) {
        lock(&self.0).remove(name);
    }
}

impl MemoryFdStore {
    pub(super) fn copy(&self, name: &str) -> OwnedFd {
        lock(&self.0)[name].try_clone().unwrap()
    }

    fn left(&self) -> RecoveredDomain {
        RecoveredDomain { uid: 0, memory: self.copy("memory-0"), ledger: self.copy("ledger-0") }
    }
}

/// A program whose calls have numbers, so that they can be repeated after a restart.
struct Caller {
    open: OpenHandle,
    memory: ProgramMemory,
    call: u64,
}

struct Numbered<'c>(&'c mut ProgramMemory, u64);

impl CallerMemory for Numbered<'_> {
    fn read(&mut self, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        self.0.read(addr, out)
    }

    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.0.write(addr, bytes)
    }

    fn call(&self) -> Option<u64> {
        Some(self.1)
    }
}

/// A daemon and the programs that it serves.
pub(super) struct Daemon {
    pub(super) world: World,
    pub(super) shelf: Arc<MemoryFdStore>,
    callers: Vec<Caller>,
}

fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Daemon {
    fn new() -> Self {
        Self::with(Box::new(Nothing))
    }

    pub(super) fn with(provider: Box<dyn Provider>) -> Self {
        let shelf = Arc::<MemoryFdStore>::default();
        let parameters = Parameters::new(&MemoryParams::default());
        let domain = Domain::sharing(0, &parameters, Some(shelf.clone())).unwrap();
        let world = World { netmap: Netmap::new(provider), domain, notified: Arc::default() };
        Self { world, shelf, callers: Vec::new() }
    }

    fn open(&mut self) -> usize {
        let opener = Opener { netns: 1, netns_fd: None, gids: vec![7] };
        let ticket = OpenId { handle: number(), call: number() };
        let (domain, notified) = (self.world.domain.clone(), self.world.notified.clone());
        let open = self.world.netmap.open_persistent(domain, opener, notified, ticket).unwrap();
        self.callers.push(Caller { open, memory: ProgramMemory::new(), call: 0 });
        self.callers.len() - 1
    }

    fn bind(&mut self, i: usize, name: &str, wish: &NmreqRegister) -> Result<NmreqRegister, Errno> {
        self.callers[i].call = number();
        self.bind_again(i, name, wish)
    }

    /// Makes the same bind call once more, with the same call number.
    fn bind_again(
        &mut self,
        i: usize,
        name: &str,
        wish: &NmreqRegister,
    ) -> Result<NmreqRegister, Errno> {
        let Caller { open, memory, call } = &mut self.callers[i];
        memory.put(BODY, wish);
        let mut arg = crate::memory::caller::bytes_of(&header(name, NETMAP_REQ_REGISTER));
        let mut numbered = Numbered(memory, *call);
        self.world.netmap.ioctl(open, NIOCCTRL, &mut arg, &mut numbered)?;
        Ok(memory.get(BODY))
    }

    pub(super) fn bound(&mut self, name: &str, wish: &NmreqRegister) -> (usize, NmreqRegister) {
        let i = self.open();
        let got = self.bind(i, name, wish).unwrap();
        (i, got)
    }

    pub(super) fn sync(&mut self, i: usize, cmd: u32) -> Result<i32, Errno> {
        let Caller { open, memory, .. } = &mut self.callers[i];
        self.world.netmap.ioctl(open, cmd, &mut [], memory)
    }

    fn poll(&self, i: usize, wanted: PollEvents) -> PollEvents {
        self.callers[i].open.poll(wanted, Some(900 + i as u64), Duration::ZERO)
    }

    /// Returns a client that makes no calls: it only reads and writes the memory that all programs
    /// map.
    pub(super) fn eye(&self) -> Client<'_> {
        self.world.open()
    }

    fn free_bufs(&self, id: u16) -> u32 {
        self.world.domain.memory(id).unwrap().region().free_bufs()
    }

    /// Ends the daemon as a kill does, and starts its successor.
    fn killed(self) -> Self {
        self.killed_with(Box::new(Nothing)).unwrap()
    }

    pub(super) fn killed_with(self, provider: Box<dyn Provider>) -> Result<Self, ResumeError> {
        let Self { world, shelf, callers } = self;
        let handles: Vec<_> =
            callers.iter().map(|one| one.open.open_id().unwrap().handle).collect();
        let programs: Vec<_> = callers
            .into_iter()
            .map(|Caller { open, memory, call }| {
                std::mem::forget(open);
                (memory, call)
            })
            .collect();
        std::mem::forget(world);
        let notified = Arc::<RecordedWakes>::default();
        let netmap = Netmap::new(provider);
        let parameters = Parameters::new(&MemoryParams::default());
        let notify: Arc<dyn Notify> = notified.clone();
        let store: Arc<dyn FdStore> = shelf.clone();
        let resumed = netmap.resume(shelf.left(), &parameters, Some(store), &|_| None, &notify)?;
        let mut opens: HashMap<_, _> =
            resumed.opens.into_iter().map(|open| (open.open_id().unwrap().handle, open)).collect();
        let callers = handles.iter().zip(programs).map(|(handle, (memory, call))| Caller {
            open: opens.remove(handle).unwrap(),
            memory,
            call,
        });
        let callers = callers.collect();
        assert!(opens.is_empty(), "{opens:?}");
        let world = World { netmap, domain: resumed.domain, notified };
        Ok(Self { world, shelf, callers })
    }
}

fn eight_slots() -> NmreqRegister {
    NmreqRegister { nr_tx_slots: 8, nr_rx_slots: 8, ..all() }
}

/// Creates a pipe of 8 slots. Returns the callers at its two ends, and the sender's tx ring and the
/// receiver's rx ring.
fn pipe(daemon: &mut Daemon) -> ([usize; 2], [u64; 2]) {
    let (a, got_a) = daemon.bound("x{1", &eight_slots());
    let (b, got_b) = daemon.bound("x}1", &eight_slots());
    let eye = daemon.eye();
    ([a, b], [eye.ring_at(&got_a, 0), eye.ring_at(&got_b, 2)])
}

#[test]
fn frames_in_a_pipe_pass_once_and_in_order_whenever_the_daemon_is_killed() {
    let mut daemon = Daemon::new();
    let ([a, b], [tx, rx]) = pipe(&mut daemon);
    let (mut next, mut wanted) = (1u16, 1u16);
    for round in 0..40u32 {
        // Frames are queued, sent, received and given back. In each round the daemon is killed
        // after one of these four steps, in turn.
        let eye = daemon.eye();
        let ring = eye.ring(tx);
        let room = (ring.tail + 8 - ring.head) % 8;
        for i in 0..room.min(1 + round % 5) {
            eye.queue(tx, (ring.head + i) % 8, next, 0);
            next += 1;
        }
        if round % 4 == 0 {
            daemon = daemon.killed();
        }
        daemon.sync(a, NIOCTXSYNC).unwrap();
        if round % 4 == 1 {
            daemon = daemon.killed();
        }
        daemon.sync(b, NIOCRXSYNC).unwrap();
        if round % 4 == 2 {
            daemon = daemon.killed();
        }
        let eye = daemon.eye();
        let ring = eye.ring(rx);
        let mut head = ring.head;
        while head != ring.tail {
            assert_eq!(eye.slot(rx, head).len, wanted, "round {round}");
            wanted += 1;
            head = (head + 1) % 8;
        }
        eye.advance(rx, head);
        if round % 4 == 3 {
            daemon = daemon.killed();
        }
        daemon.sync(b, NIOCRXSYNC).unwrap();
        daemon.sync(a, NIOCTXSYNC).unwrap();
    }
    assert!(wanted > 60 && wanted == next, "{wanted} {next}");
}

#[test]
fn frames_that_were_sent_and_not_taken_over_wait_for_the_receiver_through_a_restart() {
    let mut daemon = Daemon::new();
    let ([a, b], [tx, rx]) = pipe(&mut daemon);
    (0..7).for_each(|i| daemon.eye().queue(tx, i, 60 + i as u16, 0));
    daemon.sync(a, NIOCTXSYNC).unwrap();
    let mut daemon = daemon.killed();
    assert_eq!(daemon.poll(a, PollEvents::OUT), PollEvents::default(), "it is full");
    assert_eq!(daemon.eye().ring(rx).tail, 0);
    assert_eq!(daemon.poll(b, PollEvents::IN), PollEvents::IN);
    let eye = daemon.eye();
    assert_eq!(
        (0..7).map(|i| eye.slot(rx, i).len).collect::<Vec<_>>(),
        [60, 61, 62, 63, 64, 65, 66]
    );
    eye.advance(rx, 7);
    daemon.sync(b, NIOCRXSYNC).unwrap();
    assert_eq!(daemon.poll(a, PollEvents::OUT), PollEvents::OUT);
}

#[test]
fn who_slept_in_a_poll_is_woken_by_the_next_daemon() {
    let mut daemon = Daemon::new();
    let ([_, b], _) = pipe(&mut daemon);
    assert_eq!(daemon.poll(b, PollEvents::IN), PollEvents::default());
    let daemon = daemon.killed();
    daemon.callers.iter().for_each(|one| one.open.wake_earlier_pollers());
    assert_eq!(*lock(&daemon.world.notified.0), [900 + b as u64]);
}

#[test]
fn buffers_outside_of_rings_stay_their_holders_and_closing_gives_all_back() {
    let mut daemon = Daemon::new();
    let _keeper = daemon.bound("keep{1", &eight_slots());
    let before = daemon.free_bufs(1);
    let wish = NmreqRegister { nr_extra_bufs: 100, ..eight_slots() };
    let (i, got) = daemon.bound("x{1", &wish);
    assert_eq!(got.nr_extra_bufs, 100);
    let taken = daemon.free_bufs(1);
    let mut daemon = daemon.killed().killed();
    assert_eq!(daemon.free_bufs(1), taken);
    let memory = daemon.world.domain.memory(1).unwrap();
    let fresh = memory.region().alloc_bufs(taken).unwrap();
    let head = daemon.eye().peek::<NetmapIf>(got.nr_offset).ni_bufs_head;
    assert!(fresh.iter().all(|buf| buf.0 != head), "the program has it");
    memory.region().release_bufs(fresh);
    drop(memory);
    daemon.callers.remove(i);
    assert_eq!(daemon.free_bufs(1), before);
    let daemon = daemon.killed();
    assert_eq!((daemon.free_bufs(1), daemon.callers.len()), (before, 1));
}

#[test]
fn memory_goes_with_its_last_program_after_a_restart() {
    let mut daemon = Daemon::new();
    pipe(&mut daemon);
    let mut daemon = daemon.killed();
    daemon.callers.clear();
    let memory = daemon.world.domain.memory(1).unwrap();
    assert_eq!(memory.region().free_bufs(), memory.region().num_bufs() - 2);
    drop(memory);
    let mut daemon = daemon.killed();
    let (_, got) = daemon.bound("x{1", &eight_slots());
    assert_eq!(got.nr_mem_id, 1);
}

#[test]
fn a_bind_that_comes_again_is_answered_as_before_and_another_is_refused() {
    let mut daemon = Daemon::new();
    let wish = NmreqRegister { nr_extra_bufs: 3, ..eight_slots() };
    let (i, got) = daemon.bound("x{1", &wish);
    let mut daemon = daemon.killed();
    assert_eq!(daemon.bind_again(i, "x{1", &wish), Ok(got));
    assert_eq!(daemon.bind(i, "x{1", &wish), Err(Errno::BUSY));
}

#[test]
fn names_claims_and_numbers_are_as_before() {
    let mut daemon = Daemon::new();
    let exclusive = NmreqRegister { nr_flags: NR_EXCLUSIVE, ..eight_slots() };
    let (a, _) = daemon.bound("x{1", &exclusive);
    let mut daemon = daemon.killed();
    let late = daemon.open();
    assert_eq!(daemon.bind(late, "x{1", &eight_slots()), Err(Errno::BUSY));
    let got = daemon.bind(late, "x}1", &eight_slots()).unwrap();
    assert_eq!(got.nr_mem_id, 1);
    assert_eq!(daemon.callers[a].open.opener.gids, [7]);
    let _both = daemon.killed();
}

#[test]
fn what_a_pipe_holds_waits_for_an_opener_across_restarts() {
    let mut daemon = Daemon::new();
    let ([a, b], [tx, _]) = pipe(&mut daemon);
    daemon.eye().queue(tx, 0, 77, 0);
    daemon.sync(a, NIOCTXSYNC).unwrap();
    daemon.callers.remove(b);
    let mut daemon = daemon.killed();
    let (b, got) = daemon.bound("x}1", &eight_slots());
    daemon.sync(b, NIOCRXSYNC).unwrap();
    let eye = daemon.eye();
    assert_eq!(eye.slot(eye.ring_at(&got, 2), 0).len, 77);
}

#[test]
fn monitors_go_on_with_the_port_they_listen_to() {
    let mut daemon = Daemon::new();
    let ([a, _], [tx, _]) = pipe(&mut daemon);
    let wish = NmreqRegister { nr_flags: NR_MONITOR_TX, ..all() };
    let (monitor, got) = daemon.bound("x{1", &wish);
    let mut daemon = daemon.killed();
    daemon.eye().queue(tx, 0, 61, 0);
    daemon.sync(a, NIOCTXSYNC).unwrap();
    assert_eq!(daemon.poll(monitor, PollEvents::IN), PollEvents::IN);
    let eye = daemon.eye();
    assert_eq!(eye.slot(eye.ring_at(&got, 2), 0).len, 61);
    daemon.callers.remove(a);
    assert_eq!(daemon.sync(a, NIOCRXSYNC), Ok(0), "the other end is there");
    let mut daemon = daemon.killed();
    assert_eq!(daemon.sync(1, NIOCRXSYNC), Err(Errno::IO), "it ended with its port");
}

#[test]
fn switch_ports_go_on_with_their_numbers_settings_and_frames() {
    let mut daemon = Daemon::new();
    let (a, got_a) = daemon.bound("vale0:a", &eight_slots());
    let (gone, _) = daemon.bound("vale0:gone", &eight_slots());
    let (b, got_b) = daemon.bound("vale0:b", &eight_slots());
    daemon.callers.remove(gone);
    let b = b - 1;
    let (tx, rx) = (daemon.eye().ring_at(&got_a, 0), daemon.eye().ring_at(&got_b, 2));
    let changed = daemon.world.domain.with_switch(1, "vale0", |switch, _, ports| {
        let isolated = switch::SwitchPortConfig {
            is_isolated: true,
            ..switch.port(ports[0].0).unwrap().clone()
        };
        switch.set_ageing(None);
        switch.reconfigure(ports[0].0, isolated).unwrap();
    });
    assert_eq!(changed, Ok(()));
    daemon.eye().queue(tx, 0, 60, 0);
    daemon.sync(a, NIOCTXSYNC).unwrap();
    let before = daemon.world.domain.switches();
    let daemon = daemon.killed();
    let after = daemon.world.domain.switches();
    assert_eq!((before.len(), after.len(), before[0].config.ageing_ns), (1, 1, None));
    assert_eq!(after[0].config.ageing_ns, None);
    let ports = |info: &SwitchInfo| -> Vec<_> {
        info.ports.iter().map(|port| (port.id, port.name.clone(), port.config.clone())).collect()
    };
    assert_eq!(ports(&before[0]), ports(&after[0]));
    // The frames that had arrived are still there, and frames sent now follow them.
    daemon.eye().queue(tx, 1, 61, 0);
    assert_eq!(daemon.poll(a, PollEvents::OUT), PollEvents::OUT);
    assert_eq!(daemon.poll(b, PollEvents::IN), PollEvents::IN);
    let eye = daemon.eye();
    assert_eq!((eye.slot(rx, 0).len, eye.slot(rx, 1).len, eye.ring(rx).tail), (60, 61, 2));
    let lost =
        |info: &SwitchInfo| info.ports[0].counters.dropped(switch::SwitchDropReason::Restart);
    assert_eq!(lost(&daemon.world.domain.switches()[0]), 0);
}

#[test]
fn frames_of_a_switch_that_were_being_sent_are_counted_and_not_sent_twice() {
    let mut daemon = Daemon::new();
    let (a, got_a) = daemon.bound("vale0:a", &eight_slots());
    let (b, got_b) = daemon.bound("vale0:b", &eight_slots());
    let (tx, rx) = (daemon.eye().ring_at(&got_a, 0), daemon.eye().ring_at(&got_b, 2));
    (0..3).for_each(|i| daemon.eye().queue(tx, i, 60, 0));
    // The state after a kill in the middle of a sync of `a`: of its persistent words, word 0 says
    // that two slots were taken, and word 1 that none was sent.
    let port = daemon.callers[a].open.bound.get().unwrap().port.clone();
    port.as_switched().unwrap().begin(0, 2);
    let mut daemon = daemon.killed();
    let info = &daemon.world.domain.switches()[0];
    assert_eq!(info.ports[0].counters.dropped(switch::SwitchDropReason::Restart), 2);
    daemon.sync(a, NIOCTXSYNC).unwrap();
    daemon.sync(b, NIOCRXSYNC).unwrap();
    let eye = daemon.eye();
    assert_eq!((eye.ring(rx).tail, eye.ring(tx).tail), (1, 2), "the third, once");
    let info = &daemon.world.domain.switches()[0];
    assert_eq!(info.ports[0].counters.dropped(switch::SwitchDropReason::Restart), 2);
}

#[test]
fn persistent_ports_are_there_after_a_restart() {
    let mut daemon = Daemon::new();
    let i = daemon.open();
    let ask = |daemon: &mut Daemon, name: &str, kind: u16, body: &[u8]| {
        let Caller { open, memory, call } = &mut daemon.callers[i];
        *call = number();
        memory.write(BODY, body).unwrap();
        let mut header = header(name, kind);
        header.nr_body = if body.is_empty() { 0 } else { BODY };
        let mut arg = crate::memory::caller::bytes_of(&header);
        daemon.world.netmap.ioctl(open, NIOCCTRL, &mut arg, &mut Numbered(memory, *call))
    };
    let new = crate::memory::caller::bytes_of(&NmreqValeNewif::default());
    let attach = crate::memory::caller::bytes_of(&NmreqValeAttach {
        reg: all(),
        ..NmreqValeAttach::default()
    });
    assert_eq!(ask(&mut daemon, "v0", NETMAP_REQ_VALE_NEWIF, &new), Ok(0));
    for name in ["vale0:v0", "vale1:v0"] {
        assert_eq!(ask(&mut daemon, name, NETMAP_REQ_VALE_ATTACH, &attach), Ok(0));
    }
    let mut daemon = daemon.killed();
    let switches = daemon.world.domain.switches();
    let names: Vec<_> = switches.iter().map(|one| one.ports[0].name.as_str()).collect();
    assert_eq!(names, ["vale0:v0", "vale1:v0"]);
    // The persistent port connects the two switches as before.
    let [(a, got_a), (_, got_b)] =
        ["vale1:a", "vale0:b"].map(|name| daemon.bound(name, &eight_slots()));
    let (tx, rx) = (daemon.eye().ring_at(&got_a, 0), daemon.eye().ring_at(&got_b, 2));
    daemon.eye().queue(tx, 0, 60, 0);
    daemon.sync(a, NIOCTXSYNC).unwrap();
    assert_eq!(daemon.eye().ring(rx).tail, 1);
    daemon.callers.truncate(a);
    assert_eq!(ask(&mut daemon, "v0", NETMAP_REQ_VALE_NEWIF, &new), Err(Errno::EXIST));
    assert_eq!(ask(&mut daemon, "v0", NETMAP_REQ_VALE_DELIF, &[]), Err(Errno::BUSY));
    let detach = crate::memory::caller::bytes_of(&NmreqValeDetach::default());
    for name in ["vale0:v0", "vale1:v0"] {
        assert_eq!(ask(&mut daemon, name, NETMAP_REQ_VALE_DETACH, &detach), Ok(0));
    }
    assert_eq!(ask(&mut daemon, "v0", NETMAP_REQ_VALE_DELIF, &[]), Ok(0));
    assert!(daemon.killed().world.domain.memories().is_empty());
}

#[test]
fn payload_offsets_are_as_they_were_granted() {
    let mut daemon = Daemon::new();
    pipe(&mut daemon);
    let file = daemon.callers[0].open.bound.get().unwrap();
    let offsets = slipring_ring::RingOffsets { mask: 0xff, max: 128 };
    file.port.ring(TxRx::Tx, 0).unwrap().set_offsets(Some(offsets), 0);
    daemon.world.domain.commit();
    let daemon = daemon.killed();
    let file = daemon.callers[0].open.bound.get().unwrap();
    assert_eq!(file.port.ring(TxRx::Tx, 0).unwrap().offsets(), Some(offsets));
    assert_eq!(file.port.ring(TxRx::Rx, 0).unwrap().offsets(), None);
}

#[test]
fn a_ledger_that_makes_no_sense_is_refused_or_harmless() {
    let mut daemon = Daemon::new();
    pipe(&mut daemon);
    daemon.bound("x{1", &NmreqRegister { nr_flags: NR_MONITOR_TX, ..all() });
    daemon.bound("y}2", &NmreqRegister { nr_extra_bufs: 50, ..eight_slots() });
    daemon.bound("vale0:a", &eight_slots());
    daemon.bound("vale0:b{1", &eight_slots());
    let (_, state) = crate::memory::ledger::Ledger::adopt(daemon.shelf.copy("ledger-0"))
        .map(|(ledger, state)| (std::mem::forget(ledger), state))
        .unwrap();
    let (mut random, mut refused) = (1u64, 0);
    for _ in 0..2000 {
        let mut bytes = state.clone();
        for _ in 0..1 + random % 3 {
            random =
                random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1442695040888963407);
            let at = (random >> 33) as usize % bytes.len();
            bytes[at] = (random >> 24) as u8;
        }
        let ledger = crate::memory::ledger::Ledger::new().unwrap();
        ledger.write(&bytes);
        let left = RecoveredDomain {
            ledger: ledger.file().try_clone_to_owned().unwrap(),
            ..daemon.shelf.left()
        };
        std::mem::forget(ledger);
        let parameters = Parameters::new(&MemoryParams::default());
        let netmap = Netmap::new(Box::new(Nothing));
        let notify: Arc<dyn Notify> = Arc::<RecordedWakes>::default();
        match netmap.resume(left, &parameters, None, &|_| None, &notify) {
            Err(_) => refused += 1,
            Ok(resumed) => resumed.opens.iter().for_each(|open| {
                open.poll(PollEvents::IN | PollEvents::OUT, None, Duration::ZERO);
            }),
        }
    }
    assert!(refused > 1000, "{refused}");
}
