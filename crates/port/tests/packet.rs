//! Tests of `packet:` ports between network namespaces, checked against the kernel's own stack.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use slipring_port::{
    DropCause, ErrorClass, Interest, OpenError, OpenOptions, Port, RunCause, RunError, WaitOutcome,
    WaitStrategy, Waiter, packet,
};
use slipring_ring::{Geometry, HugePages, Region};
use slipring_test_support::{Namespace, TIMEOUT, close, eventually, skip};
use slipring_wire::Headers;
use slipring_wire::assigned::{EtherType, VlanTag};
use slipring_wire::checksum::Sum;
use slipring_wire::frame::{Fill, FrameSpec, IpSpec, Ipv4Spec, L4Spec, PortPair, TagSpec};
use slipring_wire::mac::MacAddr;

const OUR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const MTU: usize = 1500;

/// Our side (`p0`, 10.0.0.1) and a peer (`p1`, 10.0.0.2); each knows the other's MAC address.
struct Lab {
    ours: Namespace,
    peer: Namespace,
    region: Arc<Region>,
}

impl Lab {
    fn new() -> Option<Self> {
        Self::with("")
    }

    /// Creates the lab; `extra` goes to `ip link add` for both ends.
    fn with(extra: &str) -> Option<Self> {
        let (ours, peer) = (Namespace::new()?, Namespace::new()?);
        ours.cable("p0", &peer, "p1", extra);
        ours.ip("link set p0 address 02:00:00:00:00:01");
        peer.ip("link set p1 address 02:00:00:00:00:02");
        for (namespace, ifname, address) in [(&ours, "p0", "10.0.0.1"), (&peer, "p1", "10.0.0.2")] {
            namespace.ip(&format!("addr add {address}/24 dev {ifname}"));
        }
        peer.ip("neigh add 10.0.0.1 lladdr 02:00:00:00:00:01 dev p1");
        ours.ip("neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev p0");
        let lab = Self { ours, peer, region: region() };
        match lab.try_open(None, &OpenOptions::default()) {
            Err(error) if error.code() == "SR0104" => {
                skip!("{error}");
                None
            }
            port => {
                close(port);
                Some(lab)
            }
        }
    }

    fn try_open(&self, queue: Option<u32>, options: &OpenOptions) -> Result<Port, OpenError> {
        let (region, options) = (self.region.clone(), options.clone());
        self.ours.run(move || packet::open("packet:p0", "p0", queue, &region, &options))
    }

    fn open(&self) -> Port {
        self.try_open(None, &OpenOptions::default()).unwrap()
    }

    /// A UDP socket of the peer, connected to port 7 of our address.
    fn socket(&self) -> UdpSocket {
        self.peer.run(|| {
            let socket = UdpSocket::bind("10.0.0.2:0").unwrap();
            socket.connect("10.0.0.1:7").unwrap();
            socket.set_read_timeout(Some(TIMEOUT)).unwrap();
            socket
        })
    }
}

fn region() -> Arc<Region> {
    let geometry = Geometry { ring_bytes: 1 << 20, bufs: 12_000, buf_size: 2048 };
    Region::create(geometry, HugePages::Never).unwrap()
}

