//! Settings in sections, from a TOML file. A mistake is reported with its line and column, and with
//! the allowed values, or the name that was probably meant; mistakes that do not end the reading
//! are reported together.
//!
//! ```
//! use slipring_cli::sections::SettingsFile;
//!
//! let read = |text: &str| {
//!     SettingsFile::new("edge.toml", text).read(|root| {
//!         let names = root.texts("interfaces")?;
//!         let arp = root.section("punt", |punt| punt.number("arp", 1..=100_000))?;
//!         Ok((names, arp))
//!     })
//! };
//! let (names, arp) = read("interfaces = [\"eth0\"]\n[punt]\narp = 2_000\n")?;
//! assert_eq!((names.unwrap().len(), arp), (1, Some(2000)));
//! let mistake = read("[punt]\narpp = 1\n").unwrap_err().to_text(false);
//! assert!(mistake.contains("line 2, column 1") && mistake.contains("did you mean `arp`?"));
//! # Ok::<(), slipring_cli::Diagnostic>(())
//! ```
//!
//! Not for files whose keys are flags ([`crate::config`]).

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::codes::{SR0009, SR0010};
use crate::config::{position, read_text};
use crate::{Diagnose, Diagnostic, usage};

/// Maximum number of further mistakes that are reported with the first one.
const MAX_OTHERS: usize = 20;

/// A file of settings.
#[derive(Debug, Clone)]
pub struct SettingsFile {
    name: String,
    text: String,
    /// Mistakes that have not ended the reading, with their places in the text.
    mistakes: RefCell<Vec<(usize, Diagnostic)>>,
}

impl SettingsFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(path: &Path) -> Result<Self, Diagnostic> {
        Ok(Self::new(path.display().to_string(), read_text(path)?))
    }

    /// Creates a file of settings from its name, which messages contain, and its text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), mistakes: RefCell::default() }
    }

    /// Calls `reader`, which reads the settings, and returns its result. Keys that `reader` does
    /// not ask for are mistakes.
    ///
    /// # Errors
    /// A [`Diagnostic`] for the first mistake in the file; its note lists up to 20 others.
    pub fn read<T>(
        &self,
        reader: impl FnOnce(&mut SettingsSection<'_>) -> Result<T, Diagnostic>,
    ) -> Result<T, Diagnostic> {
        let table = DeTable::parse(&self.text).map_err(|error| self.not_toml(&error))?;
        let table = Some(table.get_ref());
        let (path, known) = (String::new(), Vec::new());
        let root = SettingsSection { file: self, path, table, known, takes_all: false };
        let read = root.read(reader);
        self.all_mistakes(read.as_ref().err()).map_or(read, Err)
    }

    /// Returns the first mistake, with the others in its note. `last` is the mistake that has ended
    /// the reading.
    fn all_mistakes(&self, last: Option<&Diagnostic>) -> Option<Diagnostic> {
        let mut noted = self.mistakes.take();
        noted.sort_by_key(|(offset, _)| *offset);
        noted.dedup_by_key(|(offset, _)| *offset);
        let place = |of: &Diagnostic| of.cause().unwrap_or_default();
        let last = last.filter(|last| noted.iter().all(|(_, of)| place(of) != place(last)));
        let mut all = noted.iter().map(|(_, mistake)| mistake).chain(last);
        let first = all.next()?.clone();
        let name = format!("{}: ", self.name);
        let others = all.take(MAX_OTHERS).map(|of| {
            let (summary, help) = (of.summary(), of.help().unwrap_or_default());
            format!("{}: {}; {help}", place(of), summary.strip_prefix(&name).unwrap_or(&summary))
        });
        let others: Vec<_> = others.collect();
        Some(match others.is_empty() {
            true => first,
            false => first.with_note(format!("other mistakes:\n{}", others.join("\n"))),
        })
    }

    fn note(&self, offset: usize, mistake: Diagnostic) {
        self.mistakes.borrow_mut().push((offset, mistake));
    }

    fn not_toml(&self, error: &toml::de::Error) -> Diagnostic {
        let place = self.place(error.span().map_or(0, |span| span.start));
        let message = error.message().trim_end_matches('.').replace('\n', ", ");
        Diagnostic::new(SR0009, format!("{} is not TOML", self.name))
            .with_cause(format!("{place}: {message}"))
            .with_help("write one key and its value a line, texts in quotes: io = \"auto\"")
    }

    fn place(&self, offset: usize) -> String {
        let (line, column) = position(&self.text, offset);
        format!("line {line}, column {column}")
    }

    fn mistake(&self, offset: usize, what: &str, help: String) -> Diagnostic {
        Diagnostic::new(SR0010, format!("{}: {what}", self.name))
            .with_cause(self.place(offset))
            .with_help(help)
    }
}

