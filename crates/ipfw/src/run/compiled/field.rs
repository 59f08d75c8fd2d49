//! Header fields for which a rule can require a set of values.
//!
//! # Invariant
//! No rule can change a field while a packet runs through the list.

mod group;

use core::net::IpAddr;

use alloc::boxed::Box;
use alloc::vec::Vec;

use slipring_classify::direct::DirectTable;
use slipring_classify::partition::Partition;
use slipring_classify::ranges::{FieldPoint, RangeSet};
use slipring_classify::trie::Trie;

use super::super::config::{IpfwConfig, PortIndex};
use super::super::matches::glob;
use super::super::metadata::{CheckPass, PacketMetadata};
use crate::packet::{IpFamily, PacketHeaders};
use crate::rule::{
    AddressPattern, Condition, ConditionPattern, HeaderField, HostSet, InterfacePattern,
};

/// Families of values: IPv4 addresses and all numbers, IPv6 addresses, and no value.
pub(super) const FAMILY_PLAIN: u8 = 0;
pub(super) const FAMILY_V6: u8 = 1;
const FAMILY_NONE: u8 = 2;

/// A header field, the pass (in or out) or a port of a packet, for which a rule can require a set
/// of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatchField {
    Src,
    Dst,
    DstPort,
    SrcPort,
    Proto,
    MacType,
    Vlan,
    InnerVlan,
    IpLen,
    IpId,
    IpTtl,
    Recv,
    Xmit,
    Via,
    Pass,
    /// A byte of an address, counted from the last one, for masks that are not prefixes.
    SrcByte(u8),
    DstByte(u8),
}

impl MatchField {
    /// All fields except address bytes. A list uses only the address bytes that it needs.
    pub(super) const ALL: [Self; 15] = [
        Self::Src,
        Self::Dst,
        Self::DstPort,
        Self::SrcPort,
        Self::Proto,
        Self::MacType,
        Self::Vlan,
        Self::InnerVlan,
        Self::IpLen,
        Self::IpId,
        Self::IpTtl,
        Self::Recv,
        Self::Xmit,
        Self::Via,
        Self::Pass,
    ];

    /// Returns whether all packets of a flow that come in by the same port have the same value in
    /// this field.
    pub(super) const fn is_of_flow(self) -> bool {
        use MatchField as F;
        matches!(
            self,
            F::Src
                | F::Dst
                | F::SrcPort
                | F::DstPort
                | F::Proto
                | F::Recv
                | F::Xmit
                | F::Via
                | F::Pass
                | F::SrcByte(_)
                | F::DstByte(_)
        )
    }

    /// Returns the field that a clause tests and the values that it accepts; `None` for a clause
    /// that tests several fields or something else.
    pub(super) fn wanted(
        clause: &[ConditionPattern],
        config: &IpfwConfig,
    ) -> Option<(Self, RangeSet)> {
        let mut sets = clause.iter().map(|pattern| {
            let (field, set) = Self::values(&pattern.condition, config)?;
            Some((field, if pattern.not { set.complement() } else { set }))
        });
        let first = sets.next()??;
        sets.try_fold(first, |(field, all), next| {
            let (other, set) = next?;
            (field == other).then(|| (field, all.union(&set)))
        })
    }

    fn values(condition: &Condition, config: &IpfwConfig) -> Option<(Self, RangeSet)> {
        use Condition as C;
        let number = |value: u8| RangeSet::of(FAMILY_PLAIN, value.into(), value.into());
        Some(match condition {
            C::Proto(proto) => (Self::Proto, number(*proto)),
            C::Ip4 | C::IpVersion(4) => (Self::Src, RangeSet::family(FAMILY_PLAIN)),
            C::Ip6 | C::IpVersion(6) => (Self::Src, RangeSet::family(FAMILY_V6)),
            C::IpVersion(_) => (Self::Src, RangeSet::default()),
            C::Src(addresses) => (Self::Src, address_set(addresses, config)?),
            C::Dst(addresses) => (Self::Dst, address_set(addresses, config)?),
            C::Number(field, ranges) => {
                let range = |&(low, high): &(u16, u16)| {
                    (
                        FieldPoint::new(FAMILY_PLAIN, low.into()),
                        FieldPoint::new(FAMILY_PLAIN, high.into()),
                    )
                };
                (Self::of_header(*field)?, ranges.0.iter().map(range).collect())
            }
            C::In => (Self::Pass, number(CheckPass::In as u8)),
            C::Out => (Self::Pass, number(CheckPass::Out as u8)),
            C::Layer2 => (Self::Pass, RangeSet::all()),
            C::Recv(interface) => (Self::Recv, port_set(interface, config)?),
            C::Xmit(interface) => (Self::Xmit, port_set(interface, config)?),
            C::Via(interface) => (Self::Via, port_set(interface, config)?),
            _ => return None,
        })
    }