/// Receives, even if signals arrive: with a timeout, the kernel does not restart the call, so it is
/// repeated here.
fn receive(socket: &UdpSocket, payload: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match socket.recv(payload) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Waits for the next packet.
fn next(port: &mut Port) -> Vec<u8> {
    try_next(port).unwrap().expect("a frame in time")
}

fn try_next(port: &mut Port) -> Result<Option<Vec<u8>>, RunError> {
    let mut waiter = Waiter::for_ports([&*port], WaitStrategy::Sleep).unwrap();
    loop {
        match waiter.wait_ports(&mut [port], Interest::RX, Some(TIMEOUT))? {
            WaitOutcome::Ready => break,
            WaitOutcome::Interrupted => {}
            WaitOutcome::Timeout => return Ok(None),
        }
    }
    let mut scratch = Vec::new();
    let take = |frame: &mut [u8]| frame.to_vec();
    Ok(port.queues.iter_mut().find_map(|queue| queue.rings().rx.packet(&mut scratch, take)))
}

/// Sends what is in the transmit rings. The kernel takes no frames while the backlog of a CPU,
/// which all namespaces share, is full; then the frames stay in the ring until a later sync.
fn send_all(port: &mut Port) {
    eventually("the frames to be sent", || {
        port.tx_sync().unwrap();
        let is_empty = port.queues.iter_mut().all(|queue| queue.rings().tx.with_driver() == 0);
        is_empty.then_some(())
    });
}

/// A UDP frame from us to the peer's socket.
fn datagram(to: &UdpSocket, payload: &[u8], tags: Vec<TagSpec>) -> Vec<u8> {
    let SocketAddr::V4(to) = to.local_addr().unwrap() else { panic!("IPv4 here") };
    let src = [10, 0, 0, 1];
    let spec = FrameSpec {
        src_mac: OUR_MAC,
        dst_mac: PEER_MAC,
        tags,
        ip: IpSpec::V4(Ipv4Spec { src: src.into(), dst: *to.ip(), ..Ipv4Spec::default() }),
        l4: L4Spec::Udp(PortPair { src: 7, dst: to.port() }),
        fill: Fill::Pattern(payload.to_vec()),
    };
    spec.build(spec.header_len() + payload.len()).unwrap().bytes
}

/// The payload of a UDP frame, whose checksum must be right.
fn checked_payload(frame: &[u8]) -> &[u8] {
    let headers = Headers::parse(frame).unwrap();
    let ip = headers.ip.unwrap();
    let l3 = usize::from(headers.l3);
    let address = |at: usize| <[u8; 4]>::try_from(&frame[l3 + at..l3 + at + 4]).unwrap().into();
    let l4 = ip.l4_bytes(frame).unwrap();
    let sum = Sum::pseudo_v4(address(12), address(16), ip.proto, ip.l4_len()).bytes(l4);
    assert_eq!(sum.checksum(), 0, "checksum of a frame of {} bytes", frame.len());
    &l4[8..]
}

#[test]
fn frames_arrive_in_order_with_finished_checksums_and_leave_as_they_were() {
    let Some(lab) = Lab::new() else { return };
    let (mut port, socket) = (lab.open(), lab.socket());
    assert!(port.info.to_string().starts_with("packet:p0 kind=packet mode=tpacket_v2 copy=yes"));
    for i in 0..300u32 {
        let payload = [&i.to_le_bytes()[..], &vec![7; i as usize]].concat();
        assert_eq!(socket.send(&payload).unwrap(), payload.len());
        assert_eq!(checked_payload(&next(&mut port)), payload);
    }
    let mut payload = [0; 2000];
    for i in 1..=300usize {
        assert!(port.queues[0].rings().tx.push(&datagram(&socket, &vec![i as u8; i], vec![])));
        send_all(&mut port);
        assert_eq!(receive(&socket, &mut payload).unwrap(), i);
        assert_eq!(payload[..i], vec![i as u8; i]);
    }
    let seen = port.stats();
    assert_eq!((seen.rx.packets, seen.tx.packets), (300, 300));
    assert_eq!((seen.in_flight, seen.drops().count()), (0, 0));
}

#[test]
fn frames_longer_than_a_buffer_take_several_slots_both_ways() {
    // Frames of up to 16 KiB are in the socket's ring; a frame of 40,000 bytes is too long for it.
    for (mtu, len) in [(9000, 8000), (65535, 40_000)] {
        let Some(lab) = Lab::with(&format!("mtu {mtu}")) else { return };
        let (mut port, socket) = (lab.open(), lab.socket());
        let payload = (0..len).map(|i| (i * i / 7) as u8).collect::<Vec<_>>();
        for _ in 0..3 {
            socket.send(&payload).unwrap();
            assert_eq!(checked_payload(&next(&mut port)), payload, "mtu {mtu}");
        }
        let mut back = vec![0; 65_536];
        assert!(port.queues[0].rings().tx.push(&datagram(&socket, &payload, vec![])));
        send_all(&mut port);
        assert_eq!(receive(&socket, &mut back).unwrap(), len);
        assert_eq!(back[..len], payload, "mtu {mtu}");
    }
}

/// Options with which AF_XDP sockets send.
fn by_xdp() -> OpenOptions {
    OpenOptions { sends_by_xdp: true, ..OpenOptions::default() }
}

#[test]
fn frames_that_af_xdp_sockets_send_leave_as_they_were_and_count_when_they_have_left() {
    // With an MTU of 9000, the longest frame takes several buffers.
    for mtu in [1500, 9000] {
        let Some(lab) = Lab::with(&format!("mtu {mtu}")) else { return };
        let (mut port, socket) = (lab.try_open(None, &by_xdp()).unwrap(), lab.socket());
        assert_eq!(port.info.mode.get("tx"), Some("af_xdp"));
        let mut payload = vec![0; 10_000];
        let lens = [1, 18, 1000, 1472, mtu - 28];
        for (i, len) in lens.into_iter().enumerate() {
            let frame = datagram(&socket, &vec![i as u8; len], vec![]);
            assert!(port.queues[0].rings().tx.push(&frame));
            port.tx_sync().unwrap();
            assert_eq!(receive(&socket, &mut payload).unwrap(), len, "mtu {mtu}");
            assert_eq!(payload[..len], vec![i as u8; len], "mtu {mtu}");
            // The packet socket receives what the peer sends back.
            socket.send(&payload[..len]).unwrap();
            assert_eq!(checked_payload(&next(&mut port)), &payload[..len], "mtu {mtu}");
        }
        // The stack has taken all frames, so the kernel has completed them.
        port.tx_sync().unwrap();
        let (seen, count) = (port.stats(), lens.len() as u64);
        assert_eq!((seen.rx.packets, seen.tx.packets, seen.in_flight), (count, count, 0));
        assert_eq!(seen.drops().count(), 0);
    }
}

#[test]
fn frames_without_content_are_dropped_by_name_and_buffers_return_if_af_xdp_sends() {
    let Some(lab) = Lab::new() else { return };
    let before = lab.region.free_bufs();
    let (mut port, socket) = (lab.try_open(None, &by_xdp()).unwrap(), lab.socket());
    let tx = port.queues[0].rings().tx;
    assert!(tx.push(&datagram(&socket, b"first", vec![])));
    // A frame that is shorter than an Ethernet header is dropped.
    assert!(tx.push(&[0; 13]));
    assert!(tx.push(&datagram(&socket, b"last", vec![])));
    port.tx_sync().unwrap();
    let mut payload = [0; 100];
    assert_eq!(receive(&socket, &mut payload).unwrap(), 5);
    assert_eq!(receive(&socket, &mut payload).unwrap(), 4);
    port.tx_sync().unwrap();
    let seen = port.stats();
    let refused = seen.dropped(DropCause::TxRefused);
    assert_eq!((seen.tx.packets + refused, seen.in_flight), (3, 0), "{seen:?}");
    drop(port);
    assert_eq!(lab.region.free_bufs(), before);
}

#[test]
fn packet_sockets_send_where_another_af_xdp_socket_has_the_queue() {
    let Some(lab) = Lab::new() else { return };
    let first = lab.try_open(None, &by_xdp()).unwrap();
    assert_eq!(first.info.mode.get("tx"), Some("af_xdp"));
    let (mut second, socket) = (lab.try_open(None, &by_xdp()).unwrap(), lab.socket());
    assert_eq!(second.info.mode.get("tx"), None);
    assert!(second.queues[0].rings().tx.push(&datagram(&socket, b"by the other way", vec![])));
    send_all(&mut second);
    let mut payload = [0; 100];
    assert_eq!(receive(&socket, &mut payload).unwrap(), 16);
}

#[test]
fn vlan_tags_stay_in_the_frame() {
    let Some(lab) = Lab::new() else { return };
    let (mut near, region) = (lab.open(), lab.region.clone());
    let options = OpenOptions::default();
    let far = lab.peer.run(move || packet::open("packet:p1", "p1", None, &region, &options));
    let mut far = far.unwrap();
    let socket = lab.socket();
    let outer = TagSpec { ethertype: EtherType::QINQ, tag: VlanTag::new(100, 0) };
    let inner = TagSpec { ethertype: EtherType::VLAN, tag: VlanTag::new(7, 5) };
    // The last frame is as long as the interface accepts.
    for (tags, len) in [(vec![inner], 20), (vec![outer, inner], 20), (vec![inner], 1472)] {
        // The kernel takes the outermost tag out of every frame that arrives; the port must put it
        // back.
        let frame = datagram(&socket, &vec![7; len], tags);
        assert!(near.queues[0].rings().tx.push(&frame));
        send_all(&mut near);
        assert_eq!(next(&mut far), frame);
        assert!(far.queues[0].rings().tx.push(&frame));
        send_all(&mut far);
        assert_eq!(next(&mut near), frame);
    }
}

/// Moves all frames between two ports until `stop` is set.
fn bridge(mut a: Port, mut b: Port, stop: &AtomicBool) -> (Port, Port) {
    let mut waiter = Waiter::for_ports([&a, &b], WaitStrategy::default()).unwrap();
    while !stop.load(Ordering::Relaxed) {
        slipring_port::forward(&mut a, &mut b, 256).unwrap();
        slipring_port::forward(&mut b, &mut a, 256).unwrap();
        let slice = Duration::from_millis(10);
        waiter.wait_ports(&mut [&mut a, &mut b], Interest::RX, Some(slice)).unwrap();
    }
    (a, b)
}

#[test]
fn ping_and_tcp_pass_between_two_ports() {
    let Some(lab) = Lab::new() else { return };
    let Some(far) = Namespace::new() else { return };
    lab.ours.cable("q0", &far, "q1", "");
    far.ip("addr add 10.0.0.3/24 dev q1");
    let near = lab.open();
    let region = lab.region.clone();
    let options = OpenOptions { slots: 512, ..OpenOptions::default() };
    let other = lab.ours.run(move || packet::open("packet:q0", "q0", None, &region, &options));
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, other) = (stop.clone(), other.unwrap());
    let bridge = std::thread::spawn(move || bridge(near, other, &stopped));
    lab.peer.ping_all(3, "", "10.0.0.3");
    let message = (0..8_000_000u32).map(|i| (i * 31 / 17) as u8).collect::<Vec<_>>();
    let listener = far.run(|| TcpListener::bind("10.0.0.3:80").unwrap());
    let sent = message.clone();
    let sender = std::thread::spawn(move || {
        let mut stream = lab.peer.run(|| TcpStream::connect("10.0.0.3:80")).unwrap();
        stream.write_all(&sent).unwrap();
        lab
    });
    let mut received = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
    assert!(received == message, "{} bytes of {} arrived", received.len(), message.len());
    let _lab = sender.join().unwrap();
    stop.store(true, Ordering::Relaxed);
    let (mut near, mut other) = bridge.join().unwrap();
    let unread = u64::from(near.queues[0].rings().rx.avail());
    let (near, other) = (near.stats(), other.stats());
    for cause in [DropCause::RxTooLong, DropCause::TxTooLong, DropCause::RxMalformed] {
        assert_eq!(near.dropped(cause) + other.dropped(cause), 0, "{cause:?}");
    }
    let mean = near.rx.bytes / near.rx.packets;
    assert!(mean <= (MTU + 14) as u64, "super-frames passed: {mean} bytes on average");
    // The kernel refuses frames while a CPU's backlog is full. All namespaces share that backlog,
    // so refusals are allowed.
    let refused = other.dropped(DropCause::TxRefused);
    assert_eq!(other.tx.packets + refused + other.in_flight + unread, near.rx.packets);
}

