//! Tests that several stages with steering together give the same results as one stage that gets
//! all frames.

use proptest::prelude::*;
use slipring_fib::FibPortIndex;
use slipring_route::{RouteDropCause, RouteVerdict};

use super::kit::*;
use super::model::rule;
use crate::dataplane::RuleDataplane;
use crate::distribution::FlowDistribution;

/// What happens to a packet. ICMP rate limits are ignored, because each engine has its own.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Sent(Vec<Sent>),
    ByRules,
    Else,
}

fn fate(router: &mut Router, from: FibPortIndex, frame: &[u8], now_ns: u64) -> Fate {
    let (verdicts, sent) = router.process(from, &[frame.to_vec()], now_ns);
    match verdicts[0] {
        RouteVerdict::Forward(_) | RouteVerdict::Delayed => Fate::Sent(sent),
        RouteVerdict::Drop(RouteDropCause::Rules)
        | RouteVerdict::Answered(RouteDropCause::Rules) => Fate::ByRules,
        _ => Fate::Else,
    }
}

/// The stages of several threads, and the distribution of flows to the threads.
struct Threads {
    routers: Vec<Router>,
    distribution: FlowDistribution,
}

impl Threads {
    fn new(list: &str, count: u16) -> Self {
        let routers = (0..count).map(|_| Router::new(list)).collect();
        Self { routers, distribution: FlowDistribution::new([5, 6], count) }
    }

    /// The thread that must check a frame received by thread `receiver`.
    fn owner(&self, receiver: usize, frame: &[u8]) -> usize {
        let steering = self.routers[receiver].stage.steering();
        steering.thread_of(frame, &self.distribution).unwrap_or(receiver)
    }
}

/// Rules that store something about a packet, such as a state.
fn keeping_rule() -> impl Strategy<Value = String> {
    let rest = prop::sample::select(vec![
        "keep-state",
        "keep-state :other",
        "limit src-addr 2",
        "limit dst-addr dst-port 3",
        "limit src-addr dst-addr 1",
        "limit src-addr src-port dst-addr dst-port 1",
        "setup keep-state",
        "record-state",
    ]);
    let to = prop::sample::select(vec!["any", "10.3.0.0/24", "10.1.0.0/24"]);
    (1u32..900, any::<bool>(), to, rest).prop_map(|(number, is_tcp, to, rest)| {
        let proto = if is_tcp || rest.starts_with("setup") { "tcp" } else { "udp" };
        format!("add {number} allow {proto} from any to {to} {rest}")
    })
}

fn any_rule() -> impl Strategy<Value = String> {
    let check = (1u32..900, prop::sample::select(vec!["", ":other", ":any"]));
    prop_oneof![
        4 => rule(),
        3 => keeping_rule(),
        1 => check.prop_map(|(number, name)| format!("add {number} check-state {name}")),
        1 => (1u32..900).prop_map(|number| format!("add {number} reass ip from any to any in")),
    ]
}

/// A packet of a flow, in either direction, and the thread that receives it.
fn packet() -> impl Strategy<Value = (bool, Vec<u8>, usize)> {
    (any::<bool>(), any::<bool>(), 2u8..8, 2u8..5, 1u16..4, 0..8usize, prop::bool::weighted(0.2))
        .prop_map(|(is_back, is_tcp, near, far, port, receiver, is_v6)| {
            let (near, far) = match is_v6 {
                true => (format!("fd01::{near}"), format!("fd03::{far}")),
                false => (format!("10.1.0.{near}"), format!("10.3.0.{far}")),
            };
            let (ends, ports) = match is_back {
                false => ([&near, &far], [4000, port]),
                true => ([&far, &near], [port, 4000]),
            };
            let flags = if is_back { 0x12 } else { 0x02 };
            let frame = match is_tcp {
                true => tcp(ends[0], ends[1], ports, flags),
                false => frame_of_udp(ends, ports),
            };
            (is_back, frame, receiver)
        })
}

fn frame_of_udp([from, to]: [&String; 2], [src, dst]: [u16; 2]) -> Vec<u8> {
    frame(from, to, slipring_wire::frame::L4Spec::Udp(slipring_wire::frame::PortPair { src, dst }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn threads_give_each_packet_the_verdict_that_one_gives(
        rules in prop::collection::vec(any_rule(), 1..10),
        is_open in any::<bool>(),
        threads in 2u16..6,
        packets in prop::collection::vec(packet(), 1..96),
    ) {
        let mut list = rules.join("\n");
        if is_open {
            list.push_str("\nadd 60000 allow ip from any to any");
        }
        let mut one = Router::new(&list);
        let mut many = Threads::new(&list, threads);
        for (number, (is_back, frame, receiver)) in (0..).zip(&packets) {
            let (from, now_ns) = (if *is_back { RIGHT } else { LEFT }, number * 100_000_000);
            let owner = many.owner(*receiver % usize::from(threads), frame);
            let expected = fate(&mut one, from, frame, now_ns);
            let found = fate(&mut many.routers[owner], from, frame, now_ns);
            prop_assert_eq!(found, expected, "packet {}\n{}", number, list);
        }
        let all: Vec<_> =
            many.routers.iter().map(|router| router.stage.firewall().counters().to_vec()).collect();
        let mut sum = firewall(&list);
        sum.show_counters(&all);
        let counts = |firewall: &slipring_ipfw::run::Firewall| -> Vec<_> {
            firewall.counters().iter().map(|of| (of.packets, of.bytes)).collect()
        };
        prop_assert_eq!(counts(&sum), counts(one.stage.firewall()), "{}", list);
    }
}

#[test]
fn fragments_of_a_packet_meet_in_one_thread() {
    let mut many = Threads::new("add reass ip from any to any in\nadd allow ip from any to any", 4);
    for host in 2..40 {
        let whole = udp(&format!("10.1.0.{host}"), "10.3.0.2", 53);
        let [first, rest] = fragments(&whole, 16);
        let owners = [many.owner(0, &first), many.owner(3, &rest)];
        assert_eq!(owners[0], owners[1]);
        let router = &mut many.routers[owners[0]];
        assert_eq!(router.process(LEFT, &[first], 0).1, []);
        assert_eq!(router.process(LEFT, &[rest], 0).1.len(), 2);
    }
}
