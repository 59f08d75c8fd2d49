//! Counters and reports of `slipring dedup`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use slipring_cli::report::{PortReport, ReportSample};
use slipring_cli::units::human;
use slipring_dedup::{Dedup, DedupLimits};

use slipring_datapath::meter::{PortMeter, pps};

/// Counters that the worker publishes after each turn.
#[derive(Debug, Default)]
pub(super) struct SharedDedupStats {
    frames: AtomicU64,
    duplicates: AtomicU64,
    duplicate_bytes: AtomicU64,
    forgotten_early: AtomicU64,
    remembered: AtomicU64,
}

impl SharedDedupStats {
    pub(super) fn publish(&self, dedup: &Dedup) {
        let tally = dedup.counters();
        let set = |counter: &AtomicU64, value| counter.store(value, Ordering::Relaxed);
        set(&self.frames, tally.frames);
        set(&self.duplicates, tally.duplicates);
        set(&self.duplicate_bytes, tally.duplicate_bytes);
        set(&self.forgotten_early, tally.forgotten_early);
        set(&self.remembered, dedup.len() as u64);
    }
}

/// The keys that `slipring dedup` adds to a report.
#[derive(Debug, Clone, Serialize)]
pub(super) struct DedupReportExtra {
    /// Length of the window in ns; 0 for no limit.
    window_ns: u64,
    /// Maximum frames in the window; 0 for no limit.
    fifo: u64,
    hold: bool,
    /// Frames not sent because they were duplicates, and their bytes.
    duplicates: u64,
    duplicate_bytes: u64,
    /// Frames that left the window early because its memory was full; their later copies were not
    /// recognised.
    forgotten_early: u64,
    /// Number of frames in the window now.
    remembered: u64,
}

/// All counters of a run.
pub(super) struct DedupFigures {
    pub(super) meter: PortMeter,
    pub(super) stats: Arc<SharedDedupStats>,
    limits: DedupLimits,
    hold: bool,
    last_duplicates: u64,
}

impl DedupFigures {
    pub(super) fn new(meter: PortMeter, limits: DedupLimits, hold: bool) -> Self {
        Self { meter, stats: Arc::default(), limits, hold, last_duplicates: 0 }
    }

    /// Returns the reports of all ports; a duplicate counts as a drop of its output port.
    pub(super) fn ports(&self) -> Vec<PortReport> {
        let mut ports = self.meter.reports();
        let (duplicates, _) = self.duplicates();
        if let Some(output) = ports.last_mut().filter(|_| duplicates > 0) {
            output.drops.insert("duplicate".to_owned(), duplicates);
        }
        ports
    }

    /// Returns the number of duplicates, and of all frames checked.
    pub(super) fn duplicates(&self) -> (u64, u64) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (get(&self.stats.duplicates), get(&self.stats.frames))
    }

    pub(super) fn sample(&self) -> ReportSample<DedupReportExtra> {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let stats = &self.stats;
        let remembered = get(&stats.remembered);
        let extra = DedupReportExtra {
            window_ns: self.limits.window_ns.unwrap_or(0),
            fifo: self.limits.frames.unwrap_or(0) as u64,
            hold: self.hold,
            duplicates: get(&stats.duplicates),
            duplicate_bytes: get(&stats.duplicate_bytes),
            forgotten_early: get(&stats.forgotten_early),
            remembered,
        };
        let held = if self.hold { remembered } else { 0 };
        ReportSample {
            elapsed: self.meter.elapsed(),
            ports: self.ports(),
            in_flight: self.meter.in_flight() + held,
            copies: 0,
            extra,
        }
    }

    /// Formats the line of an interval: that of [`PortMeter::interval_line`], and then the rate of
    /// duplicates: `  duplicates 0.2 Mpps`.
    pub(super) fn line(&mut self) -> String {
        let (text, time) = self.meter.interval_line();
        let (duplicates, _) = self.duplicates();
        let fresh = duplicates - self.last_duplicates;
        self.last_duplicates = duplicates;
        text + &format!("  duplicates {}", pps(fresh, time))
    }

    pub(super) fn summary(&self) -> String {
        let (duplicates, frames) = self.duplicates();
        let share = human::share(duplicates, frames);
        let mut text = format!(
            "{} in all\n{frames} frames judged, {duplicates} duplicates ({share})",
            human::span(self.meter.elapsed())
        );
        for port in self.ports() {
            let (rx, tx) = (port.rx.packets, port.tx.packets);
            text += &format!("\n{}: received {rx} packets, sent {tx} packets", port.name);
            for (cause, count) in &port.drops {
                text += &format!(", dropped {count} ({cause})");
            }
        }
        text
    }
}
