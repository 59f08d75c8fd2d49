//! `slipring trace`: prints passing frames, one line each, with tcpdump's format and filters.
//!
//! Ports have the same meaning as for `slipring dump`. An interface that is given by its name
//! alone, or after `packet:`, is only monitored: its host still gets all frames, and both
//! directions are visible. A capture is read. Any other port, including `netmap:eth0`, is opened as
//! by every other command, and its frames are taken.
//!
//! Not for capturing at full speed: `--capture` of any command writes the frames of its ports.

mod show;
mod source;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use serde::Serialize;
use slipring_abi::name::PortName;
use slipring_cli::report::{PortReport, PortTraffic, ReportSample};
use slipring_cli::units::Count;
use slipring_cli::{Exit, Failure, Job, ReportFormat, Session, Signals, Verb, flags, metrics};
use slipring_datapath::confine::Confinement;
use slipring_datapath::files::{RunFile, check_distinct};
use slipring_datapath::opening::{self, PortOpening};
use slipring_dump::metrics::{DumpFigures, DumpMetrics};
use slipring_dump::show::{PrintStyle, PrintedBytes};
use slipring_dump::source::{DumpFrame, DumpSource};
use slipring_dump::{FrameOrigin, select};
use slipring_filter::CbpfProgram;
use slipring_port::{Interest, now};

use show::TraceSink;

pub(crate) const VERB: Verb = Verb { name: "trace", classic: &[], command, plan, no_metrics: None };

fn command() -> Command {
    let count = Arg::new("count")
        .short('n')
        .visible_short_alias('c')
        .long("count")
        .value_name("N")
        .value_parser(str::parse::<Count>)
        .help("Stop after this many frames");
    let write = Arg::new("write")
        .short('w')
        .long("write")
        .value_name("FILE")
        .value_hint(ValueHint::FilePath)
        .help("Write the frames as pcapng instead of printing them; - is the standard output");
    let hex = Arg::new("hex")
        .short('x')
        .long("hex")
        .action(ArgAction::SetTrue)
        .help("Print the bytes of each frame too");
    let link = Arg::new("ethernet")
        .short('e')
        .long("ethernet")
        .action(ArgAction::SetTrue)
        .help("Print hardware addresses too");
    let filter = Arg::new("filter")
        .value_name("FILTER")
        .num_args(0..)
        .help("Frames to show, in the language of tcpdump: host 10.0.0.1 and tcp");
    let command = Command::new("trace")
        .about("Show the frames that pass a port, one line each")
        .arg(flags::with_note(
            flags::port().value_parser(slipring_dump::port_by_name).required(true),
            "an interface without a kind is only listened to",
        ))
        .args([count, write, hex, link, filter])
        .after_help(
            "packet:IF (and IF alone) only listens: the host keeps its frames and both directions \
             are seen.\nnetmap:IF, xdp:IF, taps and pipes are opened: what arrives there is taken \
             and goes no further.\nTimes are UTC.\n\n\
             Examples:\n  \
             slipring trace -i packet:eth0\n  \
             slipring trace -i packet:eth0 -n 20 -e udp port 53\n  \
             slipring trace -i packet:eth0 -w seen.pcapng",
        );
    flags::reporting(metrics::flag(opening::flags(command)))
}

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let port = matches.get_one::<PortName>("interface").cloned().expect("clap requires the port");
    let promisc = !matches.get_flag("no-promisc");
    let opening = PortOpening::of(matches).for_observer().one_direction(Interest::RX);
    let write = matches.get_one::<String>("write").cloned();
    let from = slipring_dump::from_port(port.clone(), promisc, opening);
    let written = write.as_ref().map(|path| RunFile::written(Path::new(path)));
    check_distinct(&from.file().into_iter().chain(written).collect::<Vec<_>>())?;
    let words: Vec<_> = matches.get_many::<String>("filter").into_iter().flatten().collect();
    let text = words.iter().map(|word| word.as_str()).collect::<Vec<_>>().join(" ");
    let plan = TracePlan {
        port,
        from,
        filter: select::compile(&text, slipring_filter::DEFAULT_SNAP_LEN)?,
        count: matches.get_one::<Count>("count").map(|count| count.0),
        write,
        style: PrintStyle {
            bytes: if matches.get_flag("hex") { PrintedBytes::HexText } else { PrintedBytes::None },
            link: matches.get_flag("ethernet"),
            ..PrintStyle::default()
        },
    };
    Ok(Box::new(move |session| plan.run(session)))
}

