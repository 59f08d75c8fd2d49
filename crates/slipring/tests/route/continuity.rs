//! A stream of numbered datagrams while the router ends, starts, is stopped or dies: either the
//! router or the kernel forwards each datagram, so none arrives twice. None is lost either, except
//! datagrams that a killed router had not read.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use slipring_test_support::Program;

use crate::host::{LIMIT, wait_for_any};
use crate::lifecycle::{kill, pause};
use crate::packet::Packet;
use crate::rig::{Rig, Setup, families, ip, v4};
use crate::vlan::ONE;

crate::program_checks! {
    for crate::rig::Setup:
    the_end_of_a_router_loses_and_doubles_no_packet,
    the_end_of_a_router_with_a_busy_vlan_loses_and_doubles_no_packet,
    the_start_of_a_router_loses_and_doubles_no_packet,
    a_router_that_is_stopped_and_continued_loses_and_doubles_no_packet,
    a_router_that_is_killed_doubles_no_packet,
}

/// Numbered datagrams of both families from A to B.
pub(crate) struct Stream<'r> {
    rig: &'r Rig,
    sent: u32,
    /// The numbers of datagrams in the order of their arrival.
    arrived: Vec<u32>,
    /// Number of datagrams that need not arrive any more.
    given_up: u32,
}

impl<'r> Stream<'r> {
    /// Maximum number of datagrams in flight: fewer than a ring holds, so that no queue overflows
    /// on a busy machine.
    const WINDOW: u32 = 128;
    /// Number of datagrams that are sent before arrivals are checked.
    const BURST: u32 = 16;

    pub(crate) fn new(rig: &'r Rig) -> Self {
        Self { rig, sent: 0, arrived: Vec::new(), given_up: 0 }
    }

    fn packet(number: u32) -> Packet {
        let net = families()[number as usize % 2];
        Packet::udp(net.a, net.b, &[b"stream", &number.to_be_bytes()[..]].concat())
    }

    /// Sends datagrams, whatever number is in flight.
    pub(crate) fn send(&mut self, count: u32) {
        for _ in 0..count {
            self.rig.a.send(&Self::packet(self.sent));
            self.sent += 1;
        }
    }

    /// Takes the datagrams that have arrived; returns their number.
    pub(crate) fn collect(&mut self) -> usize {
        let before = self.arrived.len();
        self.collect_until(|_| false);
        self.arrived.len() - before
    }

    /// Takes the datagrams that have arrived. Returns whether `is_last` returned true for a packet.
    fn collect_until(&mut self, is_last: impl Fn(&Packet) -> bool) -> bool {
        let mut seen = false;
        while let Some(frame) = self.rig.b.try_receive() {
            let Some(packet) = frame.packet() else { continue };
            seen |= is_last(&packet);
            let number = packet.payload.get(8..).and_then(|data| data.strip_prefix(b"stream"));
            if let Some(number) = number {
                self.arrived.push(u32::from_be_bytes(number.try_into().unwrap()));
            }
        }
        seen
    }

    pub(crate) fn on_their_way(&self) -> u32 {
        (self.sent - self.given_up).saturating_sub(self.arrived.len() as u32)
    }

    /// Waits a moment for a datagram, unless one is already there. Returns 0 if none arrives.
    fn wait(&mut self) -> usize {
        if self.collect() > 0 {
            return 1;
        }
        wait_for_any(&[&self.rig.b], Duration::from_millis(10));
        self.collect()
    }

    /// Sends as fast as datagrams arrive, until `is_over` returns true.
    #[track_caller]
    pub(crate) fn flow_until(&mut self, what: &str, mut is_over: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !is_over(self) {
            if self.on_their_way() + Self::BURST <= Self::WINDOW {
                self.send(Self::BURST);
                self.collect();
            } else {
                self.wait();
            }
            assert!(
                start.elapsed() < LIMIT,
                "{what}: {} sent, {} arrived",
                self.sent,
                self.arrived.len()
            );
        }
    }

    /// Sends this number of datagrams, as fast as they arrive.
    #[track_caller]
    pub(crate) fn flow(&mut self, count: u32) {
        let end = self.sent + count;
        self.flow_until("a stream", |stream| stream.sent >= end);
    }

    /// Sends datagrams, even beyond the window, until one arrives. This shows that the kernel
    /// forwards in place of a stopped router.
    #[track_caller]
    pub(crate) fn push_until_arrival(&mut self) {
        let start = Instant::now();
        self.collect();
        while self.wait() == 0 {
            self.send(1);
            assert!(start.elapsed() < LIMIT, "nothing arrives");
        }
    }

    /// Accepts that the datagrams in flight do not arrive, because they were in a router that was
    /// killed.
    pub(crate) fn give_up_window(&mut self) {
        self.given_up += Self::WINDOW;
    }

    /// Waits until all datagrams have arrived, except those given up, and then one more packet, the
    /// fence. If the fence has arrived and other datagrams have not, gives up after 5 seconds.
    fn end(&mut self) {
        let fence = Packet::udp(v4().a, v4().b, b"the last one");
        let expected = fence.forwarded();
        let start = Instant::now();
        let mut seen = false;
        while self.on_their_way() > 0 || !seen {
            if start.elapsed() > Duration::from_secs(5) && seen {
                return;
            }
            self.rig.a.send(&fence);
            wait_for_any(&[&self.rig.b], Duration::from_millis(100));
            seen |= self.collect_until(|packet| *packet == expected);
        }
    }

