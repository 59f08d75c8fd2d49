use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slipring_ring::{BufIdx, Geometry, HugePages, Slot};
use slipring_test_support::{Namespace, TIMEOUT, skip};

use super::*;
use crate::iface::Iface;
use crate::link_watch::LinkWatch;
use crate::tap::sys::TapAttach;

const LIMITS: TapLimits = TapLimits { send: 65_535, receive: 1522 };

/// An ARP request for 10.0.0.1.
fn arp_request() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend([2, 0, 0, 0, 0, 2, 10, 0, 0, 2]);
    frame.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
    frame.resize(60, 0);
    frame
}

/// Sends short and long frames, one that the kernel refuses, and one that is too long, with an ARP
/// request among them. Waits for the answer to the request.
fn exchange(queue: &mut TapQueue) {
    let mut frames = vec![vec![0; 13], vec![0; 3000]];
    frames.extend((0..2 * MAX_BATCH).map(|_| vec![0; 60]));
    frames.extend([arp_request(), vec![0; 70_000]]);
    for frame in &frames {
        assert!(queue.rings().tx.push(frame));
    }
    queue.tx_sync().unwrap();
    let seen = queue.counters().snapshot();
    assert_eq!(seen.tx.packets, frames.len() as u64 - 2);
    assert_eq!(seen.dropped(DropCause::TxRefused), 1);
    assert_eq!(seen.dropped(DropCause::TxTooLong), 1);
    let mut answered = false;
    while !answered {
        let mut fds = [PollFd::new(&queue.tun, PollFlags::IN)];
        let timeout = Timespec::try_from(TIMEOUT).unwrap();
        assert_ne!(poll(&mut fds, Some(&timeout)), Ok(0), "no answer");
        queue.rx_sync().unwrap();
        answered = queue.rings().rx.batch(99).frames().any(|frame| frame.bytes[12..14] == [8, 6]);
    }
}

#[test]
fn frames_after_one_that_met_an_invalid_buffer_go_to_the_next_slots() {
    let geometry = Geometry { ring_bytes: 16 << 10, bufs: 32, buf_size: 2048 };
    let region = Region::create_shared(geometry, HugePages::Never).unwrap();
    let mut ring = RingHalves::<slipring_ring::Rx>::create(&region, 0, 8).unwrap().kern;
    let slot = ring.slot(1);
    assert!(ring.rename(1, Slot { buf: BufIdx(u32::MAX), ..slot }));
    let room = ring.free_slots();
    assert_eq!(copy_into_slots(&mut ring, 0, room, 3000, &[7; 3000]), Err(DropCause::RxNoBuffer));
    assert_eq!(pass_over(&mut ring, 0, room), 2);
    assert_eq!([0, 1].map(|i| ring.slot(i).len), [0, 0]);
    assert_eq!(copy_into_slots(&mut ring, 2, room - 2, 3000, &[7; 3000]), Ok(2));
    assert!(ring.rename(1, slot));
}

#[test]
fn both_ways_of_writing_do_the_same() {
    let Some(host) = Namespace::new() else { return };
    let geometry = Geometry { ring_bytes: 64 << 10, bufs: 1026, buf_size: 2048 };
    let region = Region::create(geometry, HugePages::Never).unwrap();
    for batched in [true, false] {
        let tun = host.run(|| {
            let tun = sys::open().unwrap();
            let how = TapAttach { multi_queue: false, vnet_header: false };
            sys::attach(tun.as_fd(), "t0", how).unwrap();
            sys::bring_up("t0").unwrap();
            tun
        });
        host.silence("t0");
        host.ip("addr add 10.0.0.1/24 dev t0");
        let link = host.run(|| LinkWatch::watch(&Iface::find("t0").unwrap(), false)).unwrap();
        let mut queue = TapQueue::new("tap:t0", 0, &region, 512, LIMITS, link, tun).unwrap();
        if !batched {
            queue.writer = TapWriter::Single;
        } else if !queue.is_batched() {
            skip!("no io_uring here");
            continue;
        }
        exchange(&mut queue);
    }
}
