//! The keys of `daemon.toml`, and errors with their position in the file.
//!
//! The file is applied as a whole or not at all. `Spanned` values contain their position. So an
//! error can name line and column even if the parser accepts a value and only a later check refuses
//! it.

mod config_text;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use slipring_cli::Diagnostic;
use slipring_cli::codes::{SR0009, SR0010};
use slipring_cli::config::read_text;
use slipring_netmap::{MemoryParams, PARAMETERS, Parameters, SetParameterError};
use toml::Spanned;

use crate::accounts::Accounts;
use crate::rules::{AccessRule, AccessRules};
use crate::scheduling::scheduling;
use crate::settings::DaemonSettings;

use config_text::ConfigText;
pub(crate) use values::{permissions, uring};

/// The file that is read if no flag names a file. It need not exist.
pub(crate) const DEFAULT_PATH: &str = "/etc/slipring/daemon.toml";

/// The file's contents.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct DaemonConfigFile {
    mode: Option<Spanned<String>>,
    owner: Option<Spanned<UserOrGroup>>,
    group: Option<Spanned<UserOrGroup>>,
    workers: Option<Spanned<i64>>,
    uring: Option<Spanned<String>>,
    link: Option<PathBuf>,
    run_dir: Option<PathBuf>,
    #[serde(default)]
    service: ServiceSection,
    #[serde(default)]
    memory: MemorySection,
    #[serde(default)]
    parameters: BTreeMap<Spanned<String>, Spanned<i64>>,
    #[serde(default)]
    allow: Vec<RuleSection>,
    #[serde(default)]
    deny: Vec<RuleSection>,
    #[serde(default)]
    take_over: Vec<RuleSection>,
}

/// The section `[service]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ServiceSection {
    scheduling: Option<Spanned<String>>,
}

/// The section `[memory]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MemorySection {
    per_user: Option<Spanned<String>>,
}

/// One section `[[allow]]`, `[[deny]]` or `[[take-over]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RuleSection {
    #[serde(default)]
    users: Vec<Spanned<UserOrGroup>>,
    #[serde(default)]
    groups: Vec<Spanned<UserOrGroup>>,
    #[serde(default)]
    interfaces: Vec<String>,
    #[serde(default)]
    ports: Vec<String>,
    #[serde(default)]
    kinds: Vec<Spanned<String>>,
}

/// A user or a group, by number or by name.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a name or a number")]
enum UserOrGroup {
    Number(u32),
    Name(String),
}

/// Reads and checks a file.
///
/// # Errors
/// A [`Diagnostic`] with the mistake and its position, or the reason why the file cannot be read.
pub(crate) fn read(path: &Path, accounts: &Accounts) -> Result<DaemonSettings, Diagnostic> {
    settings(&path.display().to_string(), &read_text(path)?, accounts)
}

/// Parses and checks the text of the file `name`.
pub(crate) fn settings(
    name: &str,
    text: &str,
    accounts: &Accounts,
) -> Result<DaemonSettings, Diagnostic> {
    let text = ConfigText { name, text };
    let file: DaemonConfigFile =
        toml::from_str(text.text).map_err(|error| toml_error(&text, &error))?;
    DaemonConfigReader { text, accounts }.settings(file)
}

/// Converts an error of the TOML parser. If a key is unknown, the error names the allowed keys,
/// which the manual describes.
fn toml_error(text: &ConfigText<'_>, error: &toml::de::Error) -> Diagnostic {
    let (code, what) = match text.text.parse::<toml::Table>() {
        Ok(_) => (SR0010, "has an unknown or unfit key"),
        Err(_) => (SR0009, "is not TOML"),
    };
    let location = text.location(error.span().map_or(0, |span| span.start));
    let message = error.message().trim_end_matches('.').replace('\n', ", ");
    Diagnostic::new(code, format!("{} {what}", text.name))
        .with_cause(format!("{location}: {message}"))
        .with_help(
            "see all keys: man slipring-daemon; an example: /etc/slipring/daemon.toml.example",
        )
}

