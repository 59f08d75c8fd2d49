//! Publishes links for `slipring top`: their counters, their requested settings, and measurements
//! of the last second and since the start.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use slipring_datapath::publish::ObjectMetrics;
use slipring_link::{
    LinkCounters, LinkDropCause, LinkDrops, LinkSource, LinkTarget, NetworkSpec, PacketCounts,
    RateSpec,
};
use slipring_port::Nanos;
use slipring_top::schema::{MetricCounter, MetricObject, MetricSchema, NO_VALUE};

use crate::account::EmulationState;
use crate::realtime::EmulatorChannel;
use crate::report::histogram::Histogram;
use crate::report::measurement::LinkMeasurement;
use crate::report::requested::RequestedLink;

/// Length of the interval for recent figures, in ns.
const RECENT_WINDOW_NS: Nanos = 1_000_000_000;
/// Maximum time to wait for the run's state. The wait is limited, because the thread that provides
/// the state may have ended.
const STATE_TIMEOUT: Duration = Duration::from_millis(50);

/// Publishes the links of a run; keeps the states of the last second.
pub(crate) struct LinkPublisher {
    run: PublishedRun,
    network: Arc<NetworkSpec>,
    requested: Vec<RequestedLink>,
    states: VecDeque<Arc<EmulationState>>,
}

/// The run to publish.
pub(crate) struct PublishedRun {
    /// The run's name; `None` if it has none.
    pub name: Option<String>,
    /// The run's seed.
    pub seed: u64,
    /// The channel that provides the run's states.
    pub channel: Arc<EmulatorChannel>,
    /// The function that returns the links with the settings that apply now.
    pub network: Box<dyn Fn() -> Arc<NetworkSpec> + Send>,
}

/// The data from which the metrics of one link are computed.
struct LinkSample<'l> {
    rate: &'l RateSpec,
    requested: &'l RequestedLink,
    counters: &'l LinkCounters,
    now: Option<&'l LinkMeasurement>,
    before: Option<&'l LinkMeasurement>,
}

