//! Counters and reports of `slipring lb`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use slipring_cli::report::{PortReport, ReportSample};
use slipring_cli::units::human;

use super::engine::{LbProcessor, SharedLbStats, SharedOutputStats};
use super::groups::OutputGroup;
use super::settings::LbSettings;
use slipring_datapath::meter::{PortMeter, bps, pps};
use slipring_datapath::worker::Worker;

/// Totals of one output, added over all threads.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct OutputTotals {
    pub(super) forwarded: u64,
    pub(super) forwarded_bytes: u64,
    pub(super) dropped: u64,
    pub(super) waiting: u64,
}

/// An output in a report.
#[derive(Debug, Clone, Serialize)]
struct OutputReport {
    name: String,
    group: usize,
    #[serde(flatten)]
    totals: OutputTotals,
}

/// The keys that `slipring lb` adds to a report.
#[derive(Debug, Clone, Serialize)]
pub(super) struct LbReportExtra {
    threads: usize,
    consistent: bool,
    received: u64,
    non_ip: u64,
    /// Number of free buffers in the backlog.
    free_bufs: u64,
    outputs: Vec<OutputReport>,
}

/// All counters of a run.
pub(super) struct LbFigures {
    pub(super) meter: PortMeter,
    stats: Vec<Arc<SharedLbStats>>,
    settings: LbSettings,
    /// For each output, the index of its group.
    groups: Vec<usize>,
    group_count: usize,
    last: OutputTotals,
    last_time: Duration,
}

impl LbFigures {
    pub(super) fn new(
        meter: PortMeter,
        groups: &[OutputGroup],
        workers: &[Worker<LbProcessor>],
        settings: LbSettings,
    ) -> Self {
        let numbered = groups.iter().enumerate();
        Self {
            meter,
            stats: workers.iter().map(|worker| worker.processor.stats.clone()).collect(),
            settings,
            groups: numbered.flat_map(|(i, group)| group.ports.iter().map(move |_| i)).collect(),
            group_count: groups.len(),
            last: OutputTotals::default(),
            last_time: Duration::ZERO,
        }
    }

    /// Returns the reports of all ports; a frame for which an output had no space counts as a drop
    /// of that port.
    pub(super) fn ports(&self) -> Vec<PortReport> {
        let mut ports = self.meter.reports();
        for (port, totals) in ports.iter_mut().skip(1).zip(self.outputs()) {
            if totals.dropped > 0 {
                port.drops.insert("output_full".to_owned(), totals.dropped);
            }
        }
        ports
    }

    /// Returns the totals of all outputs, in order.
    pub(super) fn outputs(&self) -> Vec<OutputTotals> {
        (0..self.groups.len()).map(|i| self.output(i)).collect()
    }

    fn output(&self, i: usize) -> OutputTotals {
        let sum = |counter: fn(&SharedOutputStats) -> &AtomicU64| {
            let counters = self.stats.iter().map(|stats| counter(&stats.outputs[i]));
            counters.map(|counter| counter.load(Ordering::Relaxed)).sum()
        };
        OutputTotals {
            forwarded: sum(|stats| &stats.forwarded),
            forwarded_bytes: sum(|stats| &stats.forwarded_bytes),
            dropped: sum(|stats| &stats.dropped),
            waiting: sum(|stats| &stats.waiting),
        }
    }

    fn sum(&self, counter: fn(&SharedLbStats) -> &AtomicU64) -> u64 {
        self.stats.iter().map(|stats| counter(stats).load(Ordering::Relaxed)).sum()
    }

    /// Returns the number of frames received.
    pub(super) fn received(&self) -> u64 {
        self.sum(|stats| &stats.received)
    }

    /// Returns the number of received frames that are not IP.
    pub(super) fn non_ip(&self) -> u64 {
        self.sum(|stats| &stats.non_ip)
    }

    /// Returns the number of free buffers in the backlog.
    pub(super) fn free_bufs(&self) -> u64 {
        self.sum(|stats| &stats.free_bufs)
    }

    /// Returns the sum of the totals of all outputs.
    pub(super) fn all(&self) -> OutputTotals {
        self.outputs().into_iter().fold(OutputTotals::default(), |sum, output| OutputTotals {
            forwarded: sum.forwarded + output.forwarded,
            forwarded_bytes: sum.forwarded_bytes + output.forwarded_bytes,
            dropped: sum.dropped + output.dropped,
            waiting: sum.waiting + output.waiting,
        })
    }

    pub(super) fn sample(&self) -> ReportSample<LbReportExtra> {
        let ports = self.ports();
        let names = ports.iter().skip(1).map(|port| port.name.clone());
        let outputs = names.zip(&self.groups).zip(self.outputs());
        let outputs = outputs.map(|((name, &group), totals)| OutputReport { name, group, totals });
        let extra = LbReportExtra {
            threads: self.stats.len(),
            consistent: self.settings.is_consistent,
            received: self.received(),
            non_ip: self.non_ip(),
            free_bufs: self.free_bufs(),
            outputs: outputs.collect(),
        };
        ReportSample {
            elapsed: self.meter.elapsed(),
            in_flight: self.meter.in_flight() + self.all().waiting,
            copies: extra.received * (self.group_count as u64 - 1),
            ports,
            extra,
        }
    }

    /// Returns whether this program's own report is due. Classic reports may be more frequent.
    pub(super) fn is_due(&self, period: Option<Duration>) -> bool {
        // A report may be a little early, because reports of several periods share one timer.
        let slack = Duration::from_millis(5);
        period.is_some_and(|period| self.meter.elapsed() + slack >= self.last_time + period)
    }

    /// Formats the line of an interval:
    /// `  12.0s  out 0.98 Mpps 0.5 Gbit/s drop 0 waiting 0  of all 41 % 59 %`
    pub(super) fn line(&mut self, interim: bool) -> String {
        let (all, time) = (self.all(), self.meter.elapsed());
        let span = time - self.last_time;
        let sent = pps(all.forwarded - self.last.forwarded, span);
        let rate = bps(all.forwarded_bytes - self.last.forwarded_bytes, span);
        let dropped = all.dropped - self.last.dropped;
        if !interim {
            (self.last, self.last_time) = (all, time);
        }
        let seconds = time.as_secs_f64();
        let waiting = all.waiting;
        let mut text =
            format!("{seconds:6.1}s  out {sent} {rate} drop {dropped} waiting {waiting}  of all");
        for output in self.outputs() {
            text += &format!(" {}", human::share(output.forwarded, all.forwarded));
        }
        text
    }

    /// Returns the summary, in the classic program's words if its reports were requested.
    pub(super) fn summary(&self, classic: bool) -> String {
        let OutputTotals { forwarded, dropped, .. } = self.all();
        let total = forwarded + dropped;
        let last =
            format!("{forwarded} packets forwarded.  {dropped} packets dropped. Total {total}");
        if classic {
            return last;
        }
        let mut text = format!("{} in all", human::span(self.meter.elapsed()));
        for port in self.ports() {
            let (rx, tx) = (port.rx.packets, port.tx.packets);
            text += &format!("\n{}: received {rx} packets, sent {tx} packets", port.name);
            for (cause, count) in &port.drops {
                text += &format!(", dropped {count} ({cause})");
            }
        }
        text + "\n" + &last
    }
}
