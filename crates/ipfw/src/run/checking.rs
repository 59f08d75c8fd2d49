//! Packets through the rules, one by one or many at once.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::compiled::{Candidates, Classes};
use super::crossing::Crossing;
use super::engine::Firewall;
use super::interpret::{Denied, End, Run, Verdict};
use super::reply::Outputs;
use super::rewrite;
use super::translate::Fate;
use crate::packet::{Malformed, Packet, Version};
use crate::state::FlowHash;

/// Packets of which one field is looked up after the other: so many that none waits for memory
/// that another one needs, so few that they stay in the nearest cache.
const GROUP: usize = 32;

/// Most translators that one packet meets: more than any list that does not go round by calls.
const MAX_TRANSLATIONS: u32 = 256;

/// A frame to be checked together with others, and what came of it.
#[derive(Debug)]
pub struct Checked<'f> {
    /// The frame; rules may change its headers.
    pub frame: &'f mut [u8],
    /// What else is known of it.
    pub crossing: Crossing,
    /// What to do with it.
    pub verdict: Verdict,
}

impl<'f> Checked<'f> {
    /// A frame that is still to be checked.
    #[must_use]
    pub const fn new(frame: &'f mut [u8], crossing: Crossing) -> Self {
        Self { frame, crossing, verdict: Verdict::Deny(Denied::Rule) }
    }
}

/// Room for packets, used again and again.
#[derive(Debug, Default)]
pub(super) struct Room {
    candidates: Candidates,
    /// The verdict of a run that ended by [`End::Other`].
    other: Option<Verdict>,
    /// `None` while a packet is checked.
    one: Option<Box<Parsed>>,
    group: Vec<Parsed>,
}

