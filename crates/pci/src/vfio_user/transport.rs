//! Transfers whole messages and their descriptors over a stream socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::message::{HEADER_BYTES, Header, MAX_FDS, MAX_MESSAGE_BYTES};

/// A message and its descriptors.
#[derive(Debug, Default)]
pub struct VfioUserMessage {
    /// The header of the message.
    pub header: Header,
    /// The bytes after the header.
    pub payload: Vec<u8>,
    /// The descriptors, in order.
    pub fds: Vec<OwnedFd>,
}

/// Sends a message: a header, whose size is filled in, its payload, and descriptors.
///
/// # Errors
/// The kernel's error; `InvalidInput` if the message is too long or has too many descriptors.
pub fn send(
    socket: BorrowedFd<'_>,
    header: Header,
    payload: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let size = HEADER_BYTES + payload.len();
    if size > MAX_MESSAGE_BYTES || fds.len() > MAX_FDS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::with_capacity(size);
    Header { size: size as u32, ..header }.write(&mut bytes);
    bytes.extend_from_slice(payload);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut sent = 0;
    while sent < size {
        // If the peer no longer exists, this must be an error, not a signal.
        match sendmsg(socket, &[IoSlice::new(&bytes[sent..])], &mut ancillary, SendFlags::NOSIGNAL)
        {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => sent += count,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        // The descriptors were sent with the first byte, so they are not sent again.
        ancillary.clear();
    }
    Ok(())
}

/// Receives a whole message. Returns `None` if the other side has closed the connection between
/// two messages.
///
/// # Errors
/// The kernel's error: `TimedOut` or `WouldBlock` with a time limit on the socket; `InvalidData` if
/// the header's size is impossible, or there are too many descriptors; `UnexpectedEof` if the
/// connection ends within a message.
pub fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<VfioUserMessage>> {
    let mut message = VfioUserMessage::default();
    let mut head = [0; HEADER_BYTES];
    if !fill(socket, &mut head, &mut message.fds)? {
        return Ok(None);
    }
    let (header, _) = Header::read(&head).map_err(|_| io::ErrorKind::InvalidData)?;
    let size = header.size as usize;
    if !(HEADER_BYTES..=MAX_MESSAGE_BYTES).contains(&size) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    message.header = header;
    message.payload = vec![0; size - HEADER_BYTES];
    if !message.payload.is_empty() && !fill(socket, &mut message.payload, &mut message.fds)? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(message))
}

/// Fills `bytes`. Returns false if the connection ends before the first byte.
fn fill(socket: BorrowedFd<'_>, bytes: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<bool> {
    let mut filled = 0;
    while filled < bytes.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes[filled..])];
        let received = match recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => continue,
            received => received?,
        };
        for part in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = part {
                fds.extend(rights);
            }
        }
        if fds.len() > MAX_FDS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match received.bytes {
            0 if filled == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_message_arrives_whole_with_its_descriptors() {
        let (near, far) = UnixStream::pair().unwrap();
        let header = Header { id: 7, command: 2, ..Header::default() };
        let payload = vec![5; 300_000];
        std::thread::scope(|scope| {
            scope.spawn(|| send(near.as_fd(), header, &payload, &[near.as_fd()]).unwrap());
            let message = receive(far.as_fd()).unwrap().unwrap();
            assert_eq!((message.header.id, message.header.size), (7, 300_016));
            assert_eq!((message.payload.len(), message.fds.len()), (300_000, 1));
        });
        drop(near);
        assert!(receive(far.as_fd()).unwrap().is_none());
    }

    #[test]
    fn impossible_sizes_and_a_connection_that_ends_in_a_message_are_errors() {
        for size in [0u32, 15, MAX_MESSAGE_BYTES as u32 + 1, u32::MAX] {
            let (mut near, far) = UnixStream::pair().unwrap();
            let mut bytes = Vec::new();
            Header { size, ..Header::default() }.write(&mut bytes);
            near.write_all(&bytes).unwrap();
            let error = receive(far.as_fd()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{size}");
        }
        for sent in [8, 20] {
            let (mut near, far) = UnixStream::pair().unwrap();
            let mut bytes = Vec::new();
            Header { size: 32, ..Header::default() }.write(&mut bytes);
            bytes.resize(32, 0);
            near.write_all(&bytes[..sent]).unwrap();
            drop(near);
            let error = receive(far.as_fd()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{sent}");
        }
    }
}