    /// Waits until all datagrams have arrived, except as many as `lost` returns. Asserts that none
    /// of these arrives later, and that none arrives twice.
    #[track_caller]
    pub(crate) fn ends_with_losses(&mut self, lost: impl Fn() -> u64) {
        let start = Instant::now();
        while self.arrived.len() as u64 + lost() < u64::from(self.sent) {
            self.wait();
            let (sent, arrived) = (self.sent, self.arrived.len());
            assert!(start.elapsed() < LIMIT, "{sent} sent, {arrived} arrived, {} lost", lost());
        }
        let fence = Packet::udp(v4().a, v4().b, b"the last one");
        self.rig.a.send(&fence);
        let expected = fence.forwarded();
        while !self.collect_until(|packet| *packet == expected) {
            wait_for_any(&[&self.rig.b], Duration::from_millis(100));
            assert!(start.elapsed() < LIMIT, "the last packet does not arrive");
        }
        assert_eq!(self.arrived.len() as u64 + lost(), u64::from(self.sent));
        self.arrived.sort_unstable();
        let arrived = self.arrived.len();
        self.arrived.dedup();
        assert_eq!(self.arrived.len(), arrived, "some have arrived twice");
    }

    /// Asserts that no datagram has arrived twice, and that no more are missing than were given up.
    /// Returns the numbers of the datagrams in the order of their arrival.
    #[track_caller]
    pub(crate) fn each_has_arrived_once(mut self) -> Vec<u32> {
        self.end();
        let mut sorted = self.arrived.clone();
        sorted.sort_unstable();
        let twice: Vec<_> =
            sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        let missing: Vec<_> =
            (0..self.sent).filter(|number| sorted.binary_search(number).is_err()).collect();
        assert!(
            twice.is_empty() && missing.len() <= self.given_up as usize,
            "of {}, {} arrived twice: {twice:?}, {} did not: {missing:?}",
            self.sent,
            twice.len(),
            missing.len()
        );
        self.arrived
    }
}

/// Whether the router has reported that it forwards.
pub(crate) fn is_forwarding(program: &Program) -> bool {
    let output = program.so_far();
    [output.stdout, output.stderr].iter().any(|text| text.contains("forwarding"))
}

/// A former defect with packet sockets: after the BPF program that keeps frames from the kernel was
/// detached, the filters of the sockets still gave frames to workers. So kernel and workers both
/// forwarded these frames. Frames in the rings were lost.
fn the_end_of_a_router_loses_and_doubles_no_packet(setup: Setup) {
    let rig = setup.start();
    let program = rig.take_program();
    let mut stream = Stream::new(&rig);
    stream.flow(1000);
    program.signal(Signal::INT);
    stream.flow_until("the end of the router", |_| program.has_ended());
    program.finish().well();
    stream.flow(1000);
    stream.each_has_arrived_once();
}

/// When a router ends, the kernel takes over its interfaces, except a VLAN that only the router
/// has. While the router ends, such a VLAN still gets packets.
fn the_end_of_a_router_with_a_busy_vlan_loses_and_doubles_no_packet(setup: Setup) {
    let rig = crate::vlan::start(setup, "");
    let program = rig.take_program();
    let of_vlan = Packet::udp(ip(ONE.host[0]), v4().a, b"a busy VLAN");
    let mut stream = Stream::new(&rig);
    stream.flow(1000);
    program.signal(Signal::INT);
    stream.flow_until("the end of the router", |_| {
        (0..Stream::BURST).for_each(|_| ONE.send(&rig, &of_vlan));
        program.has_ended()
    });
    program.finish().well();
    stream.flow(1000);
    stream.each_has_arrived_once();
}

fn the_start_of_a_router_loses_and_doubles_no_packet(setup: Setup) {
    let rig = setup.start();
    rig.take_program().stop(Signal::INT).well();
    let mut stream = Stream::new(&rig);
    stream.flow(1000);
    let program = rig.launch_program("");
    stream.flow_until("a running router", |_| is_forwarding(&program));
    stream.flow(1000);
    program.stop(Signal::INT).well();
    stream.each_has_arrived_once();
}

/// Frames that wait in a ring while the kernel forwards are forwarded when the router continues:
/// late, but once.
fn a_router_that_is_stopped_and_continued_loses_and_doubles_no_packet(setup: Setup) {
    let rig = setup.start();
    let program = rig.take_program();
    let mut stream = Stream::new(&rig);
    for _ in 0..3 {
        stream.flow(1000);
        pause(&program);
        stream.push_until_arrival();
        stream.send(Stream::WINDOW);
        program.signal(Signal::CONT);
        stream.flow(1000);
    }
    program.stop(Signal::INT).well();
    stream.each_has_arrived_once();
}

/// Datagrams that the router has not read are lost: at most those in flight.
fn a_router_that_is_killed_doubles_no_packet(setup: Setup) {
    let rig = setup.start();
    let mut stream = Stream::new(&rig);
    for _ in 0..3 {
        stream.flow(1000);
        kill(&rig);
        stream.give_up_window();
        stream.push_until_arrival();
        rig.start_program();
        stream.flow(1000);
    }
    rig.take_program().stop(Signal::INT).well();
    stream.each_has_arrived_once();
}
