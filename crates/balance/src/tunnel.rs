//! Finds the Ethernet frame inside a tunnel packet.
//!
//! VXLAN: RFC 7348; Geneve: RFC 8926; GRE: RFC 2784 and 2890; NVGRE: RFC 7637.

use slipring_wire::Headers;
use slipring_wire::assigned::IpProto;
use slipring_wire::view::FragmentPosition;

/// Maximum number of nested tunnels that are unwrapped.
const MAX_DEPTH: usize = 4;
const UDP_LEN: usize = 8;
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;
const GRE: IpProto = IpProto(47);
/// The protocol type that Geneve and GRE use for Ethernet frames.
const ETHERTYPE_TEB: [u8; 2] = [0x65, 0x58];

/// Returns the innermost Ethernet frame, or `frame` itself if it is not a tunnel packet. Unwraps at
/// most [`MAX_DEPTH`] tunnels.
pub(crate) fn innermost(mut frame: &[u8]) -> &[u8] {
    for _ in 0..MAX_DEPTH {
        match inner(frame) {
            Some(inner) if !inner.is_empty() => frame = inner,
            _ => break,
        }
    }
    frame
}

fn inner(frame: &[u8]) -> Option<&[u8]> {
    let headers = Headers::parse(frame).ok()?;
    let ip = headers.ip.filter(|ip| ip.fragment == FragmentPosition::Whole)?;
    let payload = frame.get(usize::from(ip.l4)..)?;
    if ip.proto == GRE {
        return gre(payload);
    }
    if ip.proto != IpProto::UDP {
        return None;
    }
    match headers.ports(frame)?.1 {
        VXLAN_PORT => payload.get(UDP_LEN + 8..),
        GENEVE_PORT => geneve(payload.get(UDP_LEN..)?),
        _ => None,
    }
}

/// Returns the Ethernet frame after a Geneve header; `None` if the tunnel does not carry Ethernet.
/// The header consists of the version and the length of the options (in words of 4 bytes), flags,
/// the protocol type, the network identifier, and the options.
fn geneve(bytes: &[u8]) -> Option<&[u8]> {
    let header = bytes.first_chunk::<8>()?;
    let is_ethernet = header[0] >> 6 == 0 && header[2..4] == ETHERTYPE_TEB;
    is_ethernet.then(|| bytes.get(8 + 4 * usize::from(header[0] & 0x3f)..)).flatten()
}

/// Returns the Ethernet frame after a GRE header; `None` if the tunnel does not carry Ethernet. The
/// header is one word longer for each of the flags for checksum, key and sequence number.
fn gre(bytes: &[u8]) -> Option<&[u8]> {
    let header = bytes.first_chunk::<4>()?;
    let version_0_without_routing = header[1] & 7 == 0 && header[0] & 0x40 == 0;
    let words = (header[0] & 0xb0).count_ones() as usize;
    (version_0_without_routing && header[2..4] == ETHERTYPE_TEB)
        .then(|| bytes.get(4 + 4 * words..))
        .flatten()
}
