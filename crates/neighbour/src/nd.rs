//! IPv6 neighbour discovery (RFC 4861): neighbour solicitations and advertisements.
//!
//! ```text
//!   IPv6 header, 40 bytes | 0 type 135, 136  1 code 0  2 checksum  4 flags  8 target  24 options
//! ```

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use slipring_wire::MacAddr;
use slipring_wire::assigned::{EtherType, IpProto};
use slipring_wire::checksum::Sum;

use crate::field::{self, ETHERNET_LEN, array, be16};
use crate::group;

const IPV6_LEN: usize = 40;
const OPTIONS_OFFSET: usize = 24;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// The hop limit of valid messages. A packet that a router has forwarded always has a smaller one.
const ND_HOP_LIMIT: u8 = 255;
const SOURCE_MAC_OPTION: u8 = 1;
const TARGET_MAC_OPTION: u8 = 2;

/// The flags of an advertisement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NdFlags {
    /// Whether the sender is a router.
    pub router: bool,
    /// Whether the message answers a solicitation.
    pub solicited: bool,
    /// Whether the advertised MAC address replaces a different one in the receiver's cache.
    pub override_cache: bool,
}

/// The type of a message. For an advertisement, it contains the flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NdKind {
    /// A neighbour solicitation: a request for the MAC address of the target.
    Solicitation,
    /// A neighbour advertisement, with the MAC address of the target.
    Advertisement(NdFlags),
}

/// A valid neighbour solicitation or advertisement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NdMessage {
    /// Whether the message is a solicitation or an advertisement.
    pub kind: NdKind,
    /// The IPv6 source address. It is unspecified (`::`) while a host checks that its own address
    /// is unique.
    pub source: Ipv6Addr,
    /// The address whose MAC address is requested or advertised.
    pub target: Ipv6Addr,
    /// The MAC address in the message; `None` if there is none. In a solicitation it belongs to the
    /// source, in an advertisement to the target.
    pub mac: Option<MacAddr>,
}

/// Why a message is ignored (RFC 4861, 7.1.1 and 7.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NdError {
    /// The message, or one of its options, ends too early.
    #[error("the neighbour message is truncated")]
    Truncated,
    /// The hop limit is this value instead of 255. So a router may have forwarded the message from
    /// another link.
    #[error("the hop limit is {0}, not 255")]
    HopLimit(u8),
    /// The checksum is wrong.
    #[error("the checksum of the neighbour message is wrong")]
    Checksum,
    /// The code is not 0.
    #[error("the code of the neighbour message is {0}, not 0")]
    Code(u8),
    /// The target is a multicast group.
    #[error("the target {0} is a group")]
    Target(Ipv6Addr),
    /// An option has the length 0.
    #[error("an option of the neighbour message has no length")]
    OptionLength,
    /// A sender without an address has included its MAC address, or has not sent to a
    /// solicited-node group.
    #[error("the sender has no address, but says more than it may")]
    Unspecified,
    /// An advertisement to a group has the solicited flag.
    #[error("a solicited advertisement is addressed to a group")]
    SolicitedGroup,
    /// The MAC address is not that of a single interface.
    #[error("the neighbour message claims the MAC address {0}")]
    Mac(MacAddr),
    /// The source is a multicast group.
    #[error("the source {0} is a group")]
    Source(Ipv6Addr),
}

impl NdMessage {
    /// Parses an IPv6 packet; `None` if it is neither a neighbour solicitation nor an
    /// advertisement. A message with extension headers counts as neither, because hosts send no
    /// such messages, and fragments are forbidden (RFC 6980).
    #[must_use]
    pub fn parse(packet: &[u8]) -> Option<Result<Self, NdError>> {
        let [next, hop_limit] = array(packet, 6)?;
        let is_message = IpProto(next) == IpProto::ICMPV6
            && matches!(packet.get(IPV6_LEN), Some(&(SOLICITATION | ADVERTISEMENT)));
        is_message.then(|| Self::parse_valid(packet, hop_limit))
    }

    fn parse_valid(packet: &[u8], hop_limit: u8) -> Result<Self, NdError> {
        let len = usize::from(be16(packet, 4).ok_or(NdError::Truncated)?);
        let message = packet.get(IPV6_LEN..IPV6_LEN + len).ok_or(NdError::Truncated)?;
        let address = |bytes, at| array::<16>(bytes, at).map(Ipv6Addr::from);
        let ends = address(packet, 8).zip(address(packet, 24));
        let (source, to) = ends.ok_or(NdError::Truncated)?;
        if hop_limit != ND_HOP_LIMIT {
            return Err(NdError::HopLimit(hop_limit));
        }
        let sum = Sum::pseudo_v6(source, to, IpProto::ICMPV6, len as u32);
        if sum.bytes(message).checksum() != 0 {
            return Err(NdError::Checksum);
        }
        let options = message.get(OPTIONS_OFFSET..).ok_or(NdError::Truncated)?;
        let target = address(message, 8).ok_or(NdError::Truncated)?;
        let is_solicitation = message[0] == SOLICITATION;
        let wanted = if is_solicitation { SOURCE_MAC_OPTION } else { TARGET_MAC_OPTION };
        let mac = mac_option(options, wanted)?;
        let flags = message[4];
        let kind = if is_solicitation {
            NdKind::Solicitation
        } else {
            NdKind::Advertisement(NdFlags {
                router: flags & 0x80 != 0,
                solicited: flags & 0x40 != 0,
                override_cache: flags & 0x20 != 0,
            })
        };
        let code = message[1];
        Self { kind, source, target, mac }.check(to, code)
    }

