//! The running rig: sends packets, and compares all that comes out of the router.
//!
//! To show that nothing arrives, no waiting time is needed: after the packets of a check, another
//! packet, a *fence*, crosses the router in each direction. Everything that the router sends for
//! earlier packets arrives before the fence.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use slipring_test_support::{FinishedProgram, Namespace, Program};

use crate::host::{Frame, Host, LIMIT, Mac, wait_for_any};
use crate::icmp::IcmpError;
use crate::packet::{ICMP6, Packet, UDP};
pub(crate) use crate::topology::{
    Addresses, Setup, Subject, families, host_mac, ip, router_mac, set, v4, v6,
    wait_for_own_addresses,
};
use crate::topology::{SLIPRING, launch, start};

/// The running rig.
pub(crate) struct Rig {
    pub(crate) subject: Subject,
    flags: String,
    // Dropped first: the program must end before its interfaces are removed.
    program: RefCell<Option<Program>>,
    pub(crate) a: Host,
    pub(crate) b: Host,
    c: Option<Host>,
    pub(crate) router: Namespace,
    /// Number of fences sent so far.
    fences: Cell<u32>,
    run_dir: tempfile::TempDir,
}

/// An IP packet that arrived at a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) src: Mac,
    pub(crate) dst: Mac,
    pub(crate) packet: Packet,
}

/// The IP packets that arrived at each host, without fences and the packets of [`is_discovery`].
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) a: Vec<Arrival>,
    pub(crate) b: Vec<Arrival>,
    pub(crate) c: Vec<Arrival>,
    /// The other frames at A, B and C: ARP, neighbour discovery, and what has tags or is not IP.
    pub(crate) resolution: [Vec<Frame>; 3],
}

impl Seen {
    fn counts(&self) -> [usize; 3] {
        [self.a.len(), self.b.len(), self.c.len()]
    }
}

/// The data of fences, which a number follows.
const FENCE: &[u8] = b"fence";

impl Rig {
    /// Starts the router of a setup, and waits until packets of the setup's families cross it both
    /// ways.
    pub(crate) fn start(setup: Setup) -> Self {
        let Setup { subject, router, a, b, c, has_ipv6, flags } = setup;
        let (program, fences) = (RefCell::new(None), Cell::new(0));
        let run_dir = tempfile::tempdir().unwrap();
        let rig = Self { subject, flags, program, a, b, c, router, fences, run_dir };
        rig.start_program();
        rig.wait_until_forwarding(&families()[..1 + usize::from(has_ipv6)]);
        rig
    }

    /// Host C.
    pub(crate) fn c(&self) -> &Host {
        self.c.as_ref().expect("the check called `with_c`")
    }

    fn hosts(&self) -> Vec<&Host> {
        [&self.a, &self.b].into_iter().chain(&self.c).collect()
    }

    /// Starts `slipring route`, unless the subject is the kernel, and waits until it forwards.
    pub(crate) fn start_program(&self) {
        let program = launch(&self.router, self.subject, &self.words(""), self.run_dir.path());
        *self.program.borrow_mut() = program;
    }

    /// Starts `slipring route` with further flags, without waiting.
    pub(crate) fn launch_program(&self, flags: &str) -> Program {
        let program = start(&self.router, self.subject, &self.words(flags), self.run_dir.path());
        program.expect("the subject is a program")
    }

    /// Starts `slipring route` with these arguments only.
    pub(crate) fn launch_with(&self, words: &str) -> Program {
        let program = start(&self.router, self.subject, words, self.run_dir.path());
        program.expect("the subject is a program")
    }

    /// The interfaces and flags of the program.
    fn words(&self, more: &str) -> String {
        let ifnames = if self.c.is_some() { "e0 e1 e2" } else { "e0 e1" };
        format!("{ifnames} {} {more}", self.flags)
    }

    /// Asks the running program with `slipring route ctl`; returns its only answer.
    pub(crate) fn ask(&self, words: &[&str]) -> Value {
        let ended = self.tell(&[words, &["--json"]].concat()).well();
        let document: Value = serde_json::from_str(&ended.stdout).expect("one document");
        document["answer"].clone()
    }

    /// The run directory of the program.
    pub(crate) fn run_dir(&self) -> &Path {
        self.run_dir.path()
    }

    /// Runs `slipring route ctl` with these arguments.
    pub(crate) fn tell(&self, words: &[&str]) -> FinishedProgram {
        self.start_ctl(words).finish()
    }

