//! Reads the counters of running queues, for reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use slipring_cli::UNCAPTURED;
use slipring_cli::report::{PortReport, PortTraffic};
use slipring_cli::units::human;
use slipring_port::{Nanos, Port, PortInfo, QueueCounters, QueueSnapshot, now};

/// The counters of a command's ports. Workers write them, and the meter reads them.
#[derive(Clone)]
pub struct PortMeter {
    start: Nanos,
    /// Time at which the current interval has started.
    interval_start: Nanos,
    ports: Vec<MeteredPort>,
}

#[derive(Clone)]
struct MeteredPort {
    info: PortInfo,
    queues: Vec<Arc<QueueCounters>>,
    last: QueueSnapshot,
}

/// The traffic at one port in one interval.
pub struct PortInterval {
    /// The port's name as the user wrote it.
    pub name: String,
    /// The increase of the counters in the interval.
    pub delta: TrafficDelta,
}

/// The increase of counters between two snapshots.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrafficDelta {
    /// Packets and bytes received in this time.
    pub rx: slipring_port::TrafficCounts,
    /// Packets and bytes sent in this time.
    pub tx: slipring_port::TrafficCounts,
    /// Packets dropped in this time, for any cause.
    pub dropped: u64,
}

impl PortMeter {
    /// Creates a meter of these ports. Its time starts now.
    pub fn new<'p>(ports: impl IntoIterator<Item = &'p Port>) -> Self {
        let metered = |port: &Port| MeteredPort {
            info: port.info.clone(),
            queues: port.queues.iter().map(|queue| queue.counters().clone()).collect(),
            last: QueueSnapshot::default(),
        };
        let start = now();
        Self { start, interval_start: start, ports: ports.into_iter().map(metered).collect() }
    }

    /// Returns the time since the meter was created.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(now() - self.start)
    }

    /// Returns the totals since the start, with one report per port.
    pub fn reports(&self) -> Vec<PortReport> {
        self.ports.iter().map(MeteredPort::report).collect()
    }

    /// Returns the totals of port `i` since the start.
    pub fn total(&self, i: usize) -> QueueSnapshot {
        self.ports[i].snapshot()
    }

    /// Returns the name of every port, with its totals since the start.
    pub fn snapshots(&self) -> impl Iterator<Item = (&str, QueueSnapshot)> {
        self.ports.iter().map(|port| (port.info.name.as_str(), port.snapshot()))
    }

    /// Returns the number of frames that were submitted to the ports but not completed.
    pub fn in_flight(&self) -> u64 {
        self.ports.iter().map(|port| port.snapshot().in_flight).sum()
    }

    /// Returns the time since the last call, or since the start. The next result of
    /// [`Self::intervals`] is for this time.
    pub fn begin_interval(&mut self) -> Duration {
        self.begin_interval_at(now())
    }

    fn begin_interval_at(&mut self, now: Nanos) -> Duration {
        Duration::from_nanos(now.saturating_sub(std::mem::replace(&mut self.interval_start, now)))
    }

    /// Ends an interval and begins the next one. Returns a line of text about the ended interval,
    /// and the interval's length. An example of a line:
    /// `12.0s  netmap:a rx 1.20 Mpps tx 0.98 Mpps 0.5 Gbit/s drop 0  netmap:b …`.
    pub fn interval_line(&mut self) -> (String, Duration) {
        let time = self.begin_interval();
        let mut text = format!("{:6.1}s", self.elapsed().as_secs_f64());
        for PortInterval { name, delta: change } in self.intervals() {
            let (rx, tx) = (pps(change.rx.packets, time), pps(change.tx.packets, time));
            let rate = bps(change.tx.bytes, time);
            text += &format!("  {name} rx {rx} tx {tx} {rate} drop {}", change.dropped);
        }
        (text, time)
    }

    /// Returns, per port, how the counters have changed since the last call.
    pub fn intervals(&mut self) -> Vec<PortInterval> {
        self.ports.iter_mut().map(MeteredPort::interval).collect()
    }
}

impl MeteredPort {
    fn snapshot(&self) -> QueueSnapshot {
        let mut sum = QueueSnapshot::default();
        self.queues.iter().for_each(|queue| sum += queue.snapshot());
        sum
    }

    fn interval(&mut self) -> PortInterval {
        let (now, last) = (self.snapshot(), self.last);
        self.last = now;
        PortInterval { name: self.info.name.clone(), delta: TrafficDelta::between(&last, &now) }
    }

    fn settings(&self, sum: &QueueSnapshot) -> BTreeMap<String, String> {
        let words = self.info.mode.iter().filter(|(key, _)| *key != "mode");
        let words = words.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let uncaptured = Some(sum.uncaptured).filter(|count| *count > 0);
        let uncaptured = uncaptured.map(|count| (UNCAPTURED.to_owned(), count.to_string()));
        words.chain(uncaptured).collect()
    }

    fn report(&self) -> PortReport {
        let sum = self.snapshot();
        let traffic =
            |t: slipring_port::TrafficCounts| PortTraffic { packets: t.packets, bytes: t.bytes };
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

impl TrafficDelta {
    /// Returns how the counters changed from `before` to `after`.
    pub fn between(before: &QueueSnapshot, after: &QueueSnapshot) -> Self {
        let minus = |a: slipring_port::TrafficCounts, b: slipring_port::TrafficCounts| {
            slipring_port::TrafficCounts {
                packets: a.packets - b.packets,
                bytes: a.bytes - b.bytes,
            }
        };
        let dropped =
            |snapshot: &QueueSnapshot| snapshot.drops().map(|(_, count)| count).sum::<u64>();
        Self {
            rx: minus(after.rx, before.rx),
            tx: minus(after.tx, before.tx),
            dropped: dropped(after).saturating_sub(dropped(before)),
        }
    }
}

/// Formats a number of packets in `time` as packets per second.
pub fn pps(packets: u64, time: Duration) -> String {
    human::packets_per_sec(packets as f64 / time.as_secs_f64().max(1e-9))
}

/// Formats a number of bytes in `time` as bits per second. CRC, preamble and gap are not counted.
pub fn bps(bytes: u64, time: Duration) -> String {
    human::bits_per_sec(bytes as f64 * 8.0 / time.as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_as_long_as_the_time_since_the_one_before_whatever_the_period() {
        let mut meter = PortMeter::new(&[] as &[Port]);
        let start = meter.start;
        let laps = [5_500, 6_000].map(|ms| meter.begin_interval_at(start + ms * 1_000_000));
        assert_eq!(laps, [5_500, 500].map(Duration::from_millis));
    }
}
