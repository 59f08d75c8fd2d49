//! A router between two subnets, one [`GatewayPort`] at each port.
//!
//! ```text
//!   host --> receive -----pass--> (a link, as emulated) --> send --> host
//!            of the first port                             of the second port
//!                 |                                           |
//!            answers to ARP                    requests, until the next hop is known
//! ```
//! ```
//! use slipring_gateway::{GatewayPort, TtlPolicy, RouterInterface, Subnet, GatewayVerdict};
//! use slipring_wire::MacAddr;
//!
//! let side = |mac, address: &str| {
//!     let subnet = Subnet::new(address.parse().unwrap(), 24)?;
//!     RouterInterface::new(MacAddr([2, 0, 0, 0, 0, mac]), vec![subnet], vec![])
//! };
//! let (left, right) = (side(1, "10.1.0.1")?, side(2, "10.2.0.1")?);
//! let mut gate = GatewayPort::new(left, right, TtlPolicy::Preserve);
//! // The destination MAC address is not the router's.
//! assert!(matches!(gate.receive(&[0; 60], 0), GatewayVerdict::Drop(_)));
//! # Ok::<(), slipring_gateway::RouterInterfaceError>(())
//! ```
//!
//! # Invariants
//! 1. An accepted frame is either sent later, exactly once, or counted by
//!    [`GatewayPort::take_unresolved`].
//! 2. Frames for one host leave in the order in which they arrived, even if some had to wait. For
//!    this the caller must send what [`GatewayPort::pop`] returns before it passes in the next
//!    frame.
//! 3. Memory is bounded: the numbers of neighbours and of waiting frames have fixed limits, which
//!    do not depend on how many hosts exist or are asked for.
//!
//! # Not for
//! Several routes, fragments, VLANs; "host unreachable", which would have to leave by the other
//! port; other services that a host's kernel would provide at its own address, except answers to
//! pings. ARP and neighbour discovery are in `slipring-neighbour`.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod frame;
mod gateway_port;
mod interface;
#[cfg(test)]
mod tests;

pub use gateway_port::{GatewayDropReason, GatewayPort, GatewayVerdict, TtlPolicy};
pub use interface::{RouterInterface, RouterInterfaceError};
pub use slipring_neighbour::{Subnet, SubnetError};
