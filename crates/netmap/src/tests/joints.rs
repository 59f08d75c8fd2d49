//! Tests of persistent ports in two switches.

use super::switches::{Station, frame};
use super::vale_requests::{attach, detach, list, new_port, remove};
use super::*;

/// Creates the persistent port `joint` and attaches it to the switches `vale0` and `vale1`.
fn joined(world: &World) -> Client<'_> {
    let mut client = world.open();
    new_port(&mut client, "joint").unwrap();
    attach(&mut client, "vale0:joint").unwrap();
    attach(&mut client, "vale1:joint").unwrap();
    client
}

/// Waits until frames arrive at a station, and returns them.
fn next(station: &mut Station<'_>) -> Vec<Vec<u8>> {
    let start = std::time::Instant::now();
    loop {
        let frames = station.frames();
        if !frames.is_empty() {
            return frames;
        }
        assert!(start.elapsed() < TIMEOUT, "nothing came");
        std::thread::yield_now();
    }
}

#[test]
fn a_persistent_port_in_two_switches_joins_them() {
    let world = World::new();
    let mut client = joined(&world);
    let [mut a, mut b] = ["vale0:a", "vale1:b"].map(|name| Station::new(&world, name));
    for mark in 0..50 {
        a.send(&frame(255, 1, mark));
        assert_eq!(next(&mut b), [frame(255, 1, mark)]);
        b.send(&frame(1, 2, mark));
        assert_eq!(next(&mut a), [frame(1, 2, mark)]);
    }
    assert_eq!(list(&mut client, "vale0:joint", (0, 0)), Ok(("vale0:joint".into(), 0, 0)));
    assert_eq!(list(&mut client, "vale1:joint", (0, 0)), Ok(("vale1:joint".into(), 1, 0)));
    assert_eq!(detach(&mut client, "vale1:joint"), Ok(0));
    a.send(&frame(255, 1, 77));
    assert_eq!(b.frames(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_port_that_joins_switches_is_nobody_elses_and_goes_last() {
    let world = World::new();
    let mut client = joined(&world);
    for name in ["joint", "vale0:joint", "vale1:joint"] {
        assert_eq!(world.open().register(name, &all()), Err(Errno::BUSY), "{name}");
    }
    for name in ["vale0:joint", "vale1:joint", "vale2:joint"] {
        assert_eq!(attach(&mut client, name), Err(Errno::BUSY), "{name}");
    }
    let header = NmreqPortHdr { nr_hdr_len: 12, ..NmreqPortHdr::default() };
    let set = client.ask("joint", NETMAP_REQ_PORT_HDR_SET, &header);
    assert_eq!(set.err(), Some(Errno::BUSY));
    assert_eq!(detach(&mut client, "vale0:joint"), Ok(0));
    assert_eq!(remove(&mut client, "joint"), Err(Errno::BUSY));
    assert_eq!(attach(&mut client, "vale0:joint"), Ok(0), "the other way round");
    assert_eq!(detach(&mut client, "vale1:joint"), Ok(0));
    assert_eq!(detach(&mut client, "vale0:joint"), Ok(0));
    assert_eq!(remove(&mut client, "joint"), Ok(()));
    assert!(world.domain.switches().is_empty() && !world.domain.is_lasting());
}

#[test]
fn a_port_that_a_program_has_or_whose_frames_have_headers_joins_no_switches() {
    let world = World::new();
    let mut client = world.open();
    new_port(&mut client, "v0").unwrap();
    attach(&mut client, "vale0:v0").unwrap();
    let bound = world.bound("v0");
    assert_eq!(attach(&mut client, "vale1:v0"), Err(Errno::BUSY));
    drop(bound);
    let header = NmreqPortHdr { nr_hdr_len: 12, ..NmreqPortHdr::default() };
    client.ask("v0", NETMAP_REQ_PORT_HDR_SET, &header).unwrap();
    assert_eq!(attach(&mut client, "vale1:v0"), Err(Errno::INVAL));
    assert_eq!(world.domain.switches().len(), 1, "nothing is left of it");
}

#[test]
fn switches_are_not_joined_to_a_ring() {
    let world = World::new();
    let mut client = joined(&world);
    for (port, first, second) in [("p1", "vale1", "vale2"), ("p2", "vale2", "vale0")] {
        new_port(&mut client, port).unwrap();
        assert_eq!(attach(&mut client, &format!("{first}:{port}")).err(), None);
        let joined = attach(&mut client, &format!("{second}:{port}"));
        let expected = if port == "p2" { Some(Errno::LOOP) } else { None };
        assert_eq!(joined.err(), expected, "{port}");
    }
    // A port that is attached again must not close a loop either. Without `joint` in `vale0`, `p2`
    // may connect `vale2` and `vale0`; then `joint` would close the loop.
    detach(&mut client, "vale0:joint").unwrap();
    assert_eq!(attach(&mut client, "vale0:p2").err(), None);
    assert_eq!(attach(&mut client, "vale0:joint"), Err(Errno::LOOP));
}

#[test]
fn senders_on_two_threads_reach_the_other_switch_and_nothing_stays_behind() {
    let world = World::new();
    let _client = joined(&world);
    let mut receiver = Station::new(&world, "vale0:receiver");
    receiver.send(&frame(255, 9, 0));
    let senders = [1, 2].map(|i| Station::new(&world, &format!("vale1:s{i}")));
    let came = std::thread::scope(|scope| {
        let threads = senders.map(|mut sender| {
            scope.spawn(move || (0..200).for_each(|mark| sender.send(&frame(9, 1, mark))))
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        receiver.frames().len()
    });
    assert_eq!(came, 400, "all had arrived when the last sender's sync was over");
}
