//! One direction of a pipe whose two ends belong to other processes.
//!
//! ```text
//!   program A writes        HostedTx::sync   -- sent -->  HostedRx::sync    program B reads
//!   A's tx ring (region)    (host's thread)  <- freed --  (host's thread)   B's rx ring (region)
//! ```
//!
//! At first the host syncs both ends, and the words that the two halves share are in memory of the
//! host, so no program can forge them. [`share`] moves the words into the region. From then on a
//! program may sync its half in its own process, by [`HostedTx::attach`] or [`HostedRx::attach`].
//! The host may still sync either half, for programs that cannot do so themselves. The `owner` word
//! serializes the syncs of a half, and other words hold all state that the next owner needs.
//!
//! The protocol is that of [`crate::protocol`]; see `pipe.rs` for a pipe without a host, whose ends
//! sync themselves.

mod layout;
pub(crate) mod ownership;
mod wake_signals;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use crate::index::SlotIdx;
use crate::kern::{KernRing, RingHalves};
use crate::mem::{RingDir, RingMem};
use crate::persistent_words::PersistentWords;
use crate::pipe::return_changed;
use crate::protocol::{DirectionStorage, PipeReceiver, PipeSender, SharedWord};
use crate::region::{Region, RegionError};
use crate::sync_words::{HOST_OWNER, HalfWords, MappedSyncWords};

pub use layout::DirectionLayout;
pub use ownership::{HostedSyncError, SyncReport};
use ownership::{acquire, release, report_for_kick, sync_report};
pub use wake_signals::WakeSignals;

/// The memory of one direction.
#[derive(Debug)]
struct HostedDirection {
    tx: RingMem,
    rx: RingMem,
    /// The words `sent` and `freed`, in separate cache lines. They are private to the host until
    /// [`share`] moves them. `None` in a process that is not the host.
    host_words: Option<PersistentWords<2>>,
    shared: OnceLock<MappedSyncWords>,
}

impl HostedDirection {
    #[inline(always)]
    fn position(&self, dir: RingDir) -> &AtomicU64 {
        match (self.shared.get(), &self.host_words) {
            (Some(words), _) => &words.get().half(dir).at,
            (None, Some(own)) => own.word(dir as u64, 0),
            (None, None) => unreachable!("a direction has words of either kind"),
        }
    }

    /// Returns the control words of one half; `None` while only the host can sync the direction.
    #[inline(always)]
    fn shared_half(&self, dir: RingDir) -> Option<&HalfWords> {
        self.shared.get().map(|words| words.get().half(dir))
    }
}

impl Drop for HostedDirection {
    /// Copies the slots in flight back to the tx ring: the receiver may have exchanged their
    /// buffers, and the buffers in the tx slots are freed next.
    fn drop(&mut self) {
        let n = self.tx.num_slots();
        let (freed, sent) =
            (self.position(RingDir::Rx).acquire(), self.position(RingDir::Tx).acquire());
        // If the words were shared, other processes may have written any value to them, so they are
        // checked.
        if self.host_words.is_some() && freed < n && sent < n {
            return_changed(&self.rx, &self.tx, freed, sent);
        }
    }
}

#[derive(Debug, Clone)]
struct HostedStorage(Arc<HostedDirection>);

impl DirectionStorage for HostedStorage {
    type W = AtomicU64;

    #[inline(always)]
    fn num_slots(&self) -> u32 {
        self.0.tx.num_slots()
    }

    #[inline(always)]
    fn sent(&self) -> &Self::W {
        self.0.position(RingDir::Tx)
    }

    #[inline(always)]
    fn freed(&self) -> &Self::W {
        self.0.position(RingDir::Rx)
    }

    #[inline(always)]
    fn publish_slots(&self, from: SlotIdx, to: SlotIdx) {
        for span in crate::index::spans(from, to, self.0.tx.num_slots()) {
            for (rx, tx) in self.0.rx.slots(span).iter().zip(self.0.tx.slots(span)) {
                rx.copy_from(tx);
            }
        }
    }

    #[inline(always)]
    fn return_slots(&self, from: SlotIdx, to: SlotIdx) {
        return_changed(&self.0.rx, &self.0.tx, from, to);
    }
}

