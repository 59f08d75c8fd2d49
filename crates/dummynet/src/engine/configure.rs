//! Creates, changes and deletes objects, even while packets are in them.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use hashbrown::HashTable;
use slipring_model::aqm::{CoDel, FairQueue, MultiQueue, Pie};
use slipring_model::{ParameterError, Stream};

use super::Dummynet;
use super::admission::{self, QueuePolicy};
use super::counters::{ShaperCounters, ShaperDropCause};
use super::event::ShaperEvent;
use super::instance::{InstanceQueues, NEVER_NS};
use super::link::PipeLink;
use super::objects::{FIFO_FLOWSET, FIFO_SCHED, Flowset, Sched};
use super::sink::EventSink;
use super::submit::queues;
use crate::flow::FlowMask;
use crate::spec::{
    ObjectNumber, PipeLinkSpec, PipeSpec, PolicySpec, SchedKind, SchedSpec, ShaperQueueSpec,
    ShareSpec,
};

/// A parsed `config` command: the object to create or change, with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum ShaperConfig {
    /// The command `pipe N config`, with N and its parameters.
    Pipe(ObjectNumber, PipeSpec),
    /// The command `queue N config`, with N and its parameters.
    Queue(ObjectNumber, ShaperQueueSpec),
    /// The command `sched N config`, with N and its parameters.
    Sched(ObjectNumber, SchedSpec),
}

impl ShaperConfig {
    /// Splits the configuration into commands that can be printed. All words after a parameter of
    /// CoDel or PIE belong to this parameter. So an object with CoDel or PIE parameters both for
    /// its flows and for its queue needs two commands.
    #[must_use]
    pub fn into_commands(self) -> Vec<Self> {
        let (kind, policy) = match &self {
            Self::Pipe(_, pipe) => (pipe.kind, pipe.policy),
            Self::Sched(_, sched) => (sched.kind, sched.policy),
            Self::Queue(..) => (None, PolicySpec::default()),
        };
        let is_both = kind.is_some_and(|kind| kind.manages_queues());
        if !is_both || !policy.aqm.takes_trailing_parameters() {
            return alloc::vec![self];
        }
        let mut rest = self;
        let first = match &mut rest {
            Self::Pipe(number, pipe) => {
                Self::Pipe(*number, PipeSpec { kind: pipe.kind.take(), ..PipeSpec::default() })
            }
            Self::Sched(number, sched) => {
                Self::Sched(*number, SchedSpec { kind: sched.kind.take(), ..SchedSpec::default() })
            }
            Self::Queue(..) => return alloc::vec![rest],
        };
        alloc::vec![first, rest]
    }
}

/// The kinds of objects. Each kind is named after the command that configures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A pipe, by the command `pipe`.
    Pipe,
    /// A queue, by the command `queue`.
    Queue,
    /// A scheduler, by the command `sched`.
    Sched,
}

impl ObjectKind {
    /// Returns the word with which the command starts, such as `pipe`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Queue => "queue",
            Self::Sched => "sched",
        }
    }
}

/// Why a change was refused. A refused change has no effect.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ShaperConfigError {
    /// The number of an object is not in 1 to 65535.
    #[error("0 is no number of a pipe, queue or scheduler: they are 1 to 65535")]
    NumberZero,
    /// A new queue must name its pipe or scheduler. Contains the number of the queue that does not.
    #[error("queue {0} is new and names no `pipe N` or `sched N`")]
    NoParent(ObjectNumber),
    /// A parameter is out of range.
    #[error("{0}")]
    Parameter(#[from] ParameterError),
    /// The command deletes objects, but none of them exists.
    #[error("there is no {} {number}", kind.name())]
    NotFound {
        /// The kind of the object in the command.
        kind: ObjectKind,
        /// The number in the command; the first one of a range.
        number: ObjectNumber,
    },
}

