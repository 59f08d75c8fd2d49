//! The times at which frames of a capture are sent: as recorded, faster or slower, or at a fixed
//! rate.

use std::num::NonZeroU64;

use clap::ArgMatches;
use slipring_cli::codes::{SR0003, SR0007};
use slipring_cli::units::{RateUnit, RateWithUnit as Written, TimeSpan};
use slipring_cli::{Diagnostic, Failure, flags};
use slipring_model::{Pacer, Rate};
use slipring_traffic::{Fraction, ReplayTimeline};

use slipring_emulation::CaptureChunk;

/// Which times the frames get.
#[derive(Debug, Clone)]
pub(super) enum PacingMode {
    /// Frames are sent at the capture's own times, accelerated by `speed`.
    Recorded {
        speed: Fraction,
        /// Longest pause, in ns of the capture's time. A longer pause is shortened to this one.
        /// `None` means no limit.
        max_gap_ns: Option<u64>,
        /// The pause between two passes over the capture, in ns of the capture's time; `None` means
        /// the average gap.
        pass_gap_ns: Option<u64>,
    },
    /// Frames are sent at a fixed rate; each frame counts `framing` bytes in addition to its
    /// length.
    Fixed { rate: Rate, framing: u32 },
}

/// Bytes of FCS, preamble and gap per Ethernet frame.
const ETHERNET_FRAMING_BYTES: u32 = 24;

impl PacingMode {
    /// Parses the flags.
    pub(super) fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let speed = matches.get_one::<Fraction>("speed").copied();
        let ns = |id: &str| matches.get_one::<TimeSpan>(id).map(|span| span.nanos());
        let recorded = |speed: Fraction| Self::Recorded {
            speed,
            max_gap_ns: ns("max-gap"),
            pass_gap_ns: ns("loop-gap"),
        };
        match matches.get_one::<String>("pace").map(String::as_str) {
            None | Some("real" | "none") => Ok(recorded(speed.unwrap_or(Fraction::ONE))),
            Some(text) => match text.strip_prefix("real,") {
                Some(speedup) => {
                    parse_speed(speedup).map(recorded).map_err(|why| unfit(text, &why))
                }
                None => {
                    refuse_gaps(matches)?;
                    fixed(text, flags::is_called_by_classic_name(matches))
                }
            },
        }
    }

    /// Refuses a pause between passes if there is only one pass.
    pub(super) fn refuse_unused_pass_gap(&self, passes: Option<u64>) -> Result<(), Failure> {
        let Self::Recorded { pass_gap_ns: Some(_), .. } = self else { return Ok(()) };
        if passes != Some(1) {
            return Ok(());
        }
        let error = Diagnostic::new(SR0003, "--loop-gap says nothing here");
        let error = error.with_cause("the capture is sent once");
        Err(error.with_help("send it several times: --loops 3, or 0 for ever").into())
    }
}

/// Refuses flags about the capture's pauses if a fixed rate replaces the capture's times.
fn refuse_gaps(matches: &ArgMatches) -> Result<(), Failure> {
    let given = ["max-gap", "loop-gap"].into_iter().find(|id| matches.contains_id(id));
    let Some(id) = given else { return Ok(()) };
    let error = Diagnostic::new(SR0003, format!("--{id} says nothing beside a fixed rate"));
    let error = error.with_cause("frames go at that rate, whatever pauses the capture has");
    Err(error.with_help(format!("leave out --{id}, or send as recorded: -B real")).into())
}

/// Parses a speed factor. 0 is an error, because the replay would never end.
pub(super) fn parse_speed(text: &str) -> Result<Fraction, String> {
    let speed: Fraction =
        text.parse().map_err(|error: slipring_traffic::FractionError| error.to_string())?;
    if speed.num() == 0 {
        return Err("it must be above 0".to_owned());
    }
    Ok(speed)
}

/// Parses `const,BPS`, `ether,BPS`, or a rate with its unit.
///
/// A bare number means bit/s, and is accepted only under the name `nmreplay`. Otherwise it is an
/// error, because 10 could mean 10 Mbit/s or 10 pps.
fn fixed(text: &str, classic: bool) -> Result<PacingMode, Failure> {
    let (framing, value) = match text.split_once(',') {
        Some(("ether", value)) => (ETHERNET_FRAMING_BYTES, value),
        Some(("const" | "constant", value)) => (0, value),
        Some((word, _)) => return Err(unfit(text, &format!("`{word}` is not known"))),
        None => (0, text),
    };
    let is_bare =
        value.bytes().all(|byte| byte.is_ascii_digit()) && !value.trim_matches('0').is_empty();
    if is_bare && !classic {
        let readings = format!("{value}bit, {value}Mbit or {value}pps");
        let error = Diagnostic::new(SR0007, format!("`{text}` does not fit -B"));
        let error = error.with_cause(format!("it could be {readings}"));
        return Err(error.with_help(format!("write {readings}")).into());
    }
    let rate = match Written::parse(value, RateUnit::Bits)? {
        Written::Bits(bps) => NonZeroU64::new(bps).map(|bps| Rate::BitsPerSec(bps.get())),
        Written::Packets(pps) => NonZeroU64::new(pps).map(|pps| Rate::PacketsPerSec(pps.get())),
    };
    let rate = rate.ok_or_else(|| unfit(text, "a rate of 0 sends nothing"))?;
    Ok(PacingMode::Fixed { rate, framing })
}

fn unfit(text: &str, why: &str) -> Failure {
    let error = Diagnostic::new(SR0007, format!("`{text}` does not fit -B")).with_cause(why);
    error
        .with_help("write 10m, const,10m, ether,10g, 1Mpps, real, or real,2 for twice as fast")
        .into()
}

/// Computes the time of each frame.
pub(super) struct ReplayPacer {
    timing: PacerTiming,
    pass: Option<u64>,
    base_ns: u64,
}

enum PacerTiming {
    Recorded(ReplayTimeline),
    Fixed(Pacer, u32),
}

impl ReplayPacer {
    /// Creates a pacer at the start of the schedule.
    pub(super) fn new(mode: &PacingMode) -> Self {
        let timing = match *mode {
            PacingMode::Recorded { speed, max_gap_ns, pass_gap_ns } => {
                let line = ReplayTimeline::new().with_speed(speed).with_passes(None);
                let line = max_gap_ns.map_or(line.clone(), |gap| line.with_max_gap(gap));
                PacerTiming::Recorded(
                    pass_gap_ns.map_or(line.clone(), |gap| line.with_pass_gap(gap)),
                )
            }
            PacingMode::Fixed { rate, framing } => PacerTiming::Fixed(Pacer::new(rate, 0), framing),
        };
        Self { timing, pass: None, base_ns: 0 }
    }

    /// Replaces the capture times of the frames by the times at which they are due. The first frame
    /// of the replay keeps its time.
    pub(super) fn retime(&mut self, chunk: &mut CaptureChunk) {
        if self.pass.is_none() {
            self.base_ns = chunk.frames.first().map_or(0, |frame| frame.captured_ns);
        }
        let new_pass = self.pass.replace(chunk.pass) != Some(chunk.pass);
        if let (true, PacerTiming::Recorded(line)) = (new_pass, &mut self.timing) {
            line.next_pass();
        }
        for frame in &mut chunk.frames {
            let sent_ns = match &mut self.timing {
                PacerTiming::Recorded(line) => line.release_ns(frame.captured_ns),
                PacerTiming::Fixed(pacer, framing) => pacer.next(0, (frame.len + *framing) * 8),
            };
            frame.captured_ns = self.base_ns.saturating_add(sent_ns);
        }
    }
}
