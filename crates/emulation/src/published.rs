//! What `slipring top` sees of links, and its words: a link's account, what was asked of it, and what was measured in the last
//! second and since the start.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use slipring_link::{Cause, Counters, Drops, NetworkSpec, RateSpec, Source, Tally, Target};
use slipring_monitor::names::{Counter, NONE, Names, Object};
use slipring_port::Nanos;
use slipring_program::publish::Watched;

use crate::realtime::{Board, State};
use crate::report::asked::Asked;
use crate::report::histogram::Histogram;
use crate::report::measured::Measured;

/// How far back "lately" reaches.
const LATELY: Nanos = 1_000_000_000;
/// How long to wait for a state. The thread that shows it may be gone, and nobody waits for us.
const PATIENCE: Duration = Duration::from_millis(50);

/// The links of a run, and their states of the last second.
pub(crate) struct Published {
    run: Run,
    network: Arc<NetworkSpec>,
    asked: Vec<Asked>,
    states: VecDeque<Arc<State>>,
}

/// What is published of.
pub(crate) struct Run {
    /// Its name.
    pub name: Option<String>,
    /// Its seed.
    pub seed: u64,
    /// Where states come from.
    pub board: Arc<Board>,
    /// The links as they are now.
    pub network: Box<dyn Fn() -> Arc<NetworkSpec> + Send>,
}

/// What is known of one link at a moment.
struct Look<'l> {
    rate: &'l RateSpec,
    asked: &'l Asked,
    counters: &'l Counters,
    now: Option<&'l Measured>,
    before: Option<&'l Measured>,
}

