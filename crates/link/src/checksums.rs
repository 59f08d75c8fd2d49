//! Keeps the checksums of a damaged frame correct.
//!
//! Headers are parsed before the damage, so bit errors in a length or a protocol number do not move
//! a checksum. The checksums are updated incrementally ([`Delta`]), so a checksum that was wrong
//! before stays equally wrong.

use core::ops::Range;

use alloc::vec::Vec;

use slipring_wire::Headers;
use slipring_wire::assigned::IpProto;
use slipring_wire::checksum::Delta;
use slipring_wire::view::{FragmentPosition, Ip, IpVersion};

/// The checksums of a frame, and a copy of its bytes before the damage.
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
        // The checksum field itself is excluded on both sides.
        frame[range.clone()].copy_from_slice(&self.before[range.clone()]);
        let checksum = u16::from_be_bytes([frame[field.at], frame[field.at + 1]]);
        let covers = field.covers.clone();
        let mut delta = Delta::new().bytes(&self.before[covers.clone()], &frame[covers]);
        if field.pseudo {
            let addresses = self.addresses.clone();
            delta = delta.bytes(&self.before[addresses.clone()], &frame[addresses]);
        }
        frame[range].copy_from_slice(&delta.apply(checksum).to_be_bytes());
    }
}

fn header(ip: &Ip, l3: usize) -> Option<ChecksumField> {
    let covers = l3..usize::from(ip.l4);
    (ip.version == IpVersion::V4).then_some(ChecksumField { at: l3 + 10, covers, pseudo: false })
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
    if ip.proto == IpProto::UDP && stored == [0, 0] {
        return None;
    }
    Some(ChecksumField { at, covers: l4..l4 + bytes.len(), pseudo })
}
