//! The loop: takes frames, chooses, passes them to the sink, and tells what became of all.

use std::ops::ControlFlow;
use std::time::Duration;

use serde::Serialize;
use slipring_cli::report::{PortReport, Sample, Traffic};
use slipring_cli::{Exit, Failure, Format, Session, Signals};
use slipring_filter::Program;
use slipring_port::capture::wall_clock;
use slipring_port::now;
use slipring_program::confine::Confinement;

use crate::listing::{self, Interface, List};
use crate::metrics::{Figures, LastFigures};
use crate::plan::{From, Plan};
use crate::save::{Rotation, Totals};
use crate::sink::Sink;
use crate::source::{Frame, Source};

/// The command's own keys.
#[derive(Debug, Clone, Serialize)]
struct Extra {
    /// Frames that were wanted.
    captured: u64,
    /// Frames that came to the filter.
    received_by_filter: u64,
    /// Frames that were lost before they came to it.
    dropped: u64,
    /// Those captured, where one JSON document holds them.
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<Vec<serde_json::Value>>,
}

/// What is counted.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// All that came in, and all that went out.
    rx: Traffic,
    tx: Traffic,
    captured: u64,
}

impl Counts {
    fn received(&self) -> u64 {
        self.rx.packets + self.tx.packets
    }

    fn figures(&self, report: PortReport) -> Figures {
        let port = PortReport { rx: self.rx, tx: self.tx, ..report };
        Figures { port, captured: self.captured }
    }

    fn saw(&mut self, frame: &Frame<'_>) {
        let way = if frame.outgoing == Some(true) { &mut self.tx } else { &mut self.rx };
        way.packets += 1;
        way.bytes += u64::from(frame.wire_len);
    }
}

/// `-D`.
pub(crate) fn list(interfaces: &[Interface], session: &mut Session<'_>) -> Result<Exit, Failure> {
    let text = listing::lines(interfaces);
    // A list of nothing is no line, rather than an empty one.
    if !(text.is_empty() && session.reporter.format() == Format::Text) {
        session.reporter.document(&serde_json::json!({ "interfaces": interfaces }), text)?;
    }
    Ok(Exit::Done)
}

/// `-L`.
pub(crate) fn link_types(session: &mut Session<'_>) -> Result<Exit, Failure> {
    let types = serde_json::json!({ "link_types": [{ "name": "EN10MB", "number": 1 }] });
    session.reporter.document(&types, "Data link types:\n  EN10MB (Ethernet)")?;
    Ok(Exit::Done)
}

