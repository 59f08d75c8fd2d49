//! Lists the kernel's objects over netlink: one dump request and all its answers.

use std::io;

use netlink_sys::{Socket, SocketAddr};
use rustix::io::Errno;

/// Length of `struct nlmsghdr` in bytes.
const HEADER_LEN: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
/// `NLA_TYPE_MASK` in linux/netlink.h: without the flags for nested attributes and byte order.
const TYPE_MASK: u16 = 0x3fff;
/// Size of a read in bytes. The kernel writes at most 32 KiB of a dump per read.
const READ_BYTES: usize = 1 << 16;

/// Returns the bodies of all messages with which the kernel answers a dump request of this type.
/// `body` follows the netlink header.
///
/// # Errors
/// The kernel's error. `EPROTONOSUPPORT` if the kernel does not have this netlink family.
pub(crate) fn dump(family: isize, request: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    DumpSocket::open(family)?.dump(request, body)
}

/// A socket for several dumps, one after another. After an error, unread answers may remain in it.
pub(crate) struct DumpSocket {
    socket: Socket,
    buffer: Vec<u8>,
}

impl DumpSocket {
    /// Opens a socket for dumps of a netlink family.
    ///
    /// # Errors
    /// As [`dump`].
    pub(crate) fn open(family: isize) -> io::Result<Self> {
        Ok(Self { socket: connected(family)?, buffer: Vec::with_capacity(READ_BYTES) })
    }

    /// The number of the socket's descriptor.
    #[cfg(test)]
    pub(crate) fn descriptor(&self) -> std::os::fd::RawFd {
        std::os::fd::AsRawFd::as_raw_fd(&self.socket)
    }

    /// Like [`dump`], but on this socket.
    ///
    /// # Errors
    /// As [`dump`].
    pub(crate) fn dump(&mut self, request: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let mut answers = Vec::new();
        self.socket.send(&dump_request(request, body), 0)?;
        loop {
            self.buffer.clear();
            self.socket.recv(&mut self.buffer, 0)?;
            if take_answers(&self.buffer, &mut answers)? {
                return Ok(answers);
            }
        }
    }
}

fn connected(family: isize) -> io::Result<Socket> {
    let mut socket = Socket::new(family)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
}

/// Sends a request on a new socket, and passes each buffer of received messages to `is_last`, until
/// that returns true.
///
/// # Errors
/// The kernel's error, or that of `is_last`.
pub(crate) fn read_dump(
    family: isize,
    request: &[u8],
    mut is_last: impl FnMut(Vec<u8>) -> io::Result<bool>,
) -> io::Result<()> {
    let socket = connected(family)?;
    socket.send(request, 0)?;
    loop {
        let mut buffer = Vec::with_capacity(READ_BYTES);
        socket.recv(&mut buffer, 0)?;
        if is_last(buffer)? {
            return Ok(());
        }
    }
}

fn dump_request(request: u16, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_LEN + body.len());
    message.extend(((HEADER_LEN + body.len()) as u32).to_ne_bytes());
    message.extend(request.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Appends the bodies of the messages in `buffer`. Returns whether the dump is complete.
fn take_answers(mut buffer: &[u8], answers: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    while let Some((kind, body, rest)) = next_message(buffer) {
        match kind {
            // The body is the result of the dump: 0 or a negative error.
            NLMSG_DONE => return error_of(body).map_or(Ok(true), Err),
            NLMSG_ERROR => return error_of(body).map_or(Ok(true), Err),
            _ => answers.push(body.to_vec()),
        }
        buffer = rest;
    }
    Ok(false)
}

/// The error in the body of an `NLMSG_ERROR` or `NLMSG_DONE`; `None` if the body says that there
/// was none.
fn error_of(body: &[u8]) -> Option<io::Error> {
    let number =
        body.first_chunk().map_or(-Errno::INVAL.raw_os_error(), |bytes| i32::from_ne_bytes(*bytes));
    (number != 0).then(|| io::Error::from_raw_os_error(number.saturating_neg()))
}

/// Splits off the first message: its type, its body, and the messages after it.
fn next_message(buffer: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = u32::from_ne_bytes(*buffer.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*buffer.get(4..)?.first_chunk()?);
    let body = buffer.get(HEADER_LEN..len)?;
    Some((kind, body, buffer.get(len.next_multiple_of(4)..).unwrap_or_default()))
}

/// The attributes in the body of a message, after its fixed part: type and value.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & TYPE_MASK;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of this type.
pub(crate) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(found, value)| (found == kind).then_some(value))
}

/// A string attribute, without the zero at its end.
pub(crate) fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()
}

/// A 32-bit attribute in network byte order.
pub(crate) fn be32(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_answers_end_the_list_instead_of_the_process() {
        let message = dump_request(24, &[8, 0, 3, 0, 7, 0, 0, 0]);
        for len in 0..message.len() {
            assert!(next_message(&message[..len]).is_none(), "{len}");
        }
        let (kind, body, rest) = next_message(&message).unwrap();
        assert_eq!((kind, rest), (24, &[][..]));
        assert_eq!(attribute(body, 3), Some(&7_u32.to_le_bytes()[..]));
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0, "shorter than its own header");
    }
}
