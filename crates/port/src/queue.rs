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
    /// To send on. Without slots where the port cannot send.
    pub tx: &'q mut TxRing,
    /// To receive from. Without slots where the port cannot receive.
    pub rx: &'q mut RxRing,
}

/// What a program waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// Frames to read.
    pub rx: bool,
    /// Free slots to send on.
    pub tx: bool,
}

impl Interest {
    /// Frames to read.
    pub const RX: Self = Self { rx: true, tx: false };
    /// Free slots to send on.
    pub const TX: Self = Self { rx: false, tx: true };
    /// Both directions.
    pub const BOTH: Self = Self { rx: true, tx: true };
    /// Neither direction.
    pub const NONE: Self = Self { rx: false, tx: false };
}

/// Descriptors that become readable when a sync is worth while.
#[derive(Debug, Clone, Copy, Default)]
pub struct WaitFds<'q> {
    /// Readable when frames may have arrived.
    pub rx: Option<BorrowedFd<'q>>,
    /// Ready when slots may have become free.
    pub tx: Option<TxWait<'q>>,
    /// Readable when something has happened to an interface: worth a sync whatever is waited for.
    /// [`Queue::after_sleep`] reads it off.
    pub link: Option<BorrowedFd<'q>>,
}

/// How a queue tells of free tx slots.
#[derive(Debug, Clone, Copy)]
pub enum TxWait<'q> {
    /// Its descriptor becomes readable (a doorbell).
    Readable(BorrowedFd<'q>),
    /// Its descriptor becomes writable, once per change (edge-triggered).
    WritableEdge(BorrowedFd<'q>),
    /// Its descriptor is writable as long as there is room.
    Writable(BorrowedFd<'q>),
}

/// One ring pair of a port and the driver behind it.
///
/// # Contract
/// - Both syncs never block and do a bounded amount of work, at most one ring's worth.
/// - After `tx_sync`, all slots that the program released are submitted or counted as dropped,
///   and completed ones are free again. After `rx_sync`, slots that the program released can
///   receive again and what has arrived is readable. Only whole packets are published.
/// - Counters are up to date after each sync; [`Self::update_stats`] fetches what only the
///   kernel knows.
pub trait Queue: Send {
    /// The program's halves of the rings.
    fn rings(&mut self) -> QueueRings<'_>;

    /// Sends what was queued; frees what was sent.
    ///
    /// # Errors
    /// [`RunError`] when the port is gone or its rings were damaged.
    fn tx_sync(&mut self) -> Result<(), RunError>;

    /// Returns what was read; takes what has arrived.
    ///
    /// # Errors
    /// As [`Self::tx_sync`].
    fn rx_sync(&mut self) -> Result<(), RunError>;

    /// What to sleep on. With no descriptors the queue is always worth a sync.
    fn wait_fds(&self) -> WaitFds<'_>;

    /// When a sync will be worth while although no descriptor tells, as of [`crate::now`].
    fn deadline(&self) -> Option<Nanos> {
        None
    }

    /// Whether no frame will ever arrive again: the end of a file.
    fn ended(&self) -> bool {
        false
    }

    /// Whether the interface is down, as of the last sync: until [`WaitFds::link`] tells of a change,
    /// nothing arrives, what is sent waits in the ring, and [`WaitFds::tx`] means nothing.
    fn is_link_down(&self) -> bool {
        false
    }

    /// Called before a sleep; the caller syncs and looks once more afterwards.
    fn before_sleep(&mut self, _interest: Interest) {}

    /// Called after a sleep, or when it was not needed.
    fn after_sleep(&mut self) {}

    /// The counters, shared with whoever reports them.
    fn counters(&self) -> &Arc<QueueCounters>;

    /// Fetches drop counts that the kernel keeps. A system call or two: once per report.
    fn update_stats(&mut self) {}

    /// Where programs can sync it in their own processes.
    fn lender(&mut self) -> Option<&mut dyn QueueLender> {
        None
    }

    /// Goes on where a program has left off that syncs it itself; the syncs do so, too.
    fn catch_up(&mut self) {}
}
