//! The engine: packets are submitted, and released at their release times.
//!
//! ```text
//!   submit --> flowset (by rule) --> instance (by mask) --> queue --.
//!                                                                   | serve: when the link is free
//!   release <-- delay <-- link <------------------------------------'
//! ```
//!
//! The state only changes during calls. A call performs all that the links would have done since
//! the last call, each packet at its own time.

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

use slipring_model::Wheel;

use delay_lines::DelayLines;
use event::DelayedPacket;
use instance::{NEVER_NS, SchedInstance};
use objects::{Sched, ShaperObjectTable};
use pool::PacketPool;
use sink::EventSink;

use crate::spec::ObjectNumber;
use crate::text::QueueCaps;

/// The result for the sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitResult {
    /// The packet was accepted, or lost silently (`noerror`).
    Accepted,
    /// The packet was lost.
    Refused,
}

/// Settings of the engine, with their sysctl names and defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperSettings {
    /// `net.inet.ip.fw.one_pass`: whether released packets are accepted; true.
    pub one_pass: bool,
    /// `net.inet.ip.dummynet.hash_size`: the default of `buckets`; 64.
    pub hash_size: u32,
    /// Idle time in ns after which a dynamic queue or pipe is removed; 10 s. ([`u64::MAX`] is
    /// `net.inet.ip.dummynet.expire=0`.)
    pub expire_ns: u64,
    /// Maximum number of dynamic queues per instance, and of instances per scheduler; 262144.
    pub max_dynamic: usize,
    /// Caps on queue sizes. The command parser applies them.
    pub caps: QueueCaps,
    /// Packet sizes that RED uses, for objects that are configured from now on.
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
/// use slipring_dummynet::{Dummynet, ShaperEvent, ShaperTarget, ShaperPacket};
/// use slipring_dummynet::flow::ShaperFlowKey;
/// use slipring_dummynet::text::DummynetCommand;
///
/// let mut dummynet = Dummynet::new(7, [1, 2]);
/// let Ok(DummynetCommand::Config(config)) = DummynetCommand::parse("pipe 1 config bw 10Mbit/s delay 20ms") else {
///     unreachable!()
/// };
/// dummynet.configure(0, config, &mut |_| {})?;
/// let packet = ShaperPacket { handle: 'a', rule: 100, len: 1250, ecn: Default::default() };
/// dummynet.submit(0, ShaperTarget::Pipe(1), &ShaperFlowKey::default(), packet, &mut |_| {});
/// // 10,000 bits take 1 ms; then the delay.
/// assert_eq!(dummynet.next_release(), Some(21_000_000));
/// let mut released = Vec::new();
/// dummynet.release(21_000_000, &mut |event| released.push(event));
/// assert!(matches!(released[..], [ShaperEvent::Released { handle: 'a', at_ns: 21_000_000, .. }]));
/// # Ok::<(), slipring_dummynet::ShaperConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dummynet<H> {
    settings: ShaperSettings,
    seed: u64,
    /// Keys of the flow hashes.
    keys: [u64; 2],
    /// The latest time of any call.
    now_ns: u64,
    objects: ShaperObjectTable,
    instances: Vec<SchedInstance<H>>,
    free: Vec<u32>,
    /// Number of instances created so far; it numbers their random streams.
    instances_created: u64,
    pool: PacketPool<H>,
    /// When instances must be served.
    events: Wheel<u32>,
    delay_lines: DelayLines<DelayedPacket<H>>,
    counters: ShaperCounters,
}