/// A section that is being read. It records the keys that were asked for.
#[derive(Debug)]
pub struct SettingsSection<'f> {
    file: &'f SettingsFile,
    /// The section's name; empty for the keys before all sections.
    path: String,
    /// The section's keys and values; `None` if the file does not have the section.
    table: Option<&'f DeTable<'f>>,
    known: Vec<&'static str>,
    /// Whether every key is allowed, so that none is refused as unknown.
    takes_all: bool,
}

impl<'f> SettingsSection<'f> {
    fn read<T>(
        mut self,
        reader: impl FnOnce(&mut Self) -> Result<T, Diagnostic>,
    ) -> Result<T, Diagnostic> {
        let read = reader(&mut self)?;
        self.refuse_unknown();
        Ok(read)
    }

    /// Calls `reader`, which reads the section `key`, and returns its result. If the file does not
    /// have the section, `reader` gets a section without keys.
    ///
    /// # Errors
    /// The error of `reader`, or if the value of the key is no section.
    pub fn section<T>(
        &mut self,
        key: &'static str,
        reader: impl FnOnce(&mut SettingsSection<'f>) -> Result<T, Diagnostic>,
    ) -> Result<T, Diagnostic> {
        let found = self.get(key);
        let table = found.map(|value| self.table_at(key, value)).transpose()?;
        self.inner(key, table).read(reader)
    }

    /// Calls `reader` for each of the sections `[[key]]`, and returns the results; an empty list if
    /// there is no such section.
    ///
    /// # Errors
    /// The first error of `reader`, or if the value of the key is no list of sections.
    pub fn sections<T>(
        &mut self,
        key: &'static str,
        mut reader: impl FnMut(&mut SettingsSection<'f>) -> Result<T, Diagnostic>,
    ) -> Result<Vec<T>, Diagnostic> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let DeValue::Array(all) = value.get_ref() else {
            return Err(self.unfit(key, value, &format!("sections: [[{key}]]")));
        };
        let tables = all.iter().map(|value| self.table_at(key, value));
        let tables = tables.collect::<Result<Vec<_>, _>>()?;
        tables.into_iter().map(|table| self.inner(key, Some(table)).read(&mut reader)).collect()
    }

    /// Reads a whole number.
    ///
    /// # Errors
    /// Never: if the value is not a whole number in the range, this mistake is noted, and the
    /// result is `None`.
    pub fn number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, Diagnostic> {
        self.value(key, &allowed_numbers(&range), |value| number_in(value, &range))
    }

    /// Reads a list of whole numbers.
    ///
    /// # Errors
    /// Never: if the value is not such a list, or a number is not in the range, this mistake is
    /// noted, and the result is `None`.
    pub fn numbers(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<Vec<u64>>, Diagnostic> {
        let allowed = format!("a list of numbers, each {}", allowed_numbers(&range));
        self.list(key, &allowed, |value| number_in(value, &range))
    }

    /// Reads `true` or `false`.
    ///
    /// # Errors
    /// Never: if the value is neither, this mistake is noted, and the result is `None`.
    pub fn switch(&mut self, key: &'static str) -> Result<Option<bool>, Diagnostic> {
        self.value(key, "true or false, without quotes", |value| match value {
            DeValue::Boolean(on) => Some(*on),
            _ => None,
        })
    }

    /// Reads a text.
    ///
    /// # Errors
    /// Never: if the value is not a text, this mistake is noted, and the result is `None`.
    pub fn text(&mut self, key: &'static str) -> Result<Option<String>, Diagnostic> {
        self.value(key, "a text in quotes", text_of)
    }

    /// Reads a list of different texts.
    ///
    /// # Errors
    /// Never: if the value is not such a list, or a text occurs twice, this mistake is noted, and
    /// the result is `None`.
    pub fn texts(&mut self, key: &'static str) -> Result<Option<Vec<String>>, Diagnostic> {
        let mut seen = Vec::new();
        self.list(key, "a list of texts in quotes, each once: [\"a\", \"b\"]", |value| {
            let text = text_of(value).filter(|text| !seen.contains(text))?;
            seen.push(text.clone());
            Some(text)
        })
    }

    /// Reads one of these words.
    ///
    /// # Errors
    /// Never: if the value is none of these words, this mistake is noted, with a similar word as a
    /// suggestion, and the result is `None`.
    pub fn word(
        &mut self,
        key: &'static str,
        words: &[&'static str],
    ) -> Result<Option<&'static str>, Diagnostic> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let text = text_of(value.get_ref()).unwrap_or_default();
        let found = words.iter().find(|word| **word == text).copied();
        if found.is_none() {
            let (at, allowed) = (value.span().start, suggestion(&text, words));
            self.file.note(at, self.file.mistake(at, &self.cannot_be(key, value), allowed));
        }
        Ok(found)
    }

    /// Reads one of these words for each key of the section, whatever the keys are, sorted by key.
    /// `example` is an example of a key, for messages.
    ///
    /// # Errors
    /// Never: mistakes are noted, as by [`Self::word`].
    pub fn words_by_key(
        &mut self,
        words: &[&'static str],
        example: &str,
    ) -> Result<Vec<(String, &'static str)>, Diagnostic> {
        self.takes_all = true;
        let mut found = Vec::new();
        for (key, value) in self.table.into_iter().flatten() {
            let (key, at) = (key.get_ref().to_string(), value.span().start);
            let text = text_of(value.get_ref());
            let word = words.iter().find(|word| text.as_deref() == Some(**word));
            match (word, value.get_ref()) {
                (Some(word), _) => found.push((key, *word)),
                (None, DeValue::Table(inner)) => {
                    // An unquoted name with a dot is parsed as a table, so the help suggests
                    // quotes.
                    let part = inner.keys().next().map_or(example, |part| &**part.get_ref());
                    let help = format!(
                        "write a name with a dot in quotes: \"{key}.{part}\" = \"{}\"",
                        words[0]
                    );
                    let what = format!("{} cannot be a section", self.path_of(&key));
                    self.file.note(at, self.file.mistake(at, &what, help));
                }
                (None, _) => {
                    let help = suggestion(&text.unwrap_or_default(), words);
                    self.file.note(at, self.file.mistake(at, &self.cannot_be(&key, value), help));
                }
            }
        }
        Ok(found)
    }

    /// Reads a text and parses it. The error of the parser says what is allowed.
    ///
    /// # Errors
    /// Never: if the value is not a text, or the parser refuses it, this mistake is noted, and the
    /// result is `None`.
    pub fn parsed<T>(
        &mut self,
        key: &'static str,
        parser: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Diagnostic> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let text = text_of(value.get_ref()).ok_or_else(|| "a text in quotes".to_owned());
        let parsed = text.and_then(|text| parser(&text));
        Ok(parsed.map_err(|allowed| self.note_unfit(key, value, &allowed)).ok())
    }

    /// Returns the error for a value that contradicts other settings, or for a missing key. If
    /// `key` is missing, and the section has a similar key that was not asked for, the error is
    /// about that key.
    #[must_use]
    pub fn mistake(&self, key: &str, what: &str, help: impl Into<String>) -> Diagnostic {
        let value = self.table.and_then(|table| table.get(key)).map(|value| value.span().start);
        let keys = || self.table.into_iter().flat_map(|table| table.keys());
        let is_misspelt = |it: &&Spanned<Cow<'_, str>>| {
            self.is_unknown(it) && usage::nearest(it.get_ref(), std::iter::once(key)).is_some()
        };
        if value.is_none()
            && let Some(misspelt) = keys().find(is_misspelt)
        {
            return self.unknown(misspelt);
        }
        let first = || keys().map(|key| key.span().start).min();
        let what =
            if self.path.is_empty() { what.to_owned() } else { format!("{}: {what}", self.path) };
        self.file.mistake(value.or_else(first).unwrap_or_default(), &what, help.into())
    }

    /// Like [`Self::mistake`], for a `word` that is not in `allowed`. The help suggests a similar
    /// word that is allowed.
    #[must_use]
    pub fn not_one_of(&self, key: &str, what: &str, word: &str, allowed: &[&str]) -> Diagnostic {
        self.mistake(key, what, suggestion(word, allowed))
    }

    fn inner(&self, key: &str, table: Option<&'f DeTable<'f>>) -> SettingsSection<'f> {
        let (path, known) = (self.path_of(key), Vec::new());
        SettingsSection { file: self.file, path, table, known, takes_all: false }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn get(&mut self, key: &'static str) -> Option<&'f Spanned<DeValue<'f>>> {
        self.known.push(key);
        self.table?.get(key)
    }

    fn table_at(
        &self,
        key: &str,
        value: &'f Spanned<DeValue<'f>>,
    ) -> Result<&'f DeTable<'f>, Diagnostic> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.unfit(key, value, &format!("a section: [{}]", self.path_of(key)))),
        }
    }

    fn value<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        reader: impl FnOnce(&DeValue<'f>) -> Option<T>,
    ) -> Result<Option<T>, Diagnostic> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let read = reader(value.get_ref());
        if read.is_none() {
            self.note_unfit(key, value, allowed);
        }
        Ok(read)
    }

    fn list<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        mut reader: impl FnMut(&DeValue<'f>) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Diagnostic> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let DeValue::Array(all) = value.get_ref() else {
            self.note_unfit(key, value, allowed);
            return Ok(None);
        };
        let mut read = Vec::with_capacity(all.len());
        for value in all {
            match reader(value.get_ref()) {
                Some(one) => read.push(one),
                None => {
                    self.note_unfit(key, value, allowed);
                    return Ok(None);
                }
            }
        }
        Ok(Some(read))
    }

    fn cannot_be(&self, key: &str, value: &Spanned<DeValue<'_>>) -> String {
        let written = self.file.text.get(value.span()).unwrap_or_default();
        let line = written.lines().next().unwrap_or_default();
        format!("{} cannot be {line}", self.path_of(key))
    }

    fn unfit(&self, key: &str, value: &Spanned<DeValue<'_>>, allowed: &str) -> Diagnostic {
        let help = format!("allowed: {allowed}");
        self.file.mistake(value.span().start, &self.cannot_be(key, value), help)
    }

    /// Notes a value that is not allowed. Reading continues as if the file did not have the key.
    fn note_unfit(&self, key: &str, value: &Spanned<DeValue<'_>>, allowed: &str) {
        self.file.note(value.span().start, self.unfit(key, value, allowed));
    }

    /// Notes the keys of the section that were not asked for.
    fn refuse_unknown(&self) {
        if self.takes_all {
            return;
        }
        let keys = self.table.into_iter().flat_map(|table| table.keys());
        for key in keys.filter(|key| self.is_unknown(key)) {
            self.file.note(key.span().start, self.unknown(key));
        }
    }

    fn is_unknown(&self, key: &Spanned<Cow<'_, str>>) -> bool {
        !self.known.contains(&&**key.get_ref())
    }

    /// Returns the error for a key that was not asked for. The help suggests a similar one.
    fn unknown(&self, key: &Spanned<Cow<'_, str>>) -> Diagnostic {
        let what = match &*self.path {
            "" => format!("there is no key `{}`", key.get_ref()),
            path => format!("{path} has no key `{}`", key.get_ref()),
        };
        self.file.mistake(key.span().start, &what, suggestion(key.get_ref(), &self.known))
    }
}

