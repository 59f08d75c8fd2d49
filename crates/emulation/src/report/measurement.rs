//! Measurements of one link, for comparison with its requested settings.

use slipring_link::{FrameArrival, QueueArrival, QueueDeparture};

use super::flow::{RateWindows, Reordering};
use super::histogram::{DescendingOffsets, Histogram, HistogramBatch};
use super::hop_times::HopEntry;

const NANOS_PER_MS: u64 = 1_000_000;
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A frame that left the links in virtual time, or that a port sent in real time.
#[derive(Debug, Clone, Copy)]
pub struct DeliveredFrame {
    /// When the frame arrived, in ns.
    pub arrival_ns: u64,
    /// When the frame was due, in ns.
    pub release_ns: u64,
    /// When the frame left, in ns; equal to `release_ns` in virtual time.
    pub sent_ns: u64,
    /// The frame's length in bytes, without FCS.
    pub len: u32,
    /// The frame's number in the order of arrival; `None` for copies that links made.
    pub sequence: Option<u64>,
}

/// One of several frames that left at the same time: [`DeliveredFrame`] without the fields that
/// these frames share.
#[derive(Debug, Clone, Copy)]
pub struct SentFrame {
    /// When the frame arrived, in ns.
    pub arrival_ns: u64,
    /// When the frame was due, in ns.
    pub release_ns: u64,
    /// Whether the frame is a copy that a link made.
    pub is_copy: bool,
}

/// Delays, queue lengths, order and rates of one link. The engine keeps the frame counts.
#[derive(Debug, Clone)]
pub struct LinkMeasurement {
    /// Time from a frame's arrival to its departure, in ns.
    pub delay: Histogram,
    /// Time from when a frame was due to its departure, in ns.
    pub error: Histogram,
    /// Time that frames waited in the queue for the line, in ns.
    pub queue_delay: Histogram,
    /// Bytes in the queue and on the line when a frame joined them, including this frame.
    pub queue_bytes: Histogram,
    /// Packets in the queue and on the line when a frame joined them, including this frame.
    pub queue_packets: Histogram,
    /// The order in which frames left.
    pub order: Reordering,
    /// Frames later than `late_above_ns`.
    pub late: u64,
    /// Lateness in ns above which frames count as late.
    pub late_above_ns: u64,
    per_ms: RateWindows,
    per_s: RateWindows,
    bytes: u64,
    span: Option<DepartureSpan>,
    /// Bytes of the frames that went on the line: without framing, and with framing.
    line: (u64, u64),
}

/// Times of the first and the last departure.
#[derive(Debug, Clone, Copy)]
struct DepartureSpan {
    first_ns: u64,
    last_ns: u64,
    /// Bytes of the first departure. They do not count for the rate, because they were transmitted
    /// before the measured time began.
    first_bytes: u64,
}

/// Rates at which frames left, in bits per second; without FCS and framing, except for `line_bps`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MeasuredRates {
    /// Mean rate from the first departure to the last; if they are less than a millisecond apart,
    /// the rate of the fullest millisecond.
    pub mean_bps: f64,
    /// Mean rate including the framing of the line, comparable to the requested rate; `None` if no
    /// frame went on a line.
    pub line_bps: Option<f64>,
    /// Rate in the fullest millisecond.
    pub peak_ms_bps: f64,
    /// Rate in the fullest second; `None` if the first and last departures are less than a second
    /// apart.
    pub peak_s_bps: Option<f64>,
}

impl LinkMeasurement {
    /// Creates an empty measurement; frames that leave more than `late_above_ns` late count as
    /// late.
    pub fn new(late_above_ns: u64) -> Self {
        Self {
            delay: Histogram::default(),
            error: Histogram::default(),
            queue_delay: Histogram::default(),
            queue_bytes: Histogram::default(),
            queue_packets: Histogram::default(),
            order: Reordering::default(),
            late: 0,
            late_above_ns,
            per_ms: RateWindows::new(NANOS_PER_MS),
            per_s: RateWindows::new(NANOS_PER_SEC),
            bytes: 0,
            span: None,
            line: (0, 0),
        }
    }

