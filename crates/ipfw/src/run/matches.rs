//! Decides whether the conditions of a rule hold for a packet.

use core::net::IpAddr;

use super::config::{IpfwConfig, PortIndex};
use super::metadata::{CheckPass, PacketMetadata};
use crate::packet::{IpFamily, PacketHeaders, options};
use crate::rule::{
    AddressPattern, Condition, HeaderField, InterfacePattern, LookupKey, LookupMask, Ranges, Rule,
    RuleNumber, TableTest, ValueTest,
};
use crate::table::{LookupTable, TableValue, ValueKind, ValueKinds};

/// What is needed to match a packet against a rule: the packet, the configuration, and the rule's
/// number and set.
pub(super) struct RuleQuery<'a> {
    pub(super) config: &'a IpfwConfig,
    pub(super) packet: &'a PacketHeaders,
    pub(super) frame: &'a [u8],
    pub(super) crossing: &'a PacketMetadata,
    pub(super) number: RuleNumber,
    pub(super) set: u8,
    /// The value found by this rule's last successful table lookup; `None` if none has succeeded.
    pub(super) tablearg: Option<&'a TableValue>,
}

impl<'a> RuleQuery<'a> {
    /// Returns whether every clause of the rule has at least one pattern that holds.
    pub(super) fn matches(&mut self, rule: &Rule) -> bool {
        rule.body.all_clauses(|patterns| {
            patterns.iter().any(|pattern| self.holds(&pattern.condition) != pattern.not)
        })
    }

    pub(super) fn holds(&mut self, condition: &Condition) -> bool {
        use Condition as C;
        let packet = self.packet;
        let is_ip = packet.version != IpFamily::None;
        match condition {
            C::Proto(proto) => is_ip && packet.proto == *proto,
            C::Ip4 => packet.version == IpFamily::V4,
            C::Ip6 => packet.version == IpFamily::V6,
            C::Src(addresses) => self.address(addresses, packet.src),
            C::Dst(addresses) => self.address(addresses, packet.dst),
            C::Number(field, ranges) => self.number(*field, ranges),
            C::Mac { dst, src } => dst.contains(packet.dst_mac()) && src.contains(packet.src_mac()),
            C::DstMac(test) => self.table_holds(test, |table| table.find_mac(packet.dst_mac())),
            C::SrcMac(test) => self.table_holds(test, |table| table.find_mac(packet.src_mac())),
            C::In => self.crossing.pass == CheckPass::In,
            C::Out => self.crossing.pass == CheckPass::Out,
            C::Layer2 => true,
            C::Recv(interface) => self.interface(interface, self.crossing.recv),
            C::Xmit(interface) => self.interface(interface, self.crossing.xmit),
            C::Via(interface) => self.interface(
                interface,
                match self.crossing.pass {
                    CheckPass::In => self.crossing.recv,
                    CheckPass::Out => self.crossing.xmit,
                },
            ),
            C::IpTos(bits) => packet.version == IpFamily::V4 && bits.holds(packet.tos),
            C::Dscp(set) => is_ip && set >> packet.dscp() & 1 == 1,
            C::IpPrecedence(value) => packet.version == IpFamily::V4 && packet.tos >> 5 == *value,
            C::IpVersion(version) => match packet.version {
                IpFamily::V4 => *version == 4,
                IpFamily::V6 => *version == 6,
                IpFamily::None => false,
            },
            other => self.holds_uncommon(other),
        }
    }

    fn holds_uncommon(&mut self, condition: &Condition) -> bool {
        use Condition as C;
        let (packet, frame) = (self.packet, self.frame);
        let (is_v4, is_v6) = (packet.version == IpFamily::V4, packet.version == IpFamily::V6);
        match condition {
            C::IpOptions(bits) => is_v4 && bits.holds(options::ip_options(frame, packet)),
            C::Frag(bits) => packet.version != IpFamily::None && bits.holds(fragment_bits(packet)),
            C::TcpFlags(bits) => packet.is_tcp() && bits.holds(packet.tcp_flags),
            // As in ipfw's code, this accepts every combination of SYN, ACK and RST except SYN
            // alone.
            C::Established => packet.is_tcp() && packet.tcp_flags & 0x16 != 0x02,
            C::TcpSeq(seq) => packet.is_tcp() && options::tcp_word(frame, packet, 4) == *seq,
            C::TcpAck(ack) => packet.is_tcp() && options::tcp_word(frame, packet, 8) == *ack,
            C::TcpOptions(bits) => {
                packet.is_tcp() && bits.holds(options::tcp_options(frame, packet))
            }
            C::IcmpTypes(set) => {
                is_v4
                    && packet.proto == 1
                    && self.has_icmp()
                    && packet.icmp.0 < 32
                    && set >> packet.icmp.0 & 1 == 1
            }
            C::Icmp6Types(set) => {
                let kind = packet.icmp.0;
                let member = set[usize::from(kind >> 6)] >> (kind & 63) & 1 == 1;
                is_v6 && packet.proto == 58 && self.has_icmp() && member
            }
            C::Ext6Hdr(set) => is_v6 && packet.extensions & set != 0,
            C::FlowId(labels) => is_v6 && labels.contains(&packet.flow_label),
            C::Tagged(ranges) => self.crossing.tags.iter().any(|&tag| ranges.contains(tag)),
            C::TaggedTablearg => {
                let tag = self.tablearg.map(|value| value.number(ValueKind::Tag));
                tag.is_some_and(|tag| self.crossing.tags.iter().any(|&has| u32::from(has) == tag))
            }
            C::Mark { value, mask } => self.crossing.mark & mask == *value,
            C::MarkTablearg => self
                .tablearg
                .is_some_and(|value| value.number(ValueKind::Mark) == self.crossing.mark),
            C::Flow(test) => {
                let flow = packet.flow();
                (is_v4 || is_v6) && self.table_holds(test, |table| table.find_flow(flow))
            }
            C::Lookup { key, mask, table } => {
                let question = (packet, self.crossing.mark, self.number);
                let find = |table| lookup(table, *key, mask.as_ref(), question);
                self.found(table.as_str(), None, find)
            }
            _ => false,
        }
    }

