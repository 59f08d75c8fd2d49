//! Checks the external crates of the workspace: their sources, their licences, and bans.
//! `.ci/dependencies.toml` defines what is allowed.

use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use crate::tree::Tree;

/// The contents of `.ci/dependencies.toml`.
#[derive(Debug, Deserialize)]
struct DependencyRules {
    sources: Vec<String>,
    licences: Vec<String>,
    exceptions: Vec<String>,
    banned: toml::Table,
}

/// An external crate.
#[derive(Debug)]
struct Dependency {
    name: String,
    version: String,
    source: String,
    licence: String,
}

pub(crate) fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let rules: DependencyRules = tree
        .ci_table("dependencies.toml")?
        .try_into()
        .map_err(|error| format!(".ci/dependencies.toml: {error}"))?;
    let mut complaints = faults(&rules, &built_dependencies()?);
    let lock = std::fs::read_to_string(tree.root.join("Cargo.lock"))
        .map_err(|error| format!("Cargo.lock: {error}"))?;
    complaints.extend(source_faults(&rules, &lock)?);
    Ok(complaints)
}

/// Returns the external crates that are built on this machine with default features.
fn built_dependencies() -> Result<Vec<Dependency>, String> {
    let host = host_target()?;
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &host])
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let json: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = json["packages"].as_array().ok_or("cargo metadata lacks packages")?;
    Ok(packages.iter().filter_map(Dependency::from_metadata).collect())
}

