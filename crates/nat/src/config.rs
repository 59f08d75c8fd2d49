use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv4Addr;

use crate::redirect::Redirect;

/// The configuration of an instance: the parameters of `nat N config`.
///
/// `Display` writes it as in ipfw's list, each parameter after a space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatConfig {
    /// The outside address.
    pub outside: OutsideAddress,
    /// The mode switches.
    pub modes: NatModes,
    /// The first and the last port that the instance may use; `None` means the range 32768 to
    /// 65535.
    pub ports: Option<(u16, u16)>,
    /// The redirections. If two redirections match a packet equally well, the later one applies.
    pub redirects: Vec<Redirect>,
}

/// The outside address of a `nat` instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OutsideAddress {
    /// No address is configured; the caller may set one later. Until then, outgoing packets that
    /// need the instance's address are dropped, and a redirection without an outside address
    /// accepts packets for any address.
    #[default]
    None,
    /// A fixed address.
    Address(Ipv4Addr),
    /// The address of an interface; the caller supplies it ([`crate::Translator::set_address`]).
    Interface(String),
}

/// A mode switch of a `nat` instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum NatMode {
    /// `log`: counts flows for `nat show`. This program always counts them, even without `log`.
    Log = 1,
    /// `deny_in`: only redirections of ports and protocols admit new flows from outside.
    DenyIn = 2,
    /// `same_ports`: a flow keeps the port of the inside host if that port is free.
    SamePorts = 4,
    /// `skip_global`: `nat global` skips this instance.
    SkipGlobal = 8,
    /// `unreg_only`: only private sources (RFC 1918) are translated.
    UnregOnly = 16,
    /// `unreg_cgn`: like `unreg_only`, but sources in 100.64.0.0/10 (RFC 6598) are translated as
    /// well.
    UnregCgn = 32,
    /// `reset`: all flows end when the address changes.
    Reset = 64,
    /// `reverse`: swaps the directions `in` and `out`.
    Reverse = 128,
    /// `proxy_only`: translates only by rules for transparent proxies. There are no such rules
    /// here, so nothing is translated.
    ProxyOnly = 256,
}

impl NatMode {
    /// All switches with their keywords, in the order in which ipfw lists them.
    pub const ALL: [(&str, Self); 9] = [
        ("log", Self::Log),
        ("deny_in", Self::DenyIn),
        ("same_ports", Self::SamePorts),
        ("skip_global", Self::SkipGlobal),
        ("unreg_only", Self::UnregOnly),
        ("unreg_cgn", Self::UnregCgn),
        ("reset", Self::Reset),
        ("reverse", Self::Reverse),
        ("proxy_only", Self::ProxyOnly),
    ];
}

/// A set of mode switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatModes(u16);

impl NatModes {
    /// Returns the set with `mode` added.
    #[must_use]
    pub const fn with(self, mode: NatMode) -> Self {
        Self(self.0 | mode as u16)
    }

    /// Returns whether the set contains `mode`.
    #[must_use]
    pub const fn has(self, mode: NatMode) -> bool {
        self.0 & mode as u16 != 0
    }
}

impl NatConfig {
    /// Returns whether outgoing packets from this source address must be translated.
    pub(crate) fn translates_source(&self, source: Ipv4Addr) -> bool {
        let [a, b, ..] = source.octets();
        let is_cgn = a == 100 && (64..128).contains(&b);
        if self.modes.has(NatMode::UnregCgn) {
            return source.is_private() || is_cgn;
        }
        !self.modes.has(NatMode::UnregOnly) || source.is_private()
    }

    /// The first of the ports that flows may use, and the number of these ports.
    pub(crate) fn port_range(&self) -> (u16, u32) {
        let (first, last) = self.ports.unwrap_or((0x8000, 0xffff));
        (first, u32::from(last) - u32::from(first) + 1)
    }
}

impl fmt::Display for NatConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outside {
            OutsideAddress::None => {}
            OutsideAddress::Address(address) => write!(f, " ip {address}")?,
            OutsideAddress::Interface(name) => write!(f, " if {name}")?,
        }
        for (keyword, mode) in NatMode::ALL {
            if self.modes.has(mode) {
                write!(f, " {keyword}")?;
            }
        }
        if let Some((first, last)) = self.ports {
            write!(f, " port_range {first}-{last}")?;
        }
        self.redirects.iter().try_for_each(|redirect| write!(f, " {redirect}"))
    }
}
