//! A snapshot of one firewall's states, which another firewall lists or saves.

use alloc::vec::Vec;

use super::{FlowState, StateTable};
use crate::table::IpfwFlowKey;

/// The states and limit counts at one time.
#[derive(Clone, Debug, Default)]
pub struct StateSnapshot {
    states: Vec<FlowState>,
    /// Counts of limits: rule, masked flow, number of states.
    parents: Vec<(u64, IpfwFlowKey, u32)>,
}

impl StateSnapshot {
    /// The states.
    pub fn states(&self) -> impl Iterator<Item = &FlowState> {
        self.states.iter()
    }
}

impl StateTable {
    /// Copies everything that a listing needs.
    #[must_use]
    pub fn snapshot(&self) -> StateSnapshot {
        StateSnapshot {
            states: self.slots.iter().flatten().cloned().collect(),
            parents: self.parents().collect(),
        }
    }

    /// Replaces the states by those of other firewalls, for listings only: packets find no states
    /// any more.
    pub fn show(&mut self, others: Vec<StateSnapshot>) {
        self.heads.clear();
        self.free.clear();
        self.wakes.clear();
        self.slots.clear();
        self.parents.clear();
        for StateSnapshot { states, parents } in others {
            self.slots.extend(states.into_iter().map(Some));
            for (rule, flow, count) in parents {
                *self.parents.entry((rule, flow)).or_insert(0) += count;
            }
        }
    }
}
