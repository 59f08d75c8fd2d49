//! Tests of ports that use a kernel interface, while the interface is down, comes up or is removed.
#![allow(clippy::unwrap_used)]

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use slipring_port::iface::Iface;
use slipring_port::{
    Interest, OpenError, OpenOptions, Port, Queue, QueueVisitor, RunCause, RunError, WaitOutcome,
    WaitSet, WaitStrategy, Waiter, XdpMode, host, packet, tap, xdp,
};
use slipring_ring::{AttachedWords, BUF_SIZE_FOR_DEVICES, Geometry, HugePages, Region};
use slipring_test_support::{Namespace, TIMEOUT, close, skip};
use slipring_wire::Headers;
use slipring_wire::frame::{Fill, FrameSpec, IpSpec, Ipv4Spec, L4Spec, PortPair};
use slipring_wire::mac::MacAddr;

/// How long to observe a waiter: long enough to notice that it spins.
const OBSERVATION_TIME: Duration = Duration::from_millis(200);
/// Maximum number of polls by a sleeping waiter that a few events wake during [`OBSERVATION_TIME`].
/// A spinning waiter polls thousands of times in this time.
const MAX_POLLS_ASLEEP: u32 = 60;
const STATION: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Xdp(XdpMode),
    Packet,
    /// A packet socket that receives, and an AF_XDP socket that sends.
    PacketByXdp,
    Tap,
    Host,
}

const KINDS: [Kind; 6] = [
    Kind::Xdp(XdpMode::Native),
    Kind::Xdp(XdpMode::Generic),
    Kind::Packet,
    Kind::PacketByXdp,
    Kind::Tap,
    Kind::Host,
];

/// The interface `va` for a port of one kind, and the network stack at the port's other end: the
/// stack of the veth peer's namespace, or the host's stack. The stack has the address 10.0.0.1 and
/// knows [`STATION`] as the MAC address of 10.0.0.2.
struct Lab {
    kind: Kind,
    here: Namespace,
    peer: Namespace,
    region: Arc<Region>,
}

impl Lab {
    fn new(kind: Kind) -> Option<Self> {
        let (here, peer) = (Namespace::new()?, Namespace::new()?);
        if kind == Kind::Tap {
            here.ip("tuntap add va mode tap");
            here.silence("va");
            here.ip("link set va up");
        } else {
            here.cable("va", &peer, "vb", "");
        }
        let geometry =
            Geometry { bufs: 4096, buf_size: BUF_SIZE_FOR_DEVICES, ..Geometry::default() };
        let region = Region::create(geometry, HugePages::Never).unwrap();
        let lab = Self { kind, here, peer, region };
        let (far, ifname) = lab.far();
        far.ip(&format!("addr add 10.0.0.1/24 dev {ifname}"));
        lab.introduce();
        match lab.try_open(&OpenOptions::default()) {
            Err(error) if matches!(error.code(), "SR0104" | "SR0111") => {
                skip!("{error}");
                None
            }
            port => {
                lab.close(port.unwrap());
                Some(lab)
            }
        }
    }

    /// Closes the port in the namespace of its interface, where its BPF program has to be detached.
    fn close(&self, port: Port) {
        self.here.run(move || close(port));
    }

    fn each(mut test: impl FnMut(&Self)) {
        for lab in KINDS.into_iter().filter_map(Self::new) {
            println!("{:?}", lab.kind);
            test(&lab);
        }
    }

    fn far(&self) -> (&Namespace, &'static str) {
        match self.kind {
            Kind::Tap | Kind::Host => (&self.here, "va"),
            Kind::Xdp(_) | Kind::Packet | Kind::PacketByXdp => (&self.peer, "vb"),
        }
    }

    /// Makes the stack know the port's MAC address. This must be repeated after the stack's
    /// interface was down, because the stack then forgets the neighbours on it.
    fn introduce(&self) {
        let (far, ifname) = self.far();
        far.ip(&format!("neigh replace 10.0.0.2 lladdr {STATION} dev {ifname} nud permanent"));
    }

    fn up(&self) {
        self.here.ip("link set va up");
        let (far, ifname) = self.far();
        if self.kind != Kind::Tap {
            far.wait_for_carrier(ifname);
        }
        self.introduce();
    }

