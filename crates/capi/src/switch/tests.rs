//! Tests of switches through the functions that the C interface calls.

use super::*;
use crate::rings;
use crate::structs::SLIPRING_ALL_QUEUES;

fn switch() -> SwitchHandle {
    create("vale7", &SlipringSwitchOptions::default()).unwrap()
}

fn port(switch: &SwitchHandle, name: &str) -> (PortHandle, u32) {
    open(switch, name, &OpenOptions::default()).unwrap()
}

/// The number that stands for all stations.
const ALL: u8 = 255;

/// Returns a frame between two stations.
fn frame(to: u8, from: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![from; len];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
    if to == ALL {
        frame[..6].fill(0xff);
    }
    frame
}

fn send(port: &PortHandle, frame: &[u8]) {
    assert_eq!(rings::send(port, 0, frame).unwrap(), 1);
    rings::tx_sync(port, SLIPRING_ALL_QUEUES).unwrap();
}

fn received(port: &PortHandle) -> Vec<Vec<u8>> {
    let mut queue = port.queue(0).unwrap();
    queue.rx_sync().unwrap();
    let mut frames = Vec::new();
    let rx = queue.rings().rx;
    while rx.packet(&mut Vec::new(), |frame| frames.push(frame.to_vec())).is_some() {}
    queue.rx_sync().unwrap();
    frames
}

/// Asserts that the switch counted each frame that it received or copied as either sent or dropped.
/// Returns the sums of the counters of all ports.
fn balanced(switch: &SwitchHandle) -> SlipringSwitchStats {
    let sum = stats(switch, SLIPRING_ALL_PORTS).unwrap();
    assert_eq!(sum.rx_packets + sum.copied_packets, sum.tx_packets + sum.dropped_packets);
    sum
}

#[test]
fn frames_move_only_in_a_call_and_to_the_port_at_which_a_station_was_learned() {
    let switch = switch();
    let [(a, na), (b, nb), (c, nc)] = ["a", "b", "c"].map(|name| port(&switch, name));
    send(&a, &frame(2, 1, 60));
    assert!(received(&b).is_empty() && received(&c).is_empty(), "before the call");
    assert_eq!(forward(&switch, 0).unwrap(), 1);
    assert_eq!(received(&b), [frame(2, 1, 60)], "an unknown station: all other ports");
    assert_eq!(received(&c), [frame(2, 1, 60)]);
    assert!(received(&a).is_empty());
    send(&b, &frame(1, 2, 90));
    assert_eq!(forward(&switch, 0).unwrap(), 1);
    assert_eq!(received(&a), [frame(1, 2, 90)], "a learned station: its port alone");
    assert!(received(&c).is_empty());
    let seen = stats(&switch, na).unwrap();
    assert_eq!((seen.rx_packets, seen.flooded_packets, seen.copied_packets), (1, 1, 1));
    assert_eq!((seen.tx_bytes, seen.learned_addresses), (90, 1));
    assert_eq!(stats(&switch, nb).unwrap().rx_bytes, 90);
    assert_eq!(stats(&switch, nc).unwrap().tx_packets, 1);
    assert_eq!(balanced(&switch).rx_packets, 2);
}

#[test]
fn events_say_which_ports_to_serve() {
    let switch = switch();
    let [(a, na), (_b, nb), (_c, nc)] = ["a", "b", "c"].map(|name| port(&switch, name));
    assert_eq!(take_ready(&switch).unwrap(), None);
    send(&a, &frame(ALL, 1, 60));
    forward(&switch, 0).unwrap();
    assert_eq!(take_ready(&switch).unwrap(), Some((na, SLIPRING_WAIT_TX)));
    assert_eq!(take_ready(&switch).unwrap(), Some((nb, SLIPRING_WAIT_RX)));
    assert_eq!(take_ready(&switch).unwrap(), Some((nc, SLIPRING_WAIT_RX)));
    assert_eq!(take_ready(&switch).unwrap(), None);
    forward(&switch, 0).unwrap();
    assert_eq!(take_ready(&switch).unwrap(), None, "nothing was sent");
}

