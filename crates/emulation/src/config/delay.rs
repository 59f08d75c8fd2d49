//! The settings of `delay`.

use std::fmt;
use std::time::Duration;

use slipring_cli::units::human;
use slipring_link::{DelayModel, DelaySpec, DelayStep, OrderPolicy, TraceEnd};
use slipring_model::{Dist, ParameterError, format};

use super::engine_errors;
use super::error::EmulationConfigError;
use super::files::ConfigFiles;
use super::quantity;
use super::rate::period;
use super::section::{self, ConfigSection};
use super::theaterq::TheaterqTrace;
use super::tree::ConfigNode;
use super::wasm;

#[derive(Clone, Copy)]
enum DelayKind {
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

const DELAY_KINDS: [(&str, DelayKind); 14] = [
    ("const", DelayKind::Const),
    ("uniform", DelayKind::Uniform),
    ("exp", DelayKind::Exp),
    ("normal", DelayKind::Normal),
    ("pareto", DelayKind::Pareto),
    ("lognormal", DelayKind::Lognormal),
    ("gamma", DelayKind::Gamma),
    ("weibull", DelayKind::Weibull),
    ("table", DelayKind::Table),
    ("cdf", DelayKind::Cdf),
    ("samples", DelayKind::Samples),
    ("trace", DelayKind::Trace),
    ("inter-packet", DelayKind::InterPacket),
    ("wasm", DelayKind::Wasm),
];

/// The order policies by name.
pub(super) const ORDER_POLICIES: [(&str, OrderPolicy); 5] = [
    ("strict", OrderPolicy::Strict),
    ("correlated", OrderPolicy::Correlated),
    ("free", OrderPolicy::Free),
    ("drop", OrderPolicy::Drop),
    ("path", OrderPolicy::Path),
];

const TRACE_ENDS: [(&str, TraceEnd); 3] =
    [("loop", TraceEnd::Loop), ("hold", TraceEnd::Hold), ("once", TraceEnd::Once)];

/// Reads a delay and its order policy. If no policy is given, a delay with a half-life has the
/// policy `Correlated`. For other delays, `None` is returned, and the link chooses the policy.
pub(super) fn read(
    path: &str,
    node: &ConfigNode,
    files: &ConfigFiles,
) -> Result<(DelaySpec, Option<OrderPolicy>), EmulationConfigError> {
    let mut section = ConfigSection::new(path, node)?;
    let unsaid = if section.has("wasm") { DelayKind::Wasm } else { DelayKind::Const };
    let model = section.one_of("dist", &DELAY_KINDS)?.unwrap_or(unsaid);
    let half_life_ns = section.time("half_life")?;
    let order = section.one_of("order", &ORDER_POLICIES)?;
    let model = self::read_model(&mut section, model, files)?;
    section.finish()?;
    let order = order.or(half_life_ns.map(|_| OrderPolicy::Correlated));
    Ok((DelaySpec { model, half_life_ns }, order))
}

fn read_model(
    section: &mut ConfigSection<'_>,
    model: DelayKind,
    files: &ConfigFiles,
) -> Result<DelayModel, EmulationConfigError> {
    match model {
        DelayKind::Const => Ok(DelayModel::Constant(section.time("mean")?.unwrap_or(0))),
        DelayKind::Trace => trace(section, files),
        DelayKind::InterPacket => inter_packet(section),
        DelayKind::Wasm => Ok(DelayModel::User(wasm::delay(section, files)?)),
        DelayKind::Samples if section.flag("in_turn")? == Some(true) => {
            Ok(DelayModel::InTurn(file(section, files, format::samples)?))
        }
        _ => Ok(DelayModel::Random(dist(section, model, files)?)),
    }
}

fn dist(
    section: &mut ConfigSection<'_>,
    model: DelayKind,
    files: &ConfigFiles,
) -> Result<Dist, EmulationConfigError> {
    let cut = !matches!(model, DelayKind::Uniform | DelayKind::Exp);
    let dist = match model {
        DelayKind::Uniform => Dist::uniform(ns(section, "min")?, ns(section, "max")?),
        DelayKind::Exp => {
            Dist::exponential(section.time("min")?.unwrap_or(0), real_ns(section, "mean")?)
        }
        DelayKind::Normal => Dist::normal(real_ns(section, "mean")?, real_ns(section, "sd")?),
        DelayKind::Lognormal => Dist::lognormal(real_ns(section, "mean")?, real_ns(section, "sd")?),
        DelayKind::Pareto => Dist::pareto(real_ns(section, "scale")?, shape(section)?),
        DelayKind::Weibull => Dist::weibull(shape(section)?, real_ns(section, "scale")?),
        DelayKind::Gamma => gamma(section)?,
        DelayKind::Table => {
            let table = file(section, files, format::netem_table)?;
            Dist::table(&table, real_ns(section, "mean")?, real_ns(section, "sd")?)
        }
        DelayKind::Cdf => Dist::cdf(&file(section, files, format::cdf)?),
        DelayKind::Samples => Dist::samples(&file(section, files, format::samples)?),
        DelayKind::Const | DelayKind::Trace | DelayKind::InterPacket | DelayKind::Wasm => {
            Ok(Dist::constant(0))
        }
    };
    let dist = dist.map_err(|error| refused(section, &error))?;
    let dist = if cut { within(section, dist)? } else { upper(section, dist, model)? };
    if section.has("min") || section.has("max") {
        return Ok(dist);
    }
    refuse_missed_mean(section, &dist)?;
    Ok(dist)
}

/// Maximum relative deviation of the actual mean from the requested one that is not an error.
const MAX_MEAN_ERROR_SHARE: f64 = 0.05;

/// Returns an error if a distribution is cut at 0 so much that its mean changes by more than
/// [`MAX_MEAN_ERROR_SHARE`]. If the user has set `min` or `max`, the caller does not call this, and
/// there is only a warning.
fn refuse_missed_mean(
    section: &ConfigSection<'_>,
    dist: &Dist,
) -> Result<(), EmulationConfigError> {
    let Some(missed) = MeanMismatch::of(dist) else { return Ok(()) };
    if missed.share() <= MAX_MEAN_ERROR_SHARE {
        return Ok(());
    }
    let asked = section.table().get("mean").map(ConfigNode::shown).unwrap_or_default();
    let cause = format!("the mean would be {missed}: what is below 0 is never drawn");
    let error = EmulationConfigError::value(&format!("{}.mean", section.path), &asked, cause);
    let help = "give a deviation below half of the mean; a law without negative values, as \
                gamma or lognormal; or min=0 to have it as it is";
    Err(error.at(section.location_of("mean")).help(help))
}

/// The requested mean and the actual mean of a distribution of delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MeanMismatch {
    asked_ns: f64,
    drawn_ns: f64,
}

