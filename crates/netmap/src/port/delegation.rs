//! Rings and queues that programs sync in their own processes, and what a program needs to do so.

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

/// A port whose rings or queues can be lent to programs.
pub trait DelegatingPort {
    /// Lends rings to the program that has bound them, to be synced in its own process.
    ///
    /// # Errors
    /// [`Errno::OPNOTSUPP`] where that cannot be, [`Errno::BUSY`] where somebody else has one.
    fn lend(
        &self,
        _: &[Range<usize>; 2],
        _: &Arc<KickDispatcher>,
    ) -> Result<(PipeDelegation, DelegationGuard), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Lends queues to the program that has bound them, as [`Self::lend`] does; `who` is its number.
    ///
    /// # Errors
    /// As [`Self::lend`].
    fn lend_queues(
        &self,
        _rings: &[Range<usize>; 2],
        _who: u32,
    ) -> Result<(Vec<QueueDelegation>, DelegationGuard), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// The program has synced in its own process and says that somebody at the other end sleeps.
    fn kick(&self) {}

    /// Somebody waits for news of ring `i` by its listeners, and looks once more after this.
    fn announce_sleep(&self, _dir: TxRx, _i: usize) {}

    /// Calls `then` while ring `i` is locked as by a sync.
    #[cfg(test)]
    fn while_locked(&self, _dir: TxRx, _i: usize, _then: &mut dyn FnMut()) {}
}

/// What a program needs to sync its rings itself.
#[derive(Debug)]
pub struct PipeDelegation {
    /// Its number among all who sync.
    pub client_id: u32,
    /// To be rung where a sync says that the host has to wake somebody.
    pub kick: OwnedFd,
    /// Whether it is to write the time of each rx sync to the ring in any case.
    pub writes_timestamps: bool,
    /// The rings.
    pub halves: Vec<DelegatedHalf>,
}

/// One ring of these.
#[derive(Debug)]
pub struct DelegatedHalf {
    /// Which way.
    pub dir: TxRx,
    /// Which one, as the port counts them.
    pub ring: usize,
    /// Where its direction lies, in bytes from the start of the user's file.
    pub layout: DirectionLayout,
    /// Rings when there is news for a program that said it sleeps.
    pub doorbell: OwnedFd,
    /// To be rung where a sync says that the program at the other end sleeps.
    pub peer_doorbell: OwnedFd,
}

/// What is lent, until it is dropped.
pub type DelegationGuard = Box<dyn Debug + Send + Sync>;

/// One queue of an interface for a program that syncs it itself.
#[derive(Debug)]
pub struct QueueDelegation {
    /// The kernel's end.
    pub socket: OwnedFd,
    /// What the program has to know; offsets count from the start of the port's region.
    pub layout: DelegatedQueueLayout,
}

/// Sockets that wait for their programs, by token: whose they are, too.
pub(crate) type PendingSockets = Arc<Mutex<HashMap<u64, (u32, Vec<OwnedFd>)>>>;
