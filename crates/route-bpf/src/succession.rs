//! Programs of a router that takes over from another one: they are loaded, but the interface's link
//! and sockets keep those of the predecessor until it exchanges them.
//!
//! ```text
//!   predecessor                         successor
//!   link, sockets  --descriptors-->     loads programs for the same interfaces
//!   link.update(program)  <--programs-- waits with complete tables
//! ```
//!
//! Only the predecessor exchanges programs, so there is one order of exchanges, whatever dies. The
//! kernel exchanges each between two frames.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use slipring_bpf::{BpfLink, BpfProgram};
use slipring_fib::FibPortIndex;

use crate::interception::PacketInterception;
use crate::program::packet_filter::InterceptionKeys;
use crate::router::{AttachOptions, BpfRouter, ResidentAttachment, ResidentError};

impl BpfRouter {
    /// Loads the program of an interface whose link is the predecessor's. Until that exchanges the
    /// programs, its own one runs.
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

    /// Loads the programs of an interface for packet sockets whose link is the predecessor's. `keys`
    /// are its [`PacketInterception::keys`], so that the frames of either router's filters are kept
    /// from the kernel by either router's program.
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
    /// The program, for the predecessor.
    #[must_use]
    pub fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// The link, for a successor.
    #[must_use]
    pub fn link(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }

    /// Has the link run another program, or this value's own one again, from the next frame on. Needs
    /// no capability.
    ///
    /// # Errors
    /// The kernel's error: `EINVAL` if the descriptor is no program for XDP.
    pub fn run(&self, program: Option<OwnedFd>) -> io::Result<()> {
        run(&self.link, &self.program, program)
    }
}

impl PacketInterception {
    /// The program that keeps frames from the kernel, for the predecessor.
    #[must_use]
    pub fn program(&self) -> BorrowedFd<'_> {
        self.dropping.as_fd()
    }

    /// The link, for a successor.
    #[must_use]
    pub fn link(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }

    /// The random numbers by which filters and program know each other's frames.
    #[must_use]
    pub fn keys(&self) -> [u64; 2] {
        [self.keys.token, self.keys.returned_mark.into()]
    }

    /// As [`ResidentAttachment::run`], for the program that keeps frames from the kernel. The filters
    /// are the sockets'.
    ///
    /// # Errors
    /// The kernel's error: `EINVAL` if the descriptor is no program for tcx.
    pub fn run(&self, program: Option<OwnedFd>) -> io::Result<()> {
        run(&self.link, &self.dropping, program)
    }
}

fn run(link: &BpfLink, own: &BpfProgram, other: Option<OwnedFd>) -> io::Result<()> {
    match other {
        Some(program) => link.update(&BpfProgram::from(program)),
        None => link.update(own),
    }
}
