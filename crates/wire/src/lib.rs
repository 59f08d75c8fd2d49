//! Parses, summarizes and builds Ethernet frames, and computes their checksums.
//!
//! A module may use the modules that are above it in this table:
//!
//! | module | purpose |
//! |---|---|
//! | [`mac`], [`assigned`] | addresses, tags and numbers |
//! | [`checksum`] | the Internet checksum: whole, chained, incremental |
//! | [`view`] | the offsets of a frame's headers, for fast paths |
//! | [`flow`] | the flow of a frame, and a keyed hash of it |
//! | [`offload`] | completes the work that a kernel left to hardware: checksums and segmentation |
//! | [`frame`] | builds frames of an exact length and patches their fields |
//! | [`summary`] | the description of a frame in the format of tcpdump, and a hex dump |
//!
//! # Contract
//! Offsets count bytes from the first byte of the destination MAC address. Frames have no CRC.
//! Numbers that were read are in host order. No function in this crate panics because of its input.
//! The result of a truncated or malformed frame is an error or `None`, or what the documentation
//! says: the frame stays unchanged, or the printed line ends early.
//!
//! Not for reassembly, connection state, or options inside headers. After two VLAN tags and one IP
//! header, everything is payload, even the contents of tunnels. Only [`summary`] prints options and
//! the contents of tunnels.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod assigned;
pub mod checksum;
mod field;
pub mod flow;
pub mod frame;
pub mod mac;
pub mod offload;
pub mod summary;
pub mod view;

pub use flow::{FlowHasher, FlowKey};
pub use frame::{FrameSpec, FrameTemplate};
pub use mac::MacAddr;
pub use view::Headers;
