//! Static description of a kind of port.

use slipring_confine::CapabilitySet;

/// Documentation of a kind of port, and properties that other code needs.
#[derive(Debug)]
pub struct PortKindInfo {
    /// The forms of the kind's names; none if its ports cannot be opened.
    pub rows: &'static [NameRow],
    /// Capabilities that the owner of a port keeps until the port is closed.
    pub keeps: CapabilitySet,
    /// The part of an interface's frames that a port takes from the host.
    pub interface: InterfaceUse,
    /// What happens to a port served by the daemon when the daemon is restarted.
    pub restart: AfterRestart,
    /// Whether ports only read the buffers of a tx ring, so that a sent frame is still in its
    /// buffer when the slot is free again. False if a peer gets the buffer, or may write to it.
    pub only_reads_tx: bool,
}

impl PortKindInfo {
    /// The defaults: the port takes nothing from the host, keeps no privilege, is not served by the
    /// daemon, and may give the buffers of sent frames away.
    #[must_use]
    pub const fn new(rows: &'static [NameRow]) -> Self {
        Self {
            rows,
            keeps: CapabilitySet::empty(),
            interface: InterfaceUse::None,
            restart: AfterRestart::NotServed,
            only_reads_tx: false,
        }
    }
}

/// One form of a name.
#[derive(Debug, Clone, Copy)]
pub struct NameRow {
    /// The name, in Markdown: `` `xdp:IF` ``.
    pub name: &'static str,
    /// What the name opens, in Markdown.
    pub what: &'static str,
    /// What opening it requires, such as a privilege, in Markdown.
    pub needs: &'static str,
    /// What the name opens, in a few words of plain text.
    pub help: &'static str,
}

/// The part of an interface's frames that a port takes from the host's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceUse {
    /// The port takes no frames from the stack.
    None,
    /// All frames of the interface, even with `--shared`.
    Whole,
    /// All frames of the interface, unless `--shared` is given.
    UnlessShared,
    /// All frames, if the port's name is the name of an interface.
    IfInterface,
}

/// What happens to a port served by the daemon when the daemon is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterRestart {
    /// The daemon has no such ports: a port of this kind ends with its program.
    NotServed,
    /// The daemon itself implements the port: rings and frames stay as they are.
    GoesOn,
    /// The next daemon opens the port again over the same rings; if the device no longer exists,
    /// the port ends.
    Reopened,
}

impl AfterRestart {
    /// Describes the behaviour for the documentation.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::NotServed => "ends with the program that opened it",
            Self::GoesOn => "goes on, with what is in its rings",
            Self::Reopened => "is opened again over the same rings",
        }
    }
}
