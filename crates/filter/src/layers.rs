//! The offsets of each protocol's fields in an Ethernet frame, and the fields that each primitive
//! tests.
//!
//! A primitive becomes a [`Cond`], which consists of comparisons in the order in which they are
//! evaluated. The order matters: if a comparison reads past the end of a short frame, the frame is
//! rejected.
//!
//! ```text
//!   link        kind   network (after `vlan`, `mpls`, `pppoes`: further right)
//!   | dst | src | type | IPv4, IPv6, ARP, ... | transport
//!   0     6     12     14
//! ```

use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use crate::ast::{
    AddressCarrier, AddressDirection, Arith, Expr, FieldSize, Primitive, Relation, Transport,
};
use crate::cond::{Compare, Cond, FieldLocation, FieldTest, byte, half, not, word};
use crate::names::{
    self, ARP, FRAGMENT, FilterProtocol, ICMP6, IP, IP6, IpLayer, RARP, SCTP, TCP, UDP,
};

/// The offsets of the headers at the current position in the expression. All are in bytes from the
/// start of the frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerOffsets {
    /// Offset of the link header, which `ether[...]` indexes.
    link: u32,
    /// Offset of the field that identifies the next protocol.
    kind: u32,
    /// Offset of the header of the next protocol.
    network: u32,
    next_field: NextProtocolField,
}

/// How the next protocol is identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextProtocolField {
    Ethernet,
    Ppp,
    /// There is no type field: the bottom-of-stack bit and the IP version identify the protocol.
    Mpls,
}

const VLAN_TYPES: [u32; 3] = [0x8100, 0x88a8, 0x9100];
const MPLS_TYPE: u32 = 0x8847;
const PPPOE_SESSION_TYPE: u32 = 0x8864;
const PPP_MPLS: u32 = 0x0281;
/// Up to this value, the type field is a length, and an LLC header follows.
const MAX_LLC_LEN: u32 = 1500;
const ATALK: u32 = names::ATALK as u32;
const AARP: u32 = names::AARP as u32;
const IPX_TYPE: u32 = 0x8137;
const IPX_SAP: u32 = 0xe0;
/// Protocols whose LLC frames have this value as both destination and source service access point.
const PAIRED_SAPS: [u32; 3] = [0x06, 0xf0, 0xfe];

/// Returns the condition that a filter expresses.
pub(crate) fn lower(expr: &Expr) -> Cond<'_> {
    let mut offsets = LayerOffsets::ETHERNET;
    offsets.expr(expr)
}

impl LayerOffsets {
    const ETHERNET: Self =
        Self { link: 0, kind: 12, network: 14, next_field: NextProtocolField::Ethernet };