#[test]
fn what_was_sent_was_received_or_counted_as_lost() {
    let Some(lab) = Lab::new() else { return };
    let options = OpenOptions { slots: 64, ..OpenOptions::default() };
    let (mut port, socket) = (lab.try_open(None, &options).unwrap(), lab.socket());
    let frames = 3000;
    for _ in 0..frames {
        socket.send(b"x").unwrap();
    }
    loop {
        port.rx_sync().unwrap();
        let rx = port.queues[0].rings().rx;
        let count = rx.avail();
        if count == 0 {
            break;
        }
        rx.advance(count);
    }
    let seen = port.stats();
    assert!(seen.rx.packets >= 64 && seen.dropped(DropCause::RxKernel) > 0, "{seen:?}");
    assert_eq!(seen.rx.packets + seen.dropped(DropCause::RxKernel), frames);
    assert_eq!(seen.drops().count(), 1);
}

#[test]
fn frames_that_the_interface_does_not_take_are_dropped_by_name() {
    let Some(lab) = Lab::new() else { return };
    let (mut port, socket) = (lab.open(), lab.socket());
    let tx = port.queues[0].rings().tx;
    assert!(tx.push(&datagram(&socket, b"first", vec![])));
    assert!(tx.push(&vec![0; 3000]));
    assert!(tx.push(&[0; 13]));
    assert!(tx.push(&datagram(&socket, b"last", vec![])));
    send_all(&mut port);
    let mut payload = [0; 100];
    assert_eq!(receive(&socket, &mut payload).unwrap(), 5);
    assert_eq!(receive(&socket, &mut payload).unwrap(), 4);
    let seen = port.stats();
    assert_eq!(seen.tx.packets, 2);
    assert_eq!(seen.dropped(DropCause::TxTooLong), 1);
    assert_eq!(seen.dropped(DropCause::TxRefused), 1);
    assert_eq!(port.queues[0].rings().tx.with_driver(), 0);
}