    /// Starts `slipring route ctl` with these arguments.
    pub(crate) fn start_ctl(&self, words: &[&str]) -> Program {
        let mut command = Command::new(SLIPRING);
        command.args(["route", "ctl"]).args(words);
        command.env("SLIPRING_RUN", self.run_dir.path());
        Program::launch(&self.router, command)
    }

    /// Takes the running program out of the rig.
    pub(crate) fn take_program(&self) -> Program {
        self.program.borrow_mut().take().expect("the subject is a program")
    }

    /// Runs lines of `ip` in the router's namespace.
    pub(crate) fn ip(&self, lines: &str) {
        self.router.ip_batch(lines);
    }

    /// Repeats `attempt` until it returns a value. Used after changes of the kernel's tables,
    /// because a router that mirrors them has the change a moment later. Each attempt waits for
    /// frames, so this does not spin.
    #[track_caller]
    pub(crate) fn until<T>(&self, attempt: impl Fn() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = attempt() {
                return found;
            }
            assert!(start.elapsed() < LIMIT, "the router does not follow the change");
        }
    }

    /// Sends fences until they arrive: in these families, from A and from B.
    fn wait_until_forwarding(&self, families: &[Addresses]) {
        for family in families {
            for (from, to, src, dst) in
                [(&self.a, &self.b, family.a, family.b), (&self.b, &self.a, family.b, family.a)]
            {
                self.pass_fence(&mut Seen::default(), from, to, src, dst);
            }
        }
    }

    /// Waits until as many packets as in `want` have arrived at A, B and C, and then until a packet
    /// has crossed the router in each direction. All packets that the router sends for earlier
    /// packets have arrived then. Returns what has arrived.
    #[track_caller]
    pub(crate) fn observe(&self, want: [usize; 3]) -> Seen {
        self.observe_until(&format!("{want:?} packets at A, B, C"), |seen| {
            seen.counts().iter().zip(want).all(|(count, want)| *count >= want)
        })
    }

    /// Like [`Self::observe`], but waits until `is_enough` returns true for the frames that have
    /// arrived. A message of failure describes them as `what`.
    #[track_caller]
    pub(crate) fn observe_until(&self, what: &str, is_enough: impl Fn(&Seen) -> bool) -> Seen {
        let mut seen = Seen::default();
        let start = Instant::now();
        loop {
            self.collect(&mut seen, |_| false);
            if is_enough(&seen) {
                break;
            }
            assert!(start.elapsed() < LIMIT, "want {what}: {seen:?}");
            wait_for_any(&self.hosts(), LIMIT);
        }
        let family = v4();
        self.pass_fence(&mut seen, &self.a, &self.b, family.a, family.b);
        self.pass_fence(&mut seen, &self.b, &self.a, family.b, family.a);
        seen
    }

    /// Sends a fence until it arrives. Collects all packets that arrive meanwhile.
    fn pass_fence(&self, seen: &mut Seen, from: &Host, to: &Host, src: IpAddr, dst: IpAddr) {
        self.fences.set(self.fences.get() + 1);
        let fence = Packet::udp(src, dst, &[FENCE, &self.fences.get().to_be_bytes()].concat());
        let (start, expected) = (Instant::now(), fence.forwarded());
        from.send(&fence);
        let mut sent = Instant::now();
        while !self.collect(seen, |arrival| arrival.packet == expected && arrival.dst == to.mac) {
            assert!(start.elapsed() < LIMIT, "{fence:?} does not cross the router: {seen:?}");
            // A link that has just come up may lose a frame, so the fence is sent again.
            if sent.elapsed() > Duration::from_millis(100) {
                from.send(&fence);
                sent = Instant::now();
            }
            wait_for_any(&self.hosts(), Duration::from_millis(100));
        }
    }

    /// Takes the packets that have arrived at the hosts. Returns whether `is_awaited` returned true
    /// for a fence.
    fn collect(&self, seen: &mut Seen, is_awaited: impl Fn(&Arrival) -> bool) -> bool {
        let mut found = false;
        let into = [&mut seen.a, &mut seen.b, &mut seen.c];
        let into = into.into_iter().zip(&mut seen.resolution);
        for (host, (arrivals, resolution)) in self.hosts().into_iter().zip(into) {
            while let Some(frame) = host.try_receive() {
                let packet = match frame.packet() {
                    Some(packet) if !is_discovery(&packet) => packet,
                    _ => {
                        resolution.push(frame);
                        continue;
                    }
                };
                let fence = is_fence(&packet);
                let arrival = Arrival { src: frame.src, dst: frame.dst, packet };
                found |= fence && is_awaited(&arrival);
                if !fence {
                    arrivals.push(arrival);
                }
            }
        }
        found
    }

    /// Asserts that exactly these packets, sent by A, arrive at B in this order, with one hop fewer
    /// and the MAC addresses of the last link, and that nothing else happens.
    #[track_caller]
    pub(crate) fn forwards(&self, packets: &[Packet]) {
        let expected: Vec<_> = packets.iter().map(Packet::forwarded).collect();
        packets.iter().for_each(|packet| self.a.send(packet));
        self.only_b_receives(&expected);
    }

    /// Like [`Self::forwards`], but the packets may arrive in any order. No two packets may be
    /// equal.
    #[track_caller]
    pub(crate) fn forwards_in_any_order(&self, packets: &[Packet]) {
        packets.iter().for_each(|packet| self.a.send(packet));
        let mut seen = self.observe([0, packets.len(), 0]);
        let place = |arrival: &Arrival| {
            packets.iter().position(|packet| packet.forwarded() == arrival.packet)
        };
        seen.b.sort_by_key(place);
        let expected: Vec<_> = packets.iter().map(Packet::forwarded).collect();
        self.is_only_at_b(&seen, &expected);
    }

    /// Asserts that exactly these packets arrive at B, and that no packets arrive at A and C.
    #[track_caller]
    pub(crate) fn only_b_receives(&self, expected: &[Packet]) {
        self.is_only_at_b(&self.observe([0, expected.len(), 0]), expected);
    }

    #[track_caller]
    fn is_only_at_b(&self, seen: &Seen, expected: &[Packet]) {
        let (src, dst) = (self.b.router_mac, self.b.mac);
        let expected: Vec<_> =
            expected.iter().map(|packet| Arrival { src, dst, packet: packet.clone() }).collect();
        assert_eq!(seen.b, expected);
        assert_eq!((&seen.a[..], &seen.c[..]), (&[][..], &[][..]));
    }

    /// Sends packets from A; returns `Some` if all arrive at B with B's MAC address. For
    /// [`Self::until`].
    pub(crate) fn all_arrive_at_b(&self, packets: &[Packet]) -> Option<()> {
        packets.iter().for_each(|packet| self.a.send(packet));
        let seen = self.observe([0; 3]);
        let arrived = seen.b.iter().filter(|arrival| arrival.dst == self.b.mac);
        let arrived: Vec<_> = arrived.map(|arrival| arrival.packet.clone()).collect();
        let expected: Vec<_> = packets.iter().map(Packet::forwarded).collect();
        (arrived == expected).then_some(())
    }

    /// Asserts that no packet arrives anywhere after A has sent these packets.
    #[track_caller]
    pub(crate) fn ignores(&self, packets: &[Packet]) {
        packets.iter().for_each(|packet| self.a.send(packet));
        self.is_silent();
    }

    /// Asserts that nothing has arrived so far, and that nothing arrives in answer to earlier
    /// packets.
    #[track_caller]
    pub(crate) fn is_silent(&self) {
        assert_eq!(self.observe([0; 3]).counts(), [0; 3]);
    }

    /// Sends a packet from A that must be answered by one ICMP error from the router's address on
    /// that link, and not forwarded. Returns the error.
    #[track_caller]
    pub(crate) fn refuses(&self, packet: &Packet) -> IcmpError {
        self.a.send(packet);
        let error = self.only_error();
        let family = if packet.src.is_ipv4() { v4() } else { v6() };
        assert_eq!(error.packet.src, family.router_a, "{error:?}");
        error.assert_quotes(packet);
        error
    }

    /// Waits for one ICMP error at A, and returns it; nothing else may arrive.
    #[track_caller]
    pub(crate) fn only_error(&self) -> IcmpError {
        let mut seen = self.observe([1, 0, 0]);
        assert_eq!(seen.counts(), [1, 0, 0], "{seen:?}");
        let arrival = seen.a.remove(0);
        assert_eq!((arrival.src, arrival.dst), (self.a.router_mac, self.a.mac), "{arrival:?}");
        IcmpError::parse(arrival.packet)
    }
}

fn is_fence(packet: &Packet) -> bool {
    packet.proto == UDP && packet.payload.len() > 8 && packet.payload[8..].starts_with(FENCE)
}

/// Whether a packet is one that an IPv6 router sends by itself: multicast listener, router and
/// neighbour discovery.
fn is_discovery(packet: &Packet) -> bool {
    packet.proto == ICMP6 && matches!(packet.payload[0], 130..=136 | 143)
}
