//! The hash that decides which next hop a flow takes.
//!
//! Packets with TCP, UDP or SCTP directly after the IP header are hashed by addresses, protocol and
//! ports; all others, and all fragments, by addresses and protocol, so that all fragments of a
//! packet take the same next hop. IPv6 flows can also be distinguished by their flow label (RFC
//! 6438).

use slipring_wire::assigned::IpProto;

use crate::field::{array, be16, be32, be128, byte};
use crate::packet::RoutedPacket;

/// How flows are hashed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextHopHash {
    pub(crate) seed: u64,
    pub(crate) uses_flow_label: bool,
}

impl NextHopHash {
    /// The hash of a packet's flow.
    pub(crate) fn of(self, bytes: &[u8], packet: &RoutedPacket) -> u32 {
        let l3 = packet.l3();
        if packet.is_v6() {
            let proto = byte(bytes, l3 + 6);
            let label = if self.uses_flow_label { be32(bytes, l3) & 0xf_ffff } else { 0 };
            let rest = u64::from(ports(bytes, l3 + 40, packet.end, proto)) << 32
                | u64::from(label) << 8
                | u64::from(proto);
            let halves = |address: u128| [(address >> 64) as u64, address as u64];
            let [a, b] = halves(be128(bytes, l3 + 8));
            let [c, d] = halves(be128(bytes, l3 + 24));
            let addresses = fold(a ^ self.seed, c ^ MIX[0]) ^ fold(b ^ MIX[1], d ^ self.seed);
            return fold(addresses ^ rest, MIX[2]) as u32;
        }
        let proto = byte(bytes, l3 + 9);
        let l4 = l3 + usize::from(byte(bytes, l3) & 0xf) * 4;
        let is_fragment = be16(bytes, l3 + 6) & 0x3fff != 0;
        let ports = if is_fragment { 0 } else { ports(bytes, l4, packet.end, proto) };
        let addresses = array(bytes, l3 + 12).map_or(0, u64::from_be_bytes);
        let rest = u64::from(ports) << 8 | u64::from(proto);
        fold(fold(addresses ^ self.seed, MIX[0]) ^ rest, MIX[1]) as u32
    }
}

/// The two ports as one number; 0 for other protocols and truncated headers.
fn ports(bytes: &[u8], l4: usize, end: u32, proto: u8) -> u32 {
    let has_ports = matches!(IpProto(proto), IpProto::TCP | IpProto::UDP | IpProto::SCTP);
    if has_ports && l4 + 4 <= end as usize { be32(bytes, l4) } else { 0 }
}

/// Multipliers: odd numbers with irregular bits.
const MIX: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

/// The exclusive or of the two halves of the 128-bit product. Each bit of the result depends on all
/// bits of both factors.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}