/// A metric: name, unit, whether it is a counter, and the function that returns its value.
type LinkWord = (&'static str, &'static str, bool, fn(&LinkSample<'_>) -> u64);

/// All metrics except losses.
const LINK_WORDS: [LinkWord; 28] = [
    ("input.packets", "packets", true, |sample| sample.counters.input.packets),
    ("input.bytes", "bytes", true, |sample| sample.counters.input.bytes),
    ("copies.packets", "packets", true, |sample| sample.counters.copies.packets),
    ("output.packets", "packets", true, |sample| sample.counters.output.packets),
    ("output.bytes", "bytes", true, |sample| sample.counters.output.bytes),
    ("inside.packets", "packets", false, |sample| sample.counters.in_flight.packets),
    ("inside.bytes", "bytes", false, |sample| sample.counters.in_flight.bytes),
    ("marked.packets", "packets", true, |sample| sample.counters.marked.packets),
    ("mangled.packets", "packets", true, |sample| sample.counters.mangled.packets),
    ("corrupted.packets", "packets", true, |sample| sample.counters.corrupted.packets),
    ("held.packets", "packets", true, |sample| sample.counters.held.packets),
    ("clamped.packets", "packets", true, |sample| sample.counters.clamped.packets),
    ("late.packets", "packets", true, |sample| sample.now.map_or(0, |measured| measured.late)),
    ("asked.rate", "bit/s", false, |sample| match sample.rate {
        RateSpec::Unlimited => 0,
        RateSpec::Constant { bps } => *bps,
        _ => NO_VALUE,
    }),
    ("asked.delay.p50", "ns", false, |sample| {
        sample.requested.delay_ns.map_or(NO_VALUE, |ns| ns.p50 as u64)
    }),
    ("asked.delay.p99", "ns", false, |sample| {
        sample.requested.delay_ns.map_or(NO_VALUE, |ns| ns.p99 as u64)
    }),
    ("asked.loss", "1e-9", false, |sample| {
        sample.requested.loss_share.map_or(NO_VALUE, |share| (share * 1e9).round() as u64)
    }),
    ("delay.p50", "ns", false, |sample| sample.recent(0.5, |measured| &measured.delay)),
    ("delay.p99", "ns", false, |sample| sample.recent(0.99, |measured| &measured.delay)),
    ("error.p50", "ns", false, |sample| sample.recent(0.5, |measured| &measured.error)),
    ("error.p99", "ns", false, |sample| sample.recent(0.99, |measured| &measured.error)),
    ("queue.p50", "bytes", false, |sample| sample.recent(0.5, |measured| &measured.queue_bytes)),
    ("queue.p99", "bytes", false, |sample| sample.recent(0.99, |measured| &measured.queue_bytes)),
    ("total.delay.p50", "ns", false, |sample| sample.total(0.5, |measured| &measured.delay)),
    ("total.delay.p99", "ns", false, |sample| sample.total(0.99, |measured| &measured.delay)),
    ("total.error.p50", "ns", false, |sample| sample.total(0.5, |measured| &measured.error)),
    ("total.error.p99", "ns", false, |sample| sample.total(0.99, |measured| &measured.error)),
    ("total.reordered", "packets", true, |sample| {
        sample.now.map_or(0, |measured| measured.order.reordered())
    }),
];

impl LinkPublisher {
    pub(crate) fn new(run: PublishedRun) -> Self {
        let network = (run.network)();
        Self { requested: requested_links(&network), network, run, states: VecDeque::new() }
    }
}

impl ObjectMetrics for LinkPublisher {
    fn run(&self) -> (Option<String>, Option<u64>) {
        (self.run.name.clone(), Some(self.run.seed))
    }

    fn count(&self) -> usize {
        self.network.links.len()
    }

    fn describe(&self, names: &mut MetricSchema) {
        let word = |&(name, unit, grows, _): &LinkWord| match grows {
            true => MetricCounter::growing(name, unit),
            false => MetricCounter::gauge(name, unit),
        };
        let lost = LinkDropCause::ALL.iter().map(|cause| format!("lost.{cause}"));
        let lost = lost.map(|name| MetricCounter::growing(name, "packets"));
        names.describe("link", LINK_WORDS.iter().map(word).chain(lost).collect());
        let network = &self.network;
        for link in &network.links {
            let from = match link.from {
                LinkSource::Entry(entry) => &network.entries[entry],
                LinkSource::Node(node) => &network.nodes[node],
            };
            let to = match link.to {
                LinkTarget::Exit(exit) => &network.exits[exit],
                LinkTarget::Node(node) => &network.nodes[node],
            };
            let (from, to) = (Some(from.clone()), Some(to.clone()));
            let (kind, name) = ("link".to_owned(), link.spec.name.clone());
            names.add(MetricObject { kind, name, from, to, ..MetricObject::default() });
        }
    }

    fn sample(&mut self, words: &mut Vec<u64>) -> Nanos {
        let network = (self.run.network)();
        if !Arc::ptr_eq(&network, &self.network) {
            (self.requested, self.network) = (requested_links(&network), network);
        }
        let state = self.run.channel.request_state_within(STATE_TIMEOUT);
        let at_ns = state.account.at_ns;
        let age = |old: &Arc<EmulationState>| at_ns.saturating_sub(old.account.at_ns);
        // After a pause in publishing, the old states are too old to be the beginning of the
        // interval for recent figures.
        if self.states.back().is_some_and(|last| age(last) > 2 * RECENT_WINDOW_NS) {
            self.states.clear();
        }
        let is_old = |old: &Arc<EmulationState>| age(old) >= RECENT_WINDOW_NS;
        // One state that is at least as old as the interval is kept as its beginning.
        while self.states.get(1).is_some_and(is_old) {
            self.states.pop_front();
        }
        let before = self.states.front();
        let nothing = LinkCounters::default();
        for (at, link) in self.network.links.iter().enumerate() {
            let sample = LinkSample {
                rate: &link.spec.rate,
                requested: &self.requested[at],
                counters: state.account.links.get(at).unwrap_or(&nothing),
                now: state.measured.get(at),
                before: before.and_then(|before| before.measured.get(at)),
            };
            words.extend(LINK_WORDS.iter().map(|(.., value)| value(&sample)));
            words.extend(sample.counters.drops.iter().map(|(_, tally)| tally.packets));
        }
        self.states.push_back(state);
        at_ns
    }

    fn boundary_loss_causes(&self) -> Vec<&'static str> {
        LinkDropCause::ALL.iter().map(|cause| cause.as_str()).collect()
    }

    fn boundary_losses(&self, at: usize, words: &mut Vec<u64>) {
        let state = self.states.back();
        let between = state.map_or_else(LinkDrops::default, |state| boundary_drops(state, at));
        words.extend(between.iter().map(|(_, tally)| tally.packets));
    }
}

/// Returns the counts of frames lost at entry `at` before they reached a link, by cause. Frames
/// that no link accepts count at the first port, as in reports.
fn boundary_drops(state: &EmulationState, at: usize) -> LinkDrops {
    let account = &state.account;
    let refused = account.entries.get(at).map(|entry| entry.refused);
    let mut sum = refused.unwrap_or_default();
    sum.add(LinkDropCause::Route, if at == 0 { account.unrouted } else { PacketCounts::default() });
    sum
}

fn requested_links(network: &NetworkSpec) -> Vec<RequestedLink> {
    network.links.iter().map(|link| RequestedLink::of(&link.spec)).collect()
}

impl LinkSample<'_> {
    fn total(&self, quantile: f64, of: fn(&LinkMeasurement) -> &Histogram) -> u64 {
        let histogram = self.now.map(of).filter(|histogram| histogram.count() > 0);
        histogram.map_or(NO_VALUE, |histogram| histogram.quantile(quantile))
    }

    fn recent(&self, quantile: f64, of: fn(&LinkMeasurement) -> &Histogram) -> u64 {
        let Some(now) = self.now.map(of) else { return NO_VALUE };
        let before = self.before.map(of);
        before.and_then(|before| now.quantile_since(before, quantile)).unwrap_or(NO_VALUE)
    }
}
