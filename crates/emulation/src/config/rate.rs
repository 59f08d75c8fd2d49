//! The settings of `rate`.

use slipring_link::{Framing, LineCells, MarkovState, RateSlot, RateSpec, RateStep, TraceEnd};
use slipring_model::format::{self, TimeUnit, TraceStep};

use super::error::EmulationConfigError;
use super::files::ConfigFiles;
use super::quantity;
use super::section::ConfigSection;
use super::theaterq::TheaterqTrace;
use super::tree::{ConfigNode, ConfigValue};
use super::wasm;

/// Bytes that one delivery opportunity of a mahimahi trace carries by default, as in mahimahi's
/// code.
const MAHIMAHI_MTU: u32 = 1504;

/// Default time step of a rate model in ns. A longer step is used if this one would make too many
/// steps.
const DEFAULT_STEP_NS: u64 = 1_000_000;

const TRACE_ENDS: [(&str, TraceEnd); 3] =
    [("loop", TraceEnd::Loop), ("hold", TraceEnd::Hold), ("once", TraceEnd::Once)];

#[derive(Clone, Copy, PartialEq)]
enum RateKind {
    Const,
    Ether,
    Trace,
    Steps,
    Tdm,
    Ramp,
    Sine,
    Markov,
    OrnsteinUhlenbeck,
    Wasm,
}

const RATE_KINDS: [(&str, RateKind); 11] = [
    ("const", RateKind::Const),
    ("ether", RateKind::Ether),
    ("trace", RateKind::Trace),
    ("mahimahi", RateKind::Trace),
    ("steps", RateKind::Steps),
    ("tdm", RateKind::Tdm),
    ("ramp", RateKind::Ramp),
    ("sine", RateKind::Sine),
    ("markov", RateKind::Markov),
    ("ou", RateKind::OrnsteinUhlenbeck),
    ("wasm", RateKind::Wasm),
];

/// Reads the rate of a line and its framing.
pub(super) fn read(
    path: &str,
    node: &ConfigNode,
    files: &ConfigFiles,
) -> Result<(RateSpec, Framing), EmulationConfigError> {
    let mut section = ConfigSection::new(path, node)?;
    let given = section.one_of("model", &RATE_KINDS)?;
    let unsaid = match (section.has("trace"), section.has("wasm")) {
        (true, _) => RateKind::Trace,
        (false, true) => RateKind::Wasm,
        (false, false) => RateKind::Const,
    };
    let model = given.unwrap_or(unsaid);
    let rate = match model {
        RateKind::Const | RateKind::Ether => constant(&mut section, given.is_some())?,
        RateKind::Trace => trace(&mut section, files)?,
        RateKind::Steps => steps(&mut section, files)?,
        RateKind::Tdm => tdm(&mut section)?,
        RateKind::Ramp => ramp(&mut section)?,
        RateKind::Sine => sine(&mut section)?,
        RateKind::Markov => markov(&mut section)?,
        RateKind::OrnsteinUhlenbeck => ornstein_uhlenbeck(&mut section)?,
        RateKind::Wasm => RateSpec::User(wasm::rate(&mut section, files)?),
    };
    let framing = framing(&mut section, model == RateKind::Ether)?;
    section.finish()?;
    Ok((rate, framing))
}

/// Reads a constant rate. In flags, a rate of 0 means no limit, as in TLEM; elsewhere it is an
/// error. Without a rate, the line has no limit either; this is an error if the user has `named`
/// the model.
fn constant(
    section: &mut ConfigSection<'_>,
    named: bool,
) -> Result<RateSpec, EmulationConfigError> {
    let bps = section.read("bps", |path, node| match quantity::rate_bps(path, node)? {
        0 if !node.location.is_flag() => {
            let error = EmulationConfigError::value(path, &node.shown(), "nothing would ever pass");
            Err(error.at(&node.location).help("for a link without a limit write rate = \"none\""))
        }
        bps => Ok(bps),
    })?;
    if named && bps.is_none() {
        return Err(section.missing("bps"));
    }
    Ok(bps.filter(|bps| *bps > 0).map_or(RateSpec::Unlimited, |bps| RateSpec::Constant { bps }))
}

#[derive(Clone, Copy)]
enum RateTraceFormat {
    Mahimahi,
    Steps,
    Theaterq,
}

fn trace(
    section: &mut ConfigSection<'_>,
    files: &ConfigFiles,
) -> Result<RateSpec, EmulationConfigError> {
    let formats = [
        ("mahimahi", RateTraceFormat::Mahimahi),
        ("steps", RateTraceFormat::Steps),
        ("theaterq", RateTraceFormat::Theaterq),
    ];
    refuse_cellreplay(section)?;
    match section.one_of("format", &formats)?.unwrap_or(RateTraceFormat::Mahimahi) {
        RateTraceFormat::Mahimahi => opportunities(section, files),
        RateTraceFormat::Steps => steps(section, files),
        RateTraceFormat::Theaterq => theaterq(section, files),
    }
}