/// Lays out one direction of a pipe in `region`: a tx and an rx ring of `num_slots` slots, where
/// each tx slot has a buffer. The words `sent` and `freed` are in the region `words`, which only
/// the host maps.
///
/// # Errors
/// [`RegionError`] if one of the regions does not have enough free memory.
pub fn hosted_direction(
    region: &Arc<Region>,
    words: &Arc<Region>,
    ringid: u16,
    num_slots: u32,
) -> Result<(HostedTx, HostedRx), RegionError> {
    let own = Some(PersistentWords::new(words)?);
    let bufs = region.alloc_bufs(num_slots)?;
    let tx = RingMem::create(region, RingDir::Tx, ringid, num_slots, &bufs)
        .inspect_err(|_| region.put_back(bufs.iter().copied()))?;
    let rx = RingMem::create(region, RingDir::Rx, ringid, num_slots, &[])?;
    let direction = HostedDirection { tx, rx, host_words: own, shared: OnceLock::new() };
    let shared = HostedStorage(Arc::new(direction));
    let fresh = "two words that nobody has written";
    Ok((
        HostedTx {
            kern: RingHalves::<crate::Tx>::over(shared.0.tx.clone()).kern,
            sender: PipeSender::new(shared.clone()).expect(fresh),
            direction: shared.clone(),
            client_id: HOST_OWNER,
        },
        HostedRx {
            kern: RingHalves::<crate::Rx>::over(shared.0.rx.clone()).kern,
            receiver: PipeReceiver::new(shared.clone()).expect(fresh),
            direction: shared,
            client_id: HOST_OWNER,
        },
    ))
}

/// Moves the words of a direction into the region of its rings, where other processes can access
/// them, unless an earlier call did so. The words stay there as long as the direction exists. In
/// both halves, `host_sleeps` is set at first
/// ([`SleepAnnouncement::already_announced`](crate::SleepAnnouncement::already_announced)).
///
/// # Errors
/// [`RegionError::OutOfRingSpace`] if the region has no space for the words.
///
/// # Panics
/// If `tx` and `rx` are not the halves of one direction.
pub fn share(tx: &mut HostedTx, rx: &mut HostedRx) -> Result<DirectionLayout, RegionError> {
    let direction = &tx.direction.0;
    assert!(Arc::ptr_eq(direction, &rx.direction.0), "two halves of one direction");
    let words = match direction.shared.get() {
        Some(words) => words,
        None => {
            let words = MappedSyncWords::create(direction.tx.region())?;
            for dir in [RingDir::Tx, RingDir::Rx] {
                words.get().half(dir).at.release(direction.position(dir).acquire());
            }
            words.get().tx.tail.release(tx.kern.hwtail());
            words.get().rx.tail.release(rx.kern.hwtail());
            // Programs for which the host syncs may have been asleep since before these words
            // existed, so both words are set.
            words.get().tx.host_sleeps.release(1);
            words.get().rx.host_sleeps.release(1);
            // Both halves are borrowed mutably, so no other thread is in this function.
            direction.shared.get_or_init(|| words)
        }
    };
    Ok(DirectionLayout {
        words: words.offset(),
        tx: direction.tx.offset(),
        rx: direction.rx.offset(),
        num_slots: direction.tx.num_slots(),
    })
}

/// Attaches to a direction that another process shared; `region` is a mapping of that process's
/// memory.
fn attach_direction(
    region: &Arc<Region>,
    layout: DirectionLayout,
) -> Result<HostedStorage, RegionError> {
    let nonsense = || RegionError::NotARegion("no pipe lies there");
    let ring = |at| RingMem::foreign(region, at, layout.num_slots).ok_or_else(nonsense);
    let words = MappedSyncWords::attach(region, layout.words).ok_or_else(nonsense)?;
    let (tx, rx) = (ring(layout.tx)?, ring(layout.rx)?);
    let direction = HostedDirection { tx, rx, host_words: None, shared: OnceLock::from(words) };
    Ok(HostedStorage(Arc::new(direction)))
}

