//! The neighbours of one interface, and the frames that wait for them. The states of a neighbour
//! are those of RFC 4861, 7.3.2, also for ARP.
//!
//! ```text
//!            hold                 solicited answer
//!   (none) -------> Incomplete ---------------------> Reachable <---------------.
//!     ^                 | no answer                       | reachable time      | answer,
//!     |  hold again     v                                 v is over             | confirm
//!     '------------- Failed                 claim ----> Stale                   |
//!                       ^                                 | used                |
//!                       |          no answer              v        5 s later    |
//!                       '------------------------------ Delay ---------------> Probe
//! ```
//! Reachable becomes Stale without a timer, at the next access. Only Incomplete, Delay and Probe
//! have a timer. Installed neighbours are not in the drawing. They are changed only by
//! [`NeighbourCache::install`], [`NeighbourCache::fail`] and [`NeighbourCache::remove`].

mod claim;
mod entry;
mod event;
mod hold;
mod room;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::net::IpAddr;

use slipring_model::Stream;
use slipring_wire::MacAddr;

use crate::limits::{NeighbourLimits, NeighbourTimers};
pub use claim::NeighbourClaim;
use entry::NeighbourEntry;
pub use entry::{NeighbourState, NeighbourView};
pub use event::{HoldDropCause, HoldRefusal, NeighbourCounters, NeighbourEvent};
use hold::HoldUsage;

/// The neighbours of one interface, and the frames that wait for them.
///
/// ```
/// use slipring_neighbour::{
///     NeighbourCache, NeighbourClaim, NeighbourEvent, NeighbourLimits, NeighbourTimers,
/// };
/// use slipring_wire::MacAddr;
///
/// let mut cache = NeighbourCache::new(NeighbourTimers::default(), NeighbourLimits::default(), 7);
/// let (host, mac) = ("10.0.0.9".parse().unwrap(), MacAddr([2, 0, 0, 0, 0, 9]));
/// assert_eq!(cache.resolve(host, 0), None);
/// cache.hold(host, "a frame", 60, 0).unwrap();
/// assert!(matches!(cache.poll_event(), Some(NeighbourEvent::Solicit { mac: None, .. })));
///
/// cache.learn(NeighbourClaim::answer(host, mac), 5);
/// assert_eq!(
///     cache.poll_event(),
///     Some(NeighbourEvent::Changed { neighbour: host, mac: Some(mac) })
/// );
/// assert_eq!(
///     cache.poll_event(),
///     Some(NeighbourEvent::Released { next_hop: host, mac, frame: "a frame" })
/// );
/// assert_eq!(cache.resolve(host, 6), Some(mac));
/// ```
#[derive(Debug)]
pub struct NeighbourCache<F> {
    timers: NeighbourTimers,
    limits: NeighbourLimits,
    rng: Stream,
    entries: BTreeMap<IpAddr, NeighbourEntry<F>>,
    /// The entries whose timers run: time in ns and address. The timer that is due next is first.
    deadlines: BTreeSet<(u64, IpAddr)>,
    /// Number and address of each incomplete entry. The oldest one is first.
    incomplete: BTreeSet<(u64, IpAddr)>,
    /// The number that the next incomplete entry gets.
    next_sequence: u64,
    /// The address after which the next search for a dispensable entry starts; `None` before the
    /// first search.
    hand: Option<IpAddr>,
    usage: HoldUsage,
    events: VecDeque<NeighbourEvent<F>>,
    counters: NeighbourCounters,
}

impl<F> NeighbourCache<F> {
    /// Creates an empty cache. `seed` determines how long each neighbour counts as reachable.
    #[must_use]
    pub fn new(timers: NeighbourTimers, limits: NeighbourLimits, seed: u64) -> Self {
        Self {
            timers,
            limits,
            rng: Stream::new(seed, "neighbour/reachable"),
            entries: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            incomplete: BTreeSet::new(),
            next_sequence: 0,
            hand: None,
            usage: HoldUsage::default(),
            events: VecDeque::new(),
            counters: NeighbourCounters::default(),
        }
    }

    /// Returns the MAC address for frames to a neighbour; `None` if it is not known. If the
    /// neighbour is stale, this starts the delay after which it is probed.
    pub fn resolve(&mut self, next_hop: IpAddr, now_ns: u64) -> Option<MacAddr> {
        let entry = self.entries.get_mut(&next_hop)?;
        entry.active_ns = entry.active_ns.max(now_ns);
        let mac = entry.mac()?;
        if entry.state_at(now_ns) == NeighbourState::Stale {
            let due = now_ns.saturating_add(self.timers.delay_first_probe_ns);
            entry.state = NeighbourState::Delay;
            self.set_deadline(next_hop, due);
        }
        Some(mac)
    }

