//! Programs and links in the kernel.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::error::BpfError;
use crate::insn::BpfInsn;
use crate::sys::program as sys;

/// Kinds of programs (`BPF_PROG_TYPE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BpfProgramKind {
    /// A socket filter (`SO_ATTACH_BPF`): receives socket buffers and returns how many bytes of the
    /// frame the socket gets.
    SocketFilter = 1,
    /// A tcx program: receives socket buffers.
    Classifier = 3,
    /// An XDP program: receives frames before there is a socket buffer.
    Xdp = 6,
    /// A tracepoint program: receives the arguments of the tracepoint, in 8 bytes each.
    RawTracepoint = 17,
}

/// Load flags and bindings of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BpfProgramFlags {
    /// Whether the program accepts frames in several buffers (`BPF_F_XDP_HAS_FRAGS`).
    pub frags: bool,
    /// Index of the only interface on which the program runs; it may then use the metadata
    /// functions of that interface (`BPF_F_XDP_DEV_BOUND_ONLY`). `None`: the program runs on any
    /// interface.
    pub bound_to: Option<u32>,
}

/// The point at which a program is attached (`enum bpf_attach_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BpfAttachType {
    /// XDP, before the stack.
    Xdp = 37,
    /// tcx, on receive.
    TcxIngress = 46,
    /// tcx, on send.
    TcxEgress = 47,
}

/// How a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BpfLinkFlags {
    /// After the existing programs (tcx).
    Last = 0,
    /// XDP in generic mode, on any interface (`XDP_FLAGS_SKB_MODE`).
    XdpGeneric = 1 << 1,
    /// XDP in native mode, in the driver (`XDP_FLAGS_DRV_MODE`).
    XdpNative = 1 << 2,
    /// Before the existing programs (tcx, `BPF_F_BEFORE`).
    First = 1 << 3,
}

/// Returns how many tcx programs are attached to an interface of this thread's network namespace.
/// Needs CAP_NET_ADMIN.
///
/// # Errors
/// The kernel's error: EINVAL if it has no tcx (before Linux 6.6), ENODEV if there is no such
/// interface.
pub fn attached_programs(ifindex: u32, at: BpfAttachType) -> io::Result<u32> {
    match sys::program_count(ifindex, at) {
        // The interface has never had such a program.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        result => result,
    }
}

/// A program that the kernel has verified.
#[derive(Debug)]
pub struct BpfProgram {
    fd: OwnedFd,
}

impl BpfProgram {
    /// Loads a program. `name` has at most 15 letters, digits, dots and underscores.
    ///
    /// # Errors
    /// [`BpfError::Rejected`] with the verifier's log, or [`BpfError::System`].
    pub fn load(
        kind: BpfProgramKind,
        name: &str,
        insns: &[BpfInsn],
        flags: BpfProgramFlags,
    ) -> Result<Self, BpfError> {
        let loaded = load_despite_signals(kind, name, insns, flags, &mut []);
        loaded.map(|fd| Self { fd }).map_err(|source| {
            let (what, log) = ("load a BPF program", verifier_log(kind, insns, flags));
            match log.is_empty() {
                true => BpfError::System { what, source },
                false => BpfError::Rejected { what, source, log },
            }
        })
    }

    /// Attaches the program to an interface as long as the returned link exists.
    ///
    /// # Errors
    /// The kernel's error: EBUSY when another program is attached, EOPNOTSUPP or ERANGE when the
    /// driver does not support the program.
    pub fn attach(
        &self,
        ifindex: u32,
        at: BpfAttachType,
        flags: BpfLinkFlags,
    ) -> io::Result<BpfLink> {
        sys::link_create(self.fd.as_fd(), ifindex, at, flags).map(|fd| BpfLink { fd })
    }

    /// Runs the program at a tracepoint of the kernel as long as the returned link exists. Needs
    /// CAP_PERFMON.
    ///
    /// # Errors
    /// The kernel's error: ENOENT if there is no such tracepoint.
    pub fn attach_tracepoint(&self, name: &CStr) -> io::Result<BpfLink> {
        sys::raw_tracepoint_open(self.fd.as_fd(), name).map(|fd| BpfLink { fd })
    }

