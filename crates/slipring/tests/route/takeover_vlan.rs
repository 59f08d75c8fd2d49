//! A second router that takes over from the running one, which has made VLANs. Numbered datagrams
//! cross a VLAN in both directions and families meanwhile.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use slipring_test_support::{Program, eventually};

use crate::continuity::is_forwarding;
use crate::host::{Frame, LIMIT, wait_for_any};
use crate::packet::Packet;
use crate::rig::{Rig, Setup, families, ip};
use crate::takeover::{request_of, send};
use crate::vlan::{ONE, TWO, start, until_addresses_are_known};
use crate::vlan_workers::TwoQueues;

crate::program_checks! {
    for crate::rig::Setup:
    a_takeover_loses_no_packet_of_a_vlan_and_keeps_its_device,
    a_packet_that_waits_for_a_neighbour_of_a_vlan_moves,
    a_vlan_that_the_new_router_lacks_ends_with_the_takeover,
    a_takeover_adds_a_vlan,
    a_killed_successor_leaves_the_vlan_to_the_running_router,
    after_the_end_of_a_killed_router_no_device_stays_without_a_router,
    a_takeover_that_is_given_up_at_its_last_step_leaves_the_vlan_working,
    a_device_that_was_deleted_is_made_again_by_the_new_router,
    what_a_flooded_vlan_loses_in_a_takeover_is_counted,
}

crate::instances! {
    flooded_xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    what_finds_no_space_during_a_takeover_is_counted
}

crate::instances! {
    two_packet: crate::vlan_workers::TwoQueues = crate::rig::Subject::Slipring("packet"),
    threads_take_over_the_queues_of_a_vlan
}

crate::instances! {
    two_xsk: crate::vlan_workers::TwoQueues = crate::rig::Subject::Slipring("xsk"),
    threads_take_over_the_queues_of_a_vlan
}

/// Numbered datagrams between A and the host of VLAN 100. The host answers requests for its
/// addresses.
struct VlanStream<'r> {
    rig: &'r Rig,
    sent: u32,
    arrived: Vec<u32>,
    /// Number of datagrams that need not arrive.
    given_up: u32,
    /// Number of requests for addresses of the host.
    requests: u32,
    /// Number of frames that the host has sent.
    frames: u64,
}

impl<'r> VlanStream<'r> {
    /// Maximum number of datagrams in flight.
    const WINDOW: u32 = 64;
    const BURST: u32 = 16;

    fn new(rig: &'r Rig) -> Self {
        Self { rig, sent: 0, arrived: Vec::new(), given_up: 0, requests: 0, frames: 0 }
    }

    fn send_next(&mut self) {
        let family = self.sent as usize % 2;
        let (a, host) = (families()[family].a, ip(ONE.host[family]));
        let data = [b"stream", &self.sent.to_be_bytes()[..]].concat();
        let ports = [1000 + self.sent as u16 % 64, 53];
        if (self.sent / 2).is_multiple_of(2) {
            self.rig.a.send(&Packet::udp_ports(a, host, ports, &data));
        } else {
            ONE.send(self.rig, &Packet::udp_ports(host, a, ports, &data));
            self.frames += 1;
        }
        self.sent += 1;
    }

    fn note(&mut self, packet: &Packet) {
        let number = packet.payload.get(8..).and_then(|data| data.strip_prefix(b"stream"));
        if let Some(number) = number {
            self.arrived.push(u32::from_be_bytes(number.try_into().unwrap()));
        }
    }

    fn collect(&mut self) {
        while let Some(frame) = self.rig.a.try_receive() {
            frame.packet().iter().for_each(|packet| self.note(packet));
        }
        while let Some(frame) = self.rig.b.try_receive() {
            self.answer(&frame);
            if let Some(packet) = ONE.untagged(&frame).and_then(|frame| frame.packet()) {
                self.note(&packet);
            }
        }
    }

    fn answer(&mut self, frame: &Frame) {
        for host in ONE.host.map(ip) {
            if let Some(asker) = ONE.requested(frame, host) {
                ONE.answer(self.rig, host, asker);
                self.requests += 1;
                self.frames += 1;
            }
        }
    }

    fn on_their_way(&self) -> u32 {
        (self.sent - self.given_up).saturating_sub(self.arrived.len() as u32)
    }

