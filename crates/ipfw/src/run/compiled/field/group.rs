//! Looks up the classes of many packets in one field, as parts of the packets' cache keys.

use super::{ClassTable, FieldLookup, MatchField, byte};
use crate::packet::MatchHeaders;
use crate::run::compiled::flow_cache::FlowCacheKey;
use crate::run::compiled::program::ClassPosition;
use crate::run::metadata::{CheckPass, PacketMetadata};

impl MatchField {
    /// The value of a numeric field in a packet, as [`Self::number`] returns it.
    #[inline(always)]
    fn number_of(self, packet: &MatchHeaders, crossing: &PacketMetadata) -> Option<u16> {
        match self {
            Self::SrcPort => packet.has_ports.then_some(packet.src_port),
            Self::DstPort => packet.has_ports.then_some(packet.dst_port),
            Self::Proto => Some(packet.proto.into()),
            Self::MacType => Some(MatchHeaders::ETHERTYPE),
            Self::IpLen => Some(packet.ip_len),
            Self::IpId => Some(packet.ip_id),
            Self::IpTtl => Some(packet.ttl.into()),
            Self::Recv => crossing.recv,
            Self::Xmit => crossing.xmit,
            Self::Via if crossing.pass == CheckPass::In => crossing.recv,
            Self::Via => crossing.xmit,
            Self::Pass => Some(crossing.pass as u16),
            Self::SrcByte(at) => Some(byte(packet.src.into(), at)),
            Self::DstByte(at) => Some(byte(packet.dst.into(), at)),
            Self::Vlan | Self::InnerVlan | Self::Src | Self::Dst => None,
        }
    }
}

impl FieldLookup {
    /// Adds the class of each packet in this field to its key. There is only one dispatch on the
    /// kind of field, so that memory accesses of the packets overlap.
    pub(in super::super) fn add_to_keys(
        &self,
        packets: &[MatchHeaders],
        crossing: &PacketMetadata,
        position: ClassPosition,
        keys: &mut [FlowCacheKey],
    ) {
        use MatchField as F;
        let to = (position, keys);
        match (&self.classes, self.field) {
            (ClassTable::Address(v4, _), F::Src) => add(packets, to, |packet| v4.get(packet.src)),
            (ClassTable::Address(v4, _), _) => add(packets, to, |packet| v4.get(packet.dst)),
            (ClassTable::Number(table), F::Proto) => {
                add(packets, to, |packet| table.get(packet.proto.into()));
            }
            (ClassTable::Number(table), F::SrcPort) => add(packets, to, |packet| {
                if packet.has_ports { table.get(packet.src_port) } else { self.none }
            }),
            (ClassTable::Number(table), F::DstPort) => add(packets, to, |packet| {
                if packet.has_ports { table.get(packet.dst_port) } else { self.none }
            }),
            (ClassTable::Number(table), field) => add(packets, to, |packet| {
                field.number_of(packet, crossing).map_or(self.none, |number| table.get(number))
            }),
            (ClassTable::Byte(table), field) => add(packets, to, |packet| {
                let number = field.number_of(packet, crossing);
                number.map_or(self.none, |number| table[usize::from(number as u8)])
            }),
        }
    }
}

#[inline(always)]
fn add(
    packets: &[MatchHeaders],
    (position, keys): (ClassPosition, &mut [FlowCacheKey]),
    class: impl Fn(&MatchHeaders) -> u32,
) {
    let ClassPosition { word, shift, .. } = position;
    for (packet, key) in packets.iter().zip(keys) {
        key[usize::from(word & 1)] |= u64::from(class(packet)) << shift;
    }
}
