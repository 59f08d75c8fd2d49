//! The server: answers the requests of clients.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, spawn};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;

use crate::connection::ControlConnection;
use crate::directory::ControlSocket;
use crate::line_buffer::MAX_LINE_BYTES;
use crate::message::answer_line;
use crate::{ControlError, ControlRefusal, ControlReply, ControlRequest};

/// How long the server waits before it accepts again after accepting has failed, usually because
/// the process had no free descriptors.
const FD_RETRY_DELAY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Answers the requests of a program's clients.
pub trait ControlService: Send + Sync {
    /// Performs a request and returns what is sent to the client. Several threads may call this at
    /// the same time.
    ///
    /// # Errors
    /// [`ControlRefusal`], which is sent to the client, if the request is refused.
    fn answer(&self, request: &ControlRequest) -> Result<ControlReply, ControlRefusal>;

    /// Takes over a connection after [`ControlReply::Upgrade`] was sent. The connection is closed
    /// when this function returns. When the server ends, it shuts the connection down.
    fn serve_stream(&self, _stream: &UnixStream) {}

    /// Returns the maximum length of a request in bytes.
    fn max_request_bytes(&self) -> usize {
        MAX_LINE_BYTES
    }
}

/// A reserved socket and name in a run directory. Clients can already connect, but get no answers
/// before [`Self::serve`]. A program reserves both before any other action, so that it ends
/// immediately if the name or the directory is unavailable.
#[derive(Debug)]
pub struct Reservation {
    socket: ControlSocket,
    dir: PathBuf,
}

impl Reservation {
    /// Reserves this process's socket in `dir`, and `name` if it is given.
    ///
    /// # Errors
    /// [`ControlError`] if the directory cannot be created or is not trusted, if the name is
    /// invalid or taken, or if a system call fails.
    pub fn new(dir: &Path, name: Option<&str>) -> Result<Self, ControlError> {
        Ok(Self { socket: ControlSocket::open(dir, name)?, dir: dir.to_owned() })
    }

    /// Starts to answer requests.
    ///
    /// # Errors
    /// [`ControlError`] if the system refuses the descriptors or the thread that the server needs.
    pub fn serve(self, service: Box<dyn ControlService>) -> Result<ControlServer, ControlError> {
        let Self { socket, dir } = self;
        let failed = |error| ControlError::system("listen in", &dir, error);
        ControlServer::listen(socket, service).map_err(failed)
    }
}

/// A control socket. On drop, the socket and all its connections are closed.
pub struct ControlServer {
    /// The other end of the socket pair on which the accepting thread waits. Closing this end, on
    /// drop, wakes the thread.
    wake: Option<UnixStream>,
    accepting: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Listens in `dir` under the id of this process, and under `name` if it is given.
    ///
    /// # Errors
    /// The errors of [`Reservation::new`] and [`Reservation::serve`].
    pub fn open(
        dir: &Path,
        name: Option<&str>,
        service: Box<dyn ControlService>,
    ) -> Result<Self, ControlError> {
        Reservation::new(dir, name)?.serve(service)
    }

    /// Answers requests on a socket that another process created. The name still belongs to that
    /// process.
    ///
    /// # Errors
    /// [`ControlError`] if the system refuses the descriptors or the thread that the server needs.
    pub fn on_listener(
        listener: UnixListener,
        service: Box<dyn ControlService>,
    ) -> Result<Self, ControlError> {
        let failed = |error| ControlError::system("listen on", Path::new("the socket"), error);
        Self::listen(ControlSocket::of_another(listener), service).map_err(failed)
    }

    fn listen(socket: ControlSocket, service: Box<dyn ControlService>) -> io::Result<Self> {
        socket.listener.set_nonblocking(true)?;
        let (wake, woken) = UnixStream::pair()?;
        let service: Arc<dyn ControlService> = service.into();
        let accepting = spawn(move || accept_all(&socket, &woken, &service));
        Ok(Self { wake: Some(wake), accepting: Some(accepting) })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.accepting.take() {
            // An error means that the thread has panicked, which it has already reported.
            let _ = thread.join();
        }
    }
}

/// The open connections. They are shut down at the end, so that no thread waits for its client.
type OpenConnections = Arc<Mutex<Vec<Arc<UnixStream>>>>;

fn accept_all(socket: &ControlSocket, woken: &UnixStream, service: &Arc<dyn ControlService>) {
    let open = OpenConnections::default();
    loop {
        let mut fds =
            [PollFd::new(woken, PollFlags::IN), PollFd::new(&socket.listener, PollFlags::IN)];
        // If a signal interrupted the poll, `accept` shows whether there is a client.
        let _ = poll(&mut fds, None);
        if !fds[0].revents().is_empty() {
            break;
        }
        match socket.listener.accept() {
            Ok((stream, _)) => serve(stream, socket.owner, &open, service.clone()),
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

/// Starts a thread for a client, if the client is trusted.
fn serve(stream: UnixStream, own: u32, open: &OpenConnections, service: Arc<dyn ControlService>) {
    let trusted = socket_peercred(&stream).is_ok_and(|peer| is_allowed(peer.uid.as_raw(), own));
    if !trusted {
        refuse(&stream, own);
        return;
    }
    // On Linux, accepted sockets do not inherit O_NONBLOCK, but no standard guarantees this.
    if stream.set_nonblocking(false).is_err() {
        return;
    }
    let (stream, open) = (Arc::new(stream), open.clone());
    lock(&open).push(stream.clone());
    spawn(move || {
        // An error only means that the client closed the connection.
        let _ = ControlConnection::new(&stream, &*service).serve();
        lock(&open).retain(|other| !Arc::ptr_eq(other, &stream));
    });
}

/// Tells an untrusted client why it is refused. This does not block, because the send buffer of a
/// new connection has space for the message.
fn refuse(mut stream: &UnixStream, own: u32) {
    let refusal = ControlRefusal {
        code: "SR0204".to_owned(),
        summary: "this run is another user's".to_owned(),
        cause: Some(format!("only user {own}, whose it is, and root are answered")),
        help: Some("ask as that user, with sudo -u".to_owned()),
    };
    let _ = stream.write_all(&answer_line(&serde_json::Value::Null, &Err(refusal)));
}

/// Returns whether a peer is trusted: it must be the same user or root.
fn is_allowed(peer_uid: u32, own_uid: u32) -> bool {
    peer_uid == own_uid || peer_uid == 0
}

/// Locks a mutex, even if it is poisoned: the data is consistent at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn only_the_same_user_and_root_are_answered() {
        assert!(is_allowed(1000, 1000) && is_allowed(0, 1000) && is_allowed(0, 0));
        assert!(!is_allowed(1001, 1000) && !is_allowed(1000, 0));
    }
}
