//! Checks single packets against the rules.

use alloc::vec::Vec;

use super::check_buffers::{CheckBuffers, ParsedPacket};
use super::engine::Firewall;
use super::interpret::{DenyReason, RuleRun, RuleVerdict, RunEnd};
use super::metadata::PacketMetadata;
use super::reply::CheckOutputs;
use super::rewrite;
use super::translate::TranslationOutcome;
use crate::packet::{MalformedReason, PacketHeaders};

/// A frame that is being checked, with all other data that a check reads or changes, except for the
/// firewall.
pub(super) struct PacketCheck<'c> {
    pub(super) parsed: &'c mut ParsedPacket,
    pub(super) frame: &'c mut [u8],
    pub(super) crossing: &'c mut PacketMetadata,
    pub(super) now: u64,
    pub(super) out: &'c mut CheckOutputs,
}

impl Firewall {
    /// Checks `frame` against the rules, and changes its headers as rules require. Returns the
    /// verdict. Adds frames to send, released fragments and lines to log to `outputs`.
    pub fn check(
        &mut self,
        frame: &mut [u8],
        crossing: &mut PacketMetadata,
        now_ns: u64,
        outputs: &mut CheckOutputs,
    ) -> RuleVerdict {
        if !self.config.settings.enable {
            return self.accept();
        }
        // The buffer is moved out for the check, so that it does not keep the firewall borrowed.
        // This moves only one pointer.
        let mut parsed = self.buffers.one.take().unwrap_or_default();
        if let Err(kind) = parsed.read(frame) {
            self.buffers.one = Some(parsed);
            return self.drop_malformed(kind);
        }
        let mut case =
            PacketCheck { parsed: &mut parsed, frame, crossing, now: now_ns, out: outputs };
        let end = self.run(&mut case);
        if end == RunEnd::Other {
            let verdict = self.uncommon_verdict(&mut case);
            self.buffers.one = Some(parsed);
            return verdict;
        }
        // The buffer is moved back before the verdict is created. Otherwise the compiler would keep
        // the verdict in memory across this store.
        self.buffers.one = Some(parsed);
        self.common_verdict(end)
    }

    /// Counts the packet, whose run has ended with one of the common verdicts, and returns this
    /// verdict.
    #[inline]
    pub(super) fn common_verdict(&mut self, end: RunEnd) -> RuleVerdict {
        if end == RunEnd::Accept {
            return self.accept();
        }
        self.drops.checked += 1;
        self.drops.by_rule += 1;
        RuleVerdict::Deny(DenyReason::Rule)
    }

    #[inline]
    pub(super) fn accept(&mut self) -> RuleVerdict {
        self.drops.checked += 1;
        self.drops.accepted += 1;
        RuleVerdict::Accept
    }

    #[inline(never)]
    pub(super) fn drop_malformed(&mut self, kind: MalformedReason) -> RuleVerdict {
        let verdict = self.malformed_frame(kind);
        self.drops.count(&verdict);
        verdict
    }

    /// Handles the less common verdicts: executes translation and reassembly, counts the packet,
    /// and returns its final verdict.
    #[inline(never)]
    pub(super) fn uncommon_verdict(&mut self, case: &mut PacketCheck<'_>) -> RuleVerdict {
        let verdict = self.take_other_verdict();
        let mut verdict = self.run_translators(verdict, case);
        if verdict == RuleVerdict::Held {
            verdict = self.reassemble_fragment(case);
        }
        self.drops.count(&verdict);
        verdict
    }

    /// As long as the verdict on a packet is to translate it, translates it and continues with the
    /// rules. Returns the first other verdict, `Deny` if a translator drops the packet, or `Accept`
    /// after a translation with `one_pass`.
    fn run_translators(
        &mut self,
        mut verdict: RuleVerdict,
        case: &mut PacketCheck<'_>,
    ) -> RuleVerdict {
        loop {
            if !matches!(verdict, RuleVerdict::Nat(_) | RuleVerdict::Nptv6(_)) {
                return verdict;
            }
            let packet = (&mut *case.frame, &case.parsed.packet);
            let fate = self.translate(&verdict, packet, case.crossing.pass, case.now);
            if fate == TranslationOutcome::Dropped {
                return RuleVerdict::Deny(DenyReason::Translation);
            }
            if fate == TranslationOutcome::Translated && self.config.settings.one_pass {
                case.crossing.resume = None;
                return RuleVerdict::Accept;
            }
            verdict = self.resume_rules(case);
        }
    }

