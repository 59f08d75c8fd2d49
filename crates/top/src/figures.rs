//! Computes figures from two snapshots: the traffic in between, and the current state.

use std::collections::BTreeMap;

use serde::Serialize;
use slipring_core::counters::CountersSnapshot;

use crate::attach::AttachedProgram;
use crate::router::TopRouter;
use crate::schema::{MetricObject, MetricSchema, NO_VALUE};

/// The figures of a program at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TopSample {
    /// The program's process id.
    pub pid: u32,
    /// The name given to the run; `None` if it has none.
    pub name: Option<String>,
    /// The whole command line.
    pub command: String,
    /// Time since the program began to publish, in ns.
    pub elapsed_ns: u64,
    /// Length of the interval over which the rates are measured, in ns.
    pub interval_ns: u64,
    /// All links of the program, in its own order.
    pub links: Vec<TopLink>,
    /// All ports of the program, in its own order.
    pub ports: Vec<TopPort>,
    /// The router's figures; `None` if the program is no router.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<TopRouter>,
}

/// A link in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TopLink {
    /// The link's name.
    pub name: String,
    /// Source of the link's frames.
    pub from: String,
    /// Destination of the link's frames.
    pub to: String,
    /// The link's settings.
    pub asked: TopLinkSettings,
    /// Frames that have reached the link since the start.
    pub input: TopTraffic,
    /// Frames that have left the link since the start.
    pub output: TopTraffic,
    /// Frames inside the link now.
    pub inside: TopTraffic,
    /// Frames lost since the start, by cause; causes without a loss are omitted.
    pub lost: BTreeMap<String, u64>,
    /// Frames that have left the link late since the start, by more than the limit at which the
    /// program warns.
    pub late: u64,
    /// Bits per second that left, over the interval.
    pub rate_bps: f64,
    /// Frames per second that left, over the interval.
    pub rate_pps: f64,
    /// Share of lost frames among the frames that left or were lost in the interval; `None` if
    /// there were no such frames.
    pub loss_share: Option<f64>,
    /// Quantiles of the frames' delays in the last second; `None` if the program publishes none.
    pub delay_ns: Option<TopQuantiles>,
    /// Quantiles of the frames' delays since the start; `None` if the program publishes none.
    pub total_delay_ns: Option<TopQuantiles>,
    /// Quantiles of how late frames left, relative to the settings, in the last second; `None` if
    /// the program publishes none.
    pub error_ns: Option<TopQuantiles>,
    /// Quantiles of how late frames left, relative to the settings, since the start; `None` if the
    /// program publishes none.
    pub total_error_ns: Option<TopQuantiles>,
    /// Quantiles of the bytes in the queue in the last second; `None` if the program publishes
    /// none.
    pub queue_bytes: Option<TopQuantiles>,
}

/// Settings of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TopLinkSettings {
    /// The link's rate.
    pub rate: TopLinkRate,
    /// Quantiles of the configured delay; `None` if the program publishes none.
    pub delay_ns: Option<TopQuantiles>,
    /// The mean share of frames that the settings make the link lose; `None` if the program
    /// publishes none, because the share depends on the frames.
    pub loss_share: Option<f64>,
}

/// The configured rate of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TopLinkRate {
    /// The link has no rate limit.
    #[default]
    Unlimited,
    /// The rate is constant, in bits per second.
    Bps(u64),
    /// The rate changes over time.
    Varies,
}

/// The median and the tail of a distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TopQuantiles {
    /// Half of all values are at most this value.
    pub p50: u64,
    /// 99 of 100 values are at most this value.
    pub p99: u64,
}

/// Frames and their bytes, without FCS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TopTraffic {
    /// Number of frames.
    pub packets: u64,
    /// Bytes of these frames.
    pub bytes: u64,
}