impl<H: Copy> Dummynet<H> {
    /// Creates or changes an object. As in dummynet, a pipe is configured as a whole: parameters
    /// that the command omits get their defaults.
    ///
    /// A change affects packets that are already in the engine as follows:
    /// - Waiting packets keep waiting, in their order. No change loses any of them.
    /// - A new bandwidth or delay applies from the next packet that is put on the link. No packet
    ///   overtakes another one of its link.
    /// - New limits and losses apply to arriving packets. If only parameters of AQM change, AQM
    ///   keeps its state. If another algorithm is chosen, it starts without state.
    /// - A new weight applies from the queue's next packet (RR: next turn; QFQ: immediately).
    /// - If the scheduler changes, the waiting packets leave first, in the order of the old
    ///   scheduler, or in the order of their arrival if that was flow queueing.
    /// - If the mask changes, the old dynamic queues and pipes are emptied in parallel with the new
    ///   ones. If a queue moves to another parent, its packets stay with the old parent.
    ///
    /// # Errors
    /// [`ShaperConfigError`] if the number or a parameter is invalid, or a new queue has no parent.
    pub fn configure(
        &mut self,
        now_ns: u64,
        config: ShaperConfig,
        tell: &mut impl FnMut(ShaperEvent<H>),
    ) -> Result<(), ShaperConfigError> {
        let now_ns = self.tick(now_ns);
        self.serve_all(now_ns, tell);
        match config {
            ShaperConfig::Pipe(number, spec) => self.configure_pipe(number, &spec, tell),
            ShaperConfig::Queue(number, spec) => self.configure_queue(number, &spec),
            ShaperConfig::Sched(number, spec) => self.configure_sched(number, &spec, tell),
        }
    }

    fn configure_pipe(
        &mut self,
        number: ObjectNumber,
        spec: &PipeSpec,
        tell: &mut impl FnMut(ShaperEvent<H>),
    ) -> Result<(), ShaperConfigError> {
        let number = check_number(number)?;
        admission::aqm(&spec.policy, self.settings.red, spec.link.bits_per_sec)?;
        validate(spec.kind.as_ref())?;
        let link = Some(&spec.link);
        self.put_sched(number, spec.kind, link, spec.mask, spec.buckets, tell);
        let fifo = number + FIFO_SCHED;
        self.put_sched(fifo, Some(SchedKind::Fifo), link, spec.mask, spec.buckets, tell);
        let share = ShareSpec::default();
        self.put_flowset(number + FIFO_FLOWSET, fifo, share, &spec.policy, FlowMask::NONE, None);
        Ok(())
    }

    fn configure_queue(
        &mut self,
        number: ObjectNumber,
        spec: &ShaperQueueSpec,
    ) -> Result<(), ShaperConfigError> {
        let at = check_number(number)?;
        admission::aqm(&spec.policy, self.settings.red, 0)?;
        let index = self.objects.flowset_indices.get(&at);
        let old = index.map(|&index| self.objects.flowset(index));
        let parent = spec.parent.map(u32::from).or(old.map(|old| old.parent));
        let parent = parent.ok_or(ShaperConfigError::NoParent(number))?;
        let before = old.map_or(ShareSpec::default(), |old| old.share);
        let share = ShareSpec {
            weight: spec.share.weight.or(before.weight),
            lmax: spec.share.lmax.or(before.lmax),
            priority: spec.share.priority.or(before.priority),
        };
        self.put_flowset(at, parent, share, &spec.policy, spec.mask, spec.buckets);
        Ok(())
    }

    fn configure_sched(
        &mut self,
        number: ObjectNumber,
        spec: &SchedSpec,
        tell: &mut impl FnMut(ShaperEvent<H>),
    ) -> Result<(), ShaperConfigError> {
        let number = check_number(number)?;
        admission::aqm(&spec.policy, self.settings.red, 0)?;
        validate(spec.kind.as_ref())?;
        let index = self.put_sched(number, spec.kind, None, spec.mask, spec.buckets, tell);
        let (seed, red) = (self.seed, self.settings.red);
        let sched = self.objects.sched_mut(index);
        match &mut sched.policy {
            Some(policy) => policy.change(&spec.policy, red),
            None => sched.policy = Some(QueuePolicy::new(&spec.policy, red, seed, number)),
        }
        self.apply_policies(index);
        Ok(())
    }

