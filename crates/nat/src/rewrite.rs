//! Changes one end of a packet, and the checksums that cover it.

use slipring_wire::assigned::IpProto;
use slipring_wire::checksum::{self, Delta};

use crate::flow::NatEndpoint;
use crate::packet::{self, FragmentPart, Ipv4View, SrcOrDst};

pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) -> Option<()> {
    *bytes.get_mut(at..)?.first_chunk_mut()? = value.to_be_bytes();
    Some(())
}

/// Sets the address at `side`, and the port or identifier there if it may be changed. Updates the
/// checksum of the IP header, and that of the content unless the packet ends before it, as a quoted
/// packet may.
pub(crate) fn set_end(packet: &mut [u8], view: &Ipv4View, side: SrcOrDst, end: NatEndpoint) {
    let (at, old) = match side {
        SrcOrDst::Src => (12, view.src),
        SrcOrDst::Dst => (16, view.dst),
    };
    let addresses = Delta::new().u32(old.to_bits(), end.address.to_bits());
    packet[at..at + 4].copy_from_slice(&end.address.octets());
    if let Some(sum) = be16(packet, 10) {
        put16(packet, 10, addresses.apply(sum));
    }
    if view.part == FragmentPart::Later {
        return;
    }
    let (sum_at, covers_addresses) = match packet::checksum_at(view.proto) {
        Some((at, covers)) => (Some(view.l4 + at), covers),
        None => (None, false),
    };
    let delta = if covers_addresses { addresses } else { Delta::new() };
    let delta = set_port(packet, view, side, end.port, delta);
    if let Some(at) = sum_at {
        update(packet, at, view.proto, delta);
    }
}

/// Changes the port or identifier at `side`, if the packet has one that may be changed. Returns
/// `delta` with this change added.
fn set_port(packet: &mut [u8], view: &Ipv4View, side: SrcOrDst, port: u16, delta: Delta) -> Delta {
    let at = view.l4
        + match (view.proto, side) {
            (IpProto::ICMP, _) => 4,
            (_, SrcOrDst::Src) => 0,
            (_, SrcOrDst::Dst) => 2,
        };
    match be16(packet, at).filter(|_| packet::can_change_port(view.proto)) {
        Some(old) => {
            put16(packet, at, port);
            delta.u16(old, port)
        }
        None => delta,
    }
}

fn update(packet: &mut [u8], at: usize, proto: IpProto, delta: Delta) -> Option<()> {
    let sum = be16(packet, at)?;
    let is_udp = proto == IpProto::UDP;
    if is_udp && sum == 0 {
        // A checksum of 0 means that the sender did not compute one, so there is nothing to update.
        return None;
    }
    let sum = delta.apply(sum);
    put16(packet, at, if is_udp { checksum::nonzero(sum) } else { sum })
}
