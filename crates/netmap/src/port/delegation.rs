//! Rings and queues that programs sync in their own processes, and the data that a program needs
//! for that.

use std::collections::HashMap;
use std::fmt::Debug;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use slipring_abi::DelegatedQueueLayout;
use slipring_ring::DirectionLayout;

use crate::port::kicks::KickDispatcher;
use crate::types::shape::TxRx;

/// A port that can lend rings or queues to programs.
pub trait DelegatingPort {
    /// Lends rings to the program that has bound them; it then syncs them in its own process.
    ///
    /// # Errors
    /// [`Errno::OPNOTSUPP`] if that is impossible; [`Errno::BUSY`] if a ring is lent already;
    /// [`Errno::NOMEM`] or [`Errno::NFILE`] if memory or descriptors do not suffice.
    fn lend(
        &self,
        _: &[Range<usize>; 2],
        _: &Arc<KickDispatcher>,
    ) -> Result<(PipeDelegation, DelegationGuard), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Lends interface queues to the program that has bound them; it then syncs them in its own
    /// process.
    ///
    /// # Errors
    /// [`Errno::OPNOTSUPP`] if that is impossible; [`Errno::BUSY`] if a queue is lent already.
    fn lend_queues(
        &self,
        _rings: &[Range<usize>; 2],
        _who: u32,
    ) -> Result<(Vec<QueueDelegation>, DelegationGuard), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Handles a kick: wakes the sleepers at the other end. A program kicks after a sync in its own
    /// process, if a sleeper at the other end has announced itself.
    fn kick(&self) {}

    /// Announces that a thread may sleep until the listeners of ring `i` are woken. Before it
    /// sleeps, the thread checks the ring once more after this call.
    fn announce_sleep(&self, _dir: TxRx, _i: usize) {}

    /// Locks ring `i` as a sync does, and calls `then` while the lock is held.
    #[cfg(test)]
    fn while_locked(&self, _dir: TxRx, _i: usize, _then: &mut dyn FnMut()) {}
}

/// The data with which a program syncs its rings itself.
#[derive(Debug)]
pub struct PipeDelegation {
    /// The ID under which the program syncs; no other program or thread that syncs the pipe has it.
    pub client_id: u32,
    /// An eventfd of the daemon. The program signals it when a sync reports that the daemon has to
    /// wake a thread.
    pub kick: OwnedFd,
    /// Whether the program always writes the time of each rx sync to the ring.
    pub writes_timestamps: bool,
    /// The lent rings, with the data to sync each of them.
    pub halves: Vec<DelegatedHalf>,
}

/// The data with which a program syncs one lent ring.
#[derive(Debug)]
pub struct DelegatedHalf {
    /// Whether it is a tx or an rx ring.
    pub dir: TxRx,
    /// The ring's number in the port.
    pub ring: usize,
    /// Layout of the pipe direction to which the ring belongs. Its offsets are in bytes: from the
    /// start of the port's region as [`DelegatingPort::lend`] returns them, from the start of the
    /// user's file as [`crate::OpenHandle::lend`] returns them.
    pub layout: DirectionLayout,
    /// An eventfd that wakes this program after it has announced its sleep.
    pub doorbell: OwnedFd,
    /// An eventfd that the program signals when a sync reports that the program at the other end
    /// sleeps.
    pub peer_doorbell: OwnedFd,
}

/// Ends a delegation when it is dropped.
pub type DelegationGuard = Box<dyn Debug + Send + Sync>;

/// One queue of an interface, for a program that syncs it itself.
#[derive(Debug)]
pub struct QueueDelegation {
    /// The AF_XDP socket of the queue.
    pub socket: OwnedFd,
    /// The layout of the queue; offsets count from the start of the port's region.
    pub layout: DelegatedQueueLayout,
}

/// Sockets that a program may still fetch, by the token of the loan; each entry has the user ID of
/// that program.
pub(crate) type PendingSockets = Arc<Mutex<HashMap<u64, (u32, Vec<OwnedFd>)>>>;