fn host_target() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().map_err(|why| format!("rustc: {why}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}

impl Dependency {
    /// Converts a package of `cargo metadata`; `None` if it is a crate of the workspace.
    fn from_metadata(package: &Value) -> Option<Self> {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let source = package["source"].as_str()?.to_owned();
        Some(Self {
            name: text("name"),
            version: text("version"),
            source,
            licence: text("license"),
        })
    }
}

fn faults(rules: &DependencyRules, dependencies: &[Dependency]) -> Vec<String> {
    let mut faults = Vec::new();
    for Dependency { name, version, source, licence } in dependencies {
        if !rules.sources.contains(source) {
            faults.push(format!("{name} {version} comes from {source}"));
        }
        if let Some(why) = rules.banned.get(name) {
            let why = why.as_str().unwrap_or("banned");
            faults.push(format!("{name} {version} is banned: {why}"));
        }
        match allows(rules, licence) {
            Some(true) => {}
            Some(false) => {
                faults.push(format!("{name} {version}: its licence is not allowed: {licence}"));
            }
            None => {
                faults.push(format!("{name} {version}: its licence cannot be read: {licence:?}"))
            }
        }
    }
    faults
}

/// Checks the sources of all crates in the lock file, for all platforms and features.
fn source_faults(rules: &DependencyRules, lock: &str) -> Result<Vec<String>, String> {
    let lock: toml::Table = lock.parse().map_err(|error| format!("Cargo.lock: {error}"))?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let text = |package: &toml::Value, key: &str| {
        package.get(key).and_then(toml::Value::as_str).map(str::to_owned)
    };
    let strange = packages.into_iter().flatten().filter_map(|package| {
        let source = text(package, "source")?;
        let name = text(package, "name").unwrap_or_default();
        let known = rules.sources.contains(&source);
        (!known).then(|| format!("Cargo.lock: {name} comes from {source}"))
    });
    Ok(strange.collect())
}

/// Returns whether the terms of a licence are accepted. `licence` is an SPDX expression or has the
/// older form `A/B`; `None` if it is neither.
fn allows(rules: &DependencyRules, licence: &str) -> Option<bool> {
    let spaced = licence.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let allowed = any_of(rules, &mut words)?;
    words.next().is_none().then_some(allowed)
}

type Words<'t> = std::iter::Peekable<std::str::SplitWhitespace<'t>>;

fn is_next(words: &mut Words<'_>, operator: &str) -> bool {
    words.next_if(|word| word.eq_ignore_ascii_case(operator)).is_some()
}

fn any_of(rules: &DependencyRules, words: &mut Words<'_>) -> Option<bool> {
    let mut allowed = all_of(rules, words)?;
    while is_next(words, "OR") {
        allowed |= all_of(rules, words)?;
    }
    Some(allowed)
}

fn all_of(rules: &DependencyRules, words: &mut Words<'_>) -> Option<bool> {
    let mut allowed = one(rules, words)?;
    while is_next(words, "AND") {
        allowed &= one(rules, words)?;
    }
    Some(allowed)
}

/// Parses a licence, which may have an exception, or an expression in parentheses. Returns whether
/// it is allowed; `None` if the words are not valid.
fn one(rules: &DependencyRules, words: &mut Words<'_>) -> Option<bool> {
    if is_next(words, "(") {
        let allowed = any_of(rules, words)?;
        return is_next(words, ")").then_some(allowed);
    }
    let licence = words.next().filter(|word| is_identifier(word))?;
    let mut allowed = rules.licences.iter().any(|name| name == licence);
    if is_next(words, "WITH") {
        let exception = words.next()?;
        allowed &= rules.exceptions.iter().any(|name| name == exception);
    }
    Some(allowed)
}

fn is_identifier(word: &str) -> bool {
    let operator = ["AND", "OR", "WITH"].iter().any(|name| word.eq_ignore_ascii_case(name));
    !operator && word.chars().all(|c| c.is_ascii_alphanumeric() || "-.+".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> DependencyRules {
        toml::toml! {
            sources = ["crates.io"]
            licences = ["MIT", "Apache-2.0", "Unicode-3.0"]
            exceptions = ["LLVM-exception"]
            [banned]
            openssl-sys = "no TLS"
        }
        .try_into()
        .unwrap()
    }

    #[test]
    fn a_licence_is_allowed_when_one_choice_is() {
        for (licence, allowed) in [
            ("MIT", Some(true)),
            ("GPL-3.0-only", Some(false)),
            ("GPL-3.0-only OR MIT", Some(true)),
            ("GPL-3.0-only/MIT", Some(true)),
            ("MIT or Apache-2.0", Some(true)),
            ("MIT AND GPL-3.0-only", Some(false)),
            ("(MIT OR GPL-2.0) AND Unicode-3.0", Some(true)),
            ("MIT AND GPL-2.0 OR Apache-2.0", Some(true)),
            ("Apache-2.0 WITH LLVM-exception", Some(true)),
            ("Apache-2.0 WITH other-exception", Some(false)),
            ("", None),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT Apache-2.0", None),
            ("OR MIT", None),
        ] {
            assert_eq!(allows(&rules(), licence), allowed, "{licence}");
        }
    }

    fn dependency(name: &str, source: &str, licence: &str) -> Dependency {
        let own = str::to_owned;
        Dependency {
            name: own(name),
            version: own("1"),
            source: own(source),
            licence: own(licence),
        }
    }

    #[test]
    fn strange_sources_licences_and_banned_crates_are_named() {
        let found = faults(
            &rules(),
            &[
                dependency("good", "crates.io", "MIT"),
                dependency("forked", "git+https://example.org", "MIT"),
                dependency("openssl-sys", "crates.io", "MIT"),
                dependency("copyleft", "crates.io", "GPL-3.0-only"),
                dependency("silent", "crates.io", ""),
            ],
        );
        assert_eq!(
            found,
            [
                "forked 1 comes from git+https://example.org",
                "openssl-sys 1 is banned: no TLS",
                "copyleft 1: its licence is not allowed: GPL-3.0-only",
                "silent 1: its licence cannot be read: \"\"",
            ]
        );
    }

    #[test]
    fn the_lock_file_is_read_for_every_platform() {
        let lock = "[[package]]\nname = \"own\"\n[[package]]\nname = \"a\"\nsource = \"crates.io\"\n\
                    [[package]]\nname = \"b\"\nsource = \"git\"\n";
        let found = source_faults(&rules(), lock).unwrap();
        assert_eq!(found, ["Cargo.lock: b comes from git"]);
    }
}
