//! Writes reports as text, one JSON document, or JSON lines.
//!
//! stdout is for data, stderr for messages. Each report is one write followed by a flush. So the
//! reader of a pipe gets whole lines immediately, and a killed run leaves no partial line.
//!
//! | | text | `--json` | `--json=lines` |
//! |---|---|---|---|
//! | [`start`](Reporter::start) | `#` lines | | one object |
//! | [`interval`](Reporter::interval) | one line | | one object |
//! | [`interim`](Reporter::interim) | one line | one message | one object |
//! | [`end`](Reporter::end) | summary | the document | one object |

use std::fmt::Display;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::report::{
    NoExtra, PortReport, ReportEvent, ReportPhase, ReportSample, RunEnvironment, RunIdentity,
    SCHEMA_VERSION, SampleTotals,
};
use crate::{Diagnose, Diagnostic, Exit, Failure, OutputStreams};

/// The key in the settings of a [`PortReport`](crate::report::PortReport) whose value is the number
/// of packets that could not be written to the capture.
pub const UNCAPTURED: &str = "uncaptured";

/// How reports are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// Text for people: one line per interval.
    Text,
    /// One JSON document at the end.
    Json,
    /// One JSON object per event.
    JsonLines,
}

/// Writes the reports of one run.
pub struct Reporter {
    stdout: Box<dyn Write>,
    stderr: Box<dyn Write>,
    format: ReportFormat,
    verbosity: i8,
    coloured: bool,
    identity: RunIdentity,
    environment: Option<RunEnvironment>,
}

/// The report options as they are known before the flags are parsed.
pub(crate) struct EarlyReportOptions {
    pub(crate) format: ReportFormat,
    /// The word after `--color`; `None` if the flag is missing.
    pub(crate) color: Option<String>,
}

impl Reporter {
    pub(crate) fn new(
        streams: OutputStreams,
        options: EarlyReportOptions,
        identity: RunIdentity,
    ) -> Self {
        let coloured = match options.color.as_deref() {
            Some("always") => true,
            Some("never") => false,
            _ => streams.coloured,
        };
        Self {
            stdout: streams.stdout,
            stderr: streams.stderr,
            format: options.format,
            verbosity: 0,
            coloured,
            identity,
            environment: None,
        }
    }

    /// Sets the format and verbosity to those of the parsed flags.
    pub(crate) fn adopt(&mut self, format: ReportFormat, verbosity: i8) {
        self.format = format;
        self.verbosity = verbosity;
    }

    /// Changes the format from now on, for a command whose own arguments select the format.
    pub fn report_as(&mut self, format: ReportFormat) {
        self.format = format;
    }

    /// Prints an error on stderr, in the format of the run, and returns its exit status.
    pub fn report_error(&mut self, error: &Diagnostic) -> Exit {
        let text = match self.format {
            ReportFormat::Text => error.to_text(self.coloured),
            ReportFormat::Json | ReportFormat::JsonLines => format!("{}\n", error.to_json()),
        };
        // If stderr is closed, the error cannot be reported.
        let _ = self.stderr.write_all(text.as_bytes());
        error.exit()
    }

    /// Sends reports to another stream from now on, for runs in which stdout belongs to another
    /// program.
    pub fn redirect(&mut self, data: Box<dyn Write>) {
        self.stdout = data;
    }

    /// Returns the format of this run, for commands that compute more figures for JSON than for
    /// text.
    #[must_use]
    pub fn format(&self) -> ReportFormat {
        self.format
    }

