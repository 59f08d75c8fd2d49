//! Messages on the socket: a header of 16 bytes, a body, and file descriptors in the ancillary
//! data.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};

/// Number of bytes of the header.
pub(crate) const HEADER_BYTES: usize = 16;
/// Maximum number of bytes of a region access.
pub(crate) const MAX_TRANSFER: usize = 1 << 20;
/// Maximum number of descriptors of a message.
pub(crate) const MAX_FDS: usize = 8;

const FLAG_REPLY: u32 = 1;
const FLAG_TYPE: u32 = 0xf;
const FLAG_NO_REPLY: u32 = 1 << 4;
const FLAG_ERROR: u32 = 1 << 5;

/// Why no further messages can be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The peer has closed the socket in the middle of a message.
    #[error("the peer has closed the socket in the middle of a message")]
    Cut,
    /// The length in a header is impossible.
    #[error("a message of {0} bytes")]
    BadLength(u32),
    /// A reply came where a command was expected.
    #[error("flags {0:#x} are no command's")]
    NotACommand(u32),
    /// There are more descriptors than a message may have.
    #[error("more than {MAX_FDS} descriptors")]
    TooManyDescriptors,
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Socket(#[from] Errno),
}

/// A command of the peer.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) id: u16,
    pub(crate) command: u16,
    pub(crate) wants_reply: bool,
    pub(crate) body: Vec<u8>,
    pub(crate) fds: VecDeque<OwnedFd>,
}

impl Message {
    /// Reads the next command; `None` if the peer has closed the socket.
    pub(crate) fn receive(socket: &UnixStream) -> Result<Option<Self>, FrameError> {
        let mut header = [0; HEADER_BYTES];
        let mut fds = VecDeque::new();
        if !fill(socket, &mut header, &mut fds)? {
            return Ok(None);
        }
        let [id0, id1, c0, c1, l0, l1, l2, l3, f0, f1, f2, f3, ..] = header;
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        let flags = u32::from_le_bytes([f0, f1, f2, f3]);
        let body_len = (len as usize)
            .checked_sub(HEADER_BYTES)
            .filter(|len| *len <= MAX_TRANSFER + 64)
            .ok_or(FrameError::BadLength(len))?;
        if flags & FLAG_TYPE != 0 {
            return Err(FrameError::NotACommand(flags));
        }
        let mut body = vec![0; body_len];
        if body_len > 0 && !fill(socket, &mut body, &mut fds)? {
            return Err(FrameError::Cut);
        }
        let (id, command) = (u16::from_le_bytes([id0, id1]), u16::from_le_bytes([c0, c1]));
        let wants_reply = flags & FLAG_NO_REPLY == 0;
        Ok(Some(Self { id, command, wants_reply, body, fds }))
    }

    /// Sends the reply: a body, or the number of an error.
    pub(crate) fn reply(
        &self,
        socket: &UnixStream,
        result: Result<Vec<u8>, Errno>,
    ) -> Result<(), FrameError> {
        if !self.wants_reply {
            return Ok(());
        }
        let (body, flags, error) = match result {
            Ok(body) => (body, FLAG_REPLY, 0),
            Err(errno) => (Vec::new(), FLAG_REPLY | FLAG_ERROR, errno.raw_os_error()),
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.command.to_le_bytes());
        bytes.extend(((HEADER_BYTES + body.len()) as u32).to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(error.to_le_bytes());
        bytes.extend(body);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let sent = rustix::io::retry_on_intr(|| send(socket, rest, SendFlags::NOSIGNAL))?;
            rest = rest.get(sent..).unwrap_or_default();
        }
        Ok(())
    }
}

/// Fills `buf` from the socket, and collects descriptors. Returns false if the peer has closed the
/// socket before the first byte.
fn fill(
    socket: &UnixStream,
    buf: &mut [u8],
    fds: &mut VecDeque<OwnedFd>,
) -> Result<bool, FrameError> {
    let mut at = 0;
    while at < buf.len() {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            let mut parts = [IoSliceMut::new(&mut buf[at..])];
            recvmsg(socket.as_fd(), &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if fds.len() > MAX_FDS {
            return Err(FrameError::TooManyDescriptors);
        }
        match received.bytes {
            0 if at == 0 => return Ok(false),
            0 => return Err(FrameError::Cut),
            bytes => at += bytes,
        }
    }
    Ok(true)
}
