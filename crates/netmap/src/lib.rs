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
mod attachment_cleanup;
mod base;
mod binding;
mod bound;
mod caller;
mod cancel;
mod claims;
mod commit_lock;
mod commit_log;
mod csb;
mod csb_requests;
mod delegating;
mod delegation;
mod detached;
mod domain;
mod external;
mod fd_quota;
mod find;
mod forward;
mod ioctl;
mod kicks;
mod kloop;
mod ledger;
mod legacy;
mod lock;
mod memory;
mod monitor;
mod monitor_taps;
mod names;
mod offsets;
mod open;
mod opener;
mod outcome;
mod parameters;
mod params;
mod persist;
mod pipe;
mod poll;
mod poll_credit;
mod port_name;
mod provider;
mod queue_delegation;
mod request;
mod restart;
mod shape;
mod sharing;
mod slot_snapshot;
mod state;
mod switched;
#[cfg(test)]
mod tests;
mod user_memory;
mod vale;
mod vale_control;
mod vale_make;
mod vale_requests;
mod waker;

pub use adapter::Adapter;
pub use base::AdapterBase;
pub use bound::BoundPort;
pub use caller::CallerMemory;
pub use cancel::Cancel;
pub use claims::Claims;
pub use commit_log::{FdStore, ledger_name, memory_name};
pub use delegating::{
    DelegatedHalf, DelegatingPort, DelegationGuard, PipeDelegation, QueueDelegation,
};
pub use domain::Domain;
pub use external::SharedPages;
pub use kicks::KickDispatcher;
pub use memory::{MemoryNeeds, NetmapMemory};
pub use monitor_taps::{MonitorAware, MonitorInfo, MonitorTaps};
pub use open::{Netmap, OpenHandle, OpenId};
pub use opener::Opener;
pub use outcome::{AdapterCounters, OffsetLimits, SyncStatus};
pub use parameters::{Effect, PARAMETERS, Parameter, Parameters, SetParameterError};
pub use params::MemoryParams;
pub use persist::Persistent;
pub use poll::PollEvents;
pub use port_name::PortKind;
pub use provider::{AdapterEvent, AdapterRequest, Provider, RecoveredPort};
pub use restart::{RecoveredDomain, ResumeError, ResumedDomain};
pub use rustix::io::Errno;
pub use shape::{AdapterShape, TxRx};
pub use slipring_switch as switch;
pub use switched::SwitchedPort;
pub use user_memory::{MemoryUse, UserMemory};
pub use vale_control::{SwitchInfo, SwitchPortInfo};
pub use waker::{Listeners, Notify, Waker};
