//! Reads the counters of running queues and puts them into reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use slipring_cli::UNCAPTURED;
use slipring_cli::report::{PortReport, Traffic};
use slipring_cli::units::human;
use slipring_port::{Counters, Nanos, Port, PortInfo, Snapshot, now};

/// The counters of a command's ports; workers write them, this reads.
#[derive(Clone)]
pub struct Meter {
    start: Nanos,
    /// When the interval that runs now began.
    lap: Nanos,
    ports: Vec<Metered>,
}

#[derive(Clone)]
struct Metered {
    info: PortInfo,
    queues: Vec<Arc<Counters>>,
    last: Snapshot,
}

/// One port over one interval.
pub struct Interval {
    /// The port's name.
    pub name: String,
    /// What changed.
    pub change: Change,
}

/// What changed between two snapshots.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change {
    /// Packets received.
    pub rx: slipring_port::Traffic,
    /// Packets sent.
    pub tx: slipring_port::Traffic,
    /// Packets dropped, for whatever cause.
    pub dropped: u64,
}

impl Meter {
    /// Starts the clock over these ports.
    pub fn new<'p>(ports: impl IntoIterator<Item = &'p Port>) -> Self {
        let metered = |port: &Port| Metered {
            info: port.info.clone(),
            queues: port.queues.iter().map(|queue| queue.counters().clone()).collect(),
            last: Snapshot::default(),
        };
        let start = now();
        Self { start, lap: start, ports: ports.into_iter().map(metered).collect() }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(now() - self.start)
    }

    /// Totals since the start, a report per port.
    pub fn reports(&self) -> Vec<PortReport> {
        self.ports.iter().map(Metered::report).collect()
    }

    /// Totals since the start of the `i`-th port.
    pub fn total(&self, i: usize) -> Snapshot {
        self.ports[i].snapshot()
    }

    /// Every port's name, and its totals since the start.
    pub fn snapshots(&self) -> impl Iterator<Item = (&str, Snapshot)> {
        self.ports.iter().map(|port| (port.info.name.as_str(), port.snapshot()))
    }

    /// Frames submitted to some port and not completed.
    pub fn in_flight(&self) -> u64 {
        self.ports.iter().map(|port| port.snapshot().in_flight).sum()
    }

    /// Time since the last call, or the start: how long the [intervals](Self::intervals) are that
    /// are looked at now.
    pub fn lap(&mut self) -> Duration {
        self.lap_at(now())
    }

    fn lap_at(&mut self, now: Nanos) -> Duration {
        Duration::from_nanos(now.saturating_sub(std::mem::replace(&mut self.lap, now)))
    }

    /// What changed since the last call, per port.
    pub fn intervals(&mut self) -> Vec<Interval> {
        self.ports.iter_mut().map(Metered::interval).collect()
    }
}

impl Metered {
    fn snapshot(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        self.queues.iter().for_each(|queue| sum += queue.snapshot());
        sum
    }

    fn interval(&mut self) -> Interval {
        let (now, last) = (self.snapshot(), self.last);
        self.last = now;
        Interval { name: self.info.name.clone(), change: Change::between(&last, &now) }
    }

    fn settings(&self, sum: &Snapshot) -> BTreeMap<String, String> {
        let words = self.info.mode.iter().filter(|(key, _)| *key != "mode");
        let words = words.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let uncaptured = Some(sum.uncaptured).filter(|count| *count > 0);
        let uncaptured = uncaptured.map(|count| (UNCAPTURED.to_owned(), count.to_string()));
        words.chain(uncaptured).collect()
    }

    fn report(&self) -> PortReport {
        let sum = self.snapshot();
        let traffic = |t: slipring_port::Traffic| Traffic { packets: t.packets, bytes: t.bytes };
        PortReport {
            name: self.info.name.clone(),
            kind: self.info.kind.to_owned(),
            mode: self.info.mode.get("mode").unwrap_or(self.info.kind).to_owned(),
            driver: None,
            settings: self.settings(&sum),
            rx: traffic(sum.rx),
            tx: traffic(sum.tx),
            drops: sum.drops().map(|(cause, count)| (cause.name().to_owned(), count)).collect(),
        }
    }
}

impl Change {
    /// From `before` to `after`.
    pub fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let minus = |a: slipring_port::Traffic, b: slipring_port::Traffic| slipring_port::Traffic {
            packets: a.packets - b.packets,
            bytes: a.bytes - b.bytes,
        };
        let dropped = |snapshot: &Snapshot| snapshot.drops().map(|(_, count)| count).sum::<u64>();
        Self {
            rx: minus(after.rx, before.rx),
            tx: minus(after.tx, before.tx),
            dropped: dropped(after).saturating_sub(dropped(before)),
        }
    }
}

/// Packets per second, as text.
pub fn pps(packets: u64, time: Duration) -> String {
    human::packets_per_sec(packets as f64 / time.as_secs_f64().max(1e-9))
}

/// Bits per second of frames without CRC, preamble and gap, as text.
pub fn bps(bytes: u64, time: Duration) -> String {
    human::bits_per_sec(bytes as f64 * 8.0 / time.as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_as_long_as_the_time_since_the_one_before_whatever_the_period() {
        let mut meter = Meter::new(&[] as &[Port]);
        let start = meter.start;
        let laps = [5_500, 6_000].map(|ms| meter.lap_at(start + ms * 1_000_000));
        assert_eq!(laps, [5_500, 500].map(Duration::from_millis));
    }
}
