//! Tests of AF_XDP ports over veth pairs, in private network namespaces.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use slipring_bpf::insn::{BpfHelper, BpfReg, call, exit, mov_imm};
use slipring_bpf::{
    BpfAttachType, BpfLink, BpfLinkFlags, BpfMap, BpfMapKind, BpfMapSpec, BpfProgram,
    BpfProgramFlags, BpfProgramKind,
};
use slipring_port::iface::Iface;
use slipring_port::{
    DropCause, Interest, OpenCause, OpenOptions, Port, Queue, QueueOwner, RunCause, RunError,
    WaitOutcome, WaitStrategy, Waiter, XdpMode, xdp,
};
use slipring_ring::{BUF_SIZE_FOR_DEVICES, Geometry, HugePages, Region, SlotFlags, forward};
use slipring_test_support::{Namespace, TIMEOUT, close};

const MODES: [XdpMode; 2] = [XdpMode::Native, XdpMode::Generic];

fn region(bufs: u32) -> Arc<Region> {
    let geometry = Geometry { bufs, buf_size: BUF_SIZE_FOR_DEVICES, ..Geometry::default() };
    Region::create(geometry, HugePages::Never).unwrap()
}

fn options(xdp: XdpMode) -> OpenOptions {
    OpenOptions { xdp, slots: 256, ..OpenOptions::default() }
}

/// Two namespaces joined by `va` here and `vb` there.
fn pair(extra: &str) -> Option<(Namespace, Namespace)> {
    let (here, peer) = (Namespace::new()?, Namespace::new()?);
    here.cable("va", &peer, "vb", extra);
    Some((here, peer))
}

fn open_in(netns: &Namespace, name: &str, region: &Arc<Region>, options: &OpenOptions) -> Port {
    try_open(netns, name, None, region, options).unwrap()
}

fn try_open(
    netns: &Namespace,
    name: &str,
    queue: Option<u32>,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, slipring_port::OpenError> {
    let (name, region, options) = (name.to_owned(), region.clone(), options.clone());
    netns.run(move || xdp::open(&format!("xdp:{name}"), &name, queue, &region, &options))
}

/// A frame without a receiver, of a type that no stack answers, with its number in its payload.
fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0x5a; len.max(20)];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

fn wait(
    waiter: &mut Waiter,
    queue: &mut dyn Queue,
    interest: Interest,
) -> Result<WaitOutcome, RunError> {
    waiter.wait(&mut [(queue, interest)][..], Some(TIMEOUT))
}

/// Waits until a queue has frames and returns them all.
fn receive(queue: &mut dyn Queue) -> Vec<Vec<u8>> {
    let mut waiter = Waiter::new([&*queue], WaitStrategy::default()).unwrap();
    let mut woken = WaitOutcome::Interrupted;
    // SIGCHLD may interrupt a wait, even though the process ignores it.
    while woken == WaitOutcome::Interrupted {
        woken = wait(&mut waiter, &mut *queue, Interest::RX).unwrap();
    }
    assert_eq!(woken, WaitOutcome::Ready, "nothing arrived");
    drain(queue)
}

fn drain(queue: &mut dyn Queue) -> Vec<Vec<u8>> {
    let mut scratch = Vec::new();
    let mut frames = Vec::new();
    while let Some(frame) = queue.rings().rx.packet(&mut scratch, |frame| frame.to_vec()) {
        frames.push(frame);
    }
    frames
}

/// Receives frames until there are at least `count`; panics if fewer arrive.
fn receive_n(queue: &mut dyn Queue, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while frames.len() < count {
        frames.extend(receive(queue));
    }
    frames
}

/// Sends all frames, waiting for space.
fn send_all(queue: &mut dyn Queue, frames: &[Vec<u8>]) {
    let mut waiter = Waiter::new([&*queue], WaitStrategy::default()).unwrap();
    for frame in frames {
        while !queue.rings().tx.push(frame) {
            let woken = wait(&mut waiter, &mut *queue, Interest::TX).unwrap();
            assert_ne!(woken, WaitOutcome::Timeout, "no room to send");
        }
    }
    queue.tx_sync().unwrap();
}

/// Syncs until all frames that were sent have left.
fn settle(queue: &mut dyn Queue) {
    let start = std::time::Instant::now();
    loop {
        queue.tx_sync().unwrap();
        if queue.counters().snapshot().in_flight == 0 {
            return;
        }
        assert!(start.elapsed() < TIMEOUT, "frames stay in flight");
        std::thread::yield_now();
    }
}

