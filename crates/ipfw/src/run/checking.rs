//! Packets through the rules.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::compiled::{Finders, Sight};
use super::crossing::Crossing;
use super::engine::Firewall;
use super::interpret::{Denied, End, Run, Verdict};
use super::reply::Outputs;
use super::rewrite;
use super::translate::Fate;
use crate::packet::{Malformed, Packet};
use crate::state::FlowHash;

/// Room for packets, used again and again.
#[derive(Debug, Default)]
pub(super) struct Room {
    pub(super) finders: Finders,
    /// The verdict of a run that ended by [`End::Other`].
    other: Option<Verdict>,
    /// `None` while a packet is checked.
    one: Option<Box<Parsed>>,
    pub(super) group: Vec<Parsed>,
}

/// A packet, and what was looked up for it. It stays where it was read: a copy costs more than
/// some rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Parsed {
    pub(super) packet: Packet,
    pub(super) sight: Sight,
    pub(super) hash: Option<FlowHash>,
    pub(super) fault: Option<Malformed>,
    /// How long the frame was.
    pub(super) len: usize,
}

/// A frame that is checked: all that a check is told, and may change, besides the firewall.
pub(super) struct Case<'c> {
    pub(super) parsed: &'c mut Parsed,
    pub(super) frame: &'c mut [u8],
    pub(super) crossing: &'c mut Crossing,
    pub(super) now: u64,
    pub(super) out: &'c mut Outputs,
}

impl Parsed {
    /// Reads a frame.
    #[inline(always)]
    pub(super) fn read(&mut self, frame: &[u8]) -> Result<(), Malformed> {
        self.hash = None;
        self.sight.forget();
        self.packet.read(frame)
    }
}

impl Firewall {
    /// Says what to do with `frame`, and changes its headers where rules say so. What is to be
    /// sent and logged besides is added to `outputs`.
    pub fn check(
        &mut self,
        frame: &mut [u8],
        crossing: &mut Crossing,
        now_ns: u64,
        outputs: &mut Outputs,
    ) -> Verdict {
        if !self.config.settings.enable {
            return self.accept();
        }
        // Out of the way of the firewall, and put back: one pointer.
        let mut parsed = self.room.one.take().unwrap_or_default();
        if let Err(kind) = parsed.read(frame) {
            self.room.one = Some(parsed);
            return self.drop_malformed(kind);
        }
        let mut case = Case { parsed: &mut parsed, frame, crossing, now: now_ns, out: outputs };
        let end = self.run(&mut case);
        if end == End::Other {
            let verdict = self.otherwise(&mut case);
            self.room.one = Some(parsed);
            return verdict;
        }
        // Before there is a verdict, which would have to be kept meanwhile.
        self.room.one = Some(parsed);
        self.usual(end)
    }

    /// The common verdicts, counted.
    #[inline]
    pub(super) fn usual(&mut self, end: End) -> Verdict {
        if end == End::Accept {
            return self.accept();
        }
        self.drops.checked += 1;
        self.drops.by_rule += 1;
        Verdict::Deny(Denied::Rule)
    }

    #[inline]
    pub(super) fn accept(&mut self) -> Verdict {
        self.drops.checked += 1;
        self.drops.accepted += 1;
        Verdict::Accept
    }

    #[inline(never)]
    pub(super) fn drop_malformed(&mut self, kind: Malformed) -> Verdict {
        let verdict = self.malformed_frame(kind);
        self.drops.count(&verdict);
        verdict
    }

    /// Less common verdicts.
    #[inline(never)]
    pub(super) fn otherwise(&mut self, case: &mut Case<'_>) -> Verdict {
        let verdict = self.other();
        let mut verdict = self.translated(verdict, case);
        if verdict == Verdict::Held {
            verdict = self.fragment(case);
        }
        self.drops.count(&verdict);
        verdict
    }

