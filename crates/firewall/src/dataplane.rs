//! The dataplane: combines rules, which decide about frames, with pipes, which delay them. Every
//! frame is sent, waits, or is lost with a cause.
//!
//! ```text
//!   offer --> check (in) --accept--> map --> check (out) --accept--> its port
//!     | ARP      | pipe, queue                  |
//!     v          '--> shaper --release--> accept, or check after the rule (`one_pass`)
//!    map --> its port
//! ```
//!
//! # Invariants
//! 1. Frames offered, copied, generated here and received from other dataplanes = sent + lost by
//!    cause + waiting + passed to other dataplanes ([`Dataplane::is_balanced`]).
//! 2. No call blocks. A frame that no rule logs or answers costs no time for logging or replying.
//! 3. If several dataplanes share the flows, the first one has all pipes, because a pipe limits all
//!    flows together. Frames for pipes are passed to it and back as [`Handoff`]s.
//!
//! # Design decisions
//! - **The second check.** A frame is checked on input. It is checked again on output if a rule
//!   uses `in`, `out`, `xmit` or `via`, or translates ([`RuleCheckPasses::Auto`]). So rules that
//!   were written for a router have the meaning that FreeBSD's manual gives them. With any other
//!   rules, each frame is counted and shaped only once, as users of a bridge expect.
//! - **`fwd` to an address** sends the frame to the neighbour with this IP address. The dataplane
//!   learns the neighbour's MAC address from ARP and neighbour discovery packets that pass through
//!   the firewall. Before it has seen one, the frame is lost as `no_next_hop`. The port number of
//!   `fwd` has a meaning only on a host, so it is ignored.
//! - **Frames generated here** (resets, ICMP errors, keepalives) are not checked by rules.
//!
//! Not for: ports, clocks, threads.

mod bypass;
mod counters;
mod egress;
mod frame_store;
mod handoff;
mod map;
mod neighbors;
mod output;
mod shaping;
mod sharing;

pub(crate) use bypass::{bypass, bypassed};
pub use counters::{BypassCounters, DataplaneCounters, DataplaneLoss};
pub use handoff::{DataplaneId, Handoff};
pub use map::{PortMap, PortMapError};
pub use neighbors::LearnedNeighbor;
pub use output::DataplaneOutput;

use slipring_dummynet::{Dummynet, ShaperEvent, ShaperTarget};
use slipring_ipfw::rule::RuleAction;
use slipring_ipfw::run::{
    CheckOutputs, CheckPass, CheckResult, CheckedBatch, DenyReason, Firewall, FrameBatch,
    PacketMetadata, PortIndex, RuleVerdict, Ruleset,
};

use bypass::FrameRange;
use frame_store::FrameStore;
use handoff::RemotePackets;
use neighbors::NeighborTable;
use slipring_rules::asks_directions;

/// A time in nanoseconds, according to the caller's clock.
pub type DataplaneNanos = u64;

/// In which directions the rules check a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RuleCheckPasses {
    /// Checked on input. Also checked on output if a rule depends on the direction.
    #[default]
    Auto,
    /// Checked on input only.
    In,
    /// Checked on input and on output.
    Both,
}

/// The rules and pipes of a firewall, and the frames that wait in the pipes.
#[derive(Debug)]
pub struct Dataplane {
    firewall: Firewall,
    shaper: Dummynet<u32>,
    frames: FrameStore,
    map: PortMap,
    passes: RuleCheckPasses,
    /// Whether frames are also checked on output, according to the current rules and `passes`.
    checks_out: bool,
    /// Whether the frames of a burst can be checked together. False if frames are also checked on
    /// output, or if a rule reassembles.
    checks_together: bool,
    batch: CheckedBatch,
    remote: RemotePackets,
    neighbors: NeighborTable,
    outputs: CheckOutputs,
    events: Vec<ShaperEvent<u32>>,
    counters: DataplaneCounters,
}

impl Dataplane {
    /// Creates a dataplane, which has the rules of `firewall` until [`Self::adopt`] is called.
    #[must_use]
    pub fn new(
        firewall: Firewall,
        shaper: Dummynet<u32>,
        map: PortMap,
        passes: RuleCheckPasses,
    ) -> Self {
        let mut dataplane = Self {
            firewall,
            shaper,
            frames: FrameStore::default(),
            map,
            passes,
            checks_out: false,
            checks_together: false,
            batch: CheckedBatch::default(),
            remote: RemotePackets::default(),
            neighbors: NeighborTable::default(),
            outputs: CheckOutputs::default(),
            events: Vec::new(),
            counters: DataplaneCounters::default(),
        };
        dataplane.inspect_rules();
        dataplane
    }

    /// Returns the firewall: rules, states and counters.
    #[must_use]
    pub const fn firewall(&self) -> &Firewall {
        &self.firewall
    }

    /// Returns the firewall for commands that change only its counters or states. To change the
    /// rules, use [`Self::adopt`].
    pub const fn firewall_mut(&mut self) -> &mut Firewall {
        &mut self.firewall
    }

