//! Tests of guests and front-ends that violate the protocol. Such a guest or front-end can lose its
//! frames, a queue or its connection, but the next guest can use the port.

use std::io::{IoSlice, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use proptest::prelude::*;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use slipring_port::DropCause;
use vhost::VhostBackend;
use vm_memory::GuestAddress;

use super::guest::{BASE, FEATURES, Guest, MEMORY, Memory, NEXT, SIZE, Setup, WRITE};
use super::{Rig, frame};

/// Checks that a guest can connect and that frames pass.
fn works(rig: &mut Rig) {
    rig.receive();
    let mut guest = rig.plug();
    // Frames that were queued for the previous guest may come first.
    guest.offer(0, 200, 2048);
    guest.send(&frame(1, 60));
    // Frames of the previous guest may still be in the rings.
    rig.until(|rig| rig.receive().last() == Some(&frame(1, 60)));
    rig.send(&frame(2, 60));
    assert!(guest.received().last() == Some(&(frame(2, 60), 1)));
}

#[test]
fn memory_that_may_vanish_is_refused() {
    let mut rig = Rig::new();
    for memory in [Memory::Unsealed, Memory::Huge] {
        let setup = Setup { memory, ..Setup::default() };
        assert!(Guest::plug(&rig.socket, setup).is_err());
    }
    works(&mut rig);
}

#[test]
fn offloads_and_other_strange_features_are_refused() {
    let mut rig = Rig::new();
    for strange in [0, 7, 11, 34] {
        let features = FEATURES | 1 << strange;
        let setup = Setup { features, ..Setup::default() };
        assert!(Guest::plug(&rig.socket, setup).is_err(), "feature {strange}");
    }
    works(&mut rig);
}

#[test]
fn a_queue_outside_of_the_memory_is_refused() {
    let mut rig = Rig::new();
    let guest = rig.plug();
    let outside = vhost::VringConfigData {
        queue_max_size: SIZE,
        queue_size: SIZE,
        flags: 0,
        desc_table_addr: 0x1000,
        used_ring_addr: 0x2000,
        avail_ring_addr: 0x3000,
        log_addr: None,
    };
    assert!(guest.frontend.set_vring_addr(0, &outside).is_err());
    works(&mut rig);
}

#[test]
fn an_impossible_index_stops_the_queue_and_no_other() {
    let mut rig = Rig::new();
    let mut guest = rig.plug();
    guest.offer(0, 4, 2048);
    guest.tx().set_offered(SIZE + 1);
    assert!(rig.receive().is_empty());
    assert_eq!(rig.dropped(DropCause::RxMalformed), 1);
    assert!(rig.receive().is_empty());
    rig.send(&frame(1, 60));
    assert_eq!(guest.received(), [(frame(1, 60), 1)]);
    drop(guest);
    works(&mut rig);
}

#[test]
fn chains_without_end_and_buffers_without_room_are_no_frames() {
    let mut rig = Rig::new();
    let mut guest = rig.plug();
    let ring = guest.tx();
    // A cycle, an empty segment, two segments outside the memory, a segment that is for writing,
    // and a head that does not exist.
    ring.describe(0, ring.buffer(0), 10, NEXT, 1);
    ring.describe(1, ring.buffer(1), 1, NEXT, 0);
    ring.describe(2, ring.buffer(2), 0, 0, 0);
    ring.describe(3, GuestAddress(BASE + MEMORY - 30), 100, 0, 0);
    ring.describe(4, GuestAddress(u64::MAX - 5), 100, 0, 0);
    ring.describe(5, ring.buffer(5), 100, WRITE, 0);
    (0..6).for_each(|i| ring.offer(i));
    ring.offer(999);
    guest.next = 10;
    guest.send(&frame(1, 60));
    assert_eq!(rig.receive(), [frame(1, 60)]);
    assert_eq!(rig.dropped(DropCause::RxMalformed), 7);
    // A receive buffer that is too short even for a header.
    let ring = guest.rx();
    ring.describe(0, ring.buffer(0), 11, WRITE, 0);
    ring.offer(0);
    rig.send(&frame(2, 60));
    assert_eq!(rig.dropped(DropCause::TxNoPeer), 1);
    drop(guest);
    works(&mut rig);
}

#[test]
fn a_buffer_outside_of_the_memory_costs_its_frame() {
    let mut rig = Rig::new();
    let mut guest = rig.plug();
    let ring = guest.rx();
    ring.describe(0, GuestAddress(BASE + MEMORY - 30), 2048, WRITE, 0);
    ring.offer(0);
    guest.offer(1, 1, 2048);
    rig.queue(0, &frame(1, 60));
    rig.send(&frame(2, 60));
    assert_eq!(guest.rx().take(), Some((0, 0)), "it comes back with nothing in it");
    assert_eq!(guest.received(), [(frame(2, 60), 1)]);
    assert_eq!(rig.dropped(DropCause::TxRefused), 1);
}

#[test]
fn a_descriptor_that_is_no_event_is_refused() {
    let mut rig = Rig::new();
    let mut frontend = UnixStream::connect(&rig.socket).unwrap();
    // SET_VRING_CALL of queue 0, with a socket.
    let message: Vec<u8> =
        [13, 1, 8, 0, 0].iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
    let (one, _other) = UnixStream::pair().unwrap();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    let fds = [one.as_fd()];
    assert!(rights.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(&frontend, &[IoSlice::new(&message)], &mut rights, SendFlags::empty()).unwrap();
    assert_eq!(std::io::read_to_string(&mut frontend).unwrap_or_default(), "", "it is shown out");
    works(&mut rig);
}

#[test]
fn noise_at_the_socket_is_not_answered_for_long() {
    let mut rig = Rig::new();
    for noise in [&[0xff; 12][..], &[1, 0, 0, 0, 1, 0, 0, 0, 0, 16, 0, 0, 7], &[1, 0]] {
        let mut frontend = UnixStream::connect(&rig.socket).unwrap();
        frontend.write_all(noise).unwrap();
        frontend.shutdown(std::net::Shutdown::Write).unwrap();
        // A reply, a reset or nothing is accepted. But the connection must end.
        let _ = std::io::read_to_string(&mut frontend);
    }
    works(&mut rig);
}

/// Values that a guest may write to its queues.
#[derive(Debug, Clone)]
struct Noise {
    descriptors: Vec<(u64, u32, u16, u16)>,
    heads: Vec<u16>,
    index: u16,
}

fn noise() -> impl Strategy<Value = Noise> {
    let near = prop_oneof![
        6 => (0..MEMORY).prop_map(|offset| BASE + offset),
        1 => (MEMORY - 100..MEMORY + 100).prop_map(|offset| BASE + offset),
        1 => any::<u64>(),
    ];
    let len =
        prop_oneof![4 => 0..3000_u32, 1 => (0..200_u32).prop_map(|n| 16 * n), 1 => any::<u32>()];
    let descriptor = (near, len, 0..8_u16, prop_oneof![9 => 0..SIZE, 1 => any::<u16>()]);
    let descriptors = proptest::collection::vec(descriptor, usize::from(SIZE));
    let heads = proptest::collection::vec(prop_oneof![9 => 0..SIZE, 1 => any::<u16>()], 0..64);
    let index = prop_oneof![9 => 0..64_u16, 1 => any::<u16>()];
    (descriptors, heads, index).prop_map(|(descriptors, heads, index)| Noise {
        descriptors,
        heads,
        index,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn noise_in_the_queues_hurts_nobody_else(noise in noise(), sizes in proptest::collection::vec(1..5000_usize, 8)) {
        let mut rig = Rig::new();
        let mut guest = rig.plug();
        for ring in &mut guest.rings {
            for (i, &(at, len, flags, next)) in (0..).zip(&noise.descriptors) {
                ring.describe(i, GuestAddress(at), len, flags, next);
            }
            noise.heads.iter().for_each(|&head| ring.offer(head));
            ring.set_offered(noise.index);
        }
        for &size in &sizes {
            rig.queue(0, &frame(7, size));
        }
        for _ in 0..3 {
            rig.port.tx_sync().unwrap();
            let got = rig.receive();
            prop_assert!(got.len() < super::SLOTS as usize);
        }
        // Every frame is accounted for.
        let stats = rig.stats();
        let lost: u64 = stats.drops().filter(|(cause, _)| cause.name().starts_with("tx")).map(|(_, n)| n).sum();
        prop_assert_eq!(stats.tx.packets + lost + stats.in_flight, sizes.len() as u64);
        drop(guest);
        works(&mut rig);
    }
}
