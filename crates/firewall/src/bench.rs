//! `slipring firewall --bench` measures the cost of rules: the rules check an endless stream of
//! frames, which are then discarded.
//!
//! One thread passes frames to the rules in bursts, as a port would. The report divides the number
//! of packets by the CPU time of this thread, so it shows the cost of the rules. Commands can
//! change the rules during the measurement.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use slipring_cli::codes::{SR0002, SR0201, SR0202};
use slipring_cli::units::human;
use slipring_cli::{Diagnostic, Failure, Session};
use slipring_ipfw::run::{LogEvent, PortIndex};
use slipring_pcap::PcapFileReader;
use slipring_port::now;
use slipring_wire::FrameSpec;
use slipring_wire::frame::{IpSpec, Ipv4Spec, L4Spec, PortPair};

use crate::dataplane::{Dataplane, DataplaneLoss, DataplaneNanos, DataplaneOutput};
use crate::deferred_output::DeferredOutput;
use crate::shared_stats::SharedDataplaneStats;
use crate::task_queue::TaskQueue;
use slipring_rules::LogEvents;

/// Maximum number of frames processed between two clock reads.
const FRAMES_PER_BATCH: usize = 256;
/// Duration of the measurement if the user gives none.
const DEFAULT_BENCH_NS: DataplaneNanos = 2_000_000_000;
/// Interval between two checks for signals before the run begins.
const SIGNAL_POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Maximum number of flows of generated frames.
const MAX_FLOWS: u32 = 1 << 22;

/// Allowed lengths of generated frames, in bytes.
const FRAME_LENGTHS: std::ops::RangeInclusive<usize> = 60..=9216;

/// Where the frames come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RuleBenchSource {
    /// Generated UDP frames.
    Pattern {
        /// Number of source addresses, used in turn.
        flows: u32,
        /// Length of a frame in bytes.
        len: usize,
    },
    /// The frames of a capture file, repeated.
    Capture(String),
}

impl RuleBenchSource {
    /// Parses a number of flows (`1000`), flows and a frame length (`1000x64`), or the path of a
    /// capture file.
    pub(crate) fn read(text: &str) -> Result<Self, Failure> {
        let (flows, len) = text.split_once('x').unwrap_or((text, "60"));
        // A number is never taken for a file name, even if it is out of range.
        if flows.is_empty() || !flows.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Self::Capture(text.to_owned()));
        }
        let flows = flows.parse().ok().filter(|flows| (1..=MAX_FLOWS).contains(flows));
        let len = len.parse().ok().filter(|len| FRAME_LENGTHS.contains(len));
        if let (Some(flows), Some(len)) = (flows, len) {
            return Ok(Self::Pattern { flows, len });
        }
        let (least, most) = (FRAME_LENGTHS.start(), FRAME_LENGTHS.end());
        Err(Diagnostic::new(SR0002, format!("`{text}` is no pattern of frames"))
            .with_cause(format!(
                "it is FLOWS or FLOWSxBYTES: 1 to {MAX_FLOWS} flows, {least} to {most} bytes"
            ))
            .with_help("write --bench=1000x64, or name a capture: --bench=./FILE")
            .into())
    }

    fn frames(&self) -> Result<Vec<Vec<u8>>, Failure> {
        match self {
            Self::Pattern { flows, len } => Ok((0..*flows).map(|flow| frame(flow, *len)).collect()),
            Self::Capture(path) => captured(path),
        }
    }
}

fn frame(flow: u32, len: usize) -> Vec<u8> {
    let src = Ipv4Addr::from_bits(0x0a00_0001 + flow);
    let ip = Ipv4Spec { src, dst: Ipv4Addr::new(192, 0, 2, 1), ..Default::default() };
    let l4 = L4Spec::Udp(PortPair { src: 1024 + (flow % 60_000) as u16, dst: 53 });
    let spec = FrameSpec { ip: IpSpec::V4(ip), l4, ..FrameSpec::default() };
    spec.build(len).expect("headers of UDP fit into 60 bytes").bytes.to_vec()
}

