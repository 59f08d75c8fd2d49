//! The figures of a run, for its report, its interim lines and its summary.

use std::sync::Arc;

use serde::Serialize;
use slipring_cli::report::ReportSample;
use slipring_cli::units::human;
use slipring_datapath::meter::PortMeter;

use crate::dataplane::{BypassCounters, DataplaneCounters};
use crate::shared_stats::{DataplaneStats, SharedDataplaneStats};
use slipring_rules::LogEvents;

/// The sources of all figures of a run.
#[derive(Clone)]
pub(crate) struct FirewallFigures {
    pub(crate) meter: PortMeter,
    pub(crate) stats: Vec<Arc<SharedDataplaneStats>>,
    pub(crate) events: Arc<LogEvents>,
}

/// The keys that only the reports of `slipring firewall` have.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FirewallReportExtra {
    firewall: FirewallReport,
}

#[derive(Debug, Clone, Serialize)]
struct FirewallReport {
    /// Number of frames that the dataplanes received from ports. Each of these, each copy and each
    /// generated frame was sent, was lost, or still waits.
    offered: u64,
    made: u64,
    /// Frames that bypassed the rules and were not dropped by a setting.
    bypassed: BypassCounters,
    sent: u64,
    waiting: u64,
    /// Frames that ports have received, and the dataplanes have not processed yet.
    unread: u64,
    lost: std::collections::BTreeMap<String, u64>,
    states: u64,
    suppressed_errors: u64,
    checks_out: bool,
    log_lines: u64,
    log_missed: u64,
}

impl FirewallFigures {
    pub(crate) fn dataplane_stats(&self) -> DataplaneStats {
        let all = self.stats.iter().map(|stats| stats.snapshot());
        let sum = all.reduce(|sum, one| DataplaneStats {
            counters: sum.counters.plus(&one.counters),
            pending_frames: sum.pending_frames + one.pending_frames,
            states: sum.states + one.states,
            suppressed_errors: sum.suppressed_errors + one.suppressed_errors,
            ..one
        });
        let mut stats = sum.unwrap_or_default();
        // Frames in transit between threads also count as waiting.
        let DataplaneCounters { handed_off: away, foreign: guests, .. } = stats.counters;
        stats.counters.waiting += away.saturating_sub(guests);
        stats
    }

    /// Returns the number of lines that rules with `log` have produced.
    pub(crate) fn log_lines(&self) -> u64 {
        self.events.count()
    }

    /// Returns the number of lines for the log file that were not written to it.
    pub(crate) fn log_missed(&self) -> u64 {
        self.events.missed()
    }

    /// Returns the number of frames that ports have received and the dataplanes have not processed.
    /// `offered` is the number of processed frames.
    fn unread(&self, offered: u64) -> u64 {
        let received: u64 = self.meter.reports().iter().map(|port| port.rx.packets).sum();
        received.saturating_sub(offered)
    }

    pub(crate) fn sample(&self) -> ReportSample<FirewallReportExtra> {
        let stats = self.dataplane_stats();
        let DataplaneCounters { offered, made, bypassed, sent, waiting, copies, .. } =
            stats.counters;
        let report = FirewallReport {
            offered,
            made,
            bypassed,
            sent,
            waiting,
            unread: self.unread(offered),
            lost: stats.counters.losses().filter(|(_, count)| *count > 0).collect(),
            states: stats.states,
            suppressed_errors: stats.suppressed_errors,
            checks_out: stats.checks_out,
            log_lines: self.log_lines(),
            log_missed: self.log_missed(),
        };
        ReportSample {
            elapsed: self.meter.elapsed(),
            ports: self.meter.reports(),
            in_flight: self.meter.in_flight() + waiting + stats.pending_frames + report.unread,
            copies,
            extra: FirewallReportExtra { firewall: report },
        }
    }

    /// Formats an interim line, such as `12.0s  netmap:a rx 1.20 Mpps tx 0.98 Mpps drop 0  …  lost
    /// 12  waiting 0  states 3`.
    pub(crate) fn line(&mut self) -> String {
        let (text, _) = self.meter.interval_line();
        let DataplaneStats { counters: tally, states, .. } = self.dataplane_stats();
        text + &format!("  lost {}  waiting {}  states {states}", tally.lost(), tally.waiting)
    }

    pub(crate) fn summary(&self) -> String {
        let stats = self.dataplane_stats();
        let DataplaneCounters { offered, copies, made, sent, waiting, .. } = stats.counters;
        let mut text =
            format!("{} in all\n{offered} frames came", human::span(self.meter.elapsed()));
        for (count, what) in [(copies, "copied"), (made, "made here")] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        text += &format!(", {sent} sent, {} lost, {waiting} wait", stats.counters.lost());
        let BypassCounters { arp, non_ip } = stats.counters.bypassed;
        for (count, what) in [(arp, "of ARP"), (non_ip, "neither IP nor ARP")] {
            if count > 0 {
                text += &format!("\n{count} frames {what} passed and met no rules");
            }
        }
        let unread = self.unread(offered);
        if unread > 0 {
            text += &format!("\n{unread} frames were received and not looked at");
        }
        for (cause, count) in stats.counters.losses().filter(|(_, count)| *count > 0) {
            text += &format!("\nlost: {count} ({cause})");
        }
        let suppressed = stats.suppressed_errors;
        if suppressed > 0 {
            text += &format!("\n{suppressed} ICMP errors were not sent: their rate is limited");
        }
        for port in self.meter.reports() {
            let (rx, tx) = (port.rx.packets, port.tx.packets);
            text += &format!("\n{}: received {rx} packets, sent {tx} packets", port.name);
            for (cause, count) in &port.drops {
                text += &format!(", dropped {count} ({cause})");
            }
        }
        text
    }
}
