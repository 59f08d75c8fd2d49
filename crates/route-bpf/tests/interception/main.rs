//! Hosts in namespaces, and a router between them that gets its frames through packet sockets:
//! either the router or the kernel handles each frame.
#![allow(clippy::unwrap_used)]

mod direct;
mod engine;
#[path = "../lab/mod.rs"]
mod lab;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32};

use engine::{EngineLoop, Intercepted, Work};
use lab::{LEFT, RIGHT, Routed};
use slipring_port::DropCause;
use slipring_route_bpf::{PassReason, ResidentOptions};
use slipring_test_support::{Namespace, Program, TIMEOUT, close, eventually, installed};

const SLOTS: u32 = 512;

/// Builds the hosts and attaches the router's programs; returns from the test if that is not
/// possible here.
macro_rules! intercepted {
    ($extra:expr, $queues:expr) => {{
        if !installed("ping") || !installed("ethtool") {
            return;
        }
        let Some(net) = Routed::with($extra) else { return };
        let Some(router) = Intercepted::new(&net, $queues) else { return };
        // Makes the kernel resolve the hosts, as neighbours of the router.
        net.ping("10.3.0.2", 1);
        net.ping("fd03::2", 1);
        (net, router)
    }};
}
pub(crate) use intercepted;

/// The number of packets, of both versions of IP, that the router's kernel has forwarded.
fn forwarded_by_kernel(mid: &Namespace) -> u64 {
    mid.run(|| {
        let v4 = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
        let lines: Vec<Vec<&str>> = v4
            .lines()
            .filter(|line| line.starts_with("Ip:"))
            .map(|line| line.split_whitespace().collect())
            .collect();
        let at = lines[0].iter().position(|name| *name == "ForwDatagrams").unwrap();
        let v6 = std::fs::read_to_string("/proc/thread-self/net/snmp6").unwrap();
        let v6 = v6.lines().find_map(|line| line.strip_prefix("Ip6OutForwDatagrams")).unwrap();
        lines[1][at].parse::<u64>().unwrap() + v6.trim().parse::<u64>().unwrap()
    })
}

#[test]
fn the_engine_gets_frames_to_forward_and_the_kernel_does_not() {
    let (net, router) = intercepted!("", 1);
    let engine = router.engine(Work::Forward, SLOTS);
    for to in ["10.3.0.2", "fd03::2"] {
        let kernel = forwarded_by_kernel(&net.mid);
        let taken = (router.counters(LEFT).packets, router.counters(RIGHT).packets);
        let output = net.ping(to, 10);
        assert!(output.contains("ttl=63"), "{output}");
        let now = (router.counters(LEFT).packets, router.counters(RIGHT).packets);
        assert_eq!((now.0 - taken.0, now.1 - taken.1), (10, 10), "{to}");
        assert_eq!(forwarded_by_kernel(&net.mid), kernel, "{to}");
    }
    let own = router.counters(LEFT).passed(PassReason::Kernel);
    net.ping("10.1.0.1", 1);
    // The count may be higher by more than one, because the hosts may also probe whether the router
    // is still reachable.
    assert!(router.counters(LEFT).passed(PassReason::Kernel) > own, "own address");
    let mut ports = engine.stop();
    let received = ports.iter_mut().map(|port| port.stats().rx.packets).sum::<u64>();
    assert_eq!(received, router.counters(LEFT).packets + router.counters(RIGHT).packets);
}

#[test]
fn a_port_whose_frames_are_not_the_router_s_is_the_kernel_s() {
    let (net, router) = intercepted!("", 1);
    let engine = router.engine(Work::Forward, SLOTS);
    let none = ResidentOptions { ingress: false, ..ResidentOptions::default() };
    router.router.lock().unwrap().set_options(LEFT, none);
    let (kernel, before) = (forwarded_by_kernel(&net.mid), router.counters(LEFT));
    net.ping("10.3.0.2", 5);
    let after = router.counters(LEFT);
    assert_eq!(after.packets, before.packets);
    assert!(after.passed(PassReason::Policy) >= before.passed(PassReason::Policy) + 5);
    assert_eq!(forwarded_by_kernel(&net.mid), kernel + 5, "requests; the engine has the answers");
    close(engine.stop());
}

/// Sends numbered datagrams from left to right in bursts, and checks that each arrives once.
struct Numbered {
    from: UdpSocket,
    to: UdpSocket,
    next: u32,
}

impl Numbered {
    const BURST: u32 = 32;

    fn new(net: &Routed) -> Self {
        let to = net.right.run(|| UdpSocket::bind("10.3.0.2:0").unwrap());
        to.set_read_timeout(Some(TIMEOUT)).unwrap();
        let address = to.local_addr().unwrap();
        let from = net.left.run(|| UdpSocket::bind("10.1.0.2:0").unwrap());
        from.connect(address).unwrap();
        Self { from, to, next: 0 }
    }

