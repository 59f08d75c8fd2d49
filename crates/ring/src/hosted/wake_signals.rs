//! What is said beside syncs: who sleeps, and who may sync.

use super::{HalfWords, HostedStorage};
use crate::doorbell::{self, SleepAnnouncement};
use crate::mem::RingDir;
use crate::protocol::SharedWord;
use crate::sync_words::HOST_OWNER;

/// What a half's syncers say to each other, and to those of the other half, beside their syncs.
#[derive(Debug, Clone)]
pub struct WakeSignals {
    pub(super) direction: HostedStorage,
    pub(super) dir: RingDir,
}

impl WakeSignals {
    /// Signs are given away when the direction is shared.
    fn half_words(&self) -> &HalfWords {
        self.direction.0.shared_half(self.dir).expect("a direction that is shared")
    }

    /// The host says that it wants to be told ([`Moved::host`](super::Moved::host)) when there is news for this half,
    /// for one more who sleeps, and must look once more afterwards. Whether it has to wake those who
    /// slept before: programs told of news for them, of which the host has not heard yet.
    pub fn announce_host_sleep(&self, announced: &mut SleepAnnouncement) -> bool {
        announced.add(&self.half_words().host_sleeps)
    }

    /// Whether programs told of news for those for whom the host said that they sleep.
    pub fn take_host_wakeup(&self, announced: &mut SleepAnnouncement) -> bool {
        announced.take_if_consumed(&self.half_words().host_sleeps)
    }

    /// The program that syncs this half says that it is about to sleep until there is news
    /// ([`Moved::guest`](super::Moved::guest)). It must sync and look once more before it does.
    pub fn announce_guest_sleep(&self) {
        doorbell::announce(&self.half_words().guest_sleeps);
    }

    /// Whether it has said so; that is then taken back.
    #[must_use]
    pub fn take_guest_sleep(&self) -> bool {
        doorbell::must_ring(&self.half_words().guest_sleeps)
    }

    /// It is awake.
    pub fn clear_guest_sleep(&self) {
        self.half_words().guest_sleeps.release(0);
    }

    /// Lets nobody but the host sync this half, or others as well. Who has begun may finish.
    pub fn set_host_only(&self, keep: bool) {
        self.half_words().by_host.release(keep.into());
    }

    /// Whether a program is syncing it.
    #[must_use]
    pub fn is_held_by_guest(&self) -> bool {
        !matches!(self.half_words().owner.acquire(), 0 | HOST_OWNER)
    }

    /// Says whom the half is lent to.
    pub fn set_holder(&self, who: u32) {
        self.half_words().holder.release(who);
    }

    /// Takes the half out of the hands of a program that is gone, wherever it was.
    pub fn release_owner(&self, who: u32) {
        self.half_words().holder.release(0);
        self.half_words().release_owner(who);
    }
}
