//! Flow states of `keep-state` and `limit`.
//!
//! ```text
//!   (flow, name) --map--> state --rule id--> rule whose action runs on a hit
//!                           |
//!                           +--parent--> count of states with equal masked flow (limit)
//! ```
//!
//! A state is found from either direction. Its lifetime depends on its protocol. A heap of wake-up
//! times drives expiry and keepalives, so these cost nothing until the next wake-up.
//!
//! # Invariants
//! 1. A parent's count is the number of its children in the table, expired ones included.
//! 2. No state is added if there are `dyn_max` or more. Lowering `dyn_max` removes none.
//!
//! Not for the effect of a rule on a packet whose state is found (see [`crate::run`]).

mod hash;
mod keepalive;
mod lifetime;
mod table;

pub use hash::StateHash;
pub use keepalive::{FlowEthernet, Keepalive, ip_frame, pseudo, reversed, tcp_frame};
pub use lifetime::StateLifetimes;
pub use table::{
    FlowDirection, FlowState, NewState, SavedState, StateCounters, StateHit, StateKind,
    StateRefusal, StateSnapshot, StateTable, StateUpdate, TcpStateInfo,
};

use crate::rule::LimitFields;
use crate::table::IpfwFlowKey;

/// Returns `flow` with 0 in the addresses and ports by which a limit does not count.
#[must_use]
pub fn masked(flow: IpfwFlowKey, fields: LimitFields) -> IpfwFlowKey {
    IpfwFlowKey {
        src: if fields.src_addr { flow.src } else { 0 },
        src_port: if fields.src_port { flow.src_port } else { 0 },
        dst: if fields.dst_addr { flow.dst } else { 0 },
        dst_port: if fields.dst_port { flow.dst_port } else { 0 },
        ..flow
    }
}
