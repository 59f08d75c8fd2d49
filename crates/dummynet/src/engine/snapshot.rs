//! Collects the data that listings show.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::Dummynet;
use super::configure::{ObjectKind, ShaperConfig};
use super::flows::FlowQueues;
use super::instance::{InstanceQueues, SchedInstance};
use super::objects::{FIFO_FLOWSET, FIFO_SCHED, Flowset, Sched};
use crate::sched::QueueShare;
use crate::show::{
    FlowRow, FlowsetView, LinkView, PipeView, RowOrder, SchedListing, SchedView, ShaperListing,
    ShaperQueueView,
};
use crate::spec::{ObjectNumber, PipeSpec, SchedKind, SchedSpec, ShaperQueueSpec, ShareSpec};

/// The bit of a scheduler's `flags` which says that it has a mask.
const HAVE_MASK: u32 = 1;

impl<H: Copy> Dummynet<H> {
    /// Returns the listing of `pipe show`, `queue show` or `sched show`. It contains the objects
    /// whose numbers are in `ranges`, or all objects if `ranges` is empty. The packet counts are
    /// those after the last call that moved packets, such as [`Self::release`] or [`Self::submit`].
    pub fn show(
        &mut self,
        now_ns: u64,
        kind: ObjectKind,
        ranges: &[RangeInclusive<ObjectNumber>],
        order: RowOrder,
    ) -> ShaperListing {
        let is_in = |number: u32| {
            let number = (number % FIFO_SCHED) as ObjectNumber;
            ranges.is_empty() || ranges.iter().any(|range| range.contains(&number))
        };
        match kind {
            ObjectKind::Pipe => {
                let mut all = self.show_pipes(now_ns);
                all.retain(|pipe| is_in(pipe.link.number));
                all.iter_mut().for_each(|pipe| order.sort(&mut pipe.flows));
                ShaperListing::Pipes(all)
            }
            ObjectKind::Queue => {
                let mut all = self.show_queues(now_ns);
                all.retain(|queue| is_in(queue.flowset.number));
                all.iter_mut().for_each(|queue| order.sort(&mut queue.flows));
                ShaperListing::Queues(all)
            }
            ObjectKind::Sched => {
                let mut all = self.show_scheds(now_ns);
                all.retain(|sched| is_in(sched.sched.number));
                all.iter_mut().for_each(|sched| order.sort(&mut sched.flows));
                ShaperListing::Scheds(all)
            }
        }
    }

    /// Returns the contents of `pipe show` at `now_ns`, sorted by number.
    pub fn show_pipes(&mut self, now_ns: u64) -> Vec<PipeView> {
        self.refresh(now_ns);
        let numbers: Vec<u32> = self.objects.sched_indices.range(FIFO_SCHED..).map(pair).collect();
        numbers.into_iter().filter_map(|number| self.pipe_view(number)).collect()
    }

    /// Returns the contents of `queue show` at `now_ns`, sorted by number.
    pub fn show_queues(&mut self, now_ns: u64) -> Vec<ShaperQueueView> {
        self.refresh(now_ns);
        let indices = self.objects.flowset_indices.range(..FIFO_FLOWSET);
        let view = |(_, &index): (_, &u32)| {
            let flowset = self.objects.flowset(index);
            let flows = self.rows_of_flowset(flowset, index);
            ShaperQueueView { flowset: self.flowset_view(flowset, flows.len()), flows }
        };
        indices.map(view).collect()
    }

    /// Returns the contents of `sched show` at `now_ns`, sorted by number.
    pub fn show_scheds(&mut self, now_ns: u64) -> Vec<SchedListing> {
        self.refresh(now_ns);
        let indices = self.objects.sched_indices.range(..FIFO_SCHED);
        let view = |(_, &index): (_, &u32)| {
            let sched = self.objects.sched(index);
            let children = self.objects.children(index);
            SchedListing {
                link: link_view(sched),
                sched: self.sched_view(sched, index),
                children: children.iter().map(|&at| self.objects.flowset(at).number).collect(),
                flows: self.rows_of_sched(index),
            }
        };
        indices.map(view).collect()
    }

    /// Returns commands that recreate all objects, in an order in which they can be executed.
    #[must_use]
    pub fn configuration(&self) -> Vec<ShaperConfig> {
        let scheds = self.objects.sched_indices.range(..FIFO_SCHED);
        let all: Vec<_> = scheds.map(|(_, &index)| self.objects.sched(index)).collect();
        let pipes = all.iter().filter_map(|sched| self.pipe_config(sched));
        let scheds = all.iter().filter_map(|sched| self.sched_config(sched));
        let queues = self.objects.flowset_indices.range(..FIFO_FLOWSET);
        let queues = queues.map(|(_, &index)| queue_config(self.objects.flowset(index)));
        pipes.chain(scheds).flat_map(ShaperConfig::into_commands).chain(queues).collect()
    }

    fn pipe_config(&self, sched: &Sched) -> Option<ShaperConfig> {
        let index = self.objects.flowset_indices.get(&(sched.number + FIFO_FLOWSET))?;
        let flowset = self.objects.flowset(*index);
        let fifo = self.objects.sched(flowset.sched?);
        let Sched { link, mask, buckets, .. } = fifo;
        let (link, policy) = (link.spec.clone(), flowset.policy.spec);
        // If the scheduler was configured by `sched N config`, that command is returned separately,
        // and the pipe's command does not name the scheduler type.
        let is_own = sched.policy.is_none() && sched.kind != SchedKind::default();
        let kind = is_own.then_some(sched.kind);
        let spec = PipeSpec { link, policy, mask: *mask, buckets: *buckets, kind };
        Some(ShaperConfig::Pipe(sched.number as u16, spec))
    }