    fn down(&self) {
        self.here.ip("link set va down");
    }

    fn try_open(&self, options: &OpenOptions) -> Result<Port, OpenError> {
        let (kind, region) = (self.kind, self.region.clone());
        let mut options = OpenOptions { slots: 64, ..options.clone() };
        match kind {
            Kind::Xdp(mode) => options.xdp = mode,
            Kind::PacketByXdp => options.sends_by_xdp = true,
            Kind::Packet | Kind::Tap | Kind::Host => {}
        }
        self.here.run(move || match kind {
            Kind::Xdp(_) => xdp::open("va", "va", None, &region, &options),
            Kind::Packet | Kind::PacketByXdp => packet::open("va", "va", None, &region, &options),
            Kind::Tap => tap::open("va", "va", 1, &region, &options),
            Kind::Host => host::open("va", "va", &region, &options),
        })
    }

    fn open(&self) -> Port {
        self.try_open(&OpenOptions::default()).unwrap()
    }

    fn socket(&self) -> UdpSocket {
        self.far().0.run(|| {
            let socket = UdpSocket::bind("10.0.0.1:7").unwrap();
            socket.connect("10.0.0.2:9").unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        })
    }

    /// Returns frame `number`, sent by the port and addressed to the stack's socket.
    fn frame(&self, number: u8) -> Vec<u8> {
        let (far, ifname) = self.far();
        let spec = FrameSpec {
            src_mac: STATION,
            dst_mac: MacAddr(far.run(|| Iface::find(ifname).unwrap().mac)),
            ip: IpSpec::V4(Ipv4Spec {
                src: [10, 0, 0, 2].into(),
                dst: [10, 0, 0, 1].into(),
                ..Ipv4Spec::default()
            }),
            l4: L4Spec::Udp(PortPair { src: 9, dst: 7 }),
            fill: Fill::Pattern(vec![number; 100]),
            ..FrameSpec::default()
        };
        spec.build(spec.header_len() + 100).unwrap().bytes
    }

    fn send(&self, port: &mut Port, numbers: std::ops::Range<u8>) {
        for number in numbers {
            assert!(port.queues[0].rings().tx.push(&self.frame(number)), "no room");
            port.tx_sync().unwrap();
        }
    }

    /// Sends frames while the interface is down, and asserts that all arrive when it is up,
    /// although the program waits only for frames to read.
    fn assert_what_waits_arrives(&self, port: &mut Port, socket: &UdpSocket) {
        self.down();
        self.send(port, 10..15);
        port.rx_sync().unwrap();
        self.up();
        assert_eq!(self.arriving(port, socket, 5), [10, 11, 12, 13, 14]);
    }

    /// Returns the numbers of the frames that the stack receives, while the program waits only for
    /// frames to read.
    fn arriving(&self, port: &mut Port, socket: &UdpSocket, count: usize) -> Vec<u8> {
        let mut waiter = Waiter::for_ports([&*port], WaitStrategy::Sleep).unwrap();
        waiter.add_fd(socket.as_fd()).unwrap();
        let (start, mut numbers, mut bytes) = (Instant::now(), Vec::new(), [0; 200]);
        while numbers.len() < count {
            assert!(start.elapsed() < TIMEOUT, "{:?}: only {numbers:?} arrived", self.kind);
            numbers.extend(socket.recv(&mut bytes).map(|len| bytes[len - 1]).ok());
            waiter
                .wait_ports(&mut [&mut *port], Interest::RX, Some(Duration::from_millis(500)))
                .unwrap();
            take(port);
        }
        numbers
    }

    /// Asserts that frames pass in both directions.
    fn exchange(&self, port: &mut Port, socket: &UdpSocket, number: u8) {
        self.send(port, number..number + 1);
        assert_eq!(self.arriving(port, socket, 1), [number]);
        let start = Instant::now();
        // The stack may not have noticed yet that its link is up again.
        while socket.send(&[number; 100]).is_err() {
            assert!(start.elapsed() < TIMEOUT, "the stack does not send");
        }
        let mut waiter = Waiter::for_ports([&*port], WaitStrategy::Sleep).unwrap();
        loop {
            let woken = waiter.wait_ports(&mut [&mut *port], Interest::RX, Some(TIMEOUT));
            assert_ne!(woken.unwrap(), WaitOutcome::Timeout, "{:?}: nothing arrived", self.kind);
            if take(port).contains(&number) {
                return;
            }
        }
    }
}

