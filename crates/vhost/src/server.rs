//! The thread of a port. It accepts front-ends or connects to them, one after another, and serves
//! them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use slipring_confine::{CapabilitySet, FORBIDDEN_CALLS, SETUP_ONLY_CALLS};
use slipring_native_proto::listen_stream;
use slipring_port::OpenCause;
use vhost::vhost_user::BackendReqHandler;

use crate::device::VhostDevice;
use crate::enable;
use crate::link::VhostLink;

/// Maximum time to wait for the rest of a message, and for the front-end to read a reply.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(2);
/// Delay between two attempts to connect.
const RECONNECT_DELAY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Which side creates the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VhostRole {
    /// The port creates the socket and waits for front-ends.
    Server,
    /// The front-end creates the socket. The port connects to it, and connects again after the
    /// connection was lost.
    Client,
}

impl VhostRole {
    /// The role's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// The thread of a port. It ends on drop.
#[derive(Debug)]
pub(crate) struct VhostServer {
    links: Vec<Arc<VhostLink>>,
    stop: Arc<StopSignal>,
    thread: Option<JoinHandle<()>>,
    /// The path of the socket that the port has created, which must be removed at the end. `None`
    /// if the front-end creates the socket.
    socket: Option<PathBuf>,
}

#[derive(Debug)]
struct StopSignal {
    requested: AtomicBool,
    wake_event: OwnedFd,
}

impl VhostServer {
    pub(crate) fn start(
        name: &str,
        socket: &Path,
        role: VhostRole,
        pairs: u32,
    ) -> Result<Self, OpenCause> {
        let system = |source| OpenCause::System { what: "cannot make descriptors", source };
        let links = (0..pairs).map(|_| VhostLink::new().map(Arc::new));
        let links = links.collect::<io::Result<Vec<_>>>().map_err(system)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| system(error.into()))?;
        let stop = Arc::new(StopSignal { requested: AtomicBool::new(false), wake_event: bell });
        let meeting = match role {
            VhostRole::Server => FrontendEndpoint::Listen(listen(socket)?),
            VhostRole::Client => FrontendEndpoint::Connect(socket.to_owned()),
        };
        let made = (role == VhostRole::Server).then(|| socket.to_owned());
        let host = VhostThread { name: name.to_owned(), links: links.clone(), stop: stop.clone() };
        let thread = thread::Builder::new().name("vhost".to_owned());
        // This is created first. If the thread cannot be started, dropping the server removes the
        // socket.
        let mut server = Self { links, stop, thread: None, socket: made };
        let work = move || {
            meeting.confine();
            host.serve(&meeting);
        };
        server.thread = Some(thread.spawn(work).map_err(system)?);
        Ok(server)
    }

    pub(crate) fn links(&self) -> &[Arc<VhostLink>] {
        &self.links
    }
}

impl Drop for VhostServer {
    fn drop(&mut self) {
        self.stop.requested.store(true, Ordering::Release);
        // If the counter is full, the thread is woken anyway.
        let _ = rustix::io::write(&self.stop.wake_event, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
        if let Some(socket) = &self.socket {
            // The file may have been removed already.
            let _ = std::fs::remove_file(socket);
        }
    }
}

/// Creates the socket. Calls on it do not block.
fn listen(path: &Path) -> Result<UnixListener, OpenCause> {
    let nonblocking = |listener: UnixListener| listener.set_nonblocking(true).map(|()| listener);
    listen_stream(path)
        .and_then(nonblocking)
        .map_err(|source| OpenCause::File { path: path.display().to_string(), source })
}

/// How the port gets connections to front-ends: by a listener, or by connecting to a path.
enum FrontendEndpoint {
    Listen(UnixListener),
    Connect(PathBuf),
}

impl FrontendEndpoint {
    /// Drops all privileges that the calling thread does not need, because it reads memory that
    /// guests write. If it has to connect, it keeps DAC_OVERRIDE, because the socket of a front-end
    /// may belong to another user.
    fn confine(&self) {
        let kept = match self {
            Self::Listen(_) => CapabilitySet::empty(),
            Self::Connect(_) => CapabilitySet::DAC_OVERRIDE,
        };
        // A failure to restrict the thread is ignored here. A program that restricts itself reports
        // such failures.
        let _ = slipring_confine::confine(kept, &[FORBIDDEN_CALLS, SETUP_ONLY_CALLS]);
    }
}

/// The state of a port's thread.
struct VhostThread {
    name: String,
    links: Vec<Arc<VhostLink>>,
    stop: Arc<StopSignal>,
}

impl VhostThread {
    fn serve(&self, meeting: &FrontendEndpoint) {
        let mut message = String::new();
        while !self.is_stopped() {
            let Some(frontend) = self.next_frontend(meeting) else {
                self.sleep_before_retry();
                continue;
            };
            let why = self.serve_frontend(frontend, meeting);
            // If the same reason occurs several times in a row, it is reported once.
            if let Some(why) = why.filter(|why| *why != message) {
                eprintln!("{}: the guest's front-end is disconnected: {why}", self.name);
                message = why;
            }
            if matches!(meeting, FrontendEndpoint::Connect(_)) {
                self.sleep_before_retry();
            }
        }
    }

