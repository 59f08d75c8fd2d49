//! Attributes: a length, a kind, a value, padded to four bytes (`struct rtattr`).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::RouteFamily;

/// Why received bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The length field of a message is smaller than the header, or greater than the number of
    /// received bytes.
    #[error("a message of {claimed} bytes where {present} bytes are left")]
    MessageLength {
        /// The value of the length field.
        claimed: u32,
        /// The bytes from the message's start to the end of the buffer.
        present: usize,
    },
    /// The message is shorter than the fixed structure of its type.
    #[error("a message of type {kind} is too short for its fixed part")]
    Truncated {
        /// The type of the message, `RTM_*`.
        kind: u16,
    },
    /// The length field of an attribute is smaller than the header, or extends beyond the message.
    #[error("an attribute leads out of its message")]
    AttributeLength,
    /// The value of an attribute is too short, or an address has a wrong length.
    #[error("attribute {kind} has a value of the wrong length")]
    AttributeValue {
        /// The type of the attribute.
        kind: u16,
    },
    /// A prefix length exceeds the bits of an address.
    #[error("a prefix length of {0} bits")]
    PrefixLength(u8),
}

/// `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER` of `linux/netlink.h`.
const KIND_FLAGS: u16 = 0xc000;
/// Length of the header of an attribute: its length and its kind.
const ATTRIBUTE_HEADER: usize = 4;

/// One attribute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attribute<'a> {
    pub kind: u16,
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    const fn wrong(self) -> Malformed {
        Malformed::AttributeValue { kind: self.kind }
    }

    pub(crate) fn u8(self) -> Result<u8, Malformed> {
        self.value.first().copied().ok_or(self.wrong())
    }

    pub(crate) fn u16(self) -> Result<u16, Malformed> {
        read_u16(self.value, 0).ok_or(self.wrong())
    }

    #[inline]
    pub(crate) fn u32(self) -> Result<u32, Malformed> {
        read_u32(self.value, 0).ok_or(self.wrong())
    }

    /// Returns the value as an address. Its length must be that of an IPv4 or IPv6 address.
    #[inline]
    pub(crate) fn address(self) -> Result<IpAddr, Malformed> {
        read_address(self.value).ok_or(self.wrong())
    }

    /// Returns the value as an address of this family.
    pub(crate) fn address_of(self, family: RouteFamily) -> Result<IpAddr, Malformed> {
        let address = self.address()?;
        if (family == RouteFamily::V4) == address.is_ipv4() {
            Ok(address)
        } else {
            Err(self.wrong())
        }
    }

    /// Returns the value as text, which ends at the first zero byte or with the value; empty if it
    /// is not UTF-8.
    pub(crate) fn text(self) -> &'a str {
        let len = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
        core::str::from_utf8(&self.value[..len]).unwrap_or_default()
    }

    pub(crate) const fn nested(self) -> Attributes<'a> {
        Attributes(self.value)
    }
}

/// Iterates over the attributes in some bytes, in order. The iteration ends after an error.
#[derive(Clone, Debug)]
pub(crate) struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.len() < ATTRIBUTE_HEADER {
            // The kernel also ignores up to three bytes after the last attribute, so they are no
            // error.
            return None;
        }
        let bytes = self.0;
        let len = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        let kind = u16::from_ne_bytes([bytes[2], bytes[3]]) & !KIND_FLAGS;
        let Some(value) = bytes.get(ATTRIBUTE_HEADER..len) else {
            self.0 = &[];
            return Some(Err(Malformed::AttributeLength));
        };
        self.0 = bytes.get(aligned(len)..).unwrap_or_default();
        Some(Ok(Attribute { kind, value }))
    }
}

/// Rounds up to the alignment of messages and attributes (`NLMSG_ALIGN`, `RTA_ALIGN`).
pub(crate) const fn aligned(len: usize) -> usize {
    len.saturating_add(3) & !3
}

#[inline]
pub(crate) fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_ne_bytes(*chunk))
}

#[inline]
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

#[inline]
pub(crate) fn read_address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::V4(Ipv4Addr::from(bytes)));
    }
    <[u8; 16]>::try_from(bytes).ok().map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes)))
}
