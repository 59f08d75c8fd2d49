//! How long frames travel: the settings of `delay`.

use std::fmt;
use std::time::Duration;

use slipring_cli::units::human;
use slipring_link::{DelayModel, DelaySpec, DelayStep, OrderPolicy, TraceEnd};
use slipring_model::{Dist, ParameterError, format};

use super::error::ConfigError;
use super::files::Files;
use super::quantity;
use super::rate::period;
use super::section::{self, Section};
use super::terms;
use super::theaterq::Trace;
use super::tree::Node;
use super::wasm;

#[derive(Clone, Copy)]
enum Model {
    Const,
    Uniform,
    Exp,
    Normal,
    Pareto,
    Lognormal,
    Gamma,
    Weibull,
    Table,
    Cdf,
    Samples,
    Trace,
    InterPacket,
    Wasm,
}

const MODELS: [(&str, Model); 14] = [
    ("const", Model::Const),
    ("uniform", Model::Uniform),
    ("exp", Model::Exp),
    ("normal", Model::Normal),
    ("pareto", Model::Pareto),
    ("lognormal", Model::Lognormal),
    ("gamma", Model::Gamma),
    ("weibull", Model::Weibull),
    ("table", Model::Table),
    ("cdf", Model::Cdf),
    ("samples", Model::Samples),
    ("trace", Model::Trace),
    ("inter-packet", Model::InterPacket),
    ("wasm", Model::Wasm),
];

/// The order policies by name.
pub(super) const ORDERS: [(&str, OrderPolicy); 5] = [
    ("strict", OrderPolicy::Strict),
    ("correlated", OrderPolicy::Correlated),
    ("free", OrderPolicy::Free),
    ("drop", OrderPolicy::Drop),
    ("path", OrderPolicy::Path),
];

const ENDS: [(&str, TraceEnd); 3] =
    [("loop", TraceEnd::Loop), ("hold", TraceEnd::Hold), ("once", TraceEnd::Once)];

/// Reads a delay and the order that it keeps: correlated where there is a half-life, else strict.
pub(super) fn read(
    path: &str,
    node: &Node,
    files: &Files,
) -> Result<(DelaySpec, Option<OrderPolicy>), ConfigError> {
    let mut section = Section::new(path, node)?;
    let unsaid = if section.has("wasm") { Model::Wasm } else { Model::Const };
    let model = section.word("dist", &MODELS)?.unwrap_or(unsaid);
    let half_life_ns = section.time("half_life")?;
    let order = section.word("order", &ORDERS)?;
    let model = self::model(&mut section, model, files)?;
    section.finish()?;
    let order = order.or(half_life_ns.map(|_| OrderPolicy::Correlated));
    Ok((DelaySpec { model, half_life_ns }, order))
}

fn model(
    section: &mut Section<'_>,
    model: Model,
    files: &Files,
) -> Result<DelayModel, ConfigError> {
    match model {
        Model::Const => Ok(DelayModel::Constant(section.time("mean")?.unwrap_or(0))),
        Model::Trace => trace(section, files),
        Model::InterPacket => inter_packet(section),
        Model::Wasm => Ok(DelayModel::User(wasm::delay(section, files)?)),
        Model::Samples if section.flag("in_turn")? == Some(true) => {
            Ok(DelayModel::InTurn(file(section, files, format::samples)?))
        }
        _ => Ok(DelayModel::Random(dist(section, model, files)?)),
    }
}

fn dist(section: &mut Section<'_>, model: Model, files: &Files) -> Result<Dist, ConfigError> {
    let cut = !matches!(model, Model::Uniform | Model::Exp);
    let dist = match model {
        Model::Uniform => Dist::uniform(ns(section, "min")?, ns(section, "max")?),
        Model::Exp => {
            Dist::exponential(section.time("min")?.unwrap_or(0), real_ns(section, "mean")?)
        }
        Model::Normal => Dist::normal(real_ns(section, "mean")?, real_ns(section, "sd")?),
        Model::Lognormal => Dist::lognormal(real_ns(section, "mean")?, real_ns(section, "sd")?),
        Model::Pareto => Dist::pareto(real_ns(section, "scale")?, shape(section)?),
        Model::Weibull => Dist::weibull(shape(section)?, real_ns(section, "scale")?),
        Model::Gamma => gamma(section)?,
        Model::Table => {
            let table = file(section, files, format::netem_table)?;
            Dist::table(&table, real_ns(section, "mean")?, real_ns(section, "sd")?)
        }
        Model::Cdf => Dist::cdf(&file(section, files, format::cdf)?),
        Model::Samples => Dist::samples(&file(section, files, format::samples)?),
        Model::Const | Model::Trace | Model::InterPacket | Model::Wasm => Ok(Dist::constant(0)),
    };
    let dist = dist.map_err(|error| refused(section, &error))?;
    let dist = if cut { within(section, dist)? } else { upper(section, dist, model)? };
    if section.has("min") || section.has("max") {
        return Ok(dist);
    }
    refuse_missed_mean(section, &dist)?;
    Ok(dist)
}

/// By which share of the mean that was asked for another one may be delivered.
const MISSED_AT_MOST: f64 = 0.05;

