//! Links in networks: chains, classes, many links, cycles.

use slipring_link::{
    ClassSpec, DelaySpec, EntryId, LinkDropCause, LinkId, LinkSource, LinkSpec, LinkTarget,
    Network, NetworkLink, NetworkSpec, RateSpec,
};
use slipring_wire::FrameSpec;

use crate::rate::constant;
use crate::support::Sim;

fn wire(name: &str, delay_ns: u64) -> LinkSpec {
    LinkSpec { delay: DelaySpec::constant(delay_ns), ..LinkSpec::wire(name) }
}

fn names(count: usize, prefix: &str) -> Vec<String> {
    (0..count).map(|index| format!("{prefix}{index}")).collect()
}

fn link(spec: LinkSpec, from: LinkSource, to: LinkTarget) -> NetworkLink {
    NetworkLink { spec, from, to }
}

/// Builds a network in which the links form a chain.
fn chain(specs: Vec<LinkSpec>) -> NetworkSpec {
    let last = specs.len() - 1;
    let links = specs.into_iter().enumerate().map(|(index, spec)| {
        let from = if index == 0 { LinkSource::Entry(0) } else { LinkSource::Node(index - 1) };
        let to = if index == last { LinkTarget::Exit(0) } else { LinkTarget::Node(index) };
        link(spec, from, to)
    });
    NetworkSpec {
        links: links.collect(),
        entries: names(1, "in"),
        exits: names(1, "out"),
        nodes: names(last, "node"),
        classes: vec![],
    }
}

#[test]
fn a_release_is_the_arrival_at_the_next_link() {
    let slow = LinkSpec { name: "b".into(), ..constant(8_000_000_000) };
    let mut sim = Sim::new(&chain(vec![wire("a", 100), slow, wire("c", 1_000)]), 1);
    for at_ns in [0, 0, 5_000] {
        sim.push(at_ns, 500);
    }
    sim.finish();
    assert_eq!(sim.memory.releases(), [1_600, 2_100, 6_600]);
    let outputs = [0, 1, 2].map(|id| sim.network.counters(LinkId(id)).output.packets);
    assert_eq!(outputs, [3, 3, 3]);
    assert_eq!(sim.network.node_counters(0).output.packets, 3);
}

#[test]
fn a_link_tells_of_frames_that_go_on_to_another_and_of_no_others() {
    let mut sim = Sim::new(&chain(vec![wire("a", 100), wire("b", 20), wire("c", 3)]), 1);
    (0..2).for_each(|at_ns| _ = sim.push(at_ns, 60));
    sim.finish();
    assert_eq!(sim.memory.hops, [(0, 0, 100), (0, 1, 101), (1, 0, 120), (1, 1, 121)]);
    assert_eq!(sim.memory.releases(), [123, 124]);
    let mut sim = Sim::link(wire("a", 100));
    sim.push(0, 60);
    sim.finish();
    assert_eq!((sim.memory.hops.len(), sim.memory.delivered.len()), (0, 1));
}

#[test]
fn a_chain_sees_every_event_in_order_whenever_it_is_run() {
    let specs = || {
        vec![wire("a", 10), LinkSpec { name: "b".into(), ..constant(1_000_000_000) }, wire("c", 0)]
    };
    let play = |stride: u64| {
        let mut sim = Sim::new(&chain(specs()), 1);
        for number in 0..1_000 {
            sim.push(number * 777, 60 + (number % 7) as u32 * 100);
            if number % stride == 0 {
                sim.run(number * 777);
            }
        }
        sim.finish();
        sim.memory.releases()
    };
    assert_eq!(play(1), play(1_000_000));
    assert!(play(3).is_sorted());
}

#[test]
fn links_that_meet_share_what_follows() {
    let slow = LinkSpec { name: "shared".into(), ..constant(8_000_000_000) };
    let plan = NetworkSpec {
        entries: names(2, "in"),
        exits: names(1, "out"),
        nodes: names(1, "node"),
        links: vec![
            link(wire("a", 100), LinkSource::Entry(0), LinkTarget::Node(0)),
            link(wire("b", 50), LinkSource::Entry(1), LinkTarget::Node(0)),
            link(slow, LinkSource::Node(0), LinkTarget::Exit(0)),
        ],
        classes: vec![],
    };
    let mut sim = Sim::new(&plan, 1);
    let first = sim.push_at(0, 0, 1000);
    let second = sim.push_at(1, 0, 1000);
    sim.finish();
    assert_eq!(sim.memory.handles(), [second.0, first.0]);
    assert_eq!(sim.memory.releases(), [1_050, 2_050]);
}

fn classes() -> NetworkSpec {
    let mut plan = NetworkSpec::single(wire("bulk", 1_000));
    let from = LinkSource::Entry(0);
    plan.links.push(link(wire("voice", 10), from, LinkTarget::Exit(0)));
    plan.links.push(link(wire("vlan", 100), from, LinkTarget::Exit(0)));
    plan.classes = vec![
        ClassSpec::new("udp dst port 5004", 1).unwrap(),
        ClassSpec::new("vlan 7", 2).unwrap(),
        ClassSpec::new("ip[1] & 0xfc == 0xb8", 1).unwrap(),
    ];
    plan
}