    /// Parses the packet again, because translation or reassembly may have changed it. Continues
    /// after the rule that translated or reassembled it; returns the next verdict.
    fn resume_rules(&mut self, case: &mut PacketCheck<'_>) -> RuleVerdict {
        let flow = case.parsed.packet.flow();
        if let Err(kind) = case.parsed.read(case.frame) {
            return self.malformed_frame(kind);
        }
        if case.parsed.packet.flow() != flow && case.crossing.search.flow_change_is_too_many() {
            return RuleVerdict::Deny(DenyReason::CallLoop);
        }
        match self.run(case) {
            RunEnd::Accept => RuleVerdict::Accept,
            RunEnd::Deny => RuleVerdict::Deny(DenyReason::Rule),
            RunEnd::Other => self.take_other_verdict(),
        }
    }

    fn take_other_verdict(&mut self) -> RuleVerdict {
        self.buffers.other.take().expect("a run that ends otherwise says how")
    }

    /// Passes a fragment to the reassembly. If this completes a packet, continues with the packet
    /// and returns its verdict, which is also that of the fragment. Otherwise returns `Held`.
    fn reassemble_fragment(&mut self, case: &mut PacketCheck<'_>) -> RuleVerdict {
        // The reassembly gets the frame in its current form, with the changes of earlier rules.
        let offered = self.reassembly.offer(case.frame, &case.parsed.packet, case.now);
        let Some(mut whole) = offered else { return RuleVerdict::Held };
        let before = case.out.released.len();
        case.out.released.append(&mut whole.earlier);
        if self.config.settings.one_pass {
            case.crossing.resume = None;
            case.out.whole = Some(whole.frame);
            return RuleVerdict::Accept;
        }
        let PacketCheck { parsed, crossing, now, out, .. } = case;
        let mut of_whole =
            PacketCheck { parsed, frame: &mut whole.frame, crossing, now: *now, out };
        let verdict = self.resume_rules(&mut of_whole);
        let verdict = self.run_translators(verdict, &mut of_whole);
        let parts = case.out.released[before..].iter_mut().map(Vec::as_mut_slice);
        apply_to_fragments(parts.chain([&mut *case.frame]), &whole.frame);
        case.out.whole = Some(whole.frame);
        verdict
    }

    /// Checks a reassembled packet. If rules change the packet, copies the changes into its
    /// fragments, `parts`. Returns the verdict, which is that of all fragments.
    pub fn check_whole(
        &mut self,
        whole: &mut [u8],
        parts: &mut [Vec<u8>],
        crossing: &mut PacketMetadata,
        now_ns: u64,
        outputs: &mut CheckOutputs,
    ) -> RuleVerdict {
        let verdict = self.check(whole, crossing, now_ns, outputs);
        apply_to_fragments(parts.iter_mut().map(Vec::as_mut_slice), whole);
        verdict
    }

    fn malformed_frame(&mut self, kind: MalformedReason) -> RuleVerdict {
        self.malformed.count(kind);
        RuleVerdict::Deny(DenyReason::Malformed(kind))
    }

    /// Runs a packet through the list of rules. Returns how the run ends.
    #[inline]
    pub(super) fn run(&mut self, case: &mut PacketCheck<'_>) -> RunEnd {
        // The counters are moved out of the list for the run, so that they can be changed while the
        // rules are borrowed.
        let mut counters = core::mem::take(&mut self.config.list.counters);
        let ParsedPacket { packet, state: sight, hash, .. } = &mut *case.parsed;
        let CheckBuffers { finders, other, .. } = &mut self.buffers;
        let mut run = RuleRun {
            config: &self.config,
            counters: &mut counters,
            entries: &self.config.list.entries,
            states: &mut self.states,
            resources: &mut self.resources,
            frame: case.frame,
            packet,
            crossing: case.crossing,
            now: case.now,
            out: case.out,
            other,
            hash,
        };
        let end = match &self.program {
            Some(program) => run.run_indexed(program, sight, finders),
            None => run.plain(),
        };
        self.config.list.counters = counters;
        end
    }
}

fn apply_to_fragments<'p>(parts: impl Iterator<Item = &'p mut [u8]>, whole: &[u8]) {
    if let Ok(after) = PacketHeaders::parse(whole) {
        for part in parts {
            // A failure is ignored: the fragment then keeps its addresses and payload.
            let _ = rewrite::copy_rewritten_fields(part, (whole, &after));
        }
    }
}