/// All buffers in the program's slots of a port's rings.
fn owned(port: &mut Port) -> Vec<u32> {
    let mut bufs = Vec::new();
    for queue in &mut port.queues {
        let rings = queue.rings();
        let (tx, rx) = (rings.tx.avail(), rings.rx.avail());
        bufs.extend((0..tx).map(|i| rings.tx.slot(i).unwrap().buf.0));
        bufs.extend((0..rx).map(|i| rings.rx.slot(i).unwrap().buf.0));
    }
    bufs
}

#[test]
fn frames_arrive_whole_and_in_order() {
    for mode in MODES {
        let Some((here, peer)) = pair("") else { return };
        let region = region(4096);
        let mut a = open_in(&here, "va", &region, &options(mode));
        let mut b = open_in(&peer, "vb", &region, &options(mode));
        let word = if mode == XdpMode::Native { "native" } else { "generic" };
        assert_eq!(a.info.mode.get("mode"), Some(word));
        assert_eq!(a.info.mode.get("host"), Some("detached"));
        let mut expected = 0;
        for round in 0..50 {
            let sent: Vec<_> =
                (0..100).map(|i| frame(round * 100 + i, 60 + i as usize * 14)).collect();
            send_all(&mut *a.queues[0], &sent);
            let got = receive_n(&mut *b.queues[0], sent.len());
            assert_eq!(got, sent, "{mode:?} round {round}");
            expected += 100;
        }
        settle(&mut *a.queues[0]);
        let (tx, rx) = (a.stats(), b.stats());
        assert_eq!((tx.tx.packets, rx.rx.packets), (expected, expected));
        assert_eq!(tx.tx.bytes, rx.rx.bytes);
        assert_eq!((tx.drops().count(), rx.drops().count(), tx.strays), (0, 0, 0));
    }
}

#[test]
fn forwarding_by_exchange_keeps_every_buffer_once() {
    for mode in MODES {
        let Some((left, middle)) = pair("") else { return };
        let Some(right) = Namespace::new() else { return };
        middle.cable("vc", &right, "vd", "");
        let (outer, inner) = (region(4096), region(2048));
        let free = inner.free_bufs();
        let mut a = open_in(&left, "va", &outer, &options(mode));
        let mut d = open_in(&right, "vd", &outer, &options(mode));
        let mut b = open_in(&middle, "vb", &inner, &options(mode));
        let mut c = open_in(&middle, "vc", &inner, &options(mode));
        let mut got = Vec::new();
        for round in 0..100 {
            let sent: Vec<_> = (0..37).map(|i| frame(round * 37 + i, 64)).collect();
            send_all(&mut *a.queues[0], &sent);
            let mut waiter = Waiter::new([&*b.queues[0]], WaitStrategy::default()).unwrap();
            let mut moved = 0;
            while moved < 37 {
                wait(&mut waiter, &mut *b.queues[0], Interest::RX).unwrap();
                moved += forward(b.queues[0].rings().rx, c.queues[0].rings().tx, 1024);
                c.tx_sync().unwrap();
                b.rx_sync().unwrap();
            }
            got.extend(receive_n(&mut *d.queues[0], 37).iter().map(|frame| number(frame)));
        }
        assert_eq!(got, (0..3700).collect::<Vec<_>>(), "{mode:?}");
        settle(&mut *c.queues[0]);
        let mut bufs = owned(&mut c);
        bufs.extend(owned(&mut b));
        let distinct: BTreeSet<_> = bufs.iter().collect();
        assert_eq!(distinct.len(), bufs.len(), "a buffer is in two slots");
        drop((b, c));
        assert_eq!(inner.free_bufs(), free);
    }
}

#[test]
fn a_port_dropped_with_frames_in_flight_returns_all_buffers() {
    for mode in MODES {
        let Some((here, peer)) = pair("") else { return };
        let region = region(4096);
        let free = region.free_bufs();
        let mut a = open_in(&here, "va", &region, &options(mode));
        let mut b = open_in(&peer, "vb", &region, &options(mode));
        for i in 0..200 {
            a.queues[0].rings().tx.push(&frame(i, 64));
        }
        a.tx_sync().unwrap();
        for i in 0..50 {
            a.queues[0].rings().tx.push(&frame(i, 64));
        }
        b.rx_sync().unwrap();
        drop((a, b));
        assert_eq!(region.free_bufs(), free, "{mode:?}");
    }
}

