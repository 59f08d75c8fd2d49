//! Batches of packets through the rules.

use alloc::vec::Vec;

use super::check_buffers::{CheckBuffers, ParsedPacket};
use super::checking::PacketCheck;
use super::config::PortIndex;
use super::engine::Firewall;
use super::interpret::{DenyReason, RuleVerdict, RunEnd};
use super::metadata::PacketMetadata;
use super::reply::CheckOutputs;
use crate::table::FoundValues;

/// Packets per group. A field is looked up for all packets of a group before the next field is. The
/// group is large enough that memory accesses overlap, and small enough that it stays in the L1
/// cache.
const GROUP_PACKETS: usize = FoundValues::MAX_LOOKUPS;

/// Frames that are checked together. They may be stored anywhere: the engine borrows each frame
/// briefly, and more than once.
pub trait FrameBatch {
    /// Returns the frame at an index.
    fn frame(&mut self, at: usize) -> &mut [u8];
}

impl<F: AsMut<[u8]>> FrameBatch for [F] {
    #[inline]
    fn frame(&mut self, at: usize) -> &mut [u8] {
        self[at].as_mut()
    }
}

/// The results of frames that were checked together. The buffers are reused.
#[derive(Debug, Default)]
pub struct CheckedBatch {
    ends: Vec<RunEnd>,
    /// Verdicts and metadata of the frames that were neither accepted nor denied by a rule, in the
    /// order of the frames.
    other_verdicts: Vec<(RuleVerdict, PacketMetadata)>,
}

/// The result of the check for one frame of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The frame passes.
    Accepted,
    /// A rule drops the frame.
    Denied,
    /// Any other verdict, and the metadata of the frame.
    Other(RuleVerdict, PacketMetadata),
}

impl CheckedBatch {
    /// Removes and returns the results, in the order of the frames.
    pub fn drain(&mut self) -> impl Iterator<Item = CheckResult> + '_ {
        let mut others = self.other_verdicts.drain(..);
        self.ends.drain(..).map(move |end| match end {
            RunEnd::Accept => CheckResult::Accepted,
            RunEnd::Deny => CheckResult::Denied,
            RunEnd::Other => {
                let (verdict, crossing) = others.next().expect("there is one for each such end");
                CheckResult::Other(verdict, crossing)
            }
        })
    }

    /// Returns whether all frames pass.
    #[must_use]
    pub fn is_all_accepted(&self) -> bool {
        // Without a branch for each frame, so that many frames are compared at once.
        self.ends.iter().fold(true, |all, &end| all & (end == RunEnd::Accept))
    }

    fn clear(&mut self) {
        self.ends.clear();
        self.other_verdicts.clear();
    }

    fn push(&mut self, verdict: RuleVerdict, crossing: PacketMetadata) {
        let end = match verdict {
            RuleVerdict::Accept => RunEnd::Accept,
            RuleVerdict::Deny(DenyReason::Rule) => RunEnd::Deny,
            _ => {
                self.other_verdicts.push((verdict, crossing));
                RunEnd::Other
            }
        };
        self.ends.push(end);
    }
}

impl Firewall {
    /// Does the same as [`Self::check`] for `count` frames that arrived together at port `from`, in
    /// their order. This costs less than checking them one by one.
    pub fn check_all<F: FrameBatch + ?Sized>(
        &mut self,
        frames: &mut F,
        count: usize,
        (from, now_ns): (PortIndex, u64),
        outputs: &mut CheckOutputs,
        batch: &mut CheckedBatch,
    ) {
        batch.clear();
        if !self.config.settings.enable {
            self.count_accepted(count);
            batch.ends.resize(count, RunEnd::Accept);
            return;
        }
        let mut room = core::mem::take(&mut self.buffers.group);
        room.resize(GROUP_PACKETS, ParsedPacket::default());
        let crossing = PacketMetadata::incoming(from);
        for first in (0..count).step_by(GROUP_PACKETS) {
            let parsed = &mut room[..GROUP_PACKETS.min(count - first)];
            let mut ends = [None; GROUP_PACKETS];
            let ends = &mut ends[..parsed.len()];
            self.run_by_class((frames, first), &crossing, now_ns, parsed, ends);
            if self.take_ends(ends, batch) {
                continue;
            }
            for ((parsed, _), at) in
                parsed.iter_mut().zip(&*ends).zip(first..).filter(|((_, end), _)| end.is_none())
            {
                parsed.read_headers(frames.frame(at));
            }
            if let Some(program) = &self.program {
                let counters = (&mut self.config.list.counters[..], now_ns);
                program.run_static_rules(
                    parsed,
                    &crossing,
                    &mut self.buffers.finders,
                    counters,
                    ends,
                );
            }
            if self.take_ends(ends, batch) {
                continue;
            }
            self.run_table_rules(parsed, ends, now_ns);
            if self.take_ends(ends, batch) {
                continue;
            }
            self.prefetch_states(parsed, ends);
            for ((parsed, &end), at) in parsed.iter_mut().zip(&*ends).zip(first..) {
                if let Some(end) = end {
                    let _ = self.common_verdict(end);
                    batch.ends.push(end);
                    continue;
                }
                let (frame, mut crossing) = (frames.frame(at), PacketMetadata::incoming(from));
                let crossing_mut = &mut crossing;
                let case = PacketCheck {
                    parsed,
                    frame,
                    crossing: crossing_mut,
                    now: now_ns,
                    out: outputs,
                };
                let verdict = self.check_parsed(case);
                batch.push(verdict, crossing);
            }
        }
        self.buffers.group = room;
    }

