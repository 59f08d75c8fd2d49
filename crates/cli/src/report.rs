//! The report keys that every command shares.
//!
//! The keys and their types are stable. `docs/schema/report-1.json` defines them, and the schema of
//! a command defines the keys that the command adds. Names contain the units. Counters are totals
//! since the start, so any two reports may be subtracted. A command adds its own keys with a struct
//! that serializes as an object; it must not reuse the common keys.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// Version of the report's keys. A version may gain keys; no key changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The traffic of a port in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PortTraffic {
    /// Number of frames.
    pub packets: u64,
    /// Bytes of those frames, without FCS, preamble and inter-frame gap.
    pub bytes: u64,
}

/// One port and its counters, seen from the application.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PortReport {
    /// The port's name, as it was opened.
    pub name: String,
    /// The kind of port actually in use, such as `xdp`.
    pub kind: String,
    /// The mode actually in use, such as `zerocopy`, `copy` or `generic`.
    pub mode: String,
    /// The driver of the underlying interface, if the port has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Other settings in use: queues, slots, page size, whether the host is detached, …
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Received traffic.
    pub rx: PortTraffic,
    /// Sent traffic: completed, not only submitted.
    pub tx: PortTraffic,
    /// Frames lost in the port, by cause.
    pub drops: BTreeMap<String, u64>,
}

/// The type of [`ReportSample::extra`] for a command without keys of its own.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct NoExtra {}

/// The counters at one moment.
#[derive(Debug, Clone)]
pub struct ReportSample<X = NoExtra> {
    /// Time since the start of the run.
    pub elapsed: Duration,
    /// Every port of the run.
    pub ports: Vec<PortReport>,
    /// Frames that were received but neither sent nor dropped yet.
    pub in_flight: u64,
    /// Copies of frames that are sent more than once. Copying the bytes of a frame that is sent
    /// once, as `bridge -c` does, does not count.
    pub copies: u64,
    /// The command's own keys.
    pub extra: X,
}

/// The moment of the run that a report describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReportPhase {
    Start,
    Interval,
    End,
}

/// Everything needed to repeat a run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunIdentity {
    pub(crate) command: String,
    pub(crate) version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,
}

/// The environment of the run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunEnvironment {
    pub(crate) clock: String,
    pub(crate) kernel: String,
    pub(crate) cpu: String,
}

impl RunEnvironment {
    /// Returns the environment of this run, as `/proc` describes it. Values that are missing there
    /// are reported as unknown.
    pub(crate) fn current(clock: &str) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let kernel = read("/proc/sys/kernel/osrelease");
        Self {
            clock: clock.to_owned(),
            kernel: or_unknown(kernel.trim()),
            cpu: or_unknown(cpu_model(&read("/proc/cpuinfo"))),
        }
    }
}

/// One report, in the order in which its keys are written.
#[derive(Serialize)]
pub(crate) struct ReportEvent<'a, X> {
    pub(crate) schema: u32,
    pub(crate) event: ReportPhase,
    pub(crate) time_ns: u64,
    #[serde(flatten)]
    pub(crate) identity: &'a RunIdentity,
    #[serde(flatten)]
    pub(crate) environment: Option<&'a RunEnvironment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ports: Option<&'a [PortReport]>,
    #[serde(flatten)]
    pub(crate) totals: Option<SampleTotals>,
    #[serde(flatten)]
    pub(crate) extra: X,
}

/// The keys of a [`ReportSample`] other than its ports.
#[derive(Serialize)]
pub(crate) struct SampleTotals {
    elapsed_ns: u64,
    in_flight: u64,
    copies: u64,
}

impl SampleTotals {
    pub(crate) fn of<X>(sample: &ReportSample<X>) -> Self {
        Self {
            elapsed_ns: u64::try_from(sample.elapsed.as_nanos()).unwrap_or(u64::MAX),
            in_flight: sample.in_flight,
            copies: sample.copies,
        }
    }
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() { "unknown" } else { text }.to_owned()
}

fn cpu_model(cpuinfo: &str) -> &str {
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let text = model.and_then(|line| line.split_once(':'));
    text.map_or("", |(_, model)| model.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_model_is_found_among_the_lines() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\nflags\t: x\n";
        assert_eq!(cpu_model(cpuinfo), "Fast CPU @ 3 GHz");
        assert_eq!(cpu_model("processor : 0\n"), "");
        assert_eq!(or_unknown(""), "unknown");
    }
}