/// Returns whether the host's stack answers a datagram to a closed port of the host.
fn host_answers(socket: &UdpSocket, port: &mut Port) -> bool {
    socket.send(b"anyone?").unwrap();
    let frame = next(port);
    assert_eq!(checked_payload(&frame), b"anyone?");
    // Sends a datagram to the peer and waits for it. If the host answered the first datagram, that
    // answer would arrive earlier. So this proves without a timeout that the host did not answer.
    assert!(port.queues[0].rings().tx.push(&datagram(socket, b"end", vec![])));
    send_all(port);
    let mut payload = [0; 100];
    match receive(socket, &mut payload) {
        Ok(len) => {
            assert_eq!(&payload[..len], b"end");
            false
        }
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
            true
        }
    }
}

#[test]
fn the_host_is_silent_unless_the_port_is_shared() {
    let Some(lab) = Lab::new() else { return };
    let shared = OpenOptions { shared: true, ..OpenOptions::default() };
    let mut port = lab.try_open(None, &shared).unwrap();
    assert_eq!(port.info.mode.get("host"), Some("shared"));
    assert!(host_answers(&lab.socket(), &mut port));
    drop(port);
    let mut port = lab.open();
    assert_eq!(port.info.mode.get("host"), Some("detached"));
    assert!(!host_answers(&lab.socket(), &mut port));
    close(port);
    let mut port = lab.try_open(None, &shared).unwrap();
    assert!(host_answers(&lab.socket(), &mut port), "the host is back");
}

