//! How fast a line is: the settings of `rate`.

use slipring_link::{Cells, Framing, MarkovState, RateSpec, RateStep, Slot, TraceEnd};
use slipring_model::format::{self, Step, TimeUnit};

use super::error::ConfigError;
use super::files::Files;
use super::quantity;
use super::section::Section;
use super::theaterq::Trace;
use super::tree::{Node, Value};
use super::wasm;

/// Bytes that one opportunity of a mahimahi trace carries, in mahimahi's code.
const MAHIMAHI_MTU: u32 = 1504;

/// Time for which a model's rate stays the same, where none is given and that is not too fine.
const STEP_NS: u64 = 1_000_000;

const ENDS: [(&str, TraceEnd); 3] =
    [("loop", TraceEnd::Loop), ("hold", TraceEnd::Hold), ("once", TraceEnd::Once)];

#[derive(Clone, Copy, PartialEq)]
enum Model {
    Const,
    Ether,
    Trace,
    Steps,
    Tdm,
    Ramp,
    Sine,
    Markov,
    Wander,
    Wasm,
}

const MODELS: [(&str, Model); 11] = [
    ("const", Model::Const),
    ("ether", Model::Ether),
    ("trace", Model::Trace),
    ("mahimahi", Model::Trace),
    ("steps", Model::Steps),
    ("tdm", Model::Tdm),
    ("ramp", Model::Ramp),
    ("sine", Model::Sine),
    ("markov", Model::Markov),
    ("ou", Model::Wander),
    ("wasm", Model::Wasm),
];

/// Reads the rate of a line and what frames cost on it.
pub(super) fn read(
    path: &str,
    node: &Node,
    files: &Files,
) -> Result<(RateSpec, Framing), ConfigError> {
    let mut section = Section::new(path, node)?;
    let said = section.word("model", &MODELS)?;
    let unsaid = match (section.has("trace"), section.has("wasm")) {
        (true, _) => Model::Trace,
        (false, true) => Model::Wasm,
        (false, false) => Model::Const,
    };
    let model = said.unwrap_or(unsaid);
    let rate = match model {
        Model::Const | Model::Ether => constant(&mut section, said.is_some())?,
        Model::Trace => trace(&mut section, files)?,
        Model::Steps => steps(&mut section, files)?,
        Model::Tdm => tdm(&mut section)?,
        Model::Ramp => ramp(&mut section)?,
        Model::Sine => sine(&mut section)?,
        Model::Markov => markov(&mut section)?,
        Model::Wander => wander(&mut section)?,
        Model::Wasm => RateSpec::User(wasm::rate(&mut section, files)?),
    };
    let framing = framing(&mut section, model == Model::Ether)?;
    section.finish()?;
    Ok((rate, framing))
}

/// In flags a rate of 0 is none at all, as for TLEM; so is a framing alone.
fn constant(section: &mut Section<'_>, named: bool) -> Result<RateSpec, ConfigError> {
    let bps = section.read("bps", |path, node| match quantity::rate_bps(path, node)? {
        0 if !node.place.is_flag() => {
            let error = ConfigError::value(path, &node.shown(), "nothing would ever pass");
            Err(error.at(&node.place).help("for a link without a limit write rate = \"none\""))
        }
        bps => Ok(bps),
    })?;
    if named && bps.is_none() {
        return Err(section.missing("bps"));
    }
    Ok(bps.filter(|bps| *bps > 0).map_or(RateSpec::Unlimited, |bps| RateSpec::Constant { bps }))
}

#[derive(Clone, Copy)]
enum TraceFormat {
    Mahimahi,
    Steps,
    Theaterq,
}

fn trace(section: &mut Section<'_>, files: &Files) -> Result<RateSpec, ConfigError> {
    let formats = [
        ("mahimahi", TraceFormat::Mahimahi),
        ("steps", TraceFormat::Steps),
        ("theaterq", TraceFormat::Theaterq),
    ];
    refuse_cellreplay(section)?;
    match section.word("format", &formats)?.unwrap_or(TraceFormat::Mahimahi) {
        TraceFormat::Mahimahi => opportunities(section, files),
        TraceFormat::Steps => steps(section, files),
        TraceFormat::Theaterq => theaterq(section, files),
    }
}

fn opportunities(section: &mut Section<'_>, files: &Files) -> Result<RateSpec, ConfigError> {
    let units = [("ms", TimeUnit::Millis), ("us", TimeUnit::Micros), ("ns", TimeUnit::Nanos)];
    let unit = section.word("unit", &units)?.unwrap_or(TimeUnit::Millis);
    let at_ns = section.need("trace", |path, node| {
        let name = super::section::text(path, node)?;
        files.parsed(&name, node, |text| format::opportunities(text, unit))
    })?;
    let mtu = section.read("mtu", mtu)?.unwrap_or(MAHIMAHI_MTU);
    let end = section.word("end", &ENDS)?.unwrap_or_default();
    Ok(RateSpec::Opportunities { at_ns, mtu, end })
}

