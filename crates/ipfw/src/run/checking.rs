//! Packets through the rules, one by one or many at once.

use alloc::vec::Vec;

use super::compiled::{Candidates, Classes};
use super::crossing::Crossing;
use super::engine::Firewall;
use super::interpret::{Denied, End, Run, Verdict};
use super::reply::Outputs;
use super::rewrite;
use crate::packet::{Malformed, Packet, Version};
use crate::state::FlowHash;

/// Packets of which one field is looked up after the other: so many that none waits for memory
/// that another one needs, so few that they stay in the nearest cache.
const GROUP: usize = 32;

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
    packet: Packet,
    classes: Classes,
    candidates: Candidates,
    hash: Option<FlowHash>,
    /// The verdict of a run that ended by [`End::Other`].
    other: Option<Verdict>,
    group: Vec<Parsed>,
}

#[derive(Clone, Debug, Default)]
struct Parsed {
    packet: Packet,
    classes: Classes,
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
        match self.room.packet.read(frame) {
            Ok(()) => {
                self.room.hash = None;
                if let Some(program) = &self.program {
                    program.classes(&self.room.packet, crossing, &mut self.room.classes);
                }
                self.decide(frame, crossing, now_ns, outputs)
            }
            Err(kind) => self.drop_malformed(kind),
        }
    }

    /// Does the same with many frames, in their order, for less.
    pub fn check_all(&mut self, batch: &mut [Checked<'_>], now_ns: u64, outputs: &mut Outputs) {
        for group in batch.chunks_mut(GROUP) {
            self.look_up(group);
            self.bring_near(group.len());
            for (at, checked) in group.iter_mut().enumerate() {
                let parsed = &self.room.group[at];
                checked.verdict = match parsed.fault {
                    _ if !self.config.settings.enable => self.accept(),
                    Some(kind) => self.drop_malformed(kind),
                    None => {
                        (self.room.packet, self.room.classes) = (parsed.packet, parsed.classes);
                        self.room.hash = parsed.hash;
                        self.decide(checked.frame, &mut checked.crossing, now_ns, outputs)
                    }
                };
            }
        }
    }

    /// Reads the frames of a group, then looks up field after field. Neither depends on what the
    /// rules do to frames before.
    fn look_up(&mut self, group: &[Checked<'_>]) {
        let parsed = &mut self.room.group;
        parsed.resize(GROUP, Parsed::default());
        for (checked, parsed) in group.iter().zip(&mut *parsed) {
            parsed.fault = parsed.packet.read(checked.frame).err();
            parsed.hash = None;
        }
        let Some(program) = &self.program else { return };
        for field in 0..program.fields() {
            for (checked, parsed) in group.iter().zip(&mut *parsed) {
                let class = program.class(field, &parsed.packet, &checked.crossing);
                parsed.classes[field] = class;
            }
        }
    }

    /// Brings near what rules will ask of tables and states for the packets of a group. Packets
    /// before them may change states, so the answers are forgotten.
    fn bring_near(&mut self, packets: usize) {
        let Some(program) = &self.program else { return };
        let parsed = &mut self.room.group[..packets];
        for near in program.near_tables() {
            let address = |parsed: &Parsed| match parsed.packet.version {
                Version::V4 if near.of_dst => parsed.packet.dst as u32,
                _ => parsed.packet.src as u32,
            };
            let mut addresses = [0; GROUP];
            addresses.iter_mut().zip(&*parsed).for_each(|(to, parsed)| *to = address(parsed));
            if let Some(table) = self.config.table(near.set, near.name.as_str()) {
                table.bring_near(&addresses[..packets]);
            }
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

    /// The verdict on the packet in `room`, counted.
    #[inline]
    fn decide(
        &mut self,
        frame: &mut [u8],
        crossing: &mut Crossing,
        now: u64,
        out: &mut Outputs,
    ) -> Verdict {
        match self.run(frame, crossing, now, out) {
            End::Accept => self.accept(),
            End::Deny => {
                self.drops.checked += 1;
                self.drops.by_rule += 1;
                Verdict::Deny(Denied::Rule)
            }
            End::Other => self.otherwise(frame, crossing, now, out),
        }
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
        frame: &mut [u8],
        crossing: &mut Crossing,
        now: u64,
        out: &mut Outputs,
    ) -> Verdict {
        let mut verdict = self.other();
        if verdict == Verdict::Held {
            verdict = self.fragment(frame, crossing, now, out);
        }
        self.drops.count(&verdict);
        verdict
    }

    fn other(&mut self) -> Verdict {
        self.room.other.take().expect("a run that ends otherwise says how")
    }

    /// Keeps a fragment, or goes on with the packet that it completes.
    fn fragment(
        &mut self,
        frame: &mut [u8],
        crossing: &mut Crossing,
        now: u64,
        out: &mut Outputs,
    ) -> Verdict {
        let packet = self.room.packet;
        // Rules before this one may have changed the frame: what waits is the frame as it is now.
        let Some(mut whole) = self.reassembly.offer(frame, &packet, now) else {
            return Verdict::Held;
        };
        self.room.hash = None;
        let before = out.released.len();
        out.released.append(&mut whole.earlier);
        if self.config.settings.one_pass {
            crossing.resume = None;
            return Verdict::Accept;
        }
        if let Err(kind) = self.room.packet.read(&whole.frame) {
            return self.malformed_frame(kind);
        }
        if let Some(program) = &self.program {
            program.classes(&self.room.packet, crossing, &mut self.room.classes);
        }
        let verdict = match self.run(&mut whole.frame, crossing, now, out) {
            End::Accept => Verdict::Accept,
            End::Deny => Verdict::Deny(Denied::Rule),
            End::Other => self.other(),
        };
        if let Ok(after) = Packet::parse(&whole.frame) {
            let parts = out.released[before..].iter_mut().map(Vec::as_mut_slice);
            parts.chain([frame]).for_each(|part| mark_part(part, after.dscp()));
        }
        verdict
    }

    fn malformed_frame(&mut self, kind: Malformed) -> Verdict {
        self.malformed.count(kind);
        Verdict::Deny(Denied::Malformed(kind))
    }

    /// The packet in `room` through the list.
    #[inline]
    fn run(
        &mut self,
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
            packet: &mut self.room.packet,
            crossing,
            now,
            out,
            other: &mut self.room.other,
            hash: self.room.hash,
        };
        let end = match &self.program {
            Some(program) => run.searched(program, &self.room.classes, &mut self.room.candidates),
            None => run.plain(),
        };
        self.config.list.counters = counters;
        end
    }
}

/// Gives a fragment the DSCP that rules gave the whole packet.
fn mark_part(frame: &mut [u8], dscp: u8) {
    if let Ok(mut packet) = Packet::parse(frame) {
        rewrite::set_dscp(frame, &mut packet, dscp);
    }
}
