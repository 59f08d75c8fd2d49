//! Offsets of a direction's rings and words, and resuming a direction.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use super::{HostedDirection, HostedRx, HostedStorage, HostedTx};
use crate::index::prev;
use crate::kern::KernRing;
use crate::mem::{RingMem, RingOwnership};
use crate::persistent_words::PersistentWords;
use crate::protocol::{DirectionStorage, PipeReceiver, PipeSender, SharedWord};
use crate::region::{Region, RegionError};
use crate::sync_words::HOST_OWNER;

/// The layout of a direction, with which a process resumes it, or syncs it in place of the host.
/// Ring offsets count from the start of the rings' region. The offset of the words counts from the
/// start of the region that contains the words: the host's private region in a layout from
/// [`HostedTx::layout`], the rings' region in a layout from [`share`](super::share).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectionLayout {
    /// Offset of the words in bytes.
    pub words: u64,
    /// Offset of the sender's tx ring in bytes.
    pub tx: u64,
    /// Offset of the receiver's rx ring in bytes.
    pub rx: u64,
    /// Number of slots of each ring.
    pub num_slots: u32,
}

impl DirectionLayout {
    /// Resumes a direction whose process ended, possibly in the middle of a sync.
    ///
    /// A sync stores its word (`sent` or `freed`) after all slots that the word covers, and writing
    /// those slots again is harmless. So the words say how far each end has synced, and the
    /// receiver's tail says how many frames its program has seen.
    ///
    /// # Errors
    /// [`RegionError`] if these offsets cannot be those of a direction.
    pub fn resume(
        &self,
        region: &Arc<Region>,
        words: &Arc<Region>,
    ) -> Result<(HostedTx, HostedRx), RegionError> {
        let own = Some(PersistentWords::resume(words, self.words)?);
        let tx = RingMem::resume(region, self.tx, self.num_slots, RingOwnership::BytesAndBufs)?;
        let rx = RingMem::resume(region, self.rx, self.num_slots, RingOwnership::Bytes)?;
        let shared = HostedStorage(Arc::new(HostedDirection {
            tx,
            rx,
            host_words: own,
            shared: OnceLock::new(),
        }));
        let wrong = |_| RegionError::NotARegion("a pipe's words are no state that it reaches");
        let sender = PipeSender::new(shared.clone()).map_err(wrong)?;
        // The program may have written any value; `PipeReceiver::resume` ignores it if it is beyond
        // the sent slots.
        let rx_tail = shared.0.rx.tail().load(Ordering::Acquire);
        let receiver = PipeReceiver::resume(shared.clone(), rx_tail).map_err(wrong)?;
        let tail = prev(shared.freed().acquire(), self.num_slots);
        let tx = KernRing::resumed(shared.0.tx.clone(), sender.sent(), tail);
        let rx = KernRing::resumed(shared.0.rx.clone(), receiver.freed(), receiver.sent());
        Ok((
            HostedTx { kern: tx, sender, direction: shared.clone(), client_id: HOST_OWNER },
            HostedRx { kern: rx, receiver, direction: shared, client_id: HOST_OWNER },
        ))
    }
}
