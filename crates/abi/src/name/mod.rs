//! Port names. Their grammar is netmap's, extended so that every kind of port can be named
//! explicitly.
//!
//! ```text
//! PORT   = "netmap:" NAME SUFFIX        the best mode of that interface, or a pipe
//!        | "vale" [ID] ":" NAME SUFFIX  port NAME of the switch vale[ID]
//!        | "xdp:" NAME SUFFIX           likewise "packet:" and "tap:"
//!        | "kernel:" [ "vale" [ID] ":" ] NAME SUFFIX    port of a netmap device
//!        | "vfio:" PCI SUFFIX           PCI is 0000:03:00.0 or 03:00.0
//!        | "null:" SUFFIX
//!        | "vhost:" PATH [ OPTION ]     guest whose VMM connects to PATH; `@` doubled
//!        | "vhostclient:" PATH [ OPTION ]    guest whose VMM creates PATH
//!        | "pcap:" FILE                 the rest of the string, whatever it contains
//!        | NAME PIPE SUFFIX             short for "netmap:" NAME PIPE SUFFIX
//! SUFFIX = [ PIPE ] [ RINGS ] { FLAGS | OPTION }
//! PIPE   = "{" ID | "}" ID              master, slave; after netmap:, vale: and kernel: only
//! RINGS  = "-" N | "*" | "^" | "^" N    pair N, NIC and host, host, host pair N
//! FLAGS  = "/" one or more of x z t r T R
//! OPTION = "@" N                                     memory region N
//!        | "@share:port=" P                          memory region of port P
//!        | "@extmem:file=" F ["," KEY "=" N …]       if-num if-size ring-num ring-size
//!                                                    buf-num buf-size
//!        | "@conf:" KEY "=" N ["," …]                rings host-rings slots tx-rings
//!                                                    rx-rings host-tx-rings
//!                                                    host-rx-rings tx-slots rx-slots
//!        | "@" PATH                              device, after kernel: only; starts with "/"
//!        | "@offset:initial=" N ["," "bits=" N]
//! ID     = letters, digits, "_"
//! ```
//! `@share=P`, `@extmem=F` and `@offset=N` are short forms. Their value extends to the next `@` or
//! to the end. A `_` in a key means `-`. Names that netmap accepts have the same meaning here, but
//! a few of them are refused: names with empty values, with 0 as a number of rings, slots, bits or
//! objects, with a `/` that no letter follows, with a repeated key, `@conf` or `@offset`, or with
//! two different memory options.
//!
//! # A `-` in an interface name
//! netmap cannot express names with a `-`, because it takes the `-` for the start of a suffix. In
//! slipring, a suffix character that belongs to a name must be **doubled**: `--`, `**`, `^^`, `@@`.
//! So `netmap:br--lan-2` is ring pair 2 of `br-lan`. No name that netmap accepts contains such a
//! pair, and no shell requires that `--` is quoted. In the values of options, `,` and `@` are
//! doubled in the same way. A single `-` never belongs to the name of an interface: `netmap:br-12`
//! is ring pair 12 of `br`, and `netmap:br-lan` is an error whose help suggests the right name.
//!
//! # Limits
//! No NAME contains a blank, a control character, `:`, `/`, `{` or `}`. Linux refuses most of these
//! characters in the name of an interface, and in a request a brace can only mean a pipe. The name
//! of an interface has at most 15 bytes. A name in a request ([`PortName::request_name`]) has at
//! most 63.
//!
//! # Not for
//! Checking whether the port exists, or whether its kind supports the suffixes.

mod cursor;
mod error;
mod help;
pub mod kind;
mod options;
mod parse;
mod print;
mod request;
#[cfg(test)]
mod tests;

use alloc::string::String;
use core::num::NonZeroU16;
use core::str::FromStr;

pub use error::{PortNameError, PortNameFault};
pub use kind::{KINDS, KindGrammar, NameForm, PortNameKind, listed};
pub use options::{ConfSpec, Extmem, MemorySource, OffsetSpec, PoolSpec};
pub use request::RequestError;

use crate::request as abi;

/// The parts of a port name.
///
/// ```
/// use slipring_abi::name::{PortName, PortNameKind, RingSelection};
///
/// let port = PortName::parse("netmap:br--lan-2/x")?;
/// assert_eq!(port.kind, PortNameKind::Netmap);
/// assert_eq!(port.name, "br-lan");
/// assert_eq!(port.rings, RingSelection::One(2));
/// assert_eq!(port.to_string(), "netmap:br--lan-2/x");
/// # Ok::<(), slipring_abi::name::PortNameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PortName {
    /// The kind of the port. For `vale`, it contains the switch.
    pub kind: PortNameKind,
    /// What the port is called after its kind: an interface, a switch port, the parent of a pipe, a
    /// PCI address, a file or a socket. Empty for `null:`.
    pub name: String,
    /// The end of the pipe, if the port is a pipe. `None` for all kinds except netmap, vale and
    /// kernel.
    pub pipe: Option<PipeEndName>,
    /// The selected rings.
    pub rings: RingSelection,
    /// The binding flags.
    pub flags: PortNameFlags,
    /// Where the port's memory comes from; `None` means the default region.
    pub memory: Option<MemorySource>,
    /// The requested numbers of rings and slots.
    pub conf: ConfSpec,
    /// Where payloads start in their buffers; `None` means at byte 0.
    pub offsets: Option<OffsetSpec>,
    /// Path of the netmap device that has the port; `None` means the default device. For `kernel:`
    /// only.
    pub device: Option<String>,
}

