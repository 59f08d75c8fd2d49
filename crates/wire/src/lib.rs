//! Facts about frames: what lies where, what the checksums are, how to make one.
//!
//! | module | what |
//! |---|---|
//! | [`view`] | where the headers of a frame are, for fast paths |
//! | [`flow`] | which flow a frame belongs to, and a keyed hash of that |
//! | [`checksum`] | the Internet checksum: whole, chained, incremental |
//! | [`offload`] | finishes what a kernel left to "hardware": checksums and segmentation |
//! | [`frame`] | builds frames of an exact length and patches their fields |
//! | [`summary`] | one line of text about a frame, and a hex dump |
//! | [`mac`], [`assigned`] | addresses, tags and numbers |
//!
//! # Contract
//! Offsets count bytes from the first byte of the destination MAC; frames carry no CRC. Multi-byte
//! values are in host order once read. No input makes a function here panic: truncated or absurd
//! frames give a named error, or leave the frame alone where the documentation says so.
//!
//! Not for: reassembly, connection state, options inside headers, or anything beyond two VLAN tags
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
