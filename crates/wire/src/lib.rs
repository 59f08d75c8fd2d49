//! Parses, checksums, summarizes and builds Ethernet frames.
//!
//! A module may use the modules above it in this table:
//!
//! | module | purpose |
//! |---|---|
//! | [`mac`], [`assigned`] | addresses, tags and numbers |
//! | [`checksum`] | the Internet checksum: whole, chained, incremental |
//! | [`view`] | the offsets of a frame's headers, for fast paths |
//! | [`flow`] | the flow of a frame, and a keyed hash of it |
//! | [`offload`] | completes the work that a kernel left to hardware: checksums and segmentation |
//! | [`frame`] | builds frames of an exact length and patches their fields |
//! | [`summary`] | a one-line description of a frame, and a hex dump |
//!
//! # Contract
//! Offsets count bytes from the first byte of the destination MAC address; frames have no CRC.
//! Multi-byte values are in host order once read. No input makes a function here panic: truncated
//! or malformed frames result in a named error, or stay unchanged where the documentation says so.
//!
//! Not for reassembly, connection state, options inside headers, or anything after two VLAN tags
//! and one IP header (tunnels are payload).

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