impl PortName {
    /// Parses a name that has an explicit kind or is a pipe.
    ///
    /// # Errors
    /// [`PortNameError`] with the column of the first wrong character, if the name is invalid.
    pub fn parse(input: &str) -> Result<Self, PortNameError> {
        parse::port(input, parse::Dialect::Outright)
    }

    /// Parses a name as netmap's own programs do. A name without a kind is a `netmap:` name, but
    /// `tapX` is the TAP device `tapX`, and `null` is `null:`.
    ///
    /// # Errors
    /// [`PortNameError`] with the column of the first wrong character, if the name is invalid.
    pub fn parse_classic(input: &str) -> Result<Self, PortNameError> {
        parse::port(input, parse::Dialect::Classic)
    }

    fn new(kind: PortNameKind, name: String) -> Self {
        Self {
            kind,
            name,
            pipe: None,
            rings: RingSelection::All,
            flags: PortNameFlags::NONE,
            memory: None,
            conf: ConfSpec::default(),
            offsets: None,
            device: None,
        }
    }
}

impl FromStr for PortName {
    type Err = PortNameError;

    fn from_str(input: &str) -> Result<Self, PortNameError> {
        Self::parse(input)
    }
}

/// The rings of a port that a name selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RingSelection {
    /// All ring pairs of the NIC.
    #[default]
    All,
    /// `-N`: one ring pair of the NIC.
    One(u16),
    /// `*`: all ring pairs of the NIC and of the host.
    NicAndHost,
    /// `^`: all ring pairs of the host.
    Host,
    /// `^N`: one ring pair of the host.
    OneHost(u16),
}

/// One end of a pipe.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PipeEndName {
    /// Whether this end is the master or the slave.
    pub role: PipeRole,
    /// The pipe's name, which distinguishes the pipes of one parent. It consists of letters, digits
    /// and `_`.
    pub id: String,
}

/// The two ends of a pipe. They differ only in their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PipeRole {
    /// The master, written as `{`.
    Master,
    /// The slave, written as `}`.
    Slave,
}

impl PipeRole {
    /// Returns the character that denotes this end in a name.
    #[must_use]
    pub const fn sign(self) -> char {
        match self {
            Self::Master => '{',
            Self::Slave => '}',
        }
    }

    const fn from_sign(sign: char) -> Option<Self> {
        match sign {
            '{' => Some(Self::Master),
            '}' => Some(Self::Slave),
            _ => None,
        }
    }
}

/// A set of `NR_*` flags. It contains only flags that a name can express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortNameFlags(u64);

impl PortNameFlags {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// `x`: no other program may bind these rings.
    pub const EXCLUSIVE: Self = Self(abi::NR_EXCLUSIVE);
    /// `z`: monitor without copying, in the memory of the monitored port. It applies to both
    /// directions, unless `t` or `r` selects one.
    pub const ZCOPY_MON: Self = Self(abi::NR_ZCOPY_MON);
    /// `t`: monitor the frames that the port transmits.
    pub const MONITOR_TX: Self = Self(abi::NR_MONITOR_TX);
    /// `r`: monitor the frames that the port receives.
    pub const MONITOR_RX: Self = Self(abi::NR_MONITOR_RX);
    /// `T`: bind only transmit rings.
    pub const TX_RINGS_ONLY: Self = Self(abi::NR_TX_RINGS_ONLY);
    /// `R`: bind only receive rings.
    pub const RX_RINGS_ONLY: Self = Self(abi::NR_RX_RINGS_ONLY);

    /// The letter of each flag, in the order in which letters are printed.
    const LETTERS: [(char, Self); 6] = [
        ('x', Self::EXCLUSIVE),
        ('z', Self::ZCOPY_MON),
        ('t', Self::MONITOR_TX),
        ('r', Self::MONITOR_RX),
        ('T', Self::TX_RINGS_ONLY),
        ('R', Self::RX_RINGS_ONLY),
    ];

    /// Returns those flags in `nr_flags` that a name can express. If `z` is among them without a
    /// direction, adds both directions.
    #[must_use]
    pub fn from_nr_flags(nr_flags: u64) -> Self {
        let all = Self::LETTERS.into_iter().fold(Self::NONE, |all, (_, flag)| all.with(flag));
        Self(nr_flags & all.0).whole()
    }

    /// If the set has `z` and no direction, returns it with both directions added. Otherwise
    /// returns it unchanged.
    pub(crate) const fn whole(self) -> Self {
        let both = Self::MONITOR_TX.with(Self::MONITOR_RX);
        let is_open = self.contains(Self::ZCOPY_MON) && self.0 & both.0 == 0;
        if is_open { self.with(both) } else { self }
    }

    /// Returns the set as a value for `nr_flags`.
    #[must_use]
    pub const fn nr_flags(self) -> u64 {
        self.0
    }

    /// Returns the union of this set and `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether all flags of `other` are in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether the flags request a monitor.
    #[must_use]
    pub const fn is_monitor(self) -> bool {
        self.0 & (Self::MONITOR_TX.0 | Self::MONITOR_RX.0 | Self::ZCOPY_MON.0) != 0
    }

    fn from_letter(letter: char) -> Option<Self> {
        let (_, flag) = Self::LETTERS.into_iter().find(|(l, _)| *l == letter)?;
        Some(flag)
    }

    fn letters(self) -> impl Iterator<Item = char> {
        Self::LETTERS
            .into_iter()
            .filter(move |(_, flag)| self.contains(*flag))
            .map(|(letter, _)| letter)
    }
}

/// The number of a memory region. It is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemId(pub NonZeroU16);
