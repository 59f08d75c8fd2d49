//! The messages between a program and `slipringd` on the socket of the native socket API.
//!
//! ```text
//!   program                          SOCK_SEQPACKET             slipringd
//!   NativeCall { op, argument, fragments }  ----------------->  as the ioctl or poll of the device
//!          <-----------------  NativeAnswer { result, argument, fragments }, descriptors
//!          <-----------------  Wake: a poll that was answered "not ready" is worth repeating
//! ```
//!
//! Each connection is one open file. A netmap request refers to its body and its options by their
//! addresses in the caller's memory. These parts of the memory are called *fragments*: the
//! client sends them with the request, and the daemon sends them back.
//!
//! # Invariants
//! 1. A message is read as a whole, and its lengths are checked before any other part of it is
//!    used.
//! 2. Every call has one answer. Wake-up messages may arrive before the answer.
//!
//! [`trust`] checks whether the socket, and other files of a run directory, can be trusted;
//! [`run_names`] has the names of control sockets in it.
//!
//! # Not for
//! The semantics of the calls: `slipring-netmap` defines them.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod client;
mod delegation;
mod message;
pub mod run_names;
mod socket;
pub mod trust;

pub use client::NativeClient;
pub use delegation::{DelegatedRing, MAX_RINGS, RingDelegation};
pub use message::{MemoryFragment, NativeAnswer, NativeCall, NativeMessage, NativeOp};
pub use socket::{MAX_MESSAGE, NativeListener, ReceivedMessage, listen_stream, receive, send};

/// The name of the daemon's socket in its run directory.
pub const SOCKET_NAME: &str = "native.sock";
