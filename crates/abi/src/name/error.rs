//! Why a string is not a port name, where, and what to write instead.

use alloc::format;
use alloc::string::{String, ToString};

use super::kind::PIPES;
use super::listed;

/// A string that is not the name of a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{input:?} is not a port name: column {column}: {reason}")]
#[non_exhaustive]
pub struct PortNameError {
    /// The string.
    pub input: String,
    /// The first character that is wrong, counted in characters from 1; one more than there
    /// are if the string ends too early.
    pub column: usize,
    /// What is wrong there.
    pub reason: PortNameFault,
}

/// What is wrong with a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PortNameFault {
    /// No kind, and no pipe either.
    #[error("it does not say what kind of port this is")]
    MissingKind,
    /// The name of a switch, but no port of it.
    #[error("expected `:` after the name of the switch, found {}", found_text(*found))]
    MissingSwitchPort {
        /// What is here; `None` if the string ends.
        found: Option<char>,
    },
    /// A prefix that is no kind.
    #[error("there is no kind `{0}:`")]
    UnknownKind(String),
    /// Something must be here.
    #[error("expected {what}, found {}", found_text(*found))]
    Expected {
        /// What must be here.
        what: &'static str,
        /// What is here; `None` if the string ends.
        found: Option<char>,
    },
    /// No number after the `-` of a ring suffix.
    #[error("expected the number of a ring after `-`, found {}", found_text(*found))]
    ExpectedRing {
        /// What is here; `None` if the string ends.
        found: Option<char>,
    },
    /// Nothing or a suffix must be here.
    #[error("expected a suffix or the end, found {}", found_text(Some(*found)))]
    ExpectedSuffix {
        /// What is here.
        found: char,
    },
    /// A character that no name can contain.
    #[error("{} cannot be part of a name", found_text(Some(*found)))]
    BadChar {
        /// The character.
        found: char,
    },
    /// `.` or `..`.
    #[error("no interface can have this name")]
    ReservedName,
    /// The name of an interface is too long.
    #[error("the name of an interface has at most {max} bytes")]
    InterfaceTooLong {
        /// How long it may be, in bytes.
        max: usize,
    },
    /// The name with its switch and its pipe is too long.
    #[error("the name of a port has at most {max} bytes")]
    PortTooLong {
        /// How long it may be, in bytes.
        max: usize,
    },
    /// Not an address on the PCI bus.
    #[error("expected a PCI address such as 0000:03:00.0")]
    PciAddress,
    /// A pipe, under a kind that has none.
    #[error("only {} ports have pipes", listed("`", |kind| kind.has(PIPES)))]
    PipeOfKind,
    /// A number that does not fit.
    #[error("the number is greater than {max}")]
    NumberTooLarge {
        /// The greatest number that fits.
        max: u64,
    },
    /// A number that must not be 0.
    #[error("the number must be at least 1")]
    Zero,
    /// A letter that is no flag.
    #[error("{} is not a flag", found_text(Some(*.0)))]
    UnknownFlag(char),
    /// A word after `@` that is no option.
    #[error("there is no option `@{0}`")]
    UnknownOption(String),
    /// A word that is no key of its option.
    #[error("the option has no key `{key}`")]
    UnknownKey {
        /// The word.
        key: String,
        /// The keys that the option has.
        known: &'static [&'static str],
    },
    /// A key or an option that was there before.
    #[error("`{0}` is given twice")]
    Repeated(String),
    /// One memory region after another.
    #[error("another memory region is asked for already")]
    SecondMemory,
}

fn found_text(found: Option<char>) -> String {
    found.map_or_else(|| "the end".to_string(), |c| format!("`{}`", c.escape_debug()))
}
