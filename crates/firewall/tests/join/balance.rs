//! Tests that every lost frame is counted.

use super::*;

#[test]
fn every_loss_has_its_cause() {
    let mut fixture = Fixture::new(
        "pipe 1 config bw 1Kbit/s queue 2\nadd 100 pipe 1 udp from any to any 1\n\
         add 200 pipe 77 udp from any to any 2\nadd 300 deny udp from any to any 3\n\
         add 400 allow udp from any to any 4 limit src-addr 1\nadd 500 allow ip from any to any",
    );
    for port in 1..=5 {
        for _ in 0..4 {
            fixture.offer(from_host(port as u8, port, 60), 0);
        }
    }
    fixture.offer(vec![0; 9], 0);
    let tally = fixture.dataplane.counters();
    let lost: Vec<_> = tally.losses().filter(|(_, count)| *count > 0).collect();
    let named = |name: &str| lost.iter().find(|(cause, _)| cause == name).map_or(0, |(_, n)| *n);
    assert_eq!(named("pipe_no_object"), 4, "{lost:?}");
    assert_eq!(named("denied"), 4, "{lost:?}");
    assert_eq!(named("malformed_short_link"), 1, "{lost:?}");
    assert!(named("pipe_full") > 0, "{lost:?}");
    assert_eq!(tally.offered, 21);
}

#[test]
fn a_port_without_room_loses_frames_of_pipes_and_says_so() {
    let mut fixture = Fixture::new("pipe 1 config delay 1ms\nadd 100 pipe 1 ip from any to any");
    fixture.offer(udp(9, 60), 0);
    fixture.sink.is_full = true;
    fixture.pass(SECOND);
    assert_eq!(
        (fixture.dataplane.counters().of(DataplaneLoss::TxFull), fixture.dataplane.counters().sent),
        (1, 0)
    );
}

#[test]
fn a_pipe_that_is_deleted_gives_its_frames_up_and_no_place_leaks() {
    let mut fixture =
        Fixture::new("pipe 1 config bw 1Kbit/s queue 50\nadd 100 pipe 1 ip from any to any");
    for _ in 0..10 {
        fixture.offer(udp(9, 60), 0);
    }
    assert!(fixture.dataplane.counters().waiting >= 9);
    let mut events = Vec::new();
    fixture.dataplane.shaper_mut().flush(fixture.now, &mut |event| events.push(event));
    fixture.dataplane.apply_shaper_events(events, fixture.now, &mut fixture.sink);
    fixture.pass(100 * SECOND);
    assert!(
        fixture.dataplane.is_balanced() && fixture.dataplane.is_empty(),
        "{:?}",
        fixture.dataplane.counters()
    );
}