    fn has_icmp(&self) -> bool {
        !self.packet.later_fragment
    }

    fn address(&mut self, addresses: &AddressPattern, bits: u128) -> bool {
        let version = self.packet.version;
        match addresses {
            AddressPattern::Any => true,
            AddressPattern::V4(list) => {
                version == IpFamily::V4 && list.iter().any(|network| network.contains(bits as u32))
            }
            AddressPattern::Hosts(hosts) => version == IpFamily::V4 && hosts.contains(bits as u32),
            AddressPattern::V6(list) => {
                version == IpFamily::V6 && list.iter().any(|network| network.contains(bits))
            }
            AddressPattern::Me => self.is_mine(bits),
            AddressPattern::Me6 => version == IpFamily::V6 && self.is_mine(bits),
            AddressPattern::Table(test) => self.table_holds(test, |table| match version {
                IpFamily::V4 => table.find_v4(bits as u32),
                IpFamily::V6 => table.find_v6(bits),
                IpFamily::None => None,
            }),
        }
    }

    fn is_mine(&self, bits: u128) -> bool {
        let version = self.packet.version;
        self.config.me.iter().any(|(address, _)| match address {
            IpAddr::V4(address) => version == IpFamily::V4 && address.to_bits() == bits as u32,
            IpAddr::V6(address) => version == IpFamily::V6 && address.to_bits() == bits,
        })
    }

    fn number(&self, field: HeaderField, ranges: &Ranges) -> bool {
        use HeaderField as F;
        let (packet, frame) = (self.packet, self.frame);
        let vlan = |index: usize| packet.tags[index].map(|tag| tag.vid());
        let tcp = |value: u32| if packet.is_tcp() { u16::try_from(value).ok() } else { None };
        let value = match field {
            F::SrcPort if packet.has_ports => Some(packet.src_port),
            F::DstPort if packet.has_ports => Some(packet.dst_port),
            F::SrcPort | F::DstPort => None,
            F::MacType => Some(packet.ethertype),
            F::Vlan => vlan(0),
            F::InnerVlan => vlan(1),
            F::IpLen if packet.version != IpFamily::None => u16::try_from(packet.ip_len).ok(),
            F::IpTtl if packet.version == IpFamily::V4 => Some(packet.ttl.into()),
            F::IpId if packet.version == IpFamily::V4 => Some(packet.ip_id),
            F::IpLen | F::IpTtl | F::IpId => None,
            F::TcpWin => tcp(options::tcp_word(frame, packet, 12) & 0xffff),
            F::TcpDataLen => tcp(options::tcp_data_len(frame, packet)),
            F::TcpMss => options::tcp_mss(frame, packet).map(|(mss, _)| mss),
        };
        value.is_some_and(|value| ranges.contains(value))
    }

    fn interface(&mut self, interface: &InterfacePattern, port: Option<PortIndex>) -> bool {
        let Some(port) = port else { return false };
        match interface {
            InterfacePattern::Any => true,
            InterfacePattern::Glob(pattern) => {
                glob(pattern.as_bytes(), self.config.port_name(Some(port)).as_bytes())
            }
            InterfacePattern::Address(address) => {
                let wanted = (IpAddr::V4(*address), Some(port));
                self.config.me.contains(&wanted)
            }
            InterfacePattern::Table(test) => {
                let config = self.config;
                self.table_holds(test, |table| table.find_iface(config.port_name(Some(port))))
            }
        }
    }

