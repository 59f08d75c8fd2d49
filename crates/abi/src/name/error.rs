//! Errors of port names: the cause, the column, and a suggestion.

use alloc::format;
use alloc::string::{String, ToString};

use super::kind::PIPES;
use super::listed;

/// A string that is not the name of a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{input:?} is not a port name: column {column}: {reason}")]
#[non_exhaustive]
pub struct PortNameError {
    /// The string that was parsed.
    pub input: String,
    /// Column of the first wrong character, counted in characters from 1; one past the last if the
    /// string ends too early.
    pub column: usize,
    /// The mistake in the name.
    pub reason: PortNameFault,
}

/// The kind of mistake in a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PortNameFault {
    /// The name has no kind, and is not the name of a pipe.
    #[error("it does not say what kind of port this is")]
    MissingKind,
    /// The name of a switch without a port.
    #[error("expected `:` after the name of the switch, found {}", found_text(*found))]
    MissingSwitchPort {
        /// The character found; `None` at the end of the string.
        found: Option<char>,
    },
    /// A prefix that is not a kind.
    #[error("there is no kind `{0}:`")]
    UnknownKind(String),
    /// The string lacks an element of the grammar.
    #[error("expected {what}, found {}", found_text(*found))]
    Expected {
        /// What was expected at that position.
        what: &'static str,
        /// The character found; `None` at the end of the string.
        found: Option<char>,
    },
    /// The `-` of a ring suffix is not followed by a number.
    #[error("expected the number of a ring after `-`, found {}", found_text(*found))]
    ExpectedRing {
        /// The character found; `None` at the end of the string.
        found: Option<char>,
    },
    /// A character that starts no suffix follows the name.
    #[error("expected a suffix or the end, found {}", found_text(Some(*found)))]
    ExpectedSuffix {
        /// The character found.
        found: char,
    },
    /// A character that no name can contain.
    #[error("{} cannot be part of a name", found_text(Some(*found)))]
    BadChar {
        /// The character.
        found: char,
    },
    /// An interface name `.` or `..`, which Linux refuses.
    #[error("no interface can have this name")]
    ReservedName,
    /// The name of an interface is too long.
    #[error("the name of an interface has at most {max} bytes")]
    InterfaceTooLong {
        /// Maximum length in bytes.
        max: usize,
    },
    /// The name with its switch and its pipe is too long.
    #[error("the name of a port has at most {max} bytes")]
    PortTooLong {
        /// Maximum length in bytes.
        max: usize,
    },
    /// The name after `vfio:` is not a PCI address.
    #[error("expected a PCI address such as 0000:03:00.0")]
    PciAddress,
    /// A pipe suffix on a name whose kind has no pipes.
    #[error("only {} ports have pipes", listed("`", |kind| kind.has(PIPES)))]
    PipeOfKind,
    /// A number that is too large.
    #[error("the number is greater than {max}")]
    NumberTooLarge {
        /// The largest valid number.
        max: u64,
    },
    /// A number that must not be 0.
    #[error("the number must be at least 1")]
    Zero,
    /// A letter that is not a flag.
    #[error("{} is not a flag", found_text(Some(*.0)))]
    UnknownFlag(char),
    /// A word after `@` that is not an option.
    #[error("there is no option `@{0}`")]
    UnknownOption(String),
    /// A word that is not a key of its option.
    #[error("the option has no key `{key}`")]
    UnknownKey {
        /// The unknown word.
        key: String,
        /// The valid keys of the option.
        known: &'static [&'static str],
    },
    /// A repeated key or option.
    #[error("`{0}` is given twice")]
    Repeated(String),
    /// A second memory option.
    #[error("another memory region is asked for already")]
    SecondMemory,
}

fn found_text(found: Option<char>) -> String {
    found.map_or_else(|| "the end".to_string(), |c| format!("`{}`", c.escape_debug()))
}
