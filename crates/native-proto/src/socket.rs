//! The socket: whole messages, with descriptors beside them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    UCred, accept_with, bind, listen, recvmsg, sendmsg, socket_with, sockopt,
};

use crate::delegation::MAX_RINGS;
use crate::trust::connect_to;

/// Bytes of the longest message: netmap's longest request, with room for what is around it.
pub const MAX_MESSAGE: usize = 16 << 10;
/// Most descriptors of a message.
const MAX_FDS: usize = 1 + 2 * MAX_RINGS;

/// Programs that may wait for being let in.
const BACKLOG: i32 = 128;

/// A connection to the daemon at `path`, which is root's or this user's.
pub(crate) fn connected(path: &Path) -> io::Result<OwnedFd> {
    connect_to(path, SocketType::SEQPACKET, SocketFlags::empty())
}

/// A daemon's side of the socket: its file goes with it.
#[derive(Debug)]
pub struct NativeListener {
    socket: OwnedFd,
    path: PathBuf,
}

impl NativeListener {
    /// At `path`, where nobody else may listen; what another daemon left there is replaced.
    ///
    /// # Errors
    /// The kernel's.
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

    /// The next who wants in, and who that is.
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` where nobody does.
    pub fn accept(&self) -> io::Result<(OwnedFd, UCred)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let client = accept_with(&self.socket, flags)?;
        let who = sockopt::socket_peercred(&client)?;
        Ok((client, who))
    }
}

impl AsFd for NativeListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for NativeListener {
    fn drop(&mut self) {
        // One that is gone already is fine.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Sends a message; never waits where the socket is not to.
///
/// # Errors
/// The kernel's.
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

/// A message that came.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// Bytes; 0 where the other party is gone.
    pub len: usize,
    /// Descriptors.
    pub fds: Vec<OwnedFd>,
}

/// Receives a message into `buffer`.
///
/// # Errors
/// The kernel's; `InvalidData` for a message that is too long.
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
