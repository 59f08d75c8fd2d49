//! A pipe: a tx ring and an rx ring for each direction in one region, and the words through which
//! the two ends synchronise.
//!
//! ```text
//!      end a                                    end b
//!   tx ring --- slots copied by a's tx sync ---> rx ring      `PipeWords` of direction a to b
//!           <-- slots back by b's rx sync ------
//!   rx ring <--------------------------------- tx ring        `PipeWords` of direction b to a
//! ```
//!
//! Buffers belong to the tx rings: a sent slot is copied, with its buffer index, to the slot of the
//! same number in the peer's rx ring. When the peer releases the slot, it is copied back if the
//! peer exchanged its buffer (`NS_BUF_CHANGED`). The frame itself never moves. Both ends may be in
//! one thread, two threads or two processes.

use std::io;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::app::{RxRing, TxRing};
use crate::doorbell::{self, Doorbell};
use crate::index::{SlotIdx, spans};
use crate::kern::{KernRing, Reinit, RingHalves};
use crate::mem::{RingDir, RingMem, SlotFlags};
use crate::protocol::{DirectionStorage, PeerFault, PipeReceiver, PipeSender, SharedWord};
use crate::region::{Region, RegionError};

/// The shared words of one direction; one cache line pair per writer.
#[repr(C, align(128))]
#[derive(Debug, Default)]
struct PipeWords {
    /// First slot not yet sent. Written by the sender.
    sent: AtomicU32,
    /// Not 0 while the sender sleeps until slots are free. Set by the sender.
    sender_sleeps: AtomicU32,
    _other_line: [AtomicU32; 30],
    /// First slot not yet returned. Written by the receiver.
    freed: AtomicU32,
    /// Not 0 while the receiver sleeps until frames arrive. Set by the receiver.
    receiver_sleeps: AtomicU32,
    _pad: [AtomicU32; 30],
}
const _: () = assert!(offset_of!(PipeWords, freed) == 128 && size_of::<PipeWords>() == 256);

/// A pipe's record in the ring area, by which another process finds the pipe.
#[repr(C)]
#[derive(Debug)]
struct PipeRecord {
    words: [PipeWords; 2],
    num_slots: AtomicU32,
    /// Ring offsets in units of 128 bytes: the tx and rx ring of the direction a to b, then those
    /// of b to a.
    rings: [AtomicU32; 4],
}

/// The words and rings of one direction, as the protocol accesses them.
#[derive(Debug, Clone)]
struct PipeStorage {
    tx: RingMem,
    rx: RingMem,
    words: NonNull<PipeWords>,
    link: Arc<PipeDirection>,
}

// SAFETY: `words` points into a region that `link` keeps alive, and consists of atomics.
unsafe impl Send for PipeStorage {}

impl PipeStorage {
    fn over(link: PipeDirection) -> Self {
        let link = Arc::new(link);
        let words = NonNull::from(link.words());
        Self {
            tx: link.tx.with_keep_alive(link.clone()),
            rx: link.rx.with_keep_alive(link.clone()),
            words,
            link,
        }
    }

    #[inline(always)]
    fn words(&self) -> &PipeWords {
        // SAFETY:
        // - Alive, in bounds and aligned: `link` holds the 128-aligned bytes.
        // - Shared: every field is an atomic.
        unsafe { self.words.as_ref() }
    }

    /// Returns whether both words are 0, as they are before the first frame.
    fn is_fresh(&self) -> bool {
        self.sent().acquire() == 0 && self.freed().acquire() == 0
    }
}

/// The memory of one direction; freed when both halves of both rings are dropped.
#[derive(Debug)]
struct PipeDirection {
    tx: RingMem,
    rx: RingMem,
    record: Arc<RecordBytes>,
    which: usize,
}

impl PipeDirection {
    fn words(&self) -> &PipeWords {
        &self.record.record().words[self.which]
    }
}

impl Drop for PipeDirection {
    /// Copies the slots in flight back to the tx ring: the receiver may have exchanged their
    /// buffers, and the buffers in the tx slots are freed next.
    fn drop(&mut self) {
        let n = self.tx.num_slots();
        let (freed, sent) = (self.words().freed.acquire(), self.words().sent.acquire());
        if self.record.owned && freed < n && sent < n {
            return_changed(&self.rx, &self.tx, freed, sent);
        }
    }
}

