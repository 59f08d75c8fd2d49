//! Programs of a router that takes over from another router. They are loaded, but the interface's
//! BPF link and sockets keep the predecessor's programs until the predecessor exchanges them. In
//! this file, a link is always a BPF link.
//!
//! ```text
//!   predecessor                         successor
//!   link, sockets  --descriptors-->     loads programs for the same interfaces
//!   link.update(program)  <--programs-- waits with complete tables
//! ```
//!
//! Only the predecessor exchanges programs, so there is one order of exchanges, even if one of the
//! two routers dies. The kernel exchanges each program between two frames.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use slipring_bpf::{BpfLink, BpfProgram};
use slipring_fib::FibPortIndex;

use crate::interception::PacketInterception;
use crate::program::packet_filter::InterceptionKeys;
use crate::router::{AttachOptions, BpfRouter, ResidentAttachment, ResidentError};

impl BpfRouter {
    /// Loads the program of an interface whose link belongs to the predecessor. The predecessor's
    /// program runs until the predecessor exchanges the programs.
    ///
    /// # Errors
    /// [`ResidentError::Bpf`].
    pub fn succeed(
        &self,
        ifindex: u32,
        port: FibPortIndex,
        options: AttachOptions,
        link: OwnedFd,
    ) -> Result<ResidentAttachment, ResidentError> {
        let (program, sockets) = self.prepare(ifindex, port, options)?;
        Ok(ResidentAttachment { link: BpfLink::from(link), program, port, sockets })
    }

    /// Loads the programs for the packet sockets of an interface whose link belongs to the
    /// predecessor. `keys` are the predecessor's [`PacketInterception::keys`]. With the same keys,
    /// the program of either router recognises frames that the filters of the other have marked,
    /// and keeps them from the kernel.
    ///
    /// # Errors
    /// [`ResidentError::Bpf`].
    ///
    /// # Panics
    /// If `queues` is above the limit of this router's queues.
    pub fn succeed_packet(
        &self,
        ifindex: u32,
        port: FibPortIndex,
        queues: u16,
        keys: [u64; 2],
        link: OwnedFd,
    ) -> Result<PacketInterception, ResidentError> {
        let [token, mark] = keys;
        let keys = InterceptionKeys { token, returned_mark: mark as u32 };
        let programs = self.load_interception(ifindex, port, queues, keys)?;
        Ok(programs.linked(BpfLink::from(link)))
    }
}

impl ResidentAttachment {
    /// The program's descriptor, to pass it to the predecessor.
    #[must_use]
    pub fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// The link's descriptor, to pass it to a successor.
    #[must_use]
    pub fn link(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }

    /// Makes the link run another program from the next frame on; with `None`, this value's own
    /// program. This needs no capability.
    ///
    /// # Errors
    /// The kernel's error: `EINVAL` if the descriptor is not that of an XDP program.
    pub fn run(&self, program: Option<OwnedFd>) -> io::Result<()> {
        run(&self.link, &self.program, program)
    }
}

impl PacketInterception {
    /// The descriptor of the program that keeps frames from the kernel, to pass it to the
    /// predecessor.
    #[must_use]
    pub fn program(&self) -> BorrowedFd<'_> {
        self.diverting.as_fd()
    }

    /// The link's descriptor, to pass it to a successor.
    #[must_use]
    pub fn link(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }

    /// The random numbers with which filters mark frames and the program recognises them.
    #[must_use]
    pub fn keys(&self) -> [u64; 2] {
        [self.keys.token, self.keys.returned_mark.into()]
    }

    /// Like [`ResidentAttachment::run`], for the program that keeps frames from the kernel. The
    /// sockets' filters are exchanged separately.
    ///
    /// # Errors
    /// The kernel's error: `EINVAL` if the descriptor is not that of a tcx program.
    pub fn run(&self, program: Option<OwnedFd>) -> io::Result<()> {
        run(&self.link, &self.diverting, program)
    }
}

fn run(link: &BpfLink, own: &BpfProgram, other: Option<OwnedFd>) -> io::Result<()> {
    match other {
        Some(program) => link.update(&BpfProgram::from(program)),
        None => link.update(own),
    }
}
