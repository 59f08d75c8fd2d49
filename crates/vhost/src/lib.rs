//! `vhost:PATH`: a port that a virtual machine connects to by vhost-user, with a stock virtio-net
//! device.
//!
//! ```text
//!   program --> tx slots --copy--> | guest's receive queue  |
//!   program <-- rx slots <--copy-- | guest's transmit queue |   in the guest's memory, mapped here
//!                     ^
//!           one thread per port <--PATH-- QEMU: sends the layout, and starts and stops the queues
//! ```
//!
//! The port is the back-end of vhost-user, and the guest's QEMU the front-end. Either the port
//! listens at `PATH` and the front-end connects ([`VhostRole::Server`]), or the front-end listens
//! and the port connects ([`VhostRole::Client`]). The port serves one guest at a time. When the
//! guest disconnects or is reset, the port has no peer: sent frames are dropped and counted, no
//! frames are received, and the next guest may connect.
//!
//! Frames are plain Ethernet: no checksum, segmentation or merging offload is offered, so guests do
//! all of this themselves. A received frame is at most as long as one buffer of the port's region.
//!
//! # Invariants
//! 1. All values in the guest's memory may change at any time. Indices, addresses and lengths are
//!    read once and checked; the work of a sync is bounded for any values that the guest writes.
//! 2. Access to the guest's memory cannot fault: it must be a memfd sealed against shrinking, of
//!    ordinary pages; other memory is refused. So a guest or its front-end can break only its own
//!    port.
//! 3. A virtqueue is accessed either by a sync or by the port's thread, never by both: its link is
//!    locked. So a stopped queue is no longer in use when the front-end gets the reply.
//!
//! Not for: migration of guests, packed virtqueues, devices other than virtio-net.
#![forbid(unsafe_code)]

mod chain;
mod device;
mod enable;
mod link;
mod memory;
mod port;
mod queue;
mod receive;
mod send;
mod server;
mod vring;

pub use port::{MAX_PAIRS, check_socket, needs, open};
pub use server::VhostRole;
