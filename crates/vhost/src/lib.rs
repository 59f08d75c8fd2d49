//! `vhost:PATH`: a port to which a virtual machine connects by vhost-user, with an ordinary
//! virtio-net device.
//!
//! ```text
//!   program --> tx slots --copy--> | guest's receive queue  |
//!   program <-- rx slots <--copy-- | guest's transmit queue |   in the guest's memory, mapped here
//!                     ^
//!           one thread per port <--PATH-- QEMU: sends the layout, and starts and stops the queues
//! ```
//!
//! The port is the back-end of vhost-user, and the guest's QEMU is the front-end. Either the port
//! listens at `PATH` and the front-end connects ([`VhostRole::Server`]), or the front-end listens
//! and the port connects ([`VhostRole::Client`]). The port serves one guest at a time. When the
//! guest disconnects or is reset, no guest is connected until the next one connects. In this time,
//! frames that the program sends are dropped and counted, and no frames are received.
//!
//! Frames are plain Ethernet. The port offers no offload for checksums, segmentation or merging, so
//! guests do all of this themselves. A received frame is at most as long as one buffer of the
//! port's region.
//!
//! # Invariants
//! 1. All values in the guest's memory may change at any time. Indices, addresses and lengths are
//!    read once and checked. The work of a sync is limited, whatever values the guest writes.
//! 2. Access to the guest's memory cannot cause a fault. The memory must be a memfd that is sealed
//!    against shrinking, and must have ordinary pages. Other memory is refused. So a guest or its
//!    front-end can break only its own port.
//! 3. A virtqueue is never accessed by a sync and by the port's thread at the same time, because
//!    both lock the link of its pair first. So when the front-end gets the reply to a stop, the
//!    queue is no longer used.
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
