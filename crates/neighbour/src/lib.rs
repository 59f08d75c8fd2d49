//! The neighbours of an interface: their IP and MAC addresses, the frames that wait until a MAC
//! address is known, and ICMP errors to hosts whose packets cannot be forwarded.
//!
//! ```text
//!                 NeighbourInterface                        NeighbourCache
//!   frame ------> receive: ARP, NS, NA ---- claims -------> states and timers of RFC 4861
//!                    | answers for own addresses                | solicit, release, drop, changed
//!   frame <------ pop: messages, released frames <------- events
//!   next hop ---> resolve -> MAC address   or   hold ------> frames that wait, per neighbour
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`NeighbourInterface`] | addresses and messages of one interface, around its cache |
//! | [`NeighbourCache`] | the state machine alone, for neighbours that the kernel maintains |
//! | [`SnoopTable`] | neighbours of a bridge, which only listens |
//! | [`arp`], [`nd`] | the messages |
//! | [`icmp`] | errors, when not to send them, limits, answers to pings |
//! | [`group`] | MAC addresses of multicast groups |
//!
//! The caller passes in the time, a seed and slices, and gets frames and events. The cache never
//! reads a waiting frame. `F` is a handle that the caller chooses; it is stored with the length of
//! the frame.
//!
//! # Invariants
//! 1. Every frame that [`NeighbourCache::hold`] stores either waits, or was returned exactly once:
//!    as released, or as dropped with a cause ([`NeighbourCache::is_balanced`]).
//! 2. Frames for one neighbour are released in the order in which they were stored.
//! 3. Memory is bounded by [`NeighbourLimits`], no matter which addresses are solicited or claimed.
//! 4. A confirmed neighbour that is in use is never removed in favour of a neighbour that was only
//!    claimed or solicited.
//!
//! # Not for
//! Routes, router and prefix discovery, redirects, duplicate address detection, proxies. VLAN tags,
//! which the owner of a subinterface must add and remove.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod arp;
mod cache;
mod field;
pub mod group;
pub mod icmp;
mod interface;
mod limits;
pub mod nd;
mod snoop;
mod subnet;
#[cfg(test)]
mod tests;

pub use cache::{
    HoldDropCause, HoldRefusal, NeighbourCache, NeighbourClaim, NeighbourCounters, NeighbourEvent,
    NeighbourState, NeighbourView,
};
pub use interface::{NeighbourInput, NeighbourInterface, NeighbourOutput, NeighbourRole};
pub use limits::{NeighbourLimits, NeighbourTimers};
pub use snoop::{SnoopTable, SnoopedAddress};
pub use subnet::{Subnet, SubnetError, is_link_scope};
