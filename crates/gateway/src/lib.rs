//! A router between two subnets, one [`GatewayPort`] at each port.
//!
//! ```text
//!   host --frame--> Gate::receive --pass--> (a link, as emulated) --> Gate::send --frame--> host
//!                   of the first port                                 of the second port
//!                        |                                                 |
//!                   answers to ARP                          requests, until the next hop is known
//! ```
//! ```
//! use slipring_gateway::{Gate, Life, Side, Subnet, Verdict};
//! use slipring_wire::MacAddr;
//!
//! let side = |mac, address: &str| {
//!     let subnet = Subnet::new(address.parse().unwrap(), 24)?;
//!     Side::new(MacAddr([2, 0, 0, 0, 0, mac]), vec![subnet], vec![])
//! };
//! let (left, right) = (side(1, "10.1.0.1")?, side(2, "10.2.0.1")?);
//! let mut gate = Gate::new(left, right, Life::Kept);
//! // A frame that is nobody's: for another host's MAC.
//! assert!(matches!(gate.receive(&[0; 60], 0), Verdict::Drop(_)));
//! # Ok::<(), slipring_gateway::SideError>(())
//! ```
//!
//! # Invariants
//! 1. A frame that was taken is either sent later, exactly once, or counted by [`GatewayPort::tick`].
//! 2. Frames for one host leave in the order in which they came, also those that waited, as long
//!    as what [`GatewayPort::pop`] gives is sent before the next frame is handed in.
//! 3. Memory is bounded by the subnets' hosts that answered, and by fixed numbers of frames that
//!    wait, however many hosts are asked for.
//!
//! # Not for
//! Several ways, ICMP errors, fragments, VLANs; what a host's kernel would do with its own address,
//! but for answers to pings.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod arp;
mod echo;
mod frame;
mod gateway_port;
mod interface;
mod nd;
mod neighbours;
#[cfg(test)]
mod tests;

pub use gateway_port::{GatewayDropReason, GatewayPort, GatewayVerdict, TtlPolicy};
pub use interface::{RouterInterface, RouterInterfaceError, Subnet};
