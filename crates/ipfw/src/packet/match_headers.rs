//! The header fields by which rules are found, for the most common IPv4 packets. Reading only these
//! fields takes a fraction of the time that reading all headers takes.

use slipring_wire::assigned::IpProto;

use super::IpFamily;
use super::parse::min_transport_len;

/// Flag of [`TRANSPORTS`]: the transport header begins with ports.
const HAS_PORTS: u8 = 1 << 7;
/// By protocol, the minimum length in bytes of the transport header, and [`HAS_PORTS`].
const TRANSPORTS: [u8; 256] = {
    let mut all = [0; 256];
    let mut proto = 0;
    while proto < all.len() {
        let len = min_transport_len(IpProto(proto as u8), IpFamily::V4) as u8;
        let has_ports = len > 0 && proto != IpProto::ICMP.0 as usize;
        all[proto] = if has_ports { len | HAS_PORTS } else { len };
        proto += 1;
    }
    all
};
const TCP: u8 = IpProto::TCP.0;
/// Offset of the byte with the length of the TCP header, in a frame without tags and options.
const TCP_OFFSET_AT: usize = 14 + 20 + 12;

/// Header fields of an IPv4 packet without VLAN tags and options, which is no later fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MatchHeaders {
    pub(crate) src: u32,
    pub(crate) dst: u32,
    /// Bytes that counters add for the packet.
    pub(crate) counted_len: u32,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    pub(crate) ip_id: u16,
    pub(crate) ip_len: u16,
    pub(crate) proto: u8,
    pub(crate) ttl: u8,
    pub(crate) has_ports: bool,
}

impl MatchHeaders {
    /// The EtherType of these packets.
    pub(crate) const ETHERTYPE: u16 = 0x0800;

    /// Reads the fields; `None` for a frame of another form, or whose headers may be inconsistent.
    #[inline(always)]
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        let head = frame.first_chunk::<38>()?;
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (ip_len, proto) = (half(16), head[23]);
        let counted_len = u32::from(ip_len).min((frame.len() - 14) as u32);
        let transport = TRANSPORTS[usize::from(proto)];
        let has_tcp_offset = frame[TCP_OFFSET_AT.min(frame.len() - 1)] >> 4 >= 5;
        if head[12..15] != [0x08, 0x00, 0x45] || ip_len < 20 || half(20) & 0x1fff != 0 {
            return None;
        }
        let is_whole = counted_len >= 20 + u32::from(transport & !HAS_PORTS);
        if !is_whole | (!has_tcp_offset & (proto == TCP)) {
            return None;
        }
        let has_ports = transport & HAS_PORTS != 0;
        let ports = if has_ports { word(34) } else { 0 };
        Some(Self {
            src: word(26),
            dst: word(30),
            counted_len,
            src_port: (ports >> 16) as u16,
            dst_port: ports as u16,
            ip_id: half(18),
            ip_len,
            proto,
            ttl: head[22],
            has_ports,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::{IpFamily, PacketHeaders};

    proptest! {
        #[test]
        fn the_fields_are_those_of_all_headers(
            mut frame in prop::collection::vec(any::<u8>(), 30..80),
            len in 0..80_u16,
            proto in prop::sample::select(alloc::vec![1_u8, 6, 17, 58, 132, 136, 47]),
            fragment in prop::sample::select(alloc::vec![0_u16, 0, 0x2000, 0x4000, 0x2001, 5]),
        ) {
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            frame[16..18].copy_from_slice(&len.to_be_bytes());
            frame[20..22].copy_from_slice(&fragment.to_be_bytes());
            frame[23] = proto;
            let whole = PacketHeaders::parse(&frame);
            let Some(read) = MatchHeaders::read(&frame) else {
                let is_common = whole.is_ok_and(|it| !it.later_fragment) && frame.len() >= 38;
                prop_assert!(!is_common, "a common frame is read");
                return Ok(());
            };
            let whole = whole.unwrap();
            prop_assert_eq!((whole.version, whole.later_fragment), (IpFamily::V4, false));
            let expected = MatchHeaders {
                src: whole.src as u32,
                dst: whole.dst as u32,
                counted_len: whole.counted_len,
                src_port: whole.src_port,
                dst_port: whole.dst_port,
                ip_id: whole.ip_id,
                ip_len: whole.ip_len as u16,
                proto: whole.proto,
                ttl: whole.ttl,
                has_ports: whole.has_ports,
            };
            prop_assert_eq!(read, expected);
        }
    }
}
