//! Where a direction is in memory.

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

/// Where a direction is, for resuming it or syncing it in another process: offsets of both rings in
/// their region, offset of the words in theirs (the host's own, or the same), and the number of
/// slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectionLayout {
    /// The words.
    pub words: u64,
    /// The sender's ring.
    pub tx: u64,
    /// The receiver's ring.
    pub rx: u64,
    /// Slots of either.
    pub num_slots: u32,
}

impl DirectionLayout {
    /// Resumes a direction whose process ended, possibly in the middle of a sync.
    ///
    /// A sync publishes its word after all writes that the word covers, and repeating those writes
    /// is harmless. So the words say how far both ends are, and the receiver's tail says how much
    /// its program has seen.
    ///
    /// # Errors
    /// [`RegionError`] where no such direction can lie.
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
        // The program may have written any value; `PipeReceiver::resume` limits it to what was
        // sent.
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