/// Bytes, with or without a unit: nothing else is meant by an MTU.
fn mtu(path: &str, node: &Node) -> Result<u32, ConfigError> {
    let bytes = match &node.value {
        Value::Number(_) => quantity::count(path, node)?,
        _ => quantity::size_bytes(path, node).or_else(|_| quantity::count(path, node))?,
    };
    u32::try_from(bytes)
        .map_err(|_| ConfigError::value(path, &node.shown(), "too large").at(&node.place))
        .map_err(|error| error.help("write the bytes that one opportunity carries: 1500"))
}

fn steps(section: &mut Section<'_>, files: &Files) -> Result<RateSpec, ConfigError> {
    let steps = section.need("trace", |path, node| {
        let name = super::section::text(path, node)?;
        files.parsed(&name, node, format::rate_steps)
    })?;
    let period_ns = period(section, &steps)?;
    let end = section.word("end", &ENDS)?.unwrap_or_default();
    let steps = steps.iter().map(|step| RateStep { at_ns: step.from_ns, bps: step.value });
    Ok(RateSpec::Steps { steps: steps.collect(), period_ns, end })
}

/// The length of a trace of steps: as said, or else so that the last step lasts as long as the one
/// before it; a second for a single one.
pub(super) fn period(section: &mut Section<'_>, steps: &[Step]) -> Result<u64, ConfigError> {
    let said = section.time("period")?;
    let guess = match steps {
        [.., before, last] => last.from_ns.saturating_add(last.from_ns - before.from_ns),
        [only] => only.from_ns.saturating_add(1_000_000_000),
        [] => 0,
    };
    Ok(said.unwrap_or(guess))
}

fn theaterq(section: &mut Section<'_>, files: &Files) -> Result<RateSpec, ConfigError> {
    let trace = Trace::read(section, "trace", files)?;
    let end = section.word("end", &ENDS)?.unwrap_or_default();
    Ok(RateSpec::Steps { steps: trace.rates(), period_ns: trace.period_ns, end })
}

/// CellReplay's light file says what a sender gets that pauses, its heavy trace what one gets that
/// does not: which holds depends on the traffic, and so on no time of a trace.
fn refuse_cellreplay(section: &mut Section<'_>) -> Result<(), ConfigError> {
    let path = section.path_of("format");
    let node = section.get("format").filter(|node| node.shown() == "cellreplay");
    let Some(node) = node else { return Ok(()) };
    let cause = "a light file is about senders that pause, which no trace of times can tell";
    let help = "take its heavy trace, which mahimahi's format is: { trace = \"heavy.pdo\", \
                mtu = 1400 }, and its base delay: delay = { dist = \"trace\", file = \"delay.csv\" }";
    Err(ConfigError::value(&path, "cellreplay", cause).at(&node.place).help(help))
}

fn tdm(section: &mut Section<'_>) -> Result<RateSpec, ConfigError> {
    let bps = section.need("bps", quantity::rate_bps)?;
    let period_ns = section.need("period", quantity::time_ns)?;
    let guard_ns = section.time("guard")?.unwrap_or(0);
    let mut slots = match section.get("slots") {
        Some(node) => slots(&section.path_of("slots"), node)?,
        None => vec![Slot {
            start_ns: section.time("start")?.unwrap_or(0),
            len_ns: section.need("slot", quantity::time_ns)?,
        }],
    };
    for slot in &mut slots {
        slot.start_ns = slot.start_ns.saturating_add(guard_ns);
        slot.len_ns = slot.len_ns.saturating_sub(guard_ns);
    }
    let whole_frames = section.flag("whole_frames")?.unwrap_or(true);
    Ok(RateSpec::Slots { bps, period_ns, slots, whole_frames })
}

/// `[["0ms", "2ms"], ["5ms", "1ms"]]`: start and length of each.
fn slots(path: &str, node: &Node) -> Result<Vec<Slot>, ConfigError> {
    let pair = |node: &Node| match &node.value {
        Value::List(list) if list.len() == 2 => Ok(Slot {
            start_ns: quantity::time_ns(path, &list[0])?,
            len_ns: quantity::time_ns(path, &list[1])?,
        }),
        other => Err(quantity::wrong_kind(path, other, &node.place).help(SLOTS)),
    };
    match &node.value {
        Value::List(list) => list.iter().map(pair).collect(),
        other => Err(quantity::wrong_kind(path, other, &node.place).help(SLOTS)),
    }
}

const SLOTS: &str = "write start and length of each slot: [[\"0ms\", \"2ms\"], [\"5ms\", \"1ms\"]]";

fn ramp(section: &mut Section<'_>) -> Result<RateSpec, ConfigError> {
    let (from_bps, to_bps) =
        (section.need("from", quantity::rate_bps)?, section.need("to", quantity::rate_bps)?);
    let duration_ns = section.need("duration", quantity::time_ns)?;
    Ok(RateSpec::Ramp {
        from_bps,
        to_bps,
        duration_ns,
        step_ns: section.time("step")?.unwrap_or(usual_step_ns(duration_ns)),
        end: section.word("end", &ENDS)?.unwrap_or(TraceEnd::Hold),
    })
}