    /// Stores a frame of `len` bytes until the MAC address of its next hop is known, and solicits
    /// the next hop. The frame is returned later in [`NeighbourEvent::Released`] or
    /// [`NeighbourEvent::Dropped`].
    ///
    /// # Errors
    /// The frame and a [`HoldRefusal`] if the frame cannot be stored. The frame is then counted as
    /// refused.
    pub fn hold(
        &mut self,
        next_hop: IpAddr,
        frame: F,
        len: u32,
        now_ns: u64,
    ) -> Result<(), (F, HoldRefusal)> {
        if let Some(mac) = self.resolve(next_hop, now_ns) {
            self.counters.held += 1;
            self.release(next_hop, mac, frame);
            return Ok(());
        }
        let refusal = if u64::from(len) > self.limits.bytes_per_neighbour.min(self.limits.bytes) {
            Some(HoldRefusal::TooLong)
        } else if self.solicit(next_hop, now_ns) {
            None
        } else {
            Some(HoldRefusal::TableFull)
        };
        match refusal {
            Some(why) => {
                self.counters.refused += 1;
                Err((frame, why))
            }
            None => {
                self.counters.held += 1;
                self.enqueue(next_hop, frame, len);
                Ok(())
            }
        }
    }

    /// Solicits an address, unless its MAC address is known or it is already being solicited.
    /// Returns `false` if the table is full.
    pub fn solicit(&mut self, next_hop: IpAddr, now_ns: u64) -> bool {
        match self.entries.get(&next_hop).map(|entry| entry.state) {
            Some(NeighbourState::Failed) => {}
            Some(_) => return true,
            None if self.make_room(true, now_ns) => {}
            None => return false,
        }
        while self.incomplete.len() >= self.limits.incomplete.max(1) {
            self.evict_oldest_incomplete(None);
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.incomplete.insert((sequence, next_hop));
        self.entries.insert(next_hop, NeighbourEntry::incomplete(sequence, now_ns));
        self.ask(next_hop, None, now_ns);
        true
    }

    /// Records that a protocol above IP has confirmed that a neighbour is reachable (RFC 4861,
    /// 7.3.1).
    pub fn confirm(&mut self, neighbour: IpAddr, now_ns: u64) {
        let entry = self.entries.get(&neighbour);
        if entry.is_some_and(|entry| entry.mac().is_some() && !entry.is_installed()) {
            self.set_reachable(neighbour, now_ns);
        }
    }

    /// Handles the timers that are due. This repeats solicitations, probes neighbours, and gives up
    /// after too many solicitations.
    pub fn tick(&mut self, now_ns: u64) {
        while let Some(&(due_ns, neighbour)) = self.deadlines.first() {
            if due_ns > now_ns {
                break;
            }
            self.deadlines.pop_first();
            self.expire(neighbour, now_ns);
        }
    }

    /// Returns the time at which [`Self::tick`] must be called next, in ns; `None` if no timer
    /// runs.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.deadlines.first().map(|&(due_ns, _)| due_ns)
    }

    /// Removes and returns the oldest event; `None` if there is none.
    pub fn poll_event(&mut self) -> Option<NeighbourEvent<F>> {
        self.events.pop_front()
    }

    /// Returns whether there are no events to take.
    #[must_use]
    pub fn has_no_events(&self) -> bool {
        self.events.is_empty()
    }

