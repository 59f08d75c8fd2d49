//! Models written in one line: `normal,20ms,3ms` as in TLEM, or `normal(20ms, sd=3ms)`.
//!
//! ```text
//!   call  := [name,] args  |  name ( args )
//!   args  := arg { , arg }          commas inside brackets do not count
//!   arg   := [key =] value
//!   parts := part = call { , part = call }            the values of --up and --down
//! ```

use super::error::{EmulationConfigError, listed};
use super::parts::{LinkPart, PartModel};
use super::quantity;
use super::section::unknown_word;
use super::tree::{ConfigEntry, ConfigLocation, ConfigNode, ConfigTable, ConfigValue};

/// A part of a text, and the number of characters before it.
#[derive(Clone, Copy)]
struct LocatedText<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> LocatedText<'t> {
    fn whole(text: &'t str) -> Self {
        Self { text, at: 0 }.trimmed()
    }

    fn trimmed(self) -> Self {
        let lead = self.text.len() - self.text.trim_start().len();
        let at = self.at + self.text[..lead].chars().count();
        Self { text: self.text.trim(), at }
    }

    fn tail(self, bytes: usize) -> Self {
        let at = self.at + self.text[..bytes].chars().count();
        Self { text: &self.text[bytes..], at }
    }

    /// Splits at the commas outside brackets.
    fn at_commas(self) -> Result<Vec<Self>, (&'static str, usize)> {
        let (mut pieces, mut start, mut depth) = (Vec::new(), (0, self.at), 0_usize);
        let mut chars = self.at;
        for (at, c) in self.text.char_indices() {
            match c {
                '(' => depth += 1,
                ')' if depth == 0 => return Err(("a `)` without its `(`", chars)),
                ')' => depth -= 1,
                ',' if depth == 0 => {
                    pieces.push(Self { text: &self.text[start.0..at], at: start.1 }.trimmed());
                    start = (at + 1, chars + 1);
                }
                _ => {}
            }
            chars += 1;
        }
        if depth > 0 {
            return Err(("a `(` without its `)`", chars));
        }
        pieces.push(Self { text: &self.text[start.0..], at: start.1 }.trimmed());
        Ok(pieces)
    }

    /// Splits `key=value`; the key is `None` if there is none. A `=` after the first bracket does
    /// not count.
    fn key(self) -> (Option<&'t str>, Self) {
        let end = self.text.find(['=', '(']).filter(|end| self.text[*end..].starts_with('='));
        match end {
            Some(end) => {
                let key = self.text[..end].trim();
                (Some(key), self.tail(end + 1).trimmed())
            }
            None => (None, self),
        }
    }

    /// Splits `name(args)` into the name and the arguments; `None` if the text does not have this
    /// form.
    fn call(self) -> Option<(&'t str, Self)> {
        let open = self.text.find('(')?;
        let inner = self.text[open + 1..].strip_suffix(')')?;
        Some((self.text[..open].trim(), Self { text: inner, ..self.tail(open + 1) }))
    }
}

/// Parses a part of a link that is written in one line. Returns `None` for `none`, which means
/// that the link lacks this part.
pub(crate) fn part(
    part: &LinkPart,
    path: &str,
    text: &str,
    location: &ConfigLocation,
) -> Result<Option<ConfigTable>, EmulationConfigError> {
    let whole = LocatedText::whole(text);
    // If `none` is the name of one of the part's models, it means that model.
    if whole.text == "none" && part.model("none").is_none() {
        return Ok(None);
    }
    if whole.text.starts_with('{') {
        let error = EmulationConfigError::value(path, text, "tables of TOML are for files");
        let error = error.at(&location.advanced_by(whole.at));
        let model = part.models.get(1).unwrap_or(&part.models[0]);
        let form = format!("{}({})", model.name, listed(model.arguments));
        return Err(error.help(format!("write it as {form} or model(name=value, …)")));
    }
    let torn = |(what, at)| {
        let error = EmulationConfigError::value(path, text, what).at(&location.advanced_by(at));
        error.help("write it as normal(20ms, 3ms) or normal,20ms,3ms")
    };
    let (name, arguments) = match whole.call() {
        Some((name, inner)) => (Some((name, whole.at)), inner.at_commas().map_err(torn)?),
        None => split_name(part, whole.at_commas().map_err(torn)?),
    };
    let model = match name {
        None => part.model(part.default).expect("the default is one of the models"),
        Some((name, at)) => part
            .model(name)
            .ok_or_else(|| unknown_word(path, name, &location.advanced_by(at), &part.names()))?,
    };
    let mut table = ConfigTable::default();
    if name.is_some() {
        table.put(part.selector, ConfigNode::text(model.name, location.advanced_by(whole.at)));
    }
    if let (None, Some(first), true) = (name, arguments.first(), part.is_share()) {
        quantity::clear_share(path, first.text, &location.advanced_by(first.at))?;
    }
    let empty = arguments.len() == 1 && arguments[0].text.is_empty() && name.is_some();
    if !empty {
        fill(&mut table, model, path, &arguments, location)?;
    }
    Ok(Some(table))
}

