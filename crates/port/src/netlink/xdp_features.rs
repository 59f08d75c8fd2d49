//! Queries the XDP features of drivers by generic netlink, without attaching a program.

use std::collections::HashMap;
use std::io;

use netlink_sys::protocols::NETLINK_GENERIC;

use super::request::{RequestScope, attribute, attributes, first, request_all};

/// Message type of generic netlink's control family. The next constant is its command
/// `CTRL_CMD_GETFAMILY`.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `NETDEV_CMD_DEV_GET` and its attributes.
const GET_DEVICE: u8 = 1;
const IFINDEX: u16 = 1;
const XDP_FEATURES: u16 = 3;

/// The XDP features of a driver: `enum netdev_xdp_act` of `linux/netdev.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpFeatures(u64);

impl XdpFeatures {
    const BASIC: u64 = 1;
    const REDIRECT: u64 = 2;
    const ZERO_COPY: u64 = 8;
    const FRAGMENTS: u64 = 32;

    /// Creates the features from the kernel's bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns whether the driver runs XDP programs, which can redirect frames to sockets.
    #[must_use]
    pub const fn redirects(self) -> bool {
        self.has(Self::BASIC | Self::REDIRECT)
    }

    /// Returns whether the driver supports zero-copy AF_XDP sockets.
    #[must_use]
    pub const fn zero_copy(self) -> bool {
        self.redirects() && self.has(Self::ZERO_COPY)
    }

    /// Returns whether multi-buffer frames can be received.
    #[must_use]
    pub const fn multi_buffer(self) -> bool {
        self.has(Self::FRAGMENTS)
    }

    const fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }
}

/// Returns the features of all drivers of this network namespace, by interface index.
///
/// # Errors
/// The kernel's error; kernels before 6.3 do not support the query.
pub fn xdp_features() -> io::Result<HashMap<u32, XdpFeatures>> {
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
    fn zero_copy_needs_redirection() {
        assert!(XdpFeatures::from_bits(1 | 2 | 8).zero_copy());
        assert!(!XdpFeatures::from_bits(1 | 8).zero_copy());
        assert!(!XdpFeatures::from_bits(1 | 2).zero_copy());
    }
}