fn sine(section: &mut Section<'_>) -> Result<RateSpec, ConfigError> {
    let mean_bps = section.need("mean", quantity::rate_bps)?;
    let amplitude_bps = section.need("amplitude", quantity::rate_bps)?;
    let period_ns = section.need("period", quantity::time_ns)?;
    Ok(RateSpec::Sine {
        mean_bps,
        amplitude_bps,
        period_ns,
        step_ns: section.time("step")?.unwrap_or(usual_step_ns(period_ns)),
    })
}

fn wander(section: &mut Section<'_>) -> Result<RateSpec, ConfigError> {
    let mean_bps = section.need("mean", quantity::rate_bps)?;
    let sd_bps = section.need("sd", quantity::rate_bps)?;
    let half_life_ns = section.need("half_life", quantity::time_ns)?;
    Ok(RateSpec::Wander {
        mean_bps,
        sd_bps,
        half_life_ns,
        min_bps: section.read("min", quantity::rate_bps)?.unwrap_or(0),
        max_bps: section.read("max", quantity::rate_bps)?.unwrap_or(mean_bps.saturating_mul(2)),
        step_ns: section.time("step")?.unwrap_or(usual_step_ns(half_life_ns)),
    })
}

/// As fine as usual, or as a link allows during so long a time.
fn usual_step_ns(whole_ns: u64) -> u64 {
    STEP_NS.max(whole_ns.div_ceil(RateSpec::MOST_STEPS))
}

fn markov(section: &mut Section<'_>) -> Result<RateSpec, ConfigError> {
    let states = section.need("states", |path, node| match &node.value {
        Value::List(list) => list.iter().map(|node| state(path, node)).collect(),
        other => Err(quantity::wrong_kind(path, other, &node.place).help(STATES)),
    })?;
    Ok(RateSpec::Markov { states })
}

const STATES: &str = "write each state with its rate and mean time: { bps = \"10Mbit\", mean = \"2s\" }, or 10Mbit/2s";

/// `{ bps = "10Mbit", mean = "2s", next = [0, 1] }`, or in one word `10Mbit:2s`.
fn state(path: &str, node: &Node) -> Result<MarkovState, ConfigError> {
    if let Value::Text(text) = &node.value {
        let Some((bps, mean)) = text.split_once(':') else {
            let error = ConfigError::value(path, text, "expected a rate, a colon and a time");
            return Err(error.at(&node.place).help("write 10Mbit:2s for each state"));
        };
        let at = node.place.right(bps.chars().count() + 1);
        return Ok(MarkovState {
            bps: quantity::rate_bps(path, &Node::text(bps, node.place.clone()))?,
            mean_ns: quantity::time_ns(path, &Node::text(mean, at))?,
            next: Vec::new(),
        });
    }
    let mut section = Section::new(path, node)?;
    let state = MarkovState {
        bps: section.need("bps", quantity::rate_bps)?,
        mean_ns: section.need("mean", quantity::time_ns)?,
        next: section.read("next", weights)?.unwrap_or_default(),
    };
    section.finish()?;
    Ok(state)
}

fn weights(path: &str, node: &Node) -> Result<Vec<f64>, ConfigError> {
    match &node.value {
        Value::List(list) => list.iter().map(|node| quantity::real(path, node)).collect(),
        other => {
            let error = quantity::wrong_kind(path, other, &node.place);
            Err(error.help("write a weight for each state: [0, 3, 1]"))
        }
    }
}

/// What a frame costs beside its bytes. ATM adds AAL5's trailer of 8 bytes.
fn framing(section: &mut Section<'_>, ether: bool) -> Result<Framing, ConfigError> {
    let cells = section.word("cells", &[("none", 0), ("atm", 1), ("docsis", 2)])?.unwrap_or(0);
    let minislot = section.small("minislot")?;
    let usual = match (ether, cells) {
        (true, _) => Framing::ETHER.overhead_bytes,
        (_, 1) => 8,
        _ => 0,
    };
    let said = section.read("overhead", overhead)?;
    Ok(Framing {
        overhead_bytes: said.unwrap_or(usual),
        min_frame: section.small("min_frame")?.unwrap_or(0),
        cells: match cells {
            1 => Cells::Atm,
            2 => Cells::Docsis { minislot: minislot.unwrap_or(DOCSIS_MINISLOT) },
            _ => Cells::None,
        },
    })
}

/// Less takes the longest ordinary frame off whole.
const LEAST_OVERHEAD: i32 = -1513;
/// As much as the longest packet there is.
const MOST_OVERHEAD: i32 = 65_535;

fn overhead(path: &str, node: &Node) -> Result<i32, ConfigError> {
    let bytes = quantity::signed(path, node)?;
    let why = match i32::try_from(bytes) {
        Ok(bytes @ LEAST_OVERHEAD..=MOST_OVERHEAD) => return Ok(bytes),
        _ if bytes < 0 => "no frame would take any time",
        _ => "too large",
    };
    let error = ConfigError::value(path, &node.shown(), why).at(&node.place);
    Err(error.help(format!("write bytes from {LEAST_OVERHEAD} to {MOST_OVERHEAD}")))
}

/// Bytes of a DOCSIS minislot, where none are given.
const DOCSIS_MINISLOT: u32 = 16;