/// A port of the program.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TopPort {
    /// The port's name.
    pub name: String,
    /// Frames that the port has received since the start.
    pub rx: TopTraffic,
    /// Frames that the port has sent since the start.
    pub tx: TopTraffic,
    /// Frames lost since the start, by cause; causes without a loss are omitted.
    pub lost: BTreeMap<String, u64>,
    /// Rate of received frames over the interval.
    pub rx_rate: TopSpeed,
    /// Rate of sent frames over the interval.
    pub tx_rate: TopSpeed,
}

/// A rate over an interval, in bits and in frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TopSpeed {
    /// Bits per second.
    pub bps: f64,
    /// Frames per second.
    pub pps: f64,
}

impl TopSample {
    /// Returns the figures of the snapshot `now`, with rates since the snapshot `before`, or since
    /// the program began if `before` is `None`.
    #[must_use]
    pub fn of(
        attached: &AttachedProgram,
        before: Option<&CountersSnapshot>,
        now: &CountersSnapshot,
    ) -> Self {
        let names = attached.schema();
        let since_ns = before.map_or(attached.start_ns(), |before| before.at_ns);
        let looks = SnapshotPair {
            schema: names,
            before,
            now,
            interval_ns: now.at_ns.saturating_sub(since_ns),
        };
        Self {
            pid: attached.pid(),
            name: names.name.clone(),
            command: names.line.clone(),
            elapsed_ns: now.at_ns.saturating_sub(attached.start_ns()),
            interval_ns: looks.interval_ns,
            links: looks.all("link").map(|object| object.link()).collect(),
            ports: looks.all("port").map(|object| object.port()).collect(),
            router: TopRouter::of(&looks),
        }
    }

    /// Returns the bits per second of each row that can be selected: the links, or the interfaces
    /// of a router.
    #[must_use]
    pub fn row_rates(&self) -> Vec<f64> {
        match &self.router {
            Some(router) => router.interfaces.iter().map(|of| of.forwarded_rate.bps).collect(),
            None => self.links.iter().map(|link| link.rate_bps).collect(),
        }
    }
}

/// Two snapshots of all objects of a program.
pub(crate) struct SnapshotPair<'l> {
    schema: &'l MetricSchema,
    before: Option<&'l CountersSnapshot>,
    now: &'l CountersSnapshot,
    interval_ns: u64,
}

impl<'l> SnapshotPair<'l> {
    /// Returns the objects of a kind.
    pub(crate) fn all(&'l self, kind: &'l str) -> impl Iterator<Item = ObjectSample<'l>> + 'l {
        let objects = self.schema.objects.iter();
        objects.filter(move |object| object.kind == kind).map(|object| self.of(object))
    }

    fn of(&'l self, object: &'l MetricObject) -> ObjectSample<'l> {
        ObjectSample { snapshots: self, object }
    }
}

/// Two snapshots of one object.
pub(crate) struct ObjectSample<'l> {
    snapshots: &'l SnapshotPair<'l>,
    pub(crate) object: &'l MetricObject,
}