/// One word: its name, its unit, whether it only grows, and where it comes from.
type Word = (&'static str, &'static str, bool, fn(&Look<'_>) -> u64);

/// All but what is lost.
const WORDS: [Word; 28] = [
    ("input.packets", "packets", true, |look| look.counters.input.packets),
    ("input.bytes", "bytes", true, |look| look.counters.input.bytes),
    ("copies.packets", "packets", true, |look| look.counters.copies.packets),
    ("output.packets", "packets", true, |look| look.counters.output.packets),
    ("output.bytes", "bytes", true, |look| look.counters.output.bytes),
    ("inside.packets", "packets", false, |look| look.counters.in_flight.packets),
    ("inside.bytes", "bytes", false, |look| look.counters.in_flight.bytes),
    ("marked.packets", "packets", true, |look| look.counters.marked.packets),
    ("mangled.packets", "packets", true, |look| look.counters.mangled.packets),
    ("corrupted.packets", "packets", true, |look| look.counters.corrupted.packets),
    ("held.packets", "packets", true, |look| look.counters.held.packets),
    ("clamped.packets", "packets", true, |look| look.counters.clamped.packets),
    ("late.packets", "packets", true, |look| look.now.map_or(0, |measured| measured.late)),
    ("asked.rate", "bit/s", false, |look| match look.rate {
        RateSpec::Unlimited => 0,
        RateSpec::Constant { bps } => *bps,
        _ => NONE,
    }),
    ("asked.delay.p50", "ns", false, |look| look.asked.delay_ns.map_or(NONE, |ns| ns.p50 as u64)),
    ("asked.delay.p99", "ns", false, |look| look.asked.delay_ns.map_or(NONE, |ns| ns.p99 as u64)),
    ("asked.loss", "1e-9", false, |look| {
        look.asked.loss_share.map_or(NONE, |share| (share * 1e9).round() as u64)
    }),
    ("delay.p50", "ns", false, |look| look.lately(0.5, |measured| &measured.delay)),
    ("delay.p99", "ns", false, |look| look.lately(0.99, |measured| &measured.delay)),
    ("error.p50", "ns", false, |look| look.lately(0.5, |measured| &measured.error)),
    ("error.p99", "ns", false, |look| look.lately(0.99, |measured| &measured.error)),
    ("queue.p50", "bytes", false, |look| look.lately(0.5, |measured| &measured.queue_bytes)),
    ("queue.p99", "bytes", false, |look| look.lately(0.99, |measured| &measured.queue_bytes)),
    ("total.delay.p50", "ns", false, |look| look.total(0.5, |measured| &measured.delay)),
    ("total.delay.p99", "ns", false, |look| look.total(0.99, |measured| &measured.delay)),
    ("total.error.p50", "ns", false, |look| look.total(0.5, |measured| &measured.error)),
    ("total.error.p99", "ns", false, |look| look.total(0.99, |measured| &measured.error)),
    ("total.reordered", "packets", true, |look| {
        look.now.map_or(0, |measured| measured.order.reordered())
    }),
];

impl Published {
    pub(crate) fn new(run: Run) -> Self {
        let network = (run.network)();
        Self { asked: asked(&network), network, run, states: VecDeque::new() }
    }
}

impl Watched for Published {
    fn run(&self) -> (Option<String>, u64) {
        (self.run.name.clone(), self.run.seed)
    }

    fn count(&self) -> usize {
        self.network.links.len()
    }

    fn describe(&self, names: &mut Names) {
        let word = |&(name, unit, grows, _): &Word| match grows {
            true => Counter::growing(name, unit),
            false => Counter::gauge(name, unit),
        };
        let lost = Cause::ALL.iter().map(|cause| format!("lost.{cause}"));
        let lost = lost.map(|name| Counter::growing(name, "packets"));
        names.describe("link", WORDS.iter().map(word).chain(lost).collect());
        let network = &self.network;
        for link in &network.links {
            let from = match link.from {
                Source::Entry(entry) => &network.entries[entry],
                Source::Node(node) => &network.nodes[node],
            };
            let to = match link.to {
                Target::Exit(exit) => &network.exits[exit],
                Target::Node(node) => &network.nodes[node],
            };
            let (from, to) = (Some(from.clone()), Some(to.clone()));
            let (kind, name) = ("link".to_owned(), link.spec.name.clone());
            names.add(Object { kind, name, from, to, first: 0 });
        }
    }

    fn look(&mut self, words: &mut Vec<u64>) -> Nanos {
        let network = (self.run.network)();
        if !Arc::ptr_eq(&network, &self.network) {
            (self.asked, self.network) = (asked(&network), network);
        }
        let state = self.run.board.ask_within(PATIENCE);
        let at_ns = state.account.at_ns;
        let age = |old: &Arc<State>| at_ns.saturating_sub(old.account.at_ns);
        // Nobody looked for a while: what was long ago says nothing of lately.
        if self.states.back().is_some_and(|last| age(last) > 2 * LATELY) {
            self.states.clear();
        }
        let is_old = |old: &Arc<State>| age(old) >= LATELY;
        // One that is as old as that stays, to measure from.
        while self.states.get(1).is_some_and(is_old) {
            self.states.pop_front();
        }
        let before = self.states.front();
        let nothing = Counters::default();
        for (at, link) in self.network.links.iter().enumerate() {
            let look = Look {
                rate: &link.spec.rate,
                asked: &self.asked[at],
                counters: state.account.links.get(at).unwrap_or(&nothing),
                now: state.measured.get(at),
                before: before.and_then(|before| before.measured.get(at)),
            };
            words.extend(WORDS.iter().map(|(.., value)| value(&look)));
            words.extend(look.counters.drops.iter().map(|(_, tally)| tally.packets));
        }
        self.states.push_back(state);
        at_ns
    }

    fn between(&self) -> Vec<&'static str> {
        Cause::ALL.iter().map(|cause| cause.as_str()).collect()
    }

    fn lost(&self, at: usize, words: &mut Vec<u64>) {
        let state = self.states.back();
        let between = state.map_or_else(Drops::default, |state| between(state, at));
        words.extend(between.iter().map(|(_, tally)| tally.packets));
    }
}

/// What was lost between a port and the links. What no link wanted counts at the first port, as
/// in reports. What left a link and could not be sent is that link's.
fn between(state: &State, at: usize) -> Drops {
    let account = &state.account;
    let refused = account.entries.get(at).map(|entry| entry.refused);
    let mut sum = refused.unwrap_or_default();
    sum.add(Cause::Route, if at == 0 { account.unrouted } else { Tally::default() });
    sum
}

fn asked(network: &NetworkSpec) -> Vec<Asked> {
    network.links.iter().map(|link| Asked::of(&link.spec)).collect()
}

impl Look<'_> {
    fn total(&self, quantile: f64, of: fn(&Measured) -> &Histogram) -> u64 {
        let histogram = self.now.map(of).filter(|histogram| histogram.count() > 0);
        histogram.map_or(NONE, |histogram| histogram.quantile(quantile))
    }

    fn lately(&self, quantile: f64, of: fn(&Measured) -> &Histogram) -> u64 {
        let Some(now) = self.now.map(of) else { return NONE };
        let before = self.before.map(of);
        before.and_then(|before| now.quantile_since(before, quantile)).unwrap_or(NONE)
    }
}
