mod saved;
mod snapshot;

pub use saved::{SavedState, TcpStateInfo};
pub use snapshot::StateSnapshot;

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::hash::BuildHasherDefault;

use hashbrown::HashMap;

use super::hash::{IdentityHasher, StateHash};
use super::keepalive::{FlowEthernet, Keepalive, reversed, tcp_frame};
use super::lifetime::StateLifetimes;
use super::masked;
use crate::keyed::KeyedBuildHasher;
use crate::rule::{LimitFields, ObjectName, RuleNumber};
use crate::table::IpfwFlowKey;

/// Keepalives are sent in this period before a state expires.
const KEEPALIVE_WINDOW_NS: u64 = 20_000_000_000;
/// Time between two keepalives.
const KEEPALIVE_PERIOD_NS: u64 = 5_000_000_000;

/// The state of a flow.
///
/// The fields fill three cache lines. The first line has the flow and the times of expiry and
/// wake-up, and the second line has the other fields that a hit changes. A hit reads the third line
/// only if the state gets keepalives.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct FlowState {
    /// The flow in the direction of its first packet.
    pub flow: IpfwFlowKey,
    /// Time at which the state expires, in ns of the engine's clock.
    pub expires_ns: u64,
    /// Time of the state's next wake-up, in ns; heap entries of the state with other times are
    /// ignored.
    wakes_ns: u64,
    /// Number of packets for which the state was found; the packet that created it does not count.
    pub packets: u64,
    /// Total bytes of the packets that `packets` counts.
    pub bytes: u64,
    /// The id of the rule whose action runs on a hit.
    pub rule: u64,
    /// The name of the state.
    pub name: ObjectName,
    /// Index of the next state with the same hash; `None` if this is the last one.
    next: Option<u32>,
    generation: u32,
    pub(super) ack_forward: u32,
    pub(super) ack_reverse: u32,
    pub(super) tcp: u16,
    pub(super) acked: u8,
    /// The number of the rule whose action runs on a hit.
    pub number: RuleNumber,
    /// Whether the state was created by `keep-state` or by `limit`.
    pub kind: StateKind,
    link: FlowEthernet,
    port: Option<u16>,
    keepalive_at: u64,
}

impl FlowState {
    /// Returns the time of the state's next wake-up: its expiry or, if it gets keepalives, its next
    /// keepalive, which is not before `earliest`.
    #[inline]
    fn wake_from(&self, earliest: u64, keepalive: bool) -> u64 {
        if !(keepalive && self.is_open_tcp()) {
            return self.expires_ns;
        }
        let window = self.expires_ns.saturating_sub(KEEPALIVE_WINDOW_NS);
        window.max(self.keepalive_at).max(earliest).min(self.expires_ns)
    }
}

// A slot takes no more memory than a state.
const _: () = assert!(size_of::<Option<FlowState>>() == 3 * 64);

/// How a state was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// `keep-state` or `record-state`.
    Keep,
    /// `limit` or `set-limit`, counted by these fields.
    Limit(LimitFields),
}

/// The direction of a packet in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowDirection {
    /// The direction of the flow's first packet.
    Forward,
    /// The direction of replies to the first packet.
    Reverse,
}

/// The fields of a packet that update a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateUpdate {
    /// TCP flags; 0 for other protocols.
    pub tcp_flags: u8,
    /// TCP acknowledgement number.
    pub tcp_ack: u32,
    /// Bytes of the packet, to add to the state's count.
    pub bytes: u32,
}

/// The state that a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHit {
    /// The id of the rule whose action runs.
    pub rule: u64,
    /// The direction of the packet.
    pub direction: FlowDirection,
}

/// A state to create.
#[derive(Clone, Debug)]
pub struct NewState {
    /// The flow of the first packet.
    pub flow: IpfwFlowKey,
    /// The name of the state.
    pub name: ObjectName,
    /// The id of the rule whose action runs on a hit.
    pub rule: u64,
    /// The number of the rule whose action runs on a hit.
    pub number: RuleNumber,
    /// The fields by which states are counted, and the maximum count; `None` if there is no limit.
    pub limit: Option<(LimitFields, u32)>,
    /// Ethernet addresses and tags of the first packet.
    pub link: FlowEthernet,
    /// The port where the first packet came in; `None` if unknown.
    pub port: Option<u16>,
}