    /// Returns the command `sched N config` for a scheduler that was configured by this command;
    /// `None` if `pipe N config` alone recreates the scheduler.
    fn sched_config(&self, sched: &Sched) -> Option<ShaperConfig> {
        let Sched { kind, mask, buckets, policy, .. } = sched;
        let policy = policy.as_ref()?.spec;
        let spec = SchedSpec { kind: Some(*kind), mask: *mask, buckets: *buckets, policy };
        Some(ShaperConfig::Sched(sched.number as u16, spec))
    }

    /// Advances the time to `now_ns` and removes idle queues and instances.
    fn refresh(&mut self, now_ns: u64) {
        self.tick(now_ns);
        self.expire_all();
    }

    fn pipe_view(&self, number: u32) -> Option<PipeView> {
        let &index = self.objects.sched_indices.get(&number)?;
        let sched = self.objects.sched(index);
        let flowset = self.objects.flowset_indices.get(&(number - FIFO_SCHED + FIFO_FLOWSET))?;
        Some(PipeView {
            link: link_view(sched),
            flowset: self.flowset_view(self.objects.flowset(*flowset), 0),
            sched: self.sched_view(sched, index),
            flows: self.rows_of_sched(index),
        })
    }

    fn flowset_view(&self, flowset: &Flowset, flows: usize) -> FlowsetView {
        let index = flowset.sched;
        let kind = index.map_or(SchedKind::Fifo, |index| self.objects.sched(index).kind);
        FlowsetView {
            number: flowset.number,
            policy: flowset.policy.spec,
            flows: flows as u32,
            buckets: self.buckets(&flowset.mask, flowset.buckets, 1),
            sched: flowset.parent,
            share: listed_share(&kind, &flowset.share),
            mask: flowset.mask,
        }
    }

    fn sched_view(&self, sched: &Sched, index: u32) -> SchedView {
        let has_mask = !sched.mask.is_none();
        SchedView {
            number: sched.number,
            kind: sched.kind,
            flags: u32::from(has_mask) * HAVE_MASK,
            buckets: self.buckets(&sched.mask, sched.buckets, 0),
            active: self.listed(index).count() as u32,
            mask: sched.mask,
        }
    }

    fn buckets(&self, mask: &crate::flow::FlowMask, given: Option<u32>, without: u32) -> u32 {
        if mask.is_none() { without } else { given.unwrap_or(self.settings.hash_size) }
    }

    fn listed(&self, sched: u32) -> impl Iterator<Item = &SchedInstance<H>> {
        self.instances.iter().filter(move |one| one.sched == sched && one.is_listed)
    }

    fn rows_of_sched(&self, sched: u32) -> Vec<FlowRow> {
        let row = |one: &SchedInstance<H>| {
            let (packets, bytes) = one.waiting();
            FlowRow {
                bucket: one.hash as u8,
                id: one.id,
                packets: one.totals.packets,
                bytes: one.totals.bytes,
                waiting: packets as u32,
                waiting_bytes: bytes,
                drops: one.totals.drops,
            }
        };
        self.listed(sched).map(row).collect()
    }

    fn rows_of_flowset(&self, flowset: &Flowset, index: u32) -> Vec<FlowRow> {
        let Some(sched) = flowset.sched else { return Vec::new() };
        let tables = self.listed(sched).filter_map(|one| match &one.queues {
            InstanceQueues::Flows(flows) => Some(&**flows),
            InstanceQueues::Fifo(_) | InstanceQueues::Fair(_) => None,
        });
        tables.flat_map(|flows| rows(flows, index)).collect()
    }
}

fn queue_config(flowset: &Flowset) -> ShaperConfig {
    let Flowset { number, parent, policy, share, mask, buckets, .. } = flowset;
    let parent = Some(*parent as u16);
    let (share, policy) = (*share, policy.spec);
    let spec = ShaperQueueSpec { parent, share, policy, mask: *mask, buckets: *buckets };
    ShaperConfig::Queue(*number as u16, spec)
}

fn pair((&number, _): (&u32, &u32)) -> u32 {
    number
}

fn rows(flows: &FlowQueues, index: u32) -> impl Iterator<Item = FlowRow> {
    flows.iter().filter(move |(flow, ..)| flow.flowset == index).map(|(flow, id, hash)| FlowRow {
        bucket: hash as u8,
        id: *id,
        packets: flow.totals.packets,
        bytes: flow.totals.bytes,
        waiting: flow.chain.packets(),
        waiting_bytes: flow.chain.bytes(),
        drops: flow.totals.drops,
    })
}

fn link_view(sched: &Sched) -> LinkView {
    let spec = &sched.link.spec;
    let profile = spec.profile.as_ref();
    LinkView {
        number: sched.number % FIFO_SCHED,
        bits_per_sec: spec.bits_per_sec,
        delay_ns: spec.delay_ns,
        burst_bytes: spec.burst_bytes,
        profile: profile
            .map(|one| (String::clone(&one.name), one.first_lost, one.extra_ms.len() as u32)),
    }
}

/// Returns `weight`, `lmax` and `pri` as listings show them. Values that the scheduler uses are
/// shown within its limits. The others are shown as they were configured.
fn listed_share(kind: &SchedKind, spec: &ShareSpec) -> [u32; 3] {
    let QueueShare { weight, lmax, .. } = QueueShare::new(kind, spec);
    let given = [spec.weight, spec.lmax, spec.priority].map(Option::unwrap_or_default);
    match kind {
        SchedKind::Wf2q => [weight, given[1], given[2]],
        SchedKind::Rr | SchedKind::Qfq => [weight, lmax, given[2]],
        _ => given,
    }
}
