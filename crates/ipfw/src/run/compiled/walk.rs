//! The walk of a packet from candidate to candidate.

use alloc::vec::Vec;

use super::super::interpret::{RuleRun, RuleStep, RunEnd};
use super::super::metadata::PacketMetadata;
use super::check::RuleCheck;
use super::flow_cache::{
    self, CacheTrial, CachedRules, CandidateCursor, FlowCache, FlowCacheKey, MAX_RULES, NO_KEY,
};
use super::plan::{CompiledRule, RuleEffect};
use super::program::{CompiledRules, FieldClasses, RuleIndex};
use super::table_prefetch::TableAnswers;
use crate::packet::PacketHeaders;

/// The candidates of a packet, for one band at a time: a band is a fixed number of consecutive
/// rules. The buffer is reused for each packet.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct RuleCandidates {
    found: Vec<u16>,
    /// The band that `found` belongs to.
    band: usize,
    /// Number of entries of `found` that the packet has passed.
    passed: usize,
}

impl RuleCandidates {
    /// Discards the candidates of the previous packet.
    #[inline(always)]
    fn start(&mut self) {
        self.band = usize::MAX;
    }

    /// The first candidate at or after `at`. There is always one, because the default rule is a
    /// candidate.
    #[inline(always)]
    fn from(&mut self, index: &RuleIndex, classes: &FieldClasses, at: usize) -> usize {
        let bits = index.matcher.band_bits();
        let (mut band, mut position) = (at >> bits, (at & ((1 << bits) - 1)) as u16);
        loop {
            if band != self.band {
                self.found.clear();
                index.matcher.candidates(classes, band, &mut self.found);
                (self.band, self.passed) = (band, 0);
            } else if self.passed > 0 && self.found[self.passed - 1] >= position {
                // The packet has jumped backwards, so candidates that it had passed are candidates
                // again.
                self.passed = 0;
            }
            while let Some(&found) = self.found.get(self.passed) {
                if found >= position {
                    return (band << bits) + usize::from(found);
                }
                self.passed += 1;
            }
            (band, position) = (band + 1, 0);
        }
    }
}

/// The result of a rule: [`RuleStep`] without a verdict in it.
enum WalkStep {
    /// The lookup found no state; the rule's conditions must still be tested.
    Again,
    Next,
    Jump(usize),
    Ended(RunEnd),
}

/// The search state of a packet, and its position in the list.
#[derive(Clone, Debug)]
pub(in super::super) struct PacketState {
    /// The cache key of the packet's flow.
    pub(super) flow: FlowCacheKey,
    pub(super) candidates: CandidateCursor,
    pub(super) classes: FieldClasses,
    pub(super) is_classified: bool,
    /// The list index of the next rule.
    pub(super) at: usize,
    /// The results of the packet's prefetched table lookups; `None` until they are available.
    pub(in super::super) answers: Option<TableAnswers>,
}

impl Default for PacketState {
    fn default() -> Self {
        Self {
            flow: NO_KEY,
            candidates: CandidateCursor::NO_CANDIDATES,
            classes: FieldClasses::default(),
            is_classified: false,
            at: 0,
            answers: None,
        }
    }
}

impl PacketState {
    /// Resets the state, for another packet or a changed one.
    #[inline(always)]
    pub(in super::super) fn reset(&mut self) {
        self.at = 0;
        self.is_classified = false;
        self.answers = None;
        self.candidates.clear();
    }

    /// Classifies the packet, unless it is classified already.
    pub(super) fn classify(
        &mut self,
        index: &RuleIndex,
        packet: &PacketHeaders,
        crossing: &PacketMetadata,
    ) {
        if !self.is_classified {
            index.classes(packet, crossing, &mut self.classes);
            self.is_classified = true;
        }
    }
}

/// Reusable buffers and caches for finding candidates.
#[derive(Debug, Default)]
pub(in super::super) struct CandidateCaches {
    pub(super) candidates: RuleCandidates,
    /// The candidates by classes of packets.
    pub(super) by_class: FlowCache,
    /// The candidates by flow.
    pub(super) by_flow: FlowCache,
    pub(super) flow_trial: CacheTrial,
}

impl CandidateCaches {
    /// Empties both caches, whose entries are only valid for one [`CompiledRules`].
    pub(in super::super) fn clear(&mut self) {
        self.by_class.clear();
        self.by_flow.clear();
    }
}

impl CompiledRules {
    /// Returns the first candidates for these field classes, up to one that ends the search for
    /// every packet of these classes.
    #[inline(never)]
    pub(super) fn first_rules(
        &self,
        index: &RuleIndex,
        classes: &FieldClasses,
        (candidates, memo): (&mut RuleCandidates, &mut FlowCache),
    ) -> CachedRules {
        let mut search = || self.search_first_rules(index, classes, candidates);
        match index.key(classes) {
            Some(key) => *memo.get_or_insert(key, search),
            None => search(),
        }
    }