    const fn of_header(field: HeaderField) -> Option<Self> {
        use HeaderField as F;
        Some(match field {
            F::SrcPort => Self::SrcPort,
            F::DstPort => Self::DstPort,
            F::MacType => Self::MacType,
            F::Vlan => Self::Vlan,
            F::InnerVlan => Self::InnerVlan,
            F::IpLen => Self::IpLen,
            F::IpId => Self::IpId,
            F::IpTtl => Self::IpTtl,
            // These fields are not looked up: rules can change TCP options, and the fields are
            // rarely tested.
            F::TcpWin | F::TcpDataLen | F::TcpMss => return None,
        })
    }

    /// The value of a numeric field in a packet; `None` if the packet does not have the field.
    #[inline(always)]
    fn number(self, packet: &PacketHeaders, crossing: &PacketMetadata) -> Option<u16> {
        let is_ip = packet.version != IpFamily::None;
        let tag = |index: usize| packet.tags[index].map(|tag| tag.vid());
        match self {
            Self::SrcPort => packet.has_ports.then_some(packet.src_port),
            Self::DstPort => packet.has_ports.then_some(packet.dst_port),
            Self::Proto => is_ip.then_some(packet.proto.into()),
            Self::MacType => Some(packet.ethertype),
            Self::Vlan => tag(0),
            Self::InnerVlan => tag(1),
            Self::IpLen if is_ip => packet.ip_len.try_into().ok(),
            Self::IpId => (packet.version == IpFamily::V4).then_some(packet.ip_id),
            Self::IpTtl => (packet.version == IpFamily::V4).then_some(packet.ttl.into()),
            Self::Recv => crossing.recv,
            Self::Xmit => crossing.xmit,
            Self::Via if crossing.pass == CheckPass::In => crossing.recv,
            Self::Via => crossing.xmit,
            Self::Pass => Some(crossing.pass as u16),
            Self::SrcByte(at) => is_ip.then(|| byte(packet.src, at)),
            Self::DstByte(at) => is_ip.then(|| byte(packet.dst, at)),
            Self::IpLen | Self::Src | Self::Dst => None,
        }
    }

    /// Returns the index of the address byte; `None` if the field is not an address byte.
    pub(super) const fn byte(self) -> Option<u8> {
        match self {
            Self::SrcByte(at) | Self::DstByte(at) => Some(at),
            _ => None,
        }
    }
}

fn byte(address: u128, at: u8) -> u16 {
    u16::from((address >> (8 * u32::from(at))) as u8)
}

fn address_set(addresses: &AddressPattern, config: &IpfwConfig) -> Option<RangeSet> {
    let host = |address: &IpAddr| match address {
        IpAddr::V4(address) => FieldPoint::new(FAMILY_PLAIN, address.to_bits().into()),
        IpAddr::V6(address) => FieldPoint::new(FAMILY_V6, address.to_bits()),
    };
    let mine = || config.me.iter().map(|(address, _)| (host(address), host(address)));
    Some(match addresses {
        AddressPattern::Any => RangeSet::all(),
        AddressPattern::Me => mine().collect(),
        AddressPattern::Me6 => mine().filter(|range| range.0.family == FAMILY_V6).collect(),
        AddressPattern::V4(list) => {
            let ranges = list.iter().map(|network| {
                network.prefix_len()?;
                let last = network.address | !network.mask;
                Some((
                    FieldPoint::new(FAMILY_PLAIN, network.address.into()),
                    FieldPoint::new(FAMILY_PLAIN, last.into()),
                ))
            });
            ranges.collect::<Option<Vec<_>>>()?.into_iter().collect()
        }
        AddressPattern::V6(list) => {
            let ranges = list.iter().map(|network| {
                network.prefix_len()?;
                let last = network.address | !network.mask;
                Some((
                    FieldPoint::new(FAMILY_V6, network.address),
                    FieldPoint::new(FAMILY_V6, last),
                ))
            });
            ranges.collect::<Option<Vec<_>>>()?.into_iter().collect()
        }
        AddressPattern::Hosts(hosts) => host_set(hosts),
        AddressPattern::Table(_) => return None,
    })
}

fn host_set(hosts: &HostSet) -> RangeSet {
    let all = (0..=255).map(|last| hosts.base & !0xff | last);
    let members = all.filter(|&address| hosts.contains(address));
    members
        .map(|address| FieldPoint::new(FAMILY_PLAIN, address.into()))
        .map(|point| (point, point))
        .collect()
}

