//! What is left to ask of a candidate, and what it does.

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

/// What a rule does, if all its checks hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleEffect {
    /// Its set is disabled, or it only looks states up.
    Nothing,
    /// Counts, and the packet passes.
    Accept,
    /// Counts, and the packet is dropped.
    Deny,
    /// Counts.
    Count,
    /// Counts, and goes on at a place of the list.
    Jump(u32),
    /// What the plain interpreter says, which asks for everything.
    Step,
}

/// A rule made ready.
#[derive(Clone, Debug)]
pub(super) struct CompiledRule {
    pub(super) checks: Range<u32>,
    pub(super) effect: RuleEffect,
    /// What it does to a packet of a state that it made.
    pub(super) on_state_hit: RuleEffect,
}

/// The wants of one rule: a set for each field that it restricts.
pub(super) type FieldConstraints = BTreeMap<MatchField, RangeSet>;

impl CompiledRule {
    /// Whether no packet that comes here goes on.
    pub(super) fn ends_all(&self) -> bool {
        self.end_of_all().is_some()
    }

    /// How every packet ends that comes here, if they all do.
    pub(super) fn end_of_all(&self) -> Option<RunEnd> {
        match self.effect {
            RuleEffect::Accept if self.checks.is_empty() => Some(RunEnd::Accept),
            RuleEffect::Deny if self.checks.is_empty() => Some(RunEnd::Deny),
            _ => None,
        }
    }

    /// Makes a rule ready. Clauses that are wants go there, if there is a place for them; all
    /// others become checks.
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

/// Puts a clause into the wants, if it is one.
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

/// What a rule does to a packet that it is for.
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
