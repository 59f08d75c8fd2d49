//! AF_XDP sockets that only send, for ports that receive in another way.
//!
//! ```text
//!   tx slots --> TX ring of the socket --copied to a socket buffer--> device queue
//!            <-- completion ring <------------ sent or dropped ---------'
//! ```
//!
//! In copy mode, a socket needs neither an XDP program nor the driver's support, so it sends on
//! each interface, past the queueing discipline. The kernel copies a frame to a socket buffer, as
//! it does for `sendmmsg`, but reads no message and no headers: on a veth link, 1.6 to 2.0 µs for a
//! frame that takes `sendmmsg` 2.2 to 2.4 µs.
//!
//! # Invariants
//! 1. The sockets receive nothing: no program redirects frames to them.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use slipring_ring::{KernRing, Region};

use super::ends::kick;
use super::setup;
use super::socket::XdpSocket;
use crate::clock::{Nanos, now};
use crate::error::RunCause;
use crate::iface::Iface;
use crate::nic::{TxLimits, TxSide};
use crate::options::OpenOptions;
use crate::stats::QueueCounters;

/// How long to wait, in ns, before frames for which the device had no space are offered to it
/// again.
const RETRY_AFTER_NS: Nanos = 1_000_000;

/// A bound socket, to which no slots belong yet.
pub(crate) struct UnusedSender {
    socket: XdpSocket,
    chains: bool,
}

/// Binds a socket for each of the first `queues` queues. Returns `None` if the kernel, the
/// interface or another socket on one of its queues does not permit that, or if a frame of the
/// interface's MTU takes more buffers than a socket sends.
pub(crate) fn senders(
    iface: &Iface,
    queues: u32,
    region: &Region,
    options: &OpenOptions,
) -> Option<Vec<UnusedSender>> {
    if queues > iface.tx_queues {
        return None;
    }
    let numbers: Vec<u32> = (0..queues).collect();
    let (sockets, chains) = setup::bind_senders(iface, &numbers, region, options)?;
    super::check_mtu(iface, chains, region.buf_size()).ok()?;
    Some(sockets.into_iter().map(|socket| UnusedSender { socket, chains }).collect())
}

impl UnusedSender {
    /// Makes this socket send the frames of `ring`.
    pub(crate) fn with_ring(self, ring: KernRing, counters: Arc<QueueCounters>) -> XdpSender {
        // The kernel does not compare a frame's length with the MTU, which may change meanwhile.
        // The caller must not send frames that are too long for the MTU.
        let limits = TxLimits { packet: u32::MAX, chains: self.chains, enabled: true };
        XdpSender { socket: self.socket, side: TxSide::new(ring, limits, counters) }
    }
}

/// The sending half of a queue. Its fields are dropped in order, as those of `XdpQueue`.
pub(crate) struct XdpSender {
    socket: XdpSocket,
    side: TxSide,
}

impl XdpSender {
    /// Sends the frames that the program released, and frees the slots of those that have left.
    /// Returns whether the kernel has completed any since the last call.
    ///
    /// # Errors
    /// [`RunCause::WentDown`] while the interface is down: then frames wait. Other errors end the
    /// port.
    pub(crate) fn sync(&mut self) -> Result<bool, RunCause> {
        let before = self.side.packets_done();
        let (fd, zero_copy) = (self.socket.fd.as_fd(), self.socket.zero_copy);
        self.side.sync(&mut self.socket.tx, |side, ends| kick(side, ends, fd, zero_copy))?;
        Ok(self.side.packets_done() != before)
    }

    /// Number of frames that are lost if the socket is closed now.
    pub(crate) fn unsent(&mut self) -> u64 {
        self.socket.unsent(&self.side)
    }

    /// Writable when there may be space for more frames.
    pub(crate) fn writable(&self) -> BorrowedFd<'_> {
        self.socket.wait_tx()
    }

    /// When to sync again because the device had no space; `None` if no frame waits.
    pub(crate) fn retry_at(&self) -> Option<Nanos> {
        self.socket.tx.tx.is_stuck().then(|| now() + RETRY_AFTER_NS)
    }
}