#[test]
fn a_closed_queue_can_be_opened_again_at_once() {
    let Some((here, _there)) = pair("") else { return };
    let region = region(4096);
    for _ in 0..4 {
        let port = open_in(&here, "va", &region, &options(XdpMode::Best));
        assert_eq!(port.info.mode.get("mode"), Some("native"));
        close(port);
    }
}

#[test]
fn an_interface_that_is_removed_fails_both_syncs() {
    let Some((here, peer)) = pair("") else { return };
    let region = region(4096);
    let mut port = open_in(&here, "va", &region, &options(XdpMode::Best));
    peer.ip("link del vb");
    let queue = &mut *port.queues[0];
    let mut waiter = Waiter::new([&*queue], WaitStrategy::Sleep).unwrap();
    let failed = wait(&mut waiter, &mut *queue, Interest::RX).unwrap_err();
    assert!(matches!(failed.cause, RunCause::Vanished), "{failed}");
    queue.rings().tx.push(&frame(0, 64));
    assert!(matches!(queue.tx_sync().unwrap_err().cause, RunCause::Vanished));
}

#[test]
fn refusals_say_what_to_do() {
    let Some((here, _there)) = pair("numtxqueues 2 numrxqueues 2") else { return };
    let region = region(4096);
    let refusal = |queue, options: &OpenOptions| {
        let error = try_open(&here, "va", queue, &region, options).unwrap_err();
        (error.to_string(), error.help().unwrap_or_default())
    };
    let best = options(XdpMode::Best);
    let (error, help) = refusal(Some(7), &best);
    assert_eq!(error, "cannot open xdp:va: queue 7 is out of range: `va` has 2 (0 to 1)");
    assert_eq!(help, "take a queue from 0 to 1");
    let (error, _) = refusal(None, &options(XdpMode::ZeroCopy));
    assert!(error.starts_with("cannot open xdp:va: `va` has no AF_XDP zero-copy: "), "{error}");
    let one = try_open(&here, "va", Some(1), &region, &best).unwrap();
    assert_eq!(one.info.mode.get("host"), Some("shared"));
    let (error, _) = refusal(Some(1), &best);
    assert_eq!(error, "cannot open xdp:va: queue 1 of `va` is in use by this process");
    close(one);
    let pass = here.run(|| {
        let (pass, flags) = ([mov_imm(BpfReg::R0, 2), exit()], BpfProgramFlags::default());
        let program = BpfProgram::load(BpfProgramKind::Xdp, "other", &pass, flags).unwrap();
        let ifindex = Iface::find("va").unwrap().index;
        program.attach(ifindex, BpfAttachType::Xdp, BpfLinkFlags::XdpNative).unwrap()
    });
    let (error, _) = refusal(Some(0), &best);
    assert_eq!(error, "cannot open xdp:va: queue 0 of `va` is in use by this process");
    drop(pass);
    here.ip("link set va down");
    let (error, help) = refusal(None, &OpenOptions { exit_on_link_down: true, ..best });
    assert_eq!(error, "cannot open xdp:va: interface `va` is down");
    assert_eq!(help, "bring it up: ip link set va up");
}

/// The name of the variable that makes [`queue_holder`] hold a queue.
const HOLD_QUEUE: &str = "SLIPRING_HOLD_QUEUE";

/// Not a test of its own: the next test runs this function in another process. That process has a
/// socket of queue 0 of `va`, and no XDP program.
#[test]
fn queue_holder() {
    if std::env::var_os(HOLD_QUEUE).is_none() {
        return;
    }
    let map = BpfMap::create("sockets", BpfMapSpec::of_descriptors(BpfMapKind::XskMap, 1)).unwrap();
    let sockets = xdp::XdpSocketMap { map: Arc::new(map), is_native: false };
    let region = region(2048);
    let port = xdp::open_into("xdp:va", "va", &region, &options(XdpMode::Best), sockets).unwrap();
    println!("bound");
    // Waits until the test closes the pipe.
    let _ = std::io::stdin().read_line(&mut String::new());
    drop(port);
}

