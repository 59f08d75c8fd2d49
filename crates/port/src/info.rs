//! The description of a port: the mode actually in use, and its capabilities.

use std::fmt;

/// Description of an open port.
#[derive(Debug, Clone)]
pub struct PortInfo {
    /// The name by which the port was opened.
    pub name: String,
    /// The port's kind: `xdp`, `packet`, `pipe`, `host`, …
    pub kind: &'static str,
    /// The mode in use. Programs report it when they start.
    pub mode: PortMode,
    /// What the port can do.
    pub caps: PortCaps,
    /// Hardware address; `None` if the port has none.
    pub mac: Option<[u8; 6]>,
    /// MTU of the interface in bytes; `None` if the port has no interface.
    pub mtu: Option<u32>,
}

impl fmt::Display for PortInfo {
    /// Formats the description as one line: `xdp:veth0 kind=xdp mode=native …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} kind={}{}", self.name, self.kind, self.mode)
    }
}

/// The mode as `key=value` pairs, in the order in which they were added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortMode(Vec<(&'static str, String)>);

impl PortMode {
    /// Creates an empty mode.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the pair `key=value`.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.0.push((key, value.to_string()));
        self
    }

    /// Adds `link=down` if the interface is down.
    #[must_use]
    pub(crate) fn with_link(self, up: bool) -> Self {
        if up { self } else { self.with("link", "down") }
    }

    /// Returns the value of `key`, if the mode has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| *k == key).map(|(_, value)| value.as_str())
    }

    /// Iterates over all keys and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(key, value)| (*key, value.as_str()))
    }
}

impl fmt::Display for PortMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}

/// What a port can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortCaps {
    /// Whether the port receives.
    pub rx: bool,
    /// Whether the port sends.
    pub tx: bool,
    /// Longest packet, in bytes without CRC. It may take several slots.
    pub max_packet: u32,
    /// Longest part of a packet that one tx slot should carry, in bytes.
    pub max_slot: u32,
}
