//! Errors in port names. Each has a cause and a column, and many have a suggestion.

use alloc::format;
use alloc::string::{String, ToString};

use super::kind::PIPES;
use super::listed;

/// The reason why a string is not the name of a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{input:?} is not a port name: column {column}: {reason}")]
#[non_exhaustive]
pub struct PortNameError {
    /// The string that was parsed.
    pub input: String,
    /// Column of the first wrong character, counted in characters from 1. If the string ends too
    /// early, the column is one past its last character.
    pub column: usize,
    /// What is wrong with the name.
    pub reason: PortNameFault,
}

/// What is wrong with a port name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PortNameFault {
    /// The name has no prefix such as `netmap:`, and is not the name of a pipe.
    #[error("it does not say what kind of port this is")]
    MissingKind,
    /// The name contains a switch but no port.
    #[error("expected `:` after the name of the switch, found {}", found_text(*found))]
    MissingSwitchPort {
        /// The character in place of the port; `None` at the end of the string.
        found: Option<char>,
    },
    /// The name has this prefix, but no kind of port has it.
    #[error("there is no kind `{0}:`")]
    UnknownKind(String),
    /// The string lacks an element of the grammar.
    #[error("expected {what}, found {}", found_text(*found))]
    Expected {
        /// What the grammar requires at this position.
        what: &'static str,
        /// The character at this position; `None` at the end of the string.
        found: Option<char>,
    },
    /// The `-` of a ring suffix is not followed by a number.
    #[error("expected the number of a ring after `-`, found {}", found_text(*found))]
    ExpectedRing {
        /// The character at this position; `None` at the end of the string.
        found: Option<char>,
    },
    /// After the name, there is a character that does not start a suffix.
    #[error("expected a suffix or the end, found {}", found_text(Some(*found)))]
    ExpectedSuffix {
        /// The character after the name.
        found: char,
    },
    /// The name contains a character that is not allowed in any name.
    #[error("{} cannot be part of a name", found_text(Some(*found)))]
    BadChar {
        /// The character that is not allowed.
        found: char,
    },
    /// The name of the interface is `.` or `..`, which Linux refuses.
    #[error("no interface can have this name")]
    ReservedName,
    /// The interface's name is too long.
    #[error("the name of an interface has at most {max} bytes")]
    InterfaceTooLong {
        /// Maximum length in bytes.
        max: usize,
    },
    /// The name, together with its switch and its pipe, is too long.
    #[error("the name of a port has at most {max} bytes")]
    PortTooLong {
        /// Maximum length in bytes.
        max: usize,
    },
    /// The name after `vfio:` is not a PCI address.
    #[error("expected a PCI address such as 0000:03:00.0")]
    PciAddress,
    /// The name has a pipe suffix, but its kind has no pipes.
    #[error("only {} ports have pipes", listed("`", |kind| kind.has(PIPES)))]
    PipeOfKind,
    /// A number is too large.
    #[error("the number is greater than {max}")]
    NumberTooLarge {
        /// The largest number that would be valid.
        max: u64,
    },
    /// A number is 0, but must not be 0.
    #[error("the number must be at least 1")]
    Zero,
    /// This letter is not a flag.
    #[error("{} is not a flag", found_text(Some(*.0)))]
    UnknownFlag(char),
    /// This word after `@` is not an option.
    #[error("there is no option `@{0}`")]
    UnknownOption(String),
    /// A word is not a key of its option.
    #[error("the option has no key `{key}`")]
    UnknownKey {
        /// The unknown word.
        key: String,
        /// The valid keys of the option.
        known: &'static [&'static str],
    },
    /// This key or option is given twice.
    #[error("`{0}` is given twice")]
    Repeated(String),
    /// The name has two different memory options.
    #[error("another memory region is asked for already")]
    SecondMemory,
}

fn found_text(found: Option<char>) -> String {
    found.map_or_else(|| "the end".to_string(), |c| format!("`{}`", c.escape_debug()))
}