#[test]
fn a_program_that_only_this_attempt_has_attached_does_not_name_this_process_as_the_owner() {
    let Some((here, _there)) = pair("") else { return };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "queue_holder", "--nocapture"]).env(HOLD_QUEUE, "1");
    let mut holder = here.spawn({
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    });
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("bound")));
    let region = region(2048);
    let refused = try_open(&here, "va", None, &region, &options(XdpMode::Best)).unwrap_err();
    let OpenCause::Busy { by, .. } = &*refused.cause else { panic!("{refused}") };
    // If the kernel does not list AF_XDP sockets, the holder is only suspected.
    let (QueueOwner::Process(label) | QueueOwner::Suspects(label)) = by else { panic!("{by:?}") };
    assert!(label.ends_with(&format!(" ({})", holder.id())), "{label}");
    drop(holder.stdin.take());
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    assert!(holder.wait().unwrap().success(), "{rest:?}");
}

#[test]
fn slots_that_cannot_be_sent_are_dropped_by_name_and_freed() {
    let Some((here, peer)) = pair("") else { return };
    let region = region(4096);
    let free = region.free_bufs();
    let mut a = open_in(&here, "va", &region, &options(XdpMode::Best));
    let mut b = open_in(&peer, "vb", &region, &options(XdpMode::Best));
    let queue = &mut *a.queues[0];
    let all = queue.rings().tx.avail();
    let tx = queue.rings().tx;
    tx.push(&frame(1, 64));
    tx.set(0, 0, SlotFlags::default());
    tx.advance(1);
    tx.push(&frame(2, 1600));
    tx.set(0, 64, SlotFlags::MOREFRAG);
    tx.set(1, 2000, SlotFlags::default());
    tx.advance(2);
    tx.push(&frame(3, 64));
    tx.set(0, 64, SlotFlags::MOREFRAG);
    tx.advance(1);
    queue.tx_sync().unwrap();
    let got = receive_n(&mut *b.queues[0], 2);
    assert_eq!(got.iter().map(|frame| number(frame)).collect::<Vec<_>>(), [1, 3]);
    settle(queue);
    let stats = queue.counters().snapshot();
    for (cause, count) in
        [(DropCause::TxBadSlot, 1), (DropCause::TxTooLong, 2), (DropCause::TxIncomplete, 1)]
    {
        assert_eq!(stats.dropped(cause), count, "{}", cause.name());
    }
    assert_eq!(queue.rings().tx.avail(), all);
    drop((a, b));
    assert_eq!(region.free_bufs(), free);
}

/// Gives the stack an address on the interface, and a neighbour entry for an address that no host
/// has.
fn address(netns: &Namespace, ifname: &str, net: u8) {
    netns.ip(&format!("addr add 10.0.{net}.2/24 dev {ifname}"));
    netns.ip(&format!("neigh add 10.0.{net}.1 lladdr 02:00:00:00:00:01 dev {ifname}"));
}

/// Makes the stack send a datagram of `len` bytes to the neighbour that [`address`] has added.
fn send_udp(netns: &Namespace, net: u8, len: usize) {
    netns.run(move || {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(&vec![0xa5; len], format!("10.0.{net}.1:9000")).unwrap();
    });
}

/// Returns whether the checksums of the IPv4 header and of the transport are right.
fn checksums_hold(frame: &[u8]) -> bool {
    let headers = slipring_wire::Headers::parse(frame).unwrap();
    let ip = headers.ip.unwrap();
    let (l3, l4) = (usize::from(headers.l3), usize::from(ip.l4));
    let mut covered = frame[l3 + 12..l3 + 20].to_vec();
    covered.extend([0, ip.proto.0]);
    covered.extend((ip.l4_len() as u16).to_be_bytes());
    covered.extend(&frame[l4..ip.end as usize]);
    [&frame[l3..l4], &covered].iter().all(|bytes| slipring_wire::checksum::of(bytes) == 0)
}

/// Makes a stack tag all frames that it sends. As with VLAN devices, the tag is outside the frame's
/// bytes.
fn push_tags(netns: &Namespace, ifname: &'static str, tag: i32) -> BpfLink {
    netns.run(move || {
        let push = [
            mov_imm(BpfReg::R2, 0x8100u16.to_be().into()),
            mov_imm(BpfReg::R3, tag),
            call(BpfHelper::SkbVlanPush),
            mov_imm(BpfReg::R0, -1),
            exit(),
        ];
        let flags = BpfProgramFlags::default();
        let program =
            BpfProgram::load(BpfProgramKind::Classifier, "push_tag", &push, flags).unwrap();
        let ifindex = Iface::find(ifname).unwrap().index;
        program.attach(ifindex, BpfAttachType::TcxEgress, BpfLinkFlags::Last).unwrap()
    })
}