struct DaemonConfigReader<'t> {
    text: ConfigText<'t>,
    accounts: &'t Accounts,
}

impl DaemonConfigReader<'_> {
    fn settings(&self, file: DaemonConfigFile) -> Result<DaemonSettings, Diagnostic> {
        let number = |account: Spanned<UserOrGroup>, kind| self.number(account, kind);
        Ok(DaemonSettings {
            mode: file.mode.map(|mode| self.text.read(&mode, values::permissions)).transpose()?,
            uid: file.owner.map(|owner| number(owner, "user")).transpose()?,
            gid: file.group.map(|group| number(group, "group")).transpose()?,
            workers: file
                .workers
                .map(|count| self.text.read(&count, values::workers))
                .transpose()?,
            uring: file.uring.map(|word| self.text.read(&word, values::uring)).transpose()?,
            scheduling: file
                .service
                .scheduling
                .map(|class| self.text.read(&class, scheduling))
                .transpose()?,
            link: file.link,
            run_dir: file.run_dir,
            domain_bytes: file
                .memory
                .per_user
                .map(|size| self.text.read(&size, values::memory))
                .transpose()?,
            parameters: self.parameters(file.parameters)?,
            access_rules: AccessRules {
                allow: self.rules(file.allow)?,
                deny: self.rules(file.deny)?,
                take_over: self.rules(file.take_over)?,
                ..AccessRules::default()
            },
        })
    }

    fn parameters(
        &self,
        written: BTreeMap<Spanned<String>, Spanned<i64>>,
    ) -> Result<Vec<(String, i64)>, Diagnostic> {
        let trial = Parameters::new(&MemoryParams::default());
        let mut values = Vec::new();
        for (name, value) in written {
            let key = name.get_ref();
            trial.set(key, *value.get_ref()).map_err(|error| match error {
                SetParameterError::Unknown => {
                    let known: Vec<_> = PARAMETERS.iter().map(|one| one.name).collect();
                    let message = format!("there is no parameter `{key}`");
                    self.text.refusal(name.span().start, message, known.join(", "))
                }
                SetParameterError::Invalid(one) => {
                    let message = format!("{key} cannot be {}", value.get_ref());
                    self.text.refusal(value.span().start, message, one.allowed())
                }
            })?;
            values.push((key.clone(), *value.get_ref()));
        }
        Ok(values)
    }

    fn rules(&self, written: Vec<RuleSection>) -> Result<Vec<AccessRule>, Diagnostic> {
        written.into_iter().map(|lines| self.rule(lines)).collect()
    }

    fn rule(&self, lines: RuleSection) -> Result<AccessRule, Diagnostic> {
        let all = |accounts: Vec<Spanned<UserOrGroup>>, kind| {
            let numbers = accounts.into_iter().map(|account| self.number(account, kind));
            numbers.collect::<Result<Vec<_>, _>>()
        };
        let kinds = lines.kinds.iter().map(|kind| self.text.read(kind, values::kind));
        Ok(AccessRule {
            kinds: kinds.collect::<Result<_, _>>()?,
            uids: all(lines.users, "user")?,
            gids: all(lines.groups, "group")?,
            interfaces: lines.interfaces,
            ports: lines.ports,
        })
    }

    fn number(&self, account: Spanned<UserOrGroup>, kind: &str) -> Result<u32, Diagnostic> {
        let start = account.span().start;
        match account.into_inner() {
            UserOrGroup::Number(id) => Ok(id),
            UserOrGroup::Name(name) => {
                let known = match kind {
                    "user" => self.accounts.user(&name),
                    _ => self.accounts.group(&name),
                };
                known.ok_or_else(|| {
                    let list = if kind == "user" { "/etc/passwd" } else { "/etc/group" };
                    let allowed = format!("a {kind} of {list}, or a number");
                    self.text.refusal(start, format!("there is no {kind} `{name}`"), allowed)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