/// Splits off the model name: the first argument if it names a model, or if it is a word that
/// cannot be a value.
fn split_name<'t>(
    part: &LinkPart,
    mut pieces: Vec<LocatedText<'t>>,
) -> (Option<(&'t str, usize)>, Vec<LocatedText<'t>>) {
    let first = pieces[0];
    let named = part.model(first.text).is_some();
    let word = first.text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !quantity::is_no_number(first.text);
    let (key, _) = first.key();
    if named || (word && key.is_none()) {
        pieces.remove(0);
        return (Some((first.text, first.at)), pieces);
    }
    (None, pieces)
}

fn fill(
    table: &mut ConfigTable,
    model: &PartModel,
    path: &str,
    arguments: &[LocatedText<'_>],
    location: &ConfigLocation,
) -> Result<(), EmulationConfigError> {
    let mut unnamed = 0;
    for argument in arguments {
        let (key, value) = argument.key();
        let at = location.advanced_by(value.at);
        let named_at = location.advanced_by(argument.at);
        let (key, rest) = match key {
            Some(key) => (key, false),
            None => {
                unnamed += 1;
                model
                    .argument(unnamed - 1)
                    .ok_or_else(|| too_many(model, path, argument, location))?
            }
        };
        let key = if key == "corr" { "half_life" } else { key };
        let node = ConfigNode::unquoted(value.text, at.clone());
        match table.get_mut(key).map(|node| &mut node.value) {
            Some(ConfigValue::List(list)) if rest => list.push(node),
            Some(_) => {
                let error = EmulationConfigError::key(format!("{path}.{key} is given twice"), "");
                return Err(error.at(&named_at).help("give it once"));
            }
            None if rest => {
                table.put(key, ConfigNode { location: at, value: ConfigValue::List(vec![node]) });
            }
            None => table.put_entry(ConfigEntry { key: key.to_owned(), location: named_at, node }),
        }
    }
    Ok(())
}

fn too_many(
    model: &PartModel,
    path: &str,
    argument: &LocatedText<'_>,
    location: &ConfigLocation,
) -> EmulationConfigError {
    let what = format!("{} takes no more values", model.name);
    let error = EmulationConfigError::value(path, argument.text, what)
        .at(&location.advanced_by(argument.at));
    error.help(format!("{} takes: {}", model.name, listed(model.arguments)))
}

/// Parses the parts of a whole link: `rate=50m,delay=normal(20ms,3ms)`.
pub(crate) fn parts(
    text: &str,
    location: &ConfigLocation,
) -> Result<ConfigTable, EmulationConfigError> {
    let whole = LocatedText::whole(text);
    let torn = |(what, at)| {
        let error =
            EmulationConfigError::value("the link", text, what).at(&location.advanced_by(at));
        error.help("write it as rate=50m,delay=normal(20ms,3ms)")
    };
    let mut table = ConfigTable::default();
    for piece in whole.at_commas().map_err(torn)? {
        let (key, value) = piece.key();
        let at = location.advanced_by(value.at);
        let Some(key) = key else {
            let what = "expected name=value";
            let error = EmulationConfigError::value("the link", piece.text, what);
            let names: Vec<_> = super::parts::LINK_PARTS.iter().map(|part| part.name).collect();
            return Err(error
                .at(&location.advanced_by(piece.at))
                .help(format!("names: {}", listed(&names))));
        };
        let node = ConfigNode::text(value.text, at);
        match (key, table.get_mut(key)) {
            // Several losses form a list: each of them is applied independently.
            ("loss", Some(ConfigNode { value: ConfigValue::List(list), .. })) => list.push(node),
            ("loss", Some(first)) => {
                let list = vec![first.clone(), node.clone()];
                *first = ConfigNode { location: node.location, value: ConfigValue::List(list) };
            }
            (_, Some(_)) => {
                let error = EmulationConfigError::key(format!("{key} is given twice"), "");
                return Err(error.at(&location.advanced_by(piece.at)).help("give it once"));
            }
            (_, None) => table.put(key, node),
        }
    }
    Ok(table)
}

/// Expands each part that is written in one line into a table, and removes parts that are `none`.
///
/// # Errors
/// [`EmulationConfigError`] if a line is invalid, for example names an unknown model.
pub(crate) fn expand(link: &mut ConfigTable, path: &str) -> Result<(), EmulationConfigError> {
    for shape in &super::parts::LINK_PARTS {
        let path = format!("{path}.{}", shape.name);
        let Some(node) = link.get_mut(shape.name) else { continue };
        if let ConfigValue::List(list) = &mut node.value {
            let mut kept = Vec::new();
            for node in std::mem::take(list) {
                kept.extend(expanded(shape, &path, node)?);
            }
            *list = kept;
            continue;
        }
        match expanded(shape, &path, node.clone())? {
            Some(table) => *node = table,
            None => link.remove(shape.name),
        }
    }
    Ok(())
}

fn expanded(
    shape: &LinkPart,
    path: &str,
    node: ConfigNode,
) -> Result<Option<ConfigNode>, EmulationConfigError> {
    let text = match &node.value {
        ConfigValue::Text(text) | ConfigValue::Number(text) => text,
        _ => return Ok(Some(node)),
    };
    let table = part(shape, path, text, &node.location)?;
    Ok(table.map(|table| ConfigNode::table(table, node.location)))
}
