//! Completes the work that a kernel path left to the hardware: checksums and segmentation.
//!
//! Linux passes on frames of local programs with incomplete checksums and, if offloads are enabled,
//! with 64 KiB of TCP in one frame. It expects a NIC to do the rest. A frame that leaves through
//! slipring does not pass a NIC that does this, so ports complete the frame first: with
//! [`complete_partial`] if only the frame is known, with [`complete_at`] and [`Segmenter`] if a
//! [`VnetHeader`] came with it.
//!
//! Not for: tunnels (an unfinished checksum of an inner header is not detected without a vnet
//! header), SCTP's CRC, IP fragmentation offload (UFO), or packets beyond 64 KiB ("BIG TCP").

mod partial;
mod segment;
mod vnet;

pub use partial::{CompleteError, complete_at, complete_partial, may_be_partial};
pub use segment::{Gso, GsoKind, SegmentError, Segmenter, segment};
pub use vnet::{VnetError, VnetForm, VnetHeader};
