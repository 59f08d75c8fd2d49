//! A firewall like FreeBSD's `ipfw_chk`: rules are lists of opcodes, the match part and then the
//! action part. A found state leads to the action part of its rule.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use slipring_model::Stream;

use super::super::super::{DenyReason, RuleVerdict};
use super::draw::{Act, Cond, KeepSpec, PacketSpec, RuleSpec, Settings};
use super::*;

/// The parts of a verdict that are compared.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum OracleVerdict {
    Accept,
    Deny,
    Limit,
    Full,
    TooDeep,
    TooMany,
    Pipe(u32),
    Forward,
    Other,
}

impl OracleVerdict {
    pub(super) fn of(verdict: &RuleVerdict) -> Self {
        match verdict {
            RuleVerdict::Accept => Self::Accept,
            RuleVerdict::Deny(DenyReason::Rule) => Self::Deny,
            RuleVerdict::Deny(DenyReason::StateLimit) => Self::Limit,
            RuleVerdict::Deny(DenyReason::StatesFull) => Self::Full,
            RuleVerdict::Deny(DenyReason::CallDepth) => Self::TooDeep,
            RuleVerdict::Deny(DenyReason::CallLoop) => Self::TooMany,
            RuleVerdict::Pipe(number) | RuleVerdict::Queue(number) => Self::Pipe(*number),
            RuleVerdict::Forward(_) => Self::Forward,
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Prob(u32),
    /// Looks up states of this name. A rule that keeps states begins with it, after a `prob` if
    /// there is one, unless the rule's option does not look states up (`KeepSpec::probe`).
    ProbeState(&'static str),
    CheckState(Option<&'static str>),
    Match(Cond),
    Keep(KeepSpec),
    SkipAction,
    Tag(bool, u16),
    Act(Act),
}

struct Rule {
    id: usize,
    number: u16,
    set: u8,
    ops: Vec<Op>,
    /// Index of the first opcode of the action part.
    act_ofs: usize,
    counted: (u64, u64),
}

impl Rule {
    fn new(id: usize, spec: &RuleSpec) -> Self {
        let mut ops = Vec::new();
        ops.extend(spec.prob.map(|prob| Op::Prob((prob * f64::from(0x7fff_ffff)) as u32)));
        ops.extend(spec.keep.iter().filter(|keep| keep.probe).map(|k| Op::ProbeState(k.name)));
        ops.extend(spec.conds.iter().map(|cond| Op::Match(*cond)));
        if let Some(keep) = &spec.keep {
            ops.push(Op::Keep(keep.clone()));
            ops.extend(keep.defer.then_some(Op::SkipAction));
        }
        let act_ofs = ops.len();
        ops.extend(spec.tag.map(|(on, tag)| Op::Tag(on, tag)));
        ops.push(match &spec.act {
            Act::CheckState(name) => Op::CheckState(*name),
            act => Op::Act(act.clone()),
        });
        Self { id, number: spec.number, set: spec.set, ops, act_ofs, counted: (0, 0) }
    }
}

type End = (u32, u16);
type Flow = (u8, End, End);

struct State {
    flow: Flow,
    name: &'static str,
    rule: usize,
    number: u16,
    expires: u64,
    seen: u16,
    acks: [u32; 2],
    acked: [bool; 2],
    parent: Option<(usize, Flow)>,
    counted: (u64, u64),
}

/// The parts of a state that are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ComparedState {
    pub(super) number: u16,
    pub(super) flow: Flow,
    pub(super) name: String,
    pub(super) counted: (u64, u64),
    pub(super) expires: u64,
}

/// The metadata of a packet from check to check.
#[derive(Clone, Default)]
struct PacketContext {
    tags: BTreeSet<u16>,
    mark: u32,
    calls: Vec<usize>,
    calls_made: u32,
    names: BTreeSet<&'static str>,
    resume: Option<usize>,
}

pub(super) struct Oracle {
    rules: Vec<Rule>,
    disabled: Option<u8>,
    settings: Settings,
    draws: Stream,
    /// The states by flow, whose endpoints are ordered; the newest state of a flow comes last.
    states: HashMap<Flow, Vec<State>>,
    alive: usize,
    parents: BTreeMap<(usize, Flow), u32>,
    now: u64,
}

/// The result of one rule.
enum RuleResult {
    NextRule,
    At(usize),
    Done(OracleVerdict),
}

impl Oracle {
    pub(super) fn new(specs: &[RuleSpec], settings: Settings, seed: u64) -> Self {
        let mut rules: Vec<_> = specs.iter().enumerate().map(|(id, s)| Rule::new(id, s)).collect();
        let ops = vec![Op::Act(Act::Deny)];
        let id = rules.len();
        rules.push(Rule { id, number: 65535, set: 31, ops, act_ofs: 0, counted: (0, 0) });
        Self {
            rules,
            disabled: None,
            settings,
            draws: Stream::new(seed, "ipfw/prob"),
            states: HashMap::new(),
            alive: 0,
            parents: BTreeMap::new(),
            now: 0,
        }
    }

    pub(super) fn disable_set(&mut self, set: u8) {
        self.disabled = Some(set);
    }

    pub(super) fn delete(&mut self, number: u16) {
        let gone: BTreeSet<_> =
            self.rules.iter().filter(|rule| rule.number == number).map(|rule| rule.id).collect();
        self.rules.retain(|rule| !gone.contains(&rule.id));
        self.forget(|state| gone.contains(&state.rule));
    }

    fn forget(&mut self, of: impl Fn(&State) -> bool) {
        let Self { states, parents, alive, .. } = self;
        for list in states.values_mut() {
            list.retain(|state| {
                let goes = of(state);
                if goes {
                    *alive -= 1;
                    if let Some(parent) = state.parent {
                        *parents.get_mut(&parent).unwrap() -= 1;
                    }
                }
                !goes
            });
        }
    }

    pub(super) fn counted(&self) -> Vec<(u16, u64, u64)> {
        self.rules.iter().map(|rule| (rule.number, rule.counted.0, rule.counted.1)).collect()
    }

    pub(super) fn shown(&self) -> Vec<ComparedState> {
        let shown = |state: &State| ComparedState {
            number: state.number,
            flow: state.flow,
            name: state.name.into(),
            counted: state.counted,
            expires: state.expires,
        };
        let mut all: Vec<_> = self.states.values().flatten().map(shown).collect();
        all.sort();
        all
    }

    /// Returns the outcomes of packets that arrive at the same time. Packets that go into pipes
    /// leave them after all other packets were checked.
    pub(super) fn burst(
        &mut self,
        packets: Vec<PacketSpec>,
        now: u64,
    ) -> Vec<(OracleVerdict, PacketSpec)> {
        self.now = now;
        self.forget(|state| state.expires <= now);
        let mut carried = vec![PacketContext::default(); packets.len()];
        let mut all: Vec<_> =
            packets.into_iter().map(|packet| (OracleVerdict::Other, packet)).collect();
        for ((said, packet), carried) in all.iter_mut().zip(&mut carried) {
            *said = self.check(packet, carried);
        }
        while !self.settings.one_pass && carried.iter().any(|carried| carried.resume.is_some()) {
            for ((said, packet), carried) in all.iter_mut().zip(&mut carried) {
                if carried.resume.is_some() {
                    *said = self.check(packet, carried);
                }
            }
        }
        all
    }

    fn place(&self, id: usize) -> usize {
        self.rules.iter().position(|rule| rule.id == id).unwrap()
    }

    fn first_from(&self, number: u16) -> usize {
        self.rules.iter().position(|rule| rule.number >= number).unwrap()
    }

    fn check(&mut self, packet: &mut PacketSpec, carried: &mut PacketContext) -> OracleVerdict {
        let mut f_pos = carried.resume.take().map_or(0, |id| self.place(id) + 1);
        loop {
            match self.rule(&mut f_pos, packet, carried) {
                RuleResult::NextRule => f_pos += 1,
                RuleResult::At(place) => f_pos = place,
                RuleResult::Done(said) => return said,
            }
        }
    }

    /// Runs one rule. If a state is found, runs the action part of the state's rule, and `f_pos`
    /// becomes the position of that rule.
    fn rule(
        &mut self,
        f_pos: &mut usize,
        packet: &mut PacketSpec,
        carried: &mut PacketContext,
    ) -> RuleResult {
        if Some(self.rules[*f_pos].set) == self.disabled {
            return RuleResult::NextRule;
        }
        let mut cmd = 0;
        // If the opcode after a `prob` still has to look up a state, the draw comes before the
        // lookup, because it decides whether the lookup happens. Otherwise the draw comes after all
        // patterns have matched.
        let mut lot = None;
        loop {
            let rule = &self.rules[*f_pos];
            if let Some(chance) = lot.take_if(|_| cmd == keep_ofs(rule))
                && !self.admits(chance)
            {
                return RuleResult::NextRule;
            }
            let op = self.rules[*f_pos].ops[cmd].clone();
            cmd += 1;
            match op {
                Op::Prob(chance) => {
                    let looks_up = match self.rules[*f_pos].ops[cmd] {
                        Op::ProbeState(name) => is_wanted(Some(name), carried),
                        Op::CheckState(name) if !is_wanted(name, carried) => {
                            return RuleResult::NextRule;
                        }
                        Op::CheckState(_) => true,
                        _ => false,
                    };
                    if !looks_up {
                        lot = Some(chance);
                    } else if !self.admits(chance) {
                        return RuleResult::NextRule;
                    }
                }
                Op::ProbeState(_) | Op::CheckState(_) => {
                    let name = match op {
                        Op::ProbeState(name) => Some(name),
                        Op::CheckState(name) => name,
                        _ => unreachable!(),
                    };
                    let found = if is_wanted(name, carried) {
                        carried.names.insert(name.unwrap_or("any"));
                        self.lookup(packet, name)
                    } else {
                        None
                    };
                    if let Some(parent) = found {
                        *f_pos = self.place(parent);
                        cmd = self.rules[*f_pos].act_ofs;
                    } else if matches!(op, Op::CheckState(_)) {
                        return RuleResult::NextRule;
                    }
                }
                Op::Match(cond) if !holds(cond, packet, carried) => return RuleResult::NextRule,
                Op::Match(_) => {}
                Op::Keep(keep) => {
                    if let Err(said) = self.install(*f_pos, &keep, packet) {
                        self.count(*f_pos, packet);
                        return RuleResult::Done(said);
                    }
                }
                Op::SkipAction => return RuleResult::NextRule,
                Op::Tag(true, tag) => drop(carried.tags.insert(tag)),
                Op::Tag(false, tag) => drop(carried.tags.remove(&tag)),
                Op::Act(act) => {
                    self.count(*f_pos, packet);
                    return self.act(&act, *f_pos, packet, carried);
                }
            }
        }
    }

    fn admits(&mut self, chance: u32) -> bool {
        ((self.draws.next_u64() >> 33) as u32) < chance
    }

    fn count(&mut self, f_pos: usize, packet: &PacketSpec) {
        let counted = &mut self.rules[f_pos].counted;
        *counted = (counted.0 + 1, counted.1 + packet.len);
    }

    fn act(
        &mut self,
        act: &Act,
        f_pos: usize,
        packet: &mut PacketSpec,
        carried: &mut PacketContext,
    ) -> RuleResult {
        let (id, number) = (self.rules[f_pos].id, self.rules[f_pos].number);
        match *act {
            Act::Allow => RuleResult::Done(OracleVerdict::Accept),
            Act::Deny | Act::Reject(_) => RuleResult::Done(OracleVerdict::Deny),
            Act::Forward => RuleResult::Done(OracleVerdict::Forward),
            Act::Count | Act::TcpSetMss | Act::Reass | Act::CheckState(_) => RuleResult::NextRule,
            Act::SkipTo(to) => RuleResult::At(self.first_from(to.max(number + 1))),
            Act::Call(to) => {
                carried.calls_made += u32::from(carried.calls.len() < 16);
                if carried.calls.len() >= 16 {
                    return RuleResult::Done(OracleVerdict::TooDeep);
                }
                if carried.calls_made > 1024 {
                    return RuleResult::Done(OracleVerdict::TooMany);
                }
                carried.calls.push(id);
                RuleResult::At(self.first_from(to))
            }
            Act::Return(next_rule) => match carried.calls.pop() {
                None => RuleResult::NextRule,
                Some(caller) if next_rule => RuleResult::At(self.place(caller) + 1),
                Some(caller) => {
                    RuleResult::At(self.first_from(self.rules[self.place(caller)].number + 1))
                }
            },
            Act::Pipe(number) | Act::Queue(number) => {
                carried.resume = Some(id);
                RuleResult::Done(OracleVerdict::Pipe(number))
            }
            Act::SetDscp(dscp) => {
                if packet.proto.is_some() {
                    packet.tos = dscp << 2 | packet.tos & 3;
                }
                RuleResult::NextRule
            }
            Act::SetMark(mark) => {
                carried.mark = mark;
                RuleResult::NextRule
            }
        }
    }

    /// Finds the newest living state of the packet's flow that has this name (any name if `None`).
    /// Returns the state's rule, and updates the state.
    fn lookup(&mut self, packet: &PacketSpec, name: Option<&str>) -> Option<usize> {
        let flow = flow(packet)?;
        let now = self.now;
        let all = self.states.get_mut(&sorted(flow))?;
        let wanted =
            |state: &&mut State| name.is_none_or(|name| name == state.name) && state.expires > now;
        let state = all.iter_mut().rev().find(wanted)?;
        state.counted = (state.counted.0 + 1, state.counted.1 + packet.len);
        state.update(packet, usize::from(state.flow != flow), now);
        Some(state.rule)
    }

    fn install(
        &mut self,
        f_pos: usize,
        keep: &KeepSpec,
        packet: &PacketSpec,
    ) -> Result<(), OracleVerdict> {
        let Some(flow) = flow(packet) else { return Ok(()) };
        let (rule, number) = (self.rules[f_pos].id, self.rules[f_pos].number);
        let alive = self.alive;
        let all = self.states.entry(sorted(flow)).or_default();
        if all.iter().any(|state| state.name == keep.name) {
            return Ok(());
        }
        let parent = keep.limit.map(|(fields, most)| ((rule, masked(flow, fields)), most));
        if let Some((parent, most)) = parent
            && self.parents.get(&parent).copied().unwrap_or(0) >= most
        {
            return Err(OracleVerdict::Limit);
        }
        if alive >= self.settings.dyn_max {
            return Err(OracleVerdict::Full);
        }
        if let Some((parent, _)) = parent {
            *self.parents.entry(parent).or_default() += 1;
        }
        let mut state = State {
            flow,
            name: keep.name,
            rule,
            number,
            expires: self.now,
            seen: 0,
            acks: [0; 2],
            acked: [false; 2],
            parent: parent.map(|(parent, _)| parent),
            counted: (0, 0),
        };
        state.update(packet, 0, self.now);
        all.push(state);
        self.alive += 1;
        Ok(())
    }
}

/// Returns the index of the opcode before which a `prob` is drawn if it does not decide about a
/// lookup. This is `Op::Keep`, or else the first opcode of the action part.
fn keep_ofs(rule: &Rule) -> usize {
    let keeps = |op: &Op| matches!(op, Op::Keep(_));
    rule.ops[..rule.act_ofs].iter().position(keeps).unwrap_or(rule.act_ofs)
}

/// Returns whether states of this name must still be looked up. Each name is looked up once, and no
/// name after `any`.
fn is_wanted(name: Option<&'static str>, carried: &PacketContext) -> bool {
    !carried.names.contains("any") && !carried.names.contains(name.unwrap_or("any"))
}

fn flow(packet: &PacketSpec) -> Option<Flow> {
    let end = |(address, port): ([u8; 4], u16)| (u32::from_be_bytes(address), port);
    Some((packet.proto?, end(packet.src), end(packet.dst)))
}

fn sorted((proto, src, dst): Flow) -> Flow {
    (proto, src.min(dst), src.max(dst))
}

fn masked((proto, src, dst): Flow, fields: [bool; 4]) -> Flow {
    let end = |end: End, address: bool, port: bool| {
        (if address { end.0 } else { 0 }, if port { end.1 } else { 0 })
    };
    (proto, end(src, fields[0], fields[1]), end(dst, fields[2], fields[3]))
}

fn holds(cond: Cond, packet: &PacketSpec, carried: &PacketContext) -> bool {
    let is_ip = packet.proto.is_some();
    let number = u32::from_be_bytes;
    let is_in = |address: [u8; 4], of: [u8; 4], len: u32| {
        is_ip && (number(address) ^ number(of)).checked_shr(32 - len).unwrap_or(0) == 0
    };
    let is_tcp = packet.proto == Some(6);
    let has_ports = matches!(packet.proto, Some(6 | 17));
    match cond {
        Cond::Always => true,
        Cond::Src(of, len) => is_in(packet.src.0, of, len),
        Cond::NotSrc(of, len) => !is_in(packet.src.0, of, len),
        Cond::SrcMask(of, mask) => is_ip && (number(packet.src.0) ^ number(of)) & number(mask) == 0,
        Cond::Dst(of, len) => is_in(packet.dst.0, of, len),
        Cond::SrcPort(port) => has_ports && packet.src.1 == port,
        Cond::DstPort(port) => has_ports && packet.dst.1 == port,
        Cond::Proto(proto) => packet.proto == Some(proto),
        Cond::Setup => is_tcp && packet.tcp_flags & 0x12 == 0x02,
        Cond::Established => is_tcp && packet.tcp_flags & 0x16 != 0x02,
        Cond::Tagged(tag) => carried.tags.contains(&tag),
        Cond::NotTagged(tag) => !carried.tags.contains(&tag),
        Cond::Mark(mark) => carried.mark == mark,
        Cond::Dscp(dscp) => is_ip && packet.tos >> 2 == dscp,
    }
}

impl State {
    /// Sets when the state expires after a packet: in 10 s for UDP, in 5 s for other protocols; for
    /// TCP, the time depends on the flags that both sides have sent so far.
    fn update(&mut self, packet: &PacketSpec, direction: usize, now: u64) {
        const SYN: u16 = 2;
        const FIN: u16 = 1;
        let seconds = match self.flow.0 {
            17 => 10,
            6 => {
                self.seen |= u16::from(packet.tcp_flags & 7) << (8 * direction);
                let both = |flag: u16| flag | flag << 8;
                match self.seen {
                    SYN => 20,
                    seen if seen & !both(FIN) == both(SYN) && seen & both(FIN) != both(FIN) => {
                        return self.progress(packet, direction, now);
                    }
                    // A connection that was closed by both sides, reset, or never opened: one
                    // second.
                    _ => 1,
                }
            }
            _ => 5,
        };
        self.expires = now + seconds * SECOND;
    }

    /// Records an acknowledgement, unless its number goes back. Renews the lifetime if both sides
    /// have sent such an acknowledgement since the last renewal.
    fn progress(&mut self, packet: &PacketSpec, direction: usize, now: u64) {
        let newer = packet.tcp_ack.wrapping_sub(self.acks[direction]) as i32 >= 0;
        if packet.tcp_flags & 0x10 == 0 || self.acks[direction] != 0 && !newer {
            return;
        }
        self.acks[direction] = packet.tcp_ack;
        self.acked[direction] = true;
        if self.acked == [true; 2] {
            self.acked = [false; 2];
            self.expires = now + 300 * SECOND;
        }
    }
}
