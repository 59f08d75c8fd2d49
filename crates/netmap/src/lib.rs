//! netmap's kernel module in user space: requests, binds, syncs and polls, on memory that the
//! clients have mapped.
//!
//! ```text
//!   front (slipring-fuse)      this crate                                memory
//!   open    ---------------->  Netmap::open --> OpenHandle   -- in a -> Domain: one file per user
//!   ioctl NIOCCTRL --------->  request --> register --> Binding          |- memory 1 (global)
//!   ioctl NIOC*SYNC, poll -->  OpenHandle --> Adapter::sync  (pipe, ..)  |- memory 2 (private)
//!   wake-ups  <--------------  Waker <-- Listeners   (peer has synced)   `- ...
//! ```
//!
//! A front receives the calls of programs, for example through FUSE. It passes each call to an
//! [`OpenHandle`] and delivers wake-ups. It gives access to the caller's memory through a
//! [`CallerMemory`], so all of this crate can be tested without a front. Each kind of port
//! implements the trait [`Adapter`]; a [`Provider`] supplies the kinds that this crate does not
//! implement.
//!
//! # Layers
//! A module uses modules of its own layer and of the layers below it, never a layer above:
//!
//! ```text
//!   restart   captures a domain by visiting its ports and files; resumes it in a successor process
//!   request   ioctls, from bytes to answers: register, information, switches, sync loops,
//!             delegation
//!   open      a domain, the names in it, open files and their polls, providers of ports
//!   port      Adapter and AdapterBase, abilities of some ports, binds, wakers, taps;
//!             kinds: detached, pipe, monitor, vale
//!   memory    a user's file and the memories in it, external pages, the ledger, the caller's
//!             memory
//!   types     shapes, names, parameters, results, the format of the saved state
//! ```
//!
//! There is one exception: `open` and `request` call the methods of `Domain` that `restart`
//! implements, such as `Domain::commit`, which saves the domain after a change.
//!
//! # Invariants
//! 1. A client can harm only itself and the other clients of its [`Domain`]. Whatever it wrote to
//!    shared memory is read once and checked before it is used.
//! 2. No sync waits for frames or free slots; a ring that another thread is syncing may be skipped.
//!    Only a call that starts a sync loop runs until it is stopped or cancelled
//!    ([`Netmap::runs_until_cancelled`]).
//! 3. Closing an open file (dropping its [`OpenHandle`]) releases everything that the file holds,
//!    whatever its state.
//!
//! # Not for
//! Programs that open ports in their own process; they use `slipring-core`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod memory;
mod open;
mod port;
mod request;
mod restart;
#[cfg(test)]
mod tests;
mod types;

pub use memory::caller::CallerMemory;
pub use memory::external::SharedPages;
pub use memory::netmap_memory::{MemoryNeeds, NetmapMemory};
pub use memory::user_memory::{MemoryUse, UserMemory};
pub use open::bound::BoundPort;
pub use open::commit_log::{FdStore, ledger_name, memory_name};
pub use open::domain::Domain;
pub use open::handle::{Netmap, OpenHandle, OpenId};
pub use open::poll::PollEvents;
pub use open::provider::{AdapterEvent, AdapterRequest, Provider, RecoveredPort};
pub use open::switch_control::{SwitchInfo, SwitchPortInfo};
pub use port::adapter::Adapter;
pub use port::base::AdapterBase;
pub use port::claims::Claims;
pub use port::delegation::{
    DelegatedHalf, DelegatingPort, DelegationGuard, PipeDelegation, QueueDelegation,
};
pub use port::kicks::KickDispatcher;
pub use port::monitor_taps::{MonitorInfo, MonitorListener, MonitorTaps};
pub use port::persist::Persistent;
pub use port::switched::SwitchedPort;
pub use port::waker::{Listeners, Notify, Waker};
pub use restart::{RecoveredDomain, ResumeError, ResumedDomain};
pub use rustix::io::Errno;
pub use slipring_switch as switch;
pub use types::cancel::Cancel;
pub use types::opener::Opener;
pub use types::outcome::{AdapterCounters, OffsetLimits, SyncStatus};
pub use types::parameters::{
    PARAMETERS, Parameter, ParameterEffect, Parameters, SetParameterError,
};
pub use types::params::MemoryParams;
pub use types::port_name::PortKind;
pub use types::shape::{AdapterShape, TxRx};
