//! The text of `pipe`, `queue` and `sched` commands: parses it, checks it, and prints it in a
//! canonical form.
//!
//! ```text
//! pipe N config [bw R] [delay T] [burst S] [profile FILE] [profile-values …]
//!                [queue …] [plr …] [mask …] [red …] …
//! queue N config pipe|sched N [weight W] [lmax L] [pri P] [mask …] [queue …] …
//! sched N config [type fifo|wf2q+|rr|qfq|prio|fq_codel|fq_pie …] [mask …] …
//! pipe|queue|sched delete N|N-M … · show [N|N-M …] · list · flush
//! ```
//!
//! The words are dummynet's. Unlike in dummynet, rates and times may have a fraction and any unit
//! (`2.5Gbit/s`, `50us`), and have 64 bits, so that no value overflows.
//!
//! The text that [`core::fmt::Display`] prints for the commands of [`ShaperConfig::into_commands`]
//! is parsed to the same configuration.
//!
//! Not for files: the caller loads the file that [`DummynetCommand::ConfigWithProfile`] names.

mod aqm;
mod caps;
mod config;
mod cursor;
mod error;
mod number;
mod print;
#[cfg(test)]
mod tests;
mod values;

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

pub use caps::QueueCaps;
use cursor::ShaperCursor;
pub use error::ShaperTextError;

use crate::spec::ObjectNumber;
use crate::{ObjectKind, ShaperConfig};

/// A parsed command.
#[derive(Clone, Debug, PartialEq)]
pub enum DummynetCommand {
    /// Creates or changes an object.
    Config(ShaperConfig),
    /// Like [`Self::Config`], but the caller must first load the profile file with this name into
    /// the pipe ([`crate::spec::PipeSpec::load`]). Only for pipes.
    ConfigWithProfile(ShaperConfig, String),
    /// Deletes the objects of a kind with numbers in these ranges.
    Delete(ObjectKind, Vec<RangeInclusive<ObjectNumber>>),
    /// Lists the objects of a kind whose numbers are in these ranges. If there are no ranges, lists
    /// all objects of the kind.
    Show(ObjectKind, Vec<RangeInclusive<ObjectNumber>>),
    /// Deletes all objects of all kinds.
    Flush,
    /// Reads a sysctl, or sets it to a value. Its name is given without [`crate::SYSCTL_PREFIX`];
    /// if the name is empty, all sysctls are read. [`Self::parse`] never returns this.
    Sysctl(String, Option<u32>),
}

impl DummynetCommand {
    /// Parses a command. It consists of the arguments of `ipfw` or `dnctl`, joined by blanks.
    ///
    /// # Errors
    /// [`ShaperTextError`] with the column of the invalid word, if the command is invalid.
    pub fn parse(text: &str) -> Result<Self, ShaperTextError> {
        Self::parse_within(text, &QueueCaps::default())
    }

    /// Like [`Self::parse`], but the maximum queue sizes are `caps` instead of the defaults.
    ///
    /// # Errors
    /// The errors of [`Self::parse`].
    pub fn parse_within(text: &str, caps: &QueueCaps) -> Result<Self, ShaperTextError> {
        let mut cursor = ShaperCursor::new(text);
        let kind = kind(&mut cursor)?;
        let command = verb(&mut cursor, kind, caps)?;
        cursor.end()?;
        Ok(command)
    }
}

fn kind(cursor: &mut ShaperCursor<'_>) -> Result<ObjectKind, ShaperTextError> {
    let word = cursor.next("pipe, queue or sched")?;
    Ok(match word.text {
        "pipe" => ObjectKind::Pipe,
        "queue" => ObjectKind::Queue,
        "sched" => ObjectKind::Sched,
        _ => return Err(word.wrong("pipe, queue or sched")),
    })
}

/// Parses the verb of a command, and the number before or after it: `N config …` or `config N …`.
fn verb(
    cursor: &mut ShaperCursor<'_>,
    kind: ObjectKind,
    caps: &QueueCaps,
) -> Result<DummynetCommand, ShaperTextError> {
    const VERBS: &str = "a number and `config`, or delete, show, list or flush";
    let word = cursor.next(VERBS)?;
    match word.text {
        "config" => {
            let number = number::object(cursor.next("a number")?)?;
            config::parse(cursor, kind, number, caps)
        }
        "delete" => Ok(DummynetCommand::Delete(kind, ranges(cursor, true)?)),
        "show" | "list" => Ok(DummynetCommand::Show(kind, ranges(cursor, false)?)),
        "flush" => Ok(DummynetCommand::Flush),
        _ => {
            let range = number::range(word).map_err(|_| word.wrong(VERBS))?;
            let verb = cursor.next("config, delete or show")?;
            match verb.text {
                "config" => config::parse(cursor, kind, number::object(word)?, caps),
                "delete" => Ok(DummynetCommand::Delete(kind, range)),
                "show" | "list" => Ok(DummynetCommand::Show(kind, range)),
                _ => Err(verb.wrong("config, delete or show")),
            }
        }
    }
}

fn ranges(
    cursor: &mut ShaperCursor<'_>,
    is_needed: bool,
) -> Result<Vec<RangeInclusive<ObjectNumber>>, ShaperTextError> {
    let mut all = Vec::new();
    if is_needed && cursor.peek().is_none() {
        cursor.next("a number or a range")?;
    }
    while let Some(word) = cursor.take() {
        all.extend(number::range(word)?);
    }
    Ok(all)
}