fn opportunities(
    section: &mut ConfigSection<'_>,
    files: &ConfigFiles,
) -> Result<RateSpec, EmulationConfigError> {
    let units = [("ms", TimeUnit::Millis), ("us", TimeUnit::Micros), ("ns", TimeUnit::Nanos)];
    let unit = section.one_of("unit", &units)?.unwrap_or(TimeUnit::Millis);
    let at_ns = section.required("trace", |path, node| {
        let name = super::section::text(path, node)?;
        files.parsed(&name, node, |text| format::opportunities(text, unit))
    })?;
    let mtu = section.read("mtu", mtu)?.unwrap_or(MAHIMAHI_MTU);
    let end = section.one_of("end", &TRACE_ENDS)?.unwrap_or_default();
    Ok(RateSpec::Opportunities { at_ns, mtu, end })
}

/// Reads an MTU. A number without a unit is in bytes.
fn mtu(path: &str, node: &ConfigNode) -> Result<u32, EmulationConfigError> {
    let bytes = match &node.value {
        ConfigValue::Number(_) => quantity::count(path, node)?,
        _ => quantity::size_bytes(path, node).or_else(|_| quantity::count(path, node))?,
    };
    u32::try_from(bytes)
        .map_err(|_| {
            EmulationConfigError::value(path, &node.shown(), "too large").at(&node.location)
        })
        .map_err(|error| error.help("write the bytes that one opportunity carries: 1500"))
}

fn steps(
    section: &mut ConfigSection<'_>,
    files: &ConfigFiles,
) -> Result<RateSpec, EmulationConfigError> {
    let steps = section.required("trace", |path, node| {
        let name = super::section::text(path, node)?;
        files.parsed(&name, node, format::rate_steps)
    })?;
    let period_ns = period(section, &steps)?;
    let end = section.one_of("end", &TRACE_ENDS)?.unwrap_or_default();
    let steps = steps.iter().map(|step| RateStep { at_ns: step.from_ns, bps: step.value });
    Ok(RateSpec::Steps { steps: steps.collect(), period_ns, end })
}

/// Returns the period of a trace of steps. If the user gives none, the last step is as long as the
/// step before it; a single step lasts one second.
pub(super) fn period(
    section: &mut ConfigSection<'_>,
    steps: &[TraceStep],
) -> Result<u64, EmulationConfigError> {
    let given = section.time("period")?;
    let guess = match steps {
        [.., before, last] => last.from_ns.saturating_add(last.from_ns - before.from_ns),
        [only] => only.from_ns.saturating_add(1_000_000_000),
        [] => 0,
    };
    Ok(given.unwrap_or(guess))
}

fn theaterq(
    section: &mut ConfigSection<'_>,
    files: &ConfigFiles,
) -> Result<RateSpec, EmulationConfigError> {
    let trace = TheaterqTrace::read(section, "trace", files)?;
    let end = section.one_of("end", &TRACE_ENDS)?.unwrap_or_default();
    Ok(RateSpec::Steps { steps: trace.rates(), period_ns: trace.period_ns, end })
}

/// Returns an error for CellReplay's format. In that format, one trace applies to senders that
/// pause, and another one to senders that do not. So the rate depends on the traffic, not only on
/// time.
fn refuse_cellreplay(section: &mut ConfigSection<'_>) -> Result<(), EmulationConfigError> {
    let path = section.path_of("format");
    let node = section.get("format").filter(|node| node.shown() == "cellreplay");
    let Some(node) = node else { return Ok(()) };
    let cause = "a light file is about senders that pause, which no trace of times can tell";
    let help = "take its heavy trace, which mahimahi's format is: { trace = \"heavy.pdo\", \
                mtu = 1400 }, and its base delay: delay = { dist = \"trace\", file = \"delay.csv\" }";
    Err(EmulationConfigError::value(&path, "cellreplay", cause).at(&node.location).help(help))
}

fn tdm(section: &mut ConfigSection<'_>) -> Result<RateSpec, EmulationConfigError> {
    let bps = section.required("bps", quantity::rate_bps)?;
    let period_ns = section.required("period", quantity::time_ns)?;
    let guard_ns = section.time("guard")?.unwrap_or(0);
    let mut slots = match section.get("slots") {
        Some(node) => slots(&section.path_of("slots"), node)?,
        None => vec![RateSlot {
            start_ns: section.time("start")?.unwrap_or(0),
            len_ns: section.required("slot", quantity::time_ns)?,
        }],
    };
    for slot in &mut slots {
        slot.start_ns = slot.start_ns.saturating_add(guard_ns);
        slot.len_ns = slot.len_ns.saturating_sub(guard_ns);
    }
    let whole_frames = section.flag("whole_frames")?.unwrap_or(true);
    Ok(RateSpec::Slots { bps, period_ns, slots, whole_frames })
}

