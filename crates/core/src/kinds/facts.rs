//! What is known of a kind without opening anything.

use slipring_confine::CapabilitySet;

/// What users read of a kind of port, and what others do about its ports.
#[derive(Debug)]
pub struct KindFacts {
    /// How its names are written; none where it cannot be opened.
    pub rows: &'static [NameRow],
    /// Capabilities that the owner of a port keeps until it is closed.
    pub keeps: CapabilitySet,
    /// What a port takes from the host.
    pub interface: InterfaceUse,
    /// What becomes of a port that the daemon has when the daemon is started again.
    pub restart: AfterRestart,
}

impl KindFacts {
    /// Of a kind that takes nothing from the host, keeps no privilege and is no port of the daemon.
    #[must_use]
    pub const fn new(rows: &'static [NameRow]) -> Self {
        Self {
            rows,
            keeps: CapabilitySet::empty(),
            interface: InterfaceUse::None,
            restart: AfterRestart::NotServed,
        }
    }
}

/// One way to write a name.
#[derive(Debug, Clone, Copy)]
pub struct NameRow {
    /// The name, in Markdown: `` `xdp:IF` ``.
    pub name: &'static str,
    /// What it opens, in Markdown.
    pub what: &'static str,
    /// The privilege that opening it takes, in Markdown.
    pub needs: &'static str,
    /// What it opens, in a few words of plain text.
    pub help: &'static str,
}

/// What a port takes from the host's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceUse {
    /// The port takes no frames from the stack.
    None,
    /// All frames of the interface, also where `--shared` is asked for.
    Whole,
    /// All frames of the interface, unless `--shared` is asked for.
    UnlessShared,
    /// All frames, where the name is that of an interface.
    IfInterface,
}

/// What becomes of a port that the daemon has when the daemon is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterRestart {
    /// The daemon has no such ports: they end with the program that opened them.
    NotServed,
    /// The port is the daemon's own: rings and contents go on as they are.
    GoesOn,
    /// The next daemon opens it again over the same rings; what is not there any more is gone.
    Reopened,
}

impl AfterRestart {
    /// In words, for the documentation.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::NotServed => "ends with the program that opened it",
            Self::GoesOn => "goes on, with what is in its rings",
            Self::Reopened => "is opened again over the same rings",
        }
    }
}
