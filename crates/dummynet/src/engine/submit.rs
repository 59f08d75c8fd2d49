//! The path of a packet from the rule that submits it to its queue.

use alloc::boxed::Box;

use slipring_model::Stream;
use slipring_model::aqm::{
    AqmDropCause as FairCause, CoDel, FairQueue, FqCoDel, FqPie, MultiQueue, Pie, QueuedPacket,
};

use super::admission::{AdmissionDecision, QueuePolicy};
use super::counters::{FlowTotals, ShaperCounters, ShaperDropCause};
use super::event::{ShaperEvent, ShaperPacket, ShaperTarget};
use super::flows::{FlowQueue, FlowQueues};
use super::instance::{FairQueues, InstanceQueues, NEVER_NS, SchedInstance};
use super::link::PipeLink;
use super::objects::{Flowset, Sched};
use super::pool::{PacketChain, PacketPool, PooledPacket};
use super::sink::EventSink;
use super::{Dummynet, ShaperSettings, SubmitResult};
use crate::flow::{FlowMask, ShaperFlowId, ShaperFlowKey};
use crate::sched::FlowScheduler;
use crate::spec::SchedKind;

impl<H: Copy> Dummynet<H> {
    /// Takes a packet that a rule sends to `object`. This packet may be dropped, or other packets
    /// may be dropped in its place. Losses and marks are reported to `tell`. If a previous call had
    /// a later time than `now_ns`, that later time is used.
    ///
    /// The result is [`SubmitResult::Accepted`] even if flow queueing drops the packet, by its
    /// limits or AQM.
    pub fn submit(
        &mut self,
        now_ns: u64,
        object: ShaperTarget,
        key: &ShaperFlowKey,
        packet: ShaperPacket<H>,
        tell: &mut impl FnMut(ShaperEvent<H>),
    ) -> SubmitResult {
        let now_ns = self.tick(now_ns);
        let ShaperPacket { handle, rule, len, ecn } = packet;
        let held = PooledPacket { handle, rule, len, ecn, arrival_ns: now_ns };
        let found = self.objects.find(object);
        let Some((index, at)) = found.and_then(|index| Some((index, self.instance(index, key)?)))
        else {
            return self.refuse(found, &held, tell);
        };
        self.serve(at, now_ns, tell);
        let report = self.enqueue(index, at, key, &held, tell);
        self.serve(at, now_ns, tell);
        self.wake(at);
        report
    }

    /// Drops a packet for which there is no instance: its pipe, queue or scheduler does not exist,
    /// or there is no space for another instance. Returns the result for the sender.
    #[cold]
    fn refuse(
        &mut self,
        index: Option<u32>,
        held: &PooledPacket<H>,
        tell: &mut impl FnMut(ShaperEvent<H>),
    ) -> SubmitResult {
        let flowset = index.map(|index| self.objects.flowset(index));
        let noerror = flowset.is_some_and(|flowset| flowset.policy.spec.noerror);
        let is_there = flowset.is_some_and(|flowset| flowset.sched.is_some());
        let cause = if is_there { ShaperDropCause::NoRoom } else { ShaperDropCause::NoObject };
        let mut none = ShaperCounters::default();
        let own = match flowset.and_then(|flowset| flowset.sched) {
            Some(index) => &mut self.objects.sched_mut(index).counters,
            None => &mut none,
        };
        let mut sink = EventSink::new(&mut self.counters, own, tell);
        sink.arrived();
        sink.lose(held.handle, held.arrival_ns, cause);
        report(noerror)
    }

    /// Returns the index of the instance for a packet of a flowset, and creates the instance if
    /// needed; `None` if there is no space for another instance, or no scheduler.
    #[inline]
    fn instance(&mut self, index: u32, key: &ShaperFlowKey) -> Option<u32> {
        let (flowset, sched, _) = self.objects.pair_mut(index)?;
        if sched.mask.is_none() {
            if let Some(at) = sched.single {
                return Some(at);
            }
            return self.make_instance(index, ShaperFlowId::default(), 0);
        }
        let id = sched.mask.apply(key, flowset.number);
        let hash = id.hash(self.keys);
        let instances = &self.instances;
        let found = sched.index.find(hash, |&at| instances[at as usize].id == id);
        match found {
            Some(&at) => Some(at),
            None => self.make_instance(index, id, hash),
        }
    }

