//! Packets through the rules, one by one or many at once.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::compiled::{Candidates, Classes, Key, Memo};
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

/// Frames that are checked together, wherever they lie: each is lent for a moment, again and again.
pub trait Frames {
    /// The frame at a place.
    fn frame(&mut self, at: usize) -> &mut [u8];
}

impl<F: AsMut<[u8]>> Frames for [F] {
    fn frame(&mut self, at: usize) -> &mut [u8] {
        self[at].as_mut()
    }
}

/// What is known of a frame that is checked together with others, and what came of it.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What is known of it besides its bytes.
    pub crossing: Crossing,
    /// What to do with it.
    pub verdict: Verdict,
}

impl Checked {
    /// A frame that is still to be checked.
    #[must_use]
    pub const fn new(crossing: Crossing) -> Self {
        Self { crossing, verdict: Verdict::Deny(Denied::Rule) }
    }
}

/// Room for packets, used again and again.
#[derive(Debug, Default)]
pub(super) struct Room {
    candidates: Candidates,
    memo: Memo,
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
    key: Key,
    hash: Option<FlowHash>,
    fault: Option<Malformed>,
    /// How long the frame was.
    len: usize,
}

/// A frame that is checked: all that a check is told, and may change, besides the firewall.
struct Case<'c> {
    parsed: &'c mut Parsed,
    frame: &'c mut [u8],
    crossing: &'c mut Crossing,
    now: u64,
    out: &'c mut Outputs,
}

impl Room {
    /// Forgets what belongs to a program.
    pub(super) fn forget(&mut self) {
        self.memo.forget();
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
        if let Err(kind) = parsed.packet.read(frame) {
            self.room.one = Some(parsed);
            return self.drop_malformed(kind);
        }
        parsed.hash = None;
        if let Some(program) = &self.program {
            program.classes(&parsed.packet, crossing, &mut parsed.classes);
            parsed.key = program.key(&parsed.classes);
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

    /// Does the same with many frames, in their order, for less: `batch` has one place for each.
    pub fn check_all<F: Frames + ?Sized>(
        &mut self,
        frames: &mut F,
        batch: &mut [Checked],
        now_ns: u64,
        outputs: &mut Outputs,
    ) {
        if !self.config.settings.enable {
            batch.iter_mut().for_each(|checked| checked.verdict = self.accept());
            return;
        }
        let mut room = core::mem::take(&mut self.room.group);
        room.resize(GROUP, Parsed::default());
        for (group, first) in batch.chunks_mut(GROUP).zip((0..).step_by(GROUP)) {
            let parsed = &mut room[..group.len()];
            self.look_up(frames, first, group, parsed);
            self.bring_near(parsed);
            for ((checked, parsed), at) in group.iter_mut().zip(parsed).zip(first..) {
                let Checked { crossing, verdict } = checked;
                let frame = frames.frame(at);
                let case = Case { parsed, frame, crossing, now: now_ns, out: outputs };
                *verdict = self.check_parsed(case);
            }
        }
        self.room.group = room;
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

    /// Reads the frames of a group, then looks up field after field. Neither depends on what the
    /// rules do to frames before.
    fn look_up<F: Frames + ?Sized>(
        &self,
        frames: &mut F,
        first: usize,
        group: &[Checked],
        parsed: &mut [Parsed],
    ) {
        for (parsed, at) in parsed.iter_mut().zip(first..) {
            let frame = frames.frame(at);
            parsed.fault = parsed.packet.read(frame).err();
            parsed.len = frame.len();
            parsed.hash = None;
        }
        if let Some(program) = &self.program {
            let crossings = || group.iter().map(|checked| &checked.crossing);
            program.classes_of_all(parsed, crossings);
            if program.remembers() {
                for parsed in &mut *parsed {
                    parsed.key = program.key(&parsed.classes);
                }
                self.room.memo.bring_near(parsed.iter().map(|parsed| parsed.key));
            }
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
    fn otherwise(&mut self, case: &mut Case<'_>) -> Verdict {
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
        for _ in 0..MAX_TRANSLATIONS {
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
        Verdict::Deny(Denied::CallLoop)
    }

    /// A packet that has changed goes on behind the rule that changed it.
    fn again(&mut self, case: &mut Case<'_>) -> Verdict {
        if let Err(kind) = case.parsed.packet.read(case.frame) {
            return self.malformed_frame(kind);
        }
        case.parsed.hash = None;
        if let Some(program) = &self.program {
            let Parsed { packet, classes, key, .. } = &mut *case.parsed;
            program.classes(packet, case.crossing, classes);
            *key = program.key(classes);
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
            return Verdict::Accept;
        }
        let Case { parsed, crossing, now, out, .. } = case;
        let mut of_whole = Case { parsed, frame: &mut whole.frame, crossing, now: *now, out };
        let verdict = self.again(&mut of_whole);
        let verdict = self.translated(verdict, &mut of_whole);
        if let Ok(after) = Packet::parse(&whole.frame) {
            let parts = case.out.released[before..].iter_mut().map(Vec::as_mut_slice);
            parts.chain([&mut *case.frame]).for_each(|part| {
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
    fn run(&mut self, case: &mut Case<'_>) -> End {
        // Counters leave the list for the run, so that rules can be read while they change.
        let mut counters = core::mem::take(&mut self.config.list.counters);
        let Parsed { packet, classes, key, hash, .. } = &mut *case.parsed;
        let Room { candidates, memo, other, .. } = &mut self.room;
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
            Some(program) => run.searched(program, (classes, *key), candidates, memo),
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
