//! What is left to ask of a candidate, and what it does.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use slipring_classify::ranges::RangeSet;

use super::super::config::Config;
use super::super::interpret::End;
use super::super::list::Entry;
use super::bytes::ByteFields;
use super::check::Check;
use super::field::Field;
use super::lookups::is_searched;
use super::near::Near;
use crate::rule::{Action, Arg, Pattern};

/// What a rule does, if all its checks hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
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
pub(super) struct Plan {
    pub(super) checks: Range<u32>,
    pub(super) does: Does,
    /// What it does to a packet of a state that it made.
    pub(super) to_known: Does,
}

/// The wants of one rule: a set for each field that it restricts.
pub(super) type Wants = BTreeMap<Field, RangeSet>;

impl Plan {
    /// Whether no packet that comes here goes on.
    pub(super) fn ends_all(&self) -> bool {
        self.end_of_all().is_some()
    }

    /// How every packet ends that comes here, if they all do.
    pub(super) fn end_of_all(&self) -> Option<End> {
        match self.does {
            Does::Accept if self.checks.is_empty() => Some(End::Accept),
            Does::Deny if self.checks.is_empty() => Some(End::Deny),
            _ => None,
        }
    }

    /// Makes a rule ready. Clauses that are wants go there, if there is a place for them; all
    /// others become checks.
    pub(super) fn of(
        entry: &Entry,
        config: &Config,
        (checks, near): (&mut Vec<Check>, &mut Near),
        mut wants: Option<(&mut Wants, &ByteFields)>,
    ) -> Self {
        let (rule, from) = (&*entry.rule, checks.len() as u32);
        let to_known = acts(entry, config);
        let looks_only = matches!(rule.action, Action::CheckState(_));
        let is_shown_to_all = entry.lookup.is_some_and(|id| !is_searched(id));
        if !config.is_enabled(rule.set) || looks_only && !is_shown_to_all {
            if let Some((wants, _)) = wants {
                wants.insert(Field::Proto, RangeSet::default());
            }
            return Self { checks: from..from, does: Does::Nothing, to_known };
        }
        if is_shown_to_all {
            return Self { checks: from..from, does: Does::Step, to_known };
        }
        for clause in rule.body.clauses().filter(|clause| !is_always(clause)) {
            if !wants.as_mut().is_some_and(|(wants, bytes)| want(clause, config, bytes, wants)) {
                Check::add(clause, (near, rule.set), checks);
            }
        }
        let is_plain = rule.keep.is_none() && rule.chance.is_none();
        let does = if is_plain { to_known } else { Does::Step };
        Self { checks: from..checks.len() as u32, does, to_known }
    }
}

fn is_always(clause: &[Pattern]) -> bool {
    clause.iter().any(|pattern| !pattern.not && pattern.condition.is_always())
}

/// Puts a clause into the wants, if it is one.
fn want(clause: &[Pattern], config: &Config, bytes: &ByteFields, wants: &mut Wants) -> bool {
    let wanted = match Field::wanted(clause, config) {
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
fn acts(entry: &Entry, config: &Config) -> Does {
    let rule = &*entry.rule;
    if rule.log.is_some() || !rule.tags.is_empty() {
        return Does::Step;
    }
    match &rule.action {
        Action::Allow => Does::Accept,
        Action::Deny => Does::Deny,
        Action::Count => Does::Count,
        Action::SkipTo(Arg::Number(to)) => {
            let to = (*to).min(65535) as u16;
            Does::Jump(config.list.first_from(to.max(entry.number.saturating_add(1))) as u32)
        }
        _ => Does::Step,
    }
}
