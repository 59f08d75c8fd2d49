//! A small router in user space: it forwards frames from the packet sockets of one interface to the
//! other interface.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use slipring_fib::FibPortIndex;
use slipring_port::{Interest, OpenOptions, Port, WaitStrategy, Waiter, packet};
use slipring_ring::{Geometry, HugePages, Region};
use slipring_route_bpf::{
    BpfRouter, FrameInjector, PacketInterception, ResidentCounters, ResidentError,
    ResidentHeartbeat, ResidentOptions,
};
use slipring_test_support::{Namespace, skip};

use super::lab::{self, LEFT, MACS, RIGHT, Routed};

const TURN: Duration = Duration::from_millis(5);

/// What the engine does with frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Forward,
    /// Leaves the frames in the sockets' rings.
    Nothing,
    /// Gives the frames to the kernel.
    Return,
}

/// The router's maps and programs, without sockets.
pub(crate) struct Intercepted {
    mid: Arc<Namespace>,
    pub(crate) router: Arc<Mutex<BpfRouter>>,
    interceptions: Arc<[PacketInterception; 2]>,
}

impl Intercepted {
    /// Attaches the programs; returns `None`, and prints why, if that fails.
    pub(crate) fn new(net: &Routed, queues: u16) -> Option<Self> {
        let made = net.mid.run(move || make(queues));
        match made {
            Ok((router, interceptions)) => Some(Self {
                mid: Arc::clone(&net.mid),
                router: Arc::new(Mutex::new(router)),
                interceptions: Arc::new(interceptions),
            }),
            Err(error) => {
                skip!("no BPF router: {error}");
                None
            }
        }
    }

    pub(crate) fn counters(&self, port: FibPortIndex) -> ResidentCounters {
        self.router.lock().unwrap().counters(port).unwrap()
    }

    /// Sets whether the tcx program may forward frames without the sockets.
    pub(crate) fn set_direct(&self, direct: bool) {
        let options = ResidentOptions { direct, ..ResidentOptions::default() };
        let mut router = self.router.lock().unwrap();
        [LEFT, RIGHT].into_iter().for_each(|port| router.set_options(port, options));
    }

    /// Opens packet ports with the filters, starts the engine, and waits until it has checked all
    /// queues once.
    pub(crate) fn engine(&self, work: Work, slots: u32) -> Engine {
        let heartbeat = self.router.lock().unwrap().heartbeat();
        let mut injector = self.router.lock().unwrap().injector().unwrap();
        for interception in self.interceptions.iter() {
            injector.pass_interception(interception).unwrap();
        }
        let interceptions = Arc::clone(&self.interceptions);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let turns = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&turns);
        let thread = self.mid.run(move || {
            let ports = ["la", "ra"].into_iter().zip(interceptions.iter());
            let ports = ports.map(|(name, from)| open(name, from, slots)).collect();
            let ifindices = ["la", "ra"].map(lab::ifindex_of);
            std::thread::spawn(move || {
                let engine = EngineLoop { ports, injector, ifindices, heartbeat, work };
                engine.run(&stopped, &counted)
            })
        });
        let engine = Engine { stop, turns, thread: Some(thread) };
        engine.wait_for_turns();
        engine
    }
}

pub(crate) fn make(queues: u16) -> Result<(BpfRouter, [PacketInterception; 2]), ResidentError> {
    let (router, [left, right]) = lab::router()?;
    let interceptions =
        [router.attach_packet(left, LEFT, queues)?, router.attach_packet(right, RIGHT, queues)?];
    router.enable();
    Ok((router, interceptions))
}

pub(crate) fn open(ifname: &str, interception: &PacketInterception, slots: u32) -> Port {
    let filters = interception.filters().unwrap().into_iter().map(Arc::new);
    let options = OpenOptions {
        slots,
        shared: true,
        promiscuous: false,
        socket_filters: filters.collect(),
        ..OpenOptions::default()
    };
    let geometry = Geometry { ring_bytes: 1 << 20, bufs: 8 * 1024, buf_size: 2048 };
    let region = Region::create(geometry, HugePages::Never).unwrap();
    packet::open(&format!("packet:{ifname}"), ifname, None, &region, &options).unwrap()
}

