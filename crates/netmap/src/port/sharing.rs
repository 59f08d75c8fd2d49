//! This process's record of the pipe halves that programs may sync in their own processes.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use rustix::io::Errno;
use slipring_ring::{DirectionLayout, Doorbell, SleepAnnouncement, WakeSignals};

use crate::port::delegation::{DelegatedHalf, DelegationGuard, PipeDelegation};
use crate::port::kicks::KickHandler;
use crate::types::lock::lock;
use crate::types::shape::TxRx;

/// This process's state of one half of a pipe direction that programs may sync.
#[derive(Debug)]
pub(crate) struct SharedHalf {
    pub(crate) layout: DirectionLayout,
    pub(crate) signals: WakeSignals,
    /// Wakes the program to which the half is lent.
    pub(crate) doorbell: Doorbell,
    /// ID of the client to which the half is lent; 0 for none.
    holder: AtomicU32,
    /// The announcement of sleeping programs for which this process syncs this half.
    sleep_announcement: Mutex<SleepAnnouncement>,
}

impl SharedHalf {
    pub(crate) fn new(layout: DirectionLayout, signs: WakeSignals) -> Result<Self, Errno> {
        let bell = Doorbell::new().map_err(|_| Errno::NFILE)?;
        let announced = Mutex::new(SleepAnnouncement::already_announced());
        Ok(Self {
            layout,
            signals: signs,
            doorbell: bell,
            holder: AtomicU32::new(0),
            sleep_announcement: announced,
        })
    }

    /// Announces one more sleeping program for which this process syncs. Returns whether programs
    /// that announced their sleep earlier have to be woken now.
    pub(crate) fn announce_sleep(&self) -> bool {
        self.signals.announce_host_sleep(&mut lock(&self.sleep_announcement))
    }

    /// Returns whether sleeping programs must be woken; if so, forgets their announcements.
    pub(crate) fn take_wakeup(&self) -> bool {
        self.signals.take_host_wakeup(&mut lock(&self.sleep_announcement))
    }

    fn acquire(&self, client_id: u32) -> bool {
        let taken = self.holder.compare_exchange(0, client_id, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            self.signals.set_holder(client_id);
        }
        taken.is_ok()
    }

    fn release(&self, client_id: u32) {
        if self.holder.load(Ordering::Acquire) == client_id {
            self.signals.release_owner(client_id);
            self.signals.clear_guest_sleep();
            self.holder.store(0, Ordering::Release);
        }
    }
}

/// All halves of a shared pipe, by end and direction.
#[derive(Debug)]
pub(crate) struct SharedPipe {
    pub(crate) halves: [[Vec<SharedHalf>; 2]; 2],
    pub(crate) kick: Arc<Doorbell>,
    pub(crate) pipe: Weak<dyn KickHandler>,
}

impl SharedPipe {
    /// Lends rings of the end `role`.
    pub(crate) fn lend(
        self: &Arc<Self>,
        role: usize,
        rings: &[Range<usize>; 2],
        client_id: u32,
    ) -> Result<(PipeDelegation, DelegationGuard), Errno> {
        // If a ring cannot be lent, dropping the loan returns the rings that were lent before.
        let loan = PipeLoan { pipe: self.clone(), role, rings: rings.clone(), client_id };
        let mut halves = Vec::new();
        for dir in TxRx::BOTH {
            for ring in rings[dir as usize].clone() {
                let mine = &self.halves[role][dir as usize];
                let half =
                    mine.get(ring).filter(|half| half.acquire(client_id)).ok_or(Errno::BUSY)?;
                let peer = &self.halves[1 - role][dir.opposite() as usize][ring];
                halves.push(DelegatedHalf {
                    dir,
                    ring,
                    layout: half.layout,
                    doorbell: descriptor(&half.doorbell)?,
                    peer_doorbell: descriptor(&peer.doorbell)?,
                });
            }
        }
        let lent = PipeDelegation {
            client_id,
            kick: descriptor(&self.kick)?,
            writes_timestamps: true,
            halves,
        };
        Ok((lent, Box::new(loan)))
    }
}

fn descriptor(bell: &Doorbell) -> Result<OwnedFd, Errno> {
    bell.as_fd().try_clone_to_owned().map_err(|_| Errno::NFILE)
}

/// A loan of rings.
#[derive(Debug)]
struct PipeLoan {
    pipe: Arc<SharedPipe>,
    role: usize,
    rings: [Range<usize>; 2],
    client_id: u32,
}

impl Drop for PipeLoan {
    fn drop(&mut self) {
        for dir in TxRx::BOTH {
            let halves = &self.pipe.halves[self.role][dir as usize];
            for half in halves.get(self.rings[dir as usize].clone()).unwrap_or_default() {
                half.release(self.client_id);
            }
        }
        // The program may have been killed between a sync and the notification of its sleeping
        // peers, so all its peers are woken.
        if let Some(pipe) = self.pipe.pipe.upgrade() {
            pipe.handle_client_exit();
        }
    }
}