    fn send_burst(&mut self) -> std::ops::Range<u32> {
        let numbers = self.next..self.next + Self::BURST;
        for number in numbers.clone() {
            self.from.send(&number.to_be_bytes()).unwrap();
        }
        self.next = numbers.end;
        numbers
    }

    #[track_caller]
    fn receive(&self, numbers: std::ops::Range<u32>) {
        let mut missing: std::collections::BTreeSet<u32> = numbers.clone().collect();
        let mut bytes = [0; 4];
        while !missing.is_empty() {
            match self.to.recv(&mut bytes) {
                Ok(4) => {
                    let number = u32::from_be_bytes(bytes);
                    assert!(missing.remove(&number), "{number} of {numbers:?} twice");
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                result => panic!("{result:?}: {missing:?} of {numbers:?} are lost"),
            }
        }
    }

    #[track_caller]
    fn exchange(&mut self, bursts: u32) {
        for _ in 0..bursts {
            let numbers = self.send_burst();
            self.receive(numbers);
        }
    }
}

/// Checks that each datagram arrives once, although the kernel takes over from the router while
/// datagrams are in flight, and the router from the kernel afterwards. With `direct`, the sockets
/// and the tcx program also take over from each other.
fn each_frame_arrives_once(extra: &str, queues: u16, direct: bool) {
    let (net, router) = intercepted!(extra, queues);
    // If tcpdump is installed, it opens other packet sockets, one before the engine's sockets and
    // one after, each with a filter.
    let capture = |words: &str| {
        installed("tcpdump").then(|| {
            let program = Program::start(&net.mid, "tcpdump", words);
            program.wait_for_text("listening on");
            program
        })
    };
    let _older = capture("-i la -n -q udp");
    let mut datagrams = Numbered::new(&net);
    let kernel = forwarded_by_kernel(&net.mid);
    let taken = router.counters(LEFT).packets;
    for round in 0..20 {
        let engine = router.engine(Work::Forward, SLOTS);
        let _newer = if round == 0 { capture("-i la -n -q udp") } else { None };
        datagrams.exchange(5);
        let numbers = datagrams.send_burst();
        router.set_direct(direct && round % 3 == 0);
        datagrams.receive(numbers);
        datagrams.exchange(5);
        let numbers = datagrams.send_burst();
        if round % 2 == 1 {
            router.router.lock().unwrap().disable().unwrap();
        }
        let mut ports = engine.stop();
        datagrams.receive(numbers);
        for port in &mut ports {
            assert_eq!(port.stats().drops().collect::<Vec<_>>(), [], "round {round}");
        }
        datagrams.exchange(5);
        let numbers = datagrams.send_burst();
        close(ports);
        datagrams.receive(numbers);
        router.router.lock().unwrap().enable();
    }
    let by_kernel = forwarded_by_kernel(&net.mid) - kernel;
    let by_engine = router.counters(LEFT).packets - taken;
    let in_tcx = router.counters(LEFT).direct_packets;
    let sum = by_kernel + by_engine + in_tcx;
    assert_eq!(sum, u64::from(datagrams.next), "{by_kernel}, {by_engine} and {in_tcx}");
    assert_eq!(in_tcx > 1000, direct, "{in_tcx}");
    assert!(by_kernel > 1000 && by_engine > 1000, "{by_kernel} and {by_engine}");
}

#[test]
fn each_frame_arrives_once_while_engine_and_kernel_take_over_from_each_other() {
    each_frame_arrives_once("", 1, false);
}

#[test]
fn each_frame_arrives_once_while_the_tcx_program_takes_over_from_both() {
    each_frame_arrives_once("", 1, true);
}

#[test]
fn of_several_sockets_one_gets_a_frame() {
    each_frame_arrives_once("numrxqueues 2 numtxqueues 2", 2, false);
}

#[test]
fn frames_that_find_the_ring_full_are_counted() {
    let (net, router) = intercepted!("", 1);
    let engine = router.engine(Work::Nothing, 16);
    let (kernel, before) = (forwarded_by_kernel(&net.mid), router.counters(LEFT).packets);
    let mut datagrams = Numbered::new(&net);
    for _ in 0..30 {
        datagrams.send_burst();
    }
    let sent = u64::from(datagrams.next);
    eventually("all frames to be taken", || {
        (router.counters(LEFT).packets == before + sent).then_some(())
    });
    assert_eq!(forwarded_by_kernel(&net.mid), kernel);
    let mut ports = engine.stop();
    let left = &mut ports[0];
    while left.stats().rx.packets + left.stats().dropped(DropCause::RxKernel) < sent {
        left.rx_sync().unwrap();
        let rx = left.queues[0].rings().rx;
        assert!(rx.packet(&mut Vec::new(), |_| ()).is_some(), "{:?}", left.stats());
    }
    let stats = left.stats();
    assert!(stats.dropped(DropCause::RxKernel) > 100, "{stats:?}");
    assert_eq!(stats.rx.packets + stats.dropped(DropCause::RxKernel), sent, "{stats:?}");
}

const STREAM_BYTES: u32 = 4_000_000;

/// Sends a stream from left to right, and checks what arrives.
fn send_stream(net: &Routed, listener: &TcpListener, to: &'static str) {
    let port = listener.local_addr().unwrap().port();
    let data: Vec<u8> = (0..STREAM_BYTES).map(|at| (at * 7 + (at >> 9)) as u8).collect();
    let sent = data.clone();
    let sender = net.left.run(move || {
        let mut stream = TcpStream::connect((to, port)).unwrap();
        std::thread::spawn(move || stream.write_all(&sent).unwrap())
    });
    let mut received = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
    sender.join().unwrap();
    assert!(received == data, "{to}: {} bytes", received.len());
}

#[test]
fn super_frames_of_tcp_leave_as_whole_packets_with_finished_checksums() {
    let (net, router) = intercepted!("", 1);
    // The hosts leave segmentation and checksums to the device.
    for host in [&net.left, &net.right] {
        host.command("ethtool", "-K e0 tx on tso on gso on");
    }
    let engine = router.engine(Work::Forward, SLOTS);
    let kernel = forwarded_by_kernel(&net.mid);
    let listener = net.right.run(|| TcpListener::bind("[::]:0").unwrap());
    ["10.3.0.2", "fd03::2"].into_iter().for_each(|to| send_stream(&net, &listener, to));
    for counters in [LEFT, RIGHT].map(|port| router.counters(port)) {
        // The engine may be late on a busy machine; then the kernel forwards.
        let late = counters.passed(PassReason::Stale) > 0;
        assert!(late || forwarded_by_kernel(&net.mid) == kernel, "{counters:?}");
        let refused = [PassReason::PartialChecksum, PassReason::Length];
        assert_eq!(refused.map(|reason| counters.passed(reason)), [0, 0], "{counters:?}");
    }
    let mut ports = engine.stop();
    let (arrived, left) = (router.counters(LEFT).packets, ports[0].stats().rx.packets);
    assert!(left > arrived, "{arrived} frames with super-frames, {left} packets");
}

#[test]
fn what_the_engine_returns_goes_to_the_kernel_once() {
    let (net, router) = intercepted!("", 1);
    let engine = router.engine(Work::Return, SLOTS);
    for to in ["10.3.0.2", "fd03::2"] {
        let (kernel, taken) = (forwarded_by_kernel(&net.mid), router.counters(LEFT).packets);
        net.ping(to, 5);
        assert_eq!(router.counters(LEFT).packets, taken + 5, "{to}");
        assert_eq!(forwarded_by_kernel(&net.mid), kernel + 10, "{to}");
    }
    close(engine.stop());
}

/// The environment variable that makes a process execute [`holder`] as the process to kill.
const HOLD: &str = "SLIPRING_HOLD_INTERCEPTION";

/// This is not a test of its own. The next test starts a process that runs this function, and kills
/// it.
#[test]
fn holder() {
    if std::env::var_os(HOLD).is_none() {
        return;
    }
    let (router, interceptions) = engine::make(1).unwrap();
    let ports = ["la", "ra"].into_iter().zip(interceptions.iter());
    let ports = ports.map(|(name, from)| engine::open(name, from, SLOTS)).collect();
    let heartbeat = router.heartbeat();
    let (injector, ifindices) = (router.injector().unwrap(), [0; 2]);
    let engine = EngineLoop { ports, injector, ifindices, heartbeat, work: Work::Forward };
    engine.run(&AtomicBool::new(false), &AtomicU32::new(0));
}

#[test]
fn after_the_death_of_the_process_the_kernel_forwards() {
    let (net, router) = intercepted!("", 1);
    close(router);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "holder"]).env(HOLD, "1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut holder = net.mid.spawn(command);
    eventually("the engine to forward", || {
        let kernel = forwarded_by_kernel(&net.mid);
        net.ping("10.3.0.2", 1);
        (forwarded_by_kernel(&net.mid) == kernel).then_some(())
    });
    let mut datagrams = Numbered::new(&net);
    datagrams.exchange(5);
    holder.kill().unwrap();
    holder.wait().unwrap();
    let kernel = forwarded_by_kernel(&net.mid);
    datagrams.exchange(5);
    assert_eq!(forwarded_by_kernel(&net.mid), kernel + u64::from(5 * Numbered::BURST));
}
