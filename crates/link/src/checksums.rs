//! Keeps the checksums of a damaged frame correct.
//!
//! Headers are parsed before the damage, so bit errors in a length or a protocol number do not move
//! a checksum. The checksums are updated incrementally ([`Delta`]), so a checksum that was wrong
//! before stays equally wrong.

use core::ops::Range;

use alloc::vec::Vec;

use slipring_wire::Headers;
use slipring_wire::assigned::IpProto;
use slipring_wire::checksum::{Delta, nonzero};
use slipring_wire::view::{FragmentPosition, Ip, IpVersion};

/// The checksum fields of a frame, and a copy of the frame's bytes before the damage.
pub(crate) struct FrameChecksums {
    before: Vec<u8>,
    header: Option<ChecksumField>,
    transport: Option<ChecksumField>,
    addresses: Range<usize>,
}

/// A checksum field and the range that it covers.
struct ChecksumField {
    at: usize,
    covers: Range<usize>,
    /// Whether the checksum also covers the addresses of the IP header.
    pseudo: bool,
    /// Whether a stored 0 means that there is no checksum, as in UDP.
    zero_is_none: bool,
}

impl FrameChecksums {
    pub(crate) fn of(frame: &[u8]) -> Self {
        let headers = Headers::parse(frame).ok();
        let ip = headers.as_ref().and_then(|headers| Some((headers.ip?, usize::from(headers.l3))));
        Self {
            header: ip.and_then(|(ip, l3)| header(&ip, l3)),
            transport: ip.and_then(|(ip, _)| transport(frame, &ip)),
            addresses: ip.map_or(0..0, |(ip, l3)| addresses(&ip, l3)),
            before: frame.to_vec(),
        }
    }

    pub(crate) fn restore(self, frame: &mut [u8]) {
        for field in [&self.header, &self.transport].into_iter().flatten() {
            self.update(field, frame);
        }
    }

    fn update(&self, field: &ChecksumField, frame: &mut [u8]) {
        let range = field.at..field.at + 2;
        // The checksum field itself is excluded from both sums.
        frame[range.clone()].copy_from_slice(&self.before[range.clone()]);
        let checksum = u16::from_be_bytes([frame[field.at], frame[field.at + 1]]);
        let covers = field.covers.clone();
        let mut delta = Delta::new().bytes(&self.before[covers.clone()], &frame[covers]);
        if field.pseudo {
            let addresses = self.addresses.clone();
            delta = delta.bytes(&self.before[addresses.clone()], &frame[addresses]);
        }
        let updated = delta.apply(checksum);
        let updated = if field.zero_is_none { nonzero(updated) } else { updated };
        frame[range].copy_from_slice(&updated.to_be_bytes());
    }
}

fn header(ip: &Ip, l3: usize) -> Option<ChecksumField> {
    let covers = l3..usize::from(ip.l4);
    let field = ChecksumField { at: l3 + 10, covers, pseudo: false, zero_is_none: false };
    (ip.version == IpVersion::V4).then_some(field)
}

fn addresses(ip: &Ip, l3: usize) -> Range<usize> {
    match ip.version {
        IpVersion::V4 => l3 + 12..l3 + 20,
        IpVersion::V6 => l3 + 8..l3 + 40,
    }
}

