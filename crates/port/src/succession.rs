//! Sockets that this process takes over from another one, with the frames in their rings.

use std::os::fd::OwnedFd;

/// The receive ring of a packet socket, as a process that takes the socket over maps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketRing {
    /// Bytes of a frame's space.
    pub frame_size: u32,
    /// Frames in a block.
    pub frames_per_block: u32,
    /// Blocks of the ring.
    pub blocks: u32,
    /// Number of the first frame that was not read.
    pub position: u32,
}

/// A receiving socket that another process has opened, with its ring.
#[derive(Debug)]
pub struct InheritedSocket {
    /// The socket, bound to its interface.
    pub socket: OwnedFd,
    /// Its ring.
    pub ring: SocketRing,
}
