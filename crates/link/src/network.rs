//! Links joined to a network, and the order of events over all of them.
//!
//! Links that share an entry or a node, directly or through other links, form a *component* (of the
//! graph). An event on one component does not affect others. Inside a component, events happen in
//! order of time. A push performs the events that are due on its own component before the frame
//! arrives; if the component is one link, frames that have reached its far end may stay until the
//! next run. A run performs the events that are due on all components, and delivers in order of
//! time (except for [early](Network::deliver_early) deliveries).
//!
//! Not for: cycles (refused), or adding and removing links (a change keeps the links).

mod changes;
mod component;
mod keys;
mod route;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::burst::Burst;
use crate::carrier::{Carrier, EntryId, FrameArrival, LinkId};
use crate::counters::LinkCounters;
use crate::event_queue::EventQueue;
use crate::link::{BatchScratch, Link};
use crate::spec::{LinkTarget, NetworkSpec, SpecError};
pub use changes::ChangeError;
use changes::PendingChanges;
use component::LinkComponent;
use route::LinkRoutes;

/// A network of links, ready to take frames.
///
/// ```
/// use slipring_link::{
///     Carrier, Delivery, DelaySpec, EntryId, FrameArrival, FrameHandle, LinkSpec, LostFrame,
///     Network, NetworkSpec,
/// };
///
/// #[derive(Default)]
/// struct Released(Vec<u64>);
///
/// impl Carrier for Released {
///     fn frame(&mut self, _: FrameHandle) -> &mut [u8] {
///         &mut []
///     }
///     fn copy(&mut self, _: FrameHandle) -> Option<FrameHandle> {
///         None
///     }
///     fn deliver(&mut self, delivery: Delivery) {
///         self.0.push(delivery.release_ns);
///     }
///     fn lose(&mut self, _: LostFrame) {}
/// }
///
/// let link = LinkSpec { delay: DelaySpec::constant(20_000_000), ..LinkSpec::wire("up") };
/// let mut network = Network::new(&NetworkSpec::single(link), 42)?;
/// let mut carrier = Released::default();
/// let frame = FrameArrival { arrival_ns: 5, handle: FrameHandle(0), len: 60 };
/// network.push(EntryId(0), &[frame], &mut carrier);
/// assert_eq!(network.next_ns(), Some(20_000_005));
/// network.run(20_000_005, &mut carrier);
/// assert_eq!(carrier.0, [20_000_005]);
/// # Ok::<(), slipring_link::SpecError>(())
/// ```
pub struct Network {
    plan: NetworkSpec,
    seed: u64,
    /// A key for each link, by which later links identify where a frame entered
    /// (see `frame_id.rs`).
    keys: Vec<u32>,
    links: Vec<Link>,
    routes: LinkRoutes,
    components: Vec<LinkComponent>,
    /// The time of the next event of each component; unused if there is only one component.
    agenda: EventQueue,
    pending: PendingChanges,
    /// Scratch space for the frames of a burst.
    burst_frames: Vec<FrameArrival>,
    scratch: Box<BatchScratch>,
}

impl Network {
    /// Builds a network in which time begins at 0.
    ///
    /// # Errors
    /// [`SpecError`] that names the first part of `plan` that cannot be built.
    pub fn new(plan: &NetworkSpec, seed: u64) -> Result<Self, SpecError> {
        Self::starting_at(plan, seed, 0)
    }

    /// Builds a network whose traces and schedules begin at `start_ns`.
    ///
    /// # Errors
    /// [`SpecError`] that names the first part of `plan` that cannot be built.
    pub fn starting_at(plan: &NetworkSpec, seed: u64, start_ns: u64) -> Result<Self, SpecError> {
        plan.check()?;
        let keys = keys::of(plan, seed);
        let link = |(index, link): (usize, &crate::spec::NetworkLink)| {
            let key = matches!(link.to, LinkTarget::Node(_)).then_some(keys[index]);
            Link::new(LinkId(index as u32), &link.spec, link.to, key, seed, start_ns)
        };
        let links: Vec<_> = plan.links.iter().enumerate().map(link).collect();
        let components = component::find(plan);
        Ok(Self {
            seed,
            keys,
            routes: LinkRoutes::new(plan, &components),
            agenda: EventQueue::new(components.len()),
            components,
            links,
            pending: PendingChanges::new(),
            burst_frames: Vec::new(),
            scratch: Box::new(BatchScratch::new()),
            plan: plan.clone(),
        })
    }

    /// Pushes frames into an entry. Their times must not decrease, within a call and from call to
    /// call. Earlier events on the frames' component happen first, but if the component is one
    /// link, frames that have reached its far end may stay until the next [`Self::run`].
    ///
    /// # Panics
    /// If the network has no such entry.
    #[inline]
    pub fn push(&mut self, entry: EntryId, arrivals: &[FrameArrival], carrier: &mut impl Carrier) {
        let mut rest = arrivals;
        while let Some(at_ns) = self.pending.next_ns() {
            let before = rest.partition_point(|arrival| arrival.arrival_ns < at_ns);
            let (now, later) = rest.split_at(before);
            self.push_settled(entry, now, carrier);
            rest = later;
            if rest.is_empty() {
                return;
            }
            self.run(at_ns, carrier);
        }
        self.push_settled(entry, rest, carrier);
    }