    #[cold]
    fn make_instance(&mut self, index: u32, id: ShaperFlowId, hash: u64) -> Option<u32> {
        let sched_place = self.objects.flowset(index).sched?;
        self.expire_some_instances(sched_place);
        let (flowset, sched, _) = self.objects.pair_mut(index)?;
        if sched.index.len() >= self.settings.max_dynamic {
            return None;
        }
        let (seed, number) = (self.seed, self.instances_created);
        self.instances_created += 1;
        let instance = SchedInstance {
            sched: sched_place,
            id,
            hash,
            line: sched.link.line(|| Stream::numbered(seed, "dummynet/profile", number)),
            due_ns: NEVER_NS,
            event_ns: NEVER_NS,
            last_ns: self.now_ns,
            totals: FlowTotals::default(),
            leftover: PacketChain::default(),
            queues: queues(sched, flowset),
            is_listed: true,
        };
        let at = match self.free.pop() {
            Some(at) => {
                // An event of the instance that had this index before may still be pending. It is
                // harmless: an event only causes a check of the instance.
                self.instances[at as usize] = instance;
                at
            }
            None => {
                self.instances.push(instance);
                self.instances.len() as u32 - 1
            }
        };
        if sched.mask.is_none() {
            sched.single = Some(at);
        } else {
            let instances = &self.instances;
            sched.index.insert_unique(hash, at, |&other| instances[other as usize].hash);
        }
        Some(at)
    }

    /// Decides whether a packet may enter its queue, and if so, adds it. A FIFO without AQM sends
    /// the packet directly if the link is free. Returns the result for the sender.
    #[inline]
    fn enqueue(
        &mut self,
        index: u32,
        at: u32,
        key: &ShaperFlowKey,
        held: &PooledPacket<H>,
        tell: &mut impl FnMut(ShaperEvent<H>),
    ) -> SubmitResult {
        let Some((flowset, sched, sched_place)) = self.objects.pair_mut(index) else {
            return SubmitResult::Refused;
        };
        let instance = &mut self.instances[at as usize];
        let Sched { kind, link, policy, mask, counters, .. } = sched;
        let mut sink = EventSink::new(&mut self.counters, counters, tell);
        let noerror = flowset.policy.spec.noerror;
        instance.totals.arrived(held.len);
        instance.last_ns = held.arrival_ns;
        let is_free = instance.is_free(held.arrival_ns);
        sink.arrived();
        let admission = match &mut instance.queues {
            InstanceQueues::Fifo(flow) => {
                let policy = policy.as_mut().unwrap_or(&mut flowset.policy);
                let admission =
                    policy.admit(flow.admission.as_deref_mut(), flow.chain.view(), held);
                let is_plain =
                    flow.admission.is_none() && matches!(admission, AdmissionDecision::In);
                if is_plain && is_free {
                    sink.sent();
                    let (delayed, overtakes) = (&mut self.delay_lines, !mask.is_none());
                    instance.send(held.arrival_ns, held, link, &mut |out_ns, outgoing| {
                        delayed.push(sched_place, out_ns, outgoing, overtakes);
                    });
                    return SubmitResult::Accepted;
                }
                if !matches!(admission, AdmissionDecision::Lost(_)) {
                    self.pool.push(&mut flow.chain, *held);
                }
                admission
            }
            InstanceQueues::Flows(flows) => {
                let admitter =
                    QueueAdmitter { flowset, kind, link, flowset_index: index, keys: self.keys };
                admitter.admit(flows, key, held, &self.settings, &mut self.pool)
            }
            InstanceQueues::Fair(fair) => {
                let hash = FlowMask::ALL.apply(key, 0).hash(self.keys) as u32;
                fair.admit(hash, held, &mut flowset.policy, &mut instance.totals, &mut sink)
            }
        };
        match admission {
            AdmissionDecision::Lost(cause) => {
                instance.totals.drops += 1;
                sink.lose(held.handle, held.arrival_ns, cause);
                return report(noerror);
            }
            AdmissionDecision::InMarked => sink.mark(held.handle),
            AdmissionDecision::In => {}
        }
        if instance.due_ns == NEVER_NS {
            instance.due_ns = instance.line.free_ns().max(held.arrival_ns);
        }
        SubmitResult::Accepted
    }
}

const fn report(noerror: bool) -> SubmitResult {
    if noerror { SubmitResult::Accepted } else { SubmitResult::Refused }
}

/// Admits the packets of one flowset to the queues of their flows.
struct QueueAdmitter<'o> {
    flowset: &'o mut Flowset,
    kind: &'o SchedKind,
    link: &'o PipeLink,
    flowset_index: u32,
    keys: [u64; 2],
}

