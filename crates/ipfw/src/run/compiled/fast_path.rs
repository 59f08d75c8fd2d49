//! Runs many packets through the rules, as far as their headers decide.
//!
//! Most rules only test headers, count, and accept or drop the packet. So the packets of a batch
//! first run through such rules in one small loop, until each has a verdict or reaches a rule that
//! needs more. Table lookups of addresses are then done for all packets, and those without a
//! verdict continue with the results. Packets that still have no verdict finish one by one, in
//! their order. This is safe: no effect of a packet in that phase concerns rules that other packets
//! have already passed, and counters can be added in any order.

use super::super::check_buffers::ParsedPacket;
use super::super::interpret::RunEnd;
use super::super::list::RuleCounters;
use super::super::metadata::PacketMetadata;
use super::check::RuleCheck;
use super::flow_cache::{CandidateCursor, FlowCacheKey, MAX_RULES, NO_KEY};
use super::plan::RuleEffect;
use super::program::{CompiledRules, RuleIndex};
use super::walk::{CandidateCaches, PacketState};
use crate::packet::{IpFamily, PacketHeaders};

impl CompiledRules {
    /// Runs packets with the metadata `crossing` through the rules, as far as their headers decide,
    /// and fills in the verdicts that are reached.
    pub(in super::super) fn run_static_rules(
        &self,
        parsed: &mut [ParsedPacket],
        crossing: &PacketMetadata,
        finders: &mut CandidateCaches,
        (counters, now): (&mut [RuleCounters], u64),
        ends: &mut [Option<RunEnd>],
    ) {
        if self.lookups.first_from(0) == 0 {
            // Even the first rule needs more than the headers, so nothing can be decided here.
            return;
        }
        let Some(index) = &self.index else {
            let all = parsed.iter_mut().zip(ends).filter(is_well_formed);
            if let Some(end) = self.rules[0].end_of_all() {
                // The counter is updated once for the whole group. Separate updates would have to
                // wait for each other.
                let (mut packets, mut bytes) = (0, 0);
                for (ParsedPacket { packet, .. }, to) in all {
                    *to = Some(end);
                    packets += 1;
                    bytes += u64::from(packet.counted_len);
                }
                return counters[0].count(packets, bytes, now);
            }
            for (ParsedPacket { packet, state: sight, .. }, end) in all {
                *end = self.fast_path(packet, sight, (counters, now), Some);
            }
            return;
        };
        if self.rules.len() >= MAX_RULES {
            return;
        }
        self.classify_flows(index, parsed, ends, crossing, finders);
        let CandidateCaches { candidates, by_class: memo, by_flow: flows, .. } = finders;
        let all = parsed.iter_mut().zip(ends).filter(|(_, end)| end.is_none());
        for (ParsedPacket { packet, state: sight, .. }, end) in all.filter(is_well_formed) {
            let (flow, mut known) = (sight.flow, sight.candidates);
            if known.is_empty() {
                let mut find = || {
                    sight.classify(index, packet, crossing);
                    self.first_rules(index, &sight.classes, (candidates, memo))
                };
                let rules = if flow == NO_KEY { find() } else { *flows.get_or_insert(flow, find) };
                known = CandidateCursor::of(rules);
            }
            *end = self.fast_path(packet, sight, (counters, now), |at| known.from(at));
            if end.is_none() {
                sight.candidates = known;
            }
        }
    }

    /// Continues, now with table results, with the packets that have no verdict yet.
    pub(in super::super) fn resume_static_rules(
        &self,
        parsed: &mut [ParsedPacket],
        (counters, now): (&mut [RuleCounters], u64),
        ends: &mut [Option<RunEnd>],
    ) {
        let all =
            parsed.iter_mut().zip(ends).filter(|(_, end)| end.is_none()).filter(is_well_formed);
        for (ParsedPacket { packet, state: sight, .. }, end) in all {
            let mut known = sight.candidates;
            let searched = self.index.is_some();
            let next = |at| if searched { known.from(at) } else { Some(at) };
            *end = self.fast_path(packet, sight, (counters, now), next);
            sight.candidates = known;
        }
    }

