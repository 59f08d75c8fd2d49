//! `vhost:PATH`: a port that a virtual machine plugs into by vhost-user, with a stock virtio-net
//! device.
//!
//! ```text
//!   program --> tx slots --copy--> | guest's receive queue  |
//!   program <-- rx slots <--copy-- | guest's transmit queue |   in the guest's memory, mapped here
//!                                            ^
//!              one thread per port <--PATH-- QEMU: says where all that lies, and starts and stops it
//! ```
//!
//! The port listens at `PATH` and the virtual machine monitor connects ([`Role::Server`]), or the
//! other way round ([`Role::Client`]). One guest at a time; when it goes, or is reset, the port has
//! no peer: what is sent is dropped and counted, nothing is received, and the next guest may come.
//!
//! Frames are plain Ethernet: no checksum, segmentation or merging offload is offered, so guests do
//! all that themselves. They are as long as one buffer of the port's region at most.
//!
//! # Invariants
//! 1. Everything in the guest's memory may change at any time. Indices, addresses and lengths are
//!    read once and checked; the work of a sync is bounded, whatever the guest wrote.
//! 2. The guest's memory is there when it is touched: a memfd sealed against shrinking, of ordinary
//!    pages; other memory is refused. A guest, or its monitor, can so lose its own port and no more.
//! 3. A virtqueue is touched by a sync or by the thread of the port, never both: its link is
//!    locked. So a stopped queue is not used any more once the monitor is told so.
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

pub use port::{MAX_PAIRS, needs, open};
pub use server::VhostRole;
