//! Two looks side by side: what passed in between, and what holds now.

use std::collections::BTreeMap;

use serde::Serialize;
use slipring_core::counters::Snapshot;

use crate::attach::Attached;
use crate::names::{NONE, Names, Object};

/// The figures of a program at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Frame {
    /// Its process number.
    pub pid: u32,
    /// The name that was given to the run.
    pub name: Option<String>,
    /// The whole command line.
    pub command: String,
    /// Time since it began to publish, in ns.
    pub elapsed_ns: u64,
    /// Time to which rates belong, in ns.
    pub interval_ns: u64,
    /// Every link.
    pub links: Vec<Link>,
    /// Every port.
    pub ports: Vec<Port>,
}

/// A link in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Where its frames come from.
    pub from: String,
    /// Where they go.
    pub to: String,
    /// What was asked of it.
    pub asked: Asked,
    /// Frames that reached it.
    pub input: Amount,
    /// Frames that left it.
    pub output: Amount,
    /// Frames inside.
    pub inside: Amount,
    /// Frames lost since the start, by cause; those without a loss are left out.
    pub lost: BTreeMap<String, u64>,
    /// Frames that left it later than was to be warned of.
    pub late: u64,
    /// Bits per second that left, over the interval.
    pub rate_bps: f64,
    /// Frames per second that left, over the interval.
    pub rate_pps: f64,
    /// Share of the frames that came to an end in the interval which were lost.
    pub loss_share: Option<f64>,
    /// How long frames took in the last second.
    pub delay_ns: Option<Spread>,
    /// How long frames took since the start.
    pub total_delay_ns: Option<Spread>,
    /// How much later than asked they left in the last second.
    pub error_ns: Option<Spread>,
    /// How much later than asked they left since the start.
    pub total_error_ns: Option<Spread>,
    /// Bytes that waited for the line in the last second.
    pub queue_bytes: Option<Spread>,
}

/// What was asked of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Asked {
    /// Its rate.
    pub rate: Rate,
    /// Its delay.
    pub delay_ns: Option<Spread>,
    /// The mean share of frames to lose, where it is one.
    pub loss_share: Option<f64>,
}

/// A rate that was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rate {
    /// As fast as it goes.
    #[default]
    Unlimited,
    /// So many bits per second.
    Bps(u64),
    /// One that changes.
    Varies,
}

/// The middle and the end of a distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Half of all are at most this.
    pub p50: u64,
    /// 99 of 100 are at most this.
    pub p99: u64,
}

/// Frames and their bytes, without FCS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Frames.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A port.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Received.
    pub rx: Amount,
    /// Sent.
    pub tx: Amount,
    /// Frames lost since the start, by cause; those without a loss are left out.
    pub lost: BTreeMap<String, u64>,
    /// Received over the interval.
    pub rx_rate: Speed,
    /// Sent over the interval.
    pub tx_rate: Speed,
}

/// A speed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Speed {
    /// Bits per second.
    pub bps: f64,
    /// Frames per second.
    pub pps: f64,
}

impl Frame {
    /// What holds at `now`, with rates since `before`; without that, since the program began.
    #[must_use]
    pub fn of(attached: &Attached, before: Option<&Snapshot>, now: &Snapshot) -> Self {
        let names = attached.names();
        let since_ns = before.map_or(attached.start_ns(), |before| before.at_ns);
        let looks = Looks { names, before, now, interval_ns: now.at_ns.saturating_sub(since_ns) };
        let all = |kind| names.objects.iter().filter(move |object| object.kind == kind);
        Self {
            pid: attached.pid(),
            name: names.name.clone(),
            command: names.line.clone(),
            elapsed_ns: now.at_ns.saturating_sub(attached.start_ns()),
            interval_ns: looks.interval_ns,
            links: all("link").map(|object| looks.of(object).link()).collect(),
            ports: all("port").map(|object| looks.of(object).port()).collect(),
        }
    }
}

/// Two looks at all objects.
struct Looks<'l> {
    names: &'l Names,
    before: Option<&'l Snapshot>,
    now: &'l Snapshot,
    interval_ns: u64,
}