fn captured(path: &str) -> Result<Vec<Vec<u8>>, Failure> {
    let bytes = std::fs::read(Path::new(path)).map_err(|error| {
        Diagnostic::new(SR0201, format!("cannot open {path}"))
            .with_cause(error.to_string())
            .with_help(format!("check the path: ls -l {path}"))
    })?;
    let wrong = |cause: String| {
        Diagnostic::new(SR0202, format!("{path} is no capture with frames"))
            .with_cause(cause)
            .with_help(format!("look at it: slipring dump -r {path}"))
    };
    let frames: Result<Vec<Vec<u8>>, _> = PcapFileReader::new(&bytes)
        .map(|packet| packet.map(|packet| packet.data.to_vec()))
        .collect();
    let frames = frames.map_err(|error| wrong(error.to_string()))?;
    if frames.is_empty() {
        return Err(wrong("there is none in it".to_owned()).into());
    }
    Ok(frames)
}

/// Discards every frame, and passes log lines to the log.
struct NullOutput(Arc<LogEvents>);

impl DataplaneOutput for NullOutput {
    fn send(&mut self, _: PortIndex, _: &[u8]) -> Result<(), DataplaneLoss> {
        Ok(())
    }

    fn log(&mut self, event: LogEvent) {
        self.0.add(event);
    }

    fn is_watched(&self) -> bool {
        self.0.is_watched()
    }

    fn count_unwatched(&mut self, lines: u64) {
        self.0.count_unwatched(lines);
    }
}

/// The frames to run through the rules, and the duration of the run.
pub(crate) struct RuleBench {
    frames: Vec<Vec<u8>>,
    /// The duration of the run; `None`: until a signal arrives.
    time: Option<DataplaneNanos>,
}

impl RuleBench {
    /// Reads or generates the frames. If `time` is `None`, the measurement takes two seconds; if it
    /// is 0, it does not end by itself.
    pub(crate) fn new(source: &RuleBenchSource, time: Option<Duration>) -> Result<Self, Failure> {
        let mut frames = source.frames()?;
        // Each frame of a burst has its own buffer, as in the ring of a port.
        let known = frames.len();
        (known..FRAMES_PER_BATCH.max(known)).for_each(|at| frames.push(frames[at % known].clone()));
        let time = match time {
            None => Some(DEFAULT_BENCH_NS),
            Some(Duration::ZERO) => None,
            Some(time) => Some(time.as_nanos() as DataplaneNanos),
        };
        Ok(Self { frames, time })
    }

    /// Runs frames through the rules, and executes queued tasks between two bursts. The measurement
    /// starts when the firewall admits frames, and ends early when `is_over` returns true. Returns
    /// the figures for the report.
    pub(crate) fn run(
        mut self,
        mut dataplane: Dataplane,
        (task_queue, stats, events): (&TaskQueue, &SharedDataplaneStats, Arc<LogEvents>),
        is_over: &dyn Fn() -> bool,
    ) -> RuleBenchReport {
        let (mut deferred, mut void) = (DeferredOutput::new(events.clone()), NullOutput(events));
        while !task_queue.has_admitted_frames() && !is_over() {
            // A new task ends the wait. The timeout is the longest time for which a signal can
            // remain unnoticed.
            let _ = poll(
                &mut [PollFd::from_borrowed_fd(task_queue.wake_fd(), PollFlags::IN)],
                Some(&SIGNAL_POLL_INTERVAL),
            );
            run_tasks(task_queue, &mut dataplane, &mut deferred, now());
        }
        let (begin, cpu) = (now(), cpu_ns());
        let until = self.time.map_or(DataplaneNanos::MAX, |time| begin.saturating_add(time));
        let frames = &mut self.frames;
        let (mut at, mut count, mut time) = (0, 0_u64, begin);
        let mut outputs = Vec::new();
        while time < until && !is_over() {
            run_tasks(task_queue, &mut dataplane, &mut deferred, time);
            let burst = (frames.len() - at).min(FRAMES_PER_BATCH);
            dataplane.offer_all(
                &mut frames[at..at + burst],
                burst,
                (0, time),
                &mut void,
                &mut outputs,
            );
            std::hint::black_box(&outputs);
            at = if at + burst == frames.len() { 0 } else { at + burst };
            count += burst as u64;
            time = now();
            dataplane.run(time, &mut void);
            stats.publish(&dataplane, 0);
        }
        task_queue.close();
        RuleBenchReport { dataplane, count, wall_ns: time - begin, cpu_ns: cpu_ns() - cpu }
    }
}

