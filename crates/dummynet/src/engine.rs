//! The engine: packets in, packets out at their times.
//!
//! ```text
//!   submit --> flowset (by rule) --> instance (by mask) --> queue --.
//!                                                                   | serve: when the link is free
//!   release <-- delay <-- link <------------------------------------'
//! ```
//!
//! Nothing happens between calls: what a link would have done since the last one is made up for,
//! each packet at its own time.

mod admission;
mod configure;
mod counters;
mod delay_lines;
mod event;
mod flows;
mod idle;
mod instance;
mod link;
mod objects;
mod pool;
mod sink;
mod snapshot;
mod submit;
mod sysctl;
#[cfg(test)]
mod tests;

pub use admission::RedSizes;
pub use configure::{ObjectKind, ShaperConfig, ShaperConfigError};
pub use counters::{ShaperCounters, ShaperDropCause, ShaperDrops};
pub use event::{ReleaseAction, ShaperEvent, ShaperPacket, ShaperTarget};
pub use sysctl::{SYSCTL_PREFIX, ShaperSysctlError};

use alloc::vec::Vec;

use slipring_model::{Stream, Wheel};

use delay_lines::DelayLines;
use event::DelayedPacket;
use instance::{NEVER_NS, SchedInstance};
use objects::{Sched, ShaperObjectTable};
use pool::PacketPool;
use sink::EventSink;

use crate::spec::ObjectNumber;
use crate::text::QueueCaps;

/// What the sender of a packet is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitResult {
    /// It was taken in, or lost without saying so (`noerror`).
    Accepted,
    /// It was lost.
    Refused,
}

/// Settings of the engine, with their names as sysctls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperSettings {
    /// `net.inet.ip.fw.one_pass`: packets that are through are accepted; true.
    pub one_pass: bool,
    /// `net.inet.ip.dummynet.hash_size`: `buckets` where none are given; 64.
    pub hash_size: u32,
    /// After how many ns without a packet a dynamic queue or pipe is forgotten; 10 s.
    /// ([`u64::MAX`] is `net.inet.ip.dummynet.expire=0`.)
    pub expire_ns: u64,
    /// Most dynamic queues of one instance, and most instances of one scheduler; 262144.
    pub max_dynamic: usize,
    /// What a queue may be told to hold. Who reads commands asks for it.
    pub caps: QueueCaps,
    /// Sizes of packets that RED counts by; for objects configured from now on.
    pub red: RedSizes,
}

impl Default for ShaperSettings {
    fn default() -> Self {
        Self {
            one_pass: true,
            hash_size: 64,
            expire_ns: 10_000_000_000,
            max_dynamic: 1 << 18,
            caps: QueueCaps::default(),
            red: RedSizes::default(),
        }
    }
}

/// dummynet.
///
/// ```
/// use slipring_dummynet::{Config, Dummynet, Event, Object, Packet};
/// use slipring_dummynet::flow::FlowKey;
/// use slipring_dummynet::text::Command;
///
/// let mut dummynet = Dummynet::new(7);
/// let Ok(Command::Config(config)) = Command::parse("pipe 1 config bw 10Mbit/s delay 20ms") else {
///     unreachable!()
/// };
/// dummynet.configure(0, config, &mut |_| {})?;
/// let packet = Packet { handle: 'a', rule: 100, len: 1250, ecn: Default::default() };
/// dummynet.submit(0, Object::Pipe(1), &FlowKey::default(), packet, &mut |_| {});
/// // 10,000 bits take 1 ms; then the delay.
/// assert_eq!(dummynet.next_release(), Some(21_000_000));
/// let mut released = Vec::new();
/// dummynet.release(21_000_000, &mut |event| released.push(event));
/// assert!(matches!(released[..], [Event::Released { handle: 'a', at_ns: 21_000_000, .. }]));
/// # Ok::<(), slipring_dummynet::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dummynet<H> {
    settings: ShaperSettings,
    seed: u64,
    /// Of hashes.
    keys: [u64; 2],
    /// The latest time that was told.
    now_ns: u64,
    objects: ShaperObjectTable,
    instances: Vec<SchedInstance<H>>,
    free: Vec<u32>,
    /// Instances made so far: their random streams are numbered.
    instances_created: u64,
    pool: PacketPool<H>,
    /// When instances are to be served.
    events: Wheel<u32>,
    delay_lines: DelayLines<DelayedPacket<H>>,
    counters: ShaperCounters,
}