impl<'l> Looks<'l> {
    fn of(&'l self, object: &'l Object) -> Look<'l> {
        Look { looks: self, object }
    }
}

/// Two looks at one object.
struct Look<'l> {
    looks: &'l Looks<'l>,
    object: &'l Object,
}

impl Look<'_> {
    fn link(&self) -> Link {
        let (output, lost) = (self.change("output.packets"), self.lost_lately());
        let Speed { bps, pps } = self.speed("output");
        Link {
            name: self.object.name.clone(),
            from: self.object.from.clone().unwrap_or_default(),
            to: self.object.to.clone().unwrap_or_default(),
            asked: self.asked(),
            input: self.amount("input"),
            output: self.amount("output"),
            inside: self.amount("inside"),
            lost: self.lost(),
            late: self.value("late.packets"),
            rate_bps: bps,
            rate_pps: pps,
            loss_share: (output + lost > 0).then(|| lost as f64 / (output + lost) as f64),
            delay_ns: self.spread("delay"),
            total_delay_ns: self.spread("total.delay"),
            error_ns: self.spread("error"),
            total_error_ns: self.spread("total.error"),
            queue_bytes: self.spread("queue"),
        }
    }

    fn asked(&self) -> Asked {
        Asked {
            rate: match self.gauge("asked.rate") {
                Some(0) => Rate::Unlimited,
                Some(bps) => Rate::Bps(bps),
                None => Rate::Varies,
            },
            delay_ns: self.spread("asked.delay"),
            loss_share: self.gauge("asked.loss").map(|loss| loss as f64 / 1e9),
        }
    }

    fn port(&self) -> Port {
        Port {
            name: self.object.name.clone(),
            rx: self.amount("rx"),
            tx: self.amount("tx"),
            lost: self.lost(),
            rx_rate: self.speed("rx"),
            tx_rate: self.speed("tx"),
        }
    }

    /// A word now, and before.
    fn words(&self, name: &str) -> Option<(u64, u64)> {
        let mut counters = self.looks.names.counters(self.object).iter();
        let place = self.object.first + counters.position(|counter| counter.name == name)?;
        let before = self.looks.before.and_then(|before| before.words.get(place)).copied();
        Some((*self.looks.now.words.get(place)?, before.unwrap_or(0)))
    }

    fn value(&self, name: &str) -> u64 {
        self.words(name).map_or(0, |(now, _)| now)
    }

    fn change(&self, name: &str) -> u64 {
        self.words(name).map_or(0, |(now, before)| now.saturating_sub(before))
    }

    fn gauge(&self, name: &str) -> Option<u64> {
        self.words(name).map(|(now, _)| now).filter(|now| *now != NONE)
    }

    fn amount(&self, name: &str) -> Amount {
        let value = |unit| self.value(&format!("{name}.{unit}"));
        Amount { packets: value("packets"), bytes: value("bytes") }
    }

    fn spread(&self, name: &str) -> Option<Spread> {
        let value = |part| self.gauge(&format!("{name}.{part}"));
        Some(Spread { p50: value("p50")?, p99: value("p99")? })
    }

    fn speed(&self, name: &str) -> Speed {
        let per_sec = |unit| match self.looks.interval_ns {
            0 => 0.0,
            time => self.change(&format!("{name}.{unit}")) as f64 * 1e9 / time as f64,
        };
        Speed { bps: per_sec("bytes") * 8.0, pps: per_sec("packets") }
    }

    fn causes(&self) -> impl Iterator<Item = (&str, &str)> {
        let counters = self.looks.names.counters(self.object).iter();
        counters.filter_map(|counter| Some((counter.name.strip_prefix("lost.")?, &*counter.name)))
    }

    fn lost(&self) -> BTreeMap<String, u64> {
        let causes = self.causes().map(|(cause, name)| (cause.to_owned(), self.value(name)));
        causes.filter(|(_, count)| *count > 0).collect()
    }

    fn lost_lately(&self) -> u64 {
        self.causes().map(|(_, name)| self.change(name)).fold(0, u64::saturating_add)
    }
}