impl DirectionStorage for PipeStorage {
    type W = AtomicU32;

    #[inline(always)]
    fn num_slots(&self) -> u32 {
        self.tx.num_slots()
    }

    #[inline(always)]
    fn sent(&self) -> &AtomicU32 {
        &self.words().sent
    }

    #[inline(always)]
    fn freed(&self) -> &AtomicU32 {
        &self.words().freed
    }

    #[inline(always)]
    fn publish_slots(&self, from: SlotIdx, to: SlotIdx) {
        for span in spans(from, to, self.tx.num_slots()) {
            for (rx, tx) in self.rx.slots(span).iter().zip(self.tx.slots(span)) {
                rx.copy_from(tx);
            }
        }
    }

    #[inline(always)]
    fn return_slots(&self, from: SlotIdx, to: SlotIdx) {
        return_changed(&self.rx, &self.tx, from, to);
    }
}

/// Copies slots of the range `from..to` from `rx` back to `tx`, but only the slots whose buffers
/// the receiver has exchanged. All other slots of `tx` already have the right content. Writing them
/// would needlessly move their cache lines to the receiver's core and back.
#[inline(always)]
pub(crate) fn return_changed(rx: &RingMem, tx: &RingMem, from: SlotIdx, to: SlotIdx) {
    for span in spans(from, to, rx.num_slots()) {
        for (rx, tx) in rx.slots(span).iter().zip(tx.slots(span)) {
            if rx.get().flags.has(SlotFlags::BUF_CHANGED) {
                tx.copy_from(rx);
            }
        }
    }
}

/// The bytes of the pipe's record. If this process allocated them (`owned`), they are freed when
/// its last end of the pipe is dropped.
#[derive(Debug)]
struct RecordBytes {
    region: Arc<Region>,
    offset: u64,
    owned: bool,
}

const RECORD_LEN: u64 = size_of::<PipeRecord>() as u64;

impl RecordBytes {
    fn record(&self) -> &PipeRecord {
        // SAFETY:
        // - In bounds: the RECORD_LEN bytes at `offset` were allocated in the ring area, or
        //   checked.
        let at = unsafe { self.region.base().add(self.offset as usize) };
        // SAFETY: 128-aligned by the arena or `in_ring_area`; all fields in use are atomics.
        unsafe { at.cast::<PipeRecord>().as_ref() }
    }
}

impl Drop for RecordBytes {
    fn drop(&mut self) {
        if self.owned {
            self.region.release_ring_bytes(self.offset, RECORD_LEN);
        }
    }
}

/// Both ends of a new pipe.
#[derive(Debug)]
pub struct PipePair {
    /// The master end (`{`).
    pub a: PipeEnd,
    /// The slave end (`}`).
    pub b: PipeEnd,
}

impl PipePair {
    /// Lays out a pipe of `num_slots` slots each way, every tx slot with a buffer.
    ///
    /// # Errors
    /// [`RegionError`] if the region does not have enough free memory; [`RegionError::Memory`] with
    /// an [`io::Error`] when the process is out of descriptors.
    pub fn create(region: &Arc<Region>, ringid: u16, num_slots: u32) -> Result<Self, RegionError> {
        let offset = region.alloc_ring_bytes(RECORD_LEN)?;
        let bytes = Arc::new(RecordBytes { region: region.clone(), offset, owned: true });
        let a_to_b = direction(region, ringid, num_slots, &bytes, 0)?;
        let b_to_a = direction(region, ringid, num_slots, &bytes, 1)?;
        let record = bytes.record();
        let rings = [&a_to_b.tx, &a_to_b.rx, &b_to_a.tx, &b_to_a.rx];
        for (word, ring) in record.rings.iter().zip(rings) {
            word.store((ring.offset() / crate::arena::ARENA_ALIGN_BYTES) as u32, Ordering::Relaxed);
        }
        record.num_slots.store(num_slots, Ordering::Release);
        let [bell_a, bell_b] = [new_doorbell()?, new_doorbell()?];
        let bell_b2 = bell_b.try_clone().map_err(doorbell_error)?;
        let bell_a2 = bell_a.try_clone().map_err(doorbell_error)?;
        Ok(Self {
            a: PipeEnd::over(a_to_b.clone(), b_to_a.clone(), bell_a, bell_b2)?,
            b: PipeEnd::over(b_to_a, a_to_b, bell_b, bell_a2)?,
        })
    }
}