impl<H: Copy> Dummynet<H> {
    /// Builds an engine without objects. The same seed gives the same losses. `keys` are the keys
    /// of the flow hashes: a sender that does not know them cannot choose flows that share a queue.
    #[must_use]
    pub fn new(seed: u64, keys: [u64; 2]) -> Self {
        Self {
            settings: ShaperSettings::default(),
            seed,
            keys,
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

    /// The settings; changes apply from the next call on.
    pub const fn settings_mut(&mut self) -> &mut ShaperSettings {
        &mut self.settings
    }

    /// Returns the counters of the engine.
    #[must_use]
    pub const fn counters(&self) -> ShaperCounters {
        self.counters
    }

    /// Returns the counters of the packets of `pipe N` rules, or of the queues of scheduler N,
    /// since the object was created.
    #[must_use]
    pub fn counters_of(&self, kind: ObjectKind, number: ObjectNumber) -> Option<ShaperCounters> {
        let number = match kind {
            ObjectKind::Pipe => u32::from(number) + objects::FIFO_SCHED,
            ObjectKind::Sched => number.into(),
            ObjectKind::Queue => return None,
        };
        let &index = self.objects.sched_indices.get(&number)?;
        Some(self.objects.sched(index).counters)
    }

    /// When to call [`Self::release`] next: no packet is due before that time, but there may be
    /// none due at that time.
    #[inline]
    #[must_use]
    pub fn next_release(&self) -> Option<u64> {
        match (self.delay_lines.next_ns(), self.events.next_release_ns()) {
            (Some(delayed), Some(event)) => Some(delayed.min(event)),
            (delayed, event) => delayed.or(event),
        }
    }

    /// Emits the packets that are due by `now_ns`, in order of time.
    pub fn release(&mut self, now_ns: u64, tell: &mut impl FnMut(ShaperEvent<H>)) {
        let now_ns = self.tick(now_ns);
        self.serve_all(now_ns, tell);
        let one_pass = self.settings.one_pass;
        let mut none = ShaperCounters::default();
        while let Some((at_ns, index, outgoing)) = self.delay_lines.pop(now_ns) {
            let DelayedPacket { handle, rule, lost } = outgoing;
            // A packet in the delay outlives its scheduler.
            none.delayed = 1;
            let own = self.objects.counters(index, &mut none);
            let mut sink = EventSink::new(&mut self.counters, own, tell);
            if lost {
                sink.lose_delayed(handle, at_ns, ShaperDropCause::Profile);
                continue;
            }
            let next = if one_pass { ReleaseAction::Accept } else { ReleaseAction::After(rule) };
            sink.released(ShaperEvent::Released { handle, at_ns, next });
        }
    }

    /// Runs all links until `now_ns`.
    fn serve_all(&mut self, now_ns: u64, tell: &mut impl FnMut(ShaperEvent<H>)) {
        while let Some(at) = self.events.pop_due(now_ns) {
            let instance = &mut self.instances[at as usize];
            if instance.event_ns > now_ns {
                // A stale event: the instance has a newer event.
                continue;
            }
            instance.event_ns = NEVER_NS;
            self.serve(at, now_ns, tell);
            self.wake(at);
        }
    }

    /// Runs the link of one instance until `now_ns`.
    #[inline]
    fn serve(&mut self, at: u32, now_ns: u64, tell: &mut impl FnMut(ShaperEvent<H>)) {
        let instance = &mut self.instances[at as usize];
        if instance.due_ns > now_ns {
            return;
        }
        let index = instance.sched;
        let Sched { link, mask, counters, .. } = self.objects.sched_mut(index);
        let overtakes = !mask.is_none();
        let delayed = &mut self.delay_lines;
        let mut sink = EventSink::new(&mut self.counters, counters, tell);
        let mut out = |at_ns, outgoing| delayed.push(index, at_ns, outgoing, overtakes);
        instance.serve(now_ns, link, &mut self.pool, &mut out, &mut sink);
    }

    /// Schedules the next event of an instance, if it needs one.
    #[inline]
    fn wake(&mut self, at: u32) {
        let instance = &mut self.instances[at as usize];
        if instance.due_ns < instance.event_ns {
            instance.event_ns = instance.due_ns;
            self.events.push(instance.due_ns, at);
        }
    }

    /// Advances the time, which never goes back.
    #[inline]
    fn tick(&mut self, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        self.now_ns
    }
}