    /// Looks up the flows of all packets in the cache, unless the cache is not used. Classifies the
    /// packets whose flow was not found, one field at a time, so that memory accesses overlap.
    /// Packets with a verdict or with known candidates need neither.
    fn classify_flows(
        &self,
        index: &RuleIndex,
        parsed: &mut [ParsedPacket],
        ends: &[Option<RunEnd>],
        crossing: &PacketMetadata,
        finders: &mut CandidateCaches,
    ) {
        let is_open = |parsed: &ParsedPacket, end: &Option<RunEnd>| {
            end.is_none() && parsed.state.candidates.is_empty()
        };
        let open = parsed.iter().zip(ends).filter(|(parsed, end)| is_open(parsed, end)).count();
        if open == 0 {
            return;
        }
        let asks_flows = index.is_of_flows && finders.flow_trial.begins(open);
        let mut found = 0;
        for (parsed, end) in parsed.iter_mut().zip(ends) {
            let is_open = is_open(parsed, end);
            let ParsedPacket { packet, state: sight, .. } = parsed;
            sight.flow = if is_open && asks_flows { flow_key(packet, crossing) } else { NO_KEY };
            let is_found = sight.flow != NO_KEY && finders.by_flow.contains(sight.flow);
            sight.is_classified = is_open && !is_found;
            found += usize::from(is_found);
        }
        if asks_flows {
            finders.flow_trial.note(open, found);
        }
        if found == open {
            return;
        }
        for (field, lookup) in index.lookups.iter().enumerate() {
            let unknown = parsed.iter_mut().filter(|parsed| parsed.state.is_classified);
            lookup.classes(
                unknown.map(|parsed| (&parsed.packet, crossing, &mut parsed.state.classes[field])),
            );
        }
        let unknown = parsed.iter().filter(|parsed| parsed.state.is_classified);
        finders.by_class.prefetch(unknown.filter_map(|parsed| index.key(&parsed.state.classes)));
    }

    /// Runs a packet through the rules that its headers and prefetched table results decide.
    /// Returns `None` if the packet reaches a rule that needs other data. `next` returns the next
    /// candidate rule, or `None` if it knows no more candidates; the result is then `None`, too.
    #[inline(always)]
    fn fast_path(
        &self,
        packet: &PacketHeaders,
        sight: &mut PacketState,
        (counters, now): (&mut [RuleCounters], u64),
        mut next: impl FnMut(usize) -> Option<usize>,
    ) -> Option<RunEnd> {
        let mut lookup = self.lookups.first_from(sight.at);
        loop {
            let here = next(sight.at)?;
            if here >= lookup {
                return None;
            }
            let plan = &self.rules[here];
            let checks = &self.checks[plan.checks.start as usize..plan.checks.end as usize];
            let mut after = here + 1;
            if plan.effect != RuleEffect::Nothing
                && RuleCheck::all_hold_for(checks, packet, sight.answers)?
            {
                if plan.effect == RuleEffect::Step {
                    return None;
                }
                counters[here].count(1, packet.counted_len.into(), now);
                match plan.effect {
                    RuleEffect::Accept => return Some(RunEnd::Accept),
                    RuleEffect::Deny => return Some(RunEnd::Deny),
                    RuleEffect::Jump(to) => {
                        after = to as usize;
                        lookup = self.lookups.first_from(after);
                    }
                    RuleEffect::Nothing | RuleEffect::Count | RuleEffect::Step => {}
                }
            }
            sight.at = after;
        }
    }
}

/// Returns whether the headers of the packet are valid.
fn is_well_formed((parsed, _): &(&mut ParsedPacket, &mut Option<RunEnd>)) -> bool {
    parsed.fault.is_none()
}

/// Returns the cache key of an incoming packet's flow; [`NO_KEY`] if the packet is not IPv4. The
/// key contains all values on which the flow's match fields depend.
#[inline(always)]
fn flow_key(packet: &PacketHeaders, crossing: &PacketMetadata) -> FlowCacheKey {
    if packet.version != IpFamily::V4 {
        return NO_KEY;
    }
    let ports = u64::from(packet.src_port) << 16 | u64::from(packet.dst_port);
    let port = u64::from(crossing.recv.unwrap_or(0)) << 48;
    let rest = u64::from(packet.has_ports) << 40 | u64::from(packet.proto) << 32;
    [packet.src as u64 | (packet.dst as u64) << 32, port | rest | ports]
}