#[test]
fn a_detached_port_sends_through_the_queueing_discipline_too() {
    let Some(lab) = Lab::new() else { return };
    let options = OpenOptions { qdisc_bypass: false, ..OpenOptions::default() };
    let (mut port, socket) = (lab.try_open(None, &options).unwrap(), lab.socket());
    assert!(port.queues[0].rings().tx.push(&datagram(&socket, b"queued", vec![])));
    send_all(&mut port);
    let mut payload = [0; 100];
    assert_eq!(receive(&socket, &mut payload).unwrap(), 6);
    // Frames that the port sent must not come back to it as received.
    socket.send(b"marker").unwrap();
    assert_eq!(checked_payload(&next(&mut port)), b"marker");
}

#[test]
fn each_receive_queue_has_its_ring_and_no_frame_is_seen_twice() {
    let Some(lab) = Lab::with("numrxqueues 2 numtxqueues 2") else { return };
    let mut all = lab.open();
    assert_eq!((all.queues.len(), all.info.mode.get("queues")), (2, Some("2")));
    let open_one = |queue| lab.try_open(Some(queue), &OpenOptions::default()).unwrap();
    let (mut zero, mut one) = (open_one(0), open_one(1));
    let sockets = (0..32).map(|_| lab.socket()).collect::<Vec<_>>();
    for (i, socket) in sockets.iter().enumerate() {
        socket.send(&[i as u8]).unwrap();
    }
    let mut seen = Vec::new();
    while seen.len() < sockets.len() {
        seen.push(checked_payload(&next(&mut all))[0]);
    }
    assert!(try_drain(&mut all).is_empty());
    seen.sort_unstable();
    assert_eq!(seen, (0..32).collect::<Vec<_>>());
    for (single, ring) in [(&mut zero, 0), (&mut one, 1)] {
        let frames = try_drain(single).len() as u64;
        assert_eq!(frames, all.queues[ring].counters().snapshot().rx.packets, "ring {ring}");
    }
}

