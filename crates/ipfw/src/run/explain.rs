//! Traces one packet through the list, rule by rule.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::engine::Firewall;
use super::interpret::{DenyReason, RuleRun, RuleStep, RuleVerdict};
use super::log;
use super::metadata::PacketMetadata;
use super::reply::CheckOutputs;
use super::search::probes;
use super::translate::TranslationOutcome;
use crate::packet::PacketHeaders;
use crate::rule::{RuleAction, RuleNumber};
use crate::text::ClauseText;

/// The result of a rule for a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleTrace {
    /// The rule's number.
    pub number: RuleNumber,
    /// The text of the rule.
    pub rule: String,
    /// The result.
    pub outcome: RuleOutcome,
}

/// The effect of a rule on the traced packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleOutcome {
    /// The rule's set is disabled.
    Disabled,
    /// The random draw of `prob` skipped the rule.
    Chance,
    /// The rule is a `check-state` that found no state of the packet.
    NoState,
    /// The packet has a state that was created by the rule with this number, whose action was run.
    State(RuleNumber),
    /// The rule did not match: the text of its first clause that does not hold.
    Unmet(String),
    /// The rule matched, and the search continued.
    Passed,
    /// The rule matched, and the search continued at a rule other than the next.
    Jumped,
    /// The rule matched, and the search ended.
    Ended,
    /// The rule matched and translated the packet; these are the new endpoints.
    Translated(String),
    /// The rule matched, but its translator did not change the packet.
    Untranslated,
    /// The rule matched, and its translator dropped the packet.
    Refused,
}

impl Firewall {
    /// Returns the rules that a packet meets, with their outcomes, and the verdict. The packet is
    /// processed as by [`Self::check`], except that `reass` does not keep fragments and that only
    /// rules and translators count the packet. The call creates states, so use a firewall that
    /// checks no other packets.
    pub fn explain(
        &mut self,
        frame: &mut [u8],
        crossing: &mut PacketMetadata,
        now_ns: u64,
        outputs: &mut CheckOutputs,
    ) -> (Vec<RuleTrace>, RuleVerdict) {
        let mut crossed = Vec::new();
        if !self.config.settings.enable {
            return (crossed, RuleVerdict::Accept);
        }
        let mut flow = None;
        loop {
            let mut packet = match PacketHeaders::parse(frame) {
                Ok(packet) => packet,
                Err(kind) => return (crossed, RuleVerdict::Deny(DenyReason::Malformed(kind))),
            };
            if flow.replace(packet.flow()).is_some_and(|before| before != packet.flow())
                && crossing.search.flow_change_is_too_many()
            {
                return (crossed, RuleVerdict::Deny(DenyReason::CallLoop));
            }
            let (more, verdict) = self.trace(frame, &mut packet, crossing, (now_ns, outputs));
            crossed.extend(more);
            if !matches!(verdict, RuleVerdict::Nat(_) | RuleVerdict::Nptv6(_)) {
                return (crossed, verdict);
            }
            let fate = self.translate(&verdict, (frame, &packet), crossing.pass, now_ns);
            if let Some(last) = crossed.last_mut() {
                last.outcome = translated(fate, frame, &packet);
            }
            match fate {
                TranslationOutcome::Dropped => {
                    return (crossed, RuleVerdict::Deny(DenyReason::Translation));
                }
                TranslationOutcome::Translated if self.config.settings.one_pass => {
                    return (crossed, RuleVerdict::Accept);
                }
                TranslationOutcome::Translated | TranslationOutcome::Other => {}
            }
        }
    }

    /// Traces the packet from the resume point in `crossing`, or else from the first rule, to the
    /// next verdict. Returns the rules that the packet meets, and the verdict.
    fn trace(
        &mut self,
        frame: &mut [u8],
        packet: &mut PacketHeaders,
        crossing: &mut PacketMetadata,
        (now, out): (u64, &mut CheckOutputs),
    ) -> (Vec<RuleTrace>, RuleVerdict) {
        let mut counters = core::mem::take(&mut self.config.list.counters);
        let (mut other, mut hash) = (None, None);
        let mut run = RuleRun {
            config: &self.config,
            counters: &mut counters,
            entries: &self.config.list.entries,
            states: &mut self.states,
            resources: &mut self.resources,
            frame,
            packet,
            crossing,
            now,
            out,
            other: &mut other,
            hash: &mut hash,
        };
        let trace = run.trace();
        self.config.list.counters = counters;
        trace
    }
}