/// A running engine.
pub(crate) struct Engine {
    stop: Arc<AtomicBool>,
    turns: Arc<AtomicU32>,
    thread: Option<JoinHandle<Vec<Port>>>,
}

impl Engine {
    /// Waits until the engine has done a whole turn since the call: unless it has
    /// [`Work::Nothing`] to do, it checks all queues.
    fn wait_for_turns(&self) {
        let start = self.turns.load(Ordering::Acquire);
        slipring_test_support::eventually("a turn of the engine", || {
            (self.turns.load(Ordering::Acquire).wrapping_sub(start) >= 2).then_some(())
        });
    }

    /// Stops taking frames, handles those that were taken, unless they stay in the rings
    /// ([`Work::Nothing`]), and returns the ports.
    pub(crate) fn stop(mut self) -> Vec<Port> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

pub(crate) struct EngineLoop {
    pub(crate) ports: Vec<Port>,
    pub(crate) injector: FrameInjector,
    pub(crate) ifindices: [u32; 2],
    pub(crate) heartbeat: ResidentHeartbeat,
    pub(crate) work: Work,
}

impl EngineLoop {
    pub(crate) fn run(mut self, stop: &AtomicBool, turns: &AtomicU32) -> Vec<Port> {
        lab::prioritize();
        while !stop.load(Ordering::Relaxed) {
            lab::beat_ahead(&self.heartbeat);
            if self.work == Work::Nothing {
                std::thread::sleep(TURN);
            } else {
                self.wait();
                self.turn(true);
            }
            turns.fetch_add(1, Ordering::Release);
        }
        self.heartbeat.beat_all(0);
        // Filters that have read the previous heartbeat end within this time.
        std::thread::sleep(TURN);
        while self.work != Work::Nothing && self.turn(false) > 0 {}
        self.ports
    }

    fn wait(&mut self) {
        let mut waiter = Waiter::for_ports(&self.ports, WaitStrategy::Sleep).unwrap();
        let mut ports: Vec<_> = self.ports.iter_mut().collect();
        waiter.wait_ports(&mut ports, Interest::RX, Some(TURN)).unwrap();
    }

    /// Handles what has arrived; returns the number of frames.
    fn turn(&mut self, beats: bool) -> usize {
        let mut scratch = Vec::new();
        let mut count = 0;
        for from in 0..2 {
            self.ports[from].rx_sync().unwrap();
            for queue in 0..self.ports[from].queues.len() {
                while let Some(frame) = self.ports[from].queues[queue]
                    .rings()
                    .rx
                    .packet(&mut scratch, |frame| frame.to_vec())
                {
                    self.handle(from, queue, frame);
                    count += 1;
                    if beats && count % 64 == 0 {
                        lab::beat_ahead(&self.heartbeat);
                    }
                }
            }
        }
        self.ports.iter_mut().for_each(|port| port.tx_sync().unwrap());
        count
    }

    fn handle(&mut self, from: usize, queue: usize, mut frame: Vec<u8>) {
        if self.work == Work::Return {
            return self.injector.receive(&frame, self.ifindices[from]).unwrap();
        }
        rewrite(&mut frame, from);
        let to = &mut self.ports[1 - from];
        while !to.queues[queue].rings().tx.push(&frame) {
            to.tx_sync().unwrap();
        }
    }
}

/// Sets the MAC addresses for the side other than `from`, and decrements the time to live.
fn rewrite(frame: &mut [u8], from: usize) {
    let macs = if from == 0 { [3, 2] } else { [0, 1] };
    for (text, at) in macs.map(|at| MACS[at]).into_iter().zip([0, 6]) {
        for (byte, digits) in frame[at..at + 6].iter_mut().zip(text.split(':')) {
            *byte = u8::from_str_radix(digits, 16).unwrap();
        }
    }
    if frame[12] == 0x86 {
        frame[21] -= 1;
        return;
    }
    frame[22] -= 1;
    frame[24..26].fill(0);
    let words = frame[14..34].as_chunks::<2>().0.iter();
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    frame[24..26].copy_from_slice(&(!folded as u16).to_be_bytes());
}