#[test]
fn addresses_age_on_the_clock_of_the_caller() {
    let options = SlipringSwitchOptions { ageing_ns: 1_000_000_000, ..Default::default() };
    let switch = create("vale", &options).unwrap();
    let [(a, _), (b, _), (c, _)] = ["a", "b", "c"].map(|name| port(&switch, name));
    send(&b, &frame(ALL, 2, 60));
    forward(&switch, 0).unwrap();
    received(&a);
    received(&c);
    for (now_ns, copies) in [(500_000_000, 0), (5_000_000_000, 1)] {
        send(&a, &frame(2, 1, 60));
        forward(&switch, now_ns).unwrap();
        assert_eq!(received(&c).len(), copies, "at {now_ns} ns");
        assert_eq!(received(&b).len(), 1);
    }
}

#[test]
fn frames_for_a_full_ring_are_counted_at_the_switch_and_at_the_port() {
    let switch = switch();
    let (a, _) = open(&switch, "a@conf:slots=256", &OpenOptions::default()).unwrap();
    let (b, nb) = open(&switch, "b@conf:slots=64", &OpenOptions::default()).unwrap();
    (0..200).for_each(|_| send(&a, &frame(ALL, 1, 60)));
    assert_eq!(forward(&switch, 0).unwrap(), 200);
    let full = SwitchDropReason::DestinationFull as u32;
    assert_eq!(drop_name(full).unwrap(), "destination_full");
    assert_eq!(dropped(&switch, nb, full).unwrap(), 200 - 63);
    assert_eq!(dropped(&switch, SLIPRING_ALL_PORTS, full).unwrap(), 200 - 63);
    assert_eq!(crate::counters::stats(&b, 0).unwrap().dropped, 200 - 63);
    assert_eq!(received(&b).len(), 63);
    send(&a, &frame(ALL, 1, 60));
    forward(&switch, 0).unwrap();
    assert_eq!(received(&b).len(), 1, "a ring that was read has room again");
    balanced(&switch);
}

#[test]
fn a_frame_of_several_slots_arrives_whole() {
    let switch = switch();
    let [(a, _), (b, _)] = ["a", "b"].map(|name| port(&switch, name));
    let long = frame(ALL, 1, 9000);
    send(&a, &long);
    forward(&switch, 0).unwrap();
    assert_eq!(received(&b), [long]);
}

#[test]
fn a_frame_that_fills_its_ring_and_never_ends_is_dropped() {
    let switch = switch();
    let (a, na) = open(&switch, "a@conf:slots=64", &OpenOptions::default()).unwrap();
    {
        let mut queue = a.queue(0).unwrap();
        let tx = queue.rings().tx;
        let slots = tx.avail();
        (0..slots).for_each(|i| tx.set(i, 100, slipring_ring::SlotFlags::MOREFRAG));
        tx.advance(slots);
        queue.tx_sync().unwrap();
    }
    assert_eq!(forward(&switch, 0).unwrap(), 1);
    assert_eq!(dropped(&switch, na, SwitchDropReason::TooLong as u32).unwrap(), 1);
    rings::tx_sync(&a, SLIPRING_ALL_QUEUES).unwrap();
    send(&a, &frame(ALL, 1, 60));
    assert_eq!(forward(&switch, 0).unwrap(), 1, "the ring is usable again");
    balanced(&switch);
}

#[test]
fn a_port_that_is_closed_sends_its_frames_and_leaves_its_counters() {
    let switch = switch();
    let [(a, na), (b, nb)] = ["a", "b"].map(|name| port(&switch, name));
    send(&a, &frame(ALL, 1, 60));
    drop(a);
    assert_eq!(forward(&switch, 0).unwrap(), 1);
    assert_eq!(received(&b).len(), 1);
    assert!(stats(&switch, na).is_err());
    assert_eq!(balanced(&switch).rx_packets, 1, "the port's counters are in the sum");
    assert_eq!(take_ready(&switch).unwrap(), Some((nb, SLIPRING_WAIT_RX)));
    let (_again, number) = port(&switch, "a");
    assert_eq!(number, na, "the lowest free number");
    send(&b, &frame(1, 2, 60));
    forward(&switch, 0).unwrap();
    assert_eq!(stats(&switch, number).unwrap().tx_packets, 1, "its address is forgotten: flooded");
}