/// Reads start and length of each slot: `[["0ms", "2ms"], ["5ms", "1ms"]]`.
fn slots(path: &str, node: &ConfigNode) -> Result<Vec<RateSlot>, EmulationConfigError> {
    let pair = |node: &ConfigNode| match &node.value {
        ConfigValue::List(list) if list.len() == 2 => Ok(RateSlot {
            start_ns: quantity::time_ns(path, &list[0])?,
            len_ns: quantity::time_ns(path, &list[1])?,
        }),
        other => Err(quantity::wrong_kind(path, other, &node.location).help(SLOTS_SYNTAX)),
    };
    match &node.value {
        ConfigValue::List(list) => list.iter().map(pair).collect(),
        other => Err(quantity::wrong_kind(path, other, &node.location).help(SLOTS_SYNTAX)),
    }
}

const SLOTS_SYNTAX: &str =
    "write start and length of each slot: [[\"0ms\", \"2ms\"], [\"5ms\", \"1ms\"]]";

fn ramp(section: &mut ConfigSection<'_>) -> Result<RateSpec, EmulationConfigError> {
    let (from_bps, to_bps) = (
        section.required("from", quantity::rate_bps)?,
        section.required("to", quantity::rate_bps)?,
    );
    let duration_ns = section.required("duration", quantity::time_ns)?;
    Ok(RateSpec::Ramp {
        from_bps,
        to_bps,
        duration_ns,
        step_ns: section.time("step")?.unwrap_or(usual_step_ns(duration_ns)),
        end: section.one_of("end", &TRACE_ENDS)?.unwrap_or(TraceEnd::Hold),
    })
}

fn sine(section: &mut ConfigSection<'_>) -> Result<RateSpec, EmulationConfigError> {
    let mean_bps = section.required("mean", quantity::rate_bps)?;
    let amplitude_bps = section.required("amplitude", quantity::rate_bps)?;
    let period_ns = section.required("period", quantity::time_ns)?;
    Ok(RateSpec::Sine {
        mean_bps,
        amplitude_bps,
        period_ns,
        step_ns: section.time("step")?.unwrap_or(usual_step_ns(period_ns)),
    })
}

fn ornstein_uhlenbeck(section: &mut ConfigSection<'_>) -> Result<RateSpec, EmulationConfigError> {
    let mean_bps = section.required("mean", quantity::rate_bps)?;
    let sd_bps = section.required("sd", quantity::rate_bps)?;
    let half_life_ns = section.required("half_life", quantity::time_ns)?;
    Ok(RateSpec::OrnsteinUhlenbeck {
        mean_bps,
        sd_bps,
        half_life_ns,
        min_bps: section.read("min", quantity::rate_bps)?.unwrap_or(0),
        max_bps: section.read("max", quantity::rate_bps)?.unwrap_or(mean_bps.saturating_mul(2)),
        step_ns: section.time("step")?.unwrap_or(usual_step_ns(half_life_ns)),
    })
}

/// Returns the time step of a rate model that covers a time of `whole_ns`: the default step, or, if
/// that would make more steps than a link allows, the shortest allowed step.
fn usual_step_ns(whole_ns: u64) -> u64 {
    DEFAULT_STEP_NS.max(whole_ns.div_ceil(RateSpec::MAX_STEPS))
}

fn markov(section: &mut ConfigSection<'_>) -> Result<RateSpec, EmulationConfigError> {
    let states = section.required("states", |path, node| match &node.value {
        ConfigValue::List(list) => list.iter().map(|node| state(path, node)).collect(),
        other => Err(quantity::wrong_kind(path, other, &node.location).help(STATES_SYNTAX)),
    })?;
    Ok(RateSpec::Markov { states })
}

const STATES_SYNTAX: &str = "write each state with its rate and mean time: { bps = \"10Mbit\", mean = \"2s\" }, or \"10Mbit:2s\"";

/// Reads `{ bps = "10Mbit", mean = "2s", next = [0, 1] }`, or the short form `10Mbit:2s`.
fn state(path: &str, node: &ConfigNode) -> Result<MarkovState, EmulationConfigError> {
    if let ConfigValue::Text(text) = &node.value {
        let Some((bps, mean)) = text.split_once(':') else {
            let error =
                EmulationConfigError::value(path, text, "expected a rate, a colon and a time");
            return Err(error.at(&node.location).help("write 10Mbit:2s for each state"));
        };
        let at = node.location.advanced_by(bps.chars().count() + 1);
        return Ok(MarkovState {
            bps: quantity::rate_bps(path, &ConfigNode::text(bps, node.location.clone()))?,
            mean_ns: quantity::time_ns(path, &ConfigNode::text(mean, at))?,
            next: Vec::new(),
        });
    }
    let mut section = ConfigSection::new(path, node)?;
    let state = MarkovState {
        bps: section.required("bps", quantity::rate_bps)?,
        mean_ns: section.required("mean", quantity::time_ns)?,
        next: section.read("next", weights)?.unwrap_or_default(),
    };
    section.finish()?;
    Ok(state)
}