fn suggestion(word: &str, known: &[&str]) -> String {
    let allowed = format!("allowed: {}", known.join(", "));
    match usage::nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? {allowed}"),
        None => allowed,
    }
}

fn allowed_numbers(range: &RangeInclusive<u64>) -> String {
    format!("a number from {} to {}, without quotes", range.start(), range.end())
}

fn number_in(value: &DeValue<'_>, range: &RangeInclusive<u64>) -> Option<u64> {
    let DeValue::Integer(number) = value else { return None };
    whole(number).filter(|number| range.contains(number))
}

fn whole(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn text_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file with all kinds of values, and returns the text of the error.
    fn error_of(text: &str) -> String {
        let read = SettingsFile::new("f", text).read(|root| {
            root.texts("names")?;
            root.section("part", |part| {
                part.number("count", 1..=10)?;
                part.numbers("all", 0..=7)?;
                part.switch("on")?;
                part.text("text")?;
                part.word("how", &["always", "never"])?;
                part.parsed("even", |text| match text.len() % 2 {
                    0 => Ok(()),
                    _ => Err("an even number of letters".to_owned()),
                })
            })?;
            let counts = root.sections("many", |one| {
                let count = one.number("count", 0..=5)?;
                count.ok_or_else(|| one.mistake("count", "there is no count", "add one"))
            })?;
            assert!(counts.len() < 3);
            Ok(())
        });
        read.err().map(|error| error.to_text(false)).unwrap_or_default()
    }

    #[test]
    fn a_file_with_all_kinds_of_values_is_read() {
        let text = "names = ['a', \"b\"]\n[part]\ncount = 1_0\nall = [0, 0x7]\non = true\n\
                    text = ''\nhow = 'never'\neven = 'ab'\n[[many]]\ncount = 0\n[[many]]\ncount = 5\n";
        assert_eq!(error_of(text), "");
        assert_eq!(error_of(""), "");
    }

    #[test]
    fn all_mistakes_are_told_at_once_in_the_order_of_their_lines() {
        let error = error_of(
            "names = 5\n[part]\ncount = 11\nhow = 'alway'\nx = 1\n[[many]]\ncount = 'a'\n",
        );
        let first = "error[SR0010]: f: names cannot be 5\n  cause: line 1, column 9\n";
        assert!(error.starts_with(first), "{error}");
        let others = [
            "line 3, column 9: part.count cannot be 11; allowed: a number from 1 to 10",
            "line 4, column 7: part.how cannot be 'alway'; did you mean `always`?",
            "line 5, column 1: part has no key `x`; allowed: count",
            "line 7, column 9: many.count cannot be 'a'; allowed: a number from 0 to 5",
        ];
        let places: Vec<_> = others.iter().filter_map(|other| error.find(other)).collect();
        assert!(places.len() == others.len() && places.is_sorted(), "{error}");
        assert!(!error.contains("there is no count"), "it follows from another mistake: {error}");
    }

    #[test]
    fn a_mistake_has_its_place_and_what_is_allowed() {
        for (text, parts) in [
            ("names = 'a'", ["names cannot be 'a'", "line 1, column 9", "each once"]),
            ("names = ['a', 'a']", ["names cannot be 'a'", "line 1, column 15", "each once"]),
            ("[part]\ncount = 11", ["part.count cannot be 11", "line 2", "from 1 to 10"]),
            ("[part]\ncount = -1", ["part.count cannot be -1", "line 2", "without quotes"]),
            ("[part]\ncount = '5'", ["part.count cannot be '5'", "line 2", "without quotes"]),
            ("[part]\nall = [8]", ["part.all cannot be 8", "column 8", "from 0 to 7"]),
            ("[part]\non = 'yes'", ["part.on cannot be 'yes'", "line 2", "true or false"]),
            ("[part]\ntext = 1", ["part.text cannot be 1", "line 2", "a text"]),
            ("[part]\nhow = 'alway'", ["part.how", "line 2", "did you mean `always`?"]),
            ("[part]\neven = 'a'", ["part.even", "line 2", "an even number of letters"]),
            ("[[many]]", ["many: there is no count", "line", "add one"]),
            ("[[many]]\ncuont = 1", ["many has no key `cuont`", "line 2", "did you mean `count`?"]),
            ("[many]", ["many cannot be", "line 1", "[[many]]"]),
            ("part = 1", ["part cannot be 1", "line 1", "a section: [part]"]),
            ("\nnams = []", ["there is no key `nams`", "line 2", "did you mean `names`?"]),
            ("[part]\ncuont = 1", ["part has no key `cuont`", "line 2", "did you mean `count`?"]),
            ("[prt]", ["there is no key `prt`", "line 1", "did you mean `part`?"]),
            ("[zzz]", ["there is no key `zzz`", "line 1", "allowed: names, part, many"]),
            ("names = [", ["f is not TOML", "line 1", "texts in quotes"]),
            ("names = []\nnames = []", ["f is not TOML", "line 2", "duplicate key"]),
        ] {
            let error = error_of(text);
            for part in parts {
                assert!(error.contains(part), "{text}: no `{part}` in {error}");
            }
        }
    }
}