/// Returns the numbers of the received frames. The stack also sends frames of its own, which are
/// ignored.
fn take(port: &mut Port) -> Vec<u8> {
    let (mut numbers, mut scratch) = (Vec::new(), Vec::new());
    let rx = port.queues[0].rings().rx;
    while let Some(number) = rx.packet(&mut scratch, |frame| {
        let ports = Headers::parse(frame).ok().and_then(|headers| headers.ports(frame));
        (ports == Some((7, 9))).then(|| frame[frame.len() - 1])
    }) {
        numbers.extend(number);
    }
    numbers
}

/// A queue that counts a waiter's polls.
struct Counted<'q>(&'q mut dyn Queue, Interest, u32);

impl WaitSet for Counted<'_> {
    fn each(&mut self, visit: QueueVisitor<'_>) -> Result<(), RunError> {
        self.2 += 1;
        visit(&mut *self.0, self.1)
    }
}

/// Returns how often a waiter polls the port in [`OBSERVATION_TIME`].
///
/// A signal may interrupt a wait even if the process ignores it: SIGCHLD, when a command that
/// another test has started ends. The waiter then waits again.
fn looks(port: &mut Port, interest: Interest) -> u32 {
    let mut waiter = Waiter::for_ports([&*port], WaitStrategy::Sleep).unwrap();
    let mut counted = Counted(&mut *port.queues[0], interest, 0);
    let end = Instant::now() + OBSERVATION_TIME;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match waiter.wait(&mut counted, Some(left)).unwrap() {
            WaitOutcome::Timeout => return counted.2,
            WaitOutcome::Interrupted => {}
            WaitOutcome::Ready => panic!("nothing is there to wait for"),
        }
    }
}

fn until_it_ends(port: &mut Port) -> RunError {
    let mut waiter = Waiter::for_ports([&*port], WaitStrategy::Sleep).unwrap();
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < TIMEOUT, "it does not end");
        if let Err(error) = waiter.wait_ports(&mut [&mut *port], Interest::RX, Some(TIMEOUT)) {
            return error;
        }
        take(port);
    }
}

#[test]
fn what_is_sent_while_the_interface_is_down_waits_and_arrives_when_it_is_up() {
    Lab::each(|lab| {
        let (mut port, socket) = (lab.open(), lab.socket());
        assert_eq!(port.info.mode.get("link"), None);
        lab.exchange(&mut port, &socket, 1);
        for round in 0..2 {
            lab.down();
            lab.send(&mut port, 10..15);
            port.rx_sync().unwrap();
            let stats = port.stats();
            assert_eq!((stats.in_flight, stats.drops().count()), (5, 0), "{:?}", lab.kind);
            assert!(looks(&mut port, Interest::RX) < MAX_POLLS_ASLEEP, "{:?} spins", lab.kind);
            lab.up();
            assert_eq!(lab.arriving(&mut port, &socket, 5), [10, 11, 12, 13, 14]);
            lab.exchange(&mut port, &socket, 20 + round);
        }
        port.tx_sync().unwrap();
        let stats = port.stats();
        assert_eq!((stats.tx.packets, stats.in_flight, stats.drops().count()), (13, 0, 0));
        lab.close(port);
    });
}

#[test]
fn what_is_sent_while_the_interface_of_a_lent_queue_is_down_arrives_when_it_is_up() {
    if let Some(lab) = Lab::new(Kind::Xdp(XdpMode::Native)) {
        let (mut port, socket) = (lab.open(), lab.socket());
        // The borrower never syncs.
        port.queues[0].lender().unwrap().lend(7).unwrap();
        lab.exchange(&mut port, &socket, 1);
        lab.assert_what_waits_arrives(&mut port, &socket);
        lab.close(port);
    }
}

