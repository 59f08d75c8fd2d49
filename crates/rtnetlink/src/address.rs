//! Addresses of interfaces: `struct ifaddrmsg`, `linux/if_addr.h`.

use core::net::IpAddr;

use crate::attributes::{Attributes, Malformed, read_u32};
use crate::{RouteFamily, message::kind};

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressMessage {
    /// The index of the interface.
    pub ifindex: u32,
    /// The interface's own address.
    pub local: IpAddr,
    /// The address of the other end of a point-to-point interface; otherwise the same as `local`.
    pub peer: IpAddr,
    /// The length of the connected subnet's prefix; at most [`RouteFamily::bits`].
    pub prefix_len: u8,
    /// The subnet's broadcast address.
    pub broadcast: Option<IpAddr>,
    /// Where the address is valid: `RT_SCOPE_*`.
    pub scope: u8,
    /// The flags of the address: `IFA_F_*`.
    pub flags: u32,
}

impl AddressMessage {
    /// `IFA_F_SECONDARY`: an IPv4 address in the subnet of another, or a temporary IPv6 address.
    pub const SECONDARY: u32 = 0x01;
    /// `IFA_F_TENTATIVE`: not yet known to be unique.
    pub const TENTATIVE: u32 = 0x40;

    /// Parses an address; returns `None` for families other than IPv4 and IPv6, and for messages
    /// without an address.
    pub(crate) fn parse(payload: &[u8]) -> Result<Option<Self>, Malformed> {
        let Some((fixed, rest)) = payload.split_first_chunk::<ADDRESS_LEN>() else {
            return Err(Malformed::Truncated { kind: kind::ADDRESS });
        };
        let &[family, prefix_len, flags, scope, ..] = fixed;
        let Some(family) = RouteFamily::of(family) else { return Ok(None) };
        if prefix_len > family.bits() {
            return Err(Malformed::PrefixLength(prefix_len));
        }
        let ifindex = read_u32(fixed, 4).unwrap_or_default();
        let (mut local, mut peer, mut broadcast, mut flags) = (None, None, None, u32::from(flags));
        for attribute in Attributes(rest) {
            let attribute = attribute?;
            match attribute.kind {
                IFA_ADDRESS => peer = Some(attribute.address_of(family)?),
                IFA_LOCAL => local = Some(attribute.address_of(family)?),
                IFA_BROADCAST => broadcast = Some(attribute.address_of(family)?),
                IFA_FLAGS => flags = attribute.u32()?,
                _ => {}
            }
        }
        // For IPv6, the kernel sends no IFA_LOCAL unless the interface is point-to-point, so
        // IFA_ADDRESS may be both addresses.
        let Some((local, peer)) = local.or(peer).zip(peer.or(local)) else { return Ok(None) };
        Ok(Some(Self { ifindex, local, peer, prefix_len, broadcast, scope, flags }))
    }
}

/// `sizeof(struct ifaddrmsg)`.
pub(crate) const ADDRESS_LEN: usize = 8;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_BROADCAST: u16 = 4;
const IFA_FLAGS: u16 = 8;
