//! Sends replies: to the FUSE device, or to the ring through which the request arrived.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use slipring_netmap::{Errno, Notify};

use crate::proto;
use crate::reply_queue::{QueuedReply, ReplyQueue};
use crate::sys::UringEntryId;

/// The descriptor of the connection to the kernel. Requests are read from it, and replies are
/// written to it, except for requests that arrive through a ring.
#[derive(Debug)]
pub(crate) struct FuseConnection(pub(crate) OwnedFd);

impl FuseConnection {
    /// Writes a reply. An error does no harm; for example, the caller may have been killed.
    fn answer(&self, header: [u8; 16], parts: [&[u8]; 2]) {
        let parts = [&header, parts[0], parts[1]].map(IoSlice::new);
        let _ = rustix::io::writev(&self.0, &parts);
    }
}

impl AsFd for FuseConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Notify for FuseConnection {
    fn notify(&self, handle: u64) {
        // An error does no harm, because the file may no longer be polled.
        let _ = rustix::io::write(&self.0, &proto::notify_poll(handle));
    }
}

/// The obligation to answer one request. If this is dropped without an answer, the request is
/// answered with EIO.
#[derive(Debug)]
#[must_use]
pub(crate) struct FuseReply {
    unique: u64,
    route: Option<ReplyRoute>,
}

#[derive(Debug)]
enum ReplyRoute {
    Device(Arc<FuseConnection>),
    Ring(Arc<ReplyQueue>, UringEntryId),
}

impl FuseReply {
    /// Creates the obligation to answer a request that was read from the connection.
    pub(crate) fn to_device(connection: &Arc<FuseConnection>, unique: u64) -> Self {
        Self { unique, route: Some(ReplyRoute::Device(connection.clone())) }
    }

    /// Creates the obligation to answer a request that arrived through a ring.
    pub(crate) fn to_ring(outbox: &Arc<ReplyQueue>, slot: UringEntryId, unique: u64) -> Self {
        Self { unique, route: Some(ReplyRoute::Ring(outbox.clone(), slot)) }
    }

    /// Returns the request's unique number.
    pub(crate) fn unique(&self) -> u64 {
        self.unique
    }

    /// Sends the result of a successful request.
    pub(crate) fn done(mut self, parts: [&[u8]; 2]) {
        self.send(None, parts);
    }

    /// Sends an error as the answer.
    pub(crate) fn refuse(mut self, error: Errno) {
        self.send(Some(error), [&[], &[]]);
    }

    fn send(&mut self, error: Option<Errno>, parts: [&[u8]; 2]) {
        let error = error.map_or(0, |error| -error.raw_os_error());
        let header = proto::out_header(parts[0].len() + parts[1].len(), error, self.unique);
        match self.route.take() {
            Some(ReplyRoute::Device(connection)) => connection.answer(header, parts),
            Some(ReplyRoute::Ring(outbox, slot)) => {
                outbox.push(QueuedReply { slot, header, body: parts.concat() });
            }
            None => {}
        }
    }
}

impl Drop for FuseReply {
    fn drop(&mut self) {
        self.send(Some(Errno::IO), [&[], &[]]);
    }
}
