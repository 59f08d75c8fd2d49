//! Runs the most common packets through the rules by their classes alone.
//!
//! ```text
//!   frames --read--> fields --field by field--> keys --cache--> candidates --> end, or the rule
//!                                                                              that needs more
//! ```
//!
//! For most packets, the candidates that their classes select have no checks left, so the other
//! headers are not needed. Only the packets that reach a rule with checks or with another effect
//! are parsed; they continue at this rule ([`fast_path`](super::fast_path)).

use super::super::check_buffers::ParsedPacket;
use super::super::interpret::RunEnd;
use super::super::list::RuleCounters;
use super::super::metadata::PacketMetadata;
use super::flow_cache::{CachedRules, CandidateCursor, FlowCacheKey, MAX_RULES};
use super::plan::ClassEffect;
use super::program::CompiledRules;
use super::walk::CandidateCaches;
use crate::packet::MatchHeaders;
use crate::table::FoundValues;

/// Maximum number of packets in a group.
const MAX_PACKETS: usize = FoundValues::MAX_LOOKUPS;

/// The packets of a group that can run by their classes.
#[derive(Clone, Debug)]
pub(in super::super) struct ClassGroup {
    packets: [MatchHeaders; MAX_PACKETS],
    /// The index of each packet in the whole group.
    indexes: [u8; MAX_PACKETS],
    keys: [FlowCacheKey; MAX_PACKETS],
    len: usize,
}

impl Default for ClassGroup {
    fn default() -> Self {
        Self {
            packets: [MatchHeaders::default(); MAX_PACKETS],
            indexes: [0; MAX_PACKETS],
            keys: [[0; 2]; MAX_PACKETS],
            len: 0,
        }
    }
}

impl ClassGroup {
    /// Starts another group.
    pub(in super::super) const fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds the packet of a frame, if [`MatchHeaders`] can represent it; returns whether this is
    /// so. `index` is the packet's index in the whole group.
    #[inline(always)]
    pub(in super::super) fn push(&mut self, index: usize, frame: &[u8]) -> bool {
        let Some(packet) = MatchHeaders::read(frame) else { return false };
        self.packets[self.len] = packet;
        self.indexes[self.len] = index as u8;
        self.len += 1;
        true
    }
}

impl CompiledRules {
    /// Returns whether packets can run by their classes.
    pub(in super::super) fn runs_by_class(&self) -> bool {
        let has_keys = self.index.as_ref().is_some_and(|index| index.has_keys());
        has_keys && self.rules.len() < MAX_RULES && self.lookups.first_from(0) != 0
    }

    /// Runs the packets of a group, and fills in the verdicts that are reached. For each other
    /// packet of the group, sets `state` in `parsed` so that the packet continues at the rule that
    /// it has reached.
    pub(in super::super) fn run_by_class(
        &self,
        group: &mut ClassGroup,
        crossing: &PacketMetadata,
        finders: &mut CandidateCaches,
        (counters, now): (&mut [RuleCounters], u64),
        parsed: &mut [ParsedPacket],
        ends: &mut [Option<RunEnd>],
    ) {
        let Some(index) = &self.index else { return };
        let (packets, keys) = (&group.packets[..group.len], &mut group.keys[..group.len]);
        index.keys(packets, crossing, keys);
        let CandidateCaches { candidates, by_class: memo, .. } = finders;
        memo.prefetch(keys.iter().copied());
        let lookup = self.lookups.first_from(0);
        for ((packet, &key), &at) in packets.iter().zip(&*keys).zip(&group.indexes) {
            let rules = memo.get_or_insert(key, || {
                self.search_first_rules(index, &index.classes_of(key), candidates)
            });
            let counted = (packet.counted_len, now);
            let at = usize::from(at);
            match self.run_rules(rules, lookup, (&mut *counters, counted)) {
                Ok(end) => ends[at] = Some(end),
                Err(passed) => {
                    let state = &mut parsed[at].state;
                    state.reset();
                    state.at = passed.checked_sub(1).map_or(0, |last| usize::from(rules[last]) + 1);
                    state.candidates = CandidateCursor::of(*rules);
                }
            }
        }
    }

    /// Applies the effects of rules in order, up to one that ends the run. Stops before a rule
    /// whose effect depends on more than the classes, and at the end of `rules`; the error is then
    /// the number of rules that were passed.
    #[inline(always)]
    fn run_rules(
        &self,
        rules: &CachedRules,
        lookup: usize,
        (counters, (len, now)): (&mut [RuleCounters], (u32, u64)),
    ) -> Result<RunEnd, usize> {
        for (passed, &rule) in rules.iter().enumerate() {
            let rule = usize::from(rule);
            // `END_OF_RULES` is the index of no rule, so the loop also stops at it.
            let Some(&effect) = self.effects.get(rule).filter(|_| rule < lookup) else {
                return Err(passed);
            };
            match effect {
                ClassEffect::Open => return Err(passed),
                ClassEffect::Nothing => continue,
                ClassEffect::Count | ClassEffect::Accept | ClassEffect::Deny => {}
            }
            counters[rule].count(1, len.into(), now);
            match effect {
                ClassEffect::Accept => return Ok(RunEnd::Accept),
                ClassEffect::Deny => return Ok(RunEnd::Deny),
                _ => {}
            }
        }
        Err(rules.len())
    }
}
