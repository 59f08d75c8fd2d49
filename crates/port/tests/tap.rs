//! Tests of `tap:` ports, checked against the kernel's own stack at the other end.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use slipring_port::iface::Iface;
use slipring_port::{
    DropCause, Interest, OpenError, OpenOptions, Port, RunCause, RunError, WaitOutcome,
    WaitStrategy, Waiter, tap,
};
use slipring_ring::{Geometry, HugePages, Region};
use slipring_test_support::{Namespace, TIMEOUT, close, eventually, installed, skip};
use slipring_wire::Headers;
use slipring_wire::checksum::Sum;
use slipring_wire::frame::{Fill, FrameSpec, IpSpec, Ipv4Spec, L4Spec, PortPair};
use slipring_wire::mac::MacAddr;
use slipring_wire::offload::{VnetForm, VnetHeader};

fn region() -> Arc<Region> {
    let geometry = Geometry { ring_bytes: 1 << 20, bufs: 12_000, buf_size: 2048 };
    Region::create(geometry, HugePages::Never).unwrap()
}

fn options() -> OpenOptions {
    OpenOptions::default()
}

fn try_open(
    host: &Namespace,
    ifname: &'static str,
    queues: u32,
    region: &Arc<Region>,
    options: OpenOptions,
) -> Result<Port, OpenError> {
    let (region, shown) = (region.clone(), format!("tap:{ifname}"));
    host.run(move || tap::open(&shown, ifname, queues, &region, &options))
}

/// Opens a port on the device `t0` of a host. The host has the address 10.0.0.1 on the device, and
/// knows the MAC address of the station 10.0.0.2.
fn open(host: &Namespace, queues: u32, options: OpenOptions) -> Port {
    let port = try_open(host, "t0", queues, &region(), options).unwrap();
    configure(host, "10.0.0.1");
    host.ip("neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev t0");
    port
}

fn configure(host: &Namespace, address: &str) {
    host.silence("t0");
    host.ip(&format!("addr add {address}/24 dev t0"));
}

/// A socket of the host, connected to 10.0.0.2, port 7.
fn socket(host: &Namespace) -> UdpSocket {
    host.run(|| {
        let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
        socket.connect("10.0.0.2:7").unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket
    })
}

/// A frame from 10.0.0.2, port 7, to the socket.
fn datagram(to: &UdpSocket, payload: &[u8]) -> Vec<u8> {
    let SocketAddr::V4(to) = to.local_addr().unwrap() else { panic!("IPv4 here") };
    let src = [10, 0, 0, 2].into();
    let spec = FrameSpec {
        src_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        ip: IpSpec::V4(Ipv4Spec { src, dst: *to.ip(), ..Ipv4Spec::default() }),
        l4: L4Spec::Udp(PortPair { src: 7, dst: to.port() }),
        fill: Fill::Pattern(payload.to_vec()),
        ..FrameSpec::default()
    };
    spec.build(spec.header_len() + payload.len()).unwrap().bytes
}

/// The payload of a UDP frame to port 7, whose checksum must be right; `None` for other frames,
/// which a host sends by itself (IGMP).
fn checked_payload(frame: &[u8]) -> Option<&[u8]> {
    let headers = Headers::parse(frame).unwrap();
    let (_, 7) = headers.ports(frame)? else { return None };
    let ip = headers.ip?;
    let l3 = usize::from(headers.l3);
    let address = |at: usize| <[u8; 4]>::try_from(&frame[l3 + at..l3 + at + 4]).unwrap().into();
    let l4 = ip.l4_bytes(frame).unwrap();
    let sum = Sum::pseudo_v4(address(12), address(16), ip.proto, ip.l4_len()).bytes(l4);
    assert_eq!(sum.checksum(), 0, "checksum of a frame of {} bytes", frame.len());
    Some(&l4[8..])
}

/// Receives, even if signals arrive: with a timeout, the kernel does not restart the call.
fn receive(socket: &UdpSocket, payload: &mut [u8]) -> usize {
    loop {
        match socket.recv(payload) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result.unwrap(),
        }
    }
}

