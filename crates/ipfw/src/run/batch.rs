//! Packets that come together through the rules.

use alloc::vec::Vec;

use super::checking::{Case, Parsed};
use super::config::PortId;
use super::crossing::Crossing;
use super::engine::Firewall;
use super::interpret::{Denied, End, Verdict};
use super::reply::Outputs;
use crate::table::Found;

/// Packets of which one field is looked up after the other: so many that none waits for memory
/// that another one needs, so few that they stay in the nearest cache.
const GROUP: usize = Found::MOST;

/// Frames that are checked together, wherever they lie: each is lent for a moment, again and again.
pub trait Frames {
    /// The frame at a place.
    fn frame(&mut self, at: usize) -> &mut [u8];
}

impl<F: AsMut<[u8]>> Frames for [F] {
    #[inline]
    fn frame(&mut self, at: usize) -> &mut [u8] {
        self[at].as_mut()
    }
}

/// What came of frames that were checked together. Its room is used again.
#[derive(Debug, Default)]
pub struct Batch {
    ends: Vec<End>,
    /// Of those that ended otherwise, in their order.
    others: Vec<(Verdict, Crossing)>,
}

/// What to do with a frame that was checked together with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// It passes.
    Accepted,
    /// A rule drops it.
    Denied,
    /// Whatever else, and what is known of the frame now besides its bytes.
    Other(Verdict, Crossing),
}

impl Batch {
    /// Takes out what came of each frame, in their order.
    pub fn drain(&mut self) -> impl Iterator<Item = Checked> + '_ {
        let mut others = self.others.drain(..);
        self.ends.drain(..).map(move |end| match end {
            End::Accept => Checked::Accepted,
            End::Deny => Checked::Denied,
            End::Other => {
                let (verdict, crossing) = others.next().expect("there is one for each such end");
                Checked::Other(verdict, crossing)
            }
        })
    }

    fn clear(&mut self) {
        self.ends.clear();
        self.others.clear();
    }

    fn push(&mut self, verdict: Verdict, crossing: Crossing) {
        let end = match verdict {
            Verdict::Accept => End::Accept,
            Verdict::Deny(Denied::Rule) => End::Deny,
            _ => {
                self.others.push((verdict, crossing));
                End::Other
            }
        };
        self.ends.push(end);
    }
}

impl Firewall {
    /// Does the same as [`Self::check`] with `count` frames that came in by `from` together, in
    /// their order, for less.
    pub fn check_all<F: Frames + ?Sized>(
        &mut self,
        frames: &mut F,
        count: usize,
        (from, now_ns): (PortId, u64),
        outputs: &mut Outputs,
        batch: &mut Batch,
    ) {
        batch.clear();
        if !self.config.settings.enable {
            self.tally_accepted(count);
            batch.ends.resize(count, End::Accept);
            return;
        }
        let mut room = core::mem::take(&mut self.room.group);
        room.resize(GROUP, Parsed::default());
        let crossing = Crossing::incoming(from);
        for first in (0..count).step_by(GROUP) {
            let parsed = &mut room[..GROUP.min(count - first)];
            for (parsed, at) in parsed.iter_mut().zip(first..) {
                let frame = frames.frame(at);
                parsed.fault = parsed.read(frame).err();
                parsed.len = frame.len();
            }
            let mut ends = [None; GROUP];
            let ends = &mut ends[..parsed.len()];
            if let Some(program) = &self.program {
                let counters = (&mut self.config.list.counters[..], now_ns);
                program.lead(parsed, &crossing, &mut self.room.finders, counters, ends);
            }
            if self.settle(ends, batch) {
                continue;
            }
            self.lead_by_tables(parsed, ends, now_ns);
            if self.settle(ends, batch) {
                continue;
            }
            self.bring_near(parsed, ends);
            for ((parsed, &end), at) in parsed.iter_mut().zip(&*ends).zip(first..) {
                if let Some(end) = end {
                    let _ = self.usual(end);
                    batch.ends.push(end);
                    continue;
                }
                let (frame, mut crossing) = (frames.frame(at), Crossing::incoming(from));
                let crossing_mut = &mut crossing;
                let case =
                    Case { parsed, frame, crossing: crossing_mut, now: now_ns, out: outputs };
                let verdict = self.check_parsed(case);
                batch.push(verdict, crossing);
            }
        }
        self.room.group = room;
    }

    /// Takes over how the packets of a group ended, if all of them have.
    fn settle(&mut self, ends: &[Option<End>], batch: &mut Batch) -> bool {
        if ends.iter().any(Option::is_none) {
            return false;
        }
        let accepted = ends.iter().filter(|&&end| end == Some(End::Accept)).count();
        batch.ends.extend(ends.iter().flatten());
        self.tally_accepted(accepted);
        let denied = (ends.len() - accepted) as u64;
        self.drops.checked += denied;
        self.drops.by_rule += denied;
        true
    }

    const fn tally_accepted(&mut self, count: usize) {
        self.drops.checked += count as u64;
        self.drops.accepted += count as u64;
    }

    /// What is left to do for a frame of a group.
    #[inline]
    fn check_parsed(&mut self, mut case: Case<'_>) -> Verdict {
        if let Some(kind) = case.parsed.fault {
            return self.drop_malformed(kind);
        }
        if case.frame.len() != case.parsed.len {
            // Whoever shares the memory has changed it meanwhile: what was read holds no more.
            return self.check(case.frame, case.crossing, case.now, case.out);
        }
        match self.run(&mut case) {
            End::Other => self.otherwise(&mut case),
            end => self.usual(end),
        }
    }

    /// Looks up what rules ask of tables, and leads the packets of a group on with it.
    fn lead_by_tables(&mut self, parsed: &mut [Parsed], ends: &mut [Option<End>], now: u64) {
        let Some(program) = self.program.as_ref().filter(|program| !program.near().is_empty())
        else {
            return;
        };
        let mut answers = [0; GROUP];
        let answers = &mut answers[..parsed.len()];
        let packets = parsed.iter().map(|parsed| &parsed.packet);
        program.near().answer(&self.config, packets, answers);
        for (parsed, &mut answers) in parsed.iter_mut().zip(answers) {
            parsed.sight.answers = Some(answers);
        }
        program.lead_on(parsed, (&mut self.config.list.counters, now), ends);
    }

    /// Brings near the states that rules will ask for. Packets before others may change them, so
    /// the answers are forgotten.
    fn bring_near(&self, parsed: &mut [Parsed], ends: &[Option<End>]) {
        if !self.program.as_ref().is_some_and(|program| program.asks_states()) {
            return;
        }
        // In three goes, so that memory is waited for together.
        for (parsed, _) in parsed.iter_mut().zip(ends).filter(|(_, end)| end.is_none()) {
            parsed.hash = Some(self.states.hash(&parsed.packet.flow()));
        }
        let heads = parsed.iter().filter_map(|parsed| self.states.head(parsed.hash?));
        let mut found = [0; GROUP];
        let known = found.iter_mut().zip(heads).map(|(to, head)| *to = head).count();
        self.states.bring_near(&found[..known]);
    }
}
