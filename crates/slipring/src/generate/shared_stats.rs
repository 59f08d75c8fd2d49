//! Counters of all threads of a run, combined for the reports.

use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use slipring_cli::report::PortReport;
use slipring_port::{Nanos, now};
use slipring_traffic::{TrackerReport, TrafficOutcome};

use super::function::GenFunction;
use super::progress::{NO_SPACE, Progress, ProgressCounts};
use super::receive::{SharedRxStats, ages, lock};
use slipring_datapath::meter::{PortInterval, PortMeter};

/// All counters of a run.
pub(super) struct SharedGenStats {
    meter: PortMeter,
    function: GenFunction,
    /// Numbers of the streams that this run sends.
    streams: std::ops::Range<u32>,
    framing: u64,
    /// Length in bytes of the virtio-net header before each frame. The port counts these bytes;
    /// this report does not.
    header: u64,
    senders: Vec<Arc<Progress>>,
    receivers: Vec<Arc<Progress>>,
    rx_stats: Vec<SharedRxStats>,
    last: (Nanos, ProgressCounts),
}

/// Figures of an interval, or of the whole run.
#[derive(Debug, Clone)]
pub(super) struct GenFigures {
    /// Packets sent or received in the interval.
    pub(super) done: ProgressCounts,
    /// Packets sent or received since the start.
    pub(super) total: ProgressCounts,
    /// Length of the interval, in ns.
    pub(super) time: Nanos,
    /// Minimum number of free (tx) or filled (rx) slots that any thread found in its ring;
    /// [`NO_SPACE`] if no ring was checked.
    pub(super) min_space: u64,
    /// Bytes per frame that are added to its length in bit rates.
    pub(super) framing: u64,
    /// Number of frames put into the rings of the port.
    pub(super) submitted: u64,
    /// Received packets, if any thread receives.
    pub(super) received: Option<ReceiveFigures>,
}

/// Figures about received frames.
#[derive(Debug, Clone)]
pub(super) struct ReceiveFigures {
    /// Number of received packets, and the times of the first and the last.
    pub(super) done: ProgressCounts,
    /// Counters of loss, order and duplicates.
    pub(super) report: TrackerReport,
    /// Number of missing frames.
    pub(super) lost: u64,
    /// Number of frames that should have arrived.
    pub(super) expected: u64,
    /// Histogram of the frames' ages in ns; `None` if ages were not measured.
    pub(super) ages: Option<Histogram<u64>>,
}

impl SharedGenStats {
    /// Creates empty statistics; `streams` are the streams that this run sends.
    pub(super) fn new(
        meter: PortMeter,
        function: GenFunction,
        streams: std::ops::Range<u32>,
        framing: usize,
    ) -> Self {
        Self {
            meter,
            function,
            streams,
            framing: framing as u64,
            header: 0,
            senders: Vec::new(),
            receivers: Vec::new(),
            rx_stats: Vec::new(),
            last: (now(), ProgressCounts::default()),
        }
    }

    /// Makes the report leave out `header` bytes of each frame, which the port counts.
    pub(super) fn with_header(self, header: usize) -> Self {
        Self { header: header as u64, ..self }
    }

    /// Adds a sending thread; returns the counters that it must update.
    pub(super) fn sender(&mut self) -> Arc<Progress> {
        self.senders.push(Arc::default());
        self.senders[self.senders.len() - 1].clone()
    }

    /// Adds a receiving thread; returns the counters that it must update.
    pub(super) fn receiver(&mut self) -> Arc<Progress> {
        self.receivers.push(Arc::default());
        self.receivers[self.receivers.len() - 1].clone()
    }

    /// Adds the statistics of a receiving thread.
    pub(super) fn add_rx_stats(&mut self, rx_stats: &SharedRxStats) {
        self.rx_stats.push(rx_stats.clone());
    }

    /// Returns the counters of all senders.
    pub(super) fn senders(&self) -> Vec<Arc<Progress>> {
        self.senders.clone()
    }

