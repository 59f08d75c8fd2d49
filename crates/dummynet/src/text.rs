//! `pipe`, `queue` and `sched` commands as text: read, checked, written canonically.
//!
//! ```text
//! pipe N config [bw R] [delay T] [burst S] [profile FILE] [profile-values …] [queue …] [plr …] [mask …] [red …] …
//! queue N config pipe|sched N [weight W] [lmax L] [pri P] [mask …] [queue …] …
//! sched N config [type fifo|wf2q+|rr|qfq|prio|fq_codel|fq_pie …] [mask …] …
//! pipe|queue|sched delete N|N-M … · show [N|N-M …] · list · flush
//! ```
//!
//! Words are dummynet's. Beyond it: rates and times may have a fraction and any of the units
//! (`2.5Gbit/s`, `50us`), and 64 bits, so that nothing wraps.
//!
//! What [`core::fmt::Display`] writes reads back as the same configuration.
//!
//! Not for: files. A `profile` is named by [`Command::Config`]'s caller's word and loaded by it.

mod aqm;
mod config;
mod cursor;
mod number;
mod print;
#[cfg(test)]
mod tests;
mod values;

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use cursor::Cursor;

use crate::spec::Number;
use crate::{Config, ObjectKind};

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Makes or changes an object.
    Config(Config),
    /// As [`Self::Config`] of a pipe, once this profile is loaded into it
    /// ([`crate::spec::PipeSpec::load`]).
    ConfigWithProfile(Config, String),
    /// Deletes objects.
    Delete(ObjectKind, Vec<RangeInclusive<Number>>),
    /// Lists objects; without ranges, all.
    Show(ObjectKind, Vec<RangeInclusive<Number>>),
    /// Deletes everything.
    Flush,
    /// Tells or sets what [`crate::SYSCTL_PREFIX`] and this name stand for; all, where it is empty.
    /// Commands that are read never say this.
    Sysctl(String, Option<u32>),
}

/// What is wrong with a command, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at column {column}; expected {expected}")]
pub struct TextError {
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub expected: String,
}

/// Caps on what may be configured, with their names as sysctls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// `net.inet.ip.dummynet.pipe_slot_limit`: 100.
    pub slots: u32,
    /// `net.inet.ip.dummynet.pipe_byte_limit`: 1 MiB.
    pub bytes: u32,
}

impl Default for Caps {
    fn default() -> Self {
        Self { slots: 100, bytes: 1 << 20 }
    }
}

impl Caps {
    /// None: what is read is checked elsewhere.
    pub const NONE: Self = Self { slots: u32::MAX, bytes: u32::MAX };

    /// These, once the sysctl of this name, with or without its prefix, has this value.
    #[must_use]
    pub fn after(mut self, name: &str, value: u32) -> Self {
        match name.rsplit('.').next() {
            Some("pipe_slot_limit") => self.slots = value,
            Some("pipe_byte_limit") => self.bytes = value,
            _ => {}
        }
        self
    }
}

impl Command {
    /// Reads a command: the arguments of `ipfw` or `dnctl`, joined by blanks.
    ///
    /// # Errors
    /// [`TextError`] with the column of the word that is wrong.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        Self::parse_within(text, &Caps::default())
    }

    /// Reads a command under other caps.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_within(text: &str, caps: &Caps) -> Result<Self, TextError> {
        let mut cursor = Cursor::new(text);
        let kind = kind(&mut cursor)?;
        let command = verb(&mut cursor, kind, caps)?;
        cursor.end()?;
        Ok(command)
    }
}

fn kind(cursor: &mut Cursor<'_>) -> Result<ObjectKind, TextError> {
    let word = cursor.next("pipe, queue or sched")?;
    Ok(match word.text {
        "pipe" => ObjectKind::Pipe,
        "queue" => ObjectKind::Queue,
        "sched" => ObjectKind::Sched,
        _ => return Err(word.wrong("pipe, queue or sched")),
    })
}

/// `N config …` and `config N …`, and so for the others.
fn verb(cursor: &mut Cursor<'_>, kind: ObjectKind, caps: &Caps) -> Result<Command, TextError> {
    const VERBS: &str = "a number and `config`, or delete, show, list or flush";
    let word = cursor.next(VERBS)?;
    match word.text {
        "config" => {
            let number = number::object(cursor.next("a number")?)?;
            config::parse(cursor, kind, number, caps)
        }
        "delete" => Ok(Command::Delete(kind, ranges(cursor, true)?)),
        "show" | "list" => Ok(Command::Show(kind, ranges(cursor, false)?)),
        "flush" => Ok(Command::Flush),
        _ => {
            let range = number::range(word).map_err(|_| word.wrong(VERBS))?;
            let verb = cursor.next("config, delete or show")?;
            match verb.text {
                "config" => config::parse(cursor, kind, number::object(word)?, caps),
                "delete" => Ok(Command::Delete(kind, range)),
                "show" | "list" => Ok(Command::Show(kind, range)),
                _ => Err(verb.wrong("config, delete or show")),
            }
        }
    }
}

fn ranges(
    cursor: &mut Cursor<'_>,
    is_needed: bool,
) -> Result<Vec<RangeInclusive<Number>>, TextError> {
    let mut all = Vec::new();
    if is_needed && cursor.peek().is_none() {
        cursor.next("a number or a range")?;
    }
    while let Some(word) = cursor.take() {
        all.extend(number::range(word)?);
    }
    Ok(all)
}
