//! XDP features of the drivers, queried by netlink; nothing is attached.

use std::collections::HashMap;
use std::io;

use netlink_sys::protocols::NETLINK_GENERIC;
use serde::Serialize;
use slipring_port::iface::Iface;

use super::message::{RequestScope, attribute, attributes, first, request_all};

/// Number of generic netlink's control family. The next constant is its command
/// `CTRL_CMD_GETFAMILY`.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `NETDEV_CMD_DEV_GET` and its attributes.
const GET_DEVICE: u8 = 1;
const IFINDEX: u16 = 1;
const XDP_FEATURES: u16 = 3;

/// The bits of `enum netdev_xdp_act` that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct XdpFeatures(u64);

impl XdpFeatures {
    const BASIC: u64 = 1;
    const REDIRECT: u64 = 2;
    const ZERO_COPY: u64 = 8;
    const FRAGMENTS: u64 = 32;

    /// Returns whether multi-buffer frames can be received.
    pub(crate) fn multi_buffer(self) -> bool {
        self.0 & Self::FRAGMENTS != 0
    }

    fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }
}

/// Returns features by interface index. Fails on kernels before 6.3, which do not support the
/// query.
pub(crate) fn all() -> io::Result<HashMap<u32, XdpFeatures>> {
    let family = family(c"netdev".to_bytes_with_nul())?;
    let answers = request_all(NETLINK_GENERIC, family, RequestScope::All, &[GET_DEVICE, 1, 0, 0])?;
    Ok(answers.iter().filter_map(|answer| device(answer.get(4..)?)).collect())
}

fn family(name: &[u8]) -> io::Result<u16> {
    let mut payload = vec![GET_FAMILY, 1, 0, 0];
    payload.extend(attribute(FAMILY_NAME, name));
    let answers = request_all(NETLINK_GENERIC, CONTROL, RequestScope::One, &payload)?;
    let id = answers.iter().find_map(|answer| {
        let mut attributes = attributes(answer.get(4..)?);
        attributes.find_map(|(kind, value)| (kind == FAMILY_ID).then(|| first(value))?)
    });
    id.map(u16::from_ne_bytes).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn device(bytes: &[u8]) -> Option<(u32, XdpFeatures)> {
    let find =
        |wanted| attributes(bytes).find_map(|(kind, value)| (kind == wanted).then_some(value));
    let index = u32::from_ne_bytes(first(find(IFINDEX)?)?);
    let features = u64::from_ne_bytes(first(find(XDP_FEATURES)?)?);
    Some((index, XdpFeatures(features)))
}

/// A mode in which an interface can be opened, best first.
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
        let native = features.is_some_and(|f| f.has(XdpFeatures::BASIC | XdpFeatures::REDIRECT));
        let zero_copy = native && features.is_some_and(|f| f.has(XdpFeatures::ZERO_COPY));
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
    fn a_device_is_read_from_its_attributes() {
        let mut bytes = attribute(IFINDEX, &7u32.to_ne_bytes());
        assert_eq!(device(&bytes), None);
        bytes.extend(attribute(XDP_FEATURES, &3u64.to_ne_bytes()));
        assert_eq!(device(&bytes), Some((7, XdpFeatures(3))));
    }

    #[test]
    fn loopback_has_what_the_stack_offers_and_zero_copy_implies_native() {
        let lo = Iface::find("lo").unwrap();
        assert_eq!(
            InterfaceMode::possible(&lo, None),
            [InterfaceMode::Generic, InterfaceMode::Packet]
        );
        let all = InterfaceMode::possible(&lo, Some(XdpFeatures(0xff)));
        assert_eq!(
            all,
            [
                InterfaceMode::ZeroCopy,
                InterfaceMode::Native,
                InterfaceMode::Generic,
                InterfaceMode::Packet
            ]
        );
        let no_redirect = InterfaceMode::possible(
            &lo,
            Some(XdpFeatures(XdpFeatures::BASIC | XdpFeatures::ZERO_COPY)),
        );
        assert_eq!(no_redirect, [InterfaceMode::Generic, InterfaceMode::Packet]);
        assert!(InterfaceMode::possible(&Iface { ethernet: false, ..lo }, None).is_empty());
    }
}