/// Why a state is not created or restored. A packet that was to create it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateRefusal {
    /// There are already `dyn_max` states.
    Full,
    /// The limit of the rule is reached.
    Limit,
}

/// Counters of the state table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounters {
    /// Number of states that were created.
    pub made: u64,
    /// Number of states that expired.
    pub expired: u64,
    /// Number of states that were not created, because the table was full.
    pub refused_full: u64,
    /// Number of states that were not created, because of a rule's `limit`.
    pub refused_limit: u64,
    /// Number of keepalives sent.
    pub keepalives: u64,
}

/// The state table.
#[derive(Clone, Debug)]
pub struct StateTable {
    secret: [u64; 2],
    /// Index of the first state per hash of both endpoints. The map has hashes instead of flows, to
    /// be small; a lookup then compares the flow with those of the states found. The hash is keyed
    /// by a secret.
    heads: HashMap<u64, u32, BuildHasherDefault<IdentityHasher>>,
    slots: Vec<Option<FlowState>>,
    free: Vec<u32>,
    parents: HashMap<(u64, IpfwFlowKey), u32, KeyedBuildHasher>,
    wakes: BinaryHeap<Reverse<(u64, u32, u32)>>,
    generation: u32,
    counters: StateCounters,
    /// Lifetimes for states that are created or renewed from now on.
    pub lifetimes: StateLifetimes,
    /// Maximum number of states.
    pub max: u32,
    /// Whether keepalives are sent.
    pub keepalive: bool,
}

impl StateTable {
    /// Builds an empty table. `secret` keys the hash, so that no sender can construct colliding
    /// flows.
    #[must_use]
    pub fn new(secret: [u64; 2]) -> Self {
        Self {
            secret,
            heads: HashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            parents: HashMap::with_hasher(KeyedBuildHasher(secret)),
            wakes: BinaryHeap::new(),
            generation: 0,
            counters: StateCounters::default(),
            lifetimes: StateLifetimes::default(),
            max: 16384,
            keepalive: true,
        }
    }

    /// Number of states.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether there are no states.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the counters.
    #[must_use]
    pub const fn counters(&self) -> StateCounters {
        self.counters
    }

    /// Returns all states, ordered by rule.
    #[must_use]
    pub fn sorted(&self) -> Vec<&FlowState> {
        let mut all: Vec<_> = self.slots.iter().flatten().collect();
        all.sort_by_key(|state| (state.number, state.rule, state.flow));
        all
    }

    /// Iterates over the counts of limits: rule, masked flow, number of states.
    pub fn parents(&self) -> impl Iterator<Item = (u64, IpfwFlowKey, u32)> {
        self.parents.iter().map(|(&(rule, flow), &count)| (rule, flow, count))
    }

    /// Returns the hash by which the states of a flow are found.
    #[must_use]
    pub fn hash(&self, flow: &IpfwFlowKey) -> StateHash {
        StateHash::of(flow, self.secret)
    }

    /// Returns the index of the first state with this hash; `None` if there is none.
    #[inline]
    #[must_use]
    pub(crate) fn head(&self, hash: StateHash) -> Option<u32> {
        self.heads.get(&hash.0).copied()
    }

    /// Prefetches the memory that hits of these states will read; has no other effect.
    pub(crate) fn prefetch(&self, heads: &[u32]) {
        for state in heads.iter().filter_map(|&at| self.slots[at as usize].as_ref()) {
            core::hint::black_box(state.expires_ns ^ state.packets);
        }
    }