    /// Runs an XDP program on a copy of `frame`, `repeat` times in a row, and returns the result.
    /// Redirects are not performed.
    ///
    /// # Errors
    /// The kernel's error: EINVAL for frames shorter than an Ethernet header, or too long for one
    /// page, of which the kernel uses some bytes itself.
    pub fn test_run(&self, frame: &[u8], repeat: u32) -> io::Result<TestRun> {
        sys::test_run(self.fd.as_fd(), frame, repeat)
    }

    /// Runs an XDP program on `repeat` copies of `frame` as if they had arrived on the loopback
    /// interface of this thread's namespace, and performs the resulting action. This is the fastest
    /// way to generate frames, for tests and measurements.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn run_live(&self, frame: &[u8], repeat: u32, batch: u32) -> io::Result<()> {
        sys::run_live_frames(self.fd.as_fd(), frame, repeat, batch, None)
    }

    /// Runs an XDP program on a frame as if it had just arrived on an interface of this thread's
    /// namespace, and performs the resulting action: after `XDP_PASS`, the kernel receives the
    /// frame. Needs no capability.
    ///
    /// # Errors
    /// The kernel's error: EINVAL for a frame that does not fit a page, ENODEV if there is no such
    /// interface.
    pub fn run_as_received(&self, frame: &[u8], ifindex: u32) -> io::Result<()> {
        sys::run_live_frames(self.fd.as_fd(), frame, 1, 1, Some(ifindex))
    }
}

impl AsFd for BpfProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<OwnedFd> for BpfProgram {
    /// Takes over a program's descriptor that another process passed. If the descriptor is not a
    /// program's, [`BpfProgram::attach`] fails.
    fn from(fd: OwnedFd) -> Self {
        Self { fd }
    }
}

/// Loads a program. The verifier gives up with EAGAIN as soon as the thread has to handle a signal,
/// so the load is then repeated.
fn load_despite_signals(
    kind: BpfProgramKind,
    name: &str,
    insns: &[BpfInsn],
    flags: BpfProgramFlags,
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    const ATTEMPTS: u32 = 16;
    let mut loaded = sys::program_load(kind, name, insns, flags, log);
    for _ in 1..ATTEMPTS {
        match &loaded {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                loaded = sys::program_load(kind, name, insns, flags, log);
            }
            _ => break,
        }
    }
    loaded
}

/// Loads the program again, only to get the verifier's log, and returns this log.
fn verifier_log(kind: BpfProgramKind, insns: &[BpfInsn], flags: BpfProgramFlags) -> String {
    let mut log = vec![0; 1 << 20];
    // Programs that list BPF programs at this moment show this name. The program is removed again
    // immediately.
    let _ = load_despite_signals(kind, "slipring_log", insns, flags, &mut log);
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).into_owned()
}

/// The result of [`BpfProgram::test_run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    /// The program's result: an `XDP_*` action.
    pub result: u32,
    /// The frame after the program's changes.
    pub frame: Vec<u8>,
    /// Average duration of a run, in ns.
    pub nanos: u32,
}

/// An attached program. Dropping this value, or the end of the process, detaches the program,
/// unless another process has a copy of the descriptor.
#[derive(Debug)]
pub struct BpfLink {
    fd: OwnedFd,
}

impl BpfLink {
    /// Replaces the attached program, between two frames. The new program must be of the same kind.
    ///
    /// # Errors
    /// The kernel's error: EINVAL for another kind of program, ENOLINK if the interface no longer
    /// exists.
    pub fn update(&self, program: &BpfProgram) -> io::Result<()> {
        sys::link_update(self.fd.as_fd(), program.fd.as_fd())
    }
}

impl From<OwnedFd> for BpfLink {
    /// Takes over a link's descriptor that another process passed. If the descriptor is not a
    /// link's, [`BpfLink::update`] fails.
    fn from(fd: OwnedFd) -> Self {
        Self { fd }
    }
}

impl AsFd for BpfLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<BpfLink> for OwnedFd {
    fn from(link: BpfLink) -> Self {
        link.fd
    }
}