struct TracePlan {
    port: PortName,
    from: FrameOrigin,
    filter: CbpfProgram,
    count: Option<u64>,
    write: Option<String>,
    style: PrintStyle,
}

/// The command's own keys at the end of the run.
#[derive(Debug, Clone, Serialize)]
struct TraceReportExtra {
    /// Frames that matched the filter.
    matched: u64,
    /// The matching frames, for the single JSON document of `--json`; `None` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<Vec<serde_json::Value>>,
}

impl TracePlan {
    fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let signals = Signals::install()?;
        let source = self.from.open(&signals, session)?;
        for note in source::notes(&self.from, &source) {
            session.reporter.say(note)?;
        }
        // If frames go to stdout, nothing else may be written there.
        let quiet = self.write.as_deref() == Some("-");
        if !quiet {
            session.reporter.start(None, "realtime", &[source.report()])?;
        }
        let start = now();
        let sink = TraceSink::open(self.write.as_deref(), &self.port, self.style, session)?;
        Confinement::for_ports(source.port()).begin(session)?;
        let mut tracing = TraceRun {
            sink,
            received: PortTraffic::default(),
            sent: PortTraffic::default(),
            matched: 0,
            metrics: DumpMetrics::serve(session)?,
            plan: self,
            source,
        };
        let traced = tracing.run(&signals, session);
        tracing.source.update_stats();
        let sample = tracing.sample(Duration::from_nanos(now() - start));
        let finished = tracing.finish(&sample);
        if quiet || session.reporter.format() == ReportFormat::Text {
            session.reporter.say(tracing.summary(&sample))?;
        } else {
            session.reporter.end(&sample, "")?;
        }
        traced?;
        finished?;
        Ok(Exit::Done)
    }
}

struct TraceRun {
    plan: TracePlan,
    source: DumpSource,
    sink: TraceSink,
    /// Total packets and bytes received; `sent` has those sent.
    received: PortTraffic,
    sent: PortTraffic,
    matched: u64,
    /// The counters that `--metrics` serves; `None` without this flag.
    metrics: Option<DumpMetrics>,
}

impl TraceRun {
    fn run(&mut self, signals: &Signals, session: &mut Session<'_>) -> Result<(), Failure> {
        let Self { plan, source, sink, received: seen, sent, matched, metrics: shown } = self;
        while !signals.stopping() {
            let more = source.take(&mut |frame: &DumpFrame<'_>| {
                let direction = if frame.outgoing == Some(true) { &mut *sent } else { &mut *seen };
                direction.packets += 1;
                direction.bytes += u64::from(frame.wire_len);
                if plan.filter.run(frame.bytes, frame.wire_len) != 0 {
                    *matched += 1;
                    sink.take(frame, session)?;
                }
                let enough = plan.count == Some(*matched) || signals.stopping();
                Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            // The output is flushed before the trace waits for more frames.
            sink.flush()?;
            if let Some(shown) = &*shown {
                shown.update(source, |report| {
                    let port = PortReport { rx: *seen, tx: *sent, ..report };
                    DumpFigures { port, captured: *matched }
                });
            }
            if !more || plan.count == Some(*matched) {
                break;
            }
            source.wait(signals)?;
        }
        Ok(())
    }

    fn sample(&mut self, elapsed: Duration) -> ReportSample<TraceReportExtra> {
        let report = PortReport { rx: self.received, tx: self.sent, ..self.source.report() };
        let extra = TraceReportExtra { matched: self.matched, frames: self.sink.take_frames() };
        ReportSample { elapsed, ports: vec![report], in_flight: 0, copies: 0, extra }
    }

    /// Ends the capture, if there is one, with the totals of the trace.
    fn finish(&mut self, sample: &ReportSample<TraceReportExtra>) -> Result<(), Failure> {
        let lost = sample.ports.iter().flat_map(|port| port.drops.values()).sum();
        self.sink.finish(self.received.packets + self.sent.packets, lost)
    }

    fn summary(&self, sample: &ReportSample<TraceReportExtra>) -> String {
        let passed = self.received.packets + self.sent.packets;
        let lost: u64 = sample.ports.iter().flat_map(|port| port.drops.values()).sum();
        format!("# {} frames shown of {passed} that passed, {lost} lost", self.matched)
    }
}