fn translated(fate: TranslationOutcome, frame: &[u8], before: &PacketHeaders) -> RuleOutcome {
    let ends = |packet: &PacketHeaders| (packet.src, packet.src_port, packet.dst, packet.dst_port);
    match (fate, PacketHeaders::parse(frame)) {
        (TranslationOutcome::Dropped, _) => RuleOutcome::Refused,
        (TranslationOutcome::Translated, Ok(now)) if ends(&now) != ends(before) => {
            RuleOutcome::Translated(log::ends(&now))
        }
        _ => RuleOutcome::Untranslated,
    }
}

impl RuleRun<'_> {
    fn trace(&mut self) -> (Vec<RuleTrace>, RuleVerdict) {
        let (mut crossed, mut at) = (Vec::new(), self.start());
        loop {
            let before: Vec<u64> = self.counters.iter().map(|counters| counters.packets).collect();
            let unmet = self.unmet(at);
            let asked = self.entries[at].lookup.filter(|id| self.crossing.search.wants(*id));
            let step = self.step(at);
            // The draw precedes the state lookup, so if no state was looked up, the draw has
            // skipped the rule.
            let drawn = asked.map(|id| !self.crossing.search.wants(id));
            let counted = self.counters.iter().zip(before).position(|(now, was)| now.packets > was);
            let outcome = self.outcome(at, (drawn, unmet), counted, &step);
            let entry = &self.entries[at];
            crossed.push(RuleTrace { number: entry.number, rule: entry.rule.to_string(), outcome });
            match step {
                RuleStep::Next => at += 1,
                RuleStep::Jump(to) => at = to,
                RuleStep::Done(verdict) => return (crossed, verdict),
            }
        }
    }

    /// Returns the text of the first clause of a rule that does not hold.
    fn unmet(&self, at: usize) -> Option<String> {
        let entry = &self.entries[at];
        let mut question = self.question(entry);
        let mut clauses = entry.rule.body.clauses();
        let unmet = clauses.find(|clause| {
            !clause.iter().any(|pattern| question.holds(&pattern.condition) != pattern.not)
        });
        unmet.map(|clause| ClauseText(clause).to_string().trim_start().into())
    }

    /// Returns the outcome of the rule at `at`. `drawn` is whether the draw before the state lookup
    /// let the rule run; `None` if the rule looks up no states.
    fn outcome(
        &self,
        at: usize,
        (drawn, unmet): (Option<bool>, Option<String>),
        counted: Option<usize>,
        step: &RuleStep,
    ) -> RuleOutcome {
        let rule = &self.entries[at].rule;
        if !self.config.is_enabled(rule.set) {
            return RuleOutcome::Disabled;
        }
        match (counted, unmet) {
            (Some(other), _) if other != at => RuleOutcome::State(self.entries[other].number),
            (Some(_), _)
                if probes(rule).is_some() && matches!(rule.action, RuleAction::CheckState(_)) =>
            {
                RuleOutcome::State(self.entries[at].number)
            }
            (Some(_), _) => match step {
                RuleStep::Next => RuleOutcome::Passed,
                // The search continues at the next rule, so this is not a jump.
                RuleStep::Jump(to) if *to == at + 1 => RuleOutcome::Passed,
                RuleStep::Jump(_) => RuleOutcome::Jumped,
                RuleStep::Done(_) => RuleOutcome::Ended,
            },
            (None, _) if drawn == Some(false) => RuleOutcome::Chance,
            (None, Some(unmet)) => RuleOutcome::Unmet(unmet),
            (None, None) if matches!(rule.action, RuleAction::CheckState(_)) => {
                RuleOutcome::NoState
            }
            (None, None) if rule.chance.is_some() && drawn.is_none() => RuleOutcome::Chance,
            // No clause failed, but the rule did not count the packet: it has created a state and
            // deferred its action.
            (None, None) => match step {
                RuleStep::Done(_) => RuleOutcome::Ended,
                _ => RuleOutcome::Passed,
            },
        }
    }
}