impl ObjectSample<'_> {
    fn link(&self) -> TopLink {
        let (output, lost) = (self.change("output.packets"), self.sum_in_interval("lost."));
        let TopSpeed { bps, pps } = self.speed("output");
        TopLink {
            name: self.object.name.clone(),
            from: self.object.from.clone().unwrap_or_default(),
            to: self.object.to.clone().unwrap_or_default(),
            asked: self.settings(),
            input: self.traffic("input"),
            output: self.traffic("output"),
            inside: self.traffic("inside"),
            lost: self.lost(),
            late: self.value("late.packets"),
            rate_bps: bps,
            rate_pps: pps,
            loss_share: (output + lost > 0).then(|| lost as f64 / (output + lost) as f64),
            delay_ns: self.quantiles("delay"),
            total_delay_ns: self.quantiles("total.delay"),
            error_ns: self.quantiles("error"),
            total_error_ns: self.quantiles("total.error"),
            queue_bytes: self.quantiles("queue"),
        }
    }

    fn settings(&self) -> TopLinkSettings {
        TopLinkSettings {
            rate: match self.gauge("asked.rate") {
                Some(0) => TopLinkRate::Unlimited,
                Some(bps) => TopLinkRate::Bps(bps),
                None => TopLinkRate::Varies,
            },
            delay_ns: self.quantiles("asked.delay"),
            loss_share: self.gauge("asked.loss").map(|loss| loss as f64 / 1e9),
        }
    }

    fn port(&self) -> TopPort {
        TopPort {
            name: self.object.name.clone(),
            rx: self.traffic("rx"),
            tx: self.traffic("tx"),
            lost: self.lost(),
            rx_rate: self.speed("rx"),
            tx_rate: self.speed("tx"),
        }
    }

    /// Returns the value of the counter `name` in the current and in the previous snapshot (0 if
    /// there is no previous one); `None` if the object does not have this counter.
    fn words(&self, name: &str) -> Option<(u64, u64)> {
        let mut counters = self.snapshots.schema.counters(self.object).iter();
        let index = self.object.first + counters.position(|counter| counter.name == name)?;
        let before = self.snapshots.before.and_then(|before| before.words.get(index)).copied();
        Some((*self.snapshots.now.words.get(index)?, before.unwrap_or(0)))
    }

    pub(crate) fn value(&self, name: &str) -> u64 {
        self.words(name).map_or(0, |(now, _)| now)
    }

    pub(crate) fn change(&self, name: &str) -> u64 {
        self.words(name).map_or(0, |(now, before)| now.saturating_sub(before))
    }

    pub(crate) fn gauge(&self, name: &str) -> Option<u64> {
        self.words(name).map(|(now, _)| now).filter(|now| *now != NO_VALUE)
    }

    pub(crate) fn traffic(&self, name: &str) -> TopTraffic {
        let value = |unit| self.value(&format!("{name}.{unit}"));
        TopTraffic { packets: value("packets"), bytes: value("bytes") }
    }

    fn quantiles(&self, name: &str) -> Option<TopQuantiles> {
        let value = |part| self.gauge(&format!("{name}.{part}"));
        Some(TopQuantiles { p50: value("p50")?, p99: value("p99")? })
    }

    pub(crate) fn speed(&self, name: &str) -> TopSpeed {
        let per_sec = |unit| self.per_sec(self.change(&format!("{name}.{unit}")));
        TopSpeed { bps: per_sec("bytes") * 8.0, pps: per_sec("packets") }
    }

    /// Returns the rate of a counter that has grown by `change` in the interval.
    pub(crate) fn per_sec(&self, change: u64) -> f64 {
        match self.snapshots.interval_ns {
            0 => 0.0,
            time => change as f64 * 1e9 / time as f64,
        }
    }

    /// Returns two names for each counter of a group, such as `lost.`: the one without this prefix,
    /// and the whole one.
    fn group(&self, prefix: &'static str) -> impl Iterator<Item = (&str, &str)> {
        let counters = self.snapshots.schema.counters(self.object).iter();
        counters
            .filter_map(move |counter| Some((counter.name.strip_prefix(prefix)?, &*counter.name)))
    }

    /// Returns the values of a group that are not 0, by their names without the prefix.
    pub(crate) fn by_name(&self, prefix: &'static str) -> BTreeMap<String, u64> {
        let counters = self.group(prefix).map(|(part, name)| (part.to_owned(), self.value(name)));
        counters.filter(|(_, count)| *count > 0).collect()
    }

    /// Returns by how much the sum of a group's counters has grown in the interval.
    pub(crate) fn sum_in_interval(&self, prefix: &'static str) -> u64 {
        self.group(prefix).map(|(_, name)| self.change(name)).fold(0, u64::saturating_add)
    }

    fn lost(&self) -> BTreeMap<String, u64> {
        self.by_name("lost.")
    }
}
