//! The clauses of a rule that are not in the matcher's rows, as a flat list of small tests.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::super::matches::RuleQuery;
use super::table_prefetch::{TableAnswers, TablePrefetch};
use crate::packet::{IpFamily, PacketHeaders};
use crate::rule::{AddressPattern, BitTest, Condition, ConditionPattern, HeaderField, V4Mask};

/// A test and how its result is combined.
#[derive(Clone, Debug)]
pub(super) struct RuleCheck {
    test: CompiledCondition,
    not: bool,
    /// Whether this is the last test of its clause. A clause holds if at least one of its tests
    /// holds.
    ends_clause: bool,
}

#[derive(Clone, Debug)]
enum CompiledCondition {
    Proto(u8),
    Version(IpFamily),
    Src4(V4Mask),
    Dst4(V4Mask),
    SrcPort(u16, u16),
    DstPort(u16, u16),
    TcpFlags(BitTest),
    Established,
    Always,
    /// A table lookup that is prefetched for the packets of a batch, and the bit of its result in
    /// [`TableAnswers`].
    Prefetched(u8, Box<Condition>),
    /// Any other condition: evaluated by the plain interpreter.
    Other(Box<Condition>),
}

impl RuleCheck {
    /// Appends the tests of a clause.
    pub(super) fn add(
        clause: &[ConditionPattern],
        (near, set): (&mut TablePrefetch, u8),
        checks: &mut Vec<Self>,
    ) {
        for (at, pattern) in clause.iter().enumerate() {
            let condition = &pattern.condition;
            checks.push(Self {
                test: match near.bit(set, condition) {
                    Some(bit) => CompiledCondition::Prefetched(bit, Box::new(condition.clone())),
                    None => CompiledCondition::of(condition),
                },
                not: pattern.not,
                ends_clause: at + 1 == clause.len(),
            });
        }
    }

    /// Like [`Self::all_hold`], but only with headers and prefetched results; `None` as soon as a
    /// test needs other data.
    #[inline(always)]
    pub(super) fn all_hold_for(
        checks: &[Self],
        packet: &PacketHeaders,
        answers: Option<TableAnswers>,
    ) -> Option<bool> {
        let mut any = false;
        for check in checks {
            any |= check.test.holds_for(packet, answers)? != check.not;
            if check.ends_clause {
                if !any {
                    return Some(false);
                }
                any = false;
            }
        }
        Some(true)
    }

    /// Returns whether every clause has at least one test that holds.
    #[inline]
    pub(super) fn all_hold(checks: &[Self], question: &mut RuleQuery<'_>) -> bool {
        let mut any = false;
        for check in checks {
            any = any || check.test.holds(question) != check.not;
            if check.ends_clause {
                if !any {
                    return false;
                }
                any = false;
            }
        }
        true
    }
}

impl CompiledCondition {
    fn of(condition: &Condition) -> Self {
        use Condition as C;
        match condition {
            C::Proto(proto) => Self::Proto(*proto),
            C::Ip4 => Self::Version(IpFamily::V4),
            C::Ip6 => Self::Version(IpFamily::V6),
            C::Src(AddressPattern::Any) | C::Dst(AddressPattern::Any) | C::Layer2 => Self::Always,
            C::Src(AddressPattern::V4(list)) if list.len() == 1 => Self::Src4(list[0]),
            C::Dst(AddressPattern::V4(list)) if list.len() == 1 => Self::Dst4(list[0]),
            C::Number(HeaderField::SrcPort, ranges) if ranges.0.len() == 1 => {
                Self::SrcPort(ranges.0[0].0, ranges.0[0].1)
            }
            C::Number(HeaderField::DstPort, ranges) if ranges.0.len() == 1 => {
                Self::DstPort(ranges.0[0].0, ranges.0[0].1)
            }
            C::TcpFlags(bits) => Self::TcpFlags(*bits),
            C::Established => Self::Established,
            other => Self::Other(Box::new(other.clone())),
        }
    }

    #[inline(always)]
    fn holds(&self, question: &mut RuleQuery<'_>) -> bool {
        match self {
            Self::Other(condition) | Self::Prefetched(_, condition) => question.holds(condition),
            _ => self.holds_for(question.packet, None) == Some(true),
        }
    }

    #[inline(always)]
    fn holds_for(&self, packet: &PacketHeaders, answers: Option<TableAnswers>) -> Option<bool> {
        let is_v4 = packet.version == IpFamily::V4;
        Some(match self {
            Self::Proto(proto) => packet.version != IpFamily::None && packet.proto == *proto,
            Self::Version(version) => packet.version == *version,
            Self::Src4(network) => is_v4 && network.contains(packet.src as u32),
            Self::Dst4(network) => is_v4 && network.contains(packet.dst as u32),
            Self::SrcPort(low, high) => {
                packet.has_ports && (*low..=*high).contains(&packet.src_port)
            }
            Self::DstPort(low, high) => {
                packet.has_ports && (*low..=*high).contains(&packet.dst_port)
            }
            Self::TcpFlags(bits) => packet.is_tcp() && bits.holds(packet.tcp_flags),
            Self::Established => packet.is_tcp() && packet.tcp_flags & 0x16 != 0x02,
            Self::Always => true,
            Self::Prefetched(bit, _) => answers? >> bit & 1 == 1,
            Self::Other(_) => return None,
        })
    }
}