    /// Processes an expression from left to right, because each `vlan`, `mpls` and `pppoes` changes
    /// the offsets of the tests after it.
    fn expr<'f>(&mut self, expr: &'f Expr) -> Cond<'f> {
        match expr {
            Expr::Test(primitive) => self.primitive(primitive),
            Expr::Not(inner) => not(self.expr(inner)),
            Expr::And(parts) => Cond::All(parts.iter().map(|part| self.expr(part)).collect()),
            Expr::Or(parts) => Cond::Any(parts.iter().map(|part| self.expr(part)).collect()),
        }
    }

    fn primitive<'f>(&mut self, primitive: &'f Primitive) -> Cond<'f> {
        match primitive {
            Primitive::EtherProto(kind) => self.next_is(*kind),
            Primitive::IpProto { layer, number } => self.carries(*layer, *number),
            Primitive::Mac { direction, address } => {
                in_direction(*direction, |src| mac(if src { 6 } else { 0 }, *address))
            }
            Primitive::Net4 { ip_carrier: carrier, direction, address, mask } => {
                self.net4(*carrier, *direction, *address, *mask)
            }
            Primitive::Net6 { direction, address, prefix_len } => {
                self.net6(*direction, *address, *prefix_len)
            }
            Primitive::Ports { transport, direction, low, high } => {
                self.ports(*transport, *direction, (*low).into(), (*high).into())
            }
            Primitive::EtherBroadcast => mac(0, [0xff; 6]),
            Primitive::EtherMulticast => Cond::Field(FieldTest::masked(FieldSize::Byte, 0, 1, 1)),
            Primitive::IpMulticast => {
                let group = FieldTest::eq(FieldSize::Byte, self.network + 16, 224);
                let group = Cond::Field(group.compare(Compare::Ge));
                Cond::All(vec![self.next_is(IP.into()), group])
            }
            Primitive::Ip6Multicast => {
                Cond::All(vec![self.next_is(IP6.into()), byte(self.network + 24, 255)])
            }
            Primitive::Vlan(id) => self.vlan(*id),
            Primitive::Mpls(label) => self.mpls(*label),
            Primitive::Pppoes(session) => self.pppoes(*session),
            Primitive::Relation(relation) => self.relation(relation),
        }
    }

    /// Returns the test for whether the next protocol has this Ethernet type, or this LLC service
    /// access point.
    fn next_is(&self, kind: u32) -> Cond<'static> {
        match self.next_field {
            NextProtocolField::Ethernet => self.ethernet_next_is(kind),
            NextProtocolField::Ppp => half(self.kind, ppp_type(kind)),
            NextProtocolField::Mpls => {
                let version = if kind == IP.into() { 0x40 } else { 0x60 };
                let version = FieldTest::masked(FieldSize::Byte, self.network, 0xf0, version);
                Cond::All(vec![self.is_last_label(true), Cond::Field(version)])
            }
        }
    }

    fn ethernet_next_is(&self, kind: u32) -> Cond<'static> {
        let llc = self.network;
        match kind {
            ATALK => Cond::Any(vec![half(self.kind, ATALK), self.snap(0x08_0007, ATALK)]),
            AARP => Cond::Any(vec![half(self.kind, AARP), self.snap(0, AARP)]),
            // The four encapsulations of IPX: Ethernet type, SNAP, LLC, or directly after a length
            // field ("raw").
            IPX_SAP => Cond::Any(vec![
                half(self.kind, IPX_TYPE),
                Cond::All(vec![
                    self.is_llc(),
                    Cond::Any(vec![
                        self.snap_header(0, IPX_TYPE),
                        byte(llc, IPX_SAP),
                        half(llc, 0xffff),
                    ]),
                ]),
            ]),
            sap if PAIRED_SAPS.contains(&sap) => {
                Cond::All(vec![self.is_llc(), half(llc, sap << 8 | sap)])
            }
            sap if sap <= MAX_LLC_LEN => Cond::All(vec![self.is_llc(), byte(llc, sap)]),
            kind => half(self.kind, kind),
        }
    }

    fn is_llc(&self) -> Cond<'static> {
        let len = FieldTest::eq(FieldSize::Half, self.kind, MAX_LLC_LEN);
        not(Cond::Field(len.compare(Compare::Gt)))
    }

    fn snap(&self, organisation: u32, kind: u32) -> Cond<'static> {
        Cond::All(vec![self.is_llc(), self.snap_header(organisation, kind)])
    }

    fn snap_header(&self, organisation: u32, kind: u32) -> Cond<'static> {
        Cond::All(vec![
            word(self.network + 4, organisation << 16 | kind),
            word(self.network, 0xaaaa_0300 | organisation >> 16),
        ])
    }

    fn carries(&self, layer: IpLayer, number: u32) -> Cond<'static> {
        let in_ip = || Cond::All(vec![self.next_is(IP.into()), byte(self.network + 9, number)]);
        // This skips an IPv6 fragment header, but no other extension headers.
        let in_ip6 = || {
            Cond::All(vec![
                self.next_is(IP6.into()),
                Cond::Any(vec![
                    byte(self.network + 6, number),
                    Cond::All(vec![
                        byte(self.network + 6, FRAGMENT.into()),
                        byte(self.network + 40, number),
                    ]),
                ]),
            ])
        };
        match layer {
            IpLayer::Ip => in_ip(),
            IpLayer::Ip6 => in_ip6(),
            IpLayer::Any => Cond::Any(vec![in_ip(), in_ip6()]),
        }
    }

    fn net4(
        &self,
        carrier: AddressCarrier,
        direction: AddressDirection,
        address: u32,
        mask: u32,
    ) -> Cond<'static> {
        let within = |kind: u16, src_at: u32, dst_at: u32| {
            let ends = in_direction(direction, |src| {
                let at = self.network + if src { src_at } else { dst_at };
                Cond::Field(FieldTest::masked(FieldSize::Word, at, mask, address))
            });
            Cond::All(vec![self.next_is(kind.into()), ends])
        };
        match carrier {
            AddressCarrier::Ip => within(IP, 12, 16),
            AddressCarrier::Arp => within(ARP, 14, 24),
            AddressCarrier::Rarp => within(RARP, 14, 24),
            AddressCarrier::Any if self.next_field == NextProtocolField::Mpls => within(IP, 12, 16),
            AddressCarrier::Any => {
                Cond::Any(vec![within(IP, 12, 16), within(ARP, 14, 24), within(RARP, 14, 24)])
            }
        }
    }

    fn net6(
        &self,
        direction: AddressDirection,
        address: Ipv6Addr,
        prefix_len: u8,
    ) -> Cond<'static> {
        let mut parts = vec![self.next_is(IP6.into())];
        if prefix_len > 0 {
            parts.push(in_direction(direction, |src| {
                let at = self.network + if src { 8 } else { 24 };
                address_words(at, address, prefix_len)
            }));
        }
        Cond::All(parts)
    }

    fn ports(
        &self,
        transport: Transport,
        direction: AddressDirection,
        low: u32,
        high: u32,
    ) -> Cond<'static> {
        let carried = |at: u32| {
            let is = |number: u8| byte(at, number.into());
            match transport {
                Transport::Any => Cond::Any(vec![is(SCTP), is(TCP), is(UDP)]),
                Transport::Tcp => is(TCP),
                Transport::Udp => is(UDP),
                Transport::Sctp => is(SCTP),
            }
        };
        let port =
            |base: FieldLocation| in_direction(direction, |src| port_in(base, src, low, high));
        let in_ip6 = Cond::All(vec![
            self.next_is(IP6.into()),
            carried(self.network + 6),
            port(FieldLocation::Frame(self.network + 40)),
        ]);
        let in_ip = Cond::All(vec![
            self.next_is(IP.into()),
            carried(self.network + 9),
            self.is_first_fragment(),
            port(self.after_ipv4()),
        ]);
        Cond::Any(vec![in_ip6, in_ip])
    }

    /// Returns the test for whether the IPv4 packet is not fragmented or is the first fragment,
    /// which contains the transport header.
    fn is_first_fragment(&self) -> Cond<'static> {
        Cond::Field(FieldTest::masked(FieldSize::Half, self.network + 6, 0x1fff, 0))
    }

    fn after_ipv4(&self) -> FieldLocation {
        FieldLocation::AfterIpv4 { header: self.network, offset: 0 }
    }

    fn vlan(&mut self, id: Option<u16>) -> Cond<'static> {
        let tagged = Cond::Any(VLAN_TYPES.map(|kind| self.next_is(kind)).into());
        let tag_at = self.network;
        self.kind += 4;
        self.network += 4;
        match id {
            Some(id) => {
                let id = FieldTest::masked(FieldSize::Half, tag_at, 0x0fff, id.into());
                Cond::All(vec![tagged, Cond::Field(id)])
            }
            None => tagged,
        }
    }

    fn mpls(&mut self, label: Option<u32>) -> Cond<'static> {
        let labelled = match self.next_field {
            NextProtocolField::Ethernet => half(self.kind, MPLS_TYPE),
            NextProtocolField::Ppp => half(self.kind, PPP_MPLS),
            NextProtocolField::Mpls => self.is_last_label(false),
        };
        let label_at = self.network;
        self.network += 4;
        self.next_field = NextProtocolField::Mpls;
        match label {
            Some(label) => {
                let label = FieldTest::masked(FieldSize::Word, label_at, 0xffff_f000, label << 12);
                Cond::All(vec![labelled, Cond::Field(label)])
            }
            None => labelled,
        }
    }

    /// Returns the test for whether the MPLS label before the current position is the last of its
    /// stack. If `last` is false, the test is negated.
    fn is_last_label(&self, last: bool) -> Cond<'static> {
        let at = self.network - 2;
        Cond::Field(FieldTest::masked(FieldSize::Byte, at, 1, last.into()))
    }

    fn pppoes(&mut self, session: Option<u16>) -> Cond<'static> {
        let in_session = self.next_is(PPPOE_SESSION_TYPE);
        let header_at = self.network;
        // The PPPoE header has six bytes. The two bytes after it identify the protocol.
        self.link = header_at + 6;
        self.kind = header_at + 6;
        self.network = header_at + 8;
        self.next_field = NextProtocolField::Ppp;
        match session {
            Some(session) => Cond::All(vec![in_session, half(header_at + 2, session.into())]),
            None => in_session,
        }
    }

    /// Compiles a relation. It holds only for frames that have all headers that the relation
    /// indexes.
    fn relation<'f>(&self, relation: &'f Relation) -> Cond<'f> {
        let mut parts = Vec::new();
        self.require_headers(&relation.left, &mut parts);
        self.require_headers(&relation.right, &mut parts);
        parts.push(Cond::Relation(relation, *self));
        Cond::All(parts)
    }

    fn require_headers<'f>(&self, arith: &Arith, parts: &mut Vec<Cond<'f>>) {
        match arith {
            Arith::Number(_) | Arith::Len => {}
            Arith::Neg(inner) => self.require_headers(inner, parts),
            Arith::Binary(_, left, right) => {
                self.require_headers(left, parts);
                self.require_headers(right, parts);
            }
            Arith::Load { base, index, .. } => {
                if let FilterProtocol::Transport { number, .. } = base
                    && *number != ICMP6
                {
                    parts.push(self.next_is(IP.into()));
                }
                self.require_headers(index, parts);
                self.require_header(*base, parts);
            }
        }
    }

    fn require_header(&self, base: FilterProtocol, parts: &mut Vec<Cond<'_>>) {
        match base {
            FilterProtocol::Link => {}
            FilterProtocol::Ether(kind) => parts.push(self.next_is(kind.into())),
            FilterProtocol::Transport { number: ICMP6, .. } => {
                parts.push(self.next_is(IP6.into()));
                parts.push(byte(self.network + 6, ICMP6.into()));
            }
            FilterProtocol::Transport { number, .. } => {
                parts.push(byte(self.network + 9, number.into()));
                parts.push(self.is_first_fragment());
            }
        }
    }

    /// Returns the position of a protocol's header. The protocol must be indexable
    /// (`is_indexable`).
    pub(crate) fn header(&self, base: FilterProtocol) -> FieldLocation {
        match base {
            FilterProtocol::Link => FieldLocation::Frame(self.link),
            FilterProtocol::Ether(_) => FieldLocation::Frame(self.network),
            FilterProtocol::Transport { number: ICMP6, .. } => {
                FieldLocation::Frame(self.network + 40)
            }
            FilterProtocol::Transport { .. } => self.after_ipv4(),
        }
    }
}