impl QueueAdmitter<'_> {
    /// Finds or creates the queue of a packet's flow. Decides whether the packet may enter the
    /// queue, and adds it if so. Returns the decision.
    #[inline]
    fn admit<H: Copy>(
        self,
        flows: &mut FlowQueues,
        key: &ShaperFlowKey,
        held: &PooledPacket<H>,
        settings: &ShaperSettings,
        pool: &mut PacketPool<H>,
    ) -> AdmissionDecision {
        let id = self.flowset.mask.apply(key, self.flowset.number);
        let hash = id.hash(self.keys) ^ u64::from(self.flowset_index) << 40;
        let found = flows.find(self.flowset_index, &id, hash);
        let Some(index) = found.or_else(|| self.make(flows, id, hash, held.arrival_ns, settings))
        else {
            return AdmissionDecision::Lost(ShaperDropCause::NoRoom);
        };
        let flow = flows.flow(index);
        flow.totals.arrived(held.len);
        flow.last_ns = held.arrival_ns;
        let view = flow.chain.view();
        let admission = self.flowset.policy.admit(flow.admission.as_deref_mut(), view, held);
        if let AdmissionDecision::Lost(_) = admission {
            flow.totals.drops += 1;
        } else {
            flows.push(index, *held, pool);
        }
        admission
    }

    /// Creates a queue and returns its index; `None` if there is no space for another queue.
    #[cold]
    fn make(
        &self,
        flows: &mut FlowQueues,
        id: ShaperFlowId,
        hash: u64,
        now_ns: u64,
        settings: &ShaperSettings,
    ) -> Option<u32> {
        flows.expire_some(now_ns, settings.expire_ns);
        if flows.len() >= settings.max_dynamic {
            return None;
        }
        let gate = self.flowset.policy.new_admission(self.link.spec.bits_per_sec);
        let gate = gate.expect("policies are judged when configured");
        let flow = FlowQueue {
            admission: gate,
            flowset: self.flowset_index,
            last_ns: now_ns,
            ..FlowQueue::default()
        };
        Some(flows.make(flow, id, hash, self.flowset.share_in(self.kind)))
    }
}

impl<H: Copy> FairQueues<H> {
    /// Adds a packet to its flow's queue, unless `plr` drops it. Flow queueing may then drop this
    /// packet or other packets, to keep its limits or by AQM.
    fn admit(
        &mut self,
        flow: u32,
        held: &PooledPacket<H>,
        policy: &mut QueuePolicy,
        totals: &mut FlowTotals,
        sink: &mut EventSink<'_, H, impl FnMut(ShaperEvent<H>)>,
    ) -> AdmissionDecision {
        if policy.loses(self.admission.as_deref_mut()) {
            return AdmissionDecision::Lost(ShaperDropCause::Loss);
        }
        let PooledPacket { handle, rule, len, arrival_ns, ecn } = *held;
        let entry = QueuedPacket { handle: (handle, rule), len, arrival_ns, flow, ecn };
        self.multi.enqueue(arrival_ns, entry, policy.aqm_draws(), &mut |entry, cause| {
            totals.drops += 1;
            let cause = match cause {
                FairCause::Limit => ShaperDropCause::Full,
                FairCause::Aqm => ShaperDropCause::Aqm,
            };
            sink.lose(entry.handle.0, arrival_ns, cause);
        });
        AdmissionDecision::In
    }
}

/// Creates the queues of a new instance of `sched`.
pub(crate) fn queues<H>(sched: &Sched, flowset: &Flowset) -> InstanceQueues<H> {
    const JUDGED: &str = "parameters are judged when configured";
    let bits_per_sec = sched.link.spec.bits_per_sec;
    let fair = |multi| {
        let gate = flowset.policy.new_admission(bits_per_sec).expect(JUDGED);
        InstanceQueues::Fair(Box::new(FairQueues { multi, admission: gate }))
    };
    match &sched.kind {
        SchedKind::Fifo => {
            let policy = sched.policy.as_ref().unwrap_or(&flowset.policy);
            let gate = policy.new_admission(bits_per_sec).expect(JUDGED);
            InstanceQueues::Fifo(FlowQueue { admission: gate, ..FlowQueue::default() })
        }
        SchedKind::FqCodel(spec, codel) => {
            let queue: FqCoDel<_> = FairQueue::<_, CoDel>::new(spec, codel).expect(JUDGED);
            fair(MultiQueue::FqCoDel(queue))
        }
        SchedKind::FqPie(spec, pie) => {
            let queue: FqPie<_> = FairQueue::<_, Pie>::new(spec, pie).expect(JUDGED);
            fair(MultiQueue::FqPie(queue))
        }
        kind => {
            let turns = FlowScheduler::new(kind).expect("all others take turns");
            InstanceQueues::Flows(Box::new(FlowQueues::new(turns)))
        }
    }
}