/// A packet, and what was looked up for it. It stays where it was read: a copy costs more than
/// some rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Parsed {
    pub(super) packet: Packet,
    pub(super) classes: Classes,
    hash: Option<FlowHash>,
    fault: Option<Malformed>,
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
        if let Err(kind) = parsed.packet.read(frame) {
            self.room.one = Some(parsed);
            return self.drop_malformed(kind);
        }
        parsed.hash = None;
        if let Some(program) = &self.program {
            program.classes(&parsed.packet, crossing, &mut parsed.classes);
        }
        let end = self.run(&mut parsed, frame, crossing, now_ns, outputs);
        if end == End::Other {
            let verdict = self.otherwise(&mut parsed, frame, crossing, now_ns, outputs);
            self.room.one = Some(parsed);
            return verdict;
        }
        // Before there is a verdict, which would have to be kept meanwhile.
        self.room.one = Some(parsed);
        self.usual(end)
    }

    /// Does the same with many frames, in their order, for less.
    pub fn check_all(&mut self, batch: &mut [Checked<'_>], now_ns: u64, outputs: &mut Outputs) {
        let mut room = core::mem::take(&mut self.room.group);
        room.resize(GROUP, Parsed::default());
        for group in batch.chunks_mut(GROUP) {
            let parsed = &mut room[..group.len()];
            self.look_up(group, parsed);
            self.bring_near(parsed);
            for (checked, parsed) in group.iter_mut().zip(parsed) {
                checked.verdict = match parsed.fault {
                    _ if !self.config.settings.enable => self.accept(),
                    Some(kind) => self.drop_malformed(kind),
                    None => {
                        let Checked { frame, crossing, .. } = checked;
                        match self.run(parsed, frame, crossing, now_ns, outputs) {
                            End::Other => self.otherwise(parsed, frame, crossing, now_ns, outputs),
                            end => self.usual(end),
                        }
                    }
                };
            }
        }
        self.room.group = room;
    }

    /// Reads the frames of a group, then looks up field after field. Neither depends on what the
    /// rules do to frames before.
    fn look_up(&self, group: &[Checked<'_>], parsed: &mut [Parsed]) {
        for (checked, parsed) in group.iter().zip(&mut *parsed) {
            parsed.fault = parsed.packet.read(checked.frame).err();
            parsed.hash = None;
        }
        if let Some(program) = &self.program {
            let crossings = || group.iter().map(|checked| &checked.crossing);
            program.classes_of_all(parsed, crossings);
        }
    }

    /// Brings near what rules will ask of tables and states for the packets of a group. Packets
    /// before them may change states, so the answers are forgotten.
    fn bring_near(&self, parsed: &mut [Parsed]) {
        let Some(program) = &self.program else { return };
        for near in program.near_tables() {
            let Some(table) = self.config.table(near.set, near.name.as_str()) else { continue };
            let addresses = |version: Version| {
                let packets = parsed.iter().map(|parsed| &parsed.packet);
                let address = |packet: &Packet| if near.of_dst { packet.dst } else { packet.src };
                packets.filter(move |packet| packet.version == version).map(address)
            };
            let (mut v4, mut v6) = ([0; GROUP], [0; GROUP]);
            let narrow = fill(&mut v4, addresses(Version::V4).map(|address| address as u32));
            let wide = fill(&mut v6, addresses(Version::V6));
            table.bring_near(&v4[..narrow], &v6[..wide]);
        }
        if program.asks_states() {
            // In three goes, so that memory is waited for together.
            for parsed in &mut *parsed {
                parsed.hash = Some(self.states.hash(&parsed.packet.flow()));
            }
            let heads = parsed.iter().filter_map(|parsed| self.states.head(parsed.hash?));
            let mut found = [0; GROUP];
            let known = found.iter_mut().zip(heads).map(|(to, head)| *to = head).count();
            self.states.bring_near(&found[..known]);
        }
    }

    /// The common verdicts, counted.
    #[inline]
    fn usual(&mut self, end: End) -> Verdict {
        if end == End::Accept {
            return self.accept();
        }
        self.drops.checked += 1;
        self.drops.by_rule += 1;
        Verdict::Deny(Denied::Rule)
    }

    #[inline]
    fn accept(&mut self) -> Verdict {
        self.drops.checked += 1;
        self.drops.accepted += 1;
        Verdict::Accept
    }

    #[inline(never)]
    fn drop_malformed(&mut self, kind: Malformed) -> Verdict {
        let verdict = self.malformed_frame(kind);
        self.drops.count(&verdict);
        verdict
    }

    /// Less common verdicts.
    #[inline(never)]
    fn otherwise(
        &mut self,
        parsed: &mut Parsed,
        frame: &mut [u8],
        crossing: &mut Crossing,
        now: u64,
        out: &mut Outputs,
    ) -> Verdict {
        let verdict = self.other();
        let mut verdict = self.translated(verdict, parsed, frame, crossing, now, out);
        if verdict == Verdict::Held {
            verdict = self.fragment(parsed, frame, crossing, now, out);
        }
        self.drops.count(&verdict);
        verdict
    }

    /// Takes a packet through translators until it has another verdict.
    fn translated(
        &mut self,
        mut verdict: Verdict,
        parsed: &mut Parsed,
        frame: &mut [u8],
        crossing: &mut Crossing,
        now: u64,
        out: &mut Outputs,
    ) -> Verdict {
        for _ in 0..MAX_TRANSLATIONS {
            if !matches!(verdict, Verdict::Nat(_) | Verdict::Nptv6(_)) {
                return verdict;
            }
            let fate = self.translate(&verdict, (frame, &parsed.packet), crossing.pass, now);
            if fate == Fate::Dropped {
                return Verdict::Deny(Denied::Translation);
            }
            if fate == Fate::Translated && self.config.settings.one_pass {
                crossing.resume = None;
                return Verdict::Accept;
            }
            verdict = self.again(parsed, frame, crossing, now, out);
        }
        Verdict::Deny(Denied::CallLoop)
    }

    /// A packet that has changed goes on behind the rule that changed it.
    fn again(
        &mut self,
        parsed: &mut Parsed,
        frame: &mut [u8],
        crossing: &mut Crossing,
        now: u64,
        out: &mut Outputs,
    ) -> Verdict {
        if let Err(kind) = parsed.packet.read(frame) {
            return self.malformed_frame(kind);
        }
        parsed.hash = None;
        if let Some(program) = &self.program {
            program.classes(&parsed.packet, crossing, &mut parsed.classes);
        }
        match self.run(parsed, frame, crossing, now, out) {
            End::Accept => Verdict::Accept,
            End::Deny => Verdict::Deny(Denied::Rule),
            End::Other => self.other(),
        }
    }

    fn other(&mut self) -> Verdict {
        self.room.other.take().expect("a run that ends otherwise says how")
    }

    /// Keeps a fragment, or goes on with the packet that it completes.
    fn fragment(
        &mut self,
        parsed: &mut Parsed,
        frame: &mut [u8],
        crossing: &mut Crossing,
        now: u64,
        out: &mut Outputs,
    ) -> Verdict {
        // Rules before this one may have changed the frame: what waits is the frame as it is now.
        let Some(mut whole) = self.reassembly.offer(frame, &parsed.packet, now) else {
            return Verdict::Held;
        };
        let before = out.released.len();
        out.released.append(&mut whole.earlier);
        if self.config.settings.one_pass {
            crossing.resume = None;
            return Verdict::Accept;
        }
        let verdict = self.again(parsed, &mut whole.frame, crossing, now, out);
        let verdict = self.translated(verdict, parsed, &mut whole.frame, crossing, now, out);
        if let Ok(after) = Packet::parse(&whole.frame) {
            let parts = out.released[before..].iter_mut().map(Vec::as_mut_slice);
            parts.chain([frame]).for_each(|part| {
                rewrite::take_over(part, (&whole.frame, &after));
            });
        }
        verdict
    }

    fn malformed_frame(&mut self, kind: Malformed) -> Verdict {
        self.malformed.count(kind);
        Verdict::Deny(Denied::Malformed(kind))
    }

    /// A packet through the list.
    #[inline]
    fn run(
        &mut self,
        parsed: &mut Parsed,
        frame: &mut [u8],
        crossing: &mut Crossing,
        now: u64,
        out: &mut Outputs,
    ) -> End {
        // Counters leave the list for the run, so that rules can be read while they change.
        let mut counters = core::mem::take(&mut self.config.list.counters);
        let mut run = Run {
            config: &self.config,
            counters: &mut counters,
            entries: &self.config.list.entries,
            states: &mut self.states,
            draws: &mut self.draws,
            frame,
            packet: &mut parsed.packet,
            crossing,
            now,
            out,
            other: &mut self.room.other,
            hash: &mut parsed.hash,
        };
        let end = match &self.program {
            Some(program) => run.searched(program, &parsed.classes, &mut self.room.candidates),
            None => run.plain(),
        };
        self.config.list.counters = counters;
        end
    }
}

/// How many there are.
fn fill<T>(places: &mut [T], all: impl Iterator<Item = T>) -> usize {
    places.iter_mut().zip(all).map(|(place, one)| *place = one).count()
}