/// Combines tests of the source and the destination, as `direction` requires. `test` returns the
/// test of the source if its argument is true, otherwise that of the destination.
fn in_direction<'f>(direction: AddressDirection, test: impl Fn(bool) -> Cond<'f>) -> Cond<'f> {
    match direction {
        AddressDirection::Src => test(true),
        AddressDirection::Dst => test(false),
        AddressDirection::Both => Cond::All(vec![test(true), test(false)]),
        AddressDirection::Either => Cond::Any(vec![test(true), test(false)]),
    }
}

fn mac(at: u32, [a, b, c, d, e, f]: [u8; 6]) -> Cond<'static> {
    Cond::All(vec![
        word(at + 2, u32::from_be_bytes([c, d, e, f])),
        half(at, u16::from_be_bytes([a, b]).into()),
    ])
}

fn address_words(at: u32, address: Ipv6Addr, prefix_len: u8) -> Cond<'static> {
    let words = address.octets();
    let words = words.chunks_exact(4).zip((0u32..).step_by(4));
    let mut bits_left = u32::from(prefix_len);
    let mut parts = Vec::new();
    for (chunk, offset) in words {
        if bits_left == 0 {
            break;
        }
        let bits = bits_left.min(32);
        bits_left -= bits;
        let value = chunk.iter().fold(0, |word, &octet| word << 8 | u32::from(octet));
        let mask = u32::MAX << (32 - bits);
        let test = FieldTest::masked(FieldSize::Word, at + offset, mask, value);
        parts.push(Cond::Field(test));
    }
    Cond::All(parts)
}

fn port_in(header: FieldLocation, src: bool, low: u32, high: u32) -> Cond<'static> {
    let at = if src { 0 } else { 2 };
    let location = match header {
        FieldLocation::Frame(base) => FieldLocation::Frame(base + at),
        FieldLocation::AfterIpv4 { header, offset } => {
            FieldLocation::AfterIpv4 { header, offset: offset + at }
        }
    };
    let test = |compare, value| {
        let field = FieldTest::eq(FieldSize::Half, 0, value).compare(compare);
        Cond::Field(FieldTest { location, ..field })
    };
    if low == high {
        return test(Compare::Eq, low);
    }
    Cond::All(vec![test(Compare::Ge, low), not(test(Compare::Gt, high))])
}

/// Returns the PPP protocol number of an Ethernet type. Returns a type without a PPP number
/// unchanged.
fn ppp_type(kind: u32) -> u32 {
    match kind {
        0x0800 => 0x0021,
        0x86dd => 0x0057,
        0x6003 => 0x0027,
        0x809b => 0x0029,
        0xfe => 0x0023,
        0x42 => 0x0031,
        0xe0 => 0x002b,
        other => other,
    }
}
