//! Rules that select a routing table: `struct fib_rule_hdr`, `linux/fib_rules.h`.

use crate::attributes::{Attribute, Attributes, Malformed, read_u32};
use crate::{RouteFamily, message::kind};

/// What a rule does: `FR_ACT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoutingAction {
    /// Looks the destination up in the rule's table.
    Table,
    /// Continues at another rule.
    Goto,
    /// Does nothing.
    Nop,
    /// Drops packets silently.
    Blackhole,
    /// Answers that the network is unreachable.
    Unreachable,
    /// Answers that communication is prohibited.
    Prohibit,
    /// An action with another number.
    Other(u8),
}

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleMessage<'a> {
    /// The family of the packets.
    pub family: RouteFamily,
    /// Rules are tried in ascending order of priority.
    pub priority: u32,
    /// What the rule does with packets.
    pub action: RoutingAction,
    /// The table in which destinations are looked up.
    pub table: u32,
    /// The name of the interface on which packets must have arrived, or empty.
    pub input: &'a str,
    /// The name of the interface by which this machine's own packets must leave, or empty. No
    /// forwarded packet matches such a rule.
    pub output: &'a str,
    /// Whether the table is that of the interface's VRF device.
    pub is_vrf: bool,
    /// Whether the rule has conditions that are not represented here: addresses, ports, marks, an
    /// inverted match, the length of the matching prefix.
    pub has_other_selectors: bool,
}

/// `sizeof(struct fib_rule_hdr)`.
pub(crate) const RULE_LEN: usize = 12;

/// Attributes of a routing rule: `FRA_*`.
mod fra {
    pub(super) const IIFNAME: u16 = 3;
    pub(super) const PRIORITY: u16 = 6;
    pub(super) const FLOW: u16 = 11;
    pub(super) const SUPPRESS_IFGROUP: u16 = 13;
    pub(super) const SUPPRESS_PREFIXLEN: u16 = 14;
    pub(super) const TABLE: u16 = 15;
    pub(super) const OIFNAME: u16 = 17;
    pub(super) const PAD: u16 = 18;
    pub(super) const L3MDEV: u16 = 19;
    pub(super) const PROTOCOL: u16 = 21;
}

/// `FIB_RULE_INVERT`: the rule holds for packets that do not match it.
const FIB_RULE_INVERT: u32 = 2;

impl<'a> RuleMessage<'a> {
    /// Parses a rule; returns `None` for families other than IPv4 and IPv6.
    pub(crate) fn parse(payload: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let Some((fixed, rest)) = payload.split_first_chunk::<RULE_LEN>() else {
            return Err(Malformed::Truncated { kind: kind::RULE });
        };
        let &[family, to_len, from_len, tos, table, _, _, action, ..] = fixed;
        let Some(family) = RouteFamily::of(family) else { return Ok(None) };
        let flags = read_u32(fixed, 8).unwrap_or_default();
        let is_inverted = flags & FIB_RULE_INVERT != 0;
        let mut rule = Self {
            family,
            priority: 0,
            action: RoutingAction::of(action),
            table: u32::from(table),
            input: "",
            output: "",
            is_vrf: false,
            has_other_selectors: to_len != 0 || from_len != 0 || tos != 0 || is_inverted,
        };
        for attribute in Attributes(rest) {
            rule.take(attribute?)?;
        }
        Ok(Some(rule))
    }

    fn take(&mut self, attribute: Attribute<'a>) -> Result<(), Malformed> {
        match attribute.kind {
            fra::PRIORITY => self.priority = attribute.u32()?,
            fra::TABLE => self.table = attribute.u32()?,
            fra::IIFNAME => self.input = attribute.text(),
            fra::OIFNAME => self.output = attribute.text(),
            fra::L3MDEV => self.is_vrf = attribute.u8()? != 0,
            // If all bits are ones, the condition is not set. The kernel always sends the prefix
            // length.
            fra::SUPPRESS_PREFIXLEN | fra::SUPPRESS_IFGROUP => {
                self.has_other_selectors |= attribute.u32()? != u32::MAX;
            }
            fra::FLOW | fra::PAD | fra::PROTOCOL => {}
            _ => self.has_other_selectors = true,
        }
        Ok(())
    }
}

impl RoutingAction {
    const fn of(number: u8) -> Self {
        match number {
            1 => Self::Table,
            2 => Self::Goto,
            3 => Self::Nop,
            6 => Self::Blackhole,
            7 => Self::Unreachable,
            8 => Self::Prohibit,
            other => Self::Other(other),
        }
    }
}