impl MeanMismatch {
    /// Returns the requested and the actual mean of a distribution; `None` if the user did not
    /// request a mean.
    pub(crate) fn of(dist: &Dist) -> Option<Self> {
        dist.requested_mean_ns().map(|asked_ns| Self { asked_ns, drawn_ns: dist.mean_ns() })
    }

    /// Returns the relative error of the actual mean.
    pub(crate) fn share(self) -> f64 {
        let off_ns = (self.drawn_ns - self.asked_ns).abs();
        if off_ns == 0.0 { 0.0 } else { off_ns / self.asked_ns.max(0.0) }
    }
}

impl fmt::Display for MeanMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [drawn, asked] = [self.drawn_ns, self.asked_ns]
            .map(|ns| human::span(Duration::from_nanos(ns.round() as u64)));
        write!(f, "{drawn}, not {asked}")
    }
}

/// Maximum deviation of a gamma distribution, as a multiple of the mean: it keeps the shape at 0.1
/// or more.
const MAX_DEVIATION_MEANS: f64 = 3.0;

/// Builds a gamma distribution from mean and deviation, or from shape and scale.
fn gamma(
    section: &mut ConfigSection<'_>,
) -> Result<Result<Dist, ParameterError>, EmulationConfigError> {
    if section.has("shape") || section.has("scale") {
        return Ok(Dist::gamma(shape(section)?, real_ns(section, "scale")?));
    }
    let (mean, sd) = (real_ns(section, "mean")?, real_ns(section, "sd")?);
    // The error reports the limit of the shape in terms of the parameters that the user gave.
    if !(mean / 1000.0..=mean * MAX_DEVIATION_MEANS).contains(&sd) || mean == 0.0 {
        let must_be = "from a thousandth of the mean to three times as much as it";
        return Ok(Err(ParameterError { parameter: "sd", must_be, value: sd }));
    }
    Ok(Dist::gamma((mean / sd) * (mean / sd), sd * sd / mean))
}