    /// Sleeps until the next attempt, or until stopped.
    fn sleep_before_retry(&self) {
        // The result of poll is not needed, because the caller checks all conditions again.
        let _ =
            poll(&mut [PollFd::new(&self.stop.wake_event, PollFlags::IN)], Some(&RECONNECT_DELAY));
    }

    fn is_stopped(&self) -> bool {
        self.stop.requested.load(Ordering::Acquire)
    }

    /// Returns the next front-end. In the server role, waits until a front-end connects or the
    /// thread must end. `None` if there is no front-end now.
    fn next_frontend(&self, meeting: &FrontendEndpoint) -> Option<UnixStream> {
        match meeting {
            FrontendEndpoint::Listen(listener) => {
                let flags = PollFlags::IN;
                let mut fds =
                    [PollFd::new(&self.stop.wake_event, flags), PollFd::new(listener, flags)];
                // If poll fails, accept also fails and reports the error.
                let _ = poll(&mut fds, None);
                listener.accept().ok().map(|(frontend, _)| frontend)
            }
            FrontendEndpoint::Connect(path) => UnixStream::connect(path).ok(),
        }
    }

    /// Serves a front-end until it disconnects or must be disconnected. In the second case, returns
    /// the reason.
    fn serve_frontend(&self, frontend: UnixStream, meeting: &FrontendEndpoint) -> Option<String> {
        let socket = prepare(&frontend).ok()?;
        let device = Arc::new(Mutex::new(VhostDevice::new(&self.links)));
        let mut handler = BackendReqHandler::from_stream(frontend, device.clone());
        while self.await_message(&socket, meeting) {
            use vhost::vhost_user::Error::{Disconnected, SocketBroken};
            let taken = {
                let mut device = device.lock().unwrap_or_else(PoisonError::into_inner);
                enable::handle_set_vring_enable(&socket, &mut device)
            };
            if taken.is_ok_and(|taken| taken) {
                continue;
            }
            match handler.handle_request() {
                Ok(()) => {}
                Err(Disconnected | SocketBroken(_)) => return None,
                Err(error) => return Some(error.to_string()),
            }
        }
        None
    }

    /// Waits until a message arrives or the front-end disconnects. Returns `false` if the thread
    /// must end, or if waiting fails.
    fn await_message(&self, socket: &UnixStream, meeting: &FrontendEndpoint) -> bool {
        let flags = PollFlags::IN;
        let mut fds = vec![PollFd::new(&self.stop.wake_event, flags), PollFd::new(socket, flags)];
        if let FrontendEndpoint::Listen(listener) = meeting {
            fds.push(PollFd::from_borrowed_fd(listener.as_fd(), flags));
        }
        loop {
            let polled = poll(&mut fds, None);
            if self.is_stopped() || polled.is_err_and(|error| error != Errno::INTR) {
                return false;
            }
            // The socket is readable if a message has arrived or the front-end has disconnected.
            // The caller reads from it, which shows a disconnect.
            if is_readable(&&fds[1]) {
                return true;
            }
            if let (Some(_), FrontendEndpoint::Listen(listener)) =
                (fds.get(2).filter(is_readable), meeting)
            {
                // The first front-end may have disconnected just before the second one connected.
                if has_message(socket) {
                    return true;
                }
                // A second front-end would wait for replies in vain, so it is disconnected. If it
                // cannot be accepted because no descriptor is free, the listener is not polled
                // until the next message.
                if listener.accept().is_err() {
                    fds.truncate(2);
                }
            }
        }
    }
}

/// Returns whether a front-end has sent data or has disconnected.
fn has_message(socket: &UnixStream) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

fn is_readable(fd: &&PollFd<'_>) -> bool {
    !fd.revents().is_empty()
}

/// Sets timeouts, and returns a copy of the socket. Without timeouts, a front-end that sends half a
/// message or reads no replies could block the thread for ever.
fn prepare(frontend: &UnixStream) -> io::Result<UnixStream> {
    frontend.set_nonblocking(false)?;
    frontend.set_read_timeout(Some(MESSAGE_TIMEOUT))?;
    frontend.set_write_timeout(Some(MESSAGE_TIMEOUT))?;
    frontend.try_clone()
}
