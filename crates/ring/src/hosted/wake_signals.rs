//! Sleep announcements and control words of a shared half, outside its syncs.

use super::{HalfWords, HostedStorage};
use crate::doorbell::{self, SleepAnnouncement};
use crate::mem::RingDir;
use crate::protocol::SharedWord;
use crate::sync_words::HOST_OWNER;

/// The control words of one half. Through them, the parties that sync this half and the other half
/// of the direction signal each other.
#[derive(Debug, Clone)]
pub struct WakeSignals {
    pub(super) direction: HostedStorage,
    pub(super) dir: RingDir,
}

impl WakeSignals {
    /// Returns the control words of the half. Callers use wake signals only after the direction was
    /// shared.
    fn half_words(&self) -> &HalfWords {
        self.direction.0.shared_half(self.dir).expect("a direction that is shared")
    }

    /// Announces that the host wants to be woken
    /// ([`SyncReport::wake_host`](super::SyncReport::wake_host)) for one more sleeper of this half.
    /// The caller must check for work once more. Returns true if a program has cleared the
    /// announcement of the earlier sleepers, which the host had not noticed yet. The caller must
    /// then first wake them.
    pub fn announce_host_sleep(&self, announced: &mut SleepAnnouncement) -> bool {
        announced.add(&self.half_words().host_sleeps)
    }

    /// Returns whether a program has cleared the host's announcement, so that the host's sleepers
    /// must be woken.
    pub fn take_host_wakeup(&self, announced: &mut SleepAnnouncement) -> bool {
        announced.take_if_consumed(&self.half_words().host_sleeps)
    }

    /// Announces that the program that syncs this half is about to sleep until there is work
    /// ([`SyncReport::wake_guest`](super::SyncReport::wake_guest)). It must sync and check once
    /// more before it sleeps.
    pub fn announce_guest_sleep(&self) {
        doorbell::announce(&self.half_words().guest_sleeps);
    }

    /// Returns whether the program has announced its sleep, and clears the announcement.
    #[must_use]
    pub fn take_guest_sleep(&self) -> bool {
        doorbell::must_ring(&self.half_words().guest_sleeps)
    }

    /// Clears the announcement: the program is awake.
    pub fn clear_guest_sleep(&self) {
        self.half_words().guest_sleeps.release(0);
    }

    /// Sets whether only the host may sync this half. A sync in progress may finish.
    pub fn set_host_only(&self, keep: bool) {
        self.half_words().by_host.release(keep.into());
    }

    /// Returns whether a program is syncing this half at this moment.
    #[must_use]
    pub fn is_held_by_guest(&self) -> bool {
        !matches!(self.half_words().owner.acquire(), 0 | HOST_OWNER)
    }

    /// Sets the client ID of the program that may sync this half; 0 for none.
    pub fn set_holder(&self, client_id: u32) {
        self.half_words().holder.release(client_id);
    }

    /// Takes the half back from a program that has ended, possibly in the middle of a sync.
    pub fn release_owner(&self, client_id: u32) {
        self.half_words().holder.release(0);
        self.half_words().release_owner(client_id);
    }
}
