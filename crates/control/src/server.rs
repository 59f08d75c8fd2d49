//! The side that is asked.

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

/// How long a full table of descriptors is left to empty before the next look.
const FD_RETRY_DELAY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What requests mean.
pub trait ControlService: Send + Sync {
    /// Answers a request; several threads may ask at once.
    ///
    /// # Errors
    /// The words for the client.
    fn answer(&self, request: &ControlRequest) -> Result<ControlReply, ControlRefusal>;

    /// Bytes of a request at most.
    fn max_request_bytes(&self) -> usize {
        MAX_LINE_BYTES
    }
}

/// A place in a run directory, and a name there, for a run that cannot answer yet: whoever connects
/// waits. A run takes it before it touches anything else, so that it ends at once where the name or
/// the directory cannot be had.
#[derive(Debug)]
pub struct Reservation {
    socket: ControlSocket,
    dir: PathBuf,
}

impl Reservation {
    /// Takes the process's number in `dir`, and `name` if there is one.
    ///
    /// # Errors
    /// If the directory cannot be made or trusted, the name cannot be had, or the system refuses.
    pub fn new(dir: &Path, name: Option<&str>) -> Result<Self, ControlError> {
        Ok(Self { socket: ControlSocket::open(dir, name)?, dir: dir.to_owned() })
    }

    /// Answers from now on.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn serve(self, service: Box<dyn ControlService>) -> Result<ControlServer, ControlError> {
        let Self { socket, dir } = self;
        let failed = |error| ControlError::system("listen in", &dir, error);
        ControlServer::listen(socket, service).map_err(failed)
    }
}

/// A control socket. It is gone, and every connection with it, when this is dropped.
pub struct ControlServer {
    /// Closed at the end, which wakes the thread that accepts.
    wake: Option<UnixStream>,
    accepting: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Listens in `dir` under the process's number, and under `name` if there is one.
    ///
    /// # Errors
    /// If the directory cannot be made or trusted, the name cannot be had, or the system refuses.
    pub fn open(
        dir: &Path,
        name: Option<&str>,
        service: Box<dyn ControlService>,
    ) -> Result<Self, ControlError> {
        Reservation::new(dir, name)?.serve(service)
    }

    /// Listens where somebody else, who goes on to own the name, has made a socket.
    ///
    /// # Errors
    /// If the system refuses.
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
            // A panic was told by its thread already.
            let _ = thread.join();
        }
    }
}

/// Connections in use: to be shut at the end, so that no thread waits for its client.
type OpenConnections = Arc<Mutex<Vec<Arc<UnixStream>>>>;

fn accept_all(socket: &ControlSocket, woken: &UnixStream, service: &Arc<dyn ControlService>) {
    let open = OpenConnections::default();
    loop {
        let mut fds =
            [PollFd::new(woken, PollFlags::IN), PollFd::new(&socket.listener, PollFlags::IN)];
        // Interrupted or not: accepting shows what there is.
        let _ = poll(&mut fds, None);
        if !fds[0].revents().is_empty() {
            break;
        }
        match socket.listener.accept() {
            Ok((stream, _)) => serve(stream, &open, service.clone()),
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

/// Starts a thread for a client, if it may ask.
fn serve(stream: UnixStream, open: &OpenConnections, service: Arc<dyn ControlService>) {
    let own = rustix::process::geteuid().as_raw();
    let trusted = socket_peercred(&stream).is_ok_and(|peer| is_allowed(peer.uid.as_raw(), own));
    if !trusted {
        refuse(&stream, own);
        return;
    }
    // Linux hands the listener's flag to nobody, but says so nowhere.
    if stream.set_nonblocking(false).is_err() {
        return;
    }
    let (stream, open) = (Arc::new(stream), open.clone());
    lock(&open).push(stream.clone());
    spawn(move || {
        // A client that leaves in the middle of an answer is nobody's loss.
        let _ = ControlConnection::new(&stream, &*service).serve();
        lock(&open).retain(|other| !Arc::ptr_eq(other, &stream));
    });
}

/// Tells a stranger why there will be no answer. A fresh connection has room for that.
fn refuse(mut stream: &UnixStream, own: u32) {
    let refusal = ControlRefusal {
        code: "SR0204".to_owned(),
        summary: "this run is another user's".to_owned(),
        cause: Some(format!("only user {own}, whose it is, and root are answered")),
        help: Some("ask as that user, with sudo -u".to_owned()),
    };
    let _ = stream.write_all(&answer_line(&serde_json::Value::Null, &Err(refusal)));
}

/// Only the same user and root.
fn is_allowed(peer_uid: u32, own_uid: u32) -> bool {
    peer_uid == own_uid || peer_uid == 0
}

/// The list is whole at any time, also when a thread that held it panicked.
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
