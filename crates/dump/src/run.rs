//! The capture loop: receives frames, selects some of them, passes these to the sink, and reports
//! totals.

use std::ops::ControlFlow;
use std::time::Duration;

use serde::Serialize;
use slipring_cli::report::{PortReport, PortTraffic, ReportSample};
use slipring_cli::{Exit, Failure, ReportFormat, Session, Signals};
use slipring_datapath::confine::Confinement;
use slipring_filter::CbpfProgram;
use slipring_port::capture::wall_clock;
use slipring_port::now;

use crate::listing::{self, DumpInterface, ListInterfaces};
use crate::metrics::{DumpFigures, DumpMetrics};
use crate::plan::{DumpPlan, FrameOrigin};
use crate::save::{CaptureTotals, FileRotation};
use crate::sink::DumpSink;
use crate::source::{DumpFrame, DumpSource};

/// The keys that `slipring dump` adds to a report.
#[derive(Debug, Clone, Serialize)]
struct DumpReportExtra {
    /// Number of frames that were printed, saved or counted.
    captured: u64,
    /// Frames that reached the filter.
    received_by_filter: u64,
    /// Number of frames lost before they reached the filter.
    dropped: u64,
    /// The captured frames; `None` unless the output is a single JSON document.
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<Vec<serde_json::Value>>,
}

/// The counts of the command when it ends.
#[derive(Debug, Clone, Copy, Default)]
struct DumpCounts {
    /// Totals of received frames. The next field has those of sent frames.
    rx: PortTraffic,
    tx: PortTraffic,
    captured: u64,
}

impl DumpCounts {
    fn received(&self) -> u64 {
        self.rx.packets + self.tx.packets
    }

    fn figures(&self, report: PortReport) -> DumpFigures {
        let port = PortReport { rx: self.rx, tx: self.tx, ..report };
        DumpFigures { port, captured: self.captured }
    }

    fn count(&mut self, frame: &DumpFrame<'_>) {
        let counts = if frame.outgoing == Some(true) { &mut self.tx } else { &mut self.rx };
        counts.packets += 1;
        counts.bytes += u64::from(frame.wire_len);
    }
}

/// Handles `-D`: lists the interfaces.
pub(crate) fn list(
    interfaces: &[DumpInterface],
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let text = listing::lines(interfaces);
    // An empty list prints nothing, not even an empty line.
    if !(text.is_empty() && session.reporter.format() == ReportFormat::Text) {
        session.reporter.document(&serde_json::json!({ "interfaces": interfaces }), text)?;
    }
    Ok(Exit::Done)
}

/// Handles `-L`: lists the link types.
pub(crate) fn link_types(session: &mut Session<'_>) -> Result<Exit, Failure> {
    let types = serde_json::json!({ "link_types": [{ "name": "EN10MB", "number": 1 }] });
    session.reporter.document(&types, "Data link types:\n  EN10MB (Ethernet)")?;
    Ok(Exit::Done)
}

/// Handles `-d`: prints the compiled filter. Given once, prints assembler; twice, C; three times,
/// decimal numbers.
pub(crate) fn compiled(
    program: &CbpfProgram,
    form: u8,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let insns = program.insns();
    let lines = insns.iter().enumerate().map(|(at, insn)| match form {
        1 => insn.mnemonic(at).to_string(),
        2 => format!("{{ 0x{:x}, {}, {}, 0x{:08x} }},", insn.code, insn.jt, insn.jf, insn.k),
        _ => format!("{} {} {} {}", insn.code, insn.jt, insn.jf, insn.k),
    });
    let lines: Vec<_> = lines.collect();
    let head = if form > 2 { format!("{}\n", insns.len()) } else { String::new() };
    let text = head + &lines.join("\n");
    session.reporter.document(&serde_json::json!({ "instructions": lines }), text)?;
    Ok(Exit::Done)
}