#[test]
fn classes_choose_links_by_what_frames_say() {
    let mut sim = Sim::new(&classes(), 1);
    let plain = FrameSpec::default().build(100).unwrap().bytes;
    let mut voice = plain.clone();
    voice[36..38].copy_from_slice(&5004u16.to_be_bytes());
    let mut expedited = plain.clone();
    expedited[15] = 0xb8;
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x81, 0x00, 0x00, 0x07]);
    for bytes in [&plain, &voice, &tagged, &expedited] {
        sim.push_frame(0, bytes);
    }
    sim.finish();
    assert_eq!(sim.memory.handles(), [1, 3, 2, 0]);
    assert_eq!(sim.memory.releases(), [10, 10, 100, 1_000]);
    let links: Vec<u32> = sim.memory.delivered.iter().map(|delivery| delivery.link.0).collect();
    assert_eq!(links, [1, 1, 2, 0]);
}

#[test]
fn frames_that_no_class_wants_are_counted() {
    let mut plan = classes();
    plan.classes.push(ClassSpec::new("tcp", 0).unwrap());
    let mut sim = Sim::new(&plan, 1);
    sim.push_frame(0, &FrameSpec::default().build(100).unwrap().bytes);
    sim.finish();
    assert_eq!(sim.memory.lost_to(LinkDropCause::Route), 1);
    assert_eq!(sim.memory.lost[0].link, None);
    let counters = sim.network.entry_counters(EntryId(0));
    assert_eq!(counters.drops[LinkDropCause::Route].packets, 1);
    assert!(counters.is_balanced());
}

#[test]
fn a_node_without_a_way_on_counts_what_ends_there() {
    let mut plan = chain(vec![wire("a", 5), wire("b", 5)]);
    plan.links.pop();
    let mut sim = Sim::new(&plan, 1);
    sim.push(0, 60);
    sim.finish();
    assert_eq!(sim.memory.lost_to(LinkDropCause::Route), 1);
    assert_eq!(sim.network.node_counters(0).drops[LinkDropCause::Route].packets, 1);
}

#[test]
fn deliveries_of_many_links_come_in_order_of_time() {
    let count = 1_000;
    let links = (0..count).map(|index| {
        let spec = wire(&format!("l{index}"), 1 + (index as u64 * 7919) % 10_000);
        link(spec, LinkSource::Entry(index), LinkTarget::Exit(index))
    });
    let plan = NetworkSpec {
        links: links.collect(),
        entries: names(count, "in"),
        exits: names(count, "out"),
        ..NetworkSpec::default()
    };
    let mut sim = Sim::new(&plan, 1);
    for number in 0..20_000u64 {
        sim.push_at((number * 31 % 1_000) as u16, number * 3, 60);
        if number % 100 == 0 {
            sim.run(number * 3);
        }
    }
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 20_000);
    assert!(sim.memory.releases().is_sorted());
}

#[test]
fn the_time_of_the_next_event_is_told() {
    let mut sim = Sim::link(LinkSpec {
        rate: RateSpec::Constant { bps: 8_000_000_000 },
        ..wire("up", 1_000)
    });
    assert_eq!(sim.network.next_ns(), None);
    sim.push(5, 100);
    assert_eq!(sim.network.next_ns(), Some(1_105));
    sim.push(5, 100);
    assert_eq!(sim.network.next_ns(), Some(105), "the second goes on the line");
    sim.run(105);
    assert_eq!(sim.network.next_ns(), Some(1_105));
    sim.finish();
    assert_eq!(sim.network.next_ns(), None);
}

#[test]
fn circles_are_refused() {
    let plan = NetworkSpec {
        entries: names(1, "in"),
        exits: names(1, "out"),
        nodes: names(3, "n"),
        links: vec![
            link(wire("a", 0), LinkSource::Entry(0), LinkTarget::Node(0)),
            link(wire("b", 0), LinkSource::Node(0), LinkTarget::Node(1)),
            link(wire("c", 0), LinkSource::Node(1), LinkTarget::Node(2)),
            link(wire("d", 0), LinkSource::Node(2), LinkTarget::Node(1)),
        ],
        classes: vec![],
    };
    let error = Network::new(&plan, 1).err().unwrap();
    assert_eq!(error.to_string(), "node: n1 is not allowed, only links that form no circle");
}

#[test]
fn early_deliveries_tell_times_to_come() {
    let mut sim =
        Sim::link(LinkSpec { delay: DelaySpec::constant(1_000), ..constant(8_000_000_000) });
    sim.network.deliver_early(true);
    sim.push(0, 100);
    sim.push(0, 100);
    // The first delivery is decided immediately, the second when its frame goes on the line.
    assert_eq!(sim.memory.releases(), [1_100]);
    sim.run(100);
    assert_eq!(sim.memory.releases(), [1_100, 1_200]);
    assert_eq!(sim.counters().in_flight.packets, 0);
}
