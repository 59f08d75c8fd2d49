//! Rows for lists of rules.

use slipring_wire::FrameSpec;
use slipring_wire::frame::{L4Spec, PortPair};

use super::checks::{BurstChecker, INTERPRETER_NAME, cpu_round, firewall};
use super::draw::SeededRng;
use super::frames::{self, FiveFieldRule};
use crate::measure::BenchError;
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

/// Number of flows in the benchmarks that have several flows.
const NUM_FLOWS: usize = 4096;

pub(super) fn rows() -> Vec<BenchRow> {
    let sources = [(0, 50e6), (10, 40e6)].map(|(count, goal)| sources(count, goal));
    let mixed = [(100, 30e6), (1000, 20e6), (10_000, 5e6)].map(|(count, goal)| mixed(count, goal));
    let patterned =
        PATTERNS.iter().flat_map(|pattern| LIST_LENGTHS.map(|count| pattern.row(count)));
    sources.into_iter().chain(mixed).chain(patterned).collect()
}

/// Lengths of lists that should all cost nearly the same.
const LIST_LENGTHS: [usize; 4] = [1, 10, 100, 1000];

/// The pattern of a list: similar rules for sources that no packet has, and a last rule that allows
/// all UDP.
struct RuleListPattern {
    id: &'static str,
    title: &'static str,
    /// Returns a rule for the source whose last two bytes are given.
    rule: fn(usize, usize) -> String,
    last: &'static str,
}

const PATTERNS: &[RuleListPattern] = &[
    RuleListPattern {
        id: "keep-state",
        title: "keep-state rules",
        rule: |a, b| format!("allow udp from 192.168.{a}.{b} to any keep-state"),
        last: "allow udp from any to any keep-state",
    },
    RuleListPattern {
        id: "mask",
        title: "rules with masks that are no prefix",
        rule: |a, b| format!("deny udp from 192.0.{a}.{b}:255.0.255.255 to any"),
        last: "allow udp from any to any",
    },
    RuleListPattern {
        id: "prob",
        title: "rules with prob",
        rule: |a, b| format!("prob 0.5 deny udp from 192.168.{a}.{b} to any"),
        last: "allow udp from any to any",
    },
];

impl RuleListPattern {
    fn row(&'static self, count: usize) -> BenchRow {
        let start = move |is_plain| {
            move || {
                let rule = |i: usize| format!("add {}\n", (self.rule)(i / 250 + 1, i % 250));
                let rules: String = (1..count).map(rule).collect();
                let frames = (0..NUM_FLOWS as u16).map(flow).collect();
                checks(&format!("{rules}add {}", self.last), frames, is_plain)
            }
        };
        let title = format!("firewall, {count} {}, {NUM_FLOWS} flows", self.title);
        BenchRow::new(format!("firewall-{}-{count}", self.id), title, RowUnit::PacketsPerSec)
            .with(ContenderRole::Ours, "slipring", start(false))
            .with(ContenderRole::Floor, INTERPRETER_NAME, start(true))
            .goal(GoalMetric::Value, 10e6)
    }
}

/// A frame of one of many flows.
fn flow(number: u16) -> Vec<u8> {
    let l4 = L4Spec::Udp(PortPair { src: 1024 + number, dst: 53 });
    frames::built(&FrameSpec { l4, ..FrameSpec::default() })
}

/// Returns the row for `count` rules for sources that no packet has, followed by a rule that allows
/// everything. All packets are of one flow.
fn sources(count: usize, goal: f64) -> BenchRow {
    let start = move |is_plain| {
        move || {
            let rules: String = (0..count)
                .map(|i| format!("add deny ip from 192.168.{}.{} to any\n", i / 250, i % 250))
                .collect();
            let frames = vec![frames::built(&FrameSpec::default()); NUM_FLOWS];
            checks(&format!("{rules}add allow ip from any to any"), frames, is_plain)
        }
    };
    let rules = count + 1;
    let title = format!("firewall, {} rule{}, parsed", rules, if rules > 1 { "s" } else { "" });
    BenchRow::new(format!("firewall-rules-{rules}"), title, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring", start(false))
        .with(ContenderRole::Floor, INTERPRETER_NAME, start(true))
        .goal(GoalMetric::Value, goal)
}

/// Returns the row for rules with five fields. About one rule in ten is a `count` rule. Each packet
/// is built so that it matches a rule that is chosen at random.
fn mixed(count: usize, goal: f64) -> BenchRow {
    let start = move |is_plain| {
        move || {
            let mut draw = SeededRng(count as u64);
            let rules: Vec<_> = (1..count).map(|_| FiveFieldRule::draw(&mut draw)).collect();
            let frames = (0..NUM_FLOWS).map(|_| frames::frame(&mut draw, &rules)).collect();
            checks(&frames::text(&rules), frames, is_plain)
        }
    };
    let title = format!("firewall, {count} mixed rules, {NUM_FLOWS} flows");
    BenchRow::new(format!("firewall-mixed-{count}"), title, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring", start(false))
        .with(ContenderRole::Floor, INTERPRETER_NAME, start(true))
        .goal(GoalMetric::Value, goal)
}

fn checks(text: &str, mut frames: Vec<Vec<u8>>, is_plain: bool) -> Result<BenchRound, BenchError> {
    let (mut firewall, mut checks) = (firewall(text, is_plain)?, BurstChecker::default());
    let mut at = 0;
    // Only one burst is checked at a time, because the slowest list takes milliseconds per burst.
    Ok(cpu_round(move || {
        at = (at + 256) % NUM_FLOWS;
        checks.all(&mut firewall, &mut frames[at..at + 256])
    }))
}