    /// Like [`Self::first_rules`], without the cache.
    pub(super) fn search_first_rules(
        &self,
        index: &RuleIndex,
        classes: &FieldClasses,
        candidates: &mut RuleCandidates,
    ) -> CachedRules {
        let mut next = Some(0);
        candidates.start();
        flow_cache::first_of(|| {
            let found = candidates.from(index, classes, next?);
            next = (!self.rules[found].ends_all()).then_some(found + 1);
            Some(found)
        })
    }
}

impl RuleRun<'_> {
    /// Runs the packet through the list that `program` was compiled from.
    #[inline]
    pub(in super::super) fn run_indexed(
        &mut self,
        program: &CompiledRules,
        sight: &mut PacketState,
        finders: &mut CandidateCaches,
    ) -> RunEnd {
        let at = if sight.at == 0 { self.start() } else { sight.at };
        let Some(index) = &program.index else { return self.walk(program, at, |_, at| at) };
        let CandidateCaches { candidates, by_class: memo, .. } = finders;
        candidates.start();
        let mut known = sight.candidates;
        let mut is_found = !known.is_empty() || program.rules.len() >= MAX_RULES;
        self.walk(program, at, |run, at| {
            if let Some(rule) = known.from(at) {
                return rule;
            }
            sight.classify(index, run.packet, run.crossing);
            if !is_found {
                is_found = true;
                known = CandidateCursor::of(program.first_rules(
                    index,
                    &sight.classes,
                    (candidates, memo),
                ));
                if let Some(rule) = known.from(at) {
                    return rule;
                }
            }
            candidates.from(index, &sight.classes, at)
        })
    }

    /// Walks from rule to rule, until one ends the run. `next` returns the first rule from an index
    /// on that may have an effect.
    #[inline(always)]
    fn walk(
        &mut self,
        program: &CompiledRules,
        mut at: usize,
        mut next: impl FnMut(&Self, usize) -> usize,
    ) -> RunEnd {
        loop {
            let lookup = program.lookups.next(at, &self.crossing.search);
            let here = if lookup == at { at } else { next(self, at) };
            let (here, went) = if lookup <= here {
                (lookup, self.look_up_at(program, lookup))
            } else {
                (here, self.follow(program, &program.rules[here], here))
            };
            #[cfg(test)]
            if !matches!(went, WalkStep::Again) {
                super::super::search::steps::count();
            }
            match went {
                WalkStep::Again => at = here,
                WalkStep::Next => at = here + 1,
                WalkStep::Jump(to) => at = to,
                WalkStep::Ended(end) => return end,
            }
        }
    }

    #[inline(always)]
    fn follow(&mut self, program: &CompiledRules, plan: &CompiledRule, at: usize) -> WalkStep {
        let checks = &program.checks[plan.checks.start as usize..plan.checks.end as usize];
        if plan.effect == RuleEffect::Nothing || !checks.is_empty() && !self.all_hold(checks, at) {
            return WalkStep::Next;
        }
        match plan.effect {
            RuleEffect::Step => self.full_step(at),
            does => self.apply_effect(does, at),
        }
    }

    /// Counts the packet at a rule that it matches, and applies the rule's effect, which must be a
    /// simple one. Returns where to continue.
    #[inline(always)]
    fn apply_effect(&mut self, does: RuleEffect, at: usize) -> WalkStep {
        self.count(at);
        match does {
            RuleEffect::Accept => WalkStep::Ended(RunEnd::Accept),
            RuleEffect::Deny => WalkStep::Ended(RunEnd::Deny),
            RuleEffect::Jump(to) => WalkStep::Jump(to as usize),
            RuleEffect::Nothing | RuleEffect::Count | RuleEffect::Step => WalkStep::Next,
        }
    }

    /// Looks up the packet's state and applies the effect of the state's rule.
    #[inline(never)]
    fn look_up_at(&mut self, program: &CompiledRules, at: usize) -> WalkStep {
        let entry = &self.entries[at];
        let Some(id) = entry.lookup.filter(|_| entry.rule.chance.is_none()) else {
            // With `prob`, the draw comes before all other tests, so the rule is evaluated in full.
            return self.full_step(at);
        };
        let Some(position) = self.look_up(id, at) else { return WalkStep::Again };
        let went = match program.rules[position].on_state_hit {
            RuleEffect::Step => {
                let step = self.act_for_state(position);
                return self.walk_step(step);
            }
            does => self.apply_effect(does, position),
        };
        match went {
            WalkStep::Next => WalkStep::Jump(position + 1),
            went => went,
        }
    }

    #[inline(never)]
    fn full_step(&mut self, at: usize) -> WalkStep {
        let step = self.step(at);
        self.walk_step(step)
    }

    #[inline]
    fn walk_step(&mut self, step: RuleStep) -> WalkStep {
        match step {
            RuleStep::Next => WalkStep::Next,
            RuleStep::Jump(to) => WalkStep::Jump(to),
            RuleStep::Done(verdict) => WalkStep::Ended(self.end(verdict)),
        }
    }

    #[inline]
    fn all_hold(&self, checks: &[RuleCheck], at: usize) -> bool {
        RuleCheck::all_hold(checks, &mut self.question(&self.entries[at]))
    }
}
