//! Translation of addresses: ipfw's `nat` for IPv4, and `nptv6` for IPv6.
//!
//! ```text
//!   inside                    |  Translator  |                    outside
//!   10.0.0.5:1025 -> 192.0.2.1:80   ==>   203.0.113.9:40001 -> 192.0.2.1:80     Way::Out
//!   10.0.0.5:1025 <- 192.0.2.1:80   <==   203.0.113.9:40001 <- 192.0.2.1:80     Way::In
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`NatConfig`] | what `nat N config …` says |
//! | [`Translator`] | one instance: flows, redirections, fragments, errors of ICMP |
//! | [`nptv6`] | prefixes of IPv6, without any state |
//!
//! # What an instance does
//! - **Out**: the source becomes the instance's address and a port of its own; a flow is made that
//!   brings answers back. With `unreg_only` other sources than private ones keep theirs, with
//!   `proxy_only` everybody does: transparent proxies cannot be configured here.
//! - **In**: packets of a flow get their inside address back. Of others, redirections come first:
//!   of ports, then of protocols, then of addresses. What is left keeps its addresses, and so do
//!   the answers to it; with `deny_in` it is dropped, as are new connections to a redirected
//!   *address*: `redirect_port` and `redirect_proto` are what opens a door then.
//! - **Static translation** (`redirect_addr`) keeps ports where it can.
//! - **ICMP**: questions are told apart by their identifier, errors are brought to whom they are
//!   for, with the packet that they quote. Other messages are left alone.
//! - **Fragments**: later ones go the way of the first. One that comes in before its first cannot
//!   be told apart and is dropped.
//! - **SCTP** keeps its ports, since its checksum would have to be computed anew; protocols without
//!   ports have one flow for each pair of addresses outside. Whoever comes second is refused, and
//!   counted, rather than mixed up with the first.
//!
//! # Invariants
//! 1. No two flows have the same protocol, outside end and remote end, nor the same protocol,
//!    inside end and remote end.
//! 2. A packet that is not translated is as it was, to the byte.
//!
//! Not for: rewriting payloads, choosing packets, clocks.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod config;
mod flow;
mod flows;
mod fragments;
mod icmp;
pub mod nptv6;
mod outcome;
mod packet;
mod redirect;
mod rewrite;
mod translator;

#[cfg(test)]
mod tests;

pub use config::{NatConfig, NatMode, NatModes, OutsideAddress};
pub use flow::{NatEndpoint, NatFlow, NatLifetimes};
pub use outcome::{NatCounters, NatDropReason, NatOutcome};
pub use redirect::{Redirect, RedirectKind, RedirectRemote};
pub use translator::{NatDirection, NatScope, Translator};
