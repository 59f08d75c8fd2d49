//! The command socket: one thread that accepts, and one for each client.

use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, spawn};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slipring_cli::codes::{SR0107, SR0204};
use slipring_cli::{Diagnostic, Failure};

use super::answers::CompatAnswers;
use super::session;

/// For how long no client is accepted after the process has run out of descriptors.
const FD_RETRY_DELAY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The bound socket. Clients wait until it is served.
pub(crate) struct CompatSocket {
    listener: UnixListener,
}

impl CompatSocket {
    /// Binds the socket, with access for this user only. Replaces a socket on which no process
    /// listens.
    ///
    /// # Errors
    /// If another program listens on the socket, or the socket cannot be created.
    pub(super) fn bind(path: &Path) -> Result<Self, Failure> {
        if UnixStream::connect(path).is_ok() {
            return Err(in_use(path).into());
        }
        if path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()) {
            // If the file cannot be removed, bind fails.
            let _ = fs::remove_file(path);
        }
        let failed = |error: io::Error| cannot(path, &error);
        let listener = UnixListener::bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener })
    }
}

fn in_use(path: &Path) -> Diagnostic {
    let name = path.display();
    Diagnostic::new(SR0107, format!("the command socket {name} is in use"))
        .with_cause("another program listens on it")
        .with_help(format!("see which one: ss -xlp src {name}"))
        .with_note("cli_socket_path in a file that -f names is another one")
}

pub(super) fn cannot(path: &Path, error: &io::Error) -> Failure {
    let name = path.display();
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Diagnostic::new(SR0204, format!("cannot make {name}"))
        .with_cause(error.to_string())
        .with_help(format!("see whether its directory may be written: ls -ld {}", dir.display()))
        .into()
}

/// The served socket. On drop, it and all its connections are closed.
pub(crate) struct CompatServer {
    /// One end of a socket pair. It is closed on drop, which wakes the accepting thread.
    wake: Option<UnixStream>,
    accepting: Option<JoinHandle<()>>,
}

/// The open connections.
type Connections = Arc<Mutex<Vec<Arc<UnixStream>>>>;

impl CompatServer {
    /// Serves up to `max_clients` clients at a time; further clients are disconnected.
    ///
    /// # Errors
    /// If the process is out of descriptors.
    pub(crate) fn start(
        socket: CompatSocket,
        answers: CompatAnswers,
        max_clients: usize,
    ) -> io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        let answers = Arc::new(answers);
        let accepting = spawn(move || accept_all(&socket, &woken, &answers, max_clients));
        Ok(Self { wake: Some(wake), accepting: Some(accepting) })
    }
}

impl Drop for CompatServer {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.accepting.take() {
            // If the thread panicked, it has already reported that.
            let _ = thread.join();
        }
    }
}

fn accept_all(
    socket: &CompatSocket,
    woken: &UnixStream,
    answers: &Arc<CompatAnswers>,
    max_clients: usize,
) {
    let open = Connections::default();
    loop {
        let mut fds =
            [PollFd::new(woken, PollFlags::IN), PollFd::new(&socket.listener, PollFlags::IN)];
        // If a signal interrupted the poll, `accept` shows whether there is a client.
        let _ = poll(&mut fds, None);
        if !fds[0].revents().is_empty() {
            break;
        }
        match socket.listener.accept() {
            Ok((stream, _)) if lock(&open).len() < max_clients => serve(stream, &open, answers),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => {
                let _ = poll(&mut fds[..1], Some(&FD_RETRY_DELAY));
            }
        }
    }
    for stream in lock(&open).iter() {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn serve(stream: UnixStream, open: &Connections, answers: &Arc<CompatAnswers>) {
    let (stream, open, answers) = (Arc::new(stream), open.clone(), answers.clone());
    lock(&open).push(stream.clone());
    spawn(move || {
        // An error only means that the client closed the connection.
        let _ = session::serve(&stream, &answers, || lock(&open).len());
        // The connection is removed from the list before it is closed, because a client that sees
        // the end of its connection may open the next one immediately.
        lock(&open).retain(|other| !Arc::ptr_eq(other, &stream));
        let _ = stream.shutdown(Shutdown::Both);
    });
}

/// Locks a mutex, even if it is poisoned: the list is consistent at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