macro_rules! half {
    ($(#[$doc:meta])* $Half:ident, $party:ident: $Party:ident, $mine:expr, $other:expr, $seen:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $Half {
            kern: KernRing,
            $party: $Party<HostedStorage>,
            direction: HostedStorage,
            client_id: u32,
        }

        impl $Half {
            /// Attaches to one half of a direction that another process shared, for the program
            /// with the number `client_id`.
            ///
            /// # Errors
            /// [`RegionError::NotARegion`] if these offsets cannot be those of a direction, or the
            /// words there have impossible values.
            pub fn attach(
                region: &Arc<Region>,
                layout: DirectionLayout,
                client_id: u32,
            ) -> Result<Self, RegionError> {
                let shared = attach_direction(region, layout)?;
                let mem = if $mine == RingDir::Tx { &shared.0.tx } else { &shared.0.rx };
                let kern = KernRing::resumed(mem.clone(), 0, 0);
                let spoiled = |_| RegionError::NotARegion("the pipe's words are spoiled");
                let $party = $Party::new(shared.clone()).map_err(spoiled)?;
                let mut half = Self { kern, $party, direction: shared, client_id };
                half.catch_up().map_err(|_| RegionError::NotARegion("no pipe lies there"))?;
                Ok(half)
            }

            /// Moves as many slots as possible. The sending half sends frames, and takes back the
            /// slots that the receiver has returned. The receiving half returns slots to the
            /// sender, and takes over new frames.
            ///
            /// # Errors
            /// [`HostedSyncError`]; no slot was moved.
            #[inline]
            pub fn sync(&mut self) -> Result<SyncReport, HostedSyncError> {
                self.sync_shown(|_, _, _| {})
            }

            /// Like [`Self::sync`], but calls `see` with the slots of the moved frames: the first,
            /// and one past the last. On the sending half, `see` is called before the receiver gets
            /// the frames; on the receiving half, before its program gets them.
            ///
            /// # Errors
            /// Same as [`Self::sync`].
            #[inline]
            pub fn sync_shown(
                &mut self,
                see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
            ) -> Result<SyncReport, HostedSyncError> {
                self.sync_by(|half| half.sync_held(see), sync_report)
            }

            /// Syncs by `sync`. If other processes may sync the half too, acquires it first and
            /// releases it afterwards.
            #[inline(always)]
            fn sync_by(
                &mut self,
                sync: impl FnOnce(&mut Self) -> Result<u32, HostedSyncError>,
                report: impl FnOnce(u32, &HalfWords, u32) -> SyncReport,
            ) -> Result<SyncReport, HostedSyncError> {
                let Some(side) = self.direction.0.shared_half($mine) else {
                    return Ok(sync(self)?.into());
                };
                acquire(&side.owner, &side.by_host, self.client_id)?;
                let slots = self.catch_up().and_then(|()| sync(self));
                let side = |dir| self.direction.0.shared_half(dir).expect("it stays shared");
                release(&side($mine).owner);
                Ok(report(slots?, side($other), self.client_id))
            }

            /// Like [`Self::sync`], for a program without doorbells: it wakes all sleepers by
            /// kicking the host ([`SyncReport::wake_host`]). If the program's indices are
            /// impossible, nothing is done, and the host's next sync handles them.
            ///
            /// # Errors
            /// [`HostedSyncError`]; no slot was moved. [`HostedSyncError::HostOnly`] if the indices
            /// are impossible, or the half is no longer lent to this program.
            #[inline]
            pub fn sync_or_leave(&mut self) -> Result<SyncReport, HostedSyncError> {
                if !self.is_lent() {
                    return Err(HostedSyncError::HostOnly);
                }
                self.sync_by(
                    |half| match half.kern.peek_released() {
                        Some(head) => half.move_to(head),
                        None => Err(HostedSyncError::HostOnly),
                    },
                    |slots, other, _| report_for_kick(slots, other),
                )
            }

            /// Returns whether the half is still lent to this program.
            #[must_use]
            #[inline]
            pub fn is_lent(&self) -> bool {
                let side = self.direction.0.shared_half($mine);
                // Acquire: pairs with the release in `WakeSignals::set_holder`.
                side.is_some_and(|side| side.holder.acquire() == self.client_id)
            }

            /// For a program whose half the host syncs: calls `see` with the slots that the host
            /// has synced since the last call.
            ///
            /// # Errors
            /// [`HostedSyncError::Corrupt`] if the shared words have impossible values.
            pub fn synced_by_host(
                &mut self,
                see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
            ) -> Result<(), HostedSyncError> {
                let before = self.kern.$seen();
                self.catch_up()?;
                see(&self.kern, before, self.kern.$seen());
                Ok(())
            }

            /// Loads the state from the words if another party has synced the half since this
            /// party's last sync.
            #[inline(always)]
            fn catch_up(&mut self) -> Result<(), HostedSyncError> {
                let Some(side) = self.direction.0.shared_half($mine) else { return Ok(()) };
                let (at, tail) = (side.at.acquire(), side.tail.acquire());
                if (at, tail) == (self.$party.position(), self.kern.hwtail()) {
                    return Ok(());
                }
                self.$party.resync().map_err(|_| HostedSyncError::Corrupt)?;
                let resumed = self.kern.resync(at, tail);
                if resumed { Ok(()) } else { Err(HostedSyncError::Corrupt) }
            }

            /// Publishes a tail: first in the half's word, then in the ring. So if the two differ,
            /// the word is right.
            #[inline(always)]
            fn publish(&mut self, tail: SlotIdx) {
                if let Some(side) = self.direction.0.shared_half($mine) {
                    side.tail.release(tail);
                }
                self.kern.set_tail(tail);
            }

            /// The driver's view of the ring.
            #[must_use]
            pub fn kern(&self) -> &KernRing {
                &self.kern
            }

            /// Returns access to the sleep and ownership words of this half.
            ///
            /// # Panics
            /// Methods of the result panic if the direction is not shared.
            #[must_use]
            pub fn signs(&self) -> WakeSignals {
                WakeSignals { direction: self.direction.clone(), dir: $mine }
            }
        }
    };
}

