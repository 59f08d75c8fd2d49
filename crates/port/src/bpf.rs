//! Small BPF programs, written as instructions and loaded with bpf(2) directly.
//!
//! Descriptors hold everything: a link detaches its program when the descriptor is closed, so a
//! killed process leaves the interface as it was. No compiler, no object files, no mounted bpffs.
//! Not for programs supplied by users.

pub mod host;
pub mod insn;
mod sys;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::error::OpenCause;
use insn::BpfInsn;

pub use sys::{BpfAttachType, BpfLinkFlags, BpfMapKind, BpfProgramFlags, BpfProgramKind};

/// A map from small integers to small integers or descriptors.
#[derive(Debug)]
pub struct BpfMap {
    fd: OwnedFd,
}

impl BpfMap {
    /// Creates a map of `entries` 4-byte keys and values.
    ///
    /// # Errors
    /// [`OpenCause::Privilege`], or [`OpenCause::System`].
    pub fn create(kind: BpfMapKind, entries: u32) -> Result<Self, OpenCause> {
        sys::map_create(kind, entries)
            .map(|fd| Self { fd })
            .map_err(|e| refused("create a BPF map", e))
    }

    /// Sets a value.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set(&self, key: u32, value: u32) -> io::Result<()> {
        sys::map_update(self.fd.as_fd(), key, value)
    }

    /// Puts a socket into a map of sockets.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_socket(&self, key: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.set(key, socket.as_raw_fd() as u32)
    }

    /// The descriptor, for instructions that name the map.
    #[must_use]
    pub fn raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// A program that the kernel has verified.
#[derive(Debug)]
pub struct BpfProgram {
    fd: OwnedFd,
}

impl BpfProgram {
    /// Loads a program. `name` has at most 15 letters.
    ///
    /// # Errors
    /// [`OpenCause::Privilege`], or [`OpenCause::System`].
    pub fn load(
        kind: BpfProgramKind,
        name: &str,
        insns: &[BpfInsn],
        flags: BpfProgramFlags,
    ) -> Result<Self, OpenCause> {
        sys::program_load(kind, name, insns, flags)
            .map(|fd| Self { fd })
            .map_err(|error| refused("load a BPF program", error))
    }

    /// Attaches it to an interface as long as the link exists.
    ///
    /// # Errors
    /// The kernel's: EBUSY when another program is there, EOPNOTSUPP or ERANGE when the driver
    /// cannot.
    pub fn attach(
        &self,
        ifindex: u32,
        at: BpfAttachType,
        flags: BpfLinkFlags,
    ) -> io::Result<BpfLink> {
        sys::link_create(self.fd.as_fd(), ifindex, at, flags).map(|fd| BpfLink { _fd: fd })
    }

    /// Runs an XDP program on `repeat` copies of `frame` as if they had arrived on this thread's
    /// loopback interface, and performs the resulting action: the fastest way to generate frames.
    /// For tests and measurements.
    ///
    /// # Errors
    /// The kernel's.
    pub fn run_live(&self, frame: &[u8], repeat: u32, batch: u32) -> io::Result<()> {
        sys::run_live_frames(self.fd.as_fd(), frame, repeat, batch)
    }
}

/// An attached program; dropping it detaches the program.
#[derive(Debug)]
pub struct BpfLink {
    _fd: OwnedFd,
}

/// Translates an error of bpf(2) at open.
pub(crate) fn refused(what: &'static str, source: io::Error) -> OpenCause {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            OpenCause::Privilege { what, capabilities: "cap_net_admin,cap_bpf,cap_net_raw", source }
        }
        Some(libc::ENOSYS) => OpenCause::Unsupported {
            what: "bpf(2)".into(),
            needs: "a kernel with CONFIG_BPF_SYSCALL",
        },
        _ => OpenCause::System { what, source },
    }
}