/// Waits for a packet.
fn next(port: &mut Port) -> Result<Vec<u8>, RunError> {
    let mut waiter = Waiter::for_ports([&*port], WaitStrategy::Sleep).unwrap();
    loop {
        match waiter.wait_ports(&mut [port], Interest::RX, Some(TIMEOUT))? {
            WaitOutcome::Ready => break,
            WaitOutcome::Interrupted => {}
            WaitOutcome::Timeout => panic!("no frame in time"),
        }
    }
    let mut scratch = Vec::new();
    let take = |frame: &mut [u8]| frame.to_vec();
    let frame =
        port.queues.iter_mut().find_map(|queue| queue.rings().rx.packet(&mut scratch, take));
    Ok(frame.unwrap())
}

/// Waits for the payload of the next datagram to port 7.
fn next_payload(port: &mut Port) -> Vec<u8> {
    loop {
        if let Some(payload) = checked_payload(&next(port).unwrap()) {
            return payload.to_vec();
        }
    }
}

fn send(port: &mut Port, frame: &[u8]) {
    assert!(port.queues[0].rings().tx.push(frame));
    port.tx_sync().unwrap();
}

#[test]
fn frames_pass_both_ways_in_order() {
    let Some(host) = Namespace::new() else { return };
    let mut port = open(&host, 1, options());
    let socket = socket(&host);
    let line = port.info.to_string();
    assert!(line.starts_with("tap:t0 kind=tap if=t0 io="), "{line}");
    assert!(line.ends_with(" offload=off queues=1 slots=1024"), "{line}");
    for i in 0..300usize {
        let payload = [&i.to_le_bytes()[..], &vec![7; i]].concat();
        socket.send(&payload).unwrap();
        assert_eq!(next_payload(&mut port), payload);
    }
    // Queues more frames than fit into one batch.
    let before = port.stats().tx.packets;
    for i in 1..=100usize {
        assert!(port.queues[0].rings().tx.push(&datagram(&socket, &vec![i as u8; i])));
    }
    port.tx_sync().unwrap();
    let mut payload = [0; 2000];
    for i in 1..=100usize {
        assert_eq!(receive(&socket, &mut payload), i);
        assert_eq!(payload[..i], vec![i as u8; i]);
    }
    let seen = port.stats();
    assert_eq!((seen.tx.packets - before, seen.in_flight, seen.drops().count()), (100, 0, 0));
    assert_eq!(port.queues[0].rings().tx.with_driver(), 0);
}