/// Truncates a distribution to `min` and `max`.
fn within(section: &mut ConfigSection<'_>, dist: Dist) -> Result<Dist, EmulationConfigError> {
    let (min, max) = (section.time("min")?, section.time("max")?);
    if min.is_none() && max.is_none() {
        return Ok(dist);
    }
    let max = max.map_or(f64::INFINITY, |max| max as f64);
    dist.within(min.unwrap_or(0) as f64, max).map_err(|error| refused(section, &error))
}

/// Applies `max` to an exponential distribution, which only `max` truncates; `min` is an offset.
fn upper(
    section: &mut ConfigSection<'_>,
    dist: Dist,
    model: DelayKind,
) -> Result<Dist, EmulationConfigError> {
    match (model, section.time("max")?) {
        (DelayKind::Exp, Some(max)) => {
            dist.within(0.0, max as f64).map_err(|error| refused(section, &error))
        }
        _ => Ok(dist),
    }
}

fn refused(section: &ConfigSection<'_>, error: &ParameterError) -> EmulationConfigError {
    let cause = engine_errors::mismatch(error, section.table());
    let location = section.location_of(error.parameter);
    let error =
        EmulationConfigError::key(format!("{} cannot be built", section.path), cause).at(location);
    error.help("give values that fit each other")
}

fn ns(section: &mut ConfigSection<'_>, key: &'static str) -> Result<u64, EmulationConfigError> {
    section.required(key, quantity::time_ns)
}

fn real_ns(
    section: &mut ConfigSection<'_>,
    key: &'static str,
) -> Result<f64, EmulationConfigError> {
    Ok(ns(section, key)? as f64)
}

fn shape(section: &mut ConfigSection<'_>) -> Result<f64, EmulationConfigError> {
    section.required("shape", quantity::real)
}

fn file<T>(
    section: &mut ConfigSection<'_>,
    files: &ConfigFiles,
    reader: impl Fn(&str) -> Result<T, format::FormatError>,
) -> Result<T, EmulationConfigError> {
    section.required("file", |path, node| {
        let name = section::text(path, node)?;
        files.parsed(&name, node, &reader)
    })
}

fn trace(
    section: &mut ConfigSection<'_>,
    files: &ConfigFiles,
) -> Result<DelayModel, EmulationConfigError> {
    let theaterq = section.one_of("format", &[("steps", false), ("theaterq", true)])?;
    let end = section.one_of("end", &TRACE_ENDS)?.unwrap_or_default();
    let smooth = section.flag("smooth")?.unwrap_or(false);
    if theaterq == Some(true) {
        let trace = TheaterqTrace::read(section, "file", files)?;
        let (steps, period_ns) = (trace.delays()?, trace.period_ns);
        return Ok(DelayModel::Trace { steps, period_ns, end, smooth });
    }
    let rows = file(section, files, format::delay_steps)?;
    let period_ns = period(section, &rows)?;
    let step = |step: &format::TraceStep| DelayStep {
        at_ns: step.from_ns,
        delay_ns: step.value,
        route: 0,
    };
    Ok(DelayModel::Trace { steps: rows.iter().map(step).collect(), period_ns, end, smooth })
}

fn inter_packet(section: &mut ConfigSection<'_>) -> Result<DelayModel, EmulationConfigError> {
    Ok(DelayModel::InterPacket {
        min_gap_ns: ns(section, "min_gap")?,
        max_gap_ns: ns(section, "max_gap")?,
        delay_ns: section.time("delay")?.unwrap_or(0),
    })
}