/// Finds the transport checksum; `None` if the frame has none, or does not contain all bytes that
/// the checksum covers.
fn transport(frame: &[u8], ip: &Ip) -> Option<ChecksumField> {
    let (offset, pseudo) = match ip.proto {
        IpProto::TCP => (16, true),
        IpProto::UDP => (6, true),
        IpProto::ICMPV6 => (2, true),
        IpProto::ICMP => (2, false),
        _ => return None,
    };
    let (l4, at) = (usize::from(ip.l4), usize::from(ip.l4) + offset);
    let bytes = ip.l4_bytes(frame).filter(|_| ip.fragment == FragmentPosition::Whole)?;
    let stored = bytes.get(offset..offset + 2)?;
    let zero_is_none = ip.proto == IpProto::UDP;
    if zero_is_none && stored == [0, 0] {
        return None;
    }
    Some(ChecksumField { at, covers: l4..l4 + bytes.len(), pseudo, zero_is_none })
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use slipring_wire::checksum::{self, Sum};
    use slipring_wire::frame::{
        EchoKind, EchoSpec, IpSpec, Ipv4Spec, Ipv6Spec, L4Spec, PortPair, TcpSpec,
    };
    use slipring_wire::{FrameSpec, Headers};

    use super::*;

    /// A frame of each transport over each version of IP.
    fn frames() -> Vec<Vec<u8>> {
        let transports = [
            L4Spec::Udp(PortPair::default()),
            L4Spec::Tcp(TcpSpec::default()),
            L4Spec::Echo(EchoSpec { kind: EchoKind::Request, id: 7, seq: 9 }),
        ];
        let versions = [IpSpec::V4(Ipv4Spec::default()), IpSpec::V6(Ipv6Spec::default())];
        let frame = |ip, l4| FrameSpec { ip, l4, ..FrameSpec::default() }.build(99).unwrap().bytes;
        versions.into_iter().flat_map(|ip| transports.map(|l4| frame(ip, l4))).collect()
    }

    /// The RFC 1071 sums over the IP header and over the transport segment; a sum is 0 if its
    /// checksum is correct. `headers` were parsed before the damage.
    fn sums(frame: &[u8], headers: &Headers) -> (u16, u16) {
        let (ip, l3) = (headers.ip.unwrap(), usize::from(headers.l3));
        let v4 = |at: usize| <[u8; 4]>::try_from(&frame[at..at + 4]).unwrap().into();
        let v6 = |at: usize| <[u8; 16]>::try_from(&frame[at..at + 16]).unwrap().into();
        let (header, pseudo) = match ip.version {
            IpVersion::V4 => {
                let pseudo = Sum::pseudo_v4(v4(l3 + 12), v4(l3 + 16), ip.proto, ip.l4_len());
                (checksum::of(&frame[l3..l3 + 20]), pseudo)
            }
            IpVersion::V6 => (0, Sum::pseudo_v6(v6(l3 + 8), v6(l3 + 24), ip.proto, ip.l4_len())),
        };
        let pseudo = if ip.proto == IpProto::ICMP { Sum::new() } else { pseudo };
        (header, pseudo.bytes(ip.l4_bytes(frame).unwrap()).checksum())
    }

    #[test]
    fn every_transport_is_right_after_damage_to_any_byte_that_its_checksum_covers() {
        for frame in frames() {
            let headers = Headers::parse(&frame).unwrap();
            assert_eq!(sums(&frame, &headers), (0, 0));
            let (ip, l3) = (headers.ip.unwrap(), usize::from(headers.l3));
            for at in addresses(&ip, l3).chain(usize::from(ip.l4)..frame.len()) {
                let mut damaged = frame.clone();
                damaged[at] ^= 0x35;
                FrameChecksums::of(&frame).restore(&mut damaged);
                assert_eq!(sums(&damaged, &headers), (0, 0), "byte {at} of {frame:02x?}");
            }
        }
    }

    #[test]
    fn a_udp_checksum_that_was_not_sent_stays_0() {
        let mut frame = FrameSpec::default().build(99).unwrap().bytes;
        frame[40..42].fill(0);
        let mut damaged = frame.clone();
        damaged[50] ^= 0x35;
        FrameChecksums::of(&frame).restore(&mut damaged);
        assert_eq!(damaged[40..42], [0, 0]);
    }

    #[test]
    fn a_udp_checksum_that_was_sent_is_never_0() {
        let frame = FrameSpec::default().build(99).unwrap().bytes;
        let headers = Headers::parse(&frame).unwrap();
        for word in 0..=u16::MAX {
            let mut damaged = frame.clone();
            damaged[50..52].copy_from_slice(&word.to_be_bytes());
            FrameChecksums::of(&frame).restore(&mut damaged);
            assert_ne!(damaged[40..42], [0, 0], "0 would mean that there is none");
            assert_eq!(sums(&damaged, &headers), (0, 0));
        }
    }

    #[test]
    fn damage_to_frames_without_ip_and_to_fragments_stays_as_it_is() {
        let mut arp = FrameSpec::default().build(99).unwrap().bytes;
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        let mut fragment = FrameSpec::default().build(99).unwrap().bytes;
        fragment[20] = 0x20;
        for frame in [arp, fragment] {
            let mut damaged = frame.clone();
            damaged[60] ^= 0x35;
            let expected = damaged.clone();
            FrameChecksums::of(&frame).restore(&mut damaged);
            assert_eq!(damaged, expected);
        }
    }
}
