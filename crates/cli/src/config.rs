//! Flags from a TOML file: the keys are the long names, and the command line takes precedence.
//!
//! A key becomes the flag `--key=value`, inserted before the typed flags, unless the same flag was
//! typed. One parser checks both, so an error in a file has the same form as one on the command
//! line.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::{Table, Value};

use crate::codes::{SR0009, SR0010, SR0201};
use crate::{Diagnostic, flags};

/// Flags that a file cannot set: `--config` itself, those that replace the run, and the hidden flag
/// of [`flags::called_as`].
const CONFIG_FLAGS: [&str; 4] = ["config", "print-config", "check", "called-as"];

/// Returns the typed arguments, preceded by those of the `--config` file if one is given.
pub(crate) fn merge_config(
    command: &Command,
    typed: &[OsString],
) -> Result<Vec<OsString>, Diagnostic> {
    // This parse only finds `--config` and the flags that were typed, and ignores errors; the
    // actual parse, which follows, reports them.
    let lenient = command.clone().ignore_errors(true).no_binary_name(true);
    let Ok(seen) = lenient.try_get_matches_from(typed) else {
        return Ok(typed.to_vec());
    };
    let Some(path) = flags::optional::<PathBuf>(&seen, "config") else {
        return Ok(typed.to_vec());
    };
    let mut merged = Vec::new();
    for (key, value) in &read(path)? {
        let arg = flag_of(command, key).ok_or_else(|| unknown_key(path, key))?;
        if seen.value_source(arg.get_id().as_str()) != Some(ValueSource::CommandLine) {
            merged.extend(as_flags(arg, key, value).ok_or_else(|| unfit_value(path, key))?);
        }
    }
    merged.extend_from_slice(typed);
    Ok(merged)
}

/// Returns the settings as a file that `--config` reads back.
pub(crate) fn print_config(command: &Command, matches: &ArgMatches) -> String {
    let lines = command
        .get_arguments()
        .filter_map(|arg| Some((arg, settable_key(arg)?)))
        .filter_map(|(arg, key)| Some(format!("{key} = {}\n", printed_value(arg, matches)?)));
    lines.collect()
}

/// Maximum length of a file of settings in bytes. Without a limit, a device such as `/dev/zero`
/// would be read for ever.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Reads the text of a file of settings.
///
/// # Errors
/// SR0201, with the reason, if the file cannot be read, or has more than 16 MiB.
pub fn read_text(path: &Path) -> Result<String, Diagnostic> {
    let read = || {
        let mut text = String::new();
        let file = File::open(path)?;
        file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::other("it has more than 16 MiB, so it is no file of settings"));
        }
        Ok(text)
    };
    read().map_err(|error: io::Error| {
        let name = path.display();
        Diagnostic::new(SR0201, format!("cannot open {name}"))
            .with_cause(error.to_string())
            .with_help(format!("see whether it is there and may be read: ls -ld {name}"))
    })
}

fn read(path: &Path) -> Result<Table, Diagnostic> {
    let name = path.display();
    let text = read_text(path)?;
    text.parse::<Table>().map_err(|error| {
        let (line, column) = position(&text, error.span().map_or(0, |span| span.start));
        Diagnostic::new(SR0009, format!("{name} is not TOML"))
            .with_cause(format!("line {line}, column {column}: {}", error.message()))
            .with_help(
                "see what a file looks like: add --print-config to a command line that works",
            )
    })
}

/// Returns line and column of a byte offset, both counted from 1.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, before[start..].chars().count() + 1)
}

fn flag_of<'c>(command: &'c Command, key: &str) -> Option<&'c Arg> {
    command.get_arguments().find(|arg| settable_key(arg) == Some(key))
}

/// Returns the key that sets a flag; `None` for flags that a file cannot set.
fn settable_key(arg: &Arg) -> Option<&str> {
    arg.get_long().filter(|long| {
        let acts_at_once = matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        );
        !CONFIG_FLAGS.contains(long) && !acts_at_once
    })
}

/// Returns a key as command line flags; `None` if the flag does not accept such a value.
fn as_flags(arg: &Arg, key: &str, value: &Value) -> Option<Vec<OsString>> {
    let bare = || OsString::from(format!("--{key}"));
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Boolean(on)) => Some(on.then(bare).into_iter().collect()),
        (ArgAction::Count, Value::Integer(times)) => {
            let times = usize::try_from(*times).ok().filter(|times| *times <= 8)?;
            Some(vec![bare(); times])
        }
        (ArgAction::SetTrue | ArgAction::Count, _) => None,
        (_, Value::Array(values)) => values.iter().map(|value| assigned(key, value)).collect(),
        (_, value) => assigned(key, value).map(|flag| vec![flag]),
    }
}

fn assigned(key: &str, value: &Value) -> Option<OsString> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(on) => on.to_string(),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => return None,
    };
    Some(format!("--{key}={text}").into())
}

fn unknown_key(path: &Path, key: &str) -> Diagnostic {
    let name = path.display();
    Diagnostic::new(SR0010, format!("{name}: the command has no flag `{key}`"))
        .with_cause("keys are the long names of flags, without dashes")
        .with_help("print the present settings: --print-config")
}

fn unfit_value(path: &Path, key: &str) -> Diagnostic {
    let name = path.display();
    Diagnostic::new(SR0010, format!("{name}: `{key}` takes no such value"))
        .with_cause("the value is of a kind that the flag does not take")
        .with_help("switches take true or false, counted flags a number, others a value or a list")
}

/// Returns the value of a flag in TOML; `None` if the flag has no value.
fn printed_value(arg: &Arg, matches: &ArgMatches) -> Option<String> {
    let id = arg.get_id().as_str();
    match arg.get_action() {
        ArgAction::SetTrue => matches.get_flag(id).then(|| "true".to_owned()),
        ArgAction::Count => {
            Some(matches.get_count(id)).filter(|times| *times > 0).map(|times| times.to_string())
        }
        _ => {
            let raw = matches.get_raw(id)?;
            let mut values: Vec<_> = raw.map(|value| quoted(&value.to_string_lossy())).collect();
            match values.len() {
                1 => values.pop(),
                _ => Some(format!("[{}]", values.join(", "))),
            }
        }
    }
}

/// Returns the text as a basic string of TOML. All escapes of JSON are valid there, and the
/// character DEL needs an escape, which JSON does not.
#[must_use]
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_not_read_for_ever() {
        let error = read_text(Path::new("/dev/zero")).unwrap_err().to_text(false);
        assert!(error.contains("cannot open /dev/zero"), "{error}");
        assert!(error.contains("more than 16 MiB"), "{error}");
    }

    #[test]
    fn every_character_of_ascii_is_read_back_from_a_quoted_text() {
        let text: String = (0..=0x7f_u8).map(char::from).collect();
        let file = format!("text = {}", quoted(&text));
        let read: toml::Table = toml::from_str(&file).unwrap();
        assert_eq!(read["text"].as_str(), Some(text.as_str()));
    }
}
