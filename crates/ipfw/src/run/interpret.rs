//! One packet through the list, rule by rule.

use slipring_model::Stream;

use super::config::Config;
use super::crossing::{Crossing, MAX_CALLS, Pass, Resume};
use super::list::{Counters, Entry};
use super::log::{self, LogEvent};
use super::matches::Question;
use super::reply::{self, Answer, Emission, Outputs, Toward};
use super::rewrite;
use super::search::StateNameId;
use crate::packet::{Packet, Version, options};
use crate::rule::{Action, Arg, Fix, Hop, Keep, Limit, Name, NatRef, ReturnTo, Rule};
use crate::state::{FlowHash, Link, NewState, Refusal, States, Update};
use crate::table::{Value, ValueKind};

/// What is to be done with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Accept,
    /// It is dropped.
    Deny(Denied),
    /// It goes to another next hop or port.
    Forward(Hop),
    /// It goes into a pipe.
    Pipe(u32),
    /// It goes into a queue.
    Queue(u32),
    /// Its addresses are translated: the firewall does that itself and goes on, so that no caller
    /// ever sees this.
    Nat(NatRef),
    /// Its IPv6 prefix is translated, in the same way.
    Nptv6(Name),
    /// It is a fragment that waits for the others; the firewall has a copy.
    Held,
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Denied {
    /// A rule says so.
    Rule,
    /// Its headers cannot be believed.
    Malformed(crate::packet::Malformed),
    /// No room for its state.
    StatesFull,
    /// The limit of a rule is reached.
    StateLimit,
    /// Calls within calls, too deep.
    CallDepth,
    /// Too many calls, or translations, in one check.
    CallLoop,
    /// The table has no number for the pipe or queue.
    NoNumber,
    /// `nat` or `nptv6` could not translate it, or would not let it in.
    Translation,
}

pub(super) enum Step {
    Next,
    Jump(usize),
    Done(Verdict),
}

/// A packet on its way through the list.
pub(super) struct Run<'a> {
    pub(super) config: &'a Config,
    pub(super) counters: &'a mut [Counters],
    pub(super) entries: &'a [Entry],
    pub(super) states: &'a mut States,
    pub(super) draws: &'a mut Stream,
    pub(super) frame: &'a mut [u8],
    pub(super) packet: &'a mut Packet,
    pub(super) crossing: &'a mut Crossing,
    pub(super) now: u64,
    pub(super) out: &'a mut Outputs,
    /// The verdict of a run that ends by [`End::Other`].
    pub(super) other: &'a mut Option<Verdict>,
    /// That of the packet's flow, once a rule has asked for states.
    pub(super) hash: &'a mut Option<FlowHash>,
}

/// How a run ends. The commonest verdicts are told by it alone: a [`Verdict`] handed from function
/// to function costs more than they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Accept,
    /// By a rule.
    Deny,
    Other,
}