    /// Creates or changes a scheduler; returns its index.
    fn put_sched(
        &mut self,
        number: u32,
        kind: Option<SchedKind>,
        link: Option<&PipeLinkSpec>,
        mask: FlowMask,
        buckets: Option<u32>,
        tell: &mut impl FnMut(ShaperEvent<H>),
    ) -> u32 {
        let Some(&index) = self.objects.sched_indices.get(&number) else {
            let link = PipeLink::new(link.unwrap_or(&PipeLinkSpec::default()));
            let sched = Sched {
                number,
                kind: kind.unwrap_or_default(),
                link,
                policy: None,
                mask,
                buckets,
                single: None,
                index: HashTable::new(),
                sweep_position: 0,
                counters: ShaperCounters::default(),
            };
            // Packets in the delay refer to their scheduler by its index. So an index is reused
            // only when no packet in the delay refers to it.
            let delayed = &self.delay_lines;
            return self.objects.add_sched(sched, |index| delayed.is_clear(index));
        };
        let sched = self.objects.sched_mut(index);
        sched.buckets = buckets;
        let old_mask = core::mem::replace(&mut sched.mask, mask);
        if !same_flows(&old_mask, &mask) {
            self.unlist_all(index);
        }
        if let Some(link) = link {
            self.change_link(index, link, tell);
        }
        if let Some(kind) = kind {
            self.change_kind(index, kind, tell);
        }
        index
    }

    fn put_flowset(
        &mut self,
        number: u32,
        parent: u32,
        share: ShareSpec,
        policy: &PolicySpec,
        mask: FlowMask,
        buckets: Option<u32>,
    ) {
        let (sched, red) = (self.objects.sched_indices.get(&parent).copied(), self.settings.red);
        let Some(&index) = self.objects.flowset_indices.get(&number) else {
            let policy = QueuePolicy::new(policy, red, self.seed, number);
            let flowset = Flowset { number, parent, sched, policy, share, mask, buckets };
            self.objects.add_flowset(flowset);
            return;
        };
        let flowset = self.objects.flowset_mut(index);
        let moved = flowset.sched != sched || !same_flows(&flowset.mask, &mask);
        let old_sched = flowset.sched;
        flowset.policy.change(policy, red);
        *flowset = Flowset { parent, sched, share, mask, buckets, ..flowset.clone() };
        if let Some(old) = old_sched {
            if moved {
                self.each_flows(old, |flows| flows.retire(index));
            } else {
                let share = self.objects.flowset(index).share_in(&self.objects.sched(old).kind);
                self.each_flows(old, |flows| flows.share(index, share));
            }
            self.apply_policies(old);
        }
    }

    /// Changes the queues of a scheduler to match the policies that apply to them.
    fn apply_policies(&mut self, index: u32) {
        let sched = self.objects.sched(index);
        let bits_per_sec = sched.link.spec.bits_per_sec;
        let only = self.objects.children(index).first().copied();
        for instance in self.instances.iter_mut().filter(|instance| instance.sched == index) {
            match &mut instance.queues {
                InstanceQueues::Flows(flows) => {
                    for flow in flows.iter_mut() {
                        let policy = &self.objects.flowset(flow.flowset).policy;
                        policy.update_admission(&mut flow.admission, bits_per_sec);
                    }
                }
                InstanceQueues::Fifo(flow) => {
                    let of_child = only.map(|only| &self.objects.flowset(only).policy);
                    if let Some(policy) = sched.policy.as_ref().or(of_child) {
                        policy.update_admission(&mut flow.admission, bits_per_sec);
                    }
                }
                InstanceQueues::Fair(fair) => {
                    if let Some(only) = only {
                        let policy = &self.objects.flowset(only).policy;
                        policy.update_admission(&mut fair.admission, bits_per_sec);
                    }
                }
            }
        }
    }