    /// Takes a packet through translators until it has another verdict.
    fn translated(&mut self, mut verdict: Verdict, case: &mut Case<'_>) -> Verdict {
        loop {
            if !matches!(verdict, Verdict::Nat(_) | Verdict::Nptv6(_)) {
                return verdict;
            }
            let packet = (&mut *case.frame, &case.parsed.packet);
            let fate = self.translate(&verdict, packet, case.crossing.pass, case.now);
            if fate == Fate::Dropped {
                return Verdict::Deny(Denied::Translation);
            }
            if fate == Fate::Translated && self.config.settings.one_pass {
                case.crossing.resume = None;
                return Verdict::Accept;
            }
            verdict = self.again(case);
        }
    }

    /// A packet that has changed goes on behind the rule that changed it.
    fn again(&mut self, case: &mut Case<'_>) -> Verdict {
        let flow = case.parsed.packet.flow();
        if let Err(kind) = case.parsed.read(case.frame) {
            return self.malformed_frame(kind);
        }
        if case.parsed.packet.flow() != flow && case.crossing.search.flow_change_is_too_many() {
            return Verdict::Deny(Denied::CallLoop);
        }
        match self.run(case) {
            End::Accept => Verdict::Accept,
            End::Deny => Verdict::Deny(Denied::Rule),
            End::Other => self.other(),
        }
    }

    fn other(&mut self) -> Verdict {
        self.room.other.take().expect("a run that ends otherwise says how")
    }

    /// Keeps a fragment, or goes on with the packet that it completes.
    fn fragment(&mut self, case: &mut Case<'_>) -> Verdict {
        // Rules before this one may have changed the frame: what waits is the frame as it is now.
        let offered = self.reassembly.offer(case.frame, &case.parsed.packet, case.now);
        let Some(mut whole) = offered else { return Verdict::Held };
        let before = case.out.released.len();
        case.out.released.append(&mut whole.earlier);
        if self.config.settings.one_pass {
            case.crossing.resume = None;
            case.out.whole = Some(whole.frame);
            return Verdict::Accept;
        }
        let Case { parsed, crossing, now, out, .. } = case;
        let mut of_whole = Case { parsed, frame: &mut whole.frame, crossing, now: *now, out };
        let verdict = self.again(&mut of_whole);
        let verdict = self.translated(verdict, &mut of_whole);
        let parts = case.out.released[before..].iter_mut().map(Vec::as_mut_slice);
        parts_take_over(parts.chain([&mut *case.frame]), &whole.frame);
        case.out.whole = Some(whole.frame);
        verdict
    }

    /// Says what to do with a packet that was put together, and so with its fragments, which
    /// take over what changes in its headers.
    pub fn check_whole(
        &mut self,
        whole: &mut [u8],
        parts: &mut [Vec<u8>],
        crossing: &mut Crossing,
        now_ns: u64,
        outputs: &mut Outputs,
    ) -> Verdict {
        let verdict = self.check(whole, crossing, now_ns, outputs);
        parts_take_over(parts.iter_mut().map(Vec::as_mut_slice), whole);
        verdict
    }

    fn malformed_frame(&mut self, kind: Malformed) -> Verdict {
        self.malformed.count(kind);
        Verdict::Deny(Denied::Malformed(kind))
    }

    /// A packet through the list.
    #[inline]
    pub(super) fn run(&mut self, case: &mut Case<'_>) -> End {
        // Counters leave the list for the run, so that rules can be read while they change.
        let mut counters = core::mem::take(&mut self.config.list.counters);
        let Parsed { packet, sight, hash, .. } = &mut *case.parsed;
        let Room { finders, other, .. } = &mut self.room;
        let mut run = Run {
            config: &self.config,
            counters: &mut counters,
            entries: &self.config.list.entries,
            states: &mut self.states,
            draws: &mut self.draws,
            frame: case.frame,
            packet,
            crossing: case.crossing,
            now: case.now,
            out: case.out,
            other,
            hash,
        };
        let end = match &self.program {
            Some(program) => run.searched(program, sight, finders),
            None => run.plain(),
        };
        self.config.list.counters = counters;
        end
    }
}

fn parts_take_over<'p>(parts: impl Iterator<Item = &'p mut [u8]>, whole: &[u8]) {
    if let Ok(after) = Packet::parse(whole) {
        for part in parts {
            // A part without a header of the transport layer has none to take over.
            let _ = rewrite::take_over(part, (whole, &after));
        }
    }
}
