//! Many packets, as far as headers lead them.
//!
//! Most rules only ask what headers say, count, and end a packet's way or do not. So packets that
//! come together are led through such rules first, in one small loop, until each has ended or
//! stands before a rule that wants more. What tables say of addresses is looked up for all of them,
//! and leads them further; those that stand before a state or a change go on one by one, in their
//! order. Nothing that they do can change what was left to the others, and counters add up
//! in any order.

use super::super::checking::Parsed;
use super::super::crossing::Crossing;
use super::super::interpret::End;
use super::super::list::Counters;
use super::check::Check;
use super::memo::{Key, Known, MAX_RULES, NO_KEY};
use super::plan::Does;
use super::program::{Index, Program};
use super::walk::{Finders, Sight};
use crate::packet::{Packet, Version};

impl Program {
    /// Leads packets that came in together, as `crossing` says; how each way has ended, if it has.
    pub(in super::super) fn lead(
        &self,
        parsed: &mut [Parsed],
        crossing: &Crossing,
        finders: &mut Finders,
        (counters, now): (&mut [Counters], u64),
        ends: &mut [Option<End>],
    ) {
        if self.lookups.first_from(0) == 0 {
            // No header leads a packet further than the first rule.
            return;
        }
        let Some(index) = &self.index else {
            let all = parsed.iter_mut().zip(ends).filter(is_sound);
            if let Some(end) = self.plans[0].end_of_all() {
                // One count for the whole group, whose packets otherwise wait for each other to
                // count.
                let (mut packets, mut bytes) = (0, 0);
                for (Parsed { packet, .. }, to) in all {
                    *to = Some(end);
                    packets += 1;
                    bytes += u64::from(packet.counted_len);
                }
                return counters[0].count(packets, bytes, now);
            }
            for (Parsed { packet, sight, .. }, end) in all {
                *end = self.swift(packet, sight, (counters, now), Some);
            }
            return;
        };
        if self.plans.len() >= MAX_RULES {
            return;
        }
        self.look_up(index, parsed, crossing, finders);
        let Finders { candidates, memo, flows } = finders;
        let all = parsed.iter_mut().zip(ends).filter(is_sound);
        for (Parsed { packet, sight, .. }, end) in all {
            let flow = sight.flow;
            let mut find = || {
                sight.classify(index, packet, crossing);
                self.first_rules(index, &sight.classes, (candidates, memo))
            };
            let rules = if flow == NO_KEY { find() } else { *flows.recall(flow, find) };
            let mut known = Known::of(rules);
            *end = self.swift(packet, sight, (counters, now), |at| known.from(at));
            if end.is_none() {
                sight.known = known;
            }
        }
    }

    /// Leads packets on that have answers now.
    pub(in super::super) fn lead_on(
        &self,
        parsed: &mut [Parsed],
        (counters, now): (&mut [Counters], u64),
        ends: &mut [Option<End>],
    ) {
        let all = parsed.iter_mut().zip(ends).filter(|(_, end)| end.is_none()).filter(is_sound);
        for (Parsed { packet, sight, .. }, end) in all {
            let mut known = sight.known;
            let searched = self.index.is_some();
            let next = |at| if searched { known.from(at) } else { Some(at) };
            *end = self.swift(packet, sight, (counters, now), next);
            sight.known = known;
        }
    }

    /// Finds out what flows are known, and the classes of all others: field after field, so that
    /// none waits for memory that another one needs.
    fn look_up(
        &self,
        index: &Index,
        parsed: &mut [Parsed],
        crossing: &Crossing,
        finders: &Finders,
    ) {
        let mut all_known = true;
        for Parsed { packet, sight, .. } in &mut *parsed {
            sight.flow = if index.is_of_flows { flow_key(packet, crossing) } else { NO_KEY };
            sight.is_classified = sight.flow == NO_KEY || !finders.flows.knows(sight.flow);
            all_known &= !sight.is_classified;
        }
        if all_known {
            return;
        }
        for (field, lookup) in index.lookups.iter().enumerate() {
            let unknown = parsed.iter_mut().filter(|parsed| parsed.sight.is_classified);
            lookup.classes(
                unknown.map(|parsed| (&parsed.packet, crossing, &mut parsed.sight.classes[field])),
            );
        }
        let unknown = parsed.iter().filter(|parsed| parsed.sight.is_classified);
        finders.memo.bring_near(unknown.filter_map(|parsed| index.key(&parsed.sight.classes)));
    }

    /// A packet's way as far as headers lead; `next` knows the next candidate, or that more has to
    /// be asked.
    #[inline(always)]
    fn swift(
        &self,
        packet: &Packet,
        sight: &mut Sight,
        (counters, now): (&mut [Counters], u64),
        mut next: impl FnMut(usize) -> Option<usize>,
    ) -> Option<End> {
        let mut lookup = self.lookups.first_from(sight.at);
        loop {
            let here = next(sight.at)?;
            if here >= lookup {
                return None;
            }
            let plan = &self.plans[here];
            let checks = &self.checks[plan.checks.start as usize..plan.checks.end as usize];
            let mut after = here + 1;
            if plan.does != Does::Nothing && Check::all_hold_for(checks, packet, sight.answers)? {
                if plan.does == Does::Step {
                    return None;
                }
                counters[here].count(1, packet.counted_len.into(), now);
                match plan.does {
                    Does::Accept => return Some(End::Accept),
                    Does::Deny => return Some(End::Deny),
                    Does::Jump(to) => {
                        after = to as usize;
                        lookup = self.lookups.first_from(after);
                    }
                    Does::Nothing | Does::Count | Does::Step => {}
                }
            }
            sight.at = after;
        }
    }
}

/// Its headers can be believed.
fn is_sound((parsed, _): &(&mut Parsed, &mut Option<End>)) -> bool {
    parsed.fault.is_none()
}

/// What tells a flow that came in from all others, with what the fields of flows may be asked for.
#[inline(always)]
fn flow_key(packet: &Packet, crossing: &Crossing) -> Key {
    if packet.version != Version::V4 {
        return NO_KEY;
    }
    let ports = u64::from(packet.src_port) << 16 | u64::from(packet.dst_port);
    let port = u64::from(crossing.recv.unwrap_or(0)) << 48;
    let rest = u64::from(packet.has_ports) << 40 | u64::from(packet.proto) << 32;
    [packet.src as u64 | (packet.dst as u64) << 32, port | rest | ports]
}