#[test]
fn tags_of_the_peer_s_stack_are_in_the_frames() {
    for mode in MODES {
        let Some((here, peer)) = pair("") else { return };
        address(&peer, "vb", 7);
        let _tagging = push_tags(&peer, "vb", 7);
        let region = region(4096);
        let mut port = open_in(&here, "va", &region, &options(mode));
        send_udp(&peer, 7, 100);
        let frame = receive(&mut *port.queues[0]).remove(0);
        if mode == XdpMode::Native {
            assert_eq!(port.info.mode.get("vlan"), None);
            assert_eq!(frame[12..18], [0x81, 0, 0, 7, 8, 0]);
            assert_eq!(frame.len(), 18 + 20 + 8 + 100);
            assert_eq!(frame[..6], [2, 0, 0, 0, 0, 1]);
        } else {
            assert_eq!(port.info.mode.get("vlan"), Some("inband-only"));
            assert_eq!(frame[12..14], [8, 0]);
        }
        assert!(checksums_hold(&frame));
    }
}

#[test]
fn tags_in_frames_that_a_port_sends_reach_the_peer() {
    let Some((here, peer)) = pair("") else { return };
    let region = region(4096);
    let mut a = open_in(&here, "va", &region, &options(XdpMode::Best));
    let mut b = open_in(&peer, "vb", &region, &options(XdpMode::Best));
    let mut tagged = frame(1, 1518);
    tagged[12..16].copy_from_slice(&[0x81, 0, 0, 9]);
    send_all(&mut *a.queues[0], &[tagged.clone()]);
    assert_eq!(receive(&mut *b.queues[0]), [tagged]);
}

#[test]
fn unfinished_checksums_of_the_peer_s_stack_are_completed() {
    for (mode, mtu) in MODES.into_iter().flat_map(|mode| [(mode, 1500), (mode, 9000)]) {
        let Some((here, peer)) = pair(&format!("mtu {mtu}")) else { return };
        address(&peer, "vb", 0);
        let region = region(4096);
        let mut port = open_in(&here, "va", &region, &options(mode));
        for len in [1, 18, 100, 1400, mtu - 28] {
            send_udp(&peer, 0, len);
            let frame = receive(&mut *port.queues[0]).remove(0);
            assert_eq!(frame.len(), 42 + len);
            assert!(checksums_hold(&frame), "{mode:?}, UDP of {len} bytes");
        }
        let connecting = peer.run(|| {
            std::thread::spawn(|| {
                std::net::TcpStream::connect_timeout(
                    &"10.0.0.1:9000".parse().unwrap(),
                    Duration::from_millis(1),
                )
            })
        });
        let syn = receive(&mut *port.queues[0]).remove(0);
        assert_eq!(syn[23], 6, "a TCP segment");
        assert!(checksums_hold(&syn), "{mode:?}, TCP");
        assert!(connecting.join().unwrap().is_err());
    }
}

#[test]
fn jumbo_packets_take_several_slots_both_ways() {
    let sizes = [2048, 2112, 4032, 4096];
    let cases = MODES.into_iter().flat_map(|mode| sizes.map(|buf_size| (mode, buf_size)));
    for (mode, buf_size) in cases {
        let Some((here, peer)) = pair("mtu 9000") else { return };
        let geometry = Geometry { bufs: 4096, buf_size, ..Geometry::default() };
        let region = Region::create(geometry, HugePages::Never).unwrap();
        let free = region.free_bufs();
        let mut a = open_in(&here, "va", &region, &options(mode));
        let mut b = open_in(&peer, "vb", &region, &options(mode));
        // Lengths around the limits of descriptors and buffers. `push` fills whole buffers, so some
        // slots are longer than one descriptor can cover.
        for len in [1792, 1793, 1856, 1857, 2048, 2049, 3584, 3776, 3840, 3841, 4096, 9000, 9014] {
            let mut sent = frame(len as u32, len);
            sent[18..].iter_mut().enumerate().for_each(|(i, byte)| *byte = (i / 7) as u8);
            send_all(&mut *a.queues[0], &[sent.clone()]);
            assert_eq!(receive(&mut *b.queues[0]), [sent], "{mode:?}, {buf_size}, {len} bytes");
        }
        settle(&mut *a.queues[0]);
        assert_eq!(a.stats().tx.packets, 13);
        drop((a, b));
        assert_eq!(region.free_bufs(), free);
    }
}