fn port_set(interface: &InterfacePattern, config: &IpfwConfig) -> Option<RangeSet> {
    let is_wanted: &dyn Fn(PortIndex) -> bool = match interface {
        InterfacePattern::Any => return Some(RangeSet::family(FAMILY_PLAIN)),
        InterfacePattern::Glob(pattern) => {
            &|port| glob(pattern.as_bytes(), config.port_name(Some(port)).as_bytes())
        }
        InterfacePattern::Address(address) => {
            &|port| config.me.contains(&(IpAddr::V4(*address), Some(port)))
        }
        InterfacePattern::Table(_) => return None,
    };
    // A pattern for names matches either all or none of the ports without a name, so these are one
    // range. A pattern for an address may match some of them, so each port that has an address is
    // tested separately.
    let point = |port: PortIndex| FieldPoint::new(FAMILY_PLAIN, port.into());
    let addressed = config.me.iter().filter_map(|(_, port)| *port);
    let named = 0..config.ports.len().min(1 << 16) as u32;
    let single = named.map(|port| port as PortIndex).chain(addressed);
    let mut wanted: RangeSet =
        single.filter(|&port| is_wanted(port)).map(|port| (point(port), point(port))).collect();
    if let Ok(first) = PortIndex::try_from(config.ports.len())
        && let InterfacePattern::Glob(pattern) = interface
        && glob(pattern.as_bytes(), b"")
    {
        wanted = wanted.union(&[(point(first), point(PortIndex::MAX))].into_iter().collect());
    }
    Some(wanted)
}

/// The classes of a field's values.
#[derive(Clone, Debug)]
pub(super) struct FieldLookup {
    field: MatchField,
    classes: ClassTable,
    none: u32,
}

#[derive(Clone, Debug)]
enum ClassTable {
    Address(Trie<u32>, Trie<u128>),
    Number(DirectTable),
    Byte(Box<[u32; 256]>),
}

impl FieldLookup {
    pub(super) fn new(field: MatchField, partition: &Partition) -> Self {
        let classes = match field {
            MatchField::Src | MatchField::Dst => {
                ClassTable::Address(partition.trie(FAMILY_PLAIN), partition.trie(FAMILY_V6))
            }
            MatchField::SrcByte(_) | MatchField::DstByte(_) => {
                let class = |value| partition.class(FieldPoint::new(FAMILY_PLAIN, value as u128));
                ClassTable::Byte(Box::new(core::array::from_fn(class)))
            }
            _ => ClassTable::Number(partition.direct(FAMILY_PLAIN)),
        };
        Self { field, classes, none: partition.class(FieldPoint::new(FAMILY_NONE, 0)) }
    }

    /// Returns the class of a packet in this field.
    #[inline]
    pub(super) fn class(&self, packet: &PacketHeaders, crossing: &PacketMetadata) -> u32 {
        match &self.classes {
            ClassTable::Address(v4, v6) => {
                let bits = if self.field == MatchField::Src { packet.src } else { packet.dst };
                match packet.version {
                    IpFamily::V4 => v4.get(bits as u32),
                    IpFamily::V6 => v6.get(bits),
                    IpFamily::None => self.none,
                }
            }
            ClassTable::Number(table) => {
                self.field.number(packet, crossing).map_or(self.none, |number| table.get(number))
            }
            ClassTable::Byte(table) => {
                let number = self.field.number(packet, crossing);
                number.map_or(self.none, |number| table[usize::from(number as u8)])
            }
        }
    }

    /// Like `class`, but for many packets; for ports and the protocol, with only one dispatch on
    /// the field.
    pub(super) fn classes<'p>(
        &self,
        packets: impl Iterator<Item = (&'p PacketHeaders, &'p PacketMetadata, &'p mut u32)>,
    ) {
        match (&self.classes, self.field) {
            (ClassTable::Number(table), MatchField::DstPort) => {
                self.numbers(table, packets, |packet, _| {
                    packet.has_ports.then_some(packet.dst_port)
                })
            }
            (ClassTable::Number(table), MatchField::SrcPort) => {
                self.numbers(table, packets, |packet, _| {
                    packet.has_ports.then_some(packet.src_port)
                })
            }
            (ClassTable::Number(table), MatchField::Proto) => {
                self.numbers(table, packets, |packet, _| {
                    (packet.version != IpFamily::None).then_some(packet.proto.into())
                })
            }
            (ClassTable::Number(table), field) => {
                self.numbers(table, packets, |packet, crossing| field.number(packet, crossing));
            }
            (ClassTable::Address(..) | ClassTable::Byte(_), _) => {
                packets.for_each(|(packet, crossing, class)| *class = self.class(packet, crossing));
            }
        }
    }

    #[inline(always)]
    fn numbers<'p>(
        &self,
        table: &DirectTable,
        packets: impl Iterator<Item = (&'p PacketHeaders, &'p PacketMetadata, &'p mut u32)>,
        number: impl Fn(&PacketHeaders, &PacketMetadata) -> Option<u16>,
    ) {
        for (packet, crossing, class) in packets {
            *class = number(packet, crossing).map_or(self.none, |number| table.get(number));
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        match &self.classes {
            ClassTable::Address(v4, v6) => v4.size_bytes() + v6.size_bytes(),
            ClassTable::Number(_) => 4 << 16,
            ClassTable::Byte(_) => 4 << 8,
        }
    }
}
