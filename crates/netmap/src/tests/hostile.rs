//! Tests of hostile clients: random requests, random writes to the shared file, closing at any
//! time. Nothing may panic or hang, and everything that the clients took must be released.

use slipring_test_support::frames::Xorshift;

use super::*;

/// Returns a random number, often at a limit: programs and the daemon easily make mistakes there.
fn number(random: &mut Xorshift) -> u64 {
    match random.below(6) {
        0 => 0,
        1 => random.below(4),
        2 => random.below(70_000),
        3 => u64::MAX,
        4 => 1 << random.below(64),
        _ => random.next(),
    }
}

const NAMES: [&str; 10] = [
    "x{1",
    "x}1",
    "x",
    "x{2",
    "",
    "{",
    "y}long_name_of_a_pipe",
    "vale0:a",
    "vale0:b",
    // Names the persistent port `x` if random requests have created and attached it, otherwise an
    // ordinary port.
    "vale0:x",
];

impl Client<'_> {
    fn random_request(&mut self, random: &mut Xorshift) {
        let pick = |random: &mut Xorshift| NAMES[random.below(NAMES.len() as u64) as usize];
        let mut register = NmreqRegister {
            nr_tx_slots: number(random) as u32,
            nr_rx_slots: 64,
            nr_tx_rings: random.below(4) as u16,
            nr_mode: random.below(10) as u32,
            nr_ringid: random.below(3) as u16,
            nr_extra_bufs: random.below(300) as u32,
            nr_flags: number(random),
            ..NmreqRegister::default()
        };
        if random.below(2) == 0 {
            (register.nr_mode, register.nr_flags) = (NR_REG_ALL_NIC, 0);
        }
        self.memory.put(BODY, &register);
        let mut header = header(pick(random), random.below(17) as u16);
        if random.below(2) == 0 {
            header.nr_reqtype = NETMAP_REQ_REGISTER;
        }
        if random.below(8) == 0 {
            header.nr_body = number(random);
            header.nr_options = number(random);
        }
        let _ = self.control(&header);
    }

    /// Writes to a random position in the rings, the records and the first words of buffers.
    fn random_write(&mut self, random: &mut Xorshift) {
        let Some(binding) = self.open.bound.get() else { return };
        let region = binding.port.memory().region();
        let at = match random.below(3) {
            0 => random.below(region.ring_start() + 8192),
            1 => random.below(region.buf_start()),
            _ => region.data_start() + BUF * random.below(500),
        };
        self.poke((region.file_offset() + at) & !3, &(number(random) as u32));
    }

    /// Moves head and cur of a ring, mostly by a small step.
    fn random_advance(&mut self, random: &mut Xorshift) {
        let Some(binding) = self.open.bound.get() else { return };
        let region = binding.port.memory().region();
        let dir = TxRx::BOTH[random.below(2) as usize];
        let Some(ring) = binding.port.ring(dir, 0) else { return };
        let (at, head) = (region.file_offset() + ring.offset(), ring.head());
        let to = if random.below(20) == 0 {
            number(random) as u32
        } else {
            head.wrapping_add(random.below(9) as u32) % ring.num_slots()
        };
        self.advance(at, to);
    }

    /// Removes the persistent port that random requests may have created.
    fn remove_what_stays(&mut self) {
        let _ = self.ask("vale0:x", NETMAP_REQ_VALE_DETACH, &NmreqValeDetach::default());
        let _ = self.control(&NmreqHeader { nr_body: 0, ..header("x", NETMAP_REQ_VALE_DELIF) });
        assert!(!self.world.domain.is_lasting() && self.world.domain.switches().is_empty());
    }

    fn random_act(&mut self, random: &mut Xorshift) {
        match random.below(12) {
            0 => self.random_request(random),
            1 => self.random_write(random),
            2 | 3 => drop(self.ioctl(NIOCTXSYNC)),
            4 | 5 => drop(self.ioctl(NIOCRXSYNC)),
            6 | 7 => {
                let arm = (random.below(2) == 0).then_some(1);
                self.open.poll(PollEvents(random.next() as u32), arm, Duration::ZERO);
            }
            8 => {
                let mut arg = vec![0; random.below(300) as usize];
                arg.iter_mut().for_each(|byte| *byte = random.next() as u8);
                let cmds = [NIOCCTRL, NIOCREGIF, NIOCGINFO, NIOCCONFIG, random.next() as u32];
                let cmd = cmds[random.below(5) as usize];
                let _ = self.world.netmap.ioctl(&self.open, cmd, &mut arg, &mut self.memory);
            }
            9 => {
                // The words of a lent ring are in the memory to which this client and others write
                // at random, so they may have any values.
                let mut arg = vec![0; DELEGATION_SIZE];
                arg[0] = random.below(8).min(1) as u8;
                for cmd in [NIOCLEND, NIOCKICK] {
                    let _ = self.world.netmap.ioctl(&self.open, cmd, &mut arg, &mut self.memory);
                }
                arg.resize(DELEGATED_QUEUES_SIZE, 0);
                let _ = self.world.netmap.ioctl(&self.open, NIOCLENDQ, &mut arg, &mut self.memory);
            }
            _ => self.random_advance(random),
        }
    }
}

#[test]
fn whatever_clients_do_nothing_panics_and_all_memory_comes_back() {
    for seed in 1..=24 {
        let world = World::with(MemoryParams { buf_num: 20_000, ..MemoryParams::default() });
        let mut random = Xorshift::new(seed);
        let mut clients: Vec<_> = (0..5).map(|_| world.open()).collect();
        for _ in 0..3000 {
            let one = random.below(5) as usize;
            if random.below(100) == 0 {
                clients[one] = world.open();
            }
            clients[one].random_act(&mut random);
        }
        drop(clients);
        world.open().remove_what_stays();
        let memory = world.domain.memory(1).unwrap();
        assert_eq!(
            (memory.map_len() > 0, memory.region().free_bufs()),
            (true, 20_000 - 2),
            "{seed}"
        );
        assert_eq!(world.domain.private_memory(MemoryNeeds::default()).unwrap().id(), 2, "{seed}");
    }
}

#[test]
fn clients_in_several_threads_at_once_do_no_harm_either() {
    let world = World::with(MemoryParams { buf_num: 60_000, ..MemoryParams::default() });
    std::thread::scope(|scope| {
        for seed in 1..=4 {
            let world = &world;
            scope.spawn(move || {
                let mut random = Xorshift::new(seed);
                let mut client = world.open();
                for _ in 0..5000 {
                    if random.below(50) == 0 {
                        client = world.open();
                    }
                    client.random_act(&mut random);
                }
            });
        }
    });
    world.open().remove_what_stays();
    assert_eq!(world.domain.memory(1).unwrap().region().free_bufs(), 60_000 - 2);
}

#[test]
fn a_thousand_pipes_of_one_user_fit() {
    let world = World::new();
    let small = NmreqRegister { nr_tx_slots: 64, nr_rx_slots: 64, ..all() };
    let mut clients = Vec::new();
    for i in 0..1000 {
        let mut client = world.open();
        client.register(&format!("p{i}{{1"), &small).unwrap();
        clients.push(client);
    }
    drop(clients);
    assert_eq!(world.domain.memory(1).unwrap().region().free_bufs(), 163_840 - 2);
}