#[test]
fn queues_are_separate_and_share_one_memory() {
    let Some((here, peer)) = pair("numtxqueues 2 numrxqueues 2") else { return };
    let region = region(4096);
    let mut a = open_in(&here, "va", &region, &options(XdpMode::Best));
    let mut b = open_in(&peer, "vb", &region, &options(XdpMode::Best));
    assert_eq!((a.queues.len(), b.info.mode.get("queues")), (2, Some("2")));
    for queue in [1, 0] {
        send_all(&mut *a.queues[queue], &[frame(queue as u32, 64)]);
        assert_eq!(receive(&mut *b.queues[queue]), [frame(queue as u32, 64)]);
    }
    b.rx_sync().unwrap();
    assert!(b.queues.iter_mut().all(|queue| queue.rings().rx.avail() == 0));
}

#[test]
fn two_ports_may_have_a_queue_each() {
    let Some((here, remote)) = pair("numtxqueues 2 numrxqueues 2") else { return };
    let regions = [region(2048), region(2048)];
    let best = options(XdpMode::Best);
    let mut one = try_open(&here, "va", Some(0), &regions[0], &best).unwrap();
    let mut two = try_open(&here, "va", Some(1), &regions[1], &best).unwrap();
    let mut peer = open_in(&remote, "vb", &region(4096), &best);
    for (i, port) in [&mut one, &mut two].into_iter().enumerate() {
        send_all(&mut *peer.queues[i], &[frame(i as u32, 64)]);
        assert_eq!(receive(&mut *port.queues[0]), [frame(i as u32, 64)]);
    }
}

#[test]
fn completions_out_of_order_lose_no_buffer_and_repeat_none() {
    let Some((here, peer)) = pair("") else { return };
    let region = region(4096);
    let free = region.free_bufs();
    let mut a = open_in(&here, "va", &region, &options(XdpMode::Best));
    let mut b = open_in(&peer, "vb", &region, &options(XdpMode::Best));
    let threaded = "mount -t sysfs sysfs /sys && echo 1 > /sys/class/net/vb/threaded";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", threaded]);
    assert!(peer.spawn(command).wait().unwrap().success(), "threaded NAPI");
    // The kernel now accepts at most 1000 bytes, but the port has the larger limit that it read
    // when it was opened.
    peer.ip("link set vb mtu 1000");
    here.ip("link set va mtu 1000");
    let (mut sent, mut swapped, mut got) = (0, 0, 0);
    for _ in 0..300 {
        let batch: Vec<_> = (0..32).map(|i| frame(i, if i % 8 == 3 { 1400 } else { 64 })).collect();
        send_all(&mut *a.queues[0], &batch);
        sent += batch.len() as u64;
        settle(&mut *a.queues[0]);
        let tx = a.queues[0].rings().tx;
        let free = tx.avail();
        let bufs: Vec<_> = (0..free).map(|i| tx.slot(i).unwrap()).collect();
        let distinct: BTreeSet<_> = bufs.iter().map(|slot| slot.buf).collect();
        assert_eq!(distinct.len(), 255, "a buffer is in two slots, or in none");
        swapped += bufs.iter().filter(|slot| slot.flags.has(SlotFlags::BUF_CHANGED)).count();
        b.rx_sync().unwrap();
        got += drain(&mut *b.queues[0]).len() as u64;
    }
    let stats = a.stats();
    assert_eq!(stats.dropped(DropCause::TxRefused), sent / 8);
    assert_eq!((stats.tx.packets, stats.strays), (sent - sent / 8, 0));
    assert!(swapped > 0 && got > 0, "nothing came back out of order");
    drop((a, b));
    assert_eq!(region.free_bufs(), free);
}

