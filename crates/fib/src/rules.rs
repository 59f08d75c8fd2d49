//! The kernel's rules, and the tables that they select for packets of an interface.

use alloc::string::String;
use alloc::vec::Vec;

use slipring_rtnetlink::{RouteFamily, RoutingAction, RuleMessage};

use crate::mirrored::Origin;

/// One of the kernel's routing rules (`ip rule`). Most of them select a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingRule {
    /// The family of the packets.
    pub family: RouteFamily,
    /// Rules are tried in ascending order of priority.
    pub priority: u32,
    /// What the rule does with packets.
    pub action: RoutingAction,
    /// The table that the rule selects.
    pub table: u32,
    /// The interface on which packets must have arrived, or empty.
    pub input: String,
    /// Whether the rule applies only to this machine's own packets, because it names an egress
    /// interface.
    pub is_for_output: bool,
    /// Whether the table is that of the packet's VRF device (`l3mdev`).
    pub is_vrf: bool,
    /// Whether the rule has conditions that the tables cannot represent.
    pub has_other_selectors: bool,
}

impl RoutingRule {
    fn of(message: &RuleMessage<'_>) -> Self {
        Self {
            family: message.family,
            priority: message.priority,
            action: message.action,
            table: message.table,
            input: message.input.into(),
            is_for_output: !message.output.is_empty(),
            is_vrf: message.is_vrf,
            has_other_selectors: message.has_other_selectors,
        }
    }

    fn concerns(&self, family: RouteFamily, input: &str) -> bool {
        let is_input = self.input.is_empty() || self.input == input;
        self.family == family && is_input && (!self.is_for_output || self.is_vrf)
    }
}

/// The interface name of rules that apply to packets from this machine itself.
const LOOPBACK: &str = "lo";

/// The kernel's rules of both families.
///
/// Several rules may be equal, so this is a list. A complete dump replaces the whole list.
#[derive(Debug, Default)]
pub(crate) struct RoutingRules {
    rules: Vec<RoutingRule>,
    /// The rules that a running dump has contained so far.
    dumped: Option<Vec<RoutingRule>>,
}

impl RoutingRules {
    pub(crate) fn add(&mut self, message: &RuleMessage<'_>, origin: Origin) {
        let rule = RoutingRule::of(message);
        let list = match (&mut self.dumped, origin) {
            (Some(dumped), Origin::Dump) => dumped,
            _ => &mut self.rules,
        };
        let at = list.partition_point(|other| other.priority <= rule.priority);
        list.insert(at, rule);
    }

    pub(crate) fn remove(&mut self, message: &RuleMessage<'_>) {
        let rule = RoutingRule::of(message);
        if let Some(at) = self.rules.iter().position(|other| *other == rule) {
            self.rules.remove(at);
        }
    }

    pub(crate) fn begin_dump(&mut self) {
        self.dumped = Some(Vec::new());
    }

    pub(crate) fn end_dump(&mut self, is_complete: bool) {
        if let Some(dumped) = self.dumped.take().filter(|_| is_complete) {
            self.rules = dumped;
        }
    }

    pub(crate) fn all(&self) -> &[RoutingRule] {
        &self.rules
    }

    /// Returns the tables for those of this machine's own packets that are not bound to an
    /// interface, in order.
    ///
    /// # Errors
    /// As [`Self::tables`].
    pub(crate) fn output_tables(&self, family: RouteFamily) -> Result<Vec<u32>, &RoutingRule> {
        self.tables(family, LOOPBACK, None)
    }

    /// Returns the tables for packets that arrive on an interface, in order. `vrf_table` is the
    /// table of the VRF device of which the interface is a port.
    ///
    /// # Errors
    /// The first rule that concerns such packets and cannot be represented.
    pub(crate) fn tables(
        &self,
        family: RouteFamily,
        input: &str,
        vrf_table: Option<u32>,
    ) -> Result<Vec<u32>, &RoutingRule> {
        let mut tables = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.concerns(family, input)) {
            if rule.has_other_selectors {
                return Err(rule);
            }
            let table = if rule.is_vrf { vrf_table } else { Some(rule.table) };
            match (rule.action, table) {
                (RoutingAction::Table, Some(table)) => tables.push(table),
                (RoutingAction::Table, None) | (RoutingAction::Nop, _) => {}
                _ => return Err(rule),
            }
        }
        Ok(tables)
    }
}
