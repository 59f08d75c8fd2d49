//! Saved states, and their restoration.

use alloc::vec::Vec;

use super::{FlowState, StateKind, StateRefusal, StateTable};
use crate::rule::{LimitFields, ObjectName, RuleNumber};
use crate::state::keepalive::FlowEthernet;
use crate::state::masked;
use crate::table::IpfwFlowKey;

/// The TCP part of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpStateInfo {
    /// FIN, SYN and RST flags that were seen, forward and reverse.
    pub flags: [u8; 2],
    /// The last acknowledgement numbers, forward and reverse.
    pub acks: [u32; 2],
    /// Which sides have sent an up-to-date acknowledgement since the lifetime was last renewed: bit
    /// 0 forward, bit 1 reverse.
    pub acked: u8,
}

/// A state in the form in which it is saved. Its rule id is that of the firewall's list, and its
/// expiry is by the firewall's clock.
#[derive(Clone, Debug)]
pub struct SavedState {
    /// The flow in the direction of its first packet.
    pub flow: IpfwFlowKey,
    /// The name of the state.
    pub name: ObjectName,
    /// The id of the rule whose action runs on a hit.
    pub rule: u64,
    /// The number of that rule.
    pub number: RuleNumber,
    /// The fields by which a limit counts the state; `None` if there is no limit.
    pub limit: Option<LimitFields>,
    /// Time at which the state expires, in ns of the engine's clock.
    pub expires_ns: u64,
    /// The TCP part of the state.
    pub tcp: TcpStateInfo,
    /// Ethernet addresses and tags of the flow's first packet.
    pub link: FlowEthernet,
    /// The port where the flow's first packet came in; `None` if unknown.
    pub port: Option<u16>,
    /// Number of packets for which the state was found; the packet that created it does not count.
    pub packets: u64,
    /// Total bytes of the packets that `packets` counts.
    pub bytes: u64,
}

impl FlowState {
    /// Returns the state in the form in which it is saved.
    #[must_use]
    pub fn saved(&self) -> SavedState {
        let [forward, reverse] = self.tcp.to_le_bytes();
        let acks = [self.ack_forward, self.ack_reverse];
        SavedState {
            flow: self.flow,
            name: self.name.clone(),
            rule: self.rule,
            number: self.number,
            limit: match self.kind {
                StateKind::Keep => None,
                StateKind::Limit(fields) => Some(fields),
            },
            expires_ns: self.expires_ns,
            tcp: TcpStateInfo { flags: [forward, reverse], acks, acked: self.acked },
            link: self.link,
            port: self.port,
            packets: self.packets,
            bytes: self.bytes,
        }
    }
}

impl StateTable {
    /// Restores a saved state. If a living state of the same flow and name exists, it is newer and
    /// stays. Limits count the state but do not refuse it.
    ///
    /// # Errors
    /// [`StateRefusal::Full`] if the table is full.
    pub fn restore(&mut self, written: SavedState, now: u64) -> Result<(), StateRefusal> {
        let hash = self.hash(&written.flow);
        if self.has((written.flow, &written.name), hash, now) {
            return Ok(());
        }
        self.make_room(now);
        if self.len() >= self.max as usize {
            self.counters.refused_full += 1;
            return Err(StateRefusal::Full);
        }
        if let Some(fields) = written.limit {
            *self.parents.entry((written.rule, masked(written.flow, fields))).or_insert(0) += 1;
        }
        let TcpStateInfo { flags, acks: [ack_forward, ack_reverse], acked } = written.tcp;
        let mut state = FlowState {
            flow: written.flow,
            expires_ns: written.expires_ns,
            wakes_ns: 0,
            packets: written.packets,
            bytes: written.bytes,
            rule: written.rule,
            name: written.name,
            next: None,
            generation: 0,
            ack_forward,
            ack_reverse,
            tcp: u16::from_le_bytes(flags),
            acked,
            number: written.number,
            kind: written.limit.map_or(StateKind::Keep, StateKind::Limit),
            link: written.link,
            port: written.port,
            keepalive_at: 0,
        };
        state.wakes_ns = state.wake_from(now, self.keepalive);
        self.put(state, hash);
        Ok(())
    }

    /// Removes all states, and returns those that have not expired, the oldest first. If they are
    /// restored in this order, packets find the same states as before.
    pub fn take(&mut self, now: u64) -> Vec<SavedState> {
        let mut taken = core::mem::take(&mut self.slots);
        taken.sort_by_key(|slot| slot.as_ref().map(|state| state.generation));
        self.heads.clear();
        self.free.clear();
        self.wakes.clear();
        self.parents.clear();
        let living = taken.iter().flatten().filter(|state| state.expires_ns > now);
        living.map(FlowState::saved).collect()
    }

    /// Removes expired states if the table is full.
    pub(super) fn make_room(&mut self, now: u64) {
        if self.len() >= self.max as usize {
            let ended = self.remove_where(|state| state.expires_ns <= now);
            self.counters.expired += ended as u64;
        }
    }
}
