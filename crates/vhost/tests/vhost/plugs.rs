//! Tests of guests that connect and disconnect.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;

use slipring_port::{DropCause, ErrorClass};
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;

use super::guest::{Guest, Setup};
use super::{Rig, frame, open};
use slipring_vhost::VhostRole;

#[test]
fn without_a_guest_frames_are_dropped_and_counted() {
    let mut rig = Rig::new();
    rig.send(&frame(1, 60));
    rig.send(&frame(2, 3000));
    assert_eq!(rig.dropped(DropCause::TxNoPeer), 2);
    assert!(rig.receive().is_empty());
}

#[test]
fn a_guest_that_dies_gives_the_port_to_the_next() {
    let mut rig = Rig::new();
    for round in 1..=3 {
        let mut guest = rig.plug();
        guest.offer(0, 4, 2048);
        rig.send(&frame(1, 60));
        guest.send(&frame(2, 60));
        assert_eq!(rig.receive(), [frame(2, 60)]);
        assert_eq!(guest.received(), [(frame(1, 60), 1)]);
        drop(guest);
        rig.until(|rig| {
            rig.send(&frame(3, 60));
            rig.dropped(DropCause::TxNoPeer) >= round
        });
        let tx = rig.port.queues[0].rings().tx;
        assert_eq!(tx.avail(), super::SLOTS - 1, "no slot is lost with it");
    }
}

#[test]
fn frames_that_wait_for_a_guest_that_dies_are_dropped() {
    let mut rig = Rig::new();
    let guest = rig.plug();
    rig.send(&frame(1, 60));
    assert_eq!(rig.stats().in_flight, 1);
    drop(guest);
    rig.until(|rig| {
        rig.port.rx_sync().unwrap();
        rig.dropped(DropCause::TxNoPeer) == 1
    });
    assert_eq!(rig.stats().in_flight, 0);
}

#[test]
fn a_reset_stops_the_queues_and_tells_where_they_stood() {
    let mut rig = Rig::new();
    let mut guest = rig.plug();
    guest.offer(0, 4, 2048);
    rig.send(&frame(1, 60));
    assert_eq!(guest.frontend.get_vring_base(0).unwrap(), 1);
    assert_eq!(guest.frontend.get_vring_base(1).unwrap(), 0);
    rig.send(&frame(2, 60));
    assert_eq!(rig.dropped(DropCause::TxNoPeer), 1);
    guest.send(&frame(3, 60));
    assert!(rig.receive().is_empty());
    guest.start(0, 1).unwrap();
    guest.start(1, 0).unwrap();
    rig.send(&frame(4, 60));
    let got: Vec<_> = guest.received().into_iter().map(|(bytes, _)| bytes).collect();
    assert_eq!(got, [frame(1, 60), frame(4, 60)]);
    assert_eq!(rig.receive(), [frame(3, 60)]);
}

#[test]
fn a_queue_without_leave_to_run_stands_still() {
    let mut rig = Rig::new();
    let mut guest = rig.plug();
    guest.frontend.set_vring_enable(1, false).unwrap();
    guest.send(&frame(1, 60));
    assert!(rig.receive().is_empty());
    guest.frontend.set_vring_enable(1, true).unwrap();
    assert_eq!(rig.receive(), [frame(1, 60)]);
}

#[test]
fn queues_may_be_given_leave_before_anything_is_agreed() {
    let mut rig = Rig::new();
    let mut frontend = UnixStream::connect(&rig.socket).unwrap();
    for (index, refused) in [(0, 0), (1, 0), (2, 1)] {
        // SET_VRING_ENABLE with the need-reply flag, as QEMU sends it.
        let message = [18, 1 | 8, 8, index, 1_u32].map(u32::to_ne_bytes).concat();
        frontend.write_all(&message).unwrap();
        let mut answer = [0; 20];
        frontend.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *[18, 1 | 4, 8, refused, 0_u32].map(u32::to_ne_bytes).concat());
    }
    let mut guest = Guest::plug_stream(frontend, Setup::default()).unwrap();
    guest.send(&frame(1, 60));
    assert_eq!(rig.receive(), [frame(1, 60)]);
}