impl Run<'_> {
    pub(super) fn plain(&mut self) -> End {
        let mut at = self.start();
        loop {
            #[cfg(test)]
            super::search::steps::count();
            match self.step(at) {
                Step::Next => at += 1,
                Step::Jump(to) => at = to,
                Step::Done(verdict) => return self.end(verdict),
            }
        }
    }

    pub(super) fn end(&mut self, verdict: Verdict) -> End {
        *self.other = Some(verdict);
        End::Other
    }

    pub(super) fn start(&mut self) -> usize {
        match self.crossing.resume.take() {
            Some(resume) => self.behind(resume, ReturnTo::NextRule),
            None => {
                self.crossing.search.restart();
                0
            }
        }
    }

    /// The place behind a rule, or where it was.
    fn behind(&self, resume: Resume, to: ReturnTo) -> usize {
        let last = self.entries.len() - 1;
        match self.config.list.place(resume.rule) {
            Some(place) if to == ReturnTo::NextRule => (place + 1).min(last),
            _ => self.config.list.first_from(resume.number.saturating_add(1)),
        }
    }

    /// What a rule makes of the packet: `prob`, states, patterns, a new state and the action, in
    /// ipfw's order. Lots that change nothing but this rule are drawn once its patterns hold.
    pub(super) fn step(&mut self, at: usize) -> Step {
        let config = self.config;
        let entry = &self.entries[at];
        let rule = &*entry.rule;
        if !config.is_enabled(rule.set) {
            return Step::Next;
        }
        let lookup = entry.lookup.filter(|id| self.crossing.search.wants(*id));
        if let Some(id) = lookup {
            if !self.is_drawn(rule) {
                return Step::Next;
            }
            if let Some(place) = self.look_up(id, at) {
                return self.act_for_state(place);
            }
        }
        self.ask(at, lookup.is_some())
    }

    fn is_drawn(&mut self, rule: &Rule) -> bool {
        rule.chance.is_none_or(|chance| chance.admits(self.draws.next_u64()))
    }

    /// A rule behind its lookup. `is_drawn`: its lot has been drawn.
    fn ask(&mut self, at: usize, is_drawn: bool) -> Step {
        let entry = &self.entries[at];
        let rule = &*entry.rule;
        if matches!(rule.action, Action::CheckState(_)) {
            return Step::Next;
        }
        let mut question = self.question(entry);
        if !question.matches(rule) {
            return Step::Next;
        }
        // The value lives in a table of `config`, not in what the question borrows.
        let tablearg = question.tablearg.cloned();
        if !is_drawn && !self.is_drawn(rule) {
            return Step::Next;
        }
        if let Some(keep) = &rule.keep {
            match self.keep(entry, keep, tablearg.as_ref()) {
                Err(refusal) => {
                    // It is this rule that drops the packet.
                    self.count(at);
                    return Step::Done(Verdict::Deny(match refusal {
                        Refusal::Full => Denied::StatesFull,
                        Refusal::Limit => Denied::StateLimit,
                    }));
                }
                Ok(()) if rule.defer => return Step::Next,
                Ok(()) => {}
            }
        }
        self.act(at, tablearg.as_ref())
    }

    /// Does what the rule of a state says; if that does not end the search, it goes on behind that
    /// rule, wherever the state was looked up.
    pub(super) fn act_for_state(&mut self, place: usize) -> Step {
        match self.act(place, None) {
            Step::Next => Step::Jump(place + 1),
            other => other,
        }
    }

    /// The place of the rule that made the packet's state, for a rule that looks it up.
    #[inline]
    pub(super) fn look_up(&mut self, id: StateNameId, at: usize) -> Option<usize> {
        self.crossing.search.note(id);
        self.hit(probes(&self.entries[at].rule).flatten())
    }

    pub(super) fn question(&self, entry: &Entry) -> Question<'_> {
        Question {
            config: self.config,
            packet: self.packet,
            frame: self.frame,
            crossing: self.crossing,
            number: entry.number,
            set: entry.rule.set,
            tablearg: None,
        }
    }

    fn hit(&mut self, name: Option<&Name>) -> Option<usize> {
        if self.packet.version == Version::None {
            return None;
        }
        let flow = self.packet.flow();
        let hash = *self.hash.get_or_insert_with(|| self.states.hash(&flow));
        let hit = self.states.hit((flow, hash), name, &self.update(), self.now)?;
        self.config.list.place(hit.rule)
    }

    fn update(&self) -> Update {
        Update {
            tcp_flags: if self.packet.is_tcp() { self.packet.tcp_flags } else { 0 },
            tcp_ack: if self.packet.is_tcp() {
                options::tcp_word(self.frame, self.packet, 8)
            } else {
                0
            },
            bytes: self.packet.counted_len,
        }
    }

    /// Makes the state of a rule. What is not IP has no flow and needs none.
    fn keep(
        &mut self,
        entry: &Entry,
        keep: &Keep,
        tablearg: Option<&Value>,
    ) -> Result<(), Refusal> {
        if self.packet.version == Version::None {
            return Ok(());
        }
        let limit = keep
            .limit
            .map(|Limit { fields, most }| (fields, number(most, ValueKind::Limit, tablearg)));
        let flow = self.packet.flow();
        let hash = *self.hash.get_or_insert_with(|| self.states.hash(&flow));
        let new = NewState {
            flow,
            name: keep.name.clone(),
            rule: entry.id,
            number: entry.number,
            set: entry.rule.set,
            limit,
            link: Link::of(self.packet),
            port: self.crossing.recv,
        };
        self.states.make(new, hash, &self.update(), self.now)
    }

    #[inline]
    pub(super) fn count(&mut self, at: usize) {
        self.counters[at].count(1, self.packet.counted_len.into(), self.now);
    }

    /// Counts, logs, tags, and does what the rule at `at` says.
    pub(super) fn act(&mut self, at: usize, tablearg: Option<&Value>) -> Step {
        let entry = &self.entries[at];
        let rule = &*entry.rule;
        self.count(at);
        if rule.log.is_some() {
            self.log(at);
        }
        for change in &rule.tags {
            let tag = number(change.tag, ValueKind::Tag, tablearg) as u16;
            match change.fix {
                Fix::Remove => self.crossing.tags.retain(|has| *has != tag),
                Fix::Add if self.crossing.tags.contains(&tag) => {}
                Fix::Add => self.crossing.tags.push(tag),
            }
        }
        let resume = Resume { rule: entry.id, number: entry.number };
        self.action(&rule.action, resume, tablearg)
    }

    fn action(&mut self, action: &Action, here: Resume, tablearg: Option<&Value>) -> Step {
        match action {
            Action::Allow => Step::Done(Verdict::Accept),
            Action::Deny => Step::Done(Verdict::Deny(Denied::Rule)),
            Action::Count | Action::CheckState(_) => Step::Next,
            Action::SkipTo(to) => {
                let to = number(*to, ValueKind::SkipTo, tablearg).min(65535) as u16;
                Step::Jump(self.config.list.first_from(to.max(here.number.saturating_add(1))))
            }
            Action::Call(to) => self.call(number(*to, ValueKind::SkipTo, tablearg), here),
            Action::Return(to) => match self.crossing.calls.pop() {
                Some(caller) => Step::Jump(self.behind(caller, *to)),
                None => Step::Next,
            },
            Action::Pipe(pipe) => {
                self.hand_over(Verdict::Pipe, number(*pipe, ValueKind::Pipe, tablearg), here)
            }
            Action::Queue(queue) => {
                self.hand_over(Verdict::Queue, number(*queue, ValueKind::Pipe, tablearg), here)
            }
            Action::Unreach(unreach) => self.reject(Answer::Unreach(*unreach)),
            Action::Unreach6(code) => self.reject(Answer::Unreach6(*code)),
            Action::Reset => self.reject(Answer::Reset),
            Action::Abort => self.reject(Answer::Abort),
            Action::Reset6 if self.packet.version == Version::V6 => self.reject(Answer::Reset),
            Action::Abort6 if self.packet.version == Version::V6 => self.reject(Answer::Abort),
            Action::Reset6 | Action::Abort6 => Step::Done(Verdict::Deny(Denied::Rule)),
            Action::Forward(hop) => Step::Done(Verdict::Forward(self.hop(hop, tablearg))),
            Action::SetDscp(dscp) => {
                let dscp = number(*dscp, ValueKind::Dscp, tablearg) as u8 & 63;
                rewrite::set_dscp(self.frame, self.packet, dscp);
                Step::Next
            }
            Action::SetMark(mark) => {
                self.crossing.mark = number(*mark, ValueKind::Mark, tablearg);
                Step::Next
            }
            Action::TcpSetMss(mss) => {
                rewrite::set_mss(self.frame, self.packet, *mss);
                Step::Next
            }
            Action::Reass => self.reassemble(here),
            Action::Nat(nat) => {
                let instance = match nat {
                    NatRef::Instance(arg) => {
                        NatRef::Instance(Arg::Number(number(*arg, ValueKind::Nat, tablearg)))
                    }
                    NatRef::Global => NatRef::Global,
                };
                self.crossing.resume = Some(here);
                Step::Done(Verdict::Nat(instance))
            }
            Action::Nptv6(name) => {
                self.crossing.resume = Some(here);
                Step::Done(Verdict::Nptv6(name.clone()))
            }
        }
    }

    fn call(&mut self, to: u32, here: Resume) -> Step {
        if self.crossing.calls.len() >= MAX_CALLS {
            return Step::Done(Verdict::Deny(Denied::CallDepth));
        }
        if self.crossing.search.call_is_too_many() {
            return Step::Done(Verdict::Deny(Denied::CallLoop));
        }
        self.crossing.calls.push(here);
        Step::Jump(self.config.list.first_from(to.min(65535) as u16))
    }

    fn hand_over(&mut self, verdict: fn(u32) -> Verdict, number: u32, here: Resume) -> Step {
        if number == 0 {
            return Step::Done(Verdict::Deny(Denied::NoNumber));
        }
        self.crossing.resume = Some(here);
        Step::Done(verdict(number))
    }

    fn reassemble(&mut self, here: Resume) -> Step {
        const MORE_FRAGMENTS: u16 = 0x2000;
        let is_fragment = self.packet.ip_off & (MORE_FRAGMENTS | 0x1fff) != 0;
        if self.packet.version != Version::V4 || !is_fragment {
            return Step::Next;
        }
        self.crossing.resume = Some(here);
        Step::Done(Verdict::Held)
    }

    fn hop(&self, hop: &Hop, tablearg: Option<&Value>) -> Hop {
        let Hop::Tablearg(port) = hop else { return hop.clone() };
        let (v4, v6) =
            tablearg.map_or((0, 0), |value| (value.number(ValueKind::Ipv4), value.ipv6()));
        match self.packet.version {
            Version::V6 => Hop::V6(v6.into(), *port),
            _ => Hop::V4(v4.into(), *port),
        }
    }

    fn reject(&mut self, answer: Answer) -> Step {
        if let Some(frame) = reply::answer(self.frame, self.packet, answer) {
            let toward = match (self.crossing.pass, self.crossing.recv) {
                (_, Some(port)) => Toward::Port(port),
                (Pass::In | Pass::Out, None) => Toward::All,
            };
            self.out.frames.push(Emission { toward, frame });
        }
        Step::Done(Verdict::Deny(Denied::Rule))
    }

    fn log(&mut self, at: usize) {
        let entry = &self.entries[at];
        let Some(log) = entry.rule.log else { return };
        let limit = u64::from(log.amount.unwrap_or(0));
        let logged = &mut self.counters[at].logged;
        if limit != 0 && *logged >= limit {
            return;
        }
        *logged += 1;
        let is_last = *logged == limit;
        let mut to = log.to;
        if !(to.syslog || to.ipfw0 || to.rtsock) {
            (to.syslog, to.ipfw0) = (self.config.settings.verbose, !self.config.settings.verbose);
        }
        if !(to.syslog || self.out.is_watched) {
            self.out.unseen += 1 + u64::from(is_last);
            return;
        }
        let number = entry.number;
        let line = log::line(self.config, number, &entry.rule.action, self.packet, self.crossing);
        self.out.log.push(LogEvent { number, line, to });
        if is_last {
            let line = alloc::format!("ipfw: limit {limit} reached on entry {number}");
            self.out.log.push(LogEvent { number, line, to });
        }
    }
}

/// The name of the states that a rule looks for first; of any, inside, if it does not say.
pub(super) fn probes(rule: &Rule) -> Option<Option<&Name>> {
    match (&rule.action, &rule.keep) {
        (Action::CheckState(name), _) => Some(name.as_ref()),
        (_, Some(keep)) if keep.probe => Some(Some(&keep.name)),
        _ => None,
    }
}

fn number(arg: Arg, kind: ValueKind, tablearg: Option<&Value>) -> u32 {
    match arg {
        Arg::Number(number) => number,
        Arg::Tablearg => tablearg.map_or(0, |value| value.number(kind)),
    }
}
