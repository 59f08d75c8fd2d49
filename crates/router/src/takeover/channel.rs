//! Messages between two routers, with descriptors.

use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde_json::Value;
use slipring_native_proto::{receive, send};

/// Maximum bytes of a message: the states of rules are the longest part.
const MAX_BYTES: u32 = 1 << 28;
/// Maximum number of descriptors of a message: interfaces times queues.
const MAX_DESCRIPTORS: u32 = 1 << 16;

/// The connection to the other router. A message is its length, the number of its descriptors, a
/// document, and a byte for each descriptor.
pub(super) struct Channel(UnixStream);

impl Channel {
    pub(super) const fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The system's error, if the other router has ended.
    pub(super) fn send(&mut self, message: &Value, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let body = message.to_string().into_bytes();
        let head = [body.len() as u32, fds.len() as u32].map(u32::to_ne_bytes).concat();
        self.0.write_all(&head)?;
        self.0.write_all(&body)?;
        fds.iter().try_for_each(|fd| send(&self.0, &[0], &[*fd]))
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// `UnexpectedEof` if the other router has ended, `InvalidData` if it is no message.
    pub(super) fn receive(&mut self) -> io::Result<(Value, Vec<OwnedFd>)> {
        let mut head = [[0; 4]; 2];
        head.iter_mut().try_for_each(|word| self.0.read_exact(word))?;
        let [bytes, count] = head.map(u32::from_ne_bytes);
        if bytes > MAX_BYTES || count > MAX_DESCRIPTORS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; bytes as usize];
        self.0.read_exact(&mut body)?;
        let fds = (0..count).map(|_| self.receive_descriptor()).collect::<io::Result<_>>()?;
        Ok((serde_json::from_slice(&body)?, fds))
    }

    fn receive_descriptor(&self) -> io::Result<OwnedFd> {
        let got = receive(&self.0, &mut [0])?;
        let end =
            if got.len == 0 { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidData };
        got.fds.into_iter().next().ok_or_else(|| end.into())
    }
}
