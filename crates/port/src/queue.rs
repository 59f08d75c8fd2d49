//! The trait every kind of port implements.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use slipring_ring::{RxRing, TxRing};

use crate::clock::Nanos;
use crate::error::RunError;
use crate::lender::QueueLender;
use crate::stats::QueueCounters;

/// The program's halves of a queue's rings.
#[derive(Debug)]
pub struct QueueRings<'q> {
    /// The tx ring. It has no slots if the port cannot send.
    pub tx: &'q mut TxRing,
    /// The rx ring. It has no slots if the port cannot receive.
    pub rx: &'q mut RxRing,
}

/// The events that a program waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// Frames to read.
    pub rx: bool,
    /// Free slots to send on.
    pub tx: bool,
}

impl Interest {
    /// An interest in frames to read only.
    pub const RX: Self = Self { rx: true, tx: false };
    /// An interest in free slots to send on only.
    pub const TX: Self = Self { rx: false, tx: true };
    /// An interest in both directions.
    pub const BOTH: Self = Self { rx: true, tx: true };
    /// An interest in neither direction.
    pub const NONE: Self = Self { rx: false, tx: false };
}

/// Descriptors that become ready when a sync is worthwhile.
#[derive(Debug, Clone, Copy, Default)]
pub struct WaitFds<'q> {
    /// Readable when frames may have arrived.
    pub rx: Option<BorrowedFd<'q>>,
    /// Ready when slots may have become free.
    pub tx: Option<TxWait<'q>>,
    /// Readable when an interface has changed; a sync is then worthwhile for any interest.
    /// [`Queue::after_sleep`] reads the event.
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
/// - Both syncs never block and do a bounded amount of work, at most one ring's worth.
/// - After `tx_sync`, all slots that the program released are submitted or counted as dropped, and
///   completed slots are free again. After `rx_sync`, slots that the program released can receive
///   again, and arrived frames are readable. Only whole packets are published.
/// - Counters are up to date after each sync; [`Self::update_stats`] fetches the counts that only
///   the kernel has.
pub trait Queue: Send {
    /// The program's halves of the rings.
    fn rings(&mut self) -> QueueRings<'_>;

    /// Sends queued frames; frees the slots of sent ones.
    ///
    /// # Errors
    /// [`RunError`] when the port is gone or its rings are corrupt.
    fn tx_sync(&mut self) -> Result<(), RunError>;

    /// Returns the slots that were read; takes over frames that have arrived.
    ///
    /// # Errors
    /// Same as [`Self::tx_sync`].
    fn rx_sync(&mut self) -> Result<(), RunError>;

    /// The descriptors to sleep on. If there are none, the caller must sync the queue repeatedly
    /// instead of sleeping on it.
    fn wait_fds(&self) -> WaitFds<'_>;

    /// Time of [`crate::now`] at which to sync although no descriptor becomes ready; `None` if
    /// descriptors signal everything.
    fn deadline(&self) -> Option<Nanos> {
        None
    }

    /// Whether no frame will ever arrive again: the end of a file.
    fn ended(&self) -> bool {
        false
    }

    /// Whether the interface is down, as of the last sync: until [`WaitFds::link`] signals a
    /// change, nothing arrives, frames to send wait in the ring, and [`WaitFds::tx`] is
    /// meaningless.
    fn is_link_down(&self) -> bool {
        false
    }

    /// Called before a sleep; the caller must sync and check once more afterwards.
    fn before_sleep(&mut self, _interest: Interest) {}

    /// Called after a sleep, or instead of it if nothing had to be waited for.
    fn after_sleep(&mut self) {}

    /// The counters, shared with their readers.
    fn counters(&self) -> &Arc<QueueCounters>;

    /// Fetches drop counts that the kernel keeps. A system call or two: once per report.
    fn update_stats(&mut self) {}

    /// Returns the interface to lend the queue to programs, if they can sync it in their own
    /// processes.
    fn lender(&mut self) -> Option<&mut dyn QueueLender> {
        None
    }

    /// Adopts the ring positions of a program that syncs the queue itself; each sync does that,
    /// too.
    fn catch_up(&mut self) {}
}
