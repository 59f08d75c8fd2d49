//! IPv6 neighbour discovery (RFC 4861): only neighbour solicitations and advertisements.
//!
//! ```text
//!   54  type 135, 136   55 code 0   56 checksum   58 flags   62 target   78 options of 8 bytes each
//! ```

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use slipring_wire::MacAddr;
use slipring_wire::assigned::{EtherType, IpProto};
use slipring_wire::checksum::Sum;

use crate::frame::{L3_OFFSET, array, ethernet_header};

const ICMP_OFFSET: usize = L3_OFFSET + 40;
const OPTIONS_OFFSET: usize = ICMP_OFFSET + 24;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// A router cannot have forwarded a packet with this hop limit.
const ND_HOP_LIMIT: u8 = 255;
const SOURCE_MAC_OPTION: u8 = 1;
const TARGET_MAC_OPTION: u8 = 2;
/// The flags router, solicited and override.
const ADVERTISEMENT_FLAGS: u8 = 0xe0;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NdMessage {
    pub(crate) kind: NdKind,
    pub(crate) from: Ipv6Addr,
    /// The address whose MAC address the message is about.
    pub(crate) target: Ipv6Addr,
    pub(crate) mac: Option<MacAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NdKind {
    Solicitation,
    Advertisement,
}

impl NdMessage {
    /// Parses a neighbour message in an IPv6 frame; `None` if it is another message, comes from
    /// off-link, or is damaged.
    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        let [next, hops] = array(frame, L3_OFFSET + 6)?;
        let payload = frame.get(
            ICMP_OFFSET
                ..ICMP_OFFSET + usize::from(u16::from_be_bytes(array(frame, L3_OFFSET + 4)?)),
        )?;
        if IpProto(next) != IpProto::ICMPV6 || hops != ND_HOP_LIMIT {
            return None;
        }
        let kind = match *payload.first_chunk()? {
            [SOLICITATION, 0] => NdKind::Solicitation,
            [ADVERTISEMENT, 0] => NdKind::Advertisement,
            _ => return None,
        };
        let (from, to): (Ipv6Addr, Ipv6Addr) =
            (array::<16>(frame, L3_OFFSET + 8)?.into(), array::<16>(frame, L3_OFFSET + 24)?.into());
        let sum = Sum::pseudo_v6(from, to, IpProto::ICMPV6, payload.len() as u32);
        if sum.bytes(payload).checksum() != 0 {
            return None;
        }
        let target = array::<16>(payload, 8)?.into();
        let wanted =
            if kind == NdKind::Solicitation { SOURCE_MAC_OPTION } else { TARGET_MAC_OPTION };
        Some(Self { kind, from, target, mac: option(payload.get(24..)?, wanted) })
    }
}

/// The MAC address in an option of kind `wanted`.
fn option(mut options: &[u8], wanted: u8) -> Option<MacAddr> {
    while let [kind, eights, ..] = *options {
        if eights == 0 {
            return None;
        }
        if (kind, eights) == (wanted, 1) {
            return array(options, 2).map(MacAddr);
        }
        options = options.get(usize::from(eights) * 8..)?;
    }
    None
}

/// Builds a request for the MAC address of `target`, to `known` or to the target's
/// solicited-node address.
pub(crate) fn solicitation(
    mac: MacAddr,
    from: Ipv6Addr,
    target: Ipv6Addr,
    known: Option<MacAddr>,
) -> Vec<u8> {
    let [.., a, b, c] = target.octets();
    let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
    let (to_mac, to) = match known {
        Some(mac) => (mac, target),
        None => (MacAddr([0x33, 0x33, 0xff, a, b, c]), group),
    };
    message((to_mac, to), (mac, from), [SOLICITATION, 0], target, (SOURCE_MAC_OPTION, mac))
}

/// Builds the answer that `mac` has `target`, to `to`, or to all nodes if `to` has no address yet.
pub(crate) fn advertisement(mac: MacAddr, target: Ipv6Addr, to: (MacAddr, Ipv6Addr)) -> Vec<u8> {
    let (to, flags) = match to.1.is_unspecified() {
        true => ((MacAddr([0x33, 0x33, 0, 0, 0, 1]), ALL_NODES), ADVERTISEMENT_FLAGS & !0x40),
        false => (to, ADVERTISEMENT_FLAGS),
    };
    message(to, (mac, target), [ADVERTISEMENT, flags], target, (TARGET_MAC_OPTION, mac))
}

fn message(
    to: (MacAddr, Ipv6Addr),
    from: (MacAddr, Ipv6Addr),
    [kind, flags]: [u8; 2],
    target: Ipv6Addr,
    (option, mac): (u8, MacAddr),
) -> Vec<u8> {
    let mut frame = ethernet_header(to.0, from.0, EtherType::IPV6);
    let len = (OPTIONS_OFFSET + 8 - ICMP_OFFSET) as u8;
    frame.extend([0x60, 0, 0, 0, 0, len, IpProto::ICMPV6.0, ND_HOP_LIMIT]);
    frame.extend(from.1.octets());
    frame.extend(to.1.octets());
    frame.extend([kind, 0, 0, 0, flags, 0, 0, 0]);
    frame.extend(target.octets());
    frame.extend([option, 1]);
    frame.extend(mac.0);
    let sum =
        Sum::pseudo_v6(from.1, to.1, IpProto::ICMPV6, len.into()).bytes(&frame[ICMP_OFFSET..]);
    frame[ICMP_OFFSET + 2..ICMP_OFFSET + 4].copy_from_slice(&sum.checksum().to_be_bytes());
    frame
}
