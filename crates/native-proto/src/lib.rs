//! The messages between a program and `slipringd` on the socket of the native socket API.
//!
//! ```text
//!   program                          SOCK_SEQPACKET             slipringd
//!   NativeCall { op, argument, fragments }  ----------------->  as the ioctl or poll of the device
//!          <-----------------  NativeAnswer { result, argument, fragments }, descriptors
//!          <-----------------  Wake: a poll that was answered "not ready" is worth repeating
//! ```
//!
//! One connection is one open file. A netmap request refers to its body and options by address:
//! *fragments* are those parts of the caller's memory, sent along and sent back.
//!
//! # Invariants
//! 1. A message is read as a whole, and its lengths are checked before anything else is used.
//! 2. Every call has one answer; wake-up messages may arrive in between.
//!
//! [`trust`] checks whether the socket and other files of a run directory can be trusted.
//!
//! # Not for
//! The semantics of calls, which `slipring-netmap` defines.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod client;
mod delegation;
mod message;
mod socket;
pub mod trust;

pub use client::NativeClient;
pub use delegation::{DelegatedRing, MAX_RINGS, RingDelegation};
pub use message::{MemoryFragment, NativeAnswer, NativeCall, NativeMessage, NativeOp};
pub use socket::{MAX_MESSAGE, NativeListener, ReceivedMessage, listen_stream, receive, send};

/// The socket's name in the daemon's run directory.
pub const SOCKET_NAME: &str = "native.sock";
