//! The modes in which an interface can be opened, derived from the XDP features of its driver.

use serde::Serialize;
use slipring_port::iface::Iface;
use slipring_port::netlink::XdpFeatures;

/// The modes in which interfaces can be opened, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum InterfaceMode {
    /// AF_XDP zero-copy: the NIC writes directly into the buffers of the port.
    ZeroCopy,
    /// AF_XDP in the driver, with a copy.
    Native,
    /// AF_XDP in generic mode, in the network stack.
    Generic,
    /// A packet socket (AF_PACKET).
    Packet,
}

impl InterfaceMode {
    /// Returns the name of the mode in the table and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ZeroCopy => "zero-copy",
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Packet => "packet",
        }
    }

    /// Returns the modes of `iface`, best first. A driver with unknown features counts as having
    /// none.
    pub(crate) fn possible(iface: &Iface, features: Option<XdpFeatures>) -> Vec<Self> {
        if !iface.ethernet {
            return Vec::new();
        }
        let native = features.is_some_and(XdpFeatures::redirects);
        let zero_copy = native && features.is_some_and(XdpFeatures::zero_copy);
        let mut modes = Vec::new();
        modes.extend(zero_copy.then_some(Self::ZeroCopy));
        modes.extend(native.then_some(Self::Native));
        modes.extend([Self::Generic, Self::Packet]);
        modes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_what_the_stack_offers_and_zero_copy_implies_native() {
        let lo = Iface::find("lo").unwrap();
        assert_eq!(
            InterfaceMode::possible(&lo, None),
            [InterfaceMode::Generic, InterfaceMode::Packet]
        );
        let all = InterfaceMode::possible(&lo, Some(XdpFeatures::from_bits(0xff)));
        assert_eq!(
            all,
            [
                InterfaceMode::ZeroCopy,
                InterfaceMode::Native,
                InterfaceMode::Generic,
                InterfaceMode::Packet
            ]
        );
        // The driver supports XDP and zero-copy, but no redirection.
        let no_redirect = InterfaceMode::possible(&lo, Some(XdpFeatures::from_bits(1 | 8)));
        assert_eq!(no_redirect, [InterfaceMode::Generic, InterfaceMode::Packet]);
        assert!(InterfaceMode::possible(&Iface { ethernet: false, ..lo }, None).is_empty());
    }
}
