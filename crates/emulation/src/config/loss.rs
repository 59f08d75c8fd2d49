//! The settings of `loss`.

use slipring_link::{LossModel, LossPosition, LossSpec, LossWindow};
use slipring_model::{Chance, format};

use super::error::EmulationConfigError;
use super::files::ConfigFiles;
use super::quantity;
use super::section::{self, ConfigSection};
use super::theaterq::TheaterqTrace;
use super::tree::{ConfigNode, ConfigValue};
use super::wasm;

#[derive(Clone, Copy)]
enum LossKind {
    Bernoulli,
    Ber,
    GilbertElliott,
    Timed,
    FourState,
    Pattern,
    Nth,
    Numbers,
    Time,
    Trace,
    Wasm,
}

const LOSS_KINDS: [(&str, LossKind); 11] = [
    ("plr", LossKind::Bernoulli),
    ("ber", LossKind::Ber),
    ("ge", LossKind::GilbertElliott),
    ("timed-ge", LossKind::Timed),
    ("state4", LossKind::FourState),
    ("pattern", LossKind::Pattern),
    ("nth", LossKind::Nth),
    ("numbers", LossKind::Numbers),
    ("time", LossKind::Time),
    ("trace", LossKind::Trace),
    ("wasm", LossKind::Wasm),
];

const LOSS_POSITIONS: [(&str, LossPosition); 2] =
    [("pre", LossPosition::Pre), ("post", LossPosition::Post)];

/// Reads one loss model, or a list of loss models.
pub(super) fn read(
    path: &str,
    node: &ConfigNode,
    files: &ConfigFiles,
) -> Result<Vec<LossSpec>, EmulationConfigError> {
    match &node.value {
        ConfigValue::List(list) => list.iter().map(|node| one(path, node, files)).collect(),
        _ => Ok(vec![one(path, node, files)?]),
    }
}

fn one(
    path: &str,
    node: &ConfigNode,
    files: &ConfigFiles,
) -> Result<LossSpec, EmulationConfigError> {
    let mut section = ConfigSection::new(path, node)?;
    let unsaid = if section.has("wasm") { LossKind::Wasm } else { LossKind::Bernoulli };
    let model = section.one_of("model", &LOSS_KINDS)?.unwrap_or(unsaid);
    let loss = LossSpec {
        model: self::read_model(&mut section, model, files)?,
        position: section.one_of("where", &LOSS_POSITIONS)?.unwrap_or_default(),
    };
    section.finish()?;
    Ok(loss)
}

fn read_model(
    section: &mut ConfigSection<'_>,
    model: LossKind,
    files: &ConfigFiles,
) -> Result<LossModel, EmulationConfigError> {
    let need = |section: &mut ConfigSection<'_>, key| section.required(key, quantity::probability);
    Ok(match model {
        LossKind::Bernoulli => LossModel::Bernoulli(section.required("p", section::chance)?),
        LossKind::Ber => LossModel::Ber(need(section, "ber")?),
        LossKind::GilbertElliott => LossModel::GilbertElliott {
            p: need(section, "p")?,
            r: need(section, "r")?,
            bad: section.probability("bad")?.unwrap_or(1.0),
            good: section.probability("good")?.unwrap_or(0.0),
        },
        LossKind::Timed => LossModel::TimedGilbertElliott {
            good_ns: section.required("good_time", quantity::time_ns)?,
            bad_ns: section.required("bad_time", quantity::time_ns)?,
            bad: section.probability("bad")?.unwrap_or(1.0),
            good: section.probability("good")?.unwrap_or(0.0),
        },
        LossKind::FourState => LossModel::FourState {
            p13: need(section, "p13")?,
            p31: need(section, "p31")?,
            p32: section.probability("p32")?.unwrap_or(0.0),
            p23: section.probability("p23")?.unwrap_or(1.0),
            p14: section.probability("p14")?.unwrap_or(0.0),
        },
        LossKind::Pattern => pattern(section, files)?,
        LossKind::Nth => {
            let every = section.required("every", quantity::count)?;
            LossModel::Nth { every, nth: section.count("nth")?.unwrap_or(every) }
        }
        LossKind::Numbers => LossModel::Numbers(section.required("numbers", numbers)?),
        LossKind::Time => windows(section)?,
        LossKind::Wasm => LossModel::User(wasm::loss(section, files)?),
        LossKind::Trace => TheaterqTrace::read(section, "file", files)?.losses(),
    })
}

/// Reads a pattern of losses: zeros and ones, written directly or in a file.
fn pattern(
    section: &mut ConfigSection<'_>,
    files: &ConfigFiles,
) -> Result<LossModel, EmulationConfigError> {
    let file = section.read("file", |path, node| {
        let name = section::text(path, node)?;
        files.parsed(&name, node, format::loss_bits)
    })?;
    if let Some(bits) = file {
        return Ok(LossModel::Pattern(bits));
    }
    let bits = section.required("bits", |path, node| {
        let text = section::text(path, node)?;
        if text.is_empty() || text.contains(|c: char| !matches!(c, '0'..='9' | ' ' | '_')) {
            return files.parsed(&text, node, format::loss_bits);
        }
        let bad = |what: &str, at| {
            let error =
                EmulationConfigError::value(path, &text, what).at(&node.location.advanced_by(at));
            error.help("write 0 for a frame that is lost, 1 for one that passes; or file=NAME")
        };
        match text.find(|c: char| matches!(c, '2'..='9')) {
            Some(at) => Err(bad("there are only zeros and ones", at)),
            None => format::loss_bits(&text).map_err(|error| bad(&error.what, 0)),
        }
    })?;
    Ok(LossModel::Pattern(bits))
}

fn numbers(path: &str, node: &ConfigNode) -> Result<Vec<u64>, EmulationConfigError> {
    match &node.value {
        ConfigValue::List(list) => list.iter().map(|node| quantity::count(path, node)).collect(),
        _ => Ok(vec![quantity::count(path, node)?]),
    }
}

fn windows(section: &mut ConfigSection<'_>) -> Result<LossModel, EmulationConfigError> {
    let windows = match section.get("windows") {
        Some(ConfigNode { value: ConfigValue::List(list), .. }) => {
            let path = section.path_of("windows");
            list.iter()
                .map(|node| window(&mut ConfigSection::new(path.clone(), node)?, true))
                .collect()
        }
        Some(other) => {
            let path = section.path_of("windows");
            let error = quantity::wrong_kind(&path, &other.value, &other.location);
            Err(error.help("write [{ from = \"1s\", until = \"2s\", p = 1.0 }]"))
        }
        None => window(section, false).map(|window| vec![window]),
    }?;
    Ok(LossModel::ByTime { windows, period_ns: section.time("period")? })
}

fn window(
    section: &mut ConfigSection<'_>,
    alone: bool,
) -> Result<LossWindow, EmulationConfigError> {
    let window = LossWindow {
        from_ns: section.required("from", quantity::time_ns)?,
        until_ns: section.required("until", quantity::time_ns)?,
        chance: section.chance("p")?.unwrap_or(Chance::ALWAYS),
    };
    // If the window is a separate table, it must have no other keys. Otherwise it shares its table
    // with the loss, which reads the remaining keys.
    if alone { section.finish().map(|()| window) } else { Ok(window) }
}
