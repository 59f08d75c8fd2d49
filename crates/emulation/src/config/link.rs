//! Reads the settings under `link.NAME`: one link in one direction.

use slipring_link::{LinkSpec, RateSpec, SerialisePoint};

use super::error::EmulationConfigError;
use super::files::ConfigFiles;
use super::section::{self, ConfigSection};
use super::tree::{ConfigEntry, ConfigNode, ConfigTable, ConfigValue};
use super::{delay, engine_errors, loss, mangle, queue, rate};

/// Keys that determine where a link is in the network and what it inherits, not how it behaves.
pub(super) const WIRING_KEYS: [&str; 3] = ["from", "to", "like"];

/// Reads the behaviour of a link, whose parts must already be expanded to tables.
pub(super) fn read(
    name: &str,
    path: &str,
    node: &ConfigNode,
    files: &ConfigFiles,
) -> Result<LinkSpec, EmulationConfigError> {
    let mut section = ConfigSection::new(path, node)?;
    for key in WIRING_KEYS {
        section.get(key);
    }
    let mut link = LinkSpec::wire(name);
    if let Some((rate, framing)) =
        section.read("rate", |path, node| rate::read(path, node, files))?
    {
        (link.rate, link.framing) = (rate, framing);
    }
    if let Some(profile) =
        section.read("profile", |path, node| mangle::profile(path, node, files))?
    {
        let (profile, bps) = profile;
        link.profile = Some(profile);
        if let (RateSpec::Unlimited, Some(bps)) = (&link.rate, bps.filter(|bps| *bps > 0)) {
            link.rate = RateSpec::Constant { bps };
        }
    }
    let usual_bytes = queue::usual_bytes(section.table().get("queue"), &link.rate);
    link.hold = section.read("hold", mangle::hold)?;
    link.police = section.read("police", mangle::police)?;
    link.loss =
        section.read("loss", |path, node| loss::read(path, node, files))?.unwrap_or_default();
    link.queue =
        section.read("queue", |path, node| queue::read(path, node, files))?.unwrap_or_default();
    link.queue.bytes = link.queue.bytes.or(usual_bytes);
    link.mangle = section.read("mangle", mangle::mangle)?;
    link.corrupt = section.read("corrupt", mangle::corrupt)?;
    link.duplicate =
        section.read("duplicate", |path, node| mangle::duplicate(path, node, files))?;
    let delay = section.read("delay", |path, node| delay::read(path, node, files))?;
    let (delay, order) = delay.unwrap_or_default();
    link.delay = delay;
    link.order = section.one_of("order", &delay::ORDER_POLICIES)?.or(order).unwrap_or_default();
    let ends = [("end", SerialisePoint::End), ("start", SerialisePoint::Start)];
    link.serialise = section.one_of("serialise", &ends)?.unwrap_or_default();
    link.offset_ns = section.time("offset")?.unwrap_or(0);
    link.output_bps = section.read("output", super::quantity::rate_bps)?;
    section.finish()?;
    link.check().map_err(|error| {
        let lossy = link.loss.iter().position(|loss| loss.check().is_err());
        engine_errors::refused(error, path, node, lossy)
    })?;
    Ok(link)
}

/// Merges the settings `own` of a link with those of the link that its key `like` names, which are
/// `base`. A part of the link replaces the inherited part if it names a model that the inherited
/// part does not name, or if one of the two parts is a list. Otherwise the keys that the link's
/// part has replace those of the inherited part, and the other keys of the inherited part stay.
pub(super) fn merged(base: &ConfigTable, own: &ConfigTable) -> ConfigTable {
    let mut merged = base.clone();
    for key in WIRING_KEYS {
        merged.remove(key);
    }
    for entry in &own.entries {
        let node = match (base.get(&entry.key), &entry.node.value) {
            (Some(ConfigNode { value: ConfigValue::Table(base), .. }), ConfigValue::Table(own))
                if same_model(&entry.key, base, own) =>
            {
                let mut part = base.clone();
                own.entries.iter().for_each(|entry| part.put_entry(entry.clone()));
                ConfigNode::table(part, entry.node.location.clone())
            }
            _ => entry.node.clone(),
        };
        merged.put_entry(ConfigEntry { node, ..entry.clone() });
    }
    merged
}

fn same_model(part: &str, base: &ConfigTable, own: &ConfigTable) -> bool {
    let Some(shape) = super::parts::LinkPart::by_name(part) else { return false };
    let model = |table: &ConfigTable| {
        let unsaid = ["trace", "wasm"].into_iter().find(|key| table.get(key).is_some());
        table.word(shape.selector).or(unsaid).map(str::to_owned)
    };
    model(own).is_none() || model(own) == model(base)
}

/// Returns the name of the link that a link inherits from, and where it was written.
pub(super) fn like<'n>(
    path: &str,
    table: &'n ConfigTable,
) -> Result<Option<(String, &'n ConfigNode)>, EmulationConfigError> {
    let node = table.get("like");
    node.map(|node| Ok((section::text(&format!("{path}.like"), node)?, node))).transpose()
}
