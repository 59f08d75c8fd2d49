//! Reads a netlink socket in a second thread, ahead of the thread that processes the messages.
//!
//! ```text
//!   socket --> read-ahead thread --parts--> processing thread
//!                      '--------buffers---------'
//! ```
//!
//! The read-ahead thread reads until the socket is empty. The socket is not empty before the end of
//! a dump, because each read of a part makes the kernel compose the next part. After the end, the
//! processing thread reads the socket again.
//!
//! # Invariants
//! 1. At most [`NUM_BUFFERS`] parts are read and not yet processed; further messages wait in the
//!    socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::Builder;

use netlink_sys::Socket;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use slipring_ring::Doorbell;

use super::READ_BYTES;

/// Number of buffers of [`READ_BYTES`] bytes.
const NUM_BUFFERS: usize = 64;

/// A thread that reads until the socket is empty. It ends by itself after this value is dropped.
pub(super) struct ReadAhead {
    parts: Receiver<Result<Vec<u8>, Errno>>,
    buffers: Sender<Vec<u8>>,
    /// Rings after each part, and when the thread ends.
    arrived: Arc<Doorbell>,
}

/// What the read-ahead thread has delivered.
pub(super) enum AheadPart {
    /// The messages of one read.
    Read(Vec<u8>),
    /// A read has failed. The next read may succeed.
    Failed(Errno),
    /// Nothing yet.
    Missing,
    /// The thread has found the socket empty.
    End,
}

impl ReadAhead {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system refuses it.
    pub(super) fn start(socket: &Socket) -> io::Result<Self> {
        let socket = socket.as_fd().try_clone_to_owned()?;
        let arrived = Arc::new(Doorbell::new()?);
        let (to_other, parts) = channel();
        let (buffers, free) = channel();
        for _ in 0..NUM_BUFFERS {
            // This cannot fail: the receiver is still in scope.
            let _ = buffers.send(Vec::with_capacity(READ_BYTES));
        }
        let thread = AheadThread { socket, parts: Some(to_other), free, arrived: arrived.clone() };
        Builder::new().name("reading ahead".into()).spawn(move || {
            thread.run();
        })?;
        Ok(Self { parts, buffers, arrived })
    }

    /// Takes the next part.
    pub(super) fn next(&mut self) -> AheadPart {
        match self.try_next() {
            AheadPart::Missing => {
                // Clears the doorbell before looking again, so that no part arrives unnoticed in
                // between.
                self.arrived.clear();
                self.try_next()
            }
            part => part,
        }
    }

    fn try_next(&self) -> AheadPart {
        match self.parts.try_recv() {
            Ok(Ok(bytes)) => AheadPart::Read(bytes),
            Ok(Err(error)) => AheadPart::Failed(error),
            Err(TryRecvError::Empty) => AheadPart::Missing,
            Err(TryRecvError::Disconnected) => AheadPart::End,
        }
    }

    /// Returns a buffer whose messages have been processed.
    pub(super) fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        // This fails if the read-ahead thread has ended. It needs no buffers then.
        let _ = self.buffers.send(buffer);
    }

    /// The descriptor becomes readable when there is a part, or when the thread has ended.
    pub(super) fn arrived(&self) -> BorrowedFd<'_> {
        self.arrived.as_fd()
    }
}

struct AheadThread {
    socket: OwnedFd,
    /// Dropped before the doorbell rings for the last time, so that the receiver then finds that
    /// the thread has ended.
    parts: Option<Sender<Result<Vec<u8>, Errno>>>,
    free: Receiver<Vec<u8>>,
    arrived: Arc<Doorbell>,
}

impl AheadThread {
    /// Reads until the socket is empty, or the receiver of the parts was dropped. Returns `None` in
    /// both cases.
    fn run(&self) -> Option<()> {
        loop {
            let mut buffer = self.free.recv().ok()?;
            loop {
                match recv(&self.socket, spare_capacity(&mut buffer), RecvFlags::DONTWAIT) {
                    Ok(_) => {
                        self.pass_on(Ok(buffer))?;
                        break;
                    }
                    Err(Errno::AGAIN) => return None,
                    Err(Errno::INTR) => {}
                    Err(error) => self.pass_on(Err(error))?,
                }
            }
        }
    }

    fn pass_on(&self, part: Result<Vec<u8>, Errno>) -> Option<()> {
        self.parts.as_ref()?.send(part).ok()?;
        self.arrived.ring();
        Some(())
    }
}

impl Drop for AheadThread {
    /// Announces the end of the thread, even after a panic.
    fn drop(&mut self) {
        self.parts = None;
        self.arrived.ring();
    }
}
