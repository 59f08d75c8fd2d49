//! The plain interpreter: one packet through the list, rule by rule.

use slipring_neighbour::icmp::IcmpMessage;

use super::config::IpfwConfig;
use super::list::{RuleCounters, RuleEntry};
use super::log::{self, LogEvent};
use super::matches::RuleQuery;
use super::metadata::{CheckPass, MAX_CALLS, PacketMetadata, ResumePoint};
use super::reply::{self, CheckOutputs, EmissionTarget, EmittedFrame, RejectReply, RunResources};
use super::rewrite;
use super::search::{StateNameId, probes};
use crate::packet::{IpFamily, PacketHeaders, options};
use crate::rule::{
    Arg, KeepState, NatRef, NextHop, ObjectName, ReturnTo, Rule, RuleAction, StateLimit, TagOp,
};
use crate::state::{FlowEthernet, NewState, StateHash, StateRefusal, StateTable, StateUpdate};
use crate::table::{TableValue, ValueKind};

/// The verdict on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleVerdict {
    /// The packet passes.
    Accept,
    /// The packet is dropped.
    Deny(DenyReason),
    /// The packet is dropped by a rule, and the caller must send this error to the packet's sender.
    /// Only returned if [`CheckOutputs::leaves_errors`] is set.
    Reject(IcmpMessage),
    /// The packet goes to another next hop or port.
    Forward(NextHop),
    /// The packet goes into a pipe.
    Pipe(u32),
    /// The packet goes into a queue.
    Queue(u32),
    /// The addresses of the packet are translated. The firewall handles this itself and continues;
    /// callers never see it.
    Nat(NatRef),
    /// The IPv6 prefix of the packet is translated. As for `Nat`, callers never see this.
    Nptv6(ObjectName),
    /// The packet is a fragment that the reassembly took: the firewall keeps a copy of it until its
    /// packet's other fragments arrive, or has discarded it ([`super::FragmentCounters`]).
    Held,
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DenyReason {
    /// A rule dropped the packet.
    Rule,
    /// The packet's headers are invalid.
    Malformed(crate::packet::MalformedReason),
    /// There is no space for the packet's state.
    StatesFull,
    /// The rule's `limit` on the number of states is reached.
    StateLimit,
    /// Calls are nested too deeply.
    CallDepth,
    /// Too many calls, or too many changes of the packet's flow, in one check.
    CallLoop,
    /// The table has no number for the pipe or queue.
    NoNumber,
    /// `nat` or `nptv6` could not translate the packet, or refused it.
    Translation,
}

pub(super) enum RuleStep {
    Next,
    Jump(usize),
    Done(RuleVerdict),
}

/// One run of a packet through the list of rules.
pub(super) struct RuleRun<'a> {
    pub(super) config: &'a IpfwConfig,
    pub(super) counters: &'a mut [RuleCounters],
    pub(super) entries: &'a [RuleEntry],
    pub(super) states: &'a mut StateTable,
    pub(super) resources: &'a mut RunResources,
    pub(super) frame: &'a mut [u8],
    pub(super) packet: &'a mut PacketHeaders,
    pub(super) crossing: &'a mut PacketMetadata,
    pub(super) now: u64,
    pub(super) out: &'a mut CheckOutputs,
    /// The verdict of a run that ends with [`RunEnd::Other`].
    pub(super) other: &'a mut Option<RuleVerdict>,
    /// Hash of the packet's flow; `None` until it is computed.
    pub(super) hash: &'a mut Option<StateHash>,
}

/// How a run ends. The common verdicts have their own variants, because passing a [`RuleVerdict`]
/// from function to function would cost more than everything else that these verdicts require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunEnd {
    Accept,
    /// Dropped by a rule.
    Deny,
    Other,
}

