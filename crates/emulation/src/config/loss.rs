//! Which frames are lost: the settings of `loss`.

use slipring_link::{LossModel, LossSpec, LossWindow, Place};
use slipring_model::{Chance, format};

use super::error::ConfigError;
use super::files::Files;
use super::quantity;
use super::section::{self, Section};
use super::theaterq::Trace;
use super::tree::{Node, Value};
use super::wasm;

#[derive(Clone, Copy)]
enum Model {
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

const MODELS: [(&str, Model); 11] = [
    ("plr", Model::Bernoulli),
    ("ber", Model::Ber),
    ("ge", Model::GilbertElliott),
    ("timed-ge", Model::Timed),
    ("state4", Model::FourState),
    ("pattern", Model::Pattern),
    ("nth", Model::Nth),
    ("numbers", Model::Numbers),
    ("time", Model::Time),
    ("trace", Model::Trace),
    ("wasm", Model::Wasm),
];

const PLACES: [(&str, Place); 2] = [("pre", Place::Pre), ("post", Place::Post)];

/// Reads one loss, or a list of them.
pub(super) fn read(path: &str, node: &Node, files: &Files) -> Result<Vec<LossSpec>, ConfigError> {
    match &node.value {
        Value::List(list) => list.iter().map(|node| one(path, node, files)).collect(),
        _ => Ok(vec![one(path, node, files)?]),
    }
}

fn one(path: &str, node: &Node, files: &Files) -> Result<LossSpec, ConfigError> {
    let mut section = Section::new(path, node)?;
    let unsaid = if section.has("wasm") { Model::Wasm } else { Model::Bernoulli };
    let model = section.word("model", &MODELS)?.unwrap_or(unsaid);
    let loss = LossSpec {
        model: self::model(&mut section, model, files)?,
        place: section.word("where", &PLACES)?.unwrap_or_default(),
    };
    section.finish()?;
    Ok(loss)
}

fn model(section: &mut Section<'_>, model: Model, files: &Files) -> Result<LossModel, ConfigError> {
    let need = |section: &mut Section<'_>, key| section.need(key, quantity::probability);
    Ok(match model {
        Model::Bernoulli => LossModel::Bernoulli(section.need("p", section::chance)?),
        Model::Ber => LossModel::Ber(need(section, "ber")?),
        Model::GilbertElliott => LossModel::GilbertElliott {
            p: need(section, "p")?,
            r: need(section, "r")?,
            bad: section.probability("bad")?.unwrap_or(1.0),
            good: section.probability("good")?.unwrap_or(0.0),
        },
        Model::Timed => LossModel::TimedGilbertElliott {
            good_ns: section.need("good_time", quantity::time_ns)?,
            bad_ns: section.need("bad_time", quantity::time_ns)?,
            bad: section.probability("bad")?.unwrap_or(1.0),
            good: section.probability("good")?.unwrap_or(0.0),
        },
        Model::FourState => LossModel::FourState {
            p13: need(section, "p13")?,
            p31: need(section, "p31")?,
            p32: section.probability("p32")?.unwrap_or(0.0),
            p23: section.probability("p23")?.unwrap_or(1.0),
            p14: section.probability("p14")?.unwrap_or(0.0),
        },
        Model::Pattern => pattern(section, files)?,
        Model::Nth => {
            let every = section.need("every", quantity::count)?;
            LossModel::Nth { every, nth: section.count("nth")?.unwrap_or(every) }
        }
        Model::Numbers => LossModel::Numbers(section.need("numbers", numbers)?),
        Model::Time => windows(section)?,
        Model::Wasm => LossModel::User(wasm::loss(section, files)?),
        Model::Trace => Trace::read(section, "file", files)?.losses(),
    })
}

/// Zeros and ones as they stand, or the name of a file of them.
fn pattern(section: &mut Section<'_>, files: &Files) -> Result<LossModel, ConfigError> {
    let file = section.read("file", |path, node| {
        let name = section::text(path, node)?;
        files.parsed(&name, node, format::loss_bits)
    })?;
    if let Some(bits) = file {
        return Ok(LossModel::Pattern(bits));
    }
    let bits = section.need("bits", |path, node| {
        let said = section::text(path, node)?;
        if said.is_empty() || said.contains(|c: char| !matches!(c, '0'..='9' | ' ' | '_')) {
            return files.parsed(&said, node, format::loss_bits);
        }
        let bad = |what: &str, at| {
            let error = ConfigError::value(path, &said, what).at(&node.place.right(at));
            error.help("write 0 for a frame that is lost, 1 for one that passes; or file=NAME")
        };
        match said.find(|c: char| matches!(c, '2'..='9')) {
            Some(at) => Err(bad("there are only zeros and ones", at)),
            None => format::loss_bits(&said).map_err(|error| bad(&error.what, 0)),
        }
    })?;
    Ok(LossModel::Pattern(bits))
}

fn numbers(path: &str, node: &Node) -> Result<Vec<u64>, ConfigError> {
    match &node.value {
        Value::List(list) => list.iter().map(|node| quantity::count(path, node)).collect(),
        _ => Ok(vec![quantity::count(path, node)?]),
    }
}

fn windows(section: &mut Section<'_>) -> Result<LossModel, ConfigError> {
    let windows = match section.get("windows") {
        Some(Node { value: Value::List(list), .. }) => {
            let path = section.path_of("windows");
            list.iter().map(|node| window(&mut Section::new(path.clone(), node)?, true)).collect()
        }
        Some(other) => {
            let path = section.path_of("windows");
            let error = quantity::wrong_kind(&path, &other.value, &other.place);
            Err(error.help("write [{ from = \"1s\", until = \"2s\", p = 1.0 }]"))
        }
        None => window(section, false).map(|window| vec![window]),
    }?;
    Ok(LossModel::ByTime { windows, period_ns: section.time("period")? })
}

fn window(section: &mut Section<'_>, alone: bool) -> Result<LossWindow, ConfigError> {
    let window = LossWindow {
        from_ns: section.need("from", quantity::time_ns)?,
        until_ns: section.need("until", quantity::time_ns)?,
        chance: section.chance("p")?.unwrap_or(Chance::ALWAYS),
    };
    // A window of its own has no other names; within the loss there are some.
    if alone { section.finish().map(|()| window) } else { Ok(window) }
}