    /// Counts a departure without its lateness: in virtual time, frames are never late.
    #[inline]
    pub fn released(&mut self, seen: &DeliveredFrame) {
        self.delay.record(seen.sent_ns.saturating_sub(seen.arrival_ns));
        if let Some(sequence) = seen.sequence {
            self.order.received(sequence);
        }
        self.count_departure(seen.sent_ns, u64::from(seen.len));
    }

    /// Counts a frame that continues to another link; in virtual time, also one that came from
    /// another link. `left_ns` is when it left this link.
    pub fn passed(&mut self, entered: HopEntry, left_ns: u64, len: u32) {
        if !entered.is_copy {
            self.order.received_of(entered.at_ns);
        }
        let arrival_ns = entered.at_ns;
        let (release_ns, sent_ns, sequence) = (left_ns, left_ns, None);
        self.released(&DeliveredFrame { arrival_ns, release_ns, sent_ns, len, sequence });
    }

    /// Counts a departure in real time.
    #[inline]
    pub fn sent(&mut self, seen: &DeliveredFrame) {
        let error_ns = seen.sent_ns.saturating_sub(seen.release_ns);
        self.error.record(error_ns);
        self.late += u64::from(error_ns > self.late_above_ns);
        self.released(seen);
    }

    /// Counts `frames`, which have `bytes` in total and left at `sent_ns`. Their arrival times take
    /// the place of sequence numbers.
    #[inline]
    pub fn sent_all(&mut self, sent_ns: u64, bytes: u64, frames: &[SentFrame]) {
        for frames in frames.chunks(HistogramBatch::MAX_VALUES) {
            let errors = frames.iter().map(|frame| sent_ns.saturating_sub(frame.release_ns));
            let delays = frames.iter().map(|frame| sent_ns.saturating_sub(frame.arrival_ns));
            let mut error =
                HistogramBatch::of(&self.error, sent_ns.saturating_sub(frames[0].release_ns));
            let mut delay =
                HistogramBatch::of(&self.delay, sent_ns.saturating_sub(frames[0].arrival_ns));
            let mut order = self.order;
            for ((frame, error_ns), delay_ns) in
                frames.iter().zip(errors.clone()).zip(delays.clone())
            {
                error.add(error_ns);
                delay.add(delay_ns);
                if !frame.is_copy {
                    order.received_of(frame.arrival_ns);
                }
            }
            self.order = order;
            self.count_late(&error, errors.clone());
            self.error.record_all(&error, errors);
            self.delay.record_all(&delay, delays);
        }
        self.count_departure(sent_ns, bytes);
    }

    /// Counts frames that were due `delay_ns` after their arrival and left at `sent_ns`. Frame `i`
    /// arrived `later[i]` ns after `first_ns`; the frames are in order of arrival.
    #[inline]
    pub fn sent_burst(
        &mut self,
        sent_ns: u64,
        delay_ns: u64,
        bytes: u64,
        first_ns: u64,
        later: &[u32],
    ) {
        let (most_ns, most_late_ns) = (sent_ns - first_ns, sent_ns - first_ns - delay_ns);
        for later in later.chunks(HistogramBatch::MAX_VALUES) {
            let falls = DescendingOffsets::of(later);
            let errors = later.iter().map(|&ns| most_late_ns - u64::from(ns));
            let error = HistogramBatch::descending(&self.error, most_late_ns, &falls);
            self.count_late(&error, errors.clone());
            self.error.record_all(&error, errors);
            let delay = HistogramBatch::descending(&self.delay, most_ns, &falls);
            let delays = later.iter().map(|&ns| most_ns - u64::from(ns));
            self.delay.record_all(&delay, delays);
            let arrivals = later.iter().map(|&ns| first_ns + u64::from(ns));
            self.order.received_in_order(arrivals, first_ns + falls.last);
        }
        self.count_departure(sent_ns, bytes);
    }

    #[inline]
    fn count_late(&mut self, error: &HistogramBatch, errors: impl Iterator<Item = u64>) {
        if error.max() > self.late_above_ns {
            self.late += errors.filter(|&ns| ns > self.late_above_ns).count() as u64;
        }
    }

    #[inline]
    fn count_departure(&mut self, sent_ns: u64, bytes: u64) {
        self.per_ms.add(sent_ns, bytes);
        self.per_s.add(sent_ns, bytes);
        self.bytes += bytes;
        match &mut self.span {
            Some(span) => span.last_ns = sent_ns,
            None => {
                let (first_ns, last_ns) = (sent_ns, sent_ns);
                self.span = Some(DepartureSpan { first_ns, last_ns, first_bytes: bytes });
            }
        }
    }

