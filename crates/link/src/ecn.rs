//! The ECN field of a frame (RFC 3168): reading it and setting "congestion experienced".

use slipring_model::aqm::Ecn;
use slipring_wire::Headers;
use slipring_wire::checksum::Delta;
use slipring_wire::view::IpVersion;

/// Offset of the header checksum of IPv4.
const IPV4_CHECKSUM: usize = 10;

/// Returns the ECN field of a frame; `NotEct` if the frame is not IP.
pub(crate) fn read(frame: &[u8]) -> Ecn {
    ip_header(frame).map_or(Ecn::NotEct, |(version, l3)| Ecn::from_tos(tos(frame, version, l3)))
}

/// Sets "congestion experienced" and updates the IPv4 header checksum. Returns `false` and leaves
/// the frame unchanged if the frame is not ECN-capable.
pub(crate) fn mark(frame: &mut [u8]) -> bool {
    let Some((version, l3)) = ip_header(frame) else { return false };
    if !Ecn::from_tos(tos(frame, version, l3)).is_capable() {
        return false;
    }
    match version {
        IpVersion::V6 => frame[l3 + 1] |= 0x30,
        IpVersion::V4 => {
            let before = u16::from_be_bytes([frame[l3], frame[l3 + 1]]);
            frame[l3 + 1] |= 3;
            let after = u16::from_be_bytes([frame[l3], frame[l3 + 1]]);
            let at = l3 + IPV4_CHECKSUM;
            let checksum = u16::from_be_bytes([frame[at], frame[at + 1]]);
            let checksum = Delta::new().u16(before, after).apply(checksum);
            frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        }
    }
    true
}

/// Returns the version and the offset of the IP header.
fn ip_header(frame: &[u8]) -> Option<(IpVersion, usize)> {
    let headers = Headers::parse(frame).ok()?;
    headers.ip.map(|ip| (ip.version, usize::from(headers.l3)))
}

fn tos(frame: &[u8], version: IpVersion, l3: usize) -> u8 {
    match version {
        IpVersion::V4 => frame[l3 + 1],
        IpVersion::V6 => (frame[l3] << 4) | (frame[l3 + 1] >> 4),
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use slipring_wire::FrameSpec;
    use slipring_wire::frame::{IpSpec, Ipv4Spec, Ipv6Spec};

    use super::*;

    /// A frame of each version of IP with this type of service or traffic class.
    fn frames(class: u8) -> [Vec<u8>; 2] {
        let build = |ip| FrameSpec { ip, ..FrameSpec::default() }.build(80).unwrap().bytes;
        let v6 = Ipv6Spec { traffic_class: class, flow_label: 0xf_ffff, ..Ipv6Spec::default() };
        let mut v4 = build(IpSpec::V4(Ipv4Spec::default()));
        v4[15] = class;
        v4[24..26].fill(0);
        let sum = slipring_wire::checksum::of(&v4[14..34]);
        v4[24..26].copy_from_slice(&sum.to_be_bytes());
        [v4, build(IpSpec::V6(v6))]
    }

    #[test]
    fn a_mark_is_what_rfc_3168_says_for_every_class_of_both_versions() {
        for class in 0..=u8::MAX {
            let field = Ecn::from_tos(class);
            let is_capable = class % 4 != 0;
            let expected = frames(if is_capable { class | 3 } else { class });
            for (mut frame, expected) in frames(class).into_iter().zip(expected) {
                assert_eq!(read(&frame), field, "{class:#x}");
                assert_eq!(mark(&mut frame), is_capable, "{class:#x}");
                assert_eq!(frame, expected, "{class:#x}");
            }
        }
    }

    #[test]
    fn the_traffic_class_of_ipv6_lies_across_two_bytes() {
        for class in 0..=u8::MAX {
            let [v4, v6] = frames(class);
            assert_eq!((tos(&v4, IpVersion::V4, 14), tos(&v6, IpVersion::V6, 14)), (class, class));
        }
    }
}
