//! The engines of `--io`.

use slipring_port::XdpMode;
use slipring_route_bpf::ResidentMode;

/// How and where packets are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoChoice {
    /// XDP: native mode if the driver supports it, otherwise generic mode.
    Auto,
    /// XDP in native mode.
    Xdp,
    /// XDP in generic mode.
    XdpGeneric,
    /// Threads with AF_XDP sockets, zero-copy if the driver supports it.
    Xsk,
    /// Threads with AF_XDP sockets, always zero-copy.
    XskZeroCopy,
    /// Threads with packet sockets, for interfaces where XDP cannot be attached.
    Packet,
}

impl IoChoice {
    /// The values of `--io`, in the order of the choices.
    pub(crate) const NAMES: [&str; 6] = ["auto", "xdp", "xdp-generic", "xsk", "xsk-zc", "packet"];

    /// The name of the choice.
    pub(crate) const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The choice of this name.
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "xdp" => Self::Xdp,
            "xdp-generic" => Self::XdpGeneric,
            "xsk" => Self::Xsk,
            "xsk-zc" => Self::XskZeroCopy,
            "packet" => Self::Packet,
            _ => Self::Auto,
        }
    }

    /// Where XDP programs may run, best first. Sockets require native mode: a program in generic
    /// mode would receive again what the engine leaves to the kernel.
    pub(crate) const fn modes(self) -> &'static [ResidentMode] {
        match self {
            Self::Auto => &[ResidentMode::Native, ResidentMode::Generic],
            Self::Xdp | Self::Xsk | Self::XskZeroCopy => &[ResidentMode::Native],
            Self::XdpGeneric => &[ResidentMode::Generic],
            Self::Packet => &[],
        }
    }

    /// Returns the engine for a router with rules; `None` if this engine cannot execute rules.
    pub(crate) const fn for_rules(self) -> Option<Self> {
        match self {
            Self::Auto => Some(Self::Xsk),
            Self::Xsk | Self::XskZeroCopy => Some(self),
            Self::Xdp | Self::XdpGeneric | Self::Packet => None,
        }
    }

    /// How AF_XDP sockets are bound; `None` if there are none.
    pub(crate) const fn sockets(self) -> Option<XdpMode> {
        match self {
            Self::Xsk => Some(XdpMode::Native),
            Self::XskZeroCopy => Some(XdpMode::ZeroCopy),
            Self::Auto | Self::Xdp | Self::XdpGeneric | Self::Packet => None,
        }
    }

    /// Returns the choice that names an engine alone, if its interfaces run in these modes. Only
    /// `auto` names several.
    pub(crate) fn of_running(self, mut modes: impl Iterator<Item = &'static str>) -> Self {
        match self {
            Self::Auto if modes.any(|mode| mode == Self::Packet.name()) => Self::Packet,
            Self::Auto => Self::Xdp,
            choice => choice,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_that_auto_has_chosen_is_named() {
        let named = |choice: IoChoice, mode| choice.of_running([mode, mode].into_iter()).name();
        assert_eq!(named(IoChoice::Auto, "packet"), "packet");
        assert_eq!(named(IoChoice::Auto, "xdp native"), "xdp");
        assert_eq!(named(IoChoice::Xsk, "xsk native"), "xsk");
        assert_eq!(named(IoChoice::Packet, "packet"), "packet");
    }
}