    /// Counts a frame that left the queue.
    #[inline]
    pub fn queued(&mut self, queued: &QueueDeparture) {
        self.queue_delay.record(queued.delay_ns);
        self.line.0 += u64::from(queued.len);
        self.line.1 += queued.wire_bytes;
    }

    /// Counts a frame that joined the queue.
    #[inline]
    pub fn joined(&mut self, joined: &QueueArrival) {
        self.queue_bytes.record(joined.bytes);
        self.queue_packets.record(joined.packets);
    }

    /// Counts frames that found the line free. `wire_bytes` are their bytes on the line, including
    /// framing. Has the same effect as [`Self::joined`] and [`Self::queued`] for each frame.
    #[inline]
    pub fn passed_line(&mut self, frames: &[FrameArrival], wire_bytes: &[u64]) {
        let count = frames.len() as u64;
        self.queue_packets.record_equal(1, count);
        self.queue_delay.record_equal(0, count);
        for run in frames.chunk_by(|frame, next| frame.len == next.len) {
            let (len, count) = (u64::from(run[0].len), run.len() as u64);
            self.queue_bytes.record_equal(len, count);
            self.line.0 += len * count;
        }
        self.line.1 += wire_bytes.iter().sum::<u64>();
    }

    /// Returns the rates at which frames left.
    pub fn rates(&self) -> MeasuredRates {
        let Some(span) = self.span else { return MeasuredRates::default() };
        let time_ns = span.last_ns.saturating_sub(span.first_ns);
        let mean_bps = match time_ns {
            ..NANOS_PER_MS => self.per_ms.peak_bps(),
            _ => (self.bytes - span.first_bytes) as f64 * 8e9 / time_ns as f64,
        };
        let (bytes, wire_bytes) = self.line;
        // Windows begin at fixed times, so the fullest interval may span two windows, and the peak
        // of the windows can be below the mean. The peak that we report is at least the mean.
        let peak = |windows: &RateWindows| windows.peak_bps().max(mean_bps);
        MeasuredRates {
            mean_bps,
            line_bps: (bytes > 0).then(|| mean_bps * (wire_bytes as f64 / bytes as f64)),
            peak_ms_bps: peak(&self.per_ms),
            peak_s_bps: (time_ns >= NANOS_PER_SEC).then(|| peak(&self.per_s)),
        }
    }
}

#[cfg(test)]
mod tests {
    use slipring_link::{FrameHandle, LinkId};

    use super::*;

    fn seen(arrival_ns: u64, release_ns: u64, sent_ns: u64) -> DeliveredFrame {
        DeliveredFrame { arrival_ns, release_ns, sent_ns, len: 1250, sequence: Some(arrival_ns) }
    }

    #[test]
    fn a_saturated_link_shows_its_rate() {
        let mut measured = LinkMeasurement::new(0);
        for k in 1..=1000 {
            measured.released(&seen(0, k * 1_000_000, k * 1_000_000));
        }
        let rates = measured.rates();
        assert!((rates.mean_bps - 10e6).abs() < 1.0, "{rates:?}");
        assert!((rates.peak_ms_bps - 10e6).abs() < 1.0, "{rates:?}");
    }

    #[test]
    fn the_error_is_what_came_on_top_of_the_release_time() {
        let mut measured = LinkMeasurement::new(1_000);
        measured.sent(&seen(0, 5_000, 5_400));
        measured.sent(&seen(10, 6_000, 9_000));
        assert_eq!((measured.error.min(), measured.error.max()), (400, 3_000));
        assert_eq!((measured.delay.min(), measured.delay.max()), (5_400, 8_990));
        assert_eq!(measured.late, 1);
    }

    #[test]
    fn frames_sent_at_once_count_as_each_would_and_in_order_of_arrival() {
        let frame = |arrival_ns, release_ns, is_copy| SentFrame { arrival_ns, release_ns, is_copy };
        let mut measured = LinkMeasurement::new(1_000);
        let frames = [frame(10, 6_000, false), frame(5, 8_500, false)];
        measured.sent_all(9_000, 2_500, &frames);
        measured.sent_all(9_500, 1_250, &[frame(5, 9_000, true)]);
        assert_eq!((measured.error.min(), measured.error.max()), (500, 3_000));
        assert_eq!((measured.delay.min(), measured.delay.max()), (8_990, 9_495));
        assert_eq!((measured.late, measured.order.reordered()), (1, 1));
        assert!((measured.rates().mean_bps - 3.0 * 1250.0 * 8e3).abs() < 1.0);
    }

