//! A packet that cannot be forwarded, and whether its sender may get an ICMP error.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_wire::assigned::IpProto;
use slipring_wire::view::{FragmentPosition, Ip, IpVersion};
use slipring_wire::{Headers, MacAddr};

use super::error::IcmpMessage;
use crate::field::array;

/// Why a sender gets no ICMP error (RFC 1122, 3.2.2; RFC 1812, 4.3.2.7; RFC 4443, 2.4 e).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum IcmpSilence {
    /// The packet is itself an ICMP error or a redirect.
    #[error("it is an ICMP error itself")]
    AboutError,
    /// The packet is a fragment, but not the first one. Only first fragments are answered.
    #[error("it is a later fragment")]
    LaterFragment,
    /// The packet arrived as a broadcast or multicast frame.
    #[error("it is a broadcast or multicast of the link")]
    LinkGroup,
    /// The packet's destination is a multicast group or the limited broadcast address.
    #[error("its destination is a group")]
    Group,
    /// The packet's source IP address, or the frame's source MAC address, is not that of a single
    /// host.
    #[error("its source is no single host")]
    Source,
}

/// The IP packet in a frame. It is parsed as far as ICMP errors need it.
#[derive(Debug, Clone, Copy)]
pub struct OffendingPacket<'a> {
    /// The bytes of the packet that are in the frame, without padding.
    pub(super) bytes: &'a [u8],
    /// Offset in `bytes` of the first byte after the IP headers.
    pub(super) l4: usize,
    ip: Ip,
    /// The packet's source address.
    pub source: IpAddr,
    /// The packet's destination address.
    pub destination: IpAddr,
    link_destination: MacAddr,
    link_source: MacAddr,
}

impl<'a> OffendingPacket<'a> {
    /// Parses the IP headers of a frame. VLAN tags are skipped. `None` if the frame is not IP or is
    /// damaged.
    #[must_use]
    pub fn parse(frame: &'a [u8]) -> Option<Self> {
        let headers = Headers::parse(frame).ok()?;
        let ip = headers.ip?;
        let l3 = usize::from(headers.l3);
        let end = frame.len().min(ip.end as usize);
        let bytes = frame.get(l3..end)?;
        let (source, destination) = match ip.version {
            IpVersion::V4 => (
                IpAddr::V4(array::<4>(bytes, 12)?.into()),
                IpAddr::V4(array::<4>(bytes, 16)?.into()),
            ),
            IpVersion::V6 => (
                IpAddr::V6(array::<16>(bytes, 8)?.into()),
                IpAddr::V6(array::<16>(bytes, 24)?.into()),
            ),
        };
        Some(Self {
            bytes,
            l4: usize::from(ip.l4) - l3,
            ip,
            source,
            destination,
            link_destination: MacAddr(array(frame, 0)?),
            link_source: MacAddr(array(frame, 6)?),
        })
    }

    /// The source MAC address of the frame.
    #[must_use]
    pub const fn link_source(&self) -> MacAddr {
        self.link_source
    }

    /// Checks whether `message` may be sent to the sender of the packet.
    ///
    /// # Errors
    /// [`IcmpSilence`] with the reason if it may not.
    pub fn may_answer(&self, message: IcmpMessage) -> Result<(), IcmpSilence> {
        if self.is_error() {
            return Err(IcmpSilence::AboutError);
        }
        if self.ip.fragment == FragmentPosition::Later {
            return Err(IcmpSilence::LaterFragment);
        }
        // RFC 4443, 2.4 e.3: errors for path MTU discovery and about unknown options may be sent
        // because of packets to groups.
        if !(self.source.is_ipv6() && message.is_allowed_for_groups()) {
            if self.link_destination.is_multicast() {
                return Err(IcmpSilence::LinkGroup);
            }
            if is_group(self.destination) {
                return Err(IcmpSilence::Group);
            }
        }
        if self.link_source.is_multicast() || !is_one_host(self.source) {
            return Err(IcmpSilence::Source);
        }
        Ok(())
    }

    /// Returns whether the packet is an ICMP error or a redirect. An ICMP packet that is truncated
    /// before its type counts as an error.
    fn is_error(&self) -> bool {
        let kind = self.bytes.get(self.l4);
        match self.ip.proto {
            _ if self.ip.fragment == FragmentPosition::Later => false,
            IpProto::ICMP if self.source.is_ipv4() => {
                matches!(kind, None | Some(3 | 4 | 5 | 11 | 12))
            }
            // In ICMPv6, errors have types below 128. Type 137 is a redirect.
            IpProto::ICMPV6 if self.source.is_ipv6() => matches!(kind, None | Some(..128 | 137)),
            _ => false,
        }
    }
}

fn is_group(address: IpAddr) -> bool {
    address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Returns whether a source is the address of a single host. Errors can be sent only to such
/// addresses.
fn is_one_host(source: IpAddr) -> bool {
    match source {
        IpAddr::V4(v4) => !matches!(v4.octets()[0], 0 | 127 | 224..),
        IpAddr::V6(v6) => {
            !(v6.is_multicast() || v6 == Ipv6Addr::UNSPECIFIED || v6 == Ipv6Addr::LOCALHOST)
        }
    }
}
