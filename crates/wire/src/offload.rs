//! Finishes what a kernel path left to "hardware": checksums and segmentation.
//!
//! Linux hands frames of local programs over with the checksum half done and, where asked for it,
//! with 64 KiB of TCP in one frame; a NIC is expected to do the rest. A frame that leaves through
//! slipring meets no such NIC, so ports pass it through here first:
//! [`complete_partial`] where only the frame is known, [`complete_at`] and [`Segmenter`] where a
//! [`VnetHeader`] came with it.
//!
//! Not for: tunnels (an unfinished checksum of an inner header is not seen without a vnet header),
//! SCTP's CRC, IP fragmentation offload (UFO), or packets beyond 64 KiB ("BIG TCP").

mod partial;
mod segment;
mod vnet;

pub use partial::{CompleteError, complete_at, complete_partial, may_be_partial};
pub use segment::{Gso, GsoKind, SegmentError, Segmenter, segment};
pub use vnet::{VnetError, VnetForm, VnetHeader};