    /// Number of frames that wait, summed over all neighbours.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.usage.frames
    }

    /// Returns the frames that wait. Those of a neighbour are in the order in which they were
    /// stored.
    pub fn waiting_frames(&self) -> impl Iterator<Item = &F> {
        self.entries.values().flat_map(|entry| entry.queue.iter())
    }

    /// The counters of all events so far.
    #[must_use]
    pub const fn counters(&self) -> &NeighbourCounters {
        &self.counters
    }

    /// Returns whether the counters account for every stored frame: as waiting, released or
    /// dropped.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let counters = &self.counters;
        let dropped: u64 = counters.dropped.iter().sum();
        counters.held == counters.released + dropped + self.usage.frames as u64
    }

    /// The number of neighbours, in any state.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the cache has no neighbours.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the neighbours with their states at `now_ns`, sorted by address.
    pub fn iter(&self, now_ns: u64) -> impl Iterator<Item = NeighbourView> {
        self.entries.iter().map(move |(address, entry)| entry.view(*address, now_ns))
    }

    /// Returns a neighbour with its state at `now_ns`; `None` if it is not in the cache.
    #[must_use]
    pub fn get(&self, neighbour: IpAddr, now_ns: u64) -> Option<NeighbourView> {
        self.entries.get(&neighbour).map(|entry| entry.view(neighbour, now_ns))
    }

    /// Sets the MAC address of a neighbour that the kernel or an administrator maintains. Messages
    /// and timers do not change it afterwards. Returns `false` if the table is full.
    pub fn install(&mut self, neighbour: IpAddr, mac: MacAddr, now_ns: u64) -> bool {
        if !self.entries.contains_key(&neighbour) {
            if !self.make_room(true, now_ns) {
                return false;
            }
            self.entries.insert(neighbour, NeighbourEntry::failed(now_ns));
        }
        self.set_mac(neighbour, mac, NeighbourState::Installed, now_ns);
        true
    }

    /// Records that a neighbour cannot be reached, according to the kernel or an administrator.
    /// Frames that wait for it are dropped.
    pub fn fail(&mut self, neighbour: IpAddr) {
        if self.entries.contains_key(&neighbour) {
            self.give_up(neighbour);
        }
    }

    /// Removes a neighbour. Frames that wait for it are dropped.
    pub fn remove(&mut self, neighbour: IpAddr) {
        self.discard(neighbour, HoldDropCause::Flushed);
    }

    /// Removes all neighbours except installed ones. Must be called when the link has gone down.
    /// All waiting frames are dropped.
    pub fn flush(&mut self) {
        let entries = self.entries.iter().filter(|(_, entry)| !entry.is_installed());
        let neighbours: VecDeque<IpAddr> = entries.map(|(address, _)| *address).collect();
        neighbours.into_iter().for_each(|neighbour| self.remove(neighbour));
    }

    /// Handles the timer of an entry. The timer must be due.
    fn expire(&mut self, neighbour: IpAddr, now_ns: u64) {
        let Some(entry) = self.entries.get_mut(&neighbour) else { return };
        entry.deadline_ns = None;
        let max_solicits = match entry.state {
            NeighbourState::Incomplete => self.timers.max_multicast_solicits,
            _ => self.timers.max_unicast_solicits,
        };
        if entry.state == NeighbourState::Delay {
            entry.state = NeighbourState::Probe;
            entry.solicits = 0;
        }
        if entry.solicits >= max_solicits {
            self.give_up(neighbour);
        } else {
            let mac = entry.mac();
            self.ask(neighbour, mac, now_ns);
        }
    }

    /// Solicits a neighbour, and starts the timer for the next solicitation. The timer starts at
    /// `now_ns`, so that a late call does not cause several solicitations at once.
    fn ask(&mut self, target: IpAddr, mac: Option<MacAddr>, now_ns: u64) {
        if let Some(entry) = self.entries.get_mut(&target) {
            entry.solicits = entry.solicits.saturating_add(1);
        }
        self.counters.solicited += 1;
        self.events.push_back(NeighbourEvent::Solicit { target, mac });
        self.set_deadline(target, now_ns.saturating_add(self.timers.retransmit_ns));
    }

    /// Marks a neighbour as failed, and drops the frames that wait for it.
    fn give_up(&mut self, neighbour: IpAddr) {
        self.clear_deadline(neighbour);
        self.drop_held(neighbour, HoldDropCause::Unanswered);
        let Some(entry) = self.entries.get_mut(&neighbour) else { return };
        self.incomplete.remove(&(entry.sequence, neighbour));
        let had_mac = entry.mac().is_some();
        let active_ns = entry.active_ns;
        *entry = NeighbourEntry::failed(active_ns);
        self.counters.failed += 1;
        if had_mac {
            self.events.push_back(NeighbourEvent::Changed { neighbour, mac: None });
        }
    }

    /// Sets the MAC address and the state of an existing entry. Releases the frames that wait for
    /// it.
    fn set_mac(&mut self, neighbour: IpAddr, mac: MacAddr, state: NeighbourState, now_ns: u64) {
        self.clear_deadline(neighbour);
        let Some(entry) = self.entries.get_mut(&neighbour) else { return };
        self.incomplete.remove(&(entry.sequence, neighbour));
        let before = entry.mac();
        entry.set_mac(mac, state);
        entry.active_ns = entry.active_ns.max(now_ns);
        if before != Some(mac) {
            self.events.push_back(NeighbourEvent::Changed { neighbour, mac: Some(mac) });
        }
        self.release_held(neighbour, mac);
    }

    /// Marks a neighbour as reachable from `now_ns` on, for a random time.
    fn set_reachable(&mut self, neighbour: IpAddr, now_ns: u64) {
        let base = self.timers.base_reachable_ns;
        let time = self.rng.between(base / 2, base.saturating_add(base / 2));
        self.clear_deadline(neighbour);
        if let Some(entry) = self.entries.get_mut(&neighbour) {
            entry.state = NeighbourState::Reachable;
            entry.was_confirmed = true;
            entry.fresh_until_ns = now_ns.saturating_add(time);
            entry.active_ns = entry.active_ns.max(now_ns);
        }
    }

    fn set_deadline(&mut self, neighbour: IpAddr, due_ns: u64) {
        self.clear_deadline(neighbour);
        if let Some(entry) = self.entries.get_mut(&neighbour) {
            entry.deadline_ns = Some(due_ns);
            self.deadlines.insert((due_ns, neighbour));
        }
    }

    fn clear_deadline(&mut self, neighbour: IpAddr) {
        let entry = self.entries.get_mut(&neighbour);
        if let Some(due_ns) = entry.and_then(|entry| entry.deadline_ns.take()) {
            self.deadlines.remove(&(due_ns, neighbour));
        }
    }
}
