//! Compares names of types, and phrases in comments and documents, with `xtask/words.toml`.
//!
//! The name of a type must have only one meaning in the product. If two crates define the same
//! name, `words.toml` must contain an exception with a reason. Some names and phrases are
//! forbidden, and `words.toml` says what to write instead. For a forbidden phrase that is still
//! used, the file contains the number of uses, which may only be lowered.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{ImplItem, Item, TraitItem};

use crate::comments;
use crate::source::{Source, attributes_of, is_test_only};
use crate::tree::{Tree, read_text};

/// Crates that contain only tests and checks. Their types are not part of the product.
const NOT_PRODUCT: [&str; 2] = ["slipring-compat-tests", "xtask"];

pub(crate) fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let words = Words::parse(&read_text(&tree.root.join("xtask/words.toml"))?)?;
    let mut names = TypeNames::default();
    let mut complaints = Vec::new();
    let mut uses = vec![0; words.phrases.len()];
    for krate in &tree.crates {
        for source in Source::shipped_below(&krate.dir.join("src"))? {
            let file = tree.relative(&source.path).display().to_string();
            if !NOT_PRODUCT.contains(&krate.name.as_str()) {
                names.collect(&krate.name, &source);
            }
            complaints.extend(one_word_docs(&source.text, &file));
            words.count(&comments::paragraphs(&source.text), &mut uses);
        }
    }
    for path in tree.documents()? {
        words.count(&comments::paragraphs_of_document(&read_text(&path)?), &mut uses);
    }
    complaints.extend(names.complaints(&words));
    complaints.extend(words.excesses(&uses));
    Ok(complaints)
}

/// A forbidden phrase.
struct Phrase {
    text: String,
    instead: String,
    /// How many uses are still allowed. This may only be lowered.
    left: usize,
}

/// The contents of `words.toml`.
struct Words {
    never: BTreeMap<String, String>,
    shared: BTreeMap<String, String>,
    phrases: Vec<Phrase>,
}

impl Words {
    fn parse(text: &str) -> Result<Self, String> {
        let file: toml::Table = text.parse().map_err(|error| format!("words.toml: {error}"))?;
        let table = |key: &str| -> Result<BTreeMap<String, String>, String> {
            let rows = file.get(key).and_then(toml::Value::as_table);
            let rows = rows.ok_or_else(|| format!("words.toml: no table [{key}]"))?;
            rows.iter().map(|(name, value)| Ok((name.clone(), string(value, name)?))).collect()
        };
        let phrases = file.get("phrases").and_then(toml::Value::as_table);
        let phrases = phrases.ok_or("words.toml: no table [phrases]")?.iter().map(phrase);
        Ok(Self {
            never: table("never")?,
            shared: table("shared")?,
            phrases: phrases.collect::<Result<_, _>>()?,
        })
    }

    fn count(&self, paragraphs: &[String], uses: &mut [usize]) {
        for paragraph in paragraphs {
            let paragraph = paragraph.to_lowercase();
            for (phrase, uses) in self.phrases.iter().zip(uses.iter_mut()) {
                *uses += occurrences(&paragraph, &phrase.text);
            }
        }
    }

    fn excesses(&self, uses: &[usize]) -> Vec<String> {
        let mut complaints = Vec::new();
        for (Phrase { text, instead, left }, &used) in self.phrases.iter().zip(uses) {
            match used.cmp(left) {
                std::cmp::Ordering::Greater => complaints.push(format!(
                    "\"{text}\" is written {used} times, xtask/words.toml leaves {left}: write {instead}"
                )),
                std::cmp::Ordering::Less => {
                    complaints.push(format!("\"{text}\" is left {used} times: lower {left}"));
                }
                std::cmp::Ordering::Equal => {}
            }
        }
        complaints
    }
}

fn string(value: &toml::Value, name: &str) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("words.toml: {name} is no string"))
}

fn phrase((text, value): (&String, &toml::Value)) -> Result<Phrase, String> {
    let instead =
        value.get("instead").ok_or_else(|| format!("words.toml: {text}: no `instead`"))?;
    let left = value.get("left").and_then(toml::Value::as_integer).unwrap_or(0);
    let left = usize::try_from(left).map_err(|_| format!("words.toml: {text}: left < 0"))?;
    Ok(Phrase { text: text.clone(), instead: string(instead, text)?, left })
}

/// Returns how often `phrase` occurs in a paragraph as whole words. Both must be in lower case.
fn occurrences(paragraph: &str, phrase: &str) -> usize {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let is_bounded = |(at, found): &(usize, &str)| {
        !is_word(paragraph[..*at].chars().next_back())
            && !is_word(paragraph[at + found.len()..].chars().next())
    };
    paragraph.match_indices(phrase).filter(is_bounded).count()
}