fn direction(
    region: &Arc<Region>,
    ringid: u16,
    num_slots: u32,
    bytes: &Arc<RecordBytes>,
    which: usize,
) -> Result<PipeStorage, RegionError> {
    let bufs = region.alloc_bufs(num_slots)?;
    let tx = RingMem::create(region, RingDir::Tx, ringid, num_slots, &bufs)
        .inspect_err(|_| region.put_back(bufs.iter().copied()))?;
    let rx = RingMem::create(region, RingDir::Rx, ringid, num_slots, &[])?;
    Ok(PipeStorage::over(PipeDirection { tx, rx, record: bytes.clone(), which }))
}

fn new_doorbell() -> Result<Doorbell, RegionError> {
    Doorbell::new().map_err(doorbell_error)
}

fn doorbell_error(source: io::Error) -> RegionError {
    RegionError::Memory { step: "create an eventfd beside", bytes: 0, source }
}

fn invalid_pipe_error() -> RegionError {
    RegionError::NotARegion("no pipe lies at this offset")
}

/// One end of a pipe, which owns its rings. Do not replace `tx` or `rx` by other rings.
#[derive(Debug)]
pub struct PipeEnd {
    /// The ring on which this end sends.
    pub tx: TxRing,
    /// The ring on which this end receives.
    pub rx: RxRing,
    tx_kern: KernRing,
    rx_kern: KernRing,
    sender: PipeSender<PipeStorage>,
    receiver: PipeReceiver<PipeStorage>,
    doorbell: Doorbell,
    peer_doorbell: Doorbell,
}

impl PipeEnd {
    fn over(
        out: PipeStorage,
        back: PipeStorage,
        mine: Doorbell,
        peers: Doorbell,
    ) -> Result<Self, RegionError> {
        let RingHalves { app: tx, kern: tx_kern } = RingHalves::over(out.tx.clone());
        let RingHalves { app: rx, kern: rx_kern } = RingHalves::over(back.rx.clone());
        let (tx, rx) = (tx.with_copies()?, rx.with_copies()?);
        let sender = PipeSender::new(out).map_err(|_| invalid_pipe_error())?;
        let receiver = PipeReceiver::new(back).map_err(|_| invalid_pipe_error())?;
        Ok(Self {
            tx,
            rx,
            tx_kern,
            rx_kern,
            sender,
            receiver,
            doorbell: mine,
            peer_doorbell: peers,
        })
    }

