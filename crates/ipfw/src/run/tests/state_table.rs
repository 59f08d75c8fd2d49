//! Tests of the table of states: several states of one flow, counters, wake-ups, keepalives, and
//! states that are saved and restored.

use super::*;

/// Three rules, each of which records a state of the packet's flow under a different name, and a
/// rule that allows the packet.
const NAMES: &str = "add 10 count udp from any to any record-state :a\n\
                     add 20 count udp from any to any record-state :b\n\
                     add 30 count udp from any to any record-state :c\n\
                     add 40 allow ip from any to any";

#[test]
fn of_the_states_of_one_flow_any_may_go_and_the_others_are_found() {
    for order in
        [[10, 20, 30], [10, 30, 20], [20, 10, 30], [20, 30, 10], [30, 10, 20], [30, 20, 10]]
    {
        let mut fixture = Fixture::new(NAMES);
        assert!(fixture.passes(udp()));
        for (gone, rule) in (1..).zip(order) {
            fixture.run(&format!("delete {rule}"));
            assert_eq!(fixture.firewall.states().len(), 3 - gone, "{order:?}");
            // If packets of a direction did not find a state, they would create it again.
            assert!(fixture.passes(udp()) && fixture.passes(udp_back()));
            assert_eq!(fixture.firewall.states().len(), 3 - gone, "{order:?}");
        }
        assert!(fixture.firewall.states().is_empty());
    }
}

#[test]
fn states_are_counted_when_they_are_made_when_they_end_and_for_each_packet() {
    let mut fixture = Fixture::new("add 100 allow udp from any to any keep-state");
    (1..=3).for_each(|port| drop(fixture.check(udp_ports(port, 53))));
    fixture.now = SECOND;
    (0..4).for_each(|_| drop(fixture.check(udp())));
    let states = fixture.firewall.states();
    assert!(!states.is_empty());
    assert_eq!((states.counters().made, states.counters().expired), (4, 0));
    let last = states.sorted().into_iter().find(|state| state.flow.src_port == 1000).unwrap();
    assert_eq!((last.packets, last.bytes), (3, 3 * 46));
    assert_eq!(fixture.firewall.next_tick_ns(), Some(10 * SECOND));
    fixture.now = 10 * SECOND;
    fixture.firewall.tick(fixture.now, &mut fixture.outputs);
    assert_eq!(fixture.firewall.states().counters().expired, 3);
    assert_eq!(fixture.firewall.next_tick_ns(), Some(11 * SECOND));
    fixture.firewall.tick(11 * SECOND, &mut fixture.outputs);
    assert_eq!(fixture.firewall.states().counters().expired, 4);
    assert_eq!(fixture.firewall.next_tick_ns(), None);
}

#[test]
fn only_connections_that_both_sides_opened_and_none_closed_get_keepalives() {
    let rules = "add 100 allow ip from any to any keep-state";
    let sent = |segments: &[(bool, u8)]| {
        let mut fixture = Fixture::new(rules);
        for &(back, flags) in segments {
            fixture.check(tcp_seq(back, flags, 100, 100));
        }
        (0..600).for_each(|second| fixture.firewall.tick(second * SECOND, &mut fixture.outputs));
        let counted = fixture.firewall.states().counters().keepalives;
        assert_eq!(counted, fixture.outputs.frames.len() as u64);
        counted
    };
    let (fin, syn, rst, ack) = (0x01, 0x02, 0x04, 0x10);
    let open = [(false, syn), (true, syn | ack), (false, ack)];
    assert_eq!(sent(&open), 8);
    assert_eq!(sent(&open[..1]), 0, "half open");
    assert_eq!(sent(&[(false, ack), (true, ack)]), 0, "not seen from its beginning");
    for (back, flags) in [(false, fin | ack), (true, fin | ack), (false, rst), (true, rst)] {
        let closing = [&open[..], &[(back, flags)]].concat();
        assert_eq!(sent(&closing), 0, "{back} {flags:#x}");
    }
    let mut fixture = Fixture::new(rules);
    fixture.check(udp());
    fixture.check(udp_back());
    (0..20).for_each(|second| fixture.firewall.tick(second * SECOND, &mut fixture.outputs));
    assert!(fixture.outputs.frames.is_empty(), "UDP gets none");
}

#[test]
fn states_that_find_no_room_are_counted_when_they_are_restored() {
    let mut fixture = Fixture::new("add 100 allow udp from any to any keep-state");
    (1..=5).for_each(|port| drop(fixture.check(udp_ports(port, 53))));
    let saved: Vec<_> =
        fixture.firewall.states().sorted().iter().map(|state| state.saved()).collect();
    for (room, refused) in [(0, 5), (3, 2), (4, 1), (5, 0), (9, 0)] {
        let mut fixture = Fixture::new("add 100 allow udp from any to any keep-state");
        fixture.run(&format!("sysctl net.inet.ip.fw.dyn_max={room}"));
        assert_eq!(fixture.firewall.restore(saved.clone(), SECOND), refused, "{room}");
        assert_eq!(fixture.firewall.states().len(), 5 - refused);
    }
}

#[test]
fn a_state_is_written_down_as_long_as_it_lives() {
    let mut fixture = Fixture::new("add 100 allow udp from any to any keep-state");
    fixture.check(udp());
    let written =
        |now| fixture.firewall.state_commands(&[fixture.firewall.states().snapshot()], now);
    assert_eq!(written(10 * SECOND - 1).len(), 1);
    assert_eq!(written(10 * SECOND - 1)[0].left_ns, 1);
    assert!(written(10 * SECOND).is_empty());
}
