//! The daemon's SOCK_SEQPACKET socket. It carries whole messages, with descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    UCred, accept_with, bind, listen, recvmsg, sendmsg, socket_with, sockopt,
};

use crate::delegation::MAX_RINGS;
use crate::trust::{connect_to, connect_within};

/// Maximum length of a message in bytes. Netmap's longest request fits, with all headers.
pub const MAX_MESSAGE: usize = 16 << 10;
/// Maximum number of descriptors in a message.
const MAX_FDS: usize = 1 + 2 * MAX_RINGS;

/// Maximum number of connections waiting to be accepted.
const BACKLOG: i32 = 128;

/// Connects to the daemon whose socket is at `path`. The daemon must run as root or as this user.
pub(crate) fn connected(path: &Path) -> io::Result<OwnedFd> {
    connect_to(path, SocketType::SEQPACKET, SocketFlags::empty())
}

/// Like [`connected`], but the socket waits no longer than `timeout`, neither for the connection
/// nor later.
pub(crate) fn connected_within(path: &Path, timeout: Duration) -> io::Result<OwnedFd> {
    connect_within(path, SocketType::SEQPACKET, SocketFlags::empty(), timeout)
}

/// Listens on a stream socket at `path`. If a socket exists there but no process listens on it, for
/// example because its program was killed, the socket is replaced.
///
/// # Errors
/// `AddrInUse` if a process listens at `path` or the file there is not a socket; otherwise the
/// kernel's error.
pub fn listen_stream(path: &Path) -> io::Result<UnixListener> {
    let is_socket = path.symlink_metadata().is_ok_and(|facts| facts.file_type().is_socket());
    let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).is_err_and(is_refused) {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

/// The daemon's listening socket; its file is removed on drop.
#[derive(Debug)]
pub struct NativeListener {
    socket: OwnedFd,
    path: PathBuf,
}

impl NativeListener {
    /// Listens at `path`. If the file of a previous daemon is there, it is replaced, so no other
    /// daemon may listen at `path`.
    ///
    /// # Errors
    /// The kernel's error if the file cannot be replaced.
    pub fn new(path: &Path) -> io::Result<Self> {
        if let Err(error) = std::fs::remove_file(path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, BACKLOG)?;
        Ok(Self { socket, path: path.to_owned() })
    }

    /// Accepts the next client; returns its socket and its credentials.
    ///
    /// # Errors
    /// `WouldBlock` if no client is waiting; otherwise the kernel's error.
    pub fn accept(&self) -> io::Result<(OwnedFd, UCred)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let client = accept_with(&self.socket, flags)?;
        let credentials = sockopt::socket_peercred(&client)?;
        Ok((client, credentials))
    }
}

impl AsFd for NativeListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for NativeListener {
    fn drop(&mut self) {
        // The file may already have been removed, so an error is ignored.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Sends a message. Does not block if the socket is non-blocking.
///
/// # Errors
/// The kernel's error if the message cannot be sent.
pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    rustix::io::retry_on_intr(|| {
        sendmsg(&socket, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

/// A received message.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// The message's length in bytes; 0 if the peer has closed the connection.
    pub len: usize,
    /// The descriptors that came with the message.
    pub fds: Vec<OwnedFd>,
}

/// Receives a message into `buffer`.
///
/// # Errors
/// `InvalidData` if the message is longer than `buffer`; otherwise the kernel's error.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<ReceivedMessage> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(buffer)];
        recvmsg(&socket, &mut parts, &mut beside, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut fds = Vec::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(ReceivedMessage { len: got.bytes, fds })
}