    /// Returns whether `find` finds an entry in the table, and the entry has the required value, if
    /// one is required. The entry's value then becomes `tablearg`.
    fn table_holds(
        &mut self,
        test: &TableTest,
        find: impl FnOnce(&'a LookupTable) -> Option<&'a TableValue>,
    ) -> bool {
        self.found(test.table.as_str(), test.value, find)
    }

    fn found(
        &mut self,
        table: &str,
        wanted: Option<ValueTest>,
        find: impl FnOnce(&'a LookupTable) -> Option<&'a TableValue>,
    ) -> bool {
        let Some(table) = self.config.table(self.set, table) else { return false };
        let Some(value) = find(table) else { return false };
        if !is_wanted(table, value, wanted) {
            return false;
        }
        self.tablearg = Some(value);
        true
    }
}

/// Returns whether a table's value is the required one; true if no value is required.
pub(super) fn is_wanted(
    table: &LookupTable,
    value: &TableValue,
    wanted: Option<ValueTest>,
) -> bool {
    wanted.is_none_or(|wanted| {
        let kind = wanted.kind.unwrap_or_else(|| first_kind(table.options.values));
        value.number(kind) == wanted.value
    })
}

/// Returns the kind of value that is compared if the rule names no kind.
fn first_kind(kinds: ValueKinds) -> ValueKind {
    kinds.iter().next().unwrap_or(ValueKind::Tag)
}

fn fragment_bits(packet: &PacketHeaders) -> u8 {
    let offset = u8::from(packet.later_fragment) << 3;
    let flags = (packet.ip_off >> 13) as u8;
    flags | offset
}

fn lookup<'t>(
    table: &'t LookupTable,
    key: LookupKey,
    mask: Option<&LookupMask>,
    (packet, mark, rule): (&PacketHeaders, u32, RuleNumber),
) -> Option<&'t TableValue> {
    use LookupKey as K;
    let number = |value: u32| {
        let mask = if let Some(LookupMask::Number(mask)) = mask { *mask } else { u32::MAX };
        table.find_number(value & mask)
    };
    let address = |bits: u128| match (packet.version, mask) {
        (IpFamily::V4, Some(LookupMask::V4(mask))) => table.find_v4(bits as u32 & mask),
        (IpFamily::V6, Some(LookupMask::V6(mask))) => table.find_v6(bits & **mask),
        (IpFamily::V4, None) => table.find_v4(bits as u32),
        (IpFamily::V6, None) => table.find_v6(bits),
        _ => None,
    };
    let mac = |mac: slipring_wire::MacAddr| {
        let mask = if let Some(LookupMask::Mac(mask)) = mask { mask.to_u64() } else { u64::MAX };
        table.find_mac(slipring_wire::MacAddr::from_u64(mac.to_u64() & mask))
    };
    match key {
        K::DstIp => address(packet.dst),
        K::SrcIp => address(packet.src),
        K::DstIp4 if packet.version == IpFamily::V4 => address(packet.dst),
        K::SrcIp4 if packet.version == IpFamily::V4 => address(packet.src),
        K::DstIp6 if packet.version == IpFamily::V6 => address(packet.dst),
        K::SrcIp6 if packet.version == IpFamily::V6 => address(packet.src),
        K::DstIp4 | K::SrcIp4 | K::DstIp6 | K::SrcIp6 => None,
        K::DstPort if packet.has_ports => number(packet.dst_port.into()),
        K::SrcPort if packet.has_ports => number(packet.src_port.into()),
        K::DstPort | K::SrcPort => None,
        K::Dscp if packet.version != IpFamily::None => number(packet.dscp().into()),
        K::Dscp => None,
        K::DstMac => mac(packet.dst_mac()),
        K::SrcMac => mac(packet.src_mac()),
        K::Mark => number(mark),
        K::RuleNumber => number(rule.into()),
    }
}

/// Returns whether `name` matches a pattern with `*`, `?` and `[…]`. After a mismatch, only the
/// last `*` is extended.
pub(super) fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut here, mut star) = (0, 0, None);
    while here < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at + 1, here));
            at += 1;
        } else if let Some(next) = one(pattern, at, name[here]) {
            (at, here) = (next, here + 1);
        } else if let Some((behind, from)) = star {
            star = Some((behind, from + 1));
            (at, here) = (behind, from + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Returns the index after the pattern's element at index `at`; `None` if that element does not
/// match `byte`.
fn one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => {
            let end = at + 1 + pattern[at + 1..].iter().position(|byte| *byte == b']')?;
            class(&pattern[at + 1..end], byte).then_some(end + 1)
        }
        literal => (literal == byte).then_some(at + 1),
    }
}

fn class(members: &[u8], byte: u8) -> bool {
    let (negated, mut members) = match members {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, members),
    };
    let mut found = false;
    while let [first, rest @ ..] = members {
        (found, members) = match rest {
            [b'-', last, rest @ ..] => (found || (*first..=*last).contains(&byte), rest),
            _ => (found || *first == byte, rest),
        };
    }
    found != negated
}