impl DumpPlan {
    pub(crate) fn run(
        self,
        list: ListInterfaces,
        session: &mut Session<'_>,
    ) -> Result<Exit, Failure> {
        let signals = Signals::install()?;
        if self.output.saving.as_ref().is_some_and(|saving| saving.path == "-") {
            session.reporter.redirect(Box::new(std::io::stderr()));
        }
        let source = self.origin.open(&signals, session)?;
        let silent = self.silent;
        if !silent {
            self.announce(&source, list, session)?;
        }
        let start = now();
        let report = source.report();
        let started = (!matches!(self.origin, FrameOrigin::Read { .. })).then(wall_clock);
        let sink = DumpSink::open(&self.output, &report.name, started, session)?;
        self.confinement(&source).begin(session)?;
        let shown = DumpMetrics::serve(session)?;
        let mut capture =
            DumpRun { plan: self, source, sink, counts: DumpCounts::default(), metrics: shown };
        let captured = capture.run(&signals, session);
        let finished = capture.finish(session);
        if !silent {
            capture.report(Duration::from_nanos(now() - start), session)?;
        }
        captured?;
        finished?;
        Ok(Exit::Done)
    }

    /// Returns the privileges that the program keeps. If the capture rotates its files, the program
    /// opens some of them later, so it keeps the capability for that.
    fn confinement(&self, source: &DumpSource) -> Confinement {
        let confinement = Confinement::for_ports(source.port());
        let saving = self.output.saving.as_ref();
        match saving.is_some_and(|saving| saving.rotation != FileRotation::default()) {
            true => confinement.opening_files(),
            false => confinement,
        }
    }

    /// Prints the mode line on stderr, because stdout is for the frames.
    fn announce(
        &self,
        source: &DumpSource,
        list: ListInterfaces,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        let report = source.report();
        if session.reporter.format() == ReportFormat::JsonLines {
            session.reporter.start(None, "realtime", std::slice::from_ref(&report))?;
        }
        session.reporter.say(mode_line(&self.origin, &report, self.snaplen))?;
        if self.origin.takes_frames() {
            let name = &report.name;
            session.reporter.say(format_args!(
                "# {name} is taken for this capture: its frames go no further"
            ))?;
        }
        let listed = |ifname| holders(list(&session.run_dir), ifname);
        for holder in source.listens_on().map(listed).unwrap_or_default() {
            let warning = format_args!("# frames that {holder} takes by XDP are not seen here");
            session.reporter.say(warning)?;
        }
        Ok(())
    }
}

/// Formats `listening on packet:eth0, link-type EN10MB (Ethernet), snapshot length 262144 bytes, …`
fn mode_line(from: &FrameOrigin, report: &PortReport, snaplen: u32) -> String {
    let link = "link-type EN10MB (Ethernet)";
    let (verb, host) = match from {
        FrameOrigin::Read { path } => return format!("reading from file {path}, {link}"),
        FrameOrigin::Listen { .. } => ("listening on", " host=shared"),
        FrameOrigin::Take { .. } if from.is_monitor() => ("monitoring", ""),
        FrameOrigin::Take { .. } => ("taking from", ""),
    };
    let PortReport { name, kind, mode, settings, .. } = report;
    let settings: String = settings.iter().map(|(key, value)| format!(" {key}={value}")).collect();
    format!(
        "{verb} {name}, {link}, snapshot length {snaplen} bytes, kind={kind} mode={mode}{settings}{host}"
    )
}

fn holders(interfaces: Vec<DumpInterface>, ifname: &str) -> Vec<String> {
    let interfaces = interfaces.into_iter().filter(|interface| interface.name == ifname);
    interfaces.flat_map(|interface| interface.holders).collect()
}

struct DumpRun {
    plan: DumpPlan,
    source: DumpSource,
    sink: DumpSink,
    counts: DumpCounts,
    /// Serves the counters; `None` without `--metrics`.
    metrics: Option<DumpMetrics>,
}

