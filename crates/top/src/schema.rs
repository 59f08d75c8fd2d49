//! The meaning of the published counter words: a JSON text stored before them.
//!
//! Objects of a kind have the same counters in the same order, so each kind is described once and
//! each object only stores the index of its first counter word. This keeps the text short even for
//! ten thousand links.
//!
//! ```json
//! {"schema": 1, "line": "slipring emulate …", …,
//!  "objects": [{"kind": "link", "name": "up", "from": "left", "to": "right", "first": 0}, …],
//!  "kinds": {"link": [{"name": "output.packets", "unit": "packets", "kind": "counter",
//!                      "direction": "out"}, …]}}
//! ```
//!
//! A counter only increases, so two snapshots may be subtracted. A gauge is a momentary value; it
//! is [`NO_VALUE`] if there is none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of these keys. A version may gain keys; no key changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The value of a gauge's counter word while the gauge has no value.
pub const NO_VALUE: u64 = u64::MAX;

/// A program and its published objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSchema {
    /// The version of these keys; [`SCHEMA_VERSION`] for a program of this version.
    pub schema: u32,
    /// The whole command line.
    pub line: String,
    /// Version of the program.
    pub version: String,
    /// The name given to the run; `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Seed of every random choice; `None` if the program makes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The objects with counters.
    pub objects: Vec<MetricObject>,
    /// The counters of the objects of each kind, in the order of their words.
    pub kinds: BTreeMap<String, Vec<MetricCounter>>,
}

/// An object with counters: a link, a port, or a part of a router.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricObject {
    /// The object's kind: `link`, `port`, or one of the kinds in [`crate::router`].
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// Source of the object's frames; `None` if the object has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Destination of the object's frames; `None` if the object has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How the program uses the object, such as `xdp native` for an interface; `None` if this is
    /// not published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Index of the object's first counter word.
    pub first: usize,
}

/// A counter or gauge of an object, published as one 64-bit word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricCounter {
    /// The counter's name, such as `lost.queue`.
    pub name: String,
    /// The counter's unit, such as `packets`, `bytes`, `ns`, `bit/s` or `1e-9`; may be empty.
    pub unit: String,
    /// Counter or gauge.
    pub kind: MetricKind,
    /// Direction of the counted frames; `None` if they have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<MetricDirection>,
}

/// The type of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    /// A counter, which only grows.
    Counter,
    /// A gauge: a momentary value.
    Gauge,
}

/// Direction of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricDirection {
    /// The frames go into the object.
    In,
    /// The frames come out of the object.
    Out,
}

impl MetricCounter {
    /// Creates a counter that only grows.
    #[must_use]
    pub fn growing(name: impl Into<String>, unit: &str) -> Self {
        Self::new(name.into(), unit, MetricKind::Counter)
    }

    /// Creates a gauge.
    #[must_use]
    pub fn gauge(name: impl Into<String>, unit: &str) -> Self {
        Self::new(name.into(), unit, MetricKind::Gauge)
    }

    fn new(name: String, unit: &str, kind: MetricKind) -> Self {
        let direction = match name.split('.').next() {
            Some("input" | "rx") => Some(MetricDirection::In),
            Some("output" | "tx") => Some(MetricDirection::Out),
            _ => None,
        };
        Self { name, unit: unit.to_owned(), kind, direction }
    }
}

impl MetricSchema {
    /// Sets the counters that every object of this kind has, in the order of their words.
    pub fn describe(&mut self, kind: &str, counters: Vec<MetricCounter>) {
        self.kinds.insert(kind.to_owned(), counters);
    }

    /// Adds an object, whose counter words follow those of the previous object.
    pub fn add(&mut self, object: MetricObject) {
        let first = self.words();
        self.objects.push(MetricObject { first, ..object });
    }

    /// Returns the number of counter words of all objects.
    #[must_use]
    pub fn words(&self) -> usize {
        let end =
            |object: &MetricObject| Some(object.first.saturating_add(self.counters(object).len()));
        self.objects.last().and_then(end).unwrap_or(0)
    }

    /// Returns the counters of an object.
    #[must_use]
    pub fn counters(&self, object: &MetricObject) -> &[MetricCounter] {
        self.kinds.get(&object.kind).map_or(&[], Vec::as_slice)
    }

    /// Returns the text to publish.
    ///
    /// # Panics
    /// Never, because texts, numbers and lists can always be written as JSON.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("texts, numbers and lists are JSON")
    }

    /// Parses the text of another process, which publishes `words` counter words.
    ///
    /// # Errors
    /// A text for the user: the JSON is invalid, has another version, or has an object whose
    /// counter words are not among the `words`.
    pub fn read(text: &str, words: usize) -> Result<Self, String> {
        let names: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if names.schema != SCHEMA_VERSION {
            return Err(format!("its names have version {}", names.schema));
        }
        let fits = |object: &MetricObject| {
            let end = object.first.checked_add(names.counters(object).len());
            end.is_some_and(|end| end <= words)
        };
        match names.objects.iter().find(|object| !fits(object)) {
            Some(object) => Err(format!("the words of {:?} are not there", object.name)),
            None => Ok(names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> MetricSchema {
        let mut names = MetricSchema { schema: SCHEMA_VERSION, ..MetricSchema::default() };
        names.describe("link", vec![MetricCounter::growing("input.packets", "packets"); 3]);
        names.describe("port", vec![MetricCounter::gauge("inside", "packets"); 2]);
        for (kind, name) in [("link", "up"), ("port", "a"), ("link", "down")] {
            names.add(MetricObject {
                kind: kind.into(),
                name: name.into(),
                ..MetricObject::default()
            });
        }
        names
    }

    #[test]
    fn words_follow_each_other() {
        let names = names();
        let first: Vec<_> = names.objects.iter().map(|object| object.first).collect();
        assert_eq!((first, names.words()), (vec![0, 3, 5], 8));
    }

    #[test]
    fn what_is_written_is_read() {
        let names = names();
        assert_eq!(MetricSchema::read(&names.text(), 8).unwrap(), names);
    }

    #[test]
    fn objects_beyond_the_words_are_refused() {
        let mut names = names();
        assert!(MetricSchema::read(&names.text(), 7).unwrap_err().contains("down"));
        names.objects[1].first = usize::MAX;
        assert!(MetricSchema::read(&names.text(), 100).unwrap_err().contains("\"a\""));
        assert!(MetricSchema::read("{}", 8).is_err());
        names.schema = 2;
        assert!(MetricSchema::read(&names.text(), 100).unwrap_err().contains("version 2"));
    }
}