    /// Returns the time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.meter.elapsed()
    }

    /// Returns the reports of all ports.
    pub(super) fn ports(&self) -> Vec<PortReport> {
        self.meter.reports()
    }

    /// Returns the changes of all ports' counters since the last call.
    pub(super) fn intervals(&mut self) -> Vec<PortInterval> {
        self.meter.intervals()
    }

    /// Returns the number of frames submitted to the ports and not completed yet.
    pub(super) fn in_flight(&self) -> u64 {
        self.meter.in_flight()
    }

    /// Returns the figures for the report of an interval. Packets, bytes, batches, the time and the
    /// minimum space are those since the last call; all other counts are those since the start.
    pub(super) fn interval(&mut self) -> GenFigures {
        let (time, done) = (now(), self.done());
        let (last_time, last) = std::mem::replace(&mut self.last, (time, done));
        let change = ProgressCounts {
            packets: done.packets - last.packets,
            bytes: done.bytes - last.bytes,
            batches: done.batches - last.batches,
            ..done
        };
        self.figures(change, done, time - last_time, false)
    }

    /// Returns the figures of the whole run. `over` is set when no more frames arrive, so that
    /// missing frames count as lost.
    pub(super) fn total(&self, over: bool) -> GenFigures {
        let done = self.done();
        self.figures(done, done, done.time(), over)
    }

    fn figures(
        &self,
        done: ProgressCounts,
        total: ProgressCounts,
        time: Nanos,
        over: bool,
    ) -> GenFigures {
        let submitted = sum(&self.senders).packets;
        GenFigures {
            done,
            total,
            time,
            min_space: self.min_space(),
            framing: self.framing,
            submitted,
            received: (!self.rx_stats.is_empty()).then(|| self.receive_figures(submitted, over)),
        }
    }

    /// Returns the main counter of the run: frames that the port has sent, if the run sends;
    /// otherwise received frames.
    fn done(&self) -> ProgressCounts {
        if !self.function.sends() {
            return sum(&self.receivers);
        }
        let completed = self.meter.total(0).tx;
        let bytes = completed.bytes.saturating_sub(completed.packets * self.header);
        ProgressCounts { packets: completed.packets, bytes, ..sum(&self.senders) }
    }

    fn min_space(&self) -> u64 {
        let watched = if self.senders.is_empty() { &self.receivers } else { &self.senders };
        watched.iter().map(|progress| progress.take_min_space()).min().unwrap_or(NO_SPACE)
    }

    fn receive_figures(&self, submitted: u64, over: bool) -> ReceiveFigures {
        let (mut report, mut all) = (TrackerReport::default(), None);
        for rx_stats in &self.rx_stats {
            let rx_stats = lock(rx_stats);
            report.merge(&rx_stats.report());
            if let Some(one) = rx_stats.histogram() {
                // All histograms have the same bounds, so this cannot fail.
                let _ = all.get_or_insert_with(ages).add(one);
            }
        }
        let (lost, expected) = self.missing(&report, submitted, over);
        ReceiveFigures { done: sum(&self.receivers), report, lost, expected, ages: all }
    }

    /// Returns the number of lost frames and the number of expected frames. A run with senders
    /// knows both when it is over. Before that, and in a run that only receives, only the gaps
    /// between received frames count.
    fn missing(&self, report: &TrackerReport, submitted: u64, over: bool) -> (u64, u64) {
        if self.senders.is_empty() || !over {
            return (report.total.lost, report.total.expected);
        }
        let ours =
            report.streams.iter().filter(|stream| self.streams.contains(&stream.stream.into()));
        let came: u64 = ours.map(|stream| stream.counters.new).sum();
        (submitted.saturating_sub(came), submitted)
    }
}

fn sum(all: &[Arc<Progress>]) -> ProgressCounts {
    let mut sum = ProgressCounts::default();
    all.iter().for_each(|progress| sum += progress.read());
    sum
}

impl GenFigures {
    /// Returns the rate in packets per second.
    pub(super) fn pps(&self) -> f64 {
        per_sec(self.done.packets, self.time)
    }

    /// Returns the rate in bits per second, with `framing` bytes added per frame.
    pub(super) fn bps(&self) -> f64 {
        per_sec(self.bits(), self.time)
    }

    fn bits(&self) -> u64 {
        bits(&self.done, self.framing)
    }

    /// Returns the counts that are compared with the user's expectations: those of received frames
    /// if any thread receives, else those of sent frames.
    pub(super) fn outcome(&self) -> TrafficOutcome {
        let (sent, lost) = match &self.received {
            Some(received) => (received.expected, received.lost),
            None => (self.submitted, self.submitted.saturating_sub(self.done.packets)),
        };
        let received = self.received.as_ref().filter(|_| self.submitted > 0);
        let done = received.map_or(self.done, |received| received.done);
        let elapsed_ns = self.time.max(done.time());
        TrafficOutcome {
            sent,
            lost,
            packets: done.packets,
            bits: bits(&done, self.framing),
            elapsed_ns,
        }
    }
}

fn bits(done: &ProgressCounts, framing: u64) -> u64 {
    (done.bytes + done.packets * framing) * 8
}

/// Returns `amount` per second of `time` (in ns); 0 if `time` is 0.
pub(super) fn per_sec(amount: u64, time: Nanos) -> f64 {
    if time == 0 { 0.0 } else { amount as f64 * 1e9 / time as f64 }
}