#[test]
fn a_new_memory_table_is_used_from_then_on() {
    let mut rig = Rig::new();
    let mut guest = rig.plug();
    guest.offer(0, 4, 2048);
    rig.send(&frame(1, 60));
    guest.show_memory().unwrap();
    rig.send(&frame(2, 60));
    assert_eq!(guest.received().len(), 2);
}

#[test]
fn a_second_frontend_is_disconnected() {
    let mut rig = Rig::new();
    let mut guest = rig.plug();
    assert!(Guest::plug(&rig.socket, Setup::default()).is_err());
    guest.send(&frame(1, 60));
    assert_eq!(rig.receive(), [frame(1, 60)]);
}

#[test]
fn pairs_that_the_guest_does_not_use_send_by_its_first() {
    let mut rig = Rig::with_pairs(2);
    let mut guest = rig.plug();
    guest.offer(0, 4, 2048);
    rig.queue(1, &frame(1, 60));
    rig.port.tx_sync().unwrap();
    assert_eq!(guest.received(), [(frame(1, 60), 1)]);
}

#[test]
fn a_guest_with_two_pairs_uses_both() {
    let mut rig = Rig::with_pairs(2);
    let mut guest = Guest::plug(&rig.socket, Setup { pairs: 2, ..Setup::default() }).unwrap();
    assert_eq!(guest.frontend.get_queue_num().unwrap(), 2);
    let ring = &mut guest.rings[2];
    ring.describe(0, ring.buffer(0), 2048, super::guest::WRITE, 0);
    ring.offer(0);
    rig.queue(1, &frame(1, 60));
    rig.port.tx_sync().unwrap();
    assert_eq!(guest.rings[2].take(), Some((0, 72)));
    assert!(guest.received().is_empty());
}

#[test]
fn the_socket_of_a_killed_program_is_taken_over_and_a_live_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    drop(UnixListener::bind(&socket).unwrap());
    let port = open(&socket, VhostRole::Server, 1).unwrap();
    let error = open(&socket, VhostRole::Server, 1).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Usage);
    assert!(error.to_string().contains("in use"), "{error}");
    drop(port);
    assert!(!socket.exists(), "it goes with the port");
    std::fs::write(&socket, "mine").unwrap();
    assert!(open(&socket, VhostRole::Server, 1).is_err());
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "mine");
}

#[test]
fn a_path_that_no_frontend_can_listen_at_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link, socket) = (dir.path().join("f"), dir.path().join("l"), dir.path().join("s"));
    std::fs::write(&file, "mine").unwrap();
    for (path, words) in [(file, "not a socket"), (dir.path().join("x".repeat(108)), "bytes")] {
        let error = open(&path, VhostRole::Client, 1).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Usage);
        assert!(error.to_string().contains(words), "{error}");
    }
    let _listener = UnixListener::bind(&socket).unwrap();
    std::os::unix::fs::symlink(&socket, &link).unwrap();
    open(&link, VhostRole::Client, 1).unwrap();
}

#[test]
fn a_port_that_is_the_client_connects_whenever_there_is_a_frontend() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let mut rig = Rig {
        port: open(&socket, VhostRole::Client, 1).unwrap(),
        socket: socket.clone(),
        _dir: dir,
    };
    for _ in 0..2 {
        let listener = UnixListener::bind(&socket).unwrap();
        let (frontend, _) = listener.accept().unwrap();
        drop(listener);
        std::fs::remove_file(&socket).unwrap();
        let mut guest = Guest::plug_stream(frontend, Setup::default()).unwrap();
        guest.send(&frame(1, 60));
        assert_eq!(rig.receive(), [frame(1, 60)]);
    }
}

#[test]
fn a_port_closes_though_a_frontend_says_nothing_more() {
    let rig = Rig::new();
    let guest = rig.plug();
    let _silent = UnixStream::connect(&rig.socket).unwrap();
    drop(rig);
    assert!(guest.frontend.get_features().is_err());
}

#[test]
fn more_pairs_than_a_device_has_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = open(&dir.path().join("s"), VhostRole::Server, 17).unwrap_err();
    assert!(error.to_string().contains("at most 16 ring pairs"), "{error}");
}