/// `-d`: 1 in words, 2 for C, 3 as decimal numbers.
pub(crate) fn compiled(
    program: &Program,
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

impl Plan {
    pub(crate) fn run(self, list: List, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let signals = Signals::install()?;
        if self.output.saving.as_ref().is_some_and(|saving| saving.path == "-") {
            session.reporter.redirect(Box::new(std::io::stderr()));
        }
        let source = self.from.open(&signals, session)?;
        let silent = self.silent;
        if !silent {
            self.announce(&source, list, session)?;
        }
        let start = now();
        let report = source.report();
        let started = (!matches!(self.from, From::Read { .. })).then(wall_clock);
        let sink = Sink::open(&self.output, &report.name, started, session)?;
        self.confinement(&source).begin(session)?;
        let shown = LastFigures::serve(session)?;
        let mut capture = Capture { plan: self, source, sink, counts: Counts::default(), shown };
        let captured = capture.run(&signals, session);
        let finished = capture.finish(session);
        if !silent {
            capture.tell(Duration::from_nanos(now() - start), session)?;
        }
        captured?;
        finished?;
        Ok(Exit::Done)
    }

    /// Captures that are cut into files open one after the other.
    fn confinement(&self, source: &Source) -> Confinement {
        let confinement = Confinement::around(source.port());
        let saving = self.output.saving.as_ref();
        match saving.is_some_and(|saving| saving.rotation != Rotation::default()) {
            true => confinement.opening_files(),
            false => confinement,
        }
    }

    /// The mode line, on stderr: stdout belongs to the frames.
    fn announce(
        &self,
        source: &Source,
        list: List,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        let report = source.report();
        if session.reporter.format() == Format::JsonLines {
            session.reporter.start(None, "realtime", std::slice::from_ref(&report))?;
        }
        session.reporter.say(mode_line(&self.from, &report, self.snaplen))?;
        if self.from.is_taken() {
            let name = &report.name;
            session.reporter.say(format_args!(
                "# {name} is taken for this capture: its frames go no further"
            ))?;
        }
        let listed = |ifname| holders(list(&session.run_dir), ifname);
        for holder in source.listens_on().map(listed).unwrap_or_default() {
            let told = format_args!("# frames that {holder} takes by XDP are not seen here");
            session.reporter.say(told)?;
        }
        Ok(())
    }
}

/// `listening on packet:eth0, link-type EN10MB (Ethernet), snapshot length 262144 bytes, …`
fn mode_line(from: &From, report: &PortReport, snaplen: u32) -> String {
    let link = "link-type EN10MB (Ethernet)";
    let (verb, host) = match from {
        From::Read { path } => return format!("reading from file {path}, {link}"),
        From::Listen { .. } => ("listening on", " host=shared"),
        From::Take { .. } if from.is_monitor() => ("monitoring", ""),
        From::Take { .. } => ("taking from", ""),
    };
    let PortReport { name, kind, mode, settings, .. } = report;
    let settings: String = settings.iter().map(|(key, value)| format!(" {key}={value}")).collect();
    format!(
        "{verb} {name}, {link}, snapshot length {snaplen} bytes, kind={kind} mode={mode}{settings}{host}"
    )
}

fn holders(interfaces: Vec<Interface>, ifname: &str) -> Vec<String> {
    let interfaces = interfaces.into_iter().filter(|interface| interface.name == ifname);
    interfaces.flat_map(|interface| interface.holders).collect()
}

struct Capture {
    plan: Plan,
    source: Source,
    sink: Sink,
    counts: Counts,
    /// Where `--metrics` shows them.
    shown: Option<LastFigures>,
}

impl Capture {
    fn run(&mut self, signals: &Signals, session: &mut Session<'_>) -> Result<(), Failure> {
        let Self { plan, source, sink, counts, shown } = self;
        let show = |source: &mut Source, counts: &Counts| {
            if let Some(shown) = &*shown {
                shown.update(source, |report| counts.figures(report));
            }
        };
        show(source, counts);
        let mut over = false;
        while !signals.stopping() {
            let more = source.take(&mut |frame: &Frame<'_>| {
                counts.saw(frame);
                let kept = plan.select.keep(frame);
                if kept > 0 {
                    over = sink.take(frame, kept, session)?.is_break();
                    counts.captured += u64::from(!over);
                    over |= plan.count == Some(counts.captured);
                }
                let enough = over || signals.stopping();
                Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            // What was captured is written before waiting for more.
            sink.flush(session)?;
            show(source, counts);
            if !more || over {
                break;
            }
            if signals.take_interim() {
                session.reporter.say(sentence(counts, dropped(&source.report())))?;
            }
            source.wait(signals)?;
        }
        Ok(())
    }

    fn finish(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        self.source.update_stats();
        let totals = Totals {
            ts_ns: wall_clock(),
            received: self.counts.received(),
            dropped: dropped(&self.source.report()),
        };
        self.sink.finish(&totals, session)
    }

    /// What became of every frame.
    fn tell(&mut self, elapsed: Duration, session: &mut Session<'_>) -> Result<(), Failure> {
        let report = self.source.report();
        let lost = dropped(&report);
        let counts = &self.counts;
        if session.reporter.format() == Format::Text {
            return self.tell_people(lost, &report, session);
        }
        let extra = Extra {
            captured: counts.captured,
            received_by_filter: counts.received(),
            dropped: lost,
            frames: self.sink.take_frames(),
        };
        let report = PortReport { rx: counts.rx, tx: counts.tx, ..report };
        let sample = Sample { elapsed, ports: vec![report], in_flight: 0, copies: 0, extra };
        session.reporter.end(&sample, "")
    }

    fn tell_people(
        &self,
        lost: u64,
        report: &PortReport,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        if self.plan.counts_only {
            let count = self.counts.captured;
            session.reporter.raw(format!("{}\n", packets(count)).as_bytes())?;
        }
        // A file loses nothing; what it holds was counted by whoever captured it.
        if matches!(self.plan.from, From::Read { .. }) {
            return Ok(());
        }
        session.reporter.say(sentence_lines(&self.counts, lost, report))
    }
}

fn dropped(report: &PortReport) -> u64 {
    report.drops.values().sum()
}

fn packets(count: u64) -> String {
    format!("{count} packet{}", if count == 1 { "" } else { "s" })
}

/// The line for USR1.
fn sentence(counts: &Counts, lost: u64) -> String {
    let (captured, received) = (packets(counts.captured), packets(counts.received()));
    format!("{captured} captured, {received} received by filter, {} dropped", packets(lost))
}

/// The three lines of tcpdump, and one for each cause of a loss.
fn sentence_lines(counts: &Counts, lost: u64, report: &PortReport) -> String {
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
