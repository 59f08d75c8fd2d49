//! Tests of control blocks and the sync loop, round by round: a call that was cancelled before it
//! began performs one round.

use slipring_ring::RingView;

use super::*;

/// Addresses of the control blocks of two rings.
const ATOK: u64 = BASE + 0x2000;
const KTOA: u64 = BASE + 0x2100;

fn alone() -> NmreqRegister {
    NmreqRegister { nr_flags: NR_EXCLUSIVE, ..all() }
}

fn option() -> NmreqOptCsb {
    NmreqOptCsb {
        nro_opt: NmreqOption { nro_reqtype: NETMAP_REQ_OPT_CSB, ..NmreqOption::default() },
        csb_atok: ATOK,
        csb_ktoa: KTOA,
    }
}

impl<'w> Client<'w> {
    fn with_blocks(world: &'w World, name: &str) -> Self {
        let mut client = world.open();
        client.register(name, &alone()).unwrap();
        assert_eq!(client.enable(&option()), Ok(0));
        client
    }

    fn enable(&mut self, option: &NmreqOptCsb) -> Result<i32, Errno> {
        self.memory.put(OPTIONS, option);
        let header = header("", NETMAP_REQ_CSB_ENABLE);
        self.control(&NmreqHeader { nr_body: 0, nr_options: OPTIONS, ..header })
    }

    /// Starts a loop that ends after one round.
    fn one_round(&mut self) -> Result<i32, Errno> {
        let cancel = Arc::<Cancel>::default();
        cancel.cancel();
        self.memory.cancel = Some(cancel);
        self.memory.put(BODY, &NmreqSyncKloopStart::default());
        self.control(&header("", NETMAP_REQ_SYNC_KLOOP_START))
    }

    fn told(&mut self, k: u64) -> NmCsbKtoa {
        self.memory.get(KTOA + 64 * k)
    }

    /// Writes the program's indices for ring `k`.
    fn say(&mut self, k: u64, to: u32) {
        let notified: NmCsbAtok = self.memory.get(ATOK + 64 * k);
        self.memory.put(ATOK + 64 * k, &NmCsbAtok { head: to, cur: to, ..notified });
    }

    fn ring_view(&self, dir: TxRx) -> RingView {
        self.open.bound.get().unwrap().port.ring(dir, 0).unwrap().clone()
    }
}

#[test]
fn a_round_sends_what_the_blocks_say_and_tells_how_far_it_is() {
    let world = World::new();
    let mut client = Client::with_blocks(&world, "x{1");
    let mut peer = world.bound("x}1");
    assert_eq!((client.told(0).hwcur, client.told(0).hwtail), (0, 1023));
    client.say(0, 5);
    assert_eq!(client.one_round(), Err(Errno::INTR));
    assert_eq!((client.told(0).hwcur, client.told(0).hwtail), (5, 1023));
    peer.ioctl(NIOCRXSYNC).unwrap();
    assert_eq!(peer.ring_view(TxRx::Rx).tail(), 5);
    let rx = peer.ring_view(TxRx::Rx);
    rx.advance_to(5);
    peer.ioctl(NIOCRXSYNC).unwrap();
    assert_eq!(client.one_round(), Err(Errno::INTR));
    assert_eq!(client.told(0).hwtail, 4);
    assert_eq!(client.told(0).kern_need_kick, 1, "it looks no more, and so wants to be woken");
}

#[test]
fn a_round_receives_and_gives_back() {
    let world = World::new();
    let mut client = Client::with_blocks(&world, "x{1");
    let mut peer = world.bound("x}1");
    peer.ring_view(TxRx::Tx).advance_to(7);
    peer.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(client.one_round(), Err(Errno::INTR));
    assert_eq!((client.told(1).hwcur, client.told(1).hwtail), (0, 7));
    client.say(1, 7);
    assert_eq!(client.one_round(), Err(Errno::INTR));
    assert_eq!(client.told(1).hwcur, 7);
}

#[test]
fn impossible_indices_send_nothing_and_right_ones_go_on() {
    let world = World::new();
    let mut client = Client::with_blocks(&world, "x{1");
    let mut peer = world.bound("x}1");
    for wrong in [1024, 70_000, u32::MAX] {
        client.say(0, wrong);
        assert_eq!(client.one_round(), Err(Errno::INTR));
        assert_eq!((client.told(0).hwcur, client.told(0).hwtail), (0, 1023), "{wrong}");
    }
    client.say(0, 2);
    assert_eq!(client.one_round(), Err(Errno::INTR));
    peer.ioctl(NIOCRXSYNC).unwrap();
    assert_eq!(peer.ring_view(TxRx::Rx).tail(), 2);
}

#[test]
fn nobody_else_syncs_a_file_with_blocks() {
    let world = World::new();
    let mut client = Client::with_blocks(&world, "x{1");
    assert_eq!(client.ioctl(NIOCTXSYNC), Err(Errno::BUSY));
    assert_eq!(client.ioctl(NIOCRXSYNC), Err(Errno::BUSY));
    assert_eq!(client.poll(PollEvents::IN), PollEvents::ERR);
    assert_eq!(client.enable(&option()), Err(Errno::BUSY));
}

