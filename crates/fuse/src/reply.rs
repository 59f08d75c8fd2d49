//! Where answers go.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use slipring_netmap::{Errno, Notify};

use crate::proto;
use crate::reply_queue::{QueuedReply, ReplyQueue};
use crate::sys::UringEntryId;

/// The descriptor of the connection to the kernel: requests come from it, and answers go to it,
/// but for those that come through a ring.
#[derive(Debug)]
pub(crate) struct FuseConnection(pub(crate) OwnedFd);

impl FuseConnection {
    /// Answers. A caller that was killed meanwhile does not take it, which is fine.
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
        // Nobody may poll that file any more.
        let _ = rustix::io::write(&self.0, &proto::notify_poll(handle));
    }
}

/// The duty to answer one request. One that is dropped answers that it was not done.
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
    /// To a request that was read from the connection.
    pub(crate) fn to_device(connection: &Arc<FuseConnection>, unique: u64) -> Self {
        Self { unique, route: Some(ReplyRoute::Device(connection.clone())) }
    }

    /// To one that came through a ring.
    pub(crate) fn to_ring(outbox: &Arc<ReplyQueue>, slot: UringEntryId, unique: u64) -> Self {
        Self { unique, route: Some(ReplyRoute::Ring(outbox.clone(), slot)) }
    }

    /// The request's number.
    pub(crate) fn unique(&self) -> u64 {
        self.unique
    }

    /// Done; here is what came of it.
    pub(crate) fn done(mut self, parts: [&[u8]; 2]) {
        self.send(None, parts);
    }

    /// Not done.
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