    /// Returns the shaper, which has the pipes, queues and schedulers.
    pub const fn shaper_mut(&mut self) -> &mut Dummynet<u32> {
        &mut self.shaper
    }

    /// Returns the port map.
    #[must_use]
    pub const fn map(&self) -> &PortMap {
        &self.map
    }

    /// Returns the counts of frames by outcome.
    #[must_use]
    pub fn counters(&self) -> DataplaneCounters {
        let mut tally = self.counters;
        tally.waiting = self.frames.len() as u64 + self.firewall.fragments_held() as u64;
        tally.shaper = self.shaper.counters();
        tally.fragments = *self.firewall.fragments();
        tally
    }

    /// Returns whether the counters satisfy invariant 1 of this module.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.counters().is_balanced()
    }

    /// Returns whether frames are also checked on output.
    #[must_use]
    pub const fn checks_out(&self) -> bool {
        self.checks_out
    }

    /// Adopts rules that the control plane has compiled. Must not be called while a frame is
    /// processed.
    pub fn adopt(&mut self, ruleset: &mut Ruleset) {
        self.firewall.adopt(ruleset);
        self.shaper.settings_mut().one_pass = !self.firewall.continues_after_shaper();
        self.inspect_rules();
    }

    fn inspect_rules(&mut self) {
        let config = self.firewall.config();
        self.checks_out = match self.passes {
            RuleCheckPasses::In => false,
            RuleCheckPasses::Both => true,
            RuleCheckPasses::Auto => asks_directions(config),
        };
        let mut rules = config.list.iter().map(|(entry, _)| &entry.rule);
        // `reass` sends a reassembled packet before the next frame is checked. So frames cannot be
        // checked together.
        let reassembles = rules.any(|rule| rule.action == RuleAction::Reass);
        self.checks_together = !self.checks_out && !reassembles;
        self.neighbors.is_needed =
            config.list.iter().any(|(entry, _)| entry.rule.action.forwards_to_address());
    }

    /// Processes a frame that a port received. Returns the port to which the caller must send the
    /// frame; the rules may have changed the frame. Returns `None` if the dataplane has sent,
    /// stored or dropped the frame.
    pub fn offer(
        &mut self,
        frame: &mut [u8],
        from: PortIndex,
        now: DataplaneNanos,
        outlet: &mut impl DataplaneOutput,
    ) -> Option<PortIndex> {
        self.counters.offered += 1;
        self.learn(frame, from);
        let output = match bypass(&self.firewall.config().settings, frame) {
            Some(what) => self.forward_bypassed(what, frame, from, outlet),
            None => self.process(frame, PacketMetadata::incoming(from), now, outlet),
        };
        self.process_shaper_events(now, outlet);
        self.counters.sent += u64::from(output.is_some());
        output
    }

    /// Processes `count` frames that a port received together, in order. Writes the result of
    /// [`Self::offer`] for each frame to `outputs`. This is cheaper than one call per frame.
    pub fn offer_all<F: FrameBatch + ?Sized>(
        &mut self,
        frames: &mut F,
        count: usize,
        (from, now): (PortIndex, DataplaneNanos),
        outlet: &mut impl DataplaneOutput,
        outputs: &mut Vec<Option<PortIndex>>,
    ) {
        outputs.clear();
        if !self.checks_together {
            outputs.extend((0..count).map(|at| self.offer(frames.frame(at), from, now, outlet)));
            return;
        }
        let mut first = 0;
        while first < count {
            let settings = self.firewall.config().settings;
            let asks = |&at: &usize| bypass(&settings, frames.frame(at)).is_none();
            let asked = (first..count).take_while(asks).count();
            if asked == 0 {
                outputs.push(self.offer(frames.frame(first), from, now, outlet));
                first += 1;
                continue;
            }
            let mut range = FrameRange { frames, first };
            self.check_together(&mut range, asked, (from, now), outlet, outputs);
            first += asked;
        }
    }

    /// Checks frames that a port received together, with one call of the firewall.
    fn check_together<F: FrameBatch + ?Sized>(
        &mut self,
        frames: &mut F,
        count: usize,
        (from, now): (PortIndex, DataplaneNanos),
        outlet: &mut impl DataplaneOutput,
        outputs: &mut Vec<Option<PortIndex>>,
    ) {
        self.counters.offered += count as u64;
        (0..count).for_each(|at| self.learn(frames.frame(at), from));
        let mut batch = std::mem::take(&mut self.batch);
        self.outputs.is_watched = outlet.is_watched();
        self.firewall.check_all(frames, count, (from, now), &mut self.outputs, &mut batch);
        self.emit_outputs(outlet);
        let only = match *self.map.targets(from) {
            [only] => Some(only),
            _ => None,
        };
        for (at, checked) in batch.drain().enumerate() {
            let (verdict, crossing) = match checked {
                CheckResult::Accepted if only.is_some() => {
                    self.counters.sent += 1;
                    outputs.push(only);
                    continue;
                }
                CheckResult::Accepted => (RuleVerdict::Accept, PacketMetadata::incoming(from)),
                CheckResult::Denied => {
                    (RuleVerdict::Deny(DenyReason::Rule), PacketMetadata::incoming(from))
                }
                CheckResult::Other(verdict, crossing) => (verdict, crossing),
            };
            let output = self.act(verdict, frames.frame(at), crossing, now, outlet);
            self.process_shaper_events(now, outlet);
            self.counters.sent += u64::from(output.is_some());
            outputs.push(output);
        }
        self.batch = batch;
    }

    #[inline]
    fn learn(&mut self, frame: &[u8], from: PortIndex) {
        if self.neighbors.is_needed
            && let Some(neighbor) = self.neighbors.learn(frame, from)
        {
            self.remote.announce(neighbor);
        }
    }

    /// Must be called for a frame that was counted as sent, but could not be sent: to the port that
    /// [`Self::offer`] returned, or later if the [`DataplaneOutput`] has only queued it.
    pub fn count_unsent(&mut self, cause: DataplaneLoss) {
        self.counters.sent -= 1;
        self.counters.count_loss(cause);
    }

    /// Returns the time at which [`Self::run`] must be called next; `None` if nothing is due later.
    #[must_use]
    pub fn next_ns(&self) -> Option<DataplaneNanos> {
        self.shaper.next_release().into_iter().chain(self.firewall.next_tick_ns()).min()
    }

    /// Does the work that is due at `now`: releases frames from pipes, expires states, sends
    /// keepalives.
    pub fn run(&mut self, now: DataplaneNanos, outlet: &mut impl DataplaneOutput) {
        if self.firewall.next_tick_ns().is_some_and(|due| due <= now) {
            self.outputs.is_watched = outlet.is_watched();
            self.firewall.tick(now, &mut self.outputs);
            self.emit_outputs(outlet);
        }
        while self.shaper.next_release().is_some_and(|due| due <= now) {
            let events = &mut self.events;
            self.shaper.release(now, &mut |event| events.push(event));
            if self.events.is_empty() {
                break;
            }
            self.process_shaper_events(now, outlet);
        }
    }

    /// Returns whether no frame is in a pipe. Fragments that wait for the rest of their packet do
    /// not count: after the end of the input the rest does not arrive.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.len() == 0
    }

    /// Handles events that a change of the shaper's configuration has caused, for example dropped
    /// frames.
    pub fn apply_shaper_events(
        &mut self,
        events: Vec<ShaperEvent<u32>>,
        now: DataplaneNanos,
        outlet: &mut impl DataplaneOutput,
    ) {
        self.events.extend(events);
        self.process_shaper_events(now, outlet);
    }

    /// Checks a frame in the direction that `crossing` gives, and carries out the verdict. Returns
    /// the port to which the caller must send the frame; `None` if it need not send it.
    fn process(
        &mut self,
        frame: &mut [u8],
        mut crossing: PacketMetadata,
        now: DataplaneNanos,
        outlet: &mut impl DataplaneOutput,
    ) -> Option<PortIndex> {
        self.outputs.is_watched = outlet.is_watched();
        let verdict = self.firewall.check(frame, &mut crossing, now, &mut self.outputs);
        if let Some(whole) = self.outputs.whole.take()
            && (&verdict, crossing.pass, self.checks_out)
                == (&RuleVerdict::Accept, CheckPass::In, true)
        {
            let mut parts = std::mem::take(&mut self.outputs.released);
            parts.push(frame.to_vec());
            self.emit_outputs(outlet);
            self.egress_reassembled((whole, parts), &crossing, now, outlet);
            return None;
        }
        if !self.outputs.released.is_empty() {
            // Fragments that have waited for the rest of their packet take the same path. They are
            // sent before the fragment that completed the packet.
            for mut part in std::mem::take(&mut self.outputs.released) {
                let output = self.act(verdict.clone(), &mut part, crossing.clone(), now, outlet);
                output.into_iter().for_each(|port| self.send(port, &part, outlet));
            }
        }
        self.emit_outputs(outlet);
        self.act(verdict, frame, crossing, now, outlet)
    }

    fn act(
        &mut self,
        verdict: RuleVerdict,
        frame: &mut [u8],
        crossing: PacketMetadata,
        now: DataplaneNanos,
        outlet: &mut impl DataplaneOutput,
    ) -> Option<PortIndex> {
        match verdict {
            RuleVerdict::Accept => return self.accepted(frame, crossing, now, outlet),
            RuleVerdict::Forward(hop) => return self.forward(&hop, frame, crossing, now, outlet),
            RuleVerdict::Deny(cause) => self.counters.count_denied(cause),
            RuleVerdict::Reject(_) => self.counters.count_denied(DenyReason::Rule),
            RuleVerdict::Pipe(number) => {
                self.shape(ShaperTarget::Pipe, number, frame, crossing, now)
            }
            RuleVerdict::Queue(number) => {
                self.shape(ShaperTarget::Queue, number, frame, crossing, now)
            }
            // This is unreachable: the check performs translations itself and then continues.
            RuleVerdict::Nat(_) | RuleVerdict::Nptv6(_) => {
                self.counters.count_loss(DataplaneLoss::Translation)
            }
            RuleVerdict::Held => {}
        }
        None
    }
}
