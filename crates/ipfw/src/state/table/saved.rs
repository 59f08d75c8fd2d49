//! States that are written down, and are there again.

use super::{FlowState, StateKind, StateRefusal, StateTable};
use crate::rule::{LimitFields, ObjectName, RuleNumber};
use crate::state::keepalive::FlowEthernet;
use crate::state::masked;
use crate::table::IpfwFlowKey;

/// What a state remembers of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpStateInfo {
    /// FIN, SYN and RST that came, forward and reverse.
    pub flags: [u8; 2],
    /// The last acknowledgement numbers, forward and reverse.
    pub acks: [u32; 2],
    /// Who has acknowledged something new since the lifetime was last renewed: 1 is forward, 2 reverse.
    pub acked: u8,
}

/// All that is written down of a state, in terms of the list and the clock that it hangs on.
#[derive(Clone, Debug)]
pub struct SavedState {
    /// The flow as its first packet had it.
    pub flow: IpfwFlowKey,
    /// The name of the state.
    pub name: ObjectName,
    /// Whose action runs on a hit.
    pub rule: u64,
    /// The number of that rule.
    pub number: RuleNumber,
    /// The set of that rule.
    pub set: u8,
    /// The fields that a limit counts it by.
    pub limit: Option<LimitFields>,
    /// When it ends.
    pub expires_ns: u64,
    /// What TCP has told.
    pub tcp: TcpStateInfo,
    /// The Ethernet side of the flow's first packet.
    pub link: FlowEthernet,
    /// Where that packet came in.
    pub port: Option<u16>,
    /// Packets after the first.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl FlowState {
    /// What is to be written down.
    #[must_use]
    pub fn saved(&self) -> SavedState {
        let [forward, reverse] = self.tcp.to_le_bytes();
        let acks = [self.ack_forward, self.ack_reverse];
        SavedState {
            flow: self.flow,
            name: self.name.clone(),
            rule: self.rule,
            number: self.number,
            set: self.set,
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
    /// Makes a state that was written down. One of its flow and name that lives is newer, and stays;
    /// limits count it and do not refuse it.
    ///
    /// # Errors
    /// [`Refusal::Full`].
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
            set: written.set,
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

    /// Forgets what has ended, where there is no room left.
    pub(super) fn make_room(&mut self, now: u64) {
        if self.len() >= self.max as usize {
            let ended = self.remove_where(|state| state.expires_ns <= now);
            self.counters.expired += ended as u64;
        }
    }
}