    /// Sends as fast as datagrams arrive, until `is_over` returns true.
    #[track_caller]
    fn flow_until(&mut self, what: &str, mut is_over: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !is_over(self) {
            if self.on_their_way() + Self::BURST <= Self::WINDOW {
                (0..Self::BURST).for_each(|_| self.send_next());
            } else {
                wait_for_any(&[&self.rig.a, &self.rig.b], Duration::from_millis(10));
            }
            self.collect();
            let (sent, arrived) = (self.sent, self.arrived.len());
            assert!(start.elapsed() < LIMIT, "{what}: {sent} sent, {arrived} arrived");
        }
    }

    #[track_caller]
    fn flow(&mut self, count: u32) {
        let end = self.sent + count;
        self.flow_until("a stream", |stream| stream.sent >= end);
    }

    /// Waits until all datagrams have arrived, except as many as were given up. Asserts that none
    /// has arrived twice.
    #[track_caller]
    fn each_has_arrived_once(&mut self) {
        let start = Instant::now();
        while self.on_their_way() > 0 {
            wait_for_any(&[&self.rig.a, &self.rig.b], Duration::from_millis(10));
            self.collect();
            let (sent, arrived) = (self.sent, self.arrived.len());
            assert!(start.elapsed() < LIMIT, "{sent} sent, {arrived} arrived");
        }
        let mut sorted = self.arrived.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), self.arrived.len(), "some have arrived twice");
    }
}

/// Lets datagrams flow until the next router forwards and the running one has ended.
fn take_over(running: Program, next: Program, stream: &mut VlanStream<'_>) -> Program {
    let lacks = |program: &Program| {
        assert!(!program.has_ended(), "{:#?}", program.so_far());
        !is_forwarding(program)
    };
    stream.flow_until("a takeover", |_| !lacks(&next) && running.has_ended());
    running.finish().well();
    next
}

/// What `ip` shows of the device: its index, addresses and routes, and how often its parent was
/// made promiscuous.
fn device(rig: &Rig) -> String {
    let link = rig.router.ip("-o -d link show dev e1.100");
    let parent = rig.router.ip("-o -d link show dev e1");
    let promiscuity = |text: &str| {
        let mut words = text.split_ascii_whitespace().skip_while(|word| *word != "promiscuity");
        words.nth(1).unwrap_or_default().to_owned()
    };
    let of = [
        "-4 -o addr show dev e1.100",
        "-6 -o addr show dev e1.100",
        "-4 route show dev e1.100",
        "-6 route show dev e1.100",
    ]
    .map(|line| rig.router.ip(line));
    let index = link.split(':').next().unwrap_or_default().to_owned();
    format!("{index} {}\n{}", promiscuity(&parent), of.concat())
}

/// The count of frames that arrived in VLAN 100.
fn counted(rig: &Rig) -> u64 {
    let row = rig.ask(&["interface", "e1.100"])["interfaces"][0].clone();
    let sum = |of: &Value| {
        let counts =
            of.as_object().unwrap().iter().filter(|(name, _)| *name != "ring-full-from-kernel");
        counts.map(|(_, count)| count.as_u64().unwrap()).sum::<u64>()
    };
    row["forwarded"]["packets"].as_u64().unwrap() + sum(&row["passed"]) + sum(&row["dropped"])
}

