//! Switches (netmap's VALE): `vale0:a` is port `a` of the learning switch `vale0`.
//!
//! ```text
//!   tx ring of vale0:a       Bridge of vale0      rx rings of vale0:b, vale0:c; tx rings of a NIC
//!   SyncFrames::read -----> Switch::forward -----> DestinationRing::deliver -----> listeners
//!                            (a lock)               (copies without a lock into leased slots)
//! ```
//!
//! Ports may have different memories, so frames are always copied. Frames for a full ring are
//! dropped and counted. A switch exists while it has a port.

pub(crate) mod attach;
pub(crate) mod bridge;
mod copy_plan;
mod destination_ring;
mod frame_edit;
mod frames;
mod loop_check;
mod offload_fixup;
pub(crate) mod port;
mod restart;
pub(crate) mod switches;