    fn change_link(
        &mut self,
        index: u32,
        spec: &PipeLinkSpec,
        tell: &mut impl FnMut(ShaperEvent<H>),
    ) {
        let (now_ns, seed) = (self.now_ns, self.seed);
        let sched = self.objects.sched_mut(index);
        if sched.link.spec == *spec {
            return;
        }
        sched.link = PipeLink::new(spec);
        for at in self.instances_of(index) {
            let instance = &mut self.instances[at as usize];
            let stream = || Stream::numbered(seed, "dummynet/profile", u64::from(at) << 32);
            self.objects.sched(index).link.relink(&mut instance.line, now_ns, stream);
            if instance.due_ns != NEVER_NS {
                instance.due_ns = instance.line.free_ns().max(now_ns);
            }
            self.serve(at, now_ns, tell);
            self.wake(at);
        }
        self.apply_policies(index);
    }

    fn change_kind(&mut self, index: u32, kind: SchedKind, tell: &mut impl FnMut(ShaperEvent<H>)) {
        let sched = self.objects.sched_mut(index);
        let old = core::mem::replace(&mut sched.kind, kind);
        if old == kind {
            return;
        }
        for at in self.instances_of(index) {
            if !self.retune(at, &kind) {
                self.replace_queues(at, tell);
            }
        }
    }

    /// Changes the parameters of an instance's flow queueing to those of `kind`. Returns false if
    /// the instance has no flow queueing, or has flow queueing of another kind.
    fn retune(&mut self, at: u32, kind: &SchedKind) -> bool {
        let InstanceQueues::Fair(fair) = &mut self.instances[at as usize].queues else {
            return false;
        };
        match (&mut fair.multi, kind) {
            (MultiQueue::FqCoDel(queue), SchedKind::FqCodel(spec, codel)) => {
                FairQueue::<_, CoDel>::retune(queue, spec, codel).is_ok()
            }
            (MultiQueue::FqPie(queue), SchedKind::FqPie(spec, pie)) => {
                FairQueue::<_, Pie>::retune(queue, spec, pie).is_ok()
            }
            _ => false,
        }
    }

    /// Replaces the queues of an instance after its scheduler has changed. The packets that wait in
    /// the old queues leave before all later packets.
    fn replace_queues(&mut self, at: u32, tell: &mut impl FnMut(ShaperEvent<H>)) {
        let instance = &mut self.instances[at as usize];
        let own = &mut self.objects.sched_mut(instance.sched).counters;
        let mut sink = EventSink::new(&mut self.counters, own, tell);
        let waiting = instance.drain(self.now_ns, &mut self.pool, &mut sink);
        for held in waiting {
            self.pool.push(&mut instance.leftover, held);
        }
        let sched = self.objects.sched(instance.sched);
        let children = self.objects.children(instance.sched);
        let flowset = children.first().map(|&index| self.objects.flowset(index));
        instance.queues = match flowset {
            Some(flowset) => queues(sched, flowset),
            None => InstanceQueues::Fifo(super::flows::FlowQueue::default()),
        };
        // Without a flowset, no packet can arrive. When a flowset is added, it gets a new instance
        // with new queues.
        if flowset.is_none() {
            self.unlist(at);
        }
    }

    /// Deletes objects of a kind. Packets that wait in them are lost, but not those in the delay,
    /// nor those of a deleted queue that a FIFO or flow queueing stores in the scheduler.
    ///
    /// If a pipe or scheduler is deleted, its queues still exist. They drop all packets until the
    /// pipe or scheduler is created again.
    ///
    /// # Errors
    /// [`ShaperConfigError::NotFound`] if none of the objects exists.
    pub fn delete(
        &mut self,
        now_ns: u64,
        kind: ObjectKind,
        numbers: RangeInclusive<ObjectNumber>,
        tell: &mut impl FnMut(ShaperEvent<H>),
    ) -> Result<(), ShaperConfigError> {
        let now_ns = self.tick(now_ns);
        self.serve_all(now_ns, tell);
        let indices = match kind {
            ObjectKind::Queue => &self.objects.flowset_indices,
            ObjectKind::Pipe | ObjectKind::Sched => &self.objects.sched_indices,
        };
        let range = u32::from(*numbers.start())..=u32::from(*numbers.end());
        let found: Vec<u32> = indices.range(range).map(|(&number, _)| number).collect();
        if found.is_empty() {
            return Err(ShaperConfigError::NotFound { kind, number: *numbers.start() });
        }
        for number in found {
            match kind {
                ObjectKind::Queue => self.delete_flowset(number, tell),
                ObjectKind::Sched => self.delete_sched(number, tell),
                ObjectKind::Pipe => {
                    self.delete_sched(number, tell);
                    self.delete_sched(number + FIFO_SCHED, tell);
                    self.delete_flowset(number + FIFO_FLOWSET, tell);
                }
            }
        }
        Ok(())
    }

