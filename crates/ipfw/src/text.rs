//! The rule language as text: parsing it, and printing it as ipfw does.
//!
//! ```text
//!   line --words--> words with columns --command--> IpfwCommand --Display--> canonical text
//! ```
//!
//! Parsing does not depend on an engine: a command that parses may still be refused by an engine.
//! ipfw features that have no meaning between two ports are refused by name, with the reason.
//!
//! Not for: reading files, command line flags, or names that need a resolver.

mod address;
mod body;
mod command;
mod cursor;
mod error;
mod header;
mod names;
mod nat;
mod nptv6;
mod number;
mod option;
mod print;
mod rule_number;
mod shaper;
mod state;
mod table;
mod unsupported;
mod words;

#[cfg(test)]
mod tests;

pub use command::{DeleteTarget, EnableTarget, IpfwCommand, SetCommand};
pub(crate) use error::shortened;
pub use error::{RuleTextError, RuleTextErrorKind, printable};
pub use names::{dscp_name, proto_name};
pub use nat::{NatCommand, NatShow};
pub use nptv6::{Nptv6Command, Nptv6External, Nptv6Options, Nptv6Verb};
pub use print::{ClauseText, RuleStyle, StyledRule};
pub use rule_number::{AddRule, NumberRange};
pub use shaper::ShaperCommand;
pub use state::StateCommand;
pub use table::{TableCommand, TableOptions, TableScope, TableVerb};

use alloc::format;
use alloc::vec::Vec;

pub(crate) use number::parse as number_value;
pub(crate) use number::{dscp_value, proto_value, service_value};

/// Parses one command: the arguments of `ipfw`, joined by blanks.
///
/// # Errors
/// [`RuleTextError`] on line 1, with the column and what was expected.
pub fn parse_command(text: &str) -> Result<IpfwCommand, RuleTextError> {
    parse_line(text, 1)?.ok_or_else(|| RuleTextError::nothing(1))
}

/// Parses a file of commands, one per line. `#` starts a comment, except within a comment of a rule
/// (`//`), and empty lines are skipped. Each line may begin with the word `ipfw`.
///
/// # Errors
/// [`RuleTextError`] for the first invalid line.
pub fn parse_file(text: &str) -> Result<Vec<(u32, IpfwCommand)>, RuleTextError> {
    parse_lines(text).map(transpose_line).collect()
}

/// Parses a file of commands as [`parse_file`] does, and continues with the next line after an
/// error.
pub fn parse_lines(text: &str) -> impl Iterator<Item = (u32, Result<IpfwCommand, RuleTextError>)> {
    let lines = (1..).zip(text.lines());
    lines.filter_map(|(line, text)| Some((line, parse_line(text, line).transpose()?)))
}

fn transpose_line(
    (line, command): (u32, Result<IpfwCommand, RuleTextError>),
) -> Result<(u32, IpfwCommand), RuleTextError> {
    Ok((line, command?))
}

fn parse_line(text: &str, line: u32) -> Result<Option<IpfwCommand>, RuleTextError> {
    let words = words::split(text, line);
    if words.is_empty() {
        return Ok(None);
    }
    refuse_unprintable(&words)?;
    let mut cursor = cursor::WordCursor::new(&words, text, line);
    let command = command::parse(&mut cursor)?;
    cursor.end()?;
    Ok(Some(command))
}

/// Refuses words with characters that a terminal would not show. Comments may contain any
/// characters: unprintable ones are replaced when a comment is parsed.
fn refuse_unprintable(words: &[words::SourceWord]) -> Result<(), RuleTextError> {
    let command = words.iter().take_while(|word| !word.text.starts_with("//"));
    let wrong = command.into_iter().find(|word| word.text.contains(error::is_unprintable));
    wrong.map_or(Ok(()), |word| {
        let message = format!("`{}` has characters that cannot be seen", word.text);
        Err(RuleTextError::at(word, message, "text"))
    })
}