#[test]
fn frames_longer_than_a_buffer_take_several_slots_both_ways() {
    let Some(host) = Namespace::new() else { return };
    let mut port = open(&host, 1, options());
    // Frames longer than the MTU with which the device was opened also pass.
    host.ip("link set t0 mtu 9000");
    let socket = socket(&host);
    let payload = (0..8000).map(|i| (i * i / 7) as u8).collect::<Vec<_>>();
    for _ in 0..3 {
        socket.send(&payload).unwrap();
        assert_eq!(next_payload(&mut port), payload);
        send(&mut port, &datagram(&socket, &payload));
        let mut back = vec![0; 10_000];
        assert_eq!(receive(&socket, &mut back), 8000);
        assert_eq!(back[..8000], payload);
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

/// Sends a message by TCP between two hosts with a bridged TAP each; returns the mean length in
/// bytes of a packet from the sender.
fn tcp_between_hosts(options: OpenOptions) -> Option<u64> {
    let (near, far) = (Namespace::new()?, Namespace::new()?);
    let region = region();
    let a = try_open(&near, "t0", 1, &region, options.clone()).unwrap();
    let b = try_open(&far, "t0", 1, &region, options).unwrap();
    configure(&near, "10.0.0.1");
    configure(&far, "10.0.0.2");
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let bridge = std::thread::spawn(move || bridge(a, b, &stopped));
    near.ping_all(3, "", "10.0.0.2");
    let message = (0..8_000_000u32).map(|i| (i * 31 / 17) as u8).collect::<Vec<_>>();
    let listener = far.run(|| TcpListener::bind("10.0.0.2:80").unwrap());
    let sent = message.clone();
    let sender = std::thread::spawn(move || {
        let mut stream = near.run(|| TcpStream::connect("10.0.0.2:80")).unwrap();
        stream.write_all(&sent).unwrap();
        near
    });
    let mut received = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
    assert!(received == message, "{} bytes of {} arrived", received.len(), message.len());
    let _near = sender.join().unwrap();
    stop.store(true, Ordering::Relaxed);
    let (mut a, mut b) = bridge.join().unwrap();
    let unread = u64::from(a.queues[0].rings().rx.avail());
    let (a, b) = (a.stats(), b.stats());
    assert_eq!(a.drops().count() + b.drops().count(), 0, "{a:?} {b:?}");
    assert!(b.tx.packets + unread >= a.rx.packets && b.tx.packets <= a.rx.packets);
    Some(a.rx.bytes / a.rx.packets)
}

#[test]
fn ping_and_tcp_pass_between_two_devices_without_super_frames() {
    let Some(mean) = tcp_between_hosts(options()) else { return };
    assert!(mean <= 1514, "{mean} bytes per frame");
}

#[test]
fn super_frames_pass_whole_with_virtio_headers() {
    for vnet_hdr in [10, 12] {
        let Some(mean) = tcp_between_hosts(OpenOptions { vnet_hdr, ..options() }) else { return };
        assert!(mean > 1600, "{mean} bytes per frame");
    }
}

#[test]
fn a_virtio_header_of_the_length_asked_for_precedes_each_frame() {
    for (vnet_hdr, form) in [(10, VnetForm::Short), (12, VnetForm::Mergeable)] {
        let Some(host) = Namespace::new() else { return };
        let mut port = open(&host, 1, OpenOptions { vnet_hdr, ..options() });
        let socket = socket(&host);
        socket.send(b"unfinished").unwrap();
        let frame = loop {
            let frame = next(&mut port).unwrap();
            if frame.ends_with(b"unfinished") {
                break frame;
            }
        };
        let header = VnetHeader::parse(&frame, form).unwrap();
        assert!(header.needs_checksum() && header.csum_start == 34 && header.csum_offset == 6);
        assert_eq!(frame.len(), vnet_hdr as usize + 14 + 20 + 8 + 10);
        let plain = [&vec![0; vnet_hdr as usize][..], &datagram(&socket, b"back")].concat();
        send(&mut port, &plain);
        assert_eq!(receive(&socket, &mut [0; 100]), 4);
    }
}

/// Returns whether the device of a port that could not be opened disappears. This may take a
/// moment: if another test starts a program at this time, the new process keeps a copy of this
/// process's descriptors until it calls exec.
fn goes(host: &Namespace, ifname: &'static str) -> bool {
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline {
        if host.run(move || Iface::find(ifname)).is_err() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[test]
fn a_device_goes_with_its_port_and_its_name_can_be_left_to_the_kernel() {
    let Some(host) = Namespace::new() else { return };
    let region = region();
    let before = region.free_bufs();
    let port = try_open(&host, "", 1, &region, options()).unwrap();
    let ifname = port.info.mode.get("if").unwrap().to_owned();
    assert_eq!(ifname, "tap0");
    assert!(host.run(|| Iface::find("tap0")).unwrap().up);
    close(port);
    // A program that another test is just starting may have a copy of the descriptor for a moment.
    eventually("the device to be gone", || host.run(|| Iface::find("tap0")).err());
    assert_eq!(region.free_bufs(), before);
}

#[test]
fn a_device_that_exists_is_used_and_left() {
    for (kind, queues) in [("", 1), ("multi_queue", 1), ("multi_queue", 2)] {
        let Some(host) = Namespace::new() else { return };
        host.ip(&format!("tuntap add t0 mode tap {kind}"));
        host.ip("link set t0 up");
        let mut port = open(&host, queues, options());
        let socket = socket(&host);
        socket.send(b"there").unwrap();
        assert_eq!(next_payload(&mut port), b"there");
        drop(port);
        assert!(host.run(|| Iface::find("t0")).is_ok(), "{kind} {queues}");
    }
}

#[test]
fn a_device_of_several_queues_spreads_flows_and_takes_frames_from_each() {
    let Some(host) = Namespace::new() else { return };
    let mut port = open(&host, 2, options());
    assert_eq!(port.queues.len(), 2);
    let sockets = (0..32).map(|_| socket(&host)).collect::<Vec<_>>();
    for (i, socket) in sockets.iter().enumerate() {
        socket.send(&[i as u8]).unwrap();
    }
    let mut seen = (0..32).map(|_| next_payload(&mut port)[0]).collect::<Vec<_>>();
    seen.sort_unstable();
    assert_eq!(seen, (0..32).collect::<Vec<_>>());
    for (i, socket) in sockets.iter().enumerate() {
        assert!(port.queues[i % 2].rings().tx.push(&datagram(socket, &[i as u8])));
    }
    port.tx_sync().unwrap();
    for (i, socket) in sockets.iter().enumerate() {
        let mut payload = [0; 10];
        assert_eq!((receive(socket, &mut payload), payload[0]), (1, i as u8));
    }
}

#[test]
fn runts_and_giants_are_dropped_by_name() {
    let Some(host) = Namespace::new() else { return };
    let mut port = open(&host, 1, options());
    let socket = socket(&host);
    let tx = port.queues[0].rings().tx;
    assert!(tx.push(&[0; 13]));
    assert!(tx.push(&vec![0; 70_000]));
    assert!(tx.push(&datagram(&socket, b"good")));
    port.tx_sync().unwrap();
    assert_eq!(receive(&socket, &mut [0; 100]), 4);
    let seen = port.stats();
    assert_eq!(seen.tx.packets, 1);
    assert_eq!(seen.dropped(DropCause::TxRefused), 1);
    assert_eq!(seen.dropped(DropCause::TxTooLong), 1);
}

/// Sends more frames than the kernel keeps for a port of 64 slots, which reads none: the kernel
/// keeps four rings' worth.
fn overflow(host: &Namespace) {
    let socket = socket(host);
    for _ in 0..1000 {
        socket.send_to(b"x", "10.0.0.2:9").unwrap();
    }
}

/// Opens a port of 64 slots that has lost frames; returns it and their number.
fn overflown(host: &Namespace) -> (Port, u64) {
    let mut port = open(host, 1, OpenOptions { slots: 64, ..options() });
    overflow(host);
    let lost = port.stats().dropped(DropCause::RxKernel);
    assert!((1..1000).contains(&lost), "{lost} of 1000 are gone");
    (port, lost)
}

#[test]
fn frames_that_the_kernel_has_no_room_for_are_counted_wherever_the_device_is() {
    let (Some(host), Some(elsewhere)) = (Namespace::new(), Namespace::new()) else { return };
    let (mut port, here) = overflown(&host);
    elsewhere.take(&host, "t0", "t0");
    elsewhere.ip("link set t0 up");
    configure(&elsewhere, "10.0.0.1");
    elsewhere.ip("neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev t0");
    overflow(&elsewhere);
    let peer = port.stats().dropped(DropCause::RxKernel);
    assert!(peer > here, "{peer} after the move, {here} before");
}

#[test]
fn lost_frames_of_a_device_that_was_moved_and_renamed_are_counted() {
    let (Some(host), Some(elsewhere)) = (Namespace::new(), Namespace::new()) else { return };
    let (mut port, here) = overflown(&host);
    elsewhere.take(&host, "t0", "t0");
    elsewhere.ip("link set t0 name t5");
    elsewhere.ip("tuntap add t0 mode tap");
    assert_eq!(port.stats().dropped(DropCause::RxKernel), here);
}

#[test]
fn lost_frames_of_a_renamed_device_are_counted_and_not_those_of_its_successor() {
    let Some(host) = Namespace::new() else { return };
    let (mut port, before) = overflown(&host);
    host.ip("link set t0 name t1");
    host.ip("tuntap add t0 mode tap");
    assert_eq!(port.stats().dropped(DropCause::RxKernel), before);
    overflow(&host);
    assert!(port.stats().dropped(DropCause::RxKernel) > before);
}

/// Opens a second port with the queue of the first one, as another process would after it has
/// received the descriptor.
fn inherit(host: &Namespace, port: &Port) -> Result<Port, OpenError> {
    let descriptor = port.queues[0].wait_fds().rx.unwrap().try_clone_to_owned().unwrap();
    let options = OpenOptions { slots: 64, ..options() };
    host.run(move || tap::open_inherited("tap:t0", &region(), &options, vec![descriptor]))
}

#[test]
fn a_device_stays_with_its_addresses_when_another_port_has_inherited_it() {
    let Some(host) = Namespace::new() else { return };
    let port = open(&host, 1, OpenOptions { slots: 64, ..options() });
    let before = host.ip("-o addr show dev t0");
    let mut heir = inherit(&host, &port).unwrap();
    close(port);
    assert_eq!(host.ip("-o addr show dev t0"), before);
    let socket = socket(&host);
    assert!(heir.queues[0].rings().tx.push(&datagram(&socket, b"hello")));
    heir.tx_sync().unwrap();
    assert_eq!(receive(&socket, &mut [0; 100]), 5);
    close(heir);
    eventually("the end of the device", || {
        (!host.ip("-o link show").contains(" t0: ")).then_some(())
    });
}

#[test]
fn a_frame_that_the_kernel_has_lost_is_counted_by_one_of_two_ports() {
    let Some(host) = Namespace::new() else { return };
    let (mut port, first) = overflown(&host);
    let mut heir = inherit(&host, &port).unwrap();
    overflow(&host);
    let of_port = port.stats().dropped(DropCause::RxKernel);
    assert!(of_port > first);
    let position = port.queues[0].resume_position().unwrap();
    overflow(&host);
    heir.queues[0].resume_ring(position);
    overflow(&host);
    let of_heir = heir.stats().dropped(DropCause::RxKernel);
    // If the first port goes on nevertheless, it also counts each frame once; after `resume_ring`,
    // it counts the frames after `position` once more.
    assert_eq!(port.stats().dropped(DropCause::RxKernel), of_port + of_heir);
    port.queues[0].resume_ring(position);
    assert_eq!(port.stats().dropped(DropCause::RxKernel), of_port + 2 * of_heir);
}

#[test]
fn a_device_of_another_namespace_is_not_inherited_as_one_of_the_same_name() {
    let (Some(host), Some(elsewhere)) = (Namespace::new(), Namespace::new()) else { return };
    let port = open(&host, 1, OpenOptions { slots: 64, ..options() });
    elsewhere.take(&host, "t0", "t0");
    host.ip("tuntap add t0 mode tap");
    let error = inherit(&host, &port).unwrap_err();
    assert!(error.to_string().contains("another network namespace"), "{error}");
    assert!(inherit(&elsewhere, &port).is_ok());
    close(port);
}

#[test]
fn a_deleted_device_is_not_inherited() {
    let Some(host) = Namespace::new() else { return };
    let port = open(&host, 1, options());
    host.ip("link del t0");
    assert!(inherit(&host, &port).is_err());
}

/// A program that holds the kernel's lock of all links until it is killed, for a minute at most.
/// The kernel reads the argument of a call while it holds the lock; the argument is in memory whose
/// page fault is not served.
const LOCK_HOLDER: &str = "
import ctypes, fcntl, mmap, os, struct, sys, threading, time
libc = ctypes.CDLL(None)
number = 323 if os.uname().machine == 'x86_64' else 282
faults = libc.syscall(number, os.O_CLOEXEC)
if faults < 0:
    sys.exit('no userfaultfd')
memory = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
argument = ctypes.addressof(ctypes.c_char.from_buffer(memory))
fcntl.ioctl(faults, 0xc018aa3f, bytearray(struct.pack('QQQ', 0xaa, 0, 0)))
fcntl.ioctl(faults, 0xc020aa00, bytearray(struct.pack('QQQQ', argument, mmap.PAGESIZE, 1, 0)))
tun = os.open('/dev/net/tun', os.O_RDWR)
fcntl.ioctl(tun, 0x400454ca, struct.pack('16sH22x', b'held', 0x1002))
set_buffer = lambda: libc.ioctl(tun, ctypes.c_ulong(0x400454d4), ctypes.c_void_p(argument))
threading.Thread(target=set_buffer, daemon=True).start()
os.read(faults, 32)
print('held', flush=True)
time.sleep(60)
";

#[test]
fn lost_frames_are_counted_while_another_process_locks_all_links() {
    let Some(host) = Namespace::new() else { return };
    if !installed("python3") {
        return;
    }
    let (mut port, before) = overflown(&host);
    overflow(&host);
    let mut holder = Command::new("python3");
    holder.args(["-c", LOCK_HOLDER]).stdout(Stdio::piped());
    let mut holder = host.spawn(holder);
    let mut said = [0; 4];
    if holder.stdout.take().unwrap().read_exact(&mut said).is_err() {
        holder.wait().unwrap();
        return skip!("no userfaultfd");
    }
    assert!(port.stats().dropped(DropCause::RxKernel) > before);
    assert_eq!(holder.try_wait().unwrap(), None, "it waited for the lock");
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn a_device_that_vanishes_ends_the_port() {
    let Some(host) = Namespace::new() else { return };
    let mut port = open(&host, 1, options());
    host.ip("link del t0");
    let error = loop {
        if let Err(error) = next(&mut port) {
            break error;
        }
    };
    assert!(matches!(error.cause, RunCause::Vanished), "{error}");
    assert!(port.queues[0].rings().tx.push(&[0; 60]));
    let error = port.tx_sync().unwrap_err();
    assert_eq!(error.to_string(), "tap:t0 failed: the interface is gone");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let Some(host) = Namespace::new() else { return };
    let region = region();
    let fails = |ifname, options| {
        let error = try_open(&host, ifname, 1, &region, options).unwrap_err();
        (error.code(), error.to_string())
    };
    let (code, text) = fails("lo", options());
    assert_eq!(code, "SR0101", "{text}");
    assert_eq!(fails("a-name-too-long-", options()).0, "SR0101");
    assert_eq!(fails("t0", OpenOptions { vnet_hdr: 11, ..options() }).0, "SR0101");
    let _port = try_open(&host, "t0", 1, &region, options()).unwrap();
    assert_eq!(fails("t0", options()).0, "SR0107");
    assert_eq!(fails("t1", OpenOptions { slots: 30_000, ..options() }).0, "SR0110");
    assert!(goes(&host, "t1"), "nothing is left of a port that failed");
}

#[test]
fn without_the_capability_it_is_named() {
    let Some(host) = Namespace::new() else { return };
    host.run(|| {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).unwrap();
    });
    let error = try_open(&host, "t0", 1, &region(), options()).unwrap_err();
    assert_eq!(error.code(), "SR0104");
    assert!(error.help().unwrap().contains("cap_net_admin"), "{:?}", error.help());
}

#[test]
fn a_persistent_device_stays_without_a_program_and_is_made_once() {
    let Some(namespace) = Namespace::new() else { return };
    let made = namespace.run(|| {
        [tap::create_persistent("keep0"), tap::create_persistent("keep0")]
            .map(|made| made.map_err(|error| error.to_string()))
    });
    match &made[0] {
        Ok(index) => assert!(*index > 1),
        Err(error) => return skip!("no TAP device here: {error}"),
    }
    assert!(made[1].as_ref().unwrap_err().contains("there is an interface `keep0` already"));
    assert!(namespace.ip("-d link show dev keep0").contains("persist on"));
}