impl DumpRun {
    fn run(&mut self, signals: &Signals, session: &mut Session<'_>) -> Result<(), Failure> {
        let Self { plan, source, sink, counts, metrics: shown } = self;
        let show = |source: &mut DumpSource, counts: &DumpCounts| {
            if let Some(shown) = &*shown {
                shown.update(source, |report| counts.figures(report));
            }
        };
        show(source, counts);
        let mut over = false;
        while !signals.stopping() {
            let more = source.take(&mut |frame: &DumpFrame<'_>| {
                counts.count(frame);
                let kept = plan.select.keep(frame);
                if kept > 0 {
                    over = sink.take(frame, kept, session)?.is_break();
                    counts.captured += u64::from(!over);
                    over |= plan.count == Some(counts.captured);
                }
                let enough = over || signals.stopping();
                Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            // Captured frames are written out before the capture waits for more frames.
            sink.flush(session)?;
            show(source, counts);
            if !more || over {
                break;
            }
            if signals.take_interim() {
                session.reporter.say(status_line(counts, dropped(&source.report())))?;
            }
            source.wait(signals)?;
        }
        Ok(())
    }

    fn finish(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        self.source.update_stats();
        let totals = CaptureTotals {
            ts_ns: wall_clock(),
            received: self.counts.received(),
            dropped: dropped(&self.source.report()),
        };
        self.sink.finish(&totals, session)
    }

    /// Reports the totals of all frames.
    fn report(&mut self, elapsed: Duration, session: &mut Session<'_>) -> Result<(), Failure> {
        let report = self.source.report();
        let lost = dropped(&report);
        let counts = &self.counts;
        if session.reporter.format() == ReportFormat::Text {
            return self.report_text(lost, &report, session);
        }
        let extra = DumpReportExtra {
            captured: counts.captured,
            received_by_filter: counts.received(),
            dropped: lost,
            frames: self.sink.take_frames(),
        };
        let report = PortReport { rx: counts.rx, tx: counts.tx, ..report };
        let sample = ReportSample { elapsed, ports: vec![report], in_flight: 0, copies: 0, extra };
        session.reporter.end(&sample, "")
    }

    fn report_text(
        &self,
        lost: u64,
        report: &PortReport,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        if self.plan.counts_only {
            let count = self.counts.captured;
            session.reporter.raw(format!("{}\n", packets(count)).as_bytes())?;
        }
        // Reading a file loses no frames. A file may record losses, but those happened during its
        // capture, so they are not reported here.
        if matches!(self.plan.origin, FrameOrigin::Read { .. }) {
            return Ok(());
        }
        session.reporter.say(summary_lines(&self.counts, lost, report))
    }
}

fn dropped(report: &PortReport) -> u64 {
    report.drops.values().sum()
}

fn packets(count: u64) -> String {
    format!("{count} packet{}", if count == 1 { "" } else { "s" })
}

/// Formats the line for USR1.
fn status_line(counts: &DumpCounts, lost: u64) -> String {
    let (captured, received) = (packets(counts.captured), packets(counts.received()));
    format!("{captured} captured, {received} received by filter, {} dropped", packets(lost))
}

/// Formats the three lines with which tcpdump ends, and one line for each other cause of losses.
fn summary_lines(counts: &DumpCounts, lost: u64, report: &PortReport) -> String {
    let kernel = report.drops.get("rx_kernel").copied().unwrap_or(0);
    let mut text = format!(
        "{} captured\n{} received by filter\n{} dropped by kernel",
        packets(counts.captured),
        packets(counts.received()),
        packets(kernel),
    );
    if lost > kernel {
        let others = report.drops.iter().filter(|(cause, _)| *cause != "rx_kernel");
        for (cause, &count) in others {
            text += &format!("\n{} dropped: {cause}", packets(count));
        }
    }
    text
}