/// Executes the queued tasks. Frames that the tasks send are discarded.
fn run_tasks(
    task_queue: &TaskQueue,
    dataplane: &mut Dataplane,
    deferred: &mut DeferredOutput,
    now: DataplaneNanos,
) {
    for task in task_queue.drain() {
        task(dataplane, deferred, now);
    }
    deferred.frames.clear();
}

/// The result of a run.
pub(crate) struct RuleBenchReport {
    dataplane: Dataplane,
    count: u64,
    wall_ns: DataplaneNanos,
    cpu_ns: DataplaneNanos,
}

impl RuleBenchReport {
    /// Prints the result.
    pub(crate) fn print(&self, session: &mut Session<'_>) -> Result<(), Failure> {
        let Self { dataplane, count, wall_ns, cpu_ns } = self;
        let (count, wall_ns, cpu_ns) = (*count, *wall_ns, *cpu_ns);
        let rate = |ns: DataplaneNanos| count as f64 * 1e9 / ns.max(1) as f64;
        let tally = dataplane.counters();
        let lost: std::collections::BTreeMap<String, u64> =
            tally.losses().filter(|(_, count)| *count > 0).collect();
        let rules = dataplane.firewall().config().list.len();
        let fields = json!({ "bench": {
            "packets": count,
            "wall_ns": wall_ns,
            "cpu_ns": cpu_ns,
            "packets_per_cpu_sec": rate(cpu_ns),
            "packets_per_sec": rate(wall_ns),
            "rules": rules,
            "sent": tally.sent,
            "waiting": tally.waiting,
            "lost": lost,
        }});
        let mut text = format!(
            "{count} packets through {rules} rules: {} of a processor, {} by the clock\nsent {}, waiting {}",
            human::packets_per_sec(rate(cpu_ns)),
            human::packets_per_sec(rate(wall_ns)),
            tally.sent,
            tally.waiting,
        );
        for (cause, count) in &lost {
            text += &format!("\nlost: {count} ({cause})");
        }
        session.reporter.document(&fields, text)?;
        Ok(())
    }
}

/// Returns the CPU time that this thread has used.
fn cpu_ns() -> DataplaneNanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as DataplaneNanos * 1_000_000_000 + time.tv_nsec as DataplaneNanos
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RuleBenchSource, String> {
        RuleBenchSource::read(text).map_err(|failure| match failure {
            Failure::Error(error) => error.to_text(false),
            _ => panic!("another failure"),
        })
    }

    #[test]
    fn a_pattern_beyond_what_there_can_be_is_told_as_a_pattern_and_not_as_a_file() {
        assert_eq!(read("16"), Ok(RuleBenchSource::Pattern { flows: 16, len: 60 }));
        assert_eq!(read("1000x64"), Ok(RuleBenchSource::Pattern { flows: 1000, len: 64 }));
        for text in ["99999999999x64", "99999999999999999999", "0", "16x59", "16x99999999999", "1x"]
        {
            let error = read(text).unwrap_err();
            assert!(error.contains("is no pattern of frames"), "{text}: {error}");
            assert!(error.contains("--bench=1000x64"), "the flag takes its value by `=`: {error}");
        }
        for path in ["./1000", "traffic.pcap", "x64", "-1x64"] {
            assert_eq!(read(path), Ok(RuleBenchSource::Capture(path.to_owned())));
        }
    }
}
