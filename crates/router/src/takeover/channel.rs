//! Messages between two routers, with descriptors.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;
use slipring_native_proto::{receive, send};

/// Maximum length of a message in bytes. The longest messages contain the states of rules.
const MAX_BYTES: u32 = 1 << 28;
/// Maximum number of descriptors of a message. A message has at most one for each interface, and
/// one for each queue of each interface, of each parent of VLANs, and of each VLAN's device.
const MAX_DESCRIPTORS: u32 = 1 << 16;

/// The connection to the other router. A message consists of its length, the number of its
/// descriptors, a document, and a byte for each descriptor.
///
/// If the other router is silent for too long, the connection is shut down. Neither router can then
/// send anything more, but what the other router has already sent is still read. So a message that
/// was sent as a whole is always received as a whole.
pub(super) struct Channel {
    stream: UnixStream,
    is_cut_off: bool,
}

impl Channel {
    pub(super) const fn new(stream: UnixStream) -> Self {
        Self { stream, is_cut_off: false }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The system's error if the other router has ended, or if it does not read within the `limit`
    /// of the last call of [`Self::receive`].
    pub(super) fn send(&mut self, message: &Value, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let body = message.to_string().into_bytes();
        let head = [body.len() as u32, fds.len() as u32].map(u32::to_ne_bytes).concat();
        self.stream.write_all(&head)?;
        self.stream.write_all(&body)?;
        fds.iter().try_for_each(|fd| send(&self.stream, &[0], &[*fd]))
    }

    /// Waits for a message; returns it with its descriptors. If the other router sends nothing for
    /// `limit`, the connection is shut down.
    ///
    /// # Errors
    /// `UnexpectedEof` if the other router has ended; `TimedOut` if the connection was shut down
    /// before the other router had sent the whole message; `InvalidData` if the message is not
    /// valid.
    pub(super) fn receive(&mut self, limit: Duration) -> io::Result<(Value, Vec<OwnedFd>)> {
        self.stream.set_read_timeout(Some(limit))?;
        self.stream.set_write_timeout(Some(limit))?;
        let message = self.receive_message();
        match message {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && self.is_cut_off => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "the other router does not answer"))
            }
            message => message,
        }
    }

    fn receive_message(&mut self) -> io::Result<(Value, Vec<OwnedFd>)> {
        let mut head = [0; 8];
        self.read(&mut head)?;
        let [bytes, count] = [0, 4]
            .map(|at| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
        if bytes > MAX_BYTES || count > MAX_DESCRIPTORS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; bytes as usize];
        self.read(&mut body)?;
        let fds = (0..count).map(|_| self.receive_descriptor()).collect::<io::Result<_>>()?;
        Ok((serde_json::from_slice(&body)?, fds))
    }

    fn read(&mut self, mut space: &mut [u8]) -> io::Result<()> {
        while !space.is_empty() {
            match self.or_cut_off(|mut stream| stream.read(space))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => space = &mut space[read..],
            }
        }
        Ok(())
    }

    fn receive_descriptor(&mut self) -> io::Result<OwnedFd> {
        let got = self.or_cut_off(|stream| receive(stream, &mut [0]))?;
        let end =
            if got.len == 0 { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidData };
        got.fds.into_iter().next().ok_or_else(|| end.into())
    }

    /// Reads once. After a timeout, shuts down the connection, and reads what has arrived in the
    /// meantime.
    fn or_cut_off<T>(
        &mut self,
        mut read: impl FnMut(&UnixStream) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match read(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.is_cut_off => {
                    self.stream.shutdown(Shutdown::Both)?;
                    self.is_cut_off = true;
                }
                done => return done,
            }
        }
    }
}
