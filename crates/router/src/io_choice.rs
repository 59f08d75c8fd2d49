//! The engines of `--io`.

use slipring_port::XdpMode;
use slipring_route_bpf::ResidentMode;

/// Where packets are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoChoice {
    /// In XDP, in the driver if it can, else in the stack.
    Auto,
    /// In XDP, in the driver.
    Xdp,
    /// In XDP, in the stack.
    XdpGeneric,
    /// By threads behind AF_XDP sockets, without a copy if the driver can.
    Xsk,
    /// By threads behind AF_XDP sockets, without a copy.
    XskZeroCopy,
    /// By threads behind packet sockets, where XDP cannot be attached.
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

    /// Where XDP programs may run, best first. Sockets need the driver: a program in the stack would
    /// see again what the engine leaves to the kernel.
    pub(crate) const fn modes(self) -> &'static [ResidentMode] {
        match self {
            Self::Auto => &[ResidentMode::Native, ResidentMode::Generic],
            Self::Xdp | Self::Xsk | Self::XskZeroCopy => &[ResidentMode::Native],
            Self::XdpGeneric => &[ResidentMode::Generic],
            Self::Packet => &[],
        }
    }

    /// The engine for a router with rules; `None` if this one executes none.
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
}