/// Refuses what loses so much below 0 that its mean is another one. A range that was asked for
/// (`min`, `max`) is a wish, and only told of.
fn refuse_missed_mean(section: &Section<'_>, dist: &Dist) -> Result<(), ConfigError> {
    let Some(missed) = MissedMean::of(dist) else { return Ok(()) };
    if missed.share() <= MISSED_AT_MOST {
        return Ok(());
    }
    let asked = section.table().get("mean").map(Node::shown).unwrap_or_default();
    let cause = format!("the mean would be {missed}: what is below 0 is never drawn");
    let error = ConfigError::value(&format!("{}.mean", section.path), &asked, cause);
    let help = "give a deviation below half of the mean; a law without negative values, as \
                gamma or lognormal; or min=0 to have it as it is";
    Err(error.at(section.place_of("mean")).help(help))
}

/// A mean that was asked for, and the one that is delivered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MissedMean {
    asked_ns: f64,
    drawn_ns: f64,
}

impl MissedMean {
    /// The means of a distribution, where one was asked for.
    pub(crate) fn of(dist: &Dist) -> Option<Self> {
        dist.asked_mean_ns().map(|asked_ns| Self { asked_ns, drawn_ns: dist.mean_ns() })
    }

    /// How far the one is off, as a share of the other.
    pub(crate) fn share(self) -> f64 {
        let off_ns = (self.drawn_ns - self.asked_ns).abs();
        if off_ns == 0.0 { 0.0 } else { off_ns / self.asked_ns.max(0.0) }
    }
}

impl fmt::Display for MissedMean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [drawn, asked] = [self.drawn_ns, self.asked_ns]
            .map(|ns| human::span(Duration::from_nanos(ns.round() as u64)));
        write!(f, "{drawn}, not {asked}")
    }
}

/// Means that a deviation may be: the shape is at least 0.1.
const SHAPELESS: f64 = 3.0;

/// Mean and deviation, or shape and scale.
fn gamma(section: &mut Section<'_>) -> Result<Result<Dist, ParameterError>, ConfigError> {
    if section.has("shape") || section.has("scale") {
        return Ok(Dist::gamma(shape(section)?, real_ns(section, "scale")?));
    }
    let (mean, sd) = (real_ns(section, "mean")?, real_ns(section, "sd")?);
    // What the shape may be, in the words of who has not said it.
    if !(mean / 1000.0..=mean * SHAPELESS).contains(&sd) || mean == 0.0 {
        let must_be = "from a thousandth of the mean to three times as much as it";
        return Ok(Err(ParameterError { parameter: "sd", must_be, value: sd }));
    }
    Ok(Dist::gamma((mean / sd) * (mean / sd), sd * sd / mean))
}

/// Keeps what lies between `min` and `max`.
fn within(section: &mut Section<'_>, dist: Dist) -> Result<Dist, ConfigError> {
    let (min, max) = (section.time("min")?, section.time("max")?);
    if min.is_none() && max.is_none() {
        return Ok(dist);
    }
    let max = max.map_or(f64::INFINITY, |max| max as f64);
    dist.within(min.unwrap_or(0) as f64, max).map_err(|error| refused(section, &error))
}

/// `min` of the exponential is where it begins; only `max` cuts.
fn upper(section: &mut Section<'_>, dist: Dist, model: Model) -> Result<Dist, ConfigError> {
    match (model, section.time("max")?) {
        (Model::Exp, Some(max)) => {
            dist.within(0.0, max as f64).map_err(|error| refused(section, &error))
        }
        _ => Ok(dist),
    }
}

fn refused(section: &Section<'_>, error: &ParameterError) -> ConfigError {
    let cause = terms::mismatch(error, section.table());
    let place = section.place_of(error.parameter);
    let error = ConfigError::key(format!("{} cannot be built", section.path), cause).at(place);
    error.help("give values that fit each other")
}

fn ns(section: &mut Section<'_>, key: &'static str) -> Result<u64, ConfigError> {
    section.need(key, quantity::time_ns)
}

fn real_ns(section: &mut Section<'_>, key: &'static str) -> Result<f64, ConfigError> {
    Ok(ns(section, key)? as f64)
}

fn shape(section: &mut Section<'_>) -> Result<f64, ConfigError> {
    section.need("shape", quantity::real)
}

fn file<T>(
    section: &mut Section<'_>,
    files: &Files,
    reader: impl Fn(&str) -> Result<T, format::FormatError>,
) -> Result<T, ConfigError> {
    section.need("file", |path, node| {
        let name = section::text(path, node)?;
        files.parsed(&name, node, &reader)
    })
}

fn trace(section: &mut Section<'_>, files: &Files) -> Result<DelayModel, ConfigError> {
    let theaterq = section.word("format", &[("steps", false), ("theaterq", true)])?;
    let end = section.word("end", &ENDS)?.unwrap_or_default();
    let smooth = section.flag("smooth")?.unwrap_or(false);
    if theaterq == Some(true) {
        let trace = Trace::read(section, "file", files)?;
        let (steps, period_ns) = (trace.delays()?, trace.period_ns);
        return Ok(DelayModel::Trace { steps, period_ns, end, smooth });
    }
    let rows = file(section, files, format::delay_steps)?;
    let period_ns = period(section, &rows)?;
    let step =
        |step: &format::Step| DelayStep { at_ns: step.from_ns, delay_ns: step.value, route: 0 };
    Ok(DelayModel::Trace { steps: rows.iter().map(step).collect(), period_ns, end, smooth })
}

fn inter_packet(section: &mut Section<'_>) -> Result<DelayModel, ConfigError> {
    Ok(DelayModel::InterPacket {
        min_gap_ns: ns(section, "min_gap")?,
        max_gap_ns: ns(section, "max_gap")?,
        delay_ns: section.time("delay")?.unwrap_or(0),
    })
}
