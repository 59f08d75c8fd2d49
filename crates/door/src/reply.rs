//! Where answers go.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use slipring_netmap::{Errno, Notify};

use crate::outbox::{Answer, Outbox};
use crate::proto;
use crate::sys::Slot;

/// The descriptor of the connection to the kernel: requests come from it, and answers go to it,
/// but for those that come through a ring.
#[derive(Debug)]
pub(crate) struct Connection(pub(crate) OwnedFd);

impl Connection {
    /// Answers. A caller that was killed meanwhile does not take it, which is fine.
    fn answer(&self, header: [u8; 16], parts: [&[u8]; 2]) {
        let parts = [&header, parts[0], parts[1]].map(IoSlice::new);
        let _ = rustix::io::writev(&self.0, &parts);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Notify for Connection {
    fn notify(&self, handle: u64) {
        // Nobody may poll that file any more.
        let _ = rustix::io::write(&self.0, &proto::notify_poll(handle));
    }
}

/// The duty to answer one request. One that is dropped answers that it was not done.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reply {
    unique: u64,
    way: Option<Way>,
}

#[derive(Debug)]
enum Way {
    Device(Arc<Connection>),
    Ring(Arc<Outbox>, Slot),
}

impl Reply {
    /// To a request that was read from the connection.
    pub(crate) fn by_device(connection: &Arc<Connection>, unique: u64) -> Self {
        Self { unique, way: Some(Way::Device(connection.clone())) }
    }

    /// To one that came through a ring.
    pub(crate) fn by_ring(outbox: &Arc<Outbox>, slot: Slot, unique: u64) -> Self {
        Self { unique, way: Some(Way::Ring(outbox.clone(), slot)) }
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
        match self.way.take() {
            Some(Way::Device(connection)) => connection.answer(header, parts),
            Some(Way::Ring(outbox, slot)) => {
                outbox.put(Answer { slot, header, body: parts.concat() });
            }
            None => {}
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.send(Some(Errno::IO), [&[], &[]]);
    }
}