    /// Offset of the pipe's record. Another process needs this offset, the region's descriptor and
    /// the two doorbells for [`Self::attach`].
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.sender.shared().link.record.offset
    }

    /// The doorbell that wakes this end, and the doorbell that wakes the other end.
    #[must_use]
    pub fn doorbells(&self) -> (&Doorbell, &Doorbell) {
        (&self.doorbell, &self.peer_doorbell)
    }

    /// Attaches to the slave end of a pipe that another process created. This end must not have
    /// sent or released a frame yet.
    ///
    /// # Errors
    /// [`RegionError::NotARegion`] if no pipe can be at `offset`.
    pub fn attach(
        region: &Arc<Region>,
        offset: u64,
        mine: Doorbell,
        peers: Doorbell,
    ) -> Result<Self, RegionError> {
        if !region.in_ring_area(offset, RECORD_LEN) {
            return Err(invalid_pipe_error());
        }
        let bytes = Arc::new(RecordBytes { region: region.clone(), offset, owned: false });
        let num_slots = bytes.record().num_slots.load(Ordering::Acquire);
        let ring = |i: usize| {
            let at = u64::from(bytes.record().rings[i].load(Ordering::Relaxed))
                * crate::arena::ARENA_ALIGN_BYTES;
            RingMem::attach(region, at, num_slots).ok_or_else(invalid_pipe_error)
        };
        let link = |which: usize| {
            let (tx, rx) = (ring(2 * which)?, ring(2 * which + 1)?);
            Ok(PipeStorage::over(PipeDirection { tx, rx, record: bytes.clone(), which }))
        };
        let (a_to_b, b_to_a) = (link(0)?, link(1)?);
        if !b_to_a.is_fresh() || a_to_b.freed().acquire() != 0 {
            return Err(RegionError::NotARegion("the slave end of this pipe is in use"));
        }
        Self::over(b_to_a, a_to_b, mine, peers)
    }

    /// Sends the slots that the program queued, and takes back the slots that the peer has
    /// returned. Returns how many slots were sent.
    ///
    /// # Errors
    /// [`SyncFault`] if the program's indices or the peer's are impossible.
    #[inline]
    pub fn tx_sync(&mut self) -> Result<u32, SyncFault> {
        let head = self.tx_kern.released()?;
        let sent = self.tx_kern.pending(head);
        let tail = self.sender.sync(head)?;
        self.tx_kern.complete_to(head);
        self.tx_kern.set_tail(tail);
        if sent > 0 && doorbell::must_ring(&self.sender.shared().words().receiver_sleeps) {
            self.peer_doorbell.ring();
        }
        Ok(sent)
    }

    /// Gives the slots that the program has released back to the peer, and takes over new frames.
    /// Returns how many slots have new frames.
    ///
    /// # Errors
    /// [`SyncFault`] if the program's indices or the peer's are impossible.
    #[inline]
    pub fn rx_sync(&mut self) -> Result<u32, SyncFault> {
        let head = self.rx_kern.released()?;
        let freed = self.rx_kern.pending(head);
        let before = self.rx_kern.hwtail();
        let tail = self.receiver.sync(head)?;
        self.rx_kern.complete_to(head);
        self.rx_kern.set_tail(tail);
        if freed > 0 && doorbell::must_ring(&self.receiver.shared().words().sender_sleeps) {
            self.peer_doorbell.ring();
        }
        Ok(crate::index::distance(before, tail, self.rx_kern.num_slots()))
    }

    /// Prepares the end for the program that opens it next. Frames that were queued and not synced
    /// are forgotten. Received frames that were not released are still in the rx ring.
    pub fn detach_program(&mut self) {
        self.tx.restart_at(self.tx_kern.hwcur());
        // If the program's indices are impossible, the slots from `hwcur` on count as not released.
        let read = self.rx_kern.released().unwrap_or(self.rx_kern.hwcur());
        self.rx.restart_at(read);
        self.wake();
    }

    /// The slot up to which the next [`Self::tx_sync`] will send; `None` if the program's indices
    /// are impossible.
    #[must_use]
    pub fn pending_tx(&mut self) -> Option<SlotIdx> {
        self.tx_kern.released().ok()
    }

    /// The driver's half of the rx ring, for an observer that counts received frames.
    #[must_use]
    pub fn rx_kern(&self) -> &KernRing {
        &self.rx_kern
    }

    /// The driver's half of the tx ring, for an observer that counts sent frames.
    #[must_use]
    pub fn tx_kern(&self) -> &KernRing {
        &self.tx_kern
    }

    /// Number of sent slots that the peer had not returned at the last tx sync.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.sender.in_flight()
    }

    /// Announces that this end is about to sleep for frames, free slots, or both. The caller must
    /// sync and check once more before it sleeps on [`Self::doorbells`]`.0`.
    pub fn announce_sleep(&self, for_frames: bool, for_slots: bool) {
        if for_frames {
            doorbell::announce(&self.receiver.shared().words().receiver_sleeps);
        }
        if for_slots {
            doorbell::announce(&self.sender.shared().words().sender_sleeps);
        }
    }

    /// Announces that this end is awake, and clears its doorbell.
    pub fn wake(&self) {
        self.receiver.shared().words().receiver_sleeps.store(0, Ordering::Relaxed);
        self.sender.shared().words().sender_sleeps.store(0, Ordering::Relaxed);
        self.doorbell.clear();
    }
}

/// Why a sync failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SyncFault {
    /// The program's own indices are impossible.
    #[error(transparent)]
    Reinit(#[from] Reinit),
    /// The other end's indices are impossible.
    #[error(transparent)]
    Peer(#[from] PeerFault),
}