/// Joins the stacks of two namespaces through ports of a third, and copies `len` bytes of TCP.
fn copy_by_tcp(mode: XdpMode, mtu: u32, len: usize) {
    let (Some(left), Some(middle), Some(right)) =
        (Namespace::new(), Namespace::new(), Namespace::new())
    else {
        return;
    };
    let extra = format!("mtu {mtu}");
    left.cable("va", &middle, "vb", &extra);
    middle.cable("vc", &right, "vd", &extra);
    left.ip("addr add 10.0.0.1/24 dev va");
    right.ip("addr add 10.0.0.2/24 dev vd");
    let region = region(8192);
    let options = OpenOptions { slots: 1024, ..options(mode) };
    let mut b = open_in(&middle, "vb", &region, &options);
    let mut c = open_in(&middle, "vc", &region, &options);
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stop = done.clone();
    let bridge = std::thread::spawn(move || {
        let mut waiter = Waiter::for_ports([&b, &c], WaitStrategy::default()).unwrap();
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            let nap = Some(Duration::from_millis(20));
            waiter.wait_ports(&mut [&mut b, &mut c], Interest::RX, nap).unwrap();
            slipring_port::forward(&mut b, &mut c, 1024).unwrap();
            slipring_port::forward(&mut c, &mut b, 1024).unwrap();
        }
        (b.stats(), c.stats())
    });
    let listener = right.run(|| std::net::TcpListener::bind("10.0.0.2:9000").unwrap());
    // A small receive buffer limits the frames in flight to fewer than the rings hold, so that no
    // frame is lost.
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 512 << 10).unwrap();
    let receiver = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut listener.accept().unwrap().0, &mut bytes).unwrap();
        bytes
    });
    let sent: Vec<u8> = (0..len).map(|i| (i * 7 / 64) as u8).collect();
    let payload = sent.clone();
    let start = std::time::Instant::now();
    left.run(move || {
        let mut stream = std::net::TcpStream::connect("10.0.0.2:9000").unwrap();
        std::io::Write::write_all(&mut stream, &payload).unwrap();
    });
    assert!(receiver.join().unwrap() == sent, "other bytes than were sent");
    let rate = len as f64 * 8e-9 / start.elapsed().as_secs_f64();
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    let (b, c) = bridge.join().unwrap();
    println!("{mode:?} mtu {mtu}: {rate:.2} Gbit/s");
    // The kernel refuses frames while a CPU's backlog is full. All namespaces share that backlog,
    // so refusals are allowed.
    let ours = |(cause, _): &(DropCause, u64)| *cause != DropCause::TxRefused;
    let drops: Vec<_> = b.drops().chain(c.drops()).filter(ours).collect();
    assert_eq!(drops, [], "{mode:?}");
}

#[test]
fn tcp_passes_a_bridge_without_loss_natively() {
    copy_by_tcp(XdpMode::Native, 1500, 64 << 20);
}

#[test]
fn tcp_super_frames_are_cut_in_generic_mode() {
    copy_by_tcp(XdpMode::Generic, 1500, 64 << 20);
}

#[test]
fn without_privilege_the_error_names_the_capabilities() {
    let Some((here, _there)) = pair("") else { return };
    let region = region(2048);
    let error = here.run(move || {
        let nobody = rustix::thread::Uid::from_raw(65_534);
        // Changes the user ID of this thread only. The thread only runs this test.
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        xdp::open("xdp:va", "va", None, &region, &OpenOptions::default()).unwrap_err()
    });
    let what = "cannot open xdp:va: create a BPF map: Operation not permitted (os error 1)";
    assert_eq!(error.to_string(), what);
    assert!(error.help().unwrap().contains(slipring_port::GRANT_COMMANDS));
    assert!(error.note().unwrap().contains("cap_net_admin,cap_bpf,cap_net_raw"));
}

#[test]
fn busy_polling_and_many_slots_are_taken() {
    let Some((here, peer)) = pair("") else { return };
    let region = region(16_384);
    let options =
        OpenOptions { busy_poll_us: 20, slots: 3000, promiscuous: false, ..OpenOptions::default() };
    let mut a = open_in(&here, "va", &region, &options);
    let mut b = open_in(&peer, "vb", &region, &options);
    assert_eq!((a.info.mode.get("slots"), a.info.mode.get("promisc")), (Some("3000"), Some("off")));
    let sent: Vec<_> = (0..2500).map(|i| frame(i, 64)).collect();
    send_all(&mut *a.queues[0], &sent);
    assert!(receive_n(&mut *b.queues[0], sent.len()) == sent);
}
