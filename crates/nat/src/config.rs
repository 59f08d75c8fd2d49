use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv4Addr;

use crate::redirect::Redirect;

/// What an instance is told to do: the parameters of `nat N config`.
///
/// Written as ipfw lists them, each behind a blank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatConfig {
    /// Its address.
    pub outside: OutsideAddress,
    /// Its switches.
    pub modes: NatModes,
    /// Ports that it may use, inclusive; `None` is 32768 to 65535.
    pub ports: Option<(u16, u16)>,
    /// Redirections. Where two fit equally well, the later one wins.
    pub redirects: Vec<Redirect>,
}

/// The address of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OutsideAddress {
    /// None is said. The caller tells one, or the instance has none: then redirections without an
    /// address of their own take what comes in for any address, and nothing else goes out.
    #[default]
    None,
    /// This one.
    Address(Ipv4Addr),
    /// That of an interface, which the caller tells, too ([`crate::Translator::set_address`]).
    Interface(String),
}

/// A switch of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum NatMode {
    /// `log`: the numbers of its flows are kept for `nat show`. They always are here.
    Log = 1,
    /// `deny_in`: nobody outside begins anything, but through redirections of ports and protocols.
    DenyIn = 2,
    /// `same_ports`: a flow keeps its port if that is free.
    SamePorts = 4,
    /// `skip_global`: `nat global` passes over this instance.
    SkipGlobal = 8,
    /// `unreg_only`: only private sources (RFC 1918) are translated.
    UnregOnly = 16,
    /// `unreg_cgn`: as `unreg_only`, and sources of RFC 6598.
    UnregCgn = 32,
    /// `reset`: all flows end when the address changes.
    Reset = 64,
    /// `reverse`: what comes in is what goes out and the other way round.
    Reverse = 128,
    /// `proxy_only`: nothing is translated but by rules for transparent proxies, of which there
    /// are none.
    ProxyOnly = 256,
}

impl NatMode {
    /// All of them by keyword, in the order in which ipfw lists them.
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

/// A set of switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatModes(u16);

impl NatModes {
    /// With this one as well.
    #[must_use]
    pub const fn with(self, mode: NatMode) -> Self {
        Self(self.0 | mode as u16)
    }

    /// Whether it is there.
    #[must_use]
    pub const fn has(self, mode: NatMode) -> bool {
        self.0 & mode as u16 != 0
    }
}

impl NatConfig {
    /// Whether a source is to be translated.
    pub(crate) fn translates_source(&self, source: Ipv4Addr) -> bool {
        let [a, b, ..] = source.octets();
        let is_cgn = a == 100 && (64..128).contains(&b);
        if self.modes.has(NatMode::UnregCgn) {
            return source.is_private() || is_cgn;
        }
        !self.modes.has(NatMode::UnregOnly) || source.is_private()
    }

    /// First port and number of ports to choose from.
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