    /// Finds the newest living state of a packet that has this name (any name if `None`), and
    /// updates it; `None` if there is none. `hash` is the hash of `flow`.
    pub fn hit(
        &mut self,
        (flow, hash): (IpfwFlowKey, StateHash),
        name: Option<&ObjectName>,
        update: &StateUpdate,
        now: u64,
    ) -> Option<StateHit> {
        let mut at = self.heads.get(&hash.0).copied();
        while let Some(index) = at {
            let state = self.slots[index as usize].as_mut()?;
            let named = name.is_none_or(|name| *name == state.name);
            let same = state.flow == flow;
            if (same || state.flow == reversed(flow)) && named && state.expires_ns > now {
                let direction = if same { FlowDirection::Forward } else { FlowDirection::Reverse };
                state.packets += 1;
                state.bytes += u64::from(update.bytes);
                state.update(update, direction, now, &self.lifetimes);
                let due = state.wake_from(now + KEEPALIVE_PERIOD_NS, self.keepalive);
                if due < state.wakes_ns {
                    state.wakes_ns = due;
                    self.wakes.push(Reverse((state.wakes_ns, index, state.generation)));
                }
                return Some(StateHit { rule: state.rule, direction });
            }
            at = state.next;
        }
        None
    }

    /// Creates a state for the packet described by `update`, unless its flow already has a living
    /// state of that name. `hash` is the hash of the flow.
    ///
    /// # Errors
    /// [`StateRefusal`] if the state is not created. The refusal is counted, and expired states may
    /// have been removed.
    pub fn make(
        &mut self,
        new: NewState,
        hash: StateHash,
        update: &StateUpdate,
        now: u64,
    ) -> Result<(), StateRefusal> {
        if self.has((new.flow, &new.name), hash, now) {
            return Ok(());
        }
        self.make_room(now);
        let parent = new.limit.map(|(fields, most)| ((new.rule, masked(new.flow, fields)), most));
        if let Some((parent, most)) = parent
            && self.parents.get(&parent).is_some_and(|&count| count >= most)
        {
            self.counters.refused_limit += 1;
            return Err(StateRefusal::Limit);
        }
        if self.len() >= self.max as usize {
            self.counters.refused_full += 1;
            return Err(StateRefusal::Full);
        }
        if let Some((parent, _)) = parent {
            *self.parents.entry(parent).or_insert(0) += 1;
        }
        self.counters.made += 1;
        self.insert(new, hash, update, now);
        Ok(())
    }

    fn has(&self, (flow, name): (IpfwFlowKey, &ObjectName), hash: StateHash, now: u64) -> bool {
        let head = self.heads.get(&hash.0).copied();
        let state = |index: u32| self.slots[index as usize].as_ref();
        let mut chain =
            core::iter::successors(head.and_then(state), |state_here| state(state_here.next?));
        let other_way = reversed(flow);
        chain.any(|state| {
            let same = state.flow == flow || state.flow == other_way;
            same && state.name == *name && state.expires_ns > now
        })
    }

    fn insert(&mut self, new: NewState, hash: StateHash, update: &StateUpdate, now: u64) {
        let mut state = FlowState {
            flow: new.flow,
            name: new.name,
            rule: new.rule,
            number: new.number,
            kind: new.limit.map_or(StateKind::Keep, |(fields, _)| StateKind::Limit(fields)),
            packets: 0,
            bytes: 0,
            expires_ns: now,
            tcp: 0,
            ack_forward: 0,
            ack_reverse: 0,
            acked: 0,
            link: new.link,
            port: new.port,
            keepalive_at: 0,
            wakes_ns: 0,
            generation: 0,
            next: None,
        };
        state.update(update, FlowDirection::Forward, now, &self.lifetimes);
        state.wakes_ns = state.expires_ns;
        self.put(state, hash);
    }

    /// Stores a state in a slot, links it to its hash, and schedules its wake-up.
    fn put(&mut self, mut state: FlowState, hash: StateHash) {
        self.generation = self.generation.wrapping_add(1);
        state.generation = self.generation;
        let wake = state.wakes_ns;
        let index = self.free.pop().unwrap_or(self.slots.len() as u32);
        state.next = self.heads.insert(hash.0, index);
        match self.slots.get_mut(index as usize) {
            Some(slot) => *slot = Some(state),
            None => self.slots.push(Some(state)),
        }
        self.wakes.push(Reverse((wake, index, self.generation)));
    }

    fn remove(&mut self, index: u32) {
        let Some(state) = self.slots[index as usize].take() else { return };
        self.free.push(index);
        self.unlink(index, &state);
        if let StateKind::Limit(fields) = state.kind {
            let parent = (state.rule, masked(state.flow, fields));
            let left = self.parents.get_mut(&parent).map(|count| {
                *count -= 1;
                *count
            });
            if left == Some(0) {
                self.parents.remove(&parent);
            }
        }
    }

