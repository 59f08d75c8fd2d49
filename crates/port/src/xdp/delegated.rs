//! A queue of an interface that a daemon has lent to this process, which syncs it. This is the
//! program's side of [`crate::nic::ownership`].
//!
//! ```text
//!   claim the direction --> host only, or busy: leaves the sync to the daemon
//!     |
//!     v
//!   resume: takes the ring positions from the anchors and the kernel's indices, and the buffers
//!     |     from the slots --> slots that only the daemon can handle: leaves the sync to it
//!     v
//!   TxSide::sync or RxSide::sync, as in the daemon --> adds the counts --> releases the direction
//! ```
//!
//! The directions are separate, so that each can be synced by a separate thread.
//!
//! # Invariants
//! 1. All state that a direction needs from one sync to the next is also in the kernel's indices,
//!    the anchors and the slots. So the daemon can continue at any time, even if the program was
//!    killed in the middle of a sync.
//! 2. A sync leaves slots that a program cannot handle as they are.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use slipring_abi::{DELEGATED_SOFTWARE, DelegatedQueueLayout};
use slipring_ring::{AttachedWords, KernRing, Region, RegionError, RingView};

use super::ends::{RxEnds, TxEnds, kick};
use super::layout::UmemLayout;
use super::ring::{Consumer, Producer};
use super::socket::fault;
use super::sys::{self, RingSizes};
use crate::nic::ownership::{
    ClientClaim, OwnershipCell, OwnershipStorage, OwnershipWord, SyncDirection, claim_for_client,
    release_by_client,
};
use crate::nic::{OffloadFixup, RxSide, TxLimits, TxSide};
use crate::stats::{DropCause, QueueCounters, QueueSnapshot};

/// The result of a program's sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientSync {
    /// The sync is done.
    Done,
    /// The program must ask the daemon for this sync: only the daemon can do it, or another party
    /// was using the direction.
    ByHost,
}

/// A queue, split into its directions.
#[derive(Debug)]
pub struct DelegatedXdpQueue {
    /// The AF_XDP socket.
    pub socket: Arc<OwnedFd>,
    /// The sending direction, if it is lent.
    pub tx: Option<DelegatedTx>,
    /// The receiving direction, if it is lent.
    pub rx: Option<DelegatedRx>,
}

/// The ownership words of a queue, in the memory that the program maps.
type Words = AttachedWords<2>;

impl DelegatedXdpQueue {
    /// Attaches to a queue that the daemon has lent to the program with number `client_id`: its
    /// socket, and its rings and shared words in `region`.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the layout is impossible; the system's error if the
    /// socket's rings cannot be mapped.
    pub fn attach(
        region: &Arc<Region>,
        socket: OwnedFd,
        layout: &DelegatedQueueLayout,
        client_id: u32,
    ) -> io::Result<Self> {
        let cells = layout.cells;
        let is_sized = layout.num_slots > 1
            && layout.num_slots.is_power_of_two()
            && cells.is_power_of_two()
            && cells >= layout.num_slots;
        if !is_sized {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let words = Words::attach(region, layout.words).ok_or(io::ErrorKind::InvalidData)?;
        let sizes = RingSizes { fill: cells, completion: cells, rx: cells, tx: cells };
        let rings = sys::map_rings(socket.as_fd(), sizes)?;
        let umem = UmemLayout::new(region);
        let tx_ends = TxEnds {
            layout: umem,
            tx: Producer::new(rings.tx),
            completion: Consumer::new(rings.completion),
        };
        let rx_ends =
            RxEnds { layout: umem, fill: Producer::new(rings.fill), rx: Consumer::new(rings.rx) };
        let impossible = |_: RegionError| io::Error::from(io::ErrorKind::InvalidData);
        let ring = |at: u64| match at {
            0 => Ok(None),
            at => KernRing::attach(region, at, layout.num_slots).map(Some).map_err(impossible),
        };
        let limits = TxLimits { packet: layout.max_slot_len, chains: false, enabled: true };
        let fixup = OffloadFixup::new(layout.flags & DELEGATED_SOFTWARE != 0, false, 0);
        let zero_copy = sys::is_zero_copy(socket.as_fd())?;
        let client =
            QueueClient { words: Arc::new(words), client_id, socket: Arc::new(socket), zero_copy };
        let tx = ring(layout.tx)?.map(|ring| {
            let make = |ring, counters| TxSide::attach(ring, limits, counters);
            DelegatedTx(DelegatedDirection::new(&client, SyncDirection::Tx, tx_ends, ring, make))
        });
        let rx = ring(layout.rx)?.map(|ring| {
            let make = |ring, counters| RxSide::attach(ring, fixup, counters);
            DelegatedRx(DelegatedDirection::new(&client, SyncDirection::Rx, rx_ends, ring, make))
        });
        Ok(Self { socket: client.socket, tx, rx })
    }
}

/// The state that both directions of a queue share: the ownership words, the program's number and
/// the socket.
#[derive(Debug, Clone)]
struct QueueClient {
    words: Arc<Words>,
    client_id: u32,
    socket: Arc<OwnedFd>,
    zero_copy: bool,
}

/// One direction: a half of the driver, and the kernel's rings.
#[derive(Debug)]
struct DelegatedDirection<S, E> {
    ends: E,
    client: QueueClient,
    side: S,
    ring: RingView,
    direction: SyncDirection,
    counters: Arc<QueueCounters>,
    /// The counter values that were already added to the shared words.
    published: QueueSnapshot,
    /// Whether a sync has taken place.
    resumed: bool,
}

impl<S, E> DelegatedDirection<S, E> {
    fn new(
        client: &QueueClient,
        direction: SyncDirection,
        ends: E,
        ring: KernRing,
        make: impl FnOnce(KernRing, Arc<QueueCounters>) -> S,
    ) -> Self {
        let (view, counters) = (ring.view(), Arc::<QueueCounters>::default());
        Self {
            ends,
            client: client.clone(),
            side: make(ring, counters.clone()),
            ring: view,
            direction,
            counters,
            published: QueueSnapshot::default(),
            resumed: false,
        }
    }

