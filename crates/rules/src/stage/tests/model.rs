//! Compares the stage with a simple model, which checks one rule and one frame at a time. Rules and
//! frames are random.

use proptest::prelude::*;
use slipring_ipfw::run::{CheckOutputs, Firewall, PacketMetadata, RuleVerdict};
use slipring_route::{
    RouteBatch, RouteConfig, RouteDropCause, RouteEngine, RouteFrame, RouteVerdict,
};

use super::kit::*;
use crate::dataplane::RuleDataplane;

/// What happens to a packet.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Sent(u16, Vec<u8>),
    Dropped,
    Answered,
    Else,
}

/// A simple model of the stage, which interprets the rules one by one.
struct Model {
    firewall: Firewall,
    engine: RouteEngine,
    checks_out: bool,
}

impl Model {
    fn fate(&mut self, frame: &[u8], from: slipring_fib::FibPortIndex) -> Fate {
        let mut bytes = frame.to_vec();
        let mut crossing = PacketMetadata::incoming(from.0);
        if let Some(fate) = self.check(&mut bytes, &mut crossing) {
            return fate;
        }
        let mut frames = [RouteFrame::new(&mut bytes, from)];
        let mut batch = RouteBatch::new();
        self.engine.process(&mut batch, &mut frames, 0);
        while self.engine.pop().is_some() {}
        let Some(RouteVerdict::Forward(out)) = batch.verdict(0) else { return Fate::Else };
        // The second check sees the packet before its TTL is decremented, so the original frame is
        // checked again.
        let sent = [out.prepend(), &frames[0].bytes[out.range()]].concat();
        let mut crossing = crossing.outgoing(out.port.0);
        let mut seen = frame.to_vec();
        let denied = self.checks_out.then(|| self.check(&mut seen, &mut crossing)).flatten();
        denied.unwrap_or(Fate::Sent(out.port.0, sent))
    }

    /// Checks a packet. Returns its fate if the rules do not accept it, otherwise `None`.
    fn check(&mut self, bytes: &mut [u8], crossing: &mut PacketMetadata) -> Option<Fate> {
        let mut outputs = CheckOutputs { leaves_errors: true, ..CheckOutputs::default() };
        match self.firewall.check(bytes, crossing, 0, &mut outputs) {
            RuleVerdict::Accept => None,
            RuleVerdict::Deny(_) => Some(Fate::Dropped),
            RuleVerdict::Reject(_) => Some(Fate::Answered),
            other => panic!("{other:?}"),
        }
    }
}

pub(super) fn rule() -> impl Strategy<Value = String> {
    let action = prop::sample::select(vec![
        "allow",
        "deny",
        "count",
        "reject",
        "unreach port",
        "skipto 500",
        "allow",
        "deny",
        "count tag 7",
        "allow tagged 7",
    ]);
    let proto = prop::sample::select(vec!["ip", "udp", "tcp", "ip6"]);
    let from = prop::sample::select(vec!["any", "10.1.0.0/24", "10.3.0.2", "me", "not me"]);
    let to = prop::sample::select(vec!["any", "10.3.0.0/30", "10.1.0.2", "me"]);
    let port = prop::sample::select(vec!["", "dst-port 1-3", "dst-port 2", "src-port 4000"]);
    let rest = prop::sample::select(vec![
        "",
        "",
        "",
        "in",
        "out",
        "recv left",
        "out xmit right",
        "via left",
        "tcpflags syn",
        "keep-state",
        "tagged 7",
    ]);
    (1u32..900, action, proto, from, to, (port, rest)).prop_filter_map(
        "a jump goes forward, and options have a place",
        |(number, action, proto, from, to, (port, rest))| {
            let port = if proto == "ip6" || proto == "ip" && action != "allow" { "" } else { port };
            let from = if proto == "ip6" && from.starts_with("10.") { "any" } else { from };
            let to = if proto == "ip6" && to.starts_with("10.") { "any" } else { to };
            let (action, more) = match action {
                "allow tagged 7" => ("allow", "tagged 7"),
                other => (other, ""),
            };
            let keeps = rest == "keep-state" && action != "allow";
            let jumps_back = action.starts_with("skipto") && number >= 500;
            (!(keeps || jumps_back || rest == "tagged 7" && more == "tagged 7")).then(|| {
                format!("add {number} {action} {proto} from {from} to {to} {port} {more} {rest}")
            })
        },
    )
}

fn packet() -> impl Strategy<Value = (bool, Vec<u8>)> {
    (any::<bool>(), any::<bool>(), any::<bool>(), 1u16..5, 2u8..5).prop_map(
        |(is_left, is_v6, is_tcp, port, host)| {
            let host = if host == 4 { 2 } else { host };
            let (from, to) = match (is_left, is_v6) {
                (true, false) => ("10.1.0.2".to_owned(), format!("10.3.0.{host}")),
                (false, false) => (format!("10.3.0.{host}"), "10.1.0.2".to_owned()),
                (true, true) => ("fd01::2".to_owned(), "fd03::2".to_owned()),
                (false, true) => ("fd03::2".to_owned(), "fd01::2".to_owned()),
            };
            let frame =
                if is_tcp { tcp(&from, &to, [4000, port], 0x02) } else { udp(&from, &to, port) };
            (is_left, frame)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_stage_does_what_each_rule_by_itself_does(
        rules in prop::collection::vec(rule(), 1..12),
        is_open in any::<bool>(),
        packets in prop::collection::vec(packet(), 1..64),
    ) {
        let mut list = rules.join("\n");
        if is_open {
            list.push_str("\nadd 60000 allow ip from any to any");
        }
        let mut plain = firewall(&list);
        plain.set_plain(true);
        let mut router = Router::new(&list);
        let engine = RouteEngine::new(RouteConfig::default(), tables());
        let mut model = Model { firewall: plain, engine, checks_out: router.stage.checks_out() };
        for of_one_port in packets.chunk_by(|a, b| a.0 == b.0) {
            let from = if of_one_port[0].0 { LEFT } else { RIGHT };
            let frames: Vec<_> = of_one_port.iter().map(|(_, frame)| frame.clone()).collect();
            let (verdicts, sent) = router.process(from, &frames, 0);
            let mut sent = sent.into_iter();
            for (frame, verdict) in frames.iter().zip(verdicts) {
                let fate = match verdict {
                    RouteVerdict::Forward(_) => {
                        let (port, bytes) = sent.next().unwrap();
                        Fate::Sent(port.0, bytes)
                    }
                    RouteVerdict::Answered(RouteDropCause::Rules) => Fate::Answered,
                    RouteVerdict::Drop(RouteDropCause::Rules) => Fate::Dropped,
                    _ => Fate::Else,
                };
                let expected = model.fate(frame, from);
                // The engine limits the rate of ICMP errors, but the model does not. So the engine
                // may drop a packet that the model answers.
                let is_limited = (&expected, &fate) == (&Fate::Answered, &Fate::Dropped);
                prop_assert!(is_limited || expected == fate, "{expected:?} {fate:?}\n{list}");
            }
        }
        let counts = |firewall: &Firewall| -> Vec<_> {
            let list = &firewall.config().list;
            list.iter().map(|(entry, counters)| (entry.number, counters.packets)).collect()
        };
        prop_assert_eq!(counts(router.stage.firewall()), counts(&model.firewall), "{}", list);
    }
}