half! {
    /// The sending half of a direction, as the host or a program syncs it.
    HostedTx, sender: PipeSender, RingDir::Tx, RingDir::Rx, hwcur
}

half! {
    /// The receiving half of a direction, as the host or a program syncs it.
    HostedRx, receiver: PipeReceiver, RingDir::Rx, RingDir::Tx, hwtail
}

impl HostedTx {
    /// Returns the offsets of the direction's rings and of the host's private words, for
    /// [`DirectionLayout::resume`].
    ///
    /// # Panics
    /// If this process is a program: only the host has private words.
    #[must_use]
    pub fn layout(&self) -> DirectionLayout {
        let HostedDirection { tx, rx, host_words: own, .. } = &*self.direction.0;
        let words = own.as_ref().expect("the host's").offset();
        DirectionLayout { tx: tx.offset(), rx: rx.offset(), words, num_slots: tx.num_slots() }
    }

    /// Sends the whole packets that the program queued, and takes back the slots that the receiver
    /// has returned.
    #[inline(always)]
    fn sync_held(
        &mut self,
        see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<u32, HostedSyncError> {
        let head = self.kern.released()?;
        self.send_to(head, see)
    }

    #[inline(always)]
    fn move_to(&mut self, head: SlotIdx) -> Result<u32, HostedSyncError> {
        self.send_to(head, |_, _, _| {})
    }

    #[inline(always)]
    fn send_to(
        &mut self,
        head: SlotIdx,
        see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<u32, HostedSyncError> {
        let head = self.kern.whole_packets(head);
        let sent = self.kern.pending(head);
        see(&self.kern, self.kern.hwcur(), head);
        let tail = self.sender.sync(head).map_err(|_| HostedSyncError::Corrupt)?;
        self.kern.complete_to(head);
        self.publish(tail);
        Ok(sent)
    }
}

impl HostedRx {
    /// Like [`Self::sync`], but calls `see` with the slots that the program has released. The
    /// sender gets these slots back after that call.
    ///
    /// # Errors
    /// Same as for [`Self::sync`].
    #[inline]
    pub fn sync_released(
        &mut self,
        see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<SyncReport, HostedSyncError> {
        self.sync_by(|half| half.sync_both(see, |_, _, _| {}), sync_report)
    }

    #[inline(always)]
    fn sync_held(
        &mut self,
        see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<u32, HostedSyncError> {
        self.sync_both(|_, _, _| {}, see)
    }

    /// Returns to the sender the slots that the program has released, and takes over new frames.
    #[inline(always)]
    fn sync_both(
        &mut self,
        released: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
        see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<u32, HostedSyncError> {
        let head = self.kern.released()?;
        self.receive_to(head, released, see)
    }

    #[inline(always)]
    fn move_to(&mut self, head: SlotIdx) -> Result<u32, HostedSyncError> {
        self.receive_to(head, |_, _, _| {}, |_, _, _| {})
    }

    #[inline(always)]
    fn receive_to(
        &mut self,
        head: SlotIdx,
        released: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
        see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<u32, HostedSyncError> {
        let freed = self.kern.pending(head);
        released(&self.kern, self.kern.hwcur(), head);
        let tail = self.receiver.sync(head).map_err(|_| HostedSyncError::Corrupt)?;
        see(&self.kern, self.kern.hwtail(), tail);
        self.kern.complete_to(head);
        self.publish(tail);
        Ok(freed)
    }
}

#[cfg(test)]
mod tests;
