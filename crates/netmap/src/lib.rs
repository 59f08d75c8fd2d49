//! What netmap's kernel module does for its clients, without the kernel: requests, binds, syncs
//! and polls, on memory that the clients have mapped.
//!
//! ```text
//!   front (slipring-fuse)        this crate                                 memory
//!   open    ------------------>  Netmap::open --> Open  - - belongs to - ->  Domain: one file per user
//!   ioctl NIOCCTRL ----------->  request --> register --> Binding                |- Memory 1 (global)
//!   ioctl NIOC*SYNC, poll ---->  Open --> Adapter::sync  (pipe, null, ..)        |- Memory 2 (private)
//!   wake-ups  <----------------  Waker <-- Listeners     (peer has synced)       `- ...
//! ```
//!
//! A front carries calls to an [`Open`] and wake-ups back; it reads the caller's memory by a
//! [`CallerMemory`], so all of this runs in tests without any front. Kinds of ports stand behind
//! the trait [`Adapter`]; those that this crate does not know come from a [`Provider`].
//!
//! # Invariants
//! 1. A client can hurt only itself and those who share its [`Domain`]: what it wrote is read
//!    once, checked, then used.
//! 2. No call blocks: a ring that another thread is syncing is skipped. The sync loop alone lasts, and
//!    says so ([`Netmap::is_long`]).
//! 3. Everything that an open took goes back when it is dropped, in whatever state it is.
//!
//! # Not for
//! Programs that open ports for themselves; they use `slipring-core`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod adapter;
mod binding;
mod bound;
mod caller;
mod claims;
mod csb;
mod delegation;
mod detached;
mod domain;
mod external;
mod forward;
mod kloop;
mod legacy;
mod monitor;
mod monitor_taps;
mod names;
mod offsets;
mod open;
mod parameters;
mod params;
mod pipe;
mod poll;
mod queue_delegation;
mod request;
mod restart;
mod slot_snapshot;
#[cfg(test)]
mod tests;
mod vale;
mod waker;

pub use adapter::{Adapter, AdapterCounters, AdapterShape, SyncStatus, TxRx};
pub use bound::BoundPort;
pub use caller::CallerMemory;
pub use claims::Claims;
pub use delegation::{DelegatedHalf, DelegationGuard, KickDispatcher, PipeDelegation};
pub use domain::{Domain, MemoryNeeds, MemoryUse, NetmapMemory};
pub use external::SharedPages;
pub use kloop::Cancel;
pub use monitor_taps::{MonitorAware, MonitorInfo, MonitorTaps};
pub use names::{AdapterEvent, AdapterRequest, PortKind, Provider, RecoveredPort};
pub use open::{Netmap, OpenHandle, Opener};
pub use parameters::{Effect, PARAMETERS, Parameter, Parameters, SetParameterError};
pub use params::MemoryParams;
pub use poll::PollEvents;
pub use queue_delegation::QueueDelegation;
pub use restart::{
    FdStore, OpenId, RecoveredDomain, ResumeError, ResumedDomain, ledger_name, memory_name,
};
pub use rustix::io::Errno;
pub use slipring_switch as switch;
pub use vale::{SwitchInfo, SwitchPortInfo};
pub use waker::{Listeners, Notify, Waker};