    /// Reports the settings that are needed to repeat the run, and the mode of every port.
    ///
    /// `clock` names the clock used for pacing and timestamps, such as `tsc` or `monotonic`.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn start(
        &mut self,
        seed: Option<u64>,
        clock: &str,
        ports: &[PortReport],
    ) -> Result<(), Failure> {
        self.identity.seed = seed;
        self.environment = Some(RunEnvironment::current(clock));
        match self.format {
            ReportFormat::Text if self.verbosity < 0 => Ok(()),
            ReportFormat::Text => {
                let head = self.text_head(ports);
                self.write_data(head.as_bytes())
            }
            ReportFormat::Json => Ok(()),
            ReportFormat::JsonLines => {
                self.event(ReportPhase::Start, true, ports, None, &NoExtra {})
            }
        }
    }

    /// Reports an interval; `line` is its text form.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn interval<X: Serialize>(
        &mut self,
        sample: &ReportSample<X>,
        line: impl Display,
    ) -> Result<(), Failure> {
        match self.format {
            ReportFormat::Text if self.verbosity < 0 => Ok(()),
            ReportFormat::Json => Ok(()),
            _ => self.interim(sample, line),
        }
    }

    /// Reports now because the user requested it (`SIGUSR1`), even if intervals are not reported.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn interim<X: Serialize>(
        &mut self,
        sample: &ReportSample<X>,
        line: impl Display,
    ) -> Result<(), Failure> {
        match self.format {
            ReportFormat::Text => self.text(line),
            ReportFormat::Json => self.write_stderr(&line),
            ReportFormat::JsonLines => self.sample(ReportPhase::Interval, false, sample),
        }
    }

    /// Reports the totals of the run at its end; `summary` is the text form of this report.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn end<X: Serialize>(
        &mut self,
        sample: &ReportSample<X>,
        summary: impl Display,
    ) -> Result<(), Failure> {
        match self.format {
            ReportFormat::Text => {
                self.text(summary)?;
                self.warn_of_uncaptured(&sample.ports)
            }
            // This is the only object that the run writes, so it also contains the environment.
            ReportFormat::Json => self.sample(ReportPhase::End, true, sample),
            ReportFormat::JsonLines => self.sample(ReportPhase::End, false, sample),
        }
    }

    /// Writes the single result of a command that does not run over time. In the text format, this
    /// is `text`; in the others, it is an object with the common keys and `fields`.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn document<X: Serialize>(
        &mut self,
        fields: &X,
        text: impl Display,
    ) -> Result<(), Failure> {
        match self.format {
            ReportFormat::Text => self.text(text),
            ReportFormat::Json | ReportFormat::JsonLines => self.object(ReportPhase::End, fields),
        }
    }

    /// Reports the start of a long-running program that moves no frames. In the text format, this
    /// is `text`; in the others, it is an object with the common keys and `fields`.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn write_started<X: Serialize>(
        &mut self,
        fields: &X,
        text: impl Display,
    ) -> Result<(), Failure> {
        match self.format {
            ReportFormat::Text => self.text(text),
            ReportFormat::Json | ReportFormat::JsonLines => self.object(ReportPhase::Start, fields),
        }
    }

    /// Writes one sample of a program that samples repeatedly: an object with the common keys and
    /// `fields`, in every format.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn write_sample<X: Serialize>(&mut self, fields: &X) -> Result<(), Failure> {
        self.object(ReportPhase::Interval, fields)
    }

    fn object<X: Serialize>(&mut self, moment: ReportPhase, fields: &X) -> Result<(), Failure> {
        let event = ReportEvent {
            schema: SCHEMA_VERSION,
            event: moment,
            time_ns: unix_nanos(),
            identity: &self.identity,
            environment: None,
            ports: None,
            totals: None,
            extra: fields,
        };
        let json = serde_json::to_vec(&event).map_err(io::Error::from)?;
        self.write_line(json)
    }

    /// Writes data that has only one format, such as a completion script.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.write_data(bytes)
    }

    /// Prints a message on stderr, unless the user has requested quiet output.
    ///
    /// # Errors
    /// If stderr cannot be written.
    pub fn say(&mut self, message: impl Display) -> Result<(), Failure> {
        self.say_at(0, message)
    }

    /// Prints a message only if `-v` was given at least `level` times.
    ///
    /// # Errors
    /// If stderr cannot be written.
    pub fn say_at(&mut self, level: i8, message: impl Display) -> Result<(), Failure> {
        if self.verbosity < level {
            return Ok(());
        }
        self.write_stderr(&message)
    }

    /// Prints a warning on stderr, even if the user has requested quiet output.
    ///
    /// # Errors
    /// If stderr cannot be written.
    pub fn warn(&mut self, message: impl Display) -> Result<(), Failure> {
        self.write_stderr(&format_args!("warning: {message}"))
    }

    fn warn_of_uncaptured(&mut self, ports: &[PortReport]) -> Result<(), Failure> {
        for port in ports {
            if let Some(count) = port.settings.get(UNCAPTURED) {
                let name = &port.name;
                self.warn(format_args!(
                    "{name}: {count} packets are not in the capture, which could not be written"
                ))?;
            }
        }
        Ok(())
    }

    fn text_head(&self, ports: &[PortReport]) -> String {
        let RunIdentity { command, version, .. } = &self.identity;
        let mut head = format!("# {command}\n# slipring {version}");
        if let Some(seed) = self.identity.seed {
            head += &format!(", seed {seed}");
        }
        if let Some(environment) = &self.environment {
            let RunEnvironment { clock, kernel, cpu } = environment;
            head += &format!(", clock {clock}, kernel {kernel}, cpu {cpu}");
        }
        head.push('\n');
        for port in ports {
            head += &format!("# {} kind={} mode={}", port.name, port.kind, port.mode);
            if let Some(driver) = &port.driver {
                head += &format!(" driver={driver}");
            }
            for (key, value) in &port.settings {
                head += &format!(" {key}={value}");
            }
            head.push('\n');
        }
        head
    }

    fn sample<X: Serialize>(
        &mut self,
        moment: ReportPhase,
        with_place: bool,
        sample: &ReportSample<X>,
    ) -> Result<(), Failure> {
        let totals = Some(SampleTotals::of(sample));
        self.event(moment, with_place, &sample.ports, totals, &sample.extra)
    }

    fn event<X: Serialize>(
        &mut self,
        event: ReportPhase,
        with_place: bool,
        ports: &[PortReport],
        totals: Option<SampleTotals>,
        extra: &X,
    ) -> Result<(), Failure> {
        let event = ReportEvent {
            schema: SCHEMA_VERSION,
            event,
            time_ns: unix_nanos(),
            identity: &self.identity,
            environment: self.environment.as_ref().filter(|_| with_place),
            ports: Some(ports),
            totals,
            extra,
        };
        let json = serde_json::to_vec(&event).map_err(io::Error::from)?;
        self.write_line(json)
    }

    fn text(&mut self, text: impl Display) -> Result<(), Failure> {
        self.write_line(text.to_string().into_bytes())
    }

    fn write_line(&mut self, mut line: Vec<u8>) -> Result<(), Failure> {
        line.push(b'\n');
        self.write_data(&line)
    }

    fn write_data(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stdout.write_all(bytes)?;
        Ok(self.stdout.flush()?)
    }

    fn write_stderr(&mut self, message: &dyn Display) -> Result<(), Failure> {
        let line = format!("{message}\n");
        Ok(self.stderr.write_all(line.as_bytes())?)
    }
}

/// Returns the wall-clock time in ns since 1970, so that reports of several machines can be
/// compared.
fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
