//! Does work that the kernel leaves to the hardware: completes checksums, and splits frames into
//! segments.
//!
//! Linux passes on the frames of local programs with incomplete checksums. If segmentation offloads
//! are enabled, a frame may also have up to 64 KiB of TCP. Linux expects that a NIC does the rest.
//! But a frame that leaves through slipring does not go through a NIC that would do this, so ports
//! must do it. They use [`complete_partial`] if they only have the frame. If a [`VnetHeader`] came
//! with it, they use [`complete_at`] and [`Segmenter`].
//!
//! Not for: SCTP's CRC, IP fragmentation offload (UFO), packets above 64 KiB ("BIG TCP"), or
//! tunnels. Without a vnet header, an incomplete checksum of an inner header is not noticed.

mod partial;
mod segment;
mod vnet;

pub use partial::{CompleteError, complete_at, complete_partial, may_be_partial};
pub use segment::{Gso, GsoKind, SegmentError, Segmenter, segment};
pub use vnet::{VnetError, VnetForm, VnetHeader};