#[test]
fn blocks_that_cannot_be_are_refused_and_the_file_goes_on_without() {
    let world = World::new();
    let mut client = world.open();
    assert_eq!(client.enable(&option()), Err(Errno::NXIO));
    client.register("x{1", &all()).unwrap();
    assert_eq!(client.enable(&option()), Err(Errno::INVAL), "others may bind it too");
    drop(client);
    let mut client = world.open();
    client.register("x{1", &alone()).unwrap();
    for (csb_atok, csb_ktoa, why) in [
        (ATOK + 8, KTOA, Errno::INVAL),
        (ATOK, KTOA + 32, Errno::INVAL),
        (64, KTOA, Errno::FAULT),
        (ATOK, BASE + (1 << 16) - 64, Errno::FAULT),
        (u64::MAX - 63, KTOA, Errno::FAULT),
    ] {
        let option = NmreqOptCsb { csb_atok, csb_ktoa, ..option() };
        assert_eq!(client.enable(&option), Err(why), "{csb_atok:#x} {csb_ktoa:#x}");
    }
    assert_eq!(client.ioctl(NIOCTXSYNC), Ok(0));
}

#[test]
fn blocks_can_lie_in_pages_that_others_map_and_taking_those_away_ends_the_loop() {
    let world = World::new();
    let file = rustix::fs::memfd_create("blocks", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, 8192).unwrap();
    let mut client = world.open();
    client.memory.pages = Some(file.try_clone().unwrap());
    client.register("x{1", &alone()).unwrap();
    // The array of the program's control blocks crosses a page boundary.
    let option =
        NmreqOptCsb { csb_atok: SHARED + 4096 - 64, csb_ktoa: SHARED + 4096 + 128, ..option() };
    assert_eq!(client.enable(&option), Ok(0));
    let mut tail = [0; 4];
    rustix::io::pread(&file, &mut tail, 4096 + 128 + 4).unwrap();
    assert_eq!(u32::from_ne_bytes(tail), 1023);
    rustix::io::pwrite(&file, &9u32.to_ne_bytes(), 4096 - 60).unwrap();
    rustix::io::pwrite(&file, &9u32.to_ne_bytes(), 4096 - 64).unwrap();
    assert_eq!(client.one_round(), Err(Errno::INTR));
    assert_eq!(client.ring_view(TxRx::Tx).hwcur(), 9);
    rustix::fs::ftruncate(&file, 0).unwrap();
    // In the first round, the access to the truncated file revokes the memory, and the round fails
    // in some way. From then on the loop finds the memory revoked and returns `FAULT`.
    assert!(client.one_round().is_err());
    assert_eq!(client.one_round(), Err(Errno::FAULT));
}

#[test]
fn a_stop_that_comes_first_ends_the_next_loop_only() {
    let world = World::new();
    let mut client = Client::with_blocks(&world, "x{1");
    let stop = NmreqHeader { nr_body: 0, ..header("", NETMAP_REQ_SYNC_KLOOP_STOP) };
    assert_eq!(client.control(&stop), Ok(0));
    assert_eq!(client.one_round(), Ok(0), "it ended before its first round");
    assert_eq!(client.one_round(), Err(Errno::INTR));
}

#[test]
fn a_loop_that_sleeps_is_ended_by_a_stop_from_another_thread() {
    let world = World::new();
    let mut client = Client::with_blocks(&world, "x{1");
    let events = rustix::event::EventfdFlags::CLOEXEC;
    client.memory.events = (0..4).map(|_| rustix::event::eventfd(0, events).unwrap()).collect();
    let kick = client.memory.events[0].try_clone().unwrap();
    let mut list = crate::memory::caller::bytes_of(&NmreqOption {
        nro_reqtype: NETMAP_REQ_OPT_SYNC_KLOOP_EVENTFDS,
        nro_size: 24 + 16,
        ..NmreqOption::default()
    });
    for (ioeventfd, irqfd) in [(0, 1), (2, 3)] {
        list.extend(crate::memory::caller::bytes_of(&KloopEventfds { ioeventfd, irqfd }));
    }
    client.memory.write(OPTIONS, &list).unwrap();
    client.memory.put(BODY, &NmreqSyncKloopStart::default());
    client.say(0, 3);
    let mut arg = crate::memory::caller::bytes_of(&NmreqHeader {
        nr_options: OPTIONS,
        ..header("", NETMAP_REQ_SYNC_KLOOP_START)
    });
    let mut peer = world.bound("x}1");
    let Client { open, memory, .. } = &mut client;
    std::thread::scope(|scope| {
        let run = scope.spawn(|| world.netmap.ioctl(open, NIOCCTRL, &mut arg, memory));
        let rx = peer.ring_view(TxRx::Rx);
        while rx.tail() != 3 {
            peer.ioctl(NIOCRXSYNC).unwrap();
            std::thread::yield_now();
        }
        rustix::io::write(&kick, &1u64.to_ne_bytes()).unwrap();
        let stop = NmreqHeader { nr_body: 0, ..header("", NETMAP_REQ_SYNC_KLOOP_STOP) };
        let mut arg = crate::memory::caller::bytes_of(&stop);
        assert_eq!(world.netmap.ioctl(open, NIOCCTRL, &mut arg, &mut ProgramMemory::new()), Ok(0));
        assert_eq!(run.join().unwrap(), Ok(0));
    });
}
