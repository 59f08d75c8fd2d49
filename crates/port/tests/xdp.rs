//! AF_XDP ports over veth pairs, in network namespaces of the tests' own.
#![allow(clippy::unwrap_used)]

mod netns;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use netns::Namespace;
use slipring_port::{
    DropCause, Interest, OpenOptions, Patience, Port, Queue, RunCause, RunError, Waiter, Woken, XdpMode, xdp,
};
use slipring_ring::{Geometry, HugePages, Region, SlotFlags, forward};

const MODES: [XdpMode; 2] = [XdpMode::Native, XdpMode::Generic];
const PATIENCE: Duration = Duration::from_secs(10);

fn region(bufs: u32) -> Arc<Region> {
    Region::create(Geometry { bufs, ..Geometry::default() }, HugePages::Never).unwrap()
}

fn options(xdp: XdpMode) -> OpenOptions {
    OpenOptions { xdp, slots: 256, ..OpenOptions::default() }
}

/// Two namespaces joined by `va` here and `vb` there.
fn pair(extra: &str) -> Option<(Namespace, Namespace)> {
    let (here, there) = (Namespace::new()?, Namespace::new()?);
    here.veth("va", &there, "vb", extra);
    Some((here, there))
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

/// A frame to nobody, of a type that no stack answers, with its number in it.
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

fn wait(waiter: &mut Waiter, queue: &mut dyn Queue, interest: Interest) -> Result<Woken, RunError> {
    waiter.wait(&mut [(queue, interest)][..], Some(PATIENCE))
}

/// Waits until a queue has frames and returns them all.
fn receive(queue: &mut dyn Queue) -> Vec<Vec<u8>> {
    let mut waiter = Waiter::new([&*queue], Patience::default()).unwrap();
    let woken = wait(&mut waiter, queue, Interest::RX).unwrap();
    assert_eq!(woken, Woken::Ready, "nothing arrived");
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

/// Receives `count` frames, or as many as arrive.
fn receive_n(queue: &mut dyn Queue, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while frames.len() < count {
        frames.extend(receive(queue));
    }
    frames
}

/// Sends frames, all of them, waiting for room.
fn send_all(queue: &mut dyn Queue, frames: &[Vec<u8>]) {
    let mut waiter = Waiter::new([&*queue], Patience::default()).unwrap();
    for frame in frames {
        while !queue.rings().tx.push(frame) {
            let woken = wait(&mut waiter, &mut *queue, Interest::TX).unwrap();
            assert_eq!(woken, Woken::Ready, "no room to send");
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
        assert!(start.elapsed() < PATIENCE, "frames stay in flight");
        std::thread::yield_now();
    }
}

/// All buffers that a port's rings name to the program.
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
        let Some((here, there)) = pair("") else { return };
        let region = region(4096);
        let mut a = open_in(&here, "va", &region, &options(mode));
        let mut b = open_in(&there, "vb", &region, &options(mode));
        let word = if mode == XdpMode::Native { "native" } else { "generic" };
        assert_eq!(a.info.mode.get("mode"), Some(word));
        assert_eq!(a.info.mode.get("host"), Some("detached"));
        let mut expected = 0;
        for round in 0..50 {
            let sent: Vec<_> = (0..100).map(|i| frame(round * 100 + i, 60 + i as usize * 14)).collect();
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
        middle.veth("vc", &right, "vd", "");
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
            let mut waiter = Waiter::new([&*b.queues[0]], Patience::default()).unwrap();
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
        let Some((here, there)) = pair("") else { return };
        let region = region(4096);
        let free = region.free_bufs();
        let mut a = open_in(&here, "va", &region, &options(mode));
        let mut b = open_in(&there, "vb", &region, &options(mode));
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
    }
}

#[test]
fn an_interface_that_is_removed_fails_both_syncs() {
    let Some((here, there)) = pair("") else { return };
    let region = region(4096);
    let mut port = open_in(&here, "va", &region, &options(XdpMode::Best));
    there.ip("link del vb");
    let queue = &mut *port.queues[0];
    let mut waiter = Waiter::new([&*queue], Patience::Sleep).unwrap();
    let failed = wait(&mut waiter, &mut *queue, Interest::RX).unwrap_err();
    assert!(matches!(failed.cause, RunCause::Vanished), "{failed}");
    queue.rings().tx.push(&frame(0, 64));
    assert!(matches!(queue.tx_sync().unwrap_err().cause, RunCause::Vanished));
}

#[test]
fn an_interface_that_goes_down_wakes_a_sleeper() {
    let Some((here, _there)) = pair("") else { return };
    let region = region(4096);
    let mut port = open_in(&here, "va", &region, &options(XdpMode::Best));
    here.ip("link set va down");
    let queue = &mut *port.queues[0];
    let mut waiter = Waiter::new([&*queue], Patience::Sleep).unwrap();
    let failed = wait(&mut waiter, &mut *queue, Interest::RX).unwrap_err();
    assert!(matches!(failed.cause, RunCause::WentDown), "{failed}");
    queue.rings().tx.push(&frame(0, 64));
    assert!(matches!(queue.tx_sync().unwrap_err().cause, RunCause::WentDown));
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
    drop(one);
    here.ip("link set va down");
    let (error, help) = refusal(None, &best);
    assert_eq!(error, "cannot open xdp:va: interface `va` is down");
    assert_eq!(help, "bring it up: ip link set va up");
}

#[test]
fn slots_that_cannot_be_sent_are_dropped_by_name_and_freed() {
    let Some((here, there)) = pair("") else { return };
    let region = region(4096);
    let free = region.free_bufs();
    let mut a = open_in(&here, "va", &region, &options(XdpMode::Best));
    let mut b = open_in(&there, "vb", &region, &options(XdpMode::Best));
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