    /// Checks combinations of fields that the RFC forbids. `to` is the destination in the IPv6
    /// header.
    fn check(self, to: Ipv6Addr, code: u8) -> Result<Self, NdError> {
        if code != 0 {
            return Err(NdError::Code(code));
        }
        if self.target.is_multicast() {
            return Err(NdError::Target(self.target));
        }
        if self.source.is_multicast() {
            return Err(NdError::Source(self.source));
        }
        if let Some(mac) = self.mac.filter(|mac| !field::is_unicast(*mac)) {
            return Err(NdError::Mac(mac));
        }
        match self.kind {
            NdKind::Solicitation if self.source.is_unspecified() => {
                let says_more = self.mac.is_some() || !group::is_solicited_node(to);
                if says_more { Err(NdError::Unspecified) } else { Ok(self) }
            }
            NdKind::Advertisement(flags) if flags.solicited && to.is_multicast() => {
                Err(NdError::SolicitedGroup)
            }
            _ => Ok(self),
        }
    }
}

/// Returns the MAC address in the option of kind `wanted`; `None` if there is no such option. All
/// options are checked, also those of other kinds.
fn mac_option(mut options: &[u8], wanted: u8) -> Result<Option<MacAddr>, NdError> {
    let mut found = None;
    while let [kind, eights, ..] = *options {
        if eights == 0 {
            return Err(NdError::OptionLength);
        }
        if (kind, eights) == (wanted, 1) && found.is_none() {
            found = array(options, 2).map(MacAddr);
        }
        options = options.get(usize::from(eights) * 8..).ok_or(NdError::Truncated)?;
    }
    if options.is_empty() { Ok(found) } else { Err(NdError::Truncated) }
}

/// Builds the frame that solicits `target`. It goes to the solicited-node group of `target`, or
/// only to the MAC address `known`.
#[must_use]
pub fn solicitation(
    mac: MacAddr,
    source: Ipv6Addr,
    target: Ipv6Addr,
    known: Option<MacAddr>,
) -> Vec<u8> {
    let to = match known {
        Some(mac) => (mac, target),
        None => to_group(group::solicited_node(target)),
    };
    message(to, (mac, source), [SOLICITATION, 0], target, (SOURCE_MAC_OPTION, mac))
}

/// Builds the frame that advertises `mac` for `target`. It goes to the host `to`, or to all nodes
/// if `to` is `None`.
#[must_use]
pub fn advertisement(
    mac: MacAddr,
    target: Ipv6Addr,
    to: Option<(MacAddr, Ipv6Addr)>,
    flags: NdFlags,
) -> Vec<u8> {
    let bits = [(flags.router, 0x80), (flags.solicited, 0x40), (flags.override_cache, 0x20)];
    let byte = bits.into_iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum();
    let to = to.unwrap_or_else(|| to_group(group::ALL_NODES));
    message(to, (mac, target), [ADVERTISEMENT, byte], target, (TARGET_MAC_OPTION, mac))
}

fn to_group(group: Ipv6Addr) -> (MacAddr, Ipv6Addr) {
    (group::mac(IpAddr::V6(group)).unwrap_or(MacAddr::BROADCAST), group)
}

fn message(
    to: (MacAddr, Ipv6Addr),
    from: (MacAddr, Ipv6Addr),
    [kind, flags]: [u8; 2],
    target: Ipv6Addr,
    (option, mac): (u8, MacAddr),
) -> Vec<u8> {
    let mut frame = field::ethernet_header(to.0, from.0, EtherType::IPV6);
    let len = (OPTIONS_OFFSET + 8) as u8;
    frame.extend([0x60, 0, 0, 0, 0, len, IpProto::ICMPV6.0, ND_HOP_LIMIT]);
    frame.extend(from.1.octets());
    frame.extend(to.1.octets());
    frame.extend([kind, 0, 0, 0, flags, 0, 0, 0]);
    frame.extend(target.octets());
    frame.extend([option, 1]);
    frame.extend(mac.0);
    let at = ETHERNET_LEN + IPV6_LEN;
    let sum = Sum::pseudo_v6(from.1, to.1, IpProto::ICMPV6, len.into()).bytes(&frame[at..]);
    frame[at + 2..at + 4].copy_from_slice(&sum.checksum().to_be_bytes());
    frame
}