impl<H: Copy> Dummynet<H> {
    /// Makes an engine without objects. The same seed draws the same losses.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut keys = Stream::new(seed, "dummynet/hash");
        Self {
            settings: ShaperSettings::default(),
            seed,
            keys: [keys.next_u64(), keys.next_u64()],
            now_ns: 0,
            objects: ShaperObjectTable::default(),
            instances: Vec::new(),
            free: Vec::new(),
            instances_created: 0,
            pool: PacketPool::new(),
            events: Wheel::new(),
            delay_lines: DelayLines::new(),
            counters: ShaperCounters::default(),
        }
    }

    /// The settings; changes hold from the next call on.
    pub const fn settings_mut(&mut self) -> &mut ShaperSettings {
        &mut self.settings
    }

    /// What happened so far, and what is inside.
    #[must_use]
    pub const fn counters(&self) -> ShaperCounters {
        self.counters
    }

    /// What happened to the packets of rules that say `pipe N`, or to those of the queues of
    /// scheduler N, since it was made.
    #[must_use]
    pub fn counters_of(&self, kind: ObjectKind, number: ObjectNumber) -> Option<ShaperCounters> {
        let number = match kind {
            ObjectKind::Pipe => u32::from(number) + objects::FIFO_SCHED,
            ObjectKind::Sched => number.into(),
            ObjectKind::Queue => return None,
        };
        let &place = self.objects.sched_places.get(&number)?;
        Some(self.objects.sched(place).counters)
    }

    /// When to call [`Self::release`] next: no packet is due before, though none may be then.
    #[inline]
    #[must_use]
    pub fn next_release(&self) -> Option<u64> {
        match (self.delay_lines.next_ns(), self.events.next_release_ns()) {
            (Some(delayed), Some(event)) => Some(delayed.min(event)),
            (delayed, event) => delayed.or(event),
        }
    }

    /// Gives out what is due by `now_ns`, in order of time.
    pub fn release(&mut self, now_ns: u64, tell: &mut impl FnMut(ShaperEvent<H>)) {
        let now_ns = self.tick(now_ns);
        self.serve_all(now_ns, tell);
        let one_pass = self.settings.one_pass;
        let mut none = ShaperCounters::default();
        while let Some((at_ns, place, outgoing)) = self.delay_lines.pop(now_ns) {
            let DelayedPacket { handle, rule, lost } = outgoing;
            // What is in the delay outlives its scheduler.
            none.delayed = 1;
            let own = self.objects.counters(place, &mut none);
            let mut sink = EventSink::new(&mut self.counters, own, tell);
            if lost {
                sink.lose_delayed(handle, at_ns, ShaperDropCause::Profile);
                continue;
            }
            let next = if one_pass { ReleaseAction::Accept } else { ReleaseAction::After(rule) };
            sink.released(ShaperEvent::Released { handle, at_ns, next });
        }
    }

    /// Lets all links work until `now_ns`.
    fn serve_all(&mut self, now_ns: u64, tell: &mut impl FnMut(ShaperEvent<H>)) {
        while let Some(at) = self.events.pop_due(now_ns) {
            let instance = &mut self.instances[at as usize];
            if instance.event_ns > now_ns {
                // Left over: the instance has another event by now.
                continue;
            }
            instance.event_ns = NEVER_NS;
            self.serve(at, now_ns, tell);
            self.wake(at);
        }
    }

    /// Lets one instance's link work until `now_ns`.
    #[inline]
    fn serve(&mut self, at: u32, now_ns: u64, tell: &mut impl FnMut(ShaperEvent<H>)) {
        let instance = &mut self.instances[at as usize];
        if instance.due_ns > now_ns {
            return;
        }
        let place = instance.sched;
        let Sched { link, mask, counters, .. } = self.objects.sched_mut(place);
        let overtakes = !mask.is_none();
        let delayed = &mut self.delay_lines;
        let mut sink = EventSink::new(&mut self.counters, counters, tell);
        let mut out = |at_ns, outgoing| delayed.push(place, at_ns, outgoing, overtakes);
        instance.serve(now_ns, link, &mut self.pool, &mut out, &mut sink);
    }

    /// Sees to it that an instance has an event when it needs one.
    #[inline]
    fn wake(&mut self, at: u32) {
        let instance = &mut self.instances[at as usize];
        if instance.due_ns < instance.event_ns {
            instance.event_ns = instance.due_ns;
            self.events.push(instance.due_ns, at);
        }
    }

    /// Time never goes back.
    #[inline]
    fn tick(&mut self, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        self.now_ns
    }
}