    /// Runs the packets of a group, whose first frame has the index `first`, through the rules as
    /// far as their classes decide. For each packet that then has no verdict, sets
    /// [`ParsedPacket::state`] so that the packet continues at the rule that it has reached.
    fn run_by_class<F: FrameBatch + ?Sized>(
        &mut self,
        (frames, first): (&mut F, usize),
        crossing: &PacketMetadata,
        now: u64,
        parsed: &mut [ParsedPacket],
        ends: &mut [Option<RunEnd>],
    ) {
        let Some(program) = self.program.as_ref().filter(|program| program.runs_by_class()) else {
            return parsed.iter_mut().for_each(|parsed| parsed.state.reset());
        };
        let CheckBuffers { finders, by_class: group, .. } = &mut self.buffers;
        group.clear();
        for (at, parsed) in parsed.iter_mut().enumerate() {
            if !group.push(at, frames.frame(first + at)) {
                parsed.state.reset();
            }
        }
        let counters = (&mut self.config.list.counters[..], now);
        program.run_by_class(group, crossing, finders, counters, parsed, ends);
    }

    /// Adds the results of a group to `batch` if every packet of the group has a verdict; returns
    /// whether this is so.
    fn take_ends(&mut self, ends: &[Option<RunEnd>], batch: &mut CheckedBatch) -> bool {
        if ends.iter().any(Option::is_none) {
            return false;
        }
        let accepted = ends.iter().filter(|&&end| end == Some(RunEnd::Accept)).count();
        // `Other` is never used: each packet has a verdict.
        batch.ends.extend(ends.iter().map(|end| end.unwrap_or(RunEnd::Other)));
        self.count_accepted(accepted);
        let denied = (ends.len() - accepted) as u64;
        self.drops.checked += denied;
        self.drops.by_rule += denied;
        true
    }

    const fn count_accepted(&mut self, count: usize) {
        self.drops.checked += count as u64;
        self.drops.accepted += count as u64;
    }

    /// Finishes the check of one frame of a group, whose headers are already parsed. Returns the
    /// verdict.
    #[inline]
    fn check_parsed(&mut self, mut case: PacketCheck<'_>) -> RuleVerdict {
        if let Some(kind) = case.parsed.fault {
            return self.drop_malformed(kind);
        }
        if case.frame.len() != case.parsed.len {
            // The owner of the memory has changed the frame since it was parsed, so the parsed
            // headers are outdated.
            return self.check(case.frame, case.crossing, case.now, case.out);
        }
        match self.run(&mut case) {
            RunEnd::Other => self.uncommon_verdict(&mut case),
            end => self.common_verdict(end),
        }
    }

    /// Does the prefetched table lookups for all packets of a group. Then runs further static
    /// rules, with the results, on the packets that have no verdict yet.
    fn run_table_rules(
        &mut self,
        parsed: &mut [ParsedPacket],
        ends: &mut [Option<RunEnd>],
        now: u64,
    ) {
        let Some(program) =
            self.program.as_ref().filter(|program| !program.table_prefetch().is_empty())
        else {
            return;
        };
        let mut answers = [0; GROUP_PACKETS];
        let answers = &mut answers[..parsed.len()];
        let packets = parsed.iter().map(|parsed| &parsed.packet);
        program.table_prefetch().look_up_all(&self.config, packets, answers);
        for (parsed, &mut answers) in parsed.iter_mut().zip(answers) {
            parsed.state.answers = Some(answers);
        }
        program.resume_static_rules(parsed, (&mut self.config.list.counters, now), ends);
    }

    /// Prefetches the states that rules will look up. Earlier packets may still change these
    /// states, so the lookups are repeated later.
    fn prefetch_states(&self, parsed: &mut [ParsedPacket], ends: &[Option<RunEnd>]) {
        if !self.program.as_ref().is_some_and(|program| program.asks_states()) {
            return;
        }
        // The prefetch has three passes, so that memory accesses overlap.
        for (parsed, _) in parsed.iter_mut().zip(ends).filter(|(_, end)| end.is_none()) {
            parsed.hash = Some(self.states.hash(&parsed.packet.flow()));
        }
        let heads = parsed.iter().filter_map(|parsed| self.states.head(parsed.hash?));
        let mut found = [0; GROUP_PACKETS];
        let known = found.iter_mut().zip(heads).map(|(to, head)| *to = head).count();
        self.states.prefetch(&found[..known]);
    }
}
