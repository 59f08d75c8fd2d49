//! A compiled rule: the checks that remain for a candidate, and its effect.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use slipring_classify::ranges::RangeSet;

use super::super::config::IpfwConfig;
use super::super::interpret::RunEnd;
use super::super::list::RuleEntry;
use super::bytes::ByteFields;
use super::check::RuleCheck;
use super::field::MatchField;
use super::state_lookups::is_searched;
use super::table_prefetch::TablePrefetch;
use crate::rule::{Arg, ConditionPattern, RuleAction};

/// The effect of a rule if all its checks hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleEffect {
    /// No effect: the set is disabled, or the rule only looks up states.
    Nothing,
    /// Counts and accepts the packet.
    Accept,
    /// Counts and drops the packet.
    Deny,
    /// Counts the packet.
    Count,
    /// Counts the packet, and continues at this index of the list.
    Jump(u32),
    /// Lets the plain interpreter run the rule, with all its conditions; on a state hit, only its
    /// action.
    Step,
}

/// A compiled rule.
#[derive(Clone, Debug)]
pub(super) struct CompiledRule {
    pub(super) checks: Range<u32>,
    pub(super) effect: RuleEffect,
    /// The effect on a packet whose state this rule created.
    pub(super) on_state_hit: RuleEffect,
}

/// The effect of a rule on every packet whose classes select it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClassEffect {
    /// No effect.
    Nothing,
    /// Counts the packet.
    Count,
    /// Counts and accepts the packet.
    Accept,
    /// Counts and drops the packet.
    Deny,
    /// The effect depends on more than the classes.
    Open,
}

impl ClassEffect {
    pub(super) fn of(rule: &CompiledRule) -> Self {
        match rule.effect {
            RuleEffect::Nothing => Self::Nothing,
            _ if !rule.checks.is_empty() => Self::Open,
            RuleEffect::Accept => Self::Accept,
            RuleEffect::Deny => Self::Deny,
            RuleEffect::Count => Self::Count,
            RuleEffect::Jump(_) | RuleEffect::Step => Self::Open,
        }
    }
}

/// The constraints of one rule: a set of values for each field that it restricts.
pub(super) type FieldConstraints = BTreeMap<MatchField, RangeSet>;

impl CompiledRule {
    /// Returns whether the rule ends the search for every packet whose candidate it is.
    pub(super) fn ends_all(&self) -> bool {
        self.end_of_all().is_some()
    }

    /// Returns the verdict that the rule gives to every packet whose candidate it is; `None` if
    /// there is no such verdict.
    pub(super) fn end_of_all(&self) -> Option<RunEnd> {
        match self.effect {
            RuleEffect::Accept if self.checks.is_empty() => Some(RunEnd::Accept),
            RuleEffect::Deny if self.checks.is_empty() => Some(RunEnd::Deny),
            _ => None,
        }
    }

    /// Compiles a rule. Clauses that are field constraints are added to `wants`, if given; all
    /// others become checks, except those that always hold.
    pub(super) fn of(
        entry: &RuleEntry,
        config: &IpfwConfig,
        (checks, near): (&mut Vec<RuleCheck>, &mut TablePrefetch),
        mut wants: Option<(&mut FieldConstraints, &ByteFields)>,
    ) -> Self {
        let (rule, from) = (&*entry.rule, checks.len() as u32);
        let on_state_hit = effect_of(entry, config);
        let looks_only = matches!(rule.action, RuleAction::CheckState(_));
        let is_shown_to_all = entry.lookup.is_some_and(|id| !is_searched(id));
        if !config.is_enabled(rule.set) || looks_only && !is_shown_to_all {
            if let Some((wants, _)) = wants {
                wants.insert(MatchField::Proto, RangeSet::default());
            }
            return Self { checks: from..from, effect: RuleEffect::Nothing, on_state_hit };
        }
        if is_shown_to_all {
            return Self { checks: from..from, effect: RuleEffect::Step, on_state_hit };
        }
        for clause in rule.body.clauses().filter(|clause| !is_always(clause)) {
            if !wants.as_mut().is_some_and(|(wants, bytes)| constrain(clause, config, bytes, wants))
            {
                RuleCheck::add(clause, (near, rule.set), checks);
            }
        }
        let is_plain = rule.keep.is_none() && rule.chance.is_none();
        let does = if is_plain { on_state_hit } else { RuleEffect::Step };
        Self { checks: from..checks.len() as u32, effect: does, on_state_hit }
    }
}

fn is_always(clause: &[ConditionPattern]) -> bool {
    clause.iter().any(|pattern| !pattern.not && pattern.condition.is_always())
}

/// Adds a clause to the constraints, if it can be a constraint; returns whether it was added.
fn constrain(
    clause: &[ConditionPattern],
    config: &IpfwConfig,
    bytes: &ByteFields,
    wants: &mut FieldConstraints,
) -> bool {
    let wanted = match MatchField::wanted(clause, config) {
        Some(one) => alloc::vec![one],
        None => match bytes.wanted(clause) {
            Some(several) => several,
            None => return false,
        },
    };
    for (field, set) in wanted {
        let both = match wants.get(&field) {
            Some(before) => before.intersection(&set),
            None => set,
        };
        wants.insert(field, both);
    }
    true
}

/// Returns the effect of a rule on a packet that matches.
fn effect_of(entry: &RuleEntry, config: &IpfwConfig) -> RuleEffect {
    let rule = &*entry.rule;
    if rule.log.is_some() || !rule.tags.is_empty() {
        return RuleEffect::Step;
    }
    match &rule.action {
        RuleAction::Allow => RuleEffect::Accept,
        RuleAction::Deny => RuleEffect::Deny,
        RuleAction::Count => RuleEffect::Count,
        RuleAction::SkipTo(Arg::Number(to)) => {
            let to = (*to).min(65535) as u16;
            RuleEffect::Jump(config.list.first_from(to.max(entry.number.saturating_add(1))) as u32)
        }
        _ => RuleEffect::Step,
    }
}
