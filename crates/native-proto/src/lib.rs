//! What a program and `slipringd` say to each other over the native door's socket.
//!
//! ```text
//!   program                            SOCK_SEQPACKET                         slipringd
//!   Call { op, argument, pieces }  ------------------------>   as the ioctl or poll of the device
//!                                  <------------------------   Answer { result, argument, pieces }, descriptors
//!                                  <------------------------   Wake: a poll that was answered "not ready" is
//!                                                              worth asking again
//! ```
//!
//! One connection is one open file. A request of netmap's leads by addresses to its body and its
//! options: *pieces* are those parts of the caller's memory, sent along and sent back.
//!
//! # Invariants
//! 1. A message is read whole, its lengths are checked before anything else is believed.
//! 2. Every call has one answer; wakes may come between the two.
//!
//! [`trust`] says whether the socket, or anything else in a run directory, may be believed.
//!
//! # Not for
//! Deciding anything: what a call means is netmap's business, and `slipring-netmap`'s.
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
pub use socket::{MAX_MESSAGE, NativeListener, ReceivedMessage, receive, send};

/// The socket's name in the daemon's run directory.
pub const SOCKET_NAME: &str = "native.sock";
