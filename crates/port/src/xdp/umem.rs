//! The memory of an AF_XDP socket (UMEM): the buffer area of its port's region.
//!
//! The kernel allocates the descriptor rings itself, and only a process with the socket can map
//! them. The kernel addresses buffers by bytes from the start of the area, and releases them when
//! the last socket that shares the memory is closed.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use slipring_ring::{BufIdx, Region};

use super::sys::{self, KernelRings, RingSizes};
use crate::nic::dma::{BufferArea, DeviceAddress, DmaMemory};

/// A socket that is not bound yet, and its registered area, if any.
#[derive(Debug)]
pub(super) struct Umem {
    socket: OwnedFd,
    area: Option<BufferArea>,
}

impl Umem {
    /// Wraps a socket that has neither memory nor rings yet.
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, area: None }
    }

    /// Returns the socket, with its memory and rings.
    pub(super) fn into_socket(self) -> OwnedFd {
        self.socket
    }
}

impl DmaMemory for Umem {
    type DescriptorRings = KernelRings;

    fn map_buffers(&mut self, region: &Region) -> io::Result<()> {
        let area = BufferArea::of(region);
        sys::register_umem(self.socket.as_fd(), area)?;
        self.area = Some(area);
        Ok(())
    }

    /// Closes the socket, because the kernel has no other way to release the memory.
    fn unmap(self) -> io::Result<()> {
        drop(self.socket);
        Ok(())
    }

    fn address_of(&self, buf: BufIdx) -> Option<DeviceAddress> {
        self.area?.offset_of(buf)
    }

    /// Creates and maps rings that can each hold the buffers of all slots, so that none can
    /// overflow.
    fn make_rings(&mut self, slots: u32) -> io::Result<KernelRings> {
        let sizes = RingSizes { fill: slots, completion: slots, rx: slots, tx: slots };
        sys::make_rings(self.socket.as_fd(), sizes)
    }
}