/// Receives all frames that have arrived.
fn try_drain(port: &mut Port) -> Vec<Vec<u8>> {
    let (mut frames, mut scratch) = (Vec::new(), Vec::new());
    port.rx_sync().unwrap();
    for queue in &mut port.queues {
        let rx = queue.rings().rx;
        while let Some(frame) = rx.packet(&mut scratch, |frame| frame.to_vec()) {
            frames.push(frame);
        }
    }
    frames
}

#[test]
fn an_interface_that_vanishes_ends_the_port() {
    let Some(lab) = Lab::new() else { return };
    let mut port = lab.open();
    lab.peer.ip("link del p1");
    let error = try_next(&mut port).unwrap_err();
    assert!(matches!(error.cause, RunCause::Vanished), "{error}");
    assert_eq!(error.class(), ErrorClass::Peer);
    assert!(port.queues[0].rings().tx.push(&[0; 60]));
    let error = port.tx_sync().unwrap_err();
    assert!(matches!(error.cause, RunCause::Vanished), "{error}");
}

#[test]
fn an_interface_that_goes_down_ends_the_port_if_that_was_asked_for() {
    let Some(lab) = Lab::new() else { return };
    let options = OpenOptions { exit_on_link_down: true, ..OpenOptions::default() };
    let mut port = lab.try_open(None, &options).unwrap();
    lab.ours.ip("link set p0 down");
    let error = try_next(&mut port).unwrap_err();
    assert_eq!(error.to_string(), "packet:p0 failed: the interface went down");
    assert!(port.queues[0].rings().tx.push(&[0; 60]));
    let error = port.tx_sync().unwrap_err();
    assert!(matches!(error.cause, RunCause::WentDown), "{error}");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let Some(lab) = Lab::new() else { return };
    let region = lab.region.clone();
    let options = OpenOptions::default();
    let error = lab.ours.run(move || packet::open("packet:no0", "no0", None, &region, &options));
    assert_eq!(error.unwrap_err().code(), "SR0102");
    let error = lab.try_open(Some(5), &OpenOptions::default()).unwrap_err();
    let range = "queue 5 is out of range: `p0` has 1 (0 to 0)";
    assert_eq!(error.to_string(), format!("cannot open packet:p0: {range}"));
    lab.ours.ip("link set p0 down");
    let options = OpenOptions { exit_on_link_down: true, ..OpenOptions::default() };
    let error = lab.try_open(None, &options).unwrap_err();
    assert_eq!(error.code(), "SR0103");
}

#[test]
fn a_dropped_port_returns_all_its_buffers() {
    let Some(lab) = Lab::new() else { return };
    let before = lab.region.free_bufs();
    let (mut port, socket) = (lab.open(), lab.socket());
    assert_eq!(lab.region.free_bufs(), before - 2048);
    socket.send(b"left unread").unwrap();
    port.rx_sync().unwrap();
    drop(port);
    assert_eq!(lab.region.free_bufs(), before);
}
