//! Network address translation: ipfw's `nat` for IPv4, and `nptv6` for IPv6.
//!
//! ```text
//!   inside                    |  Translator  |                    outside
//!   10.0.0.5:1025 -> 192.0.2.1:80   ==>   203.0.113.9:40001 -> 192.0.2.1:80     NatDirection::Out
//!   10.0.0.5:1025 <- 192.0.2.1:80   <==   203.0.113.9:40001 <- 192.0.2.1:80     NatDirection::In
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`NatConfig`] | the parameters of `nat N config …` |
//! | [`Translator`] | one instance: flows, redirections, fragments, ICMP errors |
//! | [`nptv6`] | stateless translation of IPv6 prefixes |
//!
//! # What an instance does
//! - **Out**: the source becomes the instance's address and a port chosen for the flow. The new
//!   flow translates answers back. With `unreg_only`, sources that are not private keep their
//!   address; with `proxy_only`, all sources do, because transparent proxies cannot be configured
//!   here.
//! - **In**: packets of a flow get their inside address back. For other packets, redirections
//!   apply: first of ports, then of protocols, then of addresses. Packets without a redirection
//!   keep their addresses, and so do the answers to them. With `deny_in`, such packets are dropped,
//!   and so are new connections to a redirected *address*: only `redirect_port` and
//!   `redirect_proto` admit connections in this mode.
//! - **Static translation** (`redirect_addr`) keeps ports if possible.
//! - **ICMP**: the identifier distinguishes queries. An error is delivered to the host whose packet
//!   it quotes, and the quoted packet is translated as well. Other messages, such as redirects,
//!   pass unchanged, as in libalias; with `deny_in`, incoming ones are dropped.
//! - **Fragments**: later fragments get the address of the first. On the way in, a fragment that
//!   arrives before its first fragment cannot be assigned and is dropped.
//! - **SCTP** keeps its ports, because its checksum would have to be recomputed. Protocols without
//!   ports have one flow for each pair of outside address and remote address. A second flow for the
//!   same pair is refused and counted, because its packets could not be distinguished from those of
//!   the first.
//!
//! # Invariants
//! 1. No two flows have the same protocol, outside end and remote end, nor the same protocol,
//!    inside end and remote end.
//! 2. A packet that is not translated stays identical, byte for byte.
//!
//! Not for: rewriting payloads, choosing packets, reading clocks.
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