#[test]
fn a_queue_whose_former_borrower_writes_to_the_owner_word_is_synced() {
    if let Some(lab) = Lab::new(Kind::Xdp(XdpMode::Native)) {
        let (mut port, socket) = (lab.open(), lab.socket());
        let lender = port.queues[0].lender().unwrap();
        let words = lender.lend(7).unwrap().words;
        lender.revoke();
        let words = AttachedWords::<2>::attach(&lab.region, words).unwrap();
        for number in 1..3 {
            words.word(0, 0).store(7, Ordering::Relaxed);
            words.word(1, 0).store(7, Ordering::Relaxed);
            lab.exchange(&mut port, &socket, number);
        }
        lab.assert_what_waits_arrives(&mut port, &socket);
        lab.close(port);
    }
}

#[test]
fn room_in_a_ring_of_an_interface_that_is_down_is_waited_for_without_spinning() {
    Lab::each(|lab| {
        let (mut port, socket) = (lab.open(), lab.socket());
        lab.exchange(&mut port, &socket, 1);
        lab.down();
        let frame = lab.frame(2);
        while port.queues[0].rings().tx.push(&frame) {}
        port.tx_sync().unwrap();
        assert_eq!(port.stats().in_flight, 63);
        let spent = looks(&mut port, Interest::TX);
        assert!(spent < MAX_POLLS_ASLEEP, "{:?} spins: {spent}", lab.kind);
        lab.up();
        let mut waiter = Waiter::for_ports([&port], WaitStrategy::Sleep).unwrap();
        let mut wait = || waiter.wait_ports(&mut [&mut port], Interest::TX, Some(TIMEOUT)).unwrap();
        while match wait() {
            WaitOutcome::Ready => false,
            WaitOutcome::Interrupted => true,
            WaitOutcome::Timeout => panic!("{:?}: no room", lab.kind),
        } {}
        assert_eq!(lab.arriving(&mut port, &socket, 63), [2; 63]);
        lab.close(port);
    });
}

#[test]
fn an_interface_that_is_down_is_opened_and_starts_when_it_comes_up() {
    Lab::each(|lab| {
        let socket = lab.socket();
        lab.down();
        let mut port = lab.open();
        assert_eq!(port.info.mode.get("link"), Some("down"), "{:?}", lab.kind);
        lab.send(&mut port, 10..12);
        assert!(looks(&mut port, Interest::RX) < MAX_POLLS_ASLEEP, "{:?} spins", lab.kind);
        lab.up();
        assert_eq!(lab.arriving(&mut port, &socket, 2), [10, 11]);
        lab.exchange(&mut port, &socket, 1);
        lab.close(port);
    });
}

#[test]
fn an_interface_that_is_removed_ends_the_port_whether_it_is_down_or_up() {
    for first_down in [true, false] {
        Lab::each(|lab| {
            let mut port = lab.open();
            if first_down {
                lab.down();
                assert!(looks(&mut port, Interest::RX) < MAX_POLLS_ASLEEP, "{:?} spins", lab.kind);
            }
            lab.here.ip("link del va");
            let error = until_it_ends(&mut port);
            assert!(matches!(error.cause, RunCause::Vanished), "{:?}: {error}", lab.kind);
            lab.close(port);
        });
    }
}

#[test]
fn an_interface_that_goes_down_ends_a_port_that_is_to_end() {
    Lab::each(|lab| {
        let options = OpenOptions { exit_on_link_down: true, ..OpenOptions::default() };
        let mut port = lab.try_open(&options).unwrap();
        lab.down();
        let error = until_it_ends(&mut port);
        assert!(matches!(error.cause, RunCause::WentDown), "{:?}: {error}", lab.kind);
        lab.close(port);
        let error = lab.try_open(&options).unwrap_err();
        assert_eq!(
            (error.code(), error.help().as_deref()),
            ("SR0103", Some("bring it up: ip link set va up"))
        );
    });
}

#[test]
fn a_port_of_several_queues_is_opened_on_an_interface_that_is_down() {
    for kind in [Kind::Packet, Kind::Xdp(XdpMode::Native)] {
        let (Some(here), Some(peer)) = (Namespace::new(), Namespace::new()) else { return };
        here.cable("va", &peer, "vb", "numtxqueues 3 numrxqueues 3");
        here.ip("link set va down");
        let Some(lab) = Lab::new(Kind::Packet) else { return };
        let lab = Lab { kind, here, peer, region: lab.region.clone() };
        let port = lab.open();
        assert_eq!((port.queues.len(), port.info.mode.get("link")), (3, Some("down")));
    }
}
