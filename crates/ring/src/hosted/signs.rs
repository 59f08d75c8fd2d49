//! What is said beside syncs: who sleeps, and who may sync.

use super::{Shared, Side};
use crate::bell::{self, Announced};
use crate::mem::Dir;
use crate::protocol::Word;
use crate::words::HOST;

/// What a half's syncers say to each other, and to those of the other half, beside their syncs.
#[derive(Debug, Clone)]
pub struct Signs {
    pub(super) direction: Shared,
    pub(super) dir: Dir,
}

impl Signs {
    /// Signs are given away when the direction is shared.
    fn side(&self) -> &Side {
        self.direction.0.shared_side(self.dir).expect("a direction that is shared")
    }

    /// The host says that it wants to be told ([`Moved::host`](super::Moved::host)) when there is news for this half,
    /// for one more who sleeps, and must look once more afterwards. Whether it has to wake those who
    /// slept before: programs told of news for them, of which the host has not heard yet.
    pub fn host_sleeps(&self, announced: &mut Announced) -> bool {
        announced.add(&self.side().host_sleeps)
    }

    /// Whether programs told of news for those for whom the host said that they sleep.
    pub fn host_is_called(&self, announced: &mut Announced) -> bool {
        announced.is_taken_up(&self.side().host_sleeps)
    }

    /// The program that syncs this half says that it is about to sleep until there is news
    /// ([`Moved::guest`](super::Moved::guest)). It must sync and look once more before it does.
    pub fn guest_sleeps(&self) {
        bell::announce(&self.side().guest_sleeps);
    }

    /// Whether it has said so; that is then taken back.
    #[must_use]
    pub fn take_guest_sleeps(&self) -> bool {
        bell::must_ring(&self.side().guest_sleeps)
    }

    /// It is awake.
    pub fn guest_is_awake(&self) {
        self.side().guest_sleeps.release(0);
    }

    /// Lets nobody but the host sync this half, or others as well. Who has begun may finish.
    pub fn keep_to_host(&self, keep: bool) {
        self.side().by_host.release(keep.into());
    }

    /// Whether a program is syncing it.
    #[must_use]
    pub fn is_held_by_guest(&self) -> bool {
        !matches!(self.side().owner.acquire(), 0 | HOST)
    }

    /// Says whom the half is lent to.
    pub fn lend_to(&self, who: u32) {
        self.side().holder.release(who);
    }

    /// Takes the half out of the hands of a program that is gone, wherever it was.
    pub fn free_of(&self, who: u32) {
        self.side().holder.release(0);
        self.side().free_of(who);
    }
}