impl RuleRun<'_> {
    pub(super) fn plain(&mut self) -> RunEnd {
        let mut at = self.start();
        loop {
            #[cfg(test)]
            super::search::steps::count();
            match self.step(at) {
                RuleStep::Next => at += 1,
                RuleStep::Jump(to) => at = to,
                RuleStep::Done(verdict) => return self.end(verdict),
            }
        }
    }

    pub(super) fn end(&mut self, verdict: RuleVerdict) -> RunEnd {
        *self.other = Some(verdict);
        RunEnd::Other
    }

    pub(super) fn start(&mut self) -> usize {
        match self.crossing.resume.take() {
            Some(resume) => self.position_after(resume, ReturnTo::NextRule),
            None => {
                self.crossing.search.restart();
                0
            }
        }
    }

    /// Returns the index of the rule at which to continue after `resume`. If the rule of `resume`
    /// no longer exists, or with [`ReturnTo::NextNumber`], this is the first rule with a higher
    /// number.
    fn position_after(&self, resume: ResumePoint, to: ReturnTo) -> usize {
        match self.config.list.position(resume.rule) {
            // A next rule exists, because the default rule is never a resume point.
            Some(position) if to == ReturnTo::NextRule => position + 1,
            _ => self.config.list.first_from(resume.number.saturating_add(1)),
        }
    }

    /// Runs one rule: `prob`, states, patterns, a new state and the action, in ipfw's order. If the
    /// draw of `prob` can only affect this rule's match, it is postponed until the patterns match.
    pub(super) fn step(&mut self, at: usize) -> RuleStep {
        let config = self.config;
        let entry = &self.entries[at];
        let rule = &*entry.rule;
        if !config.is_enabled(rule.set) {
            return RuleStep::Next;
        }
        let lookup = entry.lookup.filter(|id| self.crossing.search.wants(*id));
        if let Some(id) = lookup {
            if !self.is_drawn(rule) {
                return RuleStep::Next;
            }
            if let Some(position) = self.look_up(id, at) {
                return self.act_for_state(position);
            }
        }
        self.ask(at, lookup.is_some())
    }

    fn is_drawn(&mut self, rule: &Rule) -> bool {
        rule.chance.is_none_or(|chance| chance.admits(self.resources.draws.next_u64()))
    }

    /// Runs a rule after its state lookup. `is_drawn` is whether `prob` was already drawn for the
    /// rule.
    fn ask(&mut self, at: usize, is_drawn: bool) -> RuleStep {
        let entry = &self.entries[at];
        let rule = &*entry.rule;
        if matches!(rule.action, RuleAction::CheckState(_)) {
            return RuleStep::Next;
        }
        let mut question = self.question(entry);
        if !question.matches(rule) {
            return RuleStep::Next;
        }
        // The value is copied, because `question` borrows `self`, which is changed below.
        let tablearg = question.tablearg.cloned();
        if !is_drawn && !self.is_drawn(rule) {
            return RuleStep::Next;
        }
        if let Some(keep) = &rule.keep {
            match self.keep(entry, keep, tablearg.as_ref()) {
                Err(refusal) => {
                    // The packet is dropped and still counts as matched by this rule.
                    self.count(at);
                    return RuleStep::Done(RuleVerdict::Deny(match refusal {
                        StateRefusal::Full => DenyReason::StatesFull,
                        StateRefusal::Limit => DenyReason::StateLimit,
                    }));
                }
                Ok(()) if rule.defer => return RuleStep::Next,
                Ok(()) => {}
            }
        }
        self.act(at, tablearg.as_ref())
    }

    /// Runs the action of a state's rule. If the action does not end the search, the search
    /// continues after that rule, no matter which rule looked up the state.
    pub(super) fn act_for_state(&mut self, position: usize) -> RuleStep {
        match self.act(position, None) {
            RuleStep::Next => RuleStep::Jump(position + 1),
            other => other,
        }
    }

    /// Looks up the packet's state for the rule at `at`; returns the index of the rule that created
    /// the state; `None` if there is no state.
    #[inline]
    pub(super) fn look_up(&mut self, id: StateNameId, at: usize) -> Option<usize> {
        self.crossing.search.record(id);
        self.hit(probes(&self.entries[at].rule).flatten())
    }

    pub(super) fn question(&self, entry: &RuleEntry) -> RuleQuery<'_> {
        RuleQuery {
            config: self.config,
            packet: self.packet,
            frame: self.frame,
            crossing: self.crossing,
            number: entry.number,
            set: entry.rule.set,
            tablearg: None,
        }
    }

    fn hit(&mut self, name: Option<&ObjectName>) -> Option<usize> {
        if self.packet.version == IpFamily::None {
            return None;
        }
        let flow = self.packet.flow();
        let hash = *self.hash.get_or_insert_with(|| self.states.hash(&flow));
        let hit = self.states.hit((flow, hash), name, &self.update(), self.now)?;
        self.config.list.position(hit.rule)
    }

    fn update(&self) -> StateUpdate {
        StateUpdate {
            tcp_flags: if self.packet.is_tcp() { self.packet.tcp_flags } else { 0 },
            tcp_ack: if self.packet.is_tcp() {
                options::tcp_word(self.frame, self.packet, 8)
            } else {
                0
            },
            bytes: self.packet.counted_len,
        }
    }

    /// Creates the state of a rule. Packets other than IP have no flow, so they get no state.
    fn keep(
        &mut self,
        entry: &RuleEntry,
        keep: &KeepState,
        tablearg: Option<&TableValue>,
    ) -> Result<(), StateRefusal> {
        if self.packet.version == IpFamily::None {
            return Ok(());
        }
        let limit = keep.limit.map(|StateLimit { fields, max: most }| {
            (fields, number(most, ValueKind::Limit, tablearg))
        });
        let flow = self.packet.flow();
        let hash = *self.hash.get_or_insert_with(|| self.states.hash(&flow));
        let new = NewState {
            flow,
            name: keep.name.clone(),
            rule: entry.id,
            number: entry.number,
            limit,
            link: FlowEthernet::of(self.packet),
            port: self.crossing.recv,
        };
        self.states.make(new, hash, &self.update(), self.now)
    }

    #[inline]
    pub(super) fn count(&mut self, at: usize) {
        self.counters[at].count(1, self.packet.counted_len.into(), self.now);
    }

    /// Counts, logs and tags the packet, and runs the action of the rule at index `at`.
    pub(super) fn act(&mut self, at: usize, tablearg: Option<&TableValue>) -> RuleStep {
        let entry = &self.entries[at];
        let rule = &*entry.rule;
        self.count(at);
        if rule.log.is_some() {
            self.log(at);
        }
        for change in &rule.tags {
            let tag = number(change.tag, ValueKind::Tag, tablearg) as u16;
            match change.op {
                TagOp::Remove => self.crossing.tags.retain(|has| *has != tag),
                TagOp::Add if self.crossing.tags.contains(&tag) => {}
                TagOp::Add => self.crossing.tags.push(tag),
            }
        }
        let resume = ResumePoint { rule: entry.id, number: entry.number };
        self.action(&rule.action, resume, tablearg)
    }

    fn action(
        &mut self,
        action: &RuleAction,
        here: ResumePoint,
        tablearg: Option<&TableValue>,
    ) -> RuleStep {
        match action {
            RuleAction::Allow => RuleStep::Done(RuleVerdict::Accept),
            RuleAction::Deny => RuleStep::Done(RuleVerdict::Deny(DenyReason::Rule)),
            RuleAction::Count | RuleAction::CheckState(_) => RuleStep::Next,
            RuleAction::SkipTo(to) => {
                let to = number(*to, ValueKind::SkipTo, tablearg).min(65535) as u16;
                RuleStep::Jump(self.config.list.first_from(to.max(here.number.saturating_add(1))))
            }
            RuleAction::Call(to) => self.call(number(*to, ValueKind::SkipTo, tablearg), here),
            RuleAction::Return(to) => match self.crossing.calls.pop() {
                Some(caller) => RuleStep::Jump(self.position_after(caller, *to)),
                None => RuleStep::Next,
            },
            RuleAction::Pipe(pipe) => {
                self.hand_over(RuleVerdict::Pipe, number(*pipe, ValueKind::Pipe, tablearg), here)
            }
            RuleAction::Queue(queue) => {
                self.hand_over(RuleVerdict::Queue, number(*queue, ValueKind::Pipe, tablearg), here)
            }
            RuleAction::Unreach(unreach) => self.reject(RejectReply::Unreach(*unreach)),
            RuleAction::Unreach6(code) => self.reject(RejectReply::Unreach6(*code)),
            RuleAction::Reset => self.reject(RejectReply::Reset),
            RuleAction::Abort => self.reject(RejectReply::Abort),
            RuleAction::Reset6 if self.packet.version == IpFamily::V6 => {
                self.reject(RejectReply::Reset)
            }
            RuleAction::Abort6 if self.packet.version == IpFamily::V6 => {
                self.reject(RejectReply::Abort)
            }
            RuleAction::Reset6 | RuleAction::Abort6 => {
                RuleStep::Done(RuleVerdict::Deny(DenyReason::Rule))
            }
            RuleAction::Forward(hop) => {
                RuleStep::Done(RuleVerdict::Forward(self.hop(hop, tablearg)))
            }
            RuleAction::SetDscp(dscp) => {
                let dscp = number(*dscp, ValueKind::Dscp, tablearg) as u8 & 63;
                rewrite::set_dscp(self.frame, self.packet, dscp);
                RuleStep::Next
            }
            RuleAction::SetMark(mark) => {
                self.crossing.mark = number(*mark, ValueKind::Mark, tablearg);
                RuleStep::Next
            }
            RuleAction::TcpSetMss(mss) => {
                rewrite::set_mss(self.frame, self.packet, *mss);
                RuleStep::Next
            }
            RuleAction::Reass => self.reassemble(here),
            RuleAction::Nat(nat) => {
                let instance = match nat {
                    NatRef::Instance(arg) => {
                        NatRef::Instance(Arg::Number(number(*arg, ValueKind::Nat, tablearg)))
                    }
                    NatRef::Global => NatRef::Global,
                };
                self.crossing.resume = Some(here);
                RuleStep::Done(RuleVerdict::Nat(instance))
            }
            RuleAction::Nptv6(name) => {
                self.crossing.resume = Some(here);
                RuleStep::Done(RuleVerdict::Nptv6(name.clone()))
            }
        }
    }

    fn call(&mut self, to: u32, here: ResumePoint) -> RuleStep {
        if self.crossing.calls.len() >= MAX_CALLS {
            return RuleStep::Done(RuleVerdict::Deny(DenyReason::CallDepth));
        }
        if self.crossing.search.call_is_too_many() {
            return RuleStep::Done(RuleVerdict::Deny(DenyReason::CallLoop));
        }
        self.crossing.calls.push(here);
        RuleStep::Jump(self.config.list.first_from(to.min(65535) as u16))
    }

    fn hand_over(
        &mut self,
        verdict: fn(u32) -> RuleVerdict,
        number: u32,
        here: ResumePoint,
    ) -> RuleStep {
        if number == 0 {
            return RuleStep::Done(RuleVerdict::Deny(DenyReason::NoNumber));
        }
        self.crossing.resume = Some(here);
        RuleStep::Done(verdict(number))
    }

    fn reassemble(&mut self, here: ResumePoint) -> RuleStep {
        const MORE_FRAGMENTS: u16 = 0x2000;
        let is_fragment = self.packet.ip_off & (MORE_FRAGMENTS | 0x1fff) != 0;
        if self.packet.version != IpFamily::V4 || !is_fragment {
            return RuleStep::Next;
        }
        self.crossing.resume = Some(here);
        RuleStep::Done(RuleVerdict::Held)
    }

    fn hop(&self, hop: &NextHop, tablearg: Option<&TableValue>) -> NextHop {
        let NextHop::Tablearg(port) = hop else { return hop.clone() };
        let (v4, v6) =
            tablearg.map_or((0, 0), |value| (value.number(ValueKind::Ipv4), value.ipv6()));
        match self.packet.version {
            IpFamily::V6 => NextHop::V6(v6.into(), *port),
            _ => NextHop::V4(v4.into(), *port),
        }
    }

    fn reject(&mut self, answer: RejectReply) -> RuleStep {
        if self.out.leaves_errors
            && let Some(message) = reply::error_of(self.packet, answer)
        {
            return RuleStep::Done(RuleVerdict::Reject(message));
        }
        let limits = (&mut self.resources.errors, self.now);
        if let Some(frame) = reply::answer(self.frame, self.packet, answer, limits) {
            let toward = match (self.crossing.pass, self.crossing.recv) {
                (_, Some(port)) => EmissionTarget::Port(port),
                (CheckPass::In | CheckPass::Out, None) => EmissionTarget::All,
            };
            self.out.frames.push(EmittedFrame { target: toward, frame });
        }
        RuleStep::Done(RuleVerdict::Deny(DenyReason::Rule))
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

fn number(arg: Arg, kind: ValueKind, tablearg: Option<&TableValue>) -> u32 {
    match arg {
        Arg::Number(number) => number,
        Arg::Tablearg => tablearg.map_or(0, |value| value.number(kind)),
    }
}
