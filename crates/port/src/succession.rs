//! Receiving sockets that this process takes over from another process, along with the frames in
//! their rings.

use std::os::fd::OwnedFd;

/// The receive ring of a packet socket, as described to a process that takes the socket over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketRing {
    /// Space for one frame in the ring, in bytes.
    pub frame_size: u32,
    /// Number of frames in a block.
    pub frames_per_block: u32,
    /// Number of blocks in the ring.
    pub blocks: u32,
    /// Number of the first frame that has not been read, counted from the start of the ring.
    pub position: u32,
}

/// A receiving socket that another process has opened, and the description of its ring.
#[derive(Debug)]
pub struct InheritedSocket {
    /// The socket, bound to its interface.
    pub socket: OwnedFd,
    /// The socket's receive ring.
    pub ring: SocketRing,
}
