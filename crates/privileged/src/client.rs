//! The program's end of the connection to its helper.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process, pidfd_open, waitid,
};
use slipring_port::iface::{Feature, SettingsRestorer};

use crate::message::HelperRequest;
use crate::policy::HelperPolicy;
use crate::serve::{ROLE, can_serve};
use crate::transfer::{receive, send};

/// A running helper. It ends when this value is dropped or this process ends.
#[derive(Debug)]
pub struct PrivilegedHelper {
    /// Locked during a request and its answer. Dropped first, so that the helper ends.
    socket: Mutex<OwnedFd>,
    process: Arc<HelperProcess>,
}

/// The helper's process, as a pidfd. The process is reaped when this value is dropped.
#[derive(Debug)]
struct HelperProcess(OwnedFd);

impl HelperProcess {
    /// Waits until the process ends, and reaps it.
    fn wait(&self) {
        // An error other than `INTR` means that the process no longer exists, because it was reaped
        // before.
        let ended = || waitid(WaitId::PidFd(self.0.as_fd()), WaitIdOptions::EXITED);
        while matches!(ended(), Err(Errno::INTR)) {}
    }
}

impl Drop for HelperProcess {
    fn drop(&mut self) {
        self.wait();
    }
}

impl PrivilegedHelper {
    /// Starts a helper that inherits the calling thread's capabilities, and waits until the helper
    /// has confined itself.
    ///
    /// # Errors
    /// The operating system's error; PermissionDenied if the helper does not get the capabilities
    /// that its operations need, and Unsupported if this executable does not call
    /// [`crate::serve_if_started_as_helper`].
    pub fn start(policy: &HelperPolicy) -> io::Result<Self> {
        if !can_serve() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        // The helper gets its own process group, because a terminal's Ctrl-C is meant only for the
        // program.
        let child = Command::new("/proc/self/exe")
            .arg0(ROLE)
            .args(policy.to_args()?)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let helper = Self { socket: Mutex::new(ours), process: Arc::new(HelperProcess(pidfd)) };
        answer(&*helper.socket.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(helper)
    }

    /// Sends a request and waits for the answer; returns the descriptor in it, if any.
    ///
    /// # Errors
    /// The kernel's error; EPERM if the policy does not allow the request, BrokenPipe if the helper
    /// has ended.
    pub fn request(
        &self,
        request: &HelperRequest,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<Option<OwnedFd>> {
        self.exchange(&request.to_bytes(), descriptor)
    }

    /// Sends arbitrary bytes in the same way as [`Self::request`] sends a request. Tests use this
    /// to send messages that only a compromised program would send.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub fn exchange(
        &self,
        bytes: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<Option<OwnedFd>> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        send(&*socket, bytes, descriptor)?;
        answer(&*socket)
    }

    /// Starts a thread that waits for the end of the helper and then sends this process SIGTERM,
    /// because the program cannot restore the interfaces' settings without the helper. SIGTERM is
    /// also sent after this value was dropped, because that ends the helper.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn end_with_it(&self) -> io::Result<()> {
        let process = self.process.clone();
        let watch = move || {
            process.wait();
            let _ = kill_process(getpid(), Signal::TERM);
        };
        thread::Builder::new().name("helper watch".into()).spawn(watch).map(drop)
    }
}

impl SettingsRestorer for PrivilegedHelper {
    fn set_feature(&self, ifindex: u32, feature: Feature, on: bool) -> io::Result<()> {
        self.request(&HelperRequest::SetFeature { ifindex, feature, on }, None).map(drop)
    }

    fn remove_hidden_link(&self, ifindex: u32) -> io::Result<()> {
        self.request(&HelperRequest::RemoveHiddenLink { ifindex }, None).map(drop)
    }
}

/// Waits for the answer to the last request, or for the message that the helper sends at its start.
/// Returns the descriptor in the message, if any.
fn answer(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut errno = [0; 4];
    let got = receive(socket, &mut errno)?;
    match (got.len, i32::from_ne_bytes(errno)) {
        (4, 0) => Ok(got.descriptor),
        (4, errno) => Err(io::Error::from_raw_os_error(errno)),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}
