//! Neighbours: `struct ndmsg` and its attributes, `linux/neighbour.h`.

use core::net::IpAddr;

use crate::attributes::{Attributes, Malformed, read_u16, read_u32};
use crate::{RouteFamily, message::kind};

/// The state of a neighbour: `NUD_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NudState(pub u16);

impl NudState {
    /// `NUD_INCOMPLETE`: requested, but not answered yet.
    pub const INCOMPLETE: u16 = 0x01;
    /// `NUD_REACHABLE`: confirmed recently.
    pub const REACHABLE: u16 = 0x02;
    /// `NUD_STALE`: not confirmed recently; the next packet starts a confirmation.
    pub const STALE: u16 = 0x04;
    /// `NUD_DELAY`: used while stale, but the kernel has not sent a request yet.
    pub const DELAY: u16 = 0x08;
    /// `NUD_PROBE`: requested again.
    pub const PROBE: u16 = 0x10;
    /// `NUD_FAILED`: the neighbour did not answer.
    pub const FAILED: u16 = 0x20;
    /// `NUD_NOARP`: the neighbour needs no resolution.
    pub const NO_ARP: u16 = 0x40;
    /// `NUD_PERMANENT`: set by the administrator.
    pub const PERMANENT: u16 = 0x80;
    /// `NUD_VALID` of the kernel: the states in which packets are sent to the known address.
    pub const VALID: u16 =
        Self::PERMANENT | Self::NO_ARP | Self::REACHABLE | Self::PROBE | Self::STALE | Self::DELAY;

    /// Returns whether the link-layer address may be used.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.0 & Self::VALID != 0
    }
}

/// A neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourMessage {
    /// The index of the interface.
    pub ifindex: u32,
    /// The neighbour's address.
    pub address: IpAddr,
    /// The kernel's state of the neighbour.
    pub state: NudState,
    /// Flags of the fixed part: `NTF_*`.
    pub flags: u8,
    /// The flags for which the fixed part has no space: `NTF_EXT_*`.
    pub extended_flags: u32,
    /// The link-layer address, if it is known and has six bytes.
    pub mac: Option<[u8; 6]>,
}

/// `sizeof(struct ndmsg)`.
pub(crate) const NEIGHBOUR_LEN: usize = 12;
/// `NTF_PROXY`: this machine answers for the address, which is not a neighbour.
const NTF_PROXY: u8 = 1 << 3;

/// Attributes of a neighbour: `NDA_*`.
pub(crate) mod nda {
    pub(crate) const DST: u16 = 1;
    pub(crate) const LLADDR: u16 = 2;
    pub(crate) const FLAGS_EXT: u16 = 15;
}

impl NeighbourMessage {
    /// Parses the payload of a message. Returns `None` for entries of bridges, for proxies, and for
    /// messages without an address.
    pub(crate) fn parse(payload: &[u8]) -> Result<Option<Self>, Malformed> {
        let Some((fixed, rest)) = payload.split_first_chunk::<NEIGHBOUR_LEN>() else {
            return Err(Malformed::Truncated { kind: kind::NEIGHBOUR });
        };
        let Some(family) = RouteFamily::of(fixed[0]) else { return Ok(None) };
        let ifindex = read_u32(fixed, 4).unwrap_or_default();
        let state = NudState(read_u16(fixed, 8).unwrap_or_default());
        let (mut address, mut mac, mut extended_flags) = (None, None, 0);
        for attribute in Attributes(rest) {
            let attribute = attribute?;
            match attribute.kind {
                nda::DST => address = Some(attribute.address_of(family)?),
                nda::LLADDR => mac = attribute.value.try_into().ok(),
                nda::FLAGS_EXT => extended_flags = attribute.u32()?,
                _ => {}
            }
        }
        let flags = fixed[10];
        let address = address.filter(|_| flags & NTF_PROXY == 0);
        Ok(address.map(|address| Self { ifindex, address, state, flags, extended_flags, mac }))
    }
}