fn add_routes(rig: &Rig) {
    rig.ip("route add 10.77.0.0/16 via 10.100.0.9 dev e1.100
            route add fd77::/32 via fd64::9 dev e1.100");
}

fn a_takeover_loses_no_packet_of_a_vlan_and_keeps_its_device(setup: Setup) {
    let rig = start(setup, "");
    add_routes(&rig);
    let mut stream = VlanStream::new(&rig);
    stream.flow(400);
    stream.each_has_arrived_once();
    let (device_before, counted_before, frames) = (device(&rig), counted(&rig), stream.frames);
    let mut running = rig.take_program();
    for _ in 0..3 {
        let next = rig.launch_program("--takeover");
        running = take_over(running, next, &mut stream);
        stream.flow(200);
    }
    stream.each_has_arrived_once();
    assert_eq!(device(&rig), device_before);
    eventually("the count of all frames", || {
        let (of_routers, sent) = (counted(&rig) - counted_before, stream.frames - frames);
        assert!(of_routers <= sent, "{of_routers} counted, {sent} sent");
        (of_routers == sent).then_some(())
    });
    running.stop(Signal::INT).well();
}

/// The new router solicits the neighbour again, and forwards the packet when it answers.
fn a_packet_that_waits_for_a_neighbour_of_a_vlan_moves(setup: Setup) {
    let rig = start(setup, "");
    let packets: Vec<_> = families()
        .iter()
        .zip(ONE.host.map(ip))
        .map(|(net, host)| Packet::udp(net.a, host, b"waits"))
        .collect();
    packets.iter().for_each(|packet| rig.a.send(packet));
    for host in ONE.host.map(ip) {
        ONE.request(&rig, host);
    }
    let running = rig.take_program();
    let next = rig.launch_program("--takeover");
    next.wait_for_text("forwarding");
    running.finish().well();
    for (packet, host) in packets.iter().zip(ONE.host.map(ip)) {
        ONE.answer(&rig, host, ONE.request(&rig, host));
        ONE.receive(&rig, &packet.forwarded());
    }
    let seen = rig.observe([0; 3]);
    let again = seen.resolution[1].iter().filter_map(|frame| ONE.untagged(frame)?.packet());
    let again: Vec<_> = again.filter(|packet| packet.payload.ends_with(b"waits")).collect();
    assert_eq!(again, []);
    next.stop(Signal::INT).well();
}

fn exists(rig: &Rig, name: &str) -> bool {
    rig.router.ip("-o link show").contains(&format!(" {name}: "))
}

fn until_devices_have_ended(rig: &Rig) {
    eventually("the end of the devices", || {
        (!exists(rig, "e1.100") && !exists(rig, "e1.200.7")).then_some(())
    });
}

fn a_vlan_that_the_new_router_lacks_ends_with_the_takeover(setup: Setup) {
    let rig = start(setup, "");
    let mut stream = VlanStream::new(&rig);
    stream.flow(200);
    stream.each_has_arrived_once();
    let a = families()[0].a;
    let [lacking, kept] = [&TWO, &ONE].map(|vlan| Packet::udp(ip(vlan.host[0]), a, b"of a VLAN"));
    // The queue of the parent gets both, so the second one does not overtake the first one.
    let arrivals = |count| {
        TWO.send(&rig, &lacking);
        ONE.send(&rig, &kept);
        let arrived = rig.observe([count, 0, 0]).a.into_iter();
        arrived.map(|arrival| arrival.packet).collect::<Vec<_>>()
    };
    assert_eq!(arrivals(2), [lacking.forwarded(), kept.forwarded()]);
    let next = rig.launch_with("e0 e1 e1.100 --takeover");
    let next = take_over(rig.take_program(), next, &mut stream);
    assert!(!exists(&rig, "e1.200.7") && exists(&rig, "e1.100"));
    stream.flow(200);
    stream.each_has_arrived_once();
    assert_eq!(arrivals(1), [kept.forwarded()]);
    next.stop(Signal::INT).well();
}

fn a_takeover_adds_a_vlan(setup: Setup) {
    let rig = setup.start();
    let first = rig.launch_with("e0 e1 e1.100 --takeover");
    first.wait_for_text("forwarding");
    rig.take_program().finish().well();
    rig.ip("addr add 10.100.0.1/24 dev e1.100
            addr add fd64::1/64 dev e1.100 nodad");
    crate::rig::wait_for_own_addresses(&rig.router);
    until_addresses_are_known(&rig, &[&ONE]);
    let mut stream = VlanStream::new(&rig);
    stream.flow(200);
    let next = rig.launch_with("e0 e1 e1.200.7 e1.100 --takeover");
    let next = take_over(first, next, &mut stream);
    stream.flow(200);
    stream.each_has_arrived_once();
    rig.ip("addr add 10.200.0.1/16 dev e1.200.7");
    let (a, host) = (families()[0].a, ip(TWO.host[0]));
    let packet = Packet::udp(host, a, b"of the new VLAN");
    rig.until(|| {
        TWO.send(&rig, &packet);
        rig.observe([0; 3]).a.iter().any(|it| it.packet == packet.forwarded()).then_some(())
    });
    next.stop(Signal::INT).well();
}

fn a_killed_successor_leaves_the_vlan_to_the_running_router(setup: Setup) {
    let rig = start(setup, "");
    add_routes(&rig);
    let running = rig.take_program();
    let mut stream = VlanStream::new(&rig);
    stream.flow(100);
    stream.each_has_arrived_once();
    let before = device(&rig);
    for step in 0..8 {
        let next = rig.launch_program("--takeover");
        stream.flow(step * 40);
        if is_forwarding(&next) || running.has_ended() {
            next.signal(Signal::KILL);
            next.finish();
            running.finish();
            until_devices_have_ended(&rig);
            return;
        }
        next.signal(Signal::KILL);
        next.finish();
        // With AF_XDP sockets, the running router may have handed over already.
        if let Some(()) = handed_over(&rig, &running) {
            running.finish();
            until_devices_have_ended(&rig);
            return;
        }
        assert_eq!(device(&rig), before);
    }
    stream.flow(200);
    stream.each_has_arrived_once();
    running.stop(Signal::INT).well();
}

/// Whether the running router ends because the takeover was complete.
fn handed_over(rig: &Rig, running: &Program) -> Option<()> {
    eventually("an answer or the end of the running router", || {
        let answer = rig.tell(&["status", "--json"]);
        if running.has_ended() {
            return Some(Some(()));
        }
        (answer.code() == 0 && !running.so_far().stderr.contains("has taken over")).then_some(None)
    })
}

fn after_the_end_of_a_killed_router_no_device_stays_without_a_router(setup: Setup) {
    let rig = start(setup, "");
    for flow in [0, 60, 120] {
        let running = rig.take_program();
        let mut stream = VlanStream::new(&rig);
        stream.flow(100);
        let next = rig.launch_program("--takeover");
        stream.flow(flow);
        running.signal(Signal::KILL);
        running.finish();
        eventually("a takeover or its failure", || {
            (is_forwarding(&next) || next.has_ended()).then_some(())
        });
        if !next.has_ended() {
            assert!(exists(&rig, "e1.100") && exists(&rig, "e1.200.7"));
            next.stop(Signal::INT).well();
        }
        until_devices_have_ended(&rig);
        rig.start_program();
        crate::vlan::address(&rig);
    }
    rig.take_program().stop(Signal::INT).well();
}

/// Acts as a router that takes over, up to the step at which the running router has stopped.
/// Returns the connection. The running router stays stopped until the connection is closed. If it
/// needs BPF programs, which this function does not send, it goes on immediately.
fn stop_by_takeover(rig: &Rig, running: &Program) -> UnixStream {
    let (lines, answer) = send(rig, running, &request_of(rig, 1)).unwrap();
    assert!(answer["ok"].is_object(), "{answer}");
    let mut stream = lines.into_inner();
    tell(&mut stream, "begin");
    let offer = hear(&mut stream);
    assert_eq!(offer["step"], "offer");
    assert_eq!(offer["subinterfaces"]["devices"], json!([["e1.100", 1], ["e1.200.7", 1]]));
    // Each descriptor comes with one byte. Only the bytes are read, so the kernel closes the
    // descriptors.
    let count = |of: &Value| of.as_array().map_or(0, Vec::len);
    let rings = |of: &Value| of.as_array().map_or(0, |of| of.iter().map(|it| count(&it[1])).sum());
    let of_engine = offer["engine"]["interfaces"].as_array();
    let of_engine: usize =
        of_engine.map_or(0, |of| of.iter().map(|it| 1 + count(&it["rings"])).sum());
    let fds = 2 + rings(&offer["subinterfaces"]["wires"]) + of_engine;
    stream.read_exact(&mut vec![0; fds]).unwrap();
    tell(&mut stream, "ready");
    let state = hear(&mut stream);
    assert!(["yours", "refused"].contains(&state["step"].as_str().unwrap()), "{state}");
    stream
}

fn tell(stream: &mut UnixStream, step: &str) {
    let body = json!({ "step": step }).to_string();
    let head = [body.len() as u32, 0].map(u32::to_ne_bytes).concat();
    stream.write_all(&[&head[..], body.as_bytes()].concat()).unwrap();
}

fn hear(stream: &mut UnixStream) -> Value {
    let mut head = [0; 8];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; u32::from_ne_bytes(*head.first_chunk().unwrap()) as usize];
    stream.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn a_takeover_that_is_given_up_at_its_last_step_leaves_the_vlan_working(setup: Setup) {
    let rig = start(setup, "");
    let running = rig.take_program();
    let mut stream = VlanStream::new(&rig);
    stream.flow(100);
    stream.each_has_arrived_once();
    let before = device(&rig);
    for _ in 0..3 {
        let connection = stop_by_takeover(&rig, &running);
        (0..VlanStream::BURST).for_each(|_| stream.send_next());
        connection.shutdown(Shutdown::Both).unwrap();
        stream.flow(100);
    }
    stream.each_has_arrived_once();
    assert_eq!(device(&rig), before);
    running.stop(Signal::INT).well();
}

/// Numbered packets from the host of VLAN 100 to A, however many are in flight.
struct VlanFlood<'r> {
    rig: &'r Rig,
    sent: u64,
    arrived: BTreeSet<u64>,
}

impl VlanFlood<'_> {
    fn send(&mut self, count: u64) {
        let (a, host) = (families()[0].a, ip(ONE.host[0]));
        for _ in 0..count {
            ONE.send(self.rig, &Packet::udp(host, a, &self.sent.to_be_bytes()));
            self.sent += 1;
        }
    }

    fn collect(&mut self) {
        while let Some(frame) = self.rig.a.try_receive() {
            let packet = frame.packet().filter(|packet| packet.src == ip(ONE.host[0]));
            if let Some(packet) = packet {
                let number = u64::from_be_bytes(*packet.payload[8..].first_chunk().unwrap());
                assert!(self.arrived.insert(number), "{number} has arrived twice");
            }
        }
    }

    /// Waits until each packet has arrived or was counted as dropped. Returns how many were
    /// dropped.
    fn end(mut self) -> u64 {
        eventually("the arrival or loss of all", || {
            self.collect();
            let row = &self.rig.ask(&["interface", "e1.100"])["interfaces"][0];
            let dropped = row["dropped"].as_object().unwrap().values();
            let lost: u64 = dropped.map(|count| count.as_u64().unwrap()).sum();
            let (sent, arrived) = (self.sent, self.arrived.len() as u64);
            assert!(arrived + lost <= sent, "{sent} sent, {arrived} arrived, {lost} lost: {row:#}");
            (arrived + lost == sent).then_some(lost)
        })
    }
}

