//! The client's side of the protocol.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use slipring_abi::{
    NETMAP_REQ_MAXSIZE, NIOCCTRL, NIOCRXSYNC, NIOCTXSYNC, NmreqHeader, NmreqRegister, PlainData,
};

use crate::delegation::RingDelegation;
use crate::message::{MemoryFragment, NativeAnswer, NativeCall, NativeMessage, NativeOp};
use crate::socket::{MAX_MESSAGE, connected, connected_within, receive, send};

/// An open netmap file. Each has its own connection to the daemon.
#[derive(Debug)]
pub struct NativeClient {
    socket: OwnedFd,
    /// The buffer for messages. It is locked from a call until its answer has arrived.
    buffer: Mutex<Box<[u8]>>,
}

/// The address that a request gives for its body. It does not have to be a real address, because
/// the body is sent as a fragment.
const BODY_ADDR: u64 = 0x1000;

impl NativeClient {
    /// Connects to the daemon whose socket is at `path`.
    ///
    /// # Errors
    /// The kernel's error if no daemon listens at `path` or the user may not connect;
    /// [`TrustError`](crate::trust::TrustError) if the socket is not trusted.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self::over(connected(path)?))
    }

    /// Like [`Self::connect`], but neither this call nor any later call waits longer than
    /// `timeout`. For a program that does not know whether a daemon serves the socket.
    ///
    /// # Errors
    /// The errors of [`Self::connect`]; `WouldBlock` after the timeout.
    pub fn connect_within(path: &Path, timeout: Duration) -> io::Result<Self> {
        connected_within(path, timeout).map(Self::over)
    }

    fn over(socket: OwnedFd) -> Self {
        Self { socket, buffer: Mutex::new(vec![0; MAX_MESSAGE].into_boxed_slice()) }
    }

    /// Performs a call; returns the answer and the descriptors that came with it.
    ///
    /// # Errors
    /// The error that the daemon returns for the call; `BrokenPipe` if the daemon has ended.
    pub fn call(&self, call: &NativeCall) -> io::Result<(NativeAnswer, Vec<OwnedFd>)> {
        let mut buffer = self.buffer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        send(&self.socket, &call.to_bytes(), &[])?;
        loop {
            let got = receive(&self.socket, &mut buffer)?;
            if got.len == 0 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            match NativeMessage::read(&buffer[..got.len]) {
                // This message is for a caller that sleeps in poll. It has woken that caller, which
                // polls again.
                Some(NativeMessage::Wake) => {}
                Some(NativeMessage::Answer(answer)) if answer.result < 0 => {
                    return Err(io::Error::from_raw_os_error(-answer.result));
                }
                Some(NativeMessage::Answer(answer)) => return Ok((answer, got.fds)),
                None => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Binds the port named in `header` as `register` requests. Returns `register` with the values
    /// that the daemon has written to it.
    ///
    /// # Errors
    /// The error that the daemon returns for the request.
    pub fn register(
        &self,
        header: &NmreqHeader,
        register: &NmreqRegister,
    ) -> io::Result<NmreqRegister> {
        let mut body = vec![0; NmreqRegister::SIZE];
        register.write_to(&mut body);
        let (_, body) = self.control(header, body)?;
        NmreqRegister::read_from(&body).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Performs a request without options; returns its header and body with the values that the
    /// daemon has written to them.
    ///
    /// # Errors
    /// The error that the daemon returns for the request.
    pub fn control(
        &self,
        header: &NmreqHeader,
        body: Vec<u8>,
    ) -> io::Result<(NmreqHeader, Vec<u8>)> {
        debug_assert!(body.len() <= NETMAP_REQ_MAXSIZE);
        let nr_body = if body.is_empty() { 0 } else { BODY_ADDR };
        let mut argument = vec![0; NmreqHeader::SIZE];
        NmreqHeader { nr_options: 0, nr_body, ..*header }.write_to(&mut argument);
        let pieces = vec![MemoryFragment { addr: BODY_ADDR, bytes: body }];
        let call = NativeCall {
            argument,
            fragments: pieces,
            ..NativeCall::plain(NativeOp::Ioctl, NIOCCTRL)
        };
        let (answer, _) = self.call(&call)?;
        let header = NmreqHeader::read_from(&answer.argument);
        let header = header.ok_or(io::ErrorKind::InvalidData)?;
        Ok((
            header,
            answer.fragments.into_iter().next().map(|piece| piece.bytes).unwrap_or_default(),
        ))
    }

    /// Makes the daemon send the frames queued in the tx rings.
    ///
    /// # Errors
    /// The error that the daemon returns for the request.
    pub fn tx_sync(&self) -> io::Result<()> {
        self.call(&NativeCall::plain(NativeOp::Ioctl, NIOCTXSYNC)).map(|_| ())
    }

    /// Makes the daemon put received frames into the rx rings.
    ///
    /// # Errors
    /// The error that the daemon returns for the request.
    pub fn rx_sync(&self) -> io::Result<()> {
        self.call(&NativeCall::plain(NativeOp::Ioctl, NIOCRXSYNC)).map(|_| ())
    }

    /// Returns which of `events` (Linux's poll flags) are ready. If `arm` is set, the socket
    /// becomes readable when it is useful to poll again.
    ///
    /// # Errors
    /// `BrokenPipe` if the daemon has ended.
    pub fn poll(&self, events: u32, arm: bool) -> io::Result<u32> {
        let call = NativeCall { arm, ..NativeCall::plain(NativeOp::Poll, events) };
        Ok(self.call(&call)?.0.result as u32)
    }

    /// Returns a descriptor with which the user's netmap memory can be mapped, and the memory's
    /// size in bytes.
    ///
    /// # Errors
    /// `BrokenPipe` if the daemon has ended.
    pub fn memory(&self) -> io::Result<(OwnedFd, u64)> {
        let (answer, fds) = self.call(&NativeCall::plain(NativeOp::Memory, 0))?;
        let bytes = answer.argument.first_chunk::<8>().map(|bytes| u64::from_ne_bytes(*bytes));
        let fd = fds.into_iter().next();
        fd.zip(bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Takes the sockets of the queues that a device lent with `token`. They can be taken only
    /// once.
    ///
    /// # Errors
    /// `ENOENT` if this user was lent no sockets with `token`, or they were already taken.
    pub fn take_sockets(&self, token: u64) -> io::Result<Vec<OwnedFd>> {
        let argument = token.to_ne_bytes().to_vec();
        let call = NativeCall { argument, ..NativeCall::plain(NativeOp::Sockets, 0) };
        Ok(self.call(&call)?.1)
    }

    /// Borrows the bound rings: until the connection ends, the program syncs them itself.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the port cannot lend rings; `EBUSY` if another program syncs one of the
    /// rings.
    pub fn lend(&self) -> io::Result<RingDelegation> {
        let (answer, fds) = self.call(&NativeCall::plain(NativeOp::Lend, 0))?;
        RingDelegation::from_parts(&answer.argument, fds)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl AsFd for NativeClient {
    /// The connection's socket. It becomes readable after a wake-up and when the daemon has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
