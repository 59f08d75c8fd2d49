//! The trait every kind of port implements.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use slipring_ring::{RxRing, TxRing};

use crate::clock::Nanos;
use crate::error::RunError;
use crate::lender::QueueLender;
use crate::stats::QueueCounters;
use crate::succession::SocketRing;

/// The program's halves of a queue's rings.
#[derive(Debug)]
pub struct QueueRings<'q> {
    /// The tx ring; if the port cannot send, a ring that never has a free slot.
    pub tx: &'q mut TxRing,
    /// The rx ring; if the port cannot receive, a ring that is always empty.
    pub rx: &'q mut RxRing,
}

/// The events that a program waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// Whether the program waits for frames to read.
    pub rx: bool,
    /// Whether the program waits for free slots to send on.
    pub tx: bool,
}

impl Interest {
    /// Waits for frames to read only.
    pub const RX: Self = Self { rx: true, tx: false };
    /// Waits for free slots to send on only.
    pub const TX: Self = Self { rx: false, tx: true };
    /// Waits for frames to read, and for free slots.
    pub const BOTH: Self = Self { rx: true, tx: true };
    /// Waits for nothing.
    pub const NONE: Self = Self { rx: false, tx: false };
}

/// Descriptors that become ready when a sync is worthwhile.
#[derive(Debug, Clone, Copy, Default)]
pub struct WaitFds<'q> {
    /// Readable when frames may have arrived.
    pub rx: Option<BorrowedFd<'q>>,
    /// Ready when slots may have become free.
    pub tx: Option<TxWait<'q>>,
    /// Readable when an interface has changed. Then a sync is worthwhile, whatever the program
    /// waits for. [`Queue::after_sleep`] reads the event.
    pub link: Option<BorrowedFd<'q>>,
}

/// How a queue signals free tx slots.
#[derive(Debug, Clone, Copy)]
pub enum TxWait<'q> {
    /// The queue's descriptor becomes readable (a doorbell).
    Readable(BorrowedFd<'q>),
    /// The queue's descriptor becomes writable, once per change (edge-triggered).
    WritableEdge(BorrowedFd<'q>),
    /// The queue's descriptor is writable as long as there is space.
    Writable(BorrowedFd<'q>),
}

/// One ring pair of a port and its driver.
///
/// # Contract
/// - The syncs do not block, except on the file of a `pcap:` port. They do a bounded amount of
///   work, at most one ring's worth.
/// - After `tx_sync`, each frame that the program released is submitted, counted as dropped, or
///   waits for a later sync because the kernel or device takes no more now; completed slots are
///   free again. After `rx_sync`, slots that the program released can receive again, and arrived
///   frames are readable, as many as fit the ring. Only whole packets are published.
/// - Counters are up to date after each sync; [`Self::update_stats`] fetches the counts that only
///   the kernel has.
pub trait Queue: Send {
    /// The program's halves of the rings.
    fn rings(&mut self) -> QueueRings<'_>;

    /// Sends queued frames; frees the slots of sent ones.
    ///
    /// # Errors
    /// [`RunError`] if the port has failed, for example because its interface no longer exists, or
    /// if the program's ring indices are impossible.
    fn tx_sync(&mut self) -> Result<(), RunError>;

    /// Gives the slots that were read back to the driver; takes over frames that have arrived.
    ///
    /// # Errors
    /// Same as [`Self::tx_sync`].
    fn rx_sync(&mut self) -> Result<(), RunError>;

    /// Returns the descriptors to sleep on. If there are none, nothing would wake the caller, so it
    /// must sync the queue repeatedly.
    fn wait_fds(&self) -> WaitFds<'_>;

    /// Returns the time ([`crate::now`]) at which to sync even if no descriptor becomes ready;
    /// `None` if descriptors signal everything.
    fn deadline(&self) -> Option<Nanos> {
        None
    }

    /// Returns whether no frame will ever arrive again, as at the end of a file.
    fn ended(&self) -> bool {
        false
    }

    /// Returns whether the interface was down (a card: without a carrier) when the queue last
    /// checked it. If so, until [`WaitFds::link`] signals a change, nothing arrives, frames to send
    /// wait in the ring, and [`WaitFds::tx`] has no meaning.
    fn is_link_down(&self) -> bool {
        false
    }

    /// Returns whether the interface no longer exists, and the queue has survived it. Frames in its
    /// tx ring never leave; they are counted as dropped.
    fn is_gone(&self) -> bool {
        false
    }

    /// Called before a sleep, and again if nothing ended the sleep. After the first call since
    /// [`Self::after_sleep`], the caller must sync and check once more.
    fn before_sleep(&mut self, _interest: Interest) {}

    /// Called after a sleep, and also if it turned out that no sleep was needed.
    fn after_sleep(&mut self) {}

    /// Returns the counters, which other threads can read.
    fn counters(&self) -> &Arc<QueueCounters>;

    /// Returns the number of packets in the tx ring that never leave if the queue is closed now. By
    /// default, each slot that has not been freed contains one.
    fn unsent(&mut self) -> u64 {
        self.rings().tx.with_driver().into()
    }

    /// Fetches the drop counts that the kernel keeps. It takes a system call or two, so it is
    /// called once per report.
    fn update_stats(&mut self) {}

    /// Returns the object by which the queue can be lent; `None` if programs cannot sync it in
    /// their own processes.
    fn lender(&mut self) -> Option<&mut dyn QueueLender> {
        None
    }

    /// Adopts the ring positions of a program that syncs the queue itself. Each sync also does
    /// this.
    fn catch_up(&mut self) {}

    /// Returns the ring of the receiving socket, and the position at which this queue has stopped
    /// reading it. `None` if no other process can take the ring over.
    fn socket_ring(&self) -> Option<SocketRing> {
        None
    }

    /// Returns the position at which another process can continue to read the queue's descriptor:
    /// that of [`Self::socket_ring`]. For the first queue of a TAP device, it is the lower half of
    /// the device's count of dropped frames, up to which this queue has counted them. `None` if no
    /// other process can continue.
    fn resume_position(&self) -> Option<u32> {
        self.socket_ring().map(|ring| ring.position)
    }

    /// Continues to read from `position`, where the previous reader has stopped: its
    /// [`Self::resume_position`].
    fn resume_ring(&mut self, _position: u32) {}
}