    fn is_lent(&self) -> bool {
        let holder = self.client.words.cell(self.direction, OwnershipWord::Holder);
        holder.acquire() == u64::from(self.client.client_id)
    }

    /// Claims the direction, and calls `sync` if that succeeds. `sync` gets the anchors, which are
    /// the slots that correspond to index 0 of the kernel's two rings, and whether it is the first
    /// sync. It returns whether it has handled all slots.
    #[inline(always)]
    fn sync_by(&mut self, sync: impl FnOnce(&mut Self, [u32; 2], bool) -> bool) -> ClientSync {
        match claim_for_client(&*self.client.words, self.direction, self.client.client_id) {
            ClientClaim::Claimed => {}
            ClientClaim::ByHost => return ClientSync::ByHost,
        }
        let anchors = [OwnershipWord::In, OwnershipWord::Out]
            .map(|word| self.client.words.cell(self.direction, word).load_relaxed() as u32);
        let first = !std::mem::replace(&mut self.resumed, true);
        let done = sync(self, anchors, first);
        self.publish_counts();
        release_by_client(&*self.client.words, self.direction);
        if done { ClientSync::Done } else { ClientSync::ByHost }
    }

    /// Adds the counts since the last call to the shared words.
    #[inline]
    fn publish_counts(&mut self) {
        let now = self.counters.snapshot();
        let last = std::mem::replace(&mut self.published, now);
        let new = |cause| now.dropped(cause) - last.dropped(cause);
        let (now, last, refused) = match self.direction {
            SyncDirection::Tx => (now.tx, last.tx, new(DropCause::TxRefused)),
            SyncDirection::Rx => (now.rx, last.rx, new(DropCause::RxTooLong)),
        };
        // A frame that was refused had also been handed to the kernel, so it is in both counts.
        let also = if self.direction == SyncDirection::Tx { refused } else { 0 };
        let counts = [
            (OwnershipWord::Packets, now.packets - last.packets + also),
            (OwnershipWord::Bytes, now.bytes - last.bytes),
            (OwnershipWord::Refused, refused),
        ];
        for (word, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            let word = self.client.words.cell(self.direction, word);
            word.store_relaxed(word.load_relaxed().wrapping_add(count));
        }
    }
}

/// The sending direction of a queue.
#[derive(Debug)]
pub struct DelegatedTx(DelegatedDirection<TxSide, TxEnds>);

impl DelegatedTx {
    /// Sends queued frames, and frees the slots of sent ones.
    #[inline]
    pub fn sync(&mut self) -> ClientSync {
        self.0.sync_by(|this, anchors, first| {
            let DelegatedDirection { side, ends, client, .. } = this;
            let (socket, zero_copy) = (client.socket.as_fd(), client.zero_copy);
            side.resume_delegated(ends, anchors, first) == Ok(true)
                && side.sync(ends, |side, ends| kick(side, ends, socket, zero_copy)).is_ok()
        })
    }

    /// Returns whether the queue is still lent to this program.
    #[must_use]
    pub fn is_lent(&self) -> bool {
        self.0.is_lent()
    }

    /// Returns the tx ring.
    #[must_use]
    pub fn ring(&self) -> &RingView {
        &self.0.ring
    }
}

/// The receiving direction of a queue.
#[derive(Debug)]
pub struct DelegatedRx(DelegatedDirection<RxSide, RxEnds>);

impl DelegatedRx {
    /// Gives the slots that were read back to the kernel, and takes over frames that have arrived.
    #[inline]
    pub fn sync(&mut self) -> ClientSync {
        self.0.sync_by(|this, anchors, first| {
            let DelegatedDirection { side, ends, client, .. } = this;
            side.resume_delegated(ends, anchors, first) == Ok(true)
                && side.sync(ends).is_ok()
                && wake_kernel(ends, &client.socket)
        })
    }

    /// Returns whether the queue is still lent to this program.
    #[must_use]
    pub fn is_lent(&self) -> bool {
        self.0.is_lent()
    }

    /// Returns the rx ring.
    #[must_use]
    pub fn ring(&self) -> &RingView {
        &self.0.ring
    }
}

/// Makes the kernel take posted buffers, if the fill ring requires a system call. Returns false
/// after an error that is left to the daemon.
#[inline]
fn wake_kernel(ends: &RxEnds, socket: &OwnedFd) -> bool {
    let lasting = |error| fault("receive", error);
    !ends.fill.needs_wakeup() || sys::kick_rx(socket.as_fd()).or_else(lasting).is_ok()
}