    /// Deletes all objects, as `pipe flush`, `queue flush` and `sched flush` do. The three commands
    /// are equivalent.
    pub fn flush(&mut self, now_ns: u64, tell: &mut impl FnMut(ShaperEvent<H>)) {
        let now_ns = self.tick(now_ns);
        self.serve_all(now_ns, tell);
        let scheds: Vec<u32> = self.objects.sched_indices.keys().copied().collect();
        scheds.into_iter().for_each(|number| self.delete_sched(number, tell));
        let flowsets: Vec<u32> = self.objects.flowset_indices.keys().copied().collect();
        flowsets.into_iter().for_each(|number| self.delete_flowset(number, tell));
    }

    fn delete_flowset(&mut self, number: u32, tell: &mut impl FnMut(ShaperEvent<H>)) {
        let Some(&index) = self.objects.flowset_indices.get(&number) else { return };
        let now_ns = self.now_ns;
        for instance in &mut self.instances {
            if let InstanceQueues::Flows(flows) = &mut instance.queues {
                let own = &mut self.objects.sched_mut(instance.sched).counters;
                let mut sink = EventSink::new(&mut self.counters, own, tell);
                flows.remove(index, &mut self.pool, &mut |held| {
                    sink.lose(held.handle, now_ns, ShaperDropCause::Deleted);
                });
            }
        }
        self.objects.remove_flowset(number);
    }

    fn delete_sched(&mut self, number: u32, tell: &mut impl FnMut(ShaperEvent<H>)) {
        let Some(&index) = self.objects.sched_indices.get(&number) else { return };
        for at in self.instances_of(index) {
            let instance = &mut self.instances[at as usize];
            let own = &mut self.objects.sched_mut(index).counters;
            let mut sink = EventSink::new(&mut self.counters, own, tell);
            for held in instance.drain(self.now_ns, &mut self.pool, &mut sink) {
                sink.lose(held.handle, self.now_ns, ShaperDropCause::Deleted);
            }
            self.unlist(at);
            self.free_instance(at);
        }
        self.objects.remove_sched(number);
    }

    fn each_flows(&mut self, sched: u32, mut change: impl FnMut(&mut super::flows::FlowQueues)) {
        for instance in self.instances.iter_mut().filter(|instance| instance.sched == sched) {
            if let InstanceQueues::Flows(flows) = &mut instance.queues {
                change(flows);
            }
        }
    }
}

/// Checks that the parameters of a scheduler are in range.
fn validate(kind: Option<&SchedKind>) -> Result<(), ShaperConfigError> {
    match kind {
        Some(SchedKind::FqCodel(fair, codel)) => {
            fair.validate()?;
            codel.validate()?;
        }
        Some(SchedKind::FqPie(fair, pie)) => {
            fair.validate()?;
            pie.validate()?;
        }
        _ => {}
    }
    Ok(())
}

fn check_number(number: ObjectNumber) -> Result<u32, ShaperConfigError> {
    if number == 0 { Err(ShaperConfigError::NumberZero) } else { Ok(number.into()) }
}

/// Returns whether two masks distinguish the same flows.
fn same_flows(one: &FlowMask, other: &FlowMask) -> bool {
    FlowMask { shown_as_v6: false, ..*one } == FlowMask { shown_as_v6: false, ..*other }
}
