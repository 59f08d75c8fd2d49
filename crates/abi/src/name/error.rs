//! Why a string is not a port name, where, and what to write instead.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::kind::{NameForm, PIPES, PLANNED};
use super::{PortName, listed};

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

/// The kinds that can be opened; the grammar knows more.
fn kinds() -> String {
    let words = listed("", |kind| kind.form != NameForm::SwitchPort && !kind.has(PLANNED));
    format!("the kinds are {words}; pipes are NAME{{K and NAME}}K, ports of switches valeX:NAME")
}

impl PortNameError {
    /// The one thing to try next, without the word "help".
    #[must_use]
    pub fn help(&self) -> Option<String> {
        match &self.reason {
            PortNameFault::MissingKind => Some(self.help_missing_kind()),
            PortNameFault::UnknownKind(_) => Some(kinds()),
            PortNameFault::MissingSwitchPort { .. } => Some(self.help_switch()),
            PortNameFault::ExpectedRing { found: Some(_) }
            | PortNameFault::ExpectedSuffix { .. } => self.help_dash(),
            PortNameFault::BadChar { found: ':' } => self.help_with_kind(""),
            PortNameFault::PipeOfKind => self.help_with_kind("netmap:"),
            PortNameFault::UnknownFlag(_) => Some(
                "the flags are x (exclusive), z (zero-copy monitor), t (monitor tx), \
                 r (monitor rx), T (tx rings only) and R (rx rings only)"
                    .to_string(),
            ),
            PortNameFault::UnknownOption(_) => {
                Some("the options are @N, @share:…, @extmem:…, @conf:… and @offset:…".to_string())
            }
            PortNameFault::UnknownKey { known, .. } => {
                Some(format!("the keys are {}", known.join(", ")))
            }
            _ => None,
        }
    }

    fn help_missing_kind(&self) -> String {
        let with_kind = format!("netmap:{}", self.input);
        match PortName::parse(&with_kind) {
            Ok(_) => format!("write `{with_kind}`"),
            Err(error) => error.help().unwrap_or_else(kinds),
        }
    }

    fn help_switch(&self) -> String {
        let switch: String = self.input.chars().take(self.column - 1).collect();
        format!("write `{switch}:NAME` for a port of the switch, `netmap:NAME` for an interface")
    }

    /// The same name with another kind, if that is right.
    fn help_with_kind(&self, prefix: &str) -> Option<String> {
        let (_, rest) = self.input.split_once(':')?;
        let name = format!("{prefix}{rest}");
        PortName::parse(&name).ok()?;
        Some(format!("write `{name}`"))
    }

    /// For a name with a `-` in it that was taken for the start of a ring suffix.
    fn help_dash(&self) -> Option<String> {
        let chars: Vec<char> = self.input.chars().collect();
        let dash = chars[..self.column - 1].iter().rposition(|&c| c == '-')?;
        let doubled = |until: usize| -> String {
            let copies = |(i, c)| core::iter::repeat_n(c, doubled_count(i, c, dash, until));
            chars.iter().copied().enumerate().flat_map(copies).collect()
        };
        // Only this `-`, so that `my-if-2` keeps its ring; or else all that follow.
        let name = [dash, chars.len()]
            .into_iter()
            .map(doubled)
            .find(|name| PortName::parse_classic(name).is_ok())?;
        Some(format!("a `-` that belongs to the name is written twice: `{name}`"))
    }
}

/// How often `c` at `index` is written when the dashes `from..=until` belong to the name.
fn doubled_count(index: usize, c: char, from: usize, until: usize) -> usize {
    if c == '-' && (from..=until).contains(&index) { 2 } else { 1 }
}