fn weights(path: &str, node: &ConfigNode) -> Result<Vec<f64>, EmulationConfigError> {
    match &node.value {
        ConfigValue::List(list) => list.iter().map(|node| quantity::real(path, node)).collect(),
        other => {
            let error = quantity::wrong_kind(path, other, &node.location);
            Err(error.help("write a weight for each state: [0, 3, 1]"))
        }
    }
}

/// Reads the framing of a line: overhead, minimum frame length and cells. The default overhead is
/// that of Ethernet for `ether`, otherwise AAL5's trailer of 8 bytes for ATM, and 0 without ATM.
fn framing(section: &mut ConfigSection<'_>, ether: bool) -> Result<Framing, EmulationConfigError> {
    let cells = section.one_of("cells", &[("none", 0), ("atm", 1), ("docsis", 2)])?.unwrap_or(0);
    let minislot = section.count_u32("minislot")?;
    let usual = match (ether, cells) {
        (true, _) => Framing::ETHER.overhead_bytes,
        (_, 1) => 8,
        _ => 0,
    };
    let given = section.read("overhead", overhead)?;
    Ok(Framing {
        overhead_bytes: given.unwrap_or(usual),
        min_frame: section.count_u32("min_frame")?.unwrap_or(0),
        cells: match cells {
            1 => LineCells::Atm,
            2 => LineCells::Docsis { minislot: minislot.unwrap_or(DOCSIS_MINISLOT_BYTES) },
            _ => LineCells::None,
        },
    })
}

/// Minimum overhead per frame in bytes. With a lower value, not even a full-size frame would
/// occupy a byte on the line.
const MIN_OVERHEAD_BYTES: i32 = -1513;
/// Maximum overhead per frame in bytes: the length of the longest IPv4 packet.
const MAX_OVERHEAD_BYTES: i32 = 65_535;

fn overhead(path: &str, node: &ConfigNode) -> Result<i32, EmulationConfigError> {
    let bytes = quantity::signed(path, node)?;
    let why = match i32::try_from(bytes) {
        Ok(bytes @ MIN_OVERHEAD_BYTES..=MAX_OVERHEAD_BYTES) => return Ok(bytes),
        _ if bytes < 0 => "no frame would take any time",
        _ => "too large",
    };
    let error = EmulationConfigError::value(path, &node.shown(), why).at(&node.location);
    Err(error.help(format!("write bytes from {MIN_OVERHEAD_BYTES} to {MAX_OVERHEAD_BYTES}")))
}

/// Default length of a DOCSIS minislot, in bytes.
const DOCSIS_MINISLOT_BYTES: u32 = 16;

#[cfg(test)]
mod tests {
    use crate::config::EmulationConfig;

    use super::*;

    /// Reads a rate as it is written in a file.
    fn rate(text: &str) -> RateSpec {
        let file =
            format!("[ports.a]\n[ports.b]\n[link.up]\nfrom = \"a\"\nto = \"b\"\nrate = {text}\n");
        let network = EmulationConfig::parse("link.toml", &file).unwrap().network().unwrap();
        network.links[0].spec.rate.clone()
    }

    #[test]
    fn the_examples_in_the_help_of_lists_are_accepted() {
        let states = ["{ bps = \"10Mbit\", mean = \"2s\" }", "\"10Mbit:2s\""];
        for state in states {
            assert!(STATES_SYNTAX.contains(state), "{STATES_SYNTAX}");
            let rate = rate(&format!("{{ model = \"markov\", states = [{state}] }}"));
            let RateSpec::Markov { states } = &rate else { panic!("{rate:?}") };
            assert_eq!((states[0].bps, states[0].mean_ns), (10_000_000, 2_000_000_000));
        }
        let slots = "[[\"0ms\", \"2ms\"], [\"5ms\", \"1ms\"]]";
        assert!(SLOTS_SYNTAX.contains(slots), "{SLOTS_SYNTAX}");
        let rate = rate(&format!(
            "{{ model = \"tdm\", bps = \"10Mbit\", period = \"10ms\", slots = {slots} }}"
        ));
        assert!(matches!(rate, RateSpec::Slots { slots, .. } if slots.len() == 2));
    }
}