    /// Pushes a burst into an entry, with the same effect as [`Self::push`] of its frames.
    ///
    /// # Panics
    /// If the network has no such entry, or the carrier does not [support](Carrier::burst_item)
    /// bursts.
    #[inline]
    pub fn push_burst(&mut self, entry: EntryId, burst: Burst, carrier: &mut impl Carrier) {
        if self.try_push_burst(entry, burst) {
            return;
        }
        if burst.packets == 1 {
            let Burst { first_ns: arrival_ns, handle, bytes, .. } = burst;
            self.push(entry, &[FrameArrival { arrival_ns, handle, len: bytes as u32 }], carrier);
        } else {
            self.push_burst_frames(entry, burst, carrier);
        }
    }

    /// Performs all events that are due up to `now_ns`.
    #[inline]
    pub fn run(&mut self, now_ns: u64, carrier: &mut impl Carrier) {
        while let Some(at_ns) = self.pending.next_ns().filter(|&at_ns| at_ns <= now_ns) {
            self.run_settled(at_ns, carrier);
            self.apply_next_change(carrier);
        }
        self.run_settled(now_ns, carrier);
    }

    /// Returns the time of the next event, at which [`Self::run`] must be called again; `None` if
    /// no event is pending.
    #[must_use]
    #[inline]
    pub fn next_ns(&self) -> Option<u64> {
        let event = match &self.components[..] {
            [component] => component.next_ns(&self.links),
            _ => self.agenda.next_ns(),
        };
        match (event, self.pending.next_ns()) {
            (Some(event), Some(change)) => Some(event.min(change)),
            (event, change) => event.or(change),
        }
    }

    /// Sets whether frames are delivered as soon as their release time is decided, before that
    /// time. Applies to links that end at an exit and keep order; other links deliver at the
    /// release time.
    pub fn deliver_early(&mut self, yes: bool) {
        self.links.iter_mut().for_each(|link| link.set_early(yes));
    }

    /// Returns the counters of a link.
    ///
    /// # Panics
    /// If the network has no such link.
    #[must_use]
    pub fn counters(&self, link: LinkId) -> LinkCounters {
        self.links[link.0 as usize].counters()
    }

    /// Returns the counters of an entry: frames that no link accepted count as drops, frames that
    /// entered a link as output.
    ///
    /// # Panics
    /// If the network has no such entry.
    #[must_use]
    pub fn entry_counters(&self, entry: EntryId) -> LinkCounters {
        self.routes.entry(entry).counters()
    }

    /// Returns the counters of a node, as [`Self::entry_counters`] does.
    ///
    /// # Panics
    /// If the network has no such node.
    #[must_use]
    pub fn node_counters(&self, node: usize) -> LinkCounters {
        self.routes.node(node).counters()
    }

    /// The plan that is in effect.
    #[must_use]
    pub fn plan(&self) -> &NetworkSpec {
        &self.plan
    }

    #[inline]
    fn push_settled(
        &mut self,
        entry: EntryId,
        arrivals: &[FrameArrival],
        carrier: &mut impl Carrier,
    ) {
        let route = self.routes.entry_mut(entry);
        let Some(component) = route.component() else {
            arrivals.iter().for_each(|arrival| route.refuse(*arrival, carrier));
            return;
        };
        let target = &mut self.components[component as usize];
        if let Some(only) = route.only_link()
            && target.is_single()
        {
            let link = &mut self.links[only];
            route.count_all(arrivals);
            if link.is_plain() {
                link.arrive_all(arrivals, carrier);
            } else {
                link.arrive_each(arrivals, &mut self.scratch, carrier);
            }
        } else {
            for arrival in arrivals {
                target.run(arrival.arrival_ns, &mut self.links, &mut self.routes, carrier);
                target.push(entry, *arrival, &mut self.links, &mut self.routes, carrier);
            }
        }
        self.arm(component);
    }

    /// Takes a whole burst if it enters a plain link and no change of the plan is due; returns
    /// whether the burst was taken.
    #[inline]
    fn try_push_burst(&mut self, entry: EntryId, burst: Burst) -> bool {
        if self.pending.next_ns().is_some_and(|at_ns| at_ns <= burst.last_ns) {
            return false;
        }
        let route = self.routes.entry_mut(entry);
        let (Some(component), Some(only)) = (route.component(), route.only_link()) else {
            return false;
        };
        let link = &mut self.links[only];
        if !self.components[component as usize].is_single()
            || !link.is_plain()
            || !link.arrive_burst(burst)
        {
            return false;
        }
        route.count_burst(&burst);
        self.arm(component);
        true
    }

    /// Pushes the frames of a burst one by one.
    fn push_burst_frames(&mut self, entry: EntryId, burst: Burst, carrier: &mut impl Carrier) {
        let mut frames = core::mem::take(&mut self.burst_frames);
        carrier.split_burst(&burst, &mut frames);
        self.push(entry, &frames, carrier);
        frames.clear();
        self.burst_frames = frames;
    }

    #[inline]
    fn run_settled(&mut self, now_ns: u64, carrier: &mut impl Carrier) {
        if let [component] = &mut self.components[..] {
            return component.run(now_ns, &mut self.links, &mut self.routes, carrier);
        }
        while let Some((_, first)) = self.agenda.pop_due(now_ns) {
            // This stops at the next event of another component, so that deliveries stay in order
            // of time.
            let until_ns = self.agenda.next_ns().map_or(now_ns, |next_ns| next_ns.min(now_ns));
            let component = &mut self.components[first as usize];
            component.run(until_ns, &mut self.links, &mut self.routes, carrier);
            self.arm(first);
        }
    }

    #[inline]
    fn arm(&mut self, component: u32) {
        if self.components.len() > 1 {
            self.agenda.set(component, self.components[component as usize].next_ns(&self.links));
        }
    }
}
