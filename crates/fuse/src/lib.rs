//! Serves `/dev/netmap` to unmodified netmap programs.
//!
//! ```text
//!   program            kernel                     this crate               slipring-netmap
//!   open, close  --->  FUSE: LOOKUP, OPEN, RELEASE ---> server, files  --->  OpenHandle
//!   ioctl, poll  --->  FUSE: IOCTL, POLL      ------->  server         --->  sync, poll
//!     (NIOCCTRL  --->        "      )         ------->  blocking_pool  --->  Netmap::ioctl
//!     (close     --->        "      )         ------->  close_tracker  --->  drop(OpenHandle)
//!   mmap         --->  passthrough: the domain's memfd itself
//!   asleep in poll <-  FUSE_NOTIFY_POLL       <-------  reply          <---  Notify
//! ```
//!
//! Requests are read from the FUSE device, or arrive through one io_uring per processor
//! (`uring_workers`, [`UringMode`]). A reply takes the same way as its request (`reply`).
//!
//! The device is a file in a FUSE file system. So dup, fork, exec and passing descriptors need no
//! code here, because the kernel reports when the last reference is dropped. Under the same name,
//! each user sees a different node, with the memory of that user's domain.
//!
//! A module may use the modules that are above it in this table:
//!
//! | layer | modules |
//! |---|---|
//! | basics | `proto`: the messages; `error`, `sys` |
//! | parts | `permissions`, `pages`, `caller`, `namespaces`, `parameters`, `files`, `mount`, `uring`, `config` |
//! | replies and waiting | `reply`, `reply_queue`, `blocking_pool`, `close_tracker`, `long_calls`, `watchdog` |
//! | serving | `server`: every request; `uring_workers`, `native`: requests that arrive by io_uring and by the socket |
//! | start and end | `handshake`, `restart`, `device`, `device_link` |
//!
//! # Invariants
//! 1. A worker thread never waits for a client. Calls that read or write a client's memory may wait
//!    for a page that never arrives. They run in a blocking pool, with a limit per user. They run
//!    in the worker only if no thread can be started.
//! 2. The serving process never opens its own mount.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod blocking_pool;
mod caller;
mod close_tracker;
mod config;
mod device;
mod device_link;
mod error;
mod files;
mod handshake;
mod long_calls;
mod mount;
mod namespaces;
mod native;
mod pages;
mod parameters;
mod permissions;
mod proto;
mod reply;
mod reply_queue;
mod restart;
mod server;
#[allow(unsafe_code)]
mod sys;
mod uring;
mod uring_workers;
mod watchdog;

pub use config::FuseConfig;
pub use device::FuseDevice;
pub use device_link::DeviceLink;
pub use error::FuseError;
pub use permissions::Permissions;
pub use restart::ResumeOutcome;
pub use uring::{RequestTransport, UringMode};