/// Returns complaints about `///` comments that consist of one word, except a link or code.
fn one_word_docs(text: &str, file: &str) -> Vec<String> {
    let doc = |line: &str| line.trim_start().strip_prefix("///").map(|text| text.trim().to_owned());
    let lines: Vec<_> = text.lines().map(doc).collect();
    let is_doc = |at: Option<usize>| at.and_then(|at| lines.get(at)).is_some_and(Option::is_some);
    let mut complaints = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let alone = !is_doc(at.checked_sub(1)) && !is_doc(Some(at + 1));
        let Some(said) = line.as_ref().filter(|said| alone && !said.is_empty()) else { continue };
        if said.split_whitespace().count() == 1 && !said.starts_with(['[', '`']) {
            complaints.push(format!("{file}:{}: \"{said}\" is no documentation", at + 1));
        }
    }
    complaints
}

/// For each type name, the crates that define it.
#[derive(Default)]
struct TypeNames {
    crates: BTreeMap<String, BTreeSet<String>>,
}

impl TypeNames {
    fn collect(&mut self, krate: &str, source: &Source) {
        let mut visitor = Definitions { found: Vec::new() };
        visitor.visit_file(&source.syntax);
        for name in visitor.found {
            self.crates.entry(name).or_default().insert(krate.to_owned());
        }
    }

    fn complaints(&self, words: &Words) -> Vec<String> {
        let mut complaints = Vec::new();
        for (name, crates) in &self.crates {
            let all: Vec<_> = crates.iter().map(String::as_str).collect();
            let all = all.join(", ");
            if let Some(instead) = words.never.get(name) {
                complaints.push(format!("{name} names a type in {all}: {instead}"));
            }
            if crates.len() > 1 && !words.shared.contains_key(name) {
                complaints.push(format!("{name} names a type in each of {all}: qualify it"));
            }
        }
        let is_shared = |name: &String| self.crates.get(name).is_some_and(|all| all.len() > 1);
        let idle = words.shared.keys().filter(|name| !is_shared(name));
        complaints.extend(idle.map(|name| format!("{name} needs no exception any more")));
        complaints
    }
}

/// Collects the names of structs, enums, unions, traits and type aliases in the product. Associated
/// types do not count.
struct Definitions {
    found: Vec<String>,
}

impl<'ast> Visit<'ast> for Definitions {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test_only(attributes_of(item)) {
            return;
        }
        match item {
            Item::Struct(item) => self.found.push(item.ident.to_string()),
            Item::Enum(item) => self.found.push(item.ident.to_string()),
            Item::Union(item) => self.found.push(item.ident.to_string()),
            Item::Trait(item) => self.found.push(item.ident.to_string()),
            Item::Type(item) => self.found.push(item.ident.to_string()),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, _: &'ast ImplItem) {}

    fn visit_trait_item(&mut self, _: &'ast TraitItem) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::from_text;

    const FILE: &str = "[never]\nPlace = \"say a place of what\"\n[shared]\nShared = \"by design\"\n\
        [phrases]\n\"anew\" = { instead = \"again\", left = 1 }\n";

    fn complaints(crates: &[(&str, &str)]) -> Vec<String> {
        let mut names = TypeNames::default();
        for (krate, text) in crates {
            names.collect(krate, &from_text(text));
        }
        names.complaints(&Words::parse(FILE).unwrap())
    }

    #[test]
    fn a_name_in_two_crates_needs_a_reason() {
        let both = "pub struct Shared; enum Entry {}";
        let found = complaints(&[("a", both), ("b", both)]);
        assert_eq!(found, ["Entry names a type in each of a, b: qualify it"]);
    }

    #[test]
    fn a_name_that_is_never_used_is_found_in_one_crate() {
        let found = complaints(&[("a", "struct Place; struct Shared;"), ("b", "struct Shared;")]);
        assert_eq!(found, ["Place names a type in a: say a place of what"]);
    }

    #[test]
    fn associated_types_and_tests_do_not_count() {
        let text = "struct Shared; impl X for Shared { type Item = u8; }\n#[cfg(test)]\nmod tests { struct Item; }";
        assert!(complaints(&[("a", text), ("b", text)]).is_empty());
    }

    #[test]
    fn an_exception_that_nothing_needs_is_named() {
        assert_eq!(complaints(&[("a", "struct Shared;")]), ["Shared needs no exception any more"]);
    }

    #[test]
    fn phrases_are_counted_as_whole_words_and_only_lowered() {
        let words = Words::parse(FILE).unwrap();
        let mut uses = [0];
        let paragraphs = ["Anew, and anew.", "manew anewer"].map(str::to_owned);
        words.count(&paragraphs, &mut uses);
        assert_eq!(uses, [2]);
        assert_eq!(words.excesses(&[2]).len(), 1);
        assert!(words.excesses(&[1]).is_empty());
        assert_eq!(words.excesses(&[0]), ["\"anew\" is left 0 times: lower 1"]);
    }

    #[test]
    fn a_doc_comment_of_one_word_is_none() {
        let text =
            "/// It.\nfn a() {}\n/// Adds.\n///\n/// More.\nfn b() {}\n/// [`X`].\nfn c() {}\n";
        assert_eq!(one_word_docs(text, "x.rs"), ["x.rs:1: \"It.\" is no documentation"]);
    }
}
