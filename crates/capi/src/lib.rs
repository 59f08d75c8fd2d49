//! The C library `libslipring`. `include/slipring.h` declares its functions.
//! `include/net/netmap_sync.h` declares those for programs that use netmap's own headers.
//!
//! ```text
//!   C or C++ program
//!        |  slipring_*()              include/slipring.h
//!   entry points  (port, rings, wait, counters, switch, network)
//!        |  entry::status / entry::value: no panic passes, errors become the thread's last error
//!   slipring-core, slipring-port, slipring-switch, slipring-link
//! ```
//!
//! # Invariants
//! 1. Every exported function that may panic runs inside [`entry::status`] or [`entry::value`]. A
//!    panic ends there: the function returns `SLIPRING_ERR_DEFECT`, or its value for errors.
//! 2. Until they are freed, handles are only used by shared reference, and each queue, switch and
//!    network is in a mutex. So several threads may make calls, but calls on the same queue, switch
//!    or network wait for each other.
//! 3. Arguments from C are checked before use: null pointers, sizes, numbers of queues. Other
//!    invalid pointers cannot be detected.
//! 4. A structure that has a field `size` begins with this field. It is the structure's size in the
//!    version with which the caller was compiled. Fields that one side does not know must be zero.
//!
//! Not for Rust programs, which use the Rust crates directly.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod counters;
#[allow(unsafe_code)]
mod entry;
mod error;
#[allow(unsafe_code)]
mod exports;
#[cfg(feature = "links")]
mod frame_store;
#[allow(unsafe_code)]
mod netmap;
#[allow(unsafe_code)]
mod netmap_exports;
mod network;
mod options;
#[allow(unsafe_code)]
mod pointers;
mod port;
mod rings;
#[allow(missing_docs, reason = "include/slipring.h says what each field is")]
mod structs;
mod switch;
mod wait;

pub use exports::*;
pub use netmap_exports::{NmInprocessCalls, nm_inprocess_calls};
pub use structs::*;