/// While no router reads, the rings of the sockets hold some frames. What they do not hold is lost.
fn what_finds_no_space_during_a_takeover_is_counted(setup: Setup) {
    let rig = start(setup, "");
    let running = rig.take_program();
    let mut flood = VlanFlood { rig: &rig, sent: 0, arrived: BTreeSet::new() };
    let connection = stop_by_takeover(&rig, &running);
    flood.send(3000);
    connection.shutdown(Shutdown::Both).unwrap();
    assert!(flood.end() > 0);
    running.stop(Signal::INT).well();
}

fn what_a_flooded_vlan_loses_in_a_takeover_is_counted(setup: Setup) {
    let rig = start(setup, "");
    let running = rig.take_program();
    let mut flood = VlanFlood { rig: &rig, sent: 0, arrived: BTreeSet::new() };
    let next = rig.launch_program("--takeover");
    let start = Instant::now();
    while !is_forwarding(&next) || !running.has_ended() {
        flood.send(16);
        flood.collect();
        assert!(start.elapsed() < LIMIT && !next.has_ended(), "{:#?}", next.so_far());
    }
    running.finish().well();
    flood.send(1000);
    flood.end();
    next.stop(Signal::INT).well();
}

fn a_device_that_was_deleted_is_made_again_by_the_new_router(setup: Setup) {
    let rig = start(setup, "");
    rig.ip("link del e1.200.7");
    let running = rig.take_program();
    running.wait_for_text("e1.200.7 was deleted");
    let mut stream = VlanStream::new(&rig);
    stream.flow(100);
    let next = rig.launch_program("--takeover");
    let next = take_over(running, next, &mut stream);
    assert!(exists(&rig, "e1.200.7"));
    stream.flow(100);
    stream.each_has_arrived_once();
    next.stop(Signal::INT).well();
}

fn threads_take_over_the_queues_of_a_vlan(TwoQueues(setup): TwoQueues) {
    let rig = start(setup, "--threads 2");
    let mut stream = VlanStream::new(&rig);
    stream.flow(400);
    let mut running = rig.take_program();
    for _ in 0..2 {
        let next = rig.launch_program("--takeover");
        running = take_over(running, next, &mut stream);
        stream.flow(400);
    }
    stream.each_has_arrived_once();
    running.stop(Signal::INT).well();
}