#[test]
fn a_closed_port_sends_its_frames_though_other_ports_are_opened_meanwhile() {
    let switch = switch();
    let [(a, na), (b, _)] = ["a", "b"].map(|name| port(&switch, name));
    send(&a, &frame(2, 1, 60));
    drop(a);
    let (again, number) = port(&switch, "a");
    let (other, _) = port(&switch, "c");
    assert_ne!(number, na, "the number is the closed port's");
    assert_eq!(forward(&switch, 0).unwrap(), 1);
    for one in [&again, &b, &other] {
        assert_eq!(received(one), [frame(2, 1, 60)], "an unknown station: all other ports");
    }
    assert_eq!(balanced(&switch).rx_packets, 1);
    assert!(stats(&switch, na).is_err());
    assert_eq!(port(&switch, "d").1, na, "the call has freed the number");
}

#[test]
fn frames_for_a_closed_port_are_counted_as_dropped() {
    let switch = switch();
    let [(a, _), (b, _), (c, nc)] = ["a", "b", "c"].map(|name| port(&switch, name));
    send(&b, &frame(ALL, 2, 60));
    assert_eq!(forward(&switch, 0).unwrap(), 1);
    assert_eq!(received(&c).len(), 1);
    // One frame to the port at which the station was learned, and one to all ports.
    send(&a, &frame(2, 1, 60));
    send(&a, &frame(ALL, 1, 60));
    drop(b);
    while take_ready(&switch).unwrap().is_some() {}
    assert_eq!(forward(&switch, 0).unwrap(), 2);
    assert_eq!(received(&c), [frame(ALL, 1, 60)]);
    let full = SwitchDropReason::DestinationFull as u32;
    assert_eq!(dropped(&switch, SLIPRING_ALL_PORTS, full).unwrap(), 2);
    assert_eq!(balanced(&switch).tx_packets, 2 + 1, "all that was received or can be");
    assert_eq!(take_ready(&switch).unwrap(), Some((0, SLIPRING_WAIT_TX)));
    assert_eq!(take_ready(&switch).unwrap(), Some((nc, SLIPRING_WAIT_RX)));
    assert_eq!(take_ready(&switch).unwrap(), None, "no port is left to serve");
}

#[test]
fn a_port_that_is_closed_during_a_call_is_detached_by_the_next() {
    let switch = switch();
    let [(a, na), (b, _)] = ["a", "b"].map(|name| port(&switch, name));
    {
        // The steps of one call of `forward`, one by one. Port `a` sends a frame and is closed
        // after its ring was forwarded, as might happen in another thread.
        let mut run = switch.run().unwrap();
        run.find_closed();
        assert_eq!(run.forward_ring(0, na, 0).unwrap(), 0);
        send(&a, &frame(2, 1, 60));
        drop(a);
        run.detach_closed();
    }
    assert_eq!(forward(&switch, 0).unwrap(), 1);
    assert_eq!(received(&b), [frame(2, 1, 60)]);
    assert!(stats(&switch, na).is_err());
    balanced(&switch);
}

#[test]
fn names_that_are_no_ports_of_this_switch_are_refused_with_advice() {
    let switch = switch();
    let (_a, _) = port(&switch, "a");
    for (name, words) in [
        ("a", "vale7:a is open already"),
        ("", "vale7:"),
        ("b{1", "no pipe"),
        ("b/x", "no flags"),
        ("b@conf:slots=1", "64 to 65536 slots"),
        ("b@conf:rings=300", "300 ring pairs"),
    ] {
        let Err(error) = open(&switch, name, &OpenOptions::default()) else {
            panic!("{name} was opened")
        };
        assert!(error.message.contains(words) && !error.help.is_empty(), "{name}: {error:?}");
    }
    assert!(create("lan0", &SlipringSwitchOptions::default()).is_err());
    let flags = SlipringSwitchOptions { flags: 1, ..Default::default() };
    assert!(create("vale0", &flags).is_err());
}

#[test]
fn the_same_calls_give_the_same_deliveries() {
    let run = || {
        let switch = switch();
        let ports: Vec<_> = (0..5).map(|i| port(&switch, &format!("p{i}")).0).collect();
        let mut random = 1u32;
        let mut seen = Vec::new();
        for now in 0..200u64 {
            for port in &ports {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let (to, from) = ((random >> 24) as u8 % 40, (random >> 16) as u8 % 40);
                send(port, &frame(to, from, 60 + (random >> 8) as usize % 900));
            }
            forward(&switch, now).unwrap();
            seen.push(ports.iter().map(received).collect::<Vec<_>>());
        }
        (seen, stats(&switch, SLIPRING_ALL_PORTS).unwrap().flooded_packets)
    };
    let first = run();
    assert!(first.1 > 0 && first == run());
}