    #[test]
    fn a_train_counts_as_its_frames_would() {
        let (mut burst, mut alone) = (LinkMeasurement::new(2_500), LinkMeasurement::new(2_500));
        for (sent_ns, first_ns, delay_ns) in
            [(9_000, 1_000, 5_000), (9_500, 1_500, 6_000), (10_500, 4_500, 5_000)]
        {
            let later: Vec<u32> = (0..700).collect();
            let left = |&ns: &u32| {
                let arrival_ns = first_ns + u64::from(ns);
                SentFrame { arrival_ns, release_ns: arrival_ns + delay_ns, is_copy: false }
            };
            alone.sent_all(sent_ns, 70_000, &later.iter().map(left).collect::<Vec<_>>());
            burst.sent_burst(sent_ns, delay_ns, 70_000, first_ns, &later);
        }
        let of = |measured: &LinkMeasurement| {
            let LinkMeasurement { error, delay, order, late, .. } = measured;
            let all = [error, delay].map(|h| (h.count(), h.min(), h.max(), h.quantile(0.3)));
            (all, order.reordered(), *late, measured.rates())
        };
        assert_eq!(of(&burst), of(&alone));
        assert_eq!((burst.order.reordered(), burst.late), (199, 500));
        assert!((burst.error.sd() - alone.error.sd()).abs() < 1e-6);
    }

    #[test]
    fn frames_that_find_the_line_free_count_together_as_each_would() {
        let (mut together, mut alone) = (LinkMeasurement::new(0), LinkMeasurement::new(0));
        let lengths = [1250, 1250, 60, 60, 60, 1250];
        let frame = |len| FrameArrival { arrival_ns: 5, handle: FrameHandle(0), len };
        let frames = lengths.map(frame);
        together.passed_line(&frames, &lengths.map(|len| u64::from(len) + 24));
        together.passed_line(&[], &[]);
        for FrameArrival { len, .. } in frames {
            let (link, at_ns, bytes) = (LinkId(0), 5, u64::from(len));
            alone.joined(&QueueArrival { link, at_ns, bytes, packets: 1 });
            alone.queued(&QueueDeparture { link, at_ns, delay_ns: 0, len, wire_bytes: bytes + 24 });
        }
        let of = |measured: &LinkMeasurement| {
            let LinkMeasurement { queue_delay, queue_bytes, queue_packets, line, .. } = measured;
            let all = [queue_delay, queue_bytes, queue_packets];
            (all.map(|h| (h.count(), h.min(), h.max(), h.mean(), h.sd(), h.quantile(0.6))), *line)
        };
        assert_eq!(of(&together), of(&alone));
    }

    #[test]
    fn a_mean_is_neither_above_the_peak_nor_lowered_by_the_delay() {
        let of = |count: u64, gap_ns: u64| {
            let mut measured = LinkMeasurement::new(0);
            for k in 0..count {
                let at_ns = 500_000_000 + k * gap_ns;
                measured.released(&DeliveredFrame { len: 100, ..seen(k * gap_ns, at_ns, at_ns) });
            }
            measured.rates()
        };
        // One frame per millisecond, one frame per 950 us, 1000 frames within a microsecond, and a
        // single frame.
        for (count, gap_ns, bps) in
            [(20, 1_000_000, 8e5), (4, 950_000, 8e5 / 0.95), (1000, 1, 8e8), (1, 0, 8e5)]
        {
            let rates = of(count, gap_ns);
            assert!((rates.mean_bps - bps).abs() < 1.0, "{count}: {rates:?}");
            assert!(rates.mean_bps <= rates.peak_ms_bps, "{count}: {rates:?}");
            assert_eq!(rates.peak_s_bps, None);
        }
        let rates = of(3_000, 1_000_000);
        assert!((rates.peak_s_bps.unwrap() - 8e5).abs() < 1.0, "{rates:?}");
    }
}