    fn unlink(&mut self, index: u32, state: &FlowState) {
        let key = self.hash(&state.flow).0;
        let Some(head) = self.heads.get_mut(&key) else { return };
        if *head == index {
            match state.next {
                Some(next) => *head = next,
                None => drop(self.heads.remove(&key)),
            }
            return;
        }
        let mut at = Some(*head);
        while let Some(here) = at.and_then(|at| self.slots[at as usize].as_mut()) {
            if here.next == Some(index) {
                here.next = state.next;
                return;
            }
            at = here.next;
        }
    }

    /// Removes states that have expired by `now`, and calls `send` for each keepalive that is due,
    /// with the port where the flow's first packet came in.
    pub fn tick(&mut self, now: u64, send: &mut dyn FnMut(Keepalive, Option<u16>, &FlowState)) {
        while let Some(&Reverse((wake, index, generation))) = self.wakes.peek() {
            if wake > now {
                return;
            }
            self.wakes.pop();
            let slot = self.slots.get_mut(index as usize).and_then(Option::as_mut);
            let valid =
                |state: &&mut FlowState| state.generation == generation && state.wakes_ns == wake;
            let Some(state) = slot.filter(valid) else { continue };
            if state.expires_ns <= now {
                self.counters.expired += 1;
                self.remove(index);
                continue;
            }
            let window = state.expires_ns.saturating_sub(KEEPALIVE_WINDOW_NS);
            let alive = self.keepalive && state.is_open_tcp();
            if alive && now >= window && now >= state.keepalive_at {
                self.counters.keepalives += 2;
                state.keepalive_at = now + KEEPALIVE_PERIOD_NS;
                keepalives(state).into_iter().for_each(|each| send(each, state.port, state));
            }
            let wake = state.wake_from(now + 1, self.keepalive);
            state.wakes_ns = wake;
            self.wakes.push(Reverse((wake, index, generation)));
        }
    }

    /// Time at which [`Self::tick`] must be called next, in ns; `None` if no wake-up is pending.
    #[must_use]
    pub fn next_wake_ns(&self) -> Option<u64> {
        self.wakes.peek().map(|Reverse((wake, _, _))| *wake)
    }

    /// Removes the states for which `of` returns `true`; returns their number.
    pub fn remove_where(&mut self, of: impl Fn(&FlowState) -> bool) -> usize {
        let picked: Vec<u32> = (0..)
            .zip(&self.slots)
            .filter_map(|(index, slot)| slot.as_ref().is_some_and(&of).then_some(index))
            .collect();
        picked.iter().for_each(|&index| self.remove(index));
        picked.len()
    }

    /// Moves the states for which `of` returns `true`, and their limit counts, to the rule with id
    /// `rule` and number `number`.
    pub fn adopt(&mut self, of: impl Fn(&FlowState) -> bool, rule: u64, number: RuleNumber) {
        for state in self.slots.iter_mut().flatten().filter(|state| of(state)) {
            let StateKind::Limit(fields) = state.kind else {
                (state.rule, state.number) = (rule, number);
                continue;
            };
            let flow = masked(state.flow, fields);
            if let Some(count) = self.parents.remove(&(state.rule, flow)) {
                *self.parents.entry((rule, flow)).or_insert(0) += count;
            }
            (state.rule, state.number) = (rule, number);
        }
    }
}

/// Builds one TCP segment for each end of the connection. Its sequence number is one below the
/// number that the end expects, so that the end answers with an acknowledgement.
fn keepalives(state: &FlowState) -> [Keepalive; 2] {
    const ACK: u8 = 0x10;
    let answer = reversed(state.flow);
    let (forward, reverse) = (state.ack_forward, state.ack_reverse);
    let to_source =
        tcp_frame(&state.link.reversed(), &answer, forward.wrapping_sub(1), reverse, ACK);
    let to_peer = tcp_frame(&state.link, &state.flow, reverse.wrapping_sub(1), forward, ACK);
    [
        Keepalive { to_source: true, frame: to_source },
        Keepalive { to_source: false, frame: to_peer },
    ]
}
