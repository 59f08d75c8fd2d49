//! The engine: takes packets and releases each one when its time has come.
//!
//! ```text
//!   submit --> flowset (by rule) --> instance (by mask) --> queue --.
//!                                                                   | serve: when the link is free
//!   release <-- delay <-- link <------------------------------------'
//! ```
//!
//! An *instance* is a copy of a scheduler, with its own queues and its own link. A scheduler has
//! one instance for each flow that its mask distinguishes. The state changes only during calls.
//! Before a call uses a link, it does everything that the link would have done until then. For each
//! packet it uses the packet's own time, not the time of the call.

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

/// What [`Dummynet::submit`] reports to the sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitResult {
    /// The packet was accepted. With `noerror` or flow queueing, this may also be reported if the
    /// packet was lost.
    Accepted,
    /// The packet was lost.
    Refused,
}

/// The engine's settings. The description of a setting may begin with the name of its sysctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperSettings {
    /// `net.inet.ip.fw.one_pass`: whether released packets are accepted without further rules.
    /// Default: true.
    pub one_pass: bool,
    /// `net.inet.ip.dummynet.hash_size`: the number of buckets that listings show for objects
    /// without `buckets`. Default: 64.
    pub hash_size: u32,
    /// The idle time in ns after which a dynamic queue or pipe may be removed. Default: 10 s.
    /// [`u64::MAX`] means never, as `net.inet.ip.dummynet.expire=0` does.
    pub expire_ns: u64,
    /// Maximum number of dynamic queues per scheduler instance, and of instances per scheduler.
    /// Default: 262144.
    pub max_dynamic: usize,
    /// The maximum sizes of queues. The command parser enforces them.
    pub caps: QueueCaps,
    /// The packet sizes that RED assumes. A change affects objects that are configured after it.
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

/// The engine: the pipes, queues and schedulers of dummynet, with the packets in them.
///
/// ```
/// use slipring_dummynet::{Dummynet, ShaperEvent, ShaperTarget, ShaperPacket};
/// use slipring_dummynet::flow::ShaperFlowKey;
/// use slipring_dummynet::text::DummynetCommand;
///
/// let mut dummynet = Dummynet::new(7, [1, 2]);
/// let Ok(DummynetCommand::Config(config)) =
///     DummynetCommand::parse("pipe 1 config bw 10Mbit/s delay 20ms")
/// else {
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
    /// The secret keys of the flow hashes.
    keys: [u64; 2],
    /// The latest time that was passed to any call, in ns.
    now_ns: u64,
    objects: ShaperObjectTable,
    instances: Vec<SchedInstance<H>>,
    free: Vec<u32>,
    /// Number of scheduler instances created so far. The number of an instance that is created with
    /// a profile determines its random stream.
    instances_created: u64,
    pool: PacketPool<H>,
    /// The times at which scheduler instances must be served. Each entry contains the index of an
    /// instance.
    events: Wheel<u32>,
    delay_lines: DelayLines<DelayedPacket<H>>,
    counters: ShaperCounters,
}

impl<H: Copy> Dummynet<H> {
    /// Creates an engine without objects. Engines with the same `seed` lose the same packets of the
    /// same traffic. `keys` are the secret keys of the flow hashes. A sender that does not know
    /// them cannot choose flows that share a hash bucket.
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

    /// Returns the settings, which the caller may change. A change applies from the next call on.
    pub const fn settings_mut(&mut self) -> &mut ShaperSettings {
        &mut self.settings
    }

    /// Returns the counters of all packets of the engine.
    #[must_use]
    pub const fn counters(&self) -> ShaperCounters {
        self.counters
    }

    /// Returns the counters of a pipe's or scheduler's packets since the object was created; `None`
    /// if the object does not exist, or is a queue. For pipe N, these are the packets of `pipe N`
    /// rules. For scheduler N, these are the packets of its queues.
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

    /// Returns the time at which [`Self::release`] must be called next, in ns. No packet is due
    /// earlier. It is possible that no packet is due at this time either. `None` only if the engine
    /// has no packets.
    #[inline]
    #[must_use]
    pub fn next_release(&self) -> Option<u64> {
        match (self.delay_lines.next_ns(), self.events.next_release_ns()) {
            (Some(delayed), Some(event)) => Some(delayed.min(event)),
            (delayed, event) => delayed.or(event),
        }
    }

    /// Releases the packets that are due by `now_ns`, and reports them to `tell` in the order of
    /// their times. Also reports the losses and marks until then.
    pub fn release(&mut self, now_ns: u64, tell: &mut impl FnMut(ShaperEvent<H>)) {
        let now_ns = self.tick(now_ns);
        self.serve_all(now_ns, tell);
        let one_pass = self.settings.one_pass;
        let mut none = ShaperCounters::default();
        while let Some((at_ns, index, outgoing)) = self.delay_lines.pop(now_ns) {
            let DelayedPacket { handle, rule, lost } = outgoing;
            // If the scheduler was deleted while the packet was in the delay, its counters no
            // longer exist. `none` takes their place.
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
                // The event is outdated, because the instance has a later one, or none.
                continue;
            }
            instance.event_ns = NEVER_NS;
            self.serve(at, now_ns, tell);
            self.wake(at);
        }
    }

    /// Runs the link of the scheduler instance `at` until `now_ns`.
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

    /// If a packet waits in the scheduler instance `at`, makes sure that the instance has an event
    /// when the link can send the packet, or earlier.
    #[inline]
    fn wake(&mut self, at: u32) {
        let instance = &mut self.instances[at as usize];
        if instance.due_ns < instance.event_ns {
            instance.event_ns = instance.due_ns;
            self.events.push(instance.due_ns, at);
        }
    }

    /// Advances the engine's time to `now_ns`, unless it is already later. Returns the engine's
    /// time.
    #[inline]
    fn tick(&mut self, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        self.now_ns
    }
}
