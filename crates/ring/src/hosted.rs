//! One direction of a pipe whose two ends belong to other processes: a host does the syncs of
//! both, so the words through which the halves meet are its own and nobody can forge them.
//!
//! ```text
//!   program A writes           HostedTx::sync   -- sent -->   HostedRx::sync         program B reads
//!   A's tx ring in the region   (host's thread)  <- freed --   (host's thread)   B's rx ring in the region
//! ```
//!
//! The protocol is that of [`crate::protocol`]; see `pipe.rs` for a pipe whose ends sync
//! themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cell::Cell;
use crate::index::{SlotIdx, prev};
use crate::kern::{KernRing, Pair, Reinit};
use crate::mem::{Dir, Owned, RingMem};
use crate::pipe::return_changed;
use crate::protocol::{Peer, Receiver, Sender, Word};
use crate::region::{Region, RegionError};

/// One direction.
#[derive(Debug)]
struct Direction {
    tx: RingMem,
    rx: RingMem,
    /// `sent` and `freed`, each with its cache lines to itself.
    words: Cell<2>,
}

impl Direction {
    #[inline(always)]
    fn sent(&self) -> &AtomicU64 {
        self.words.word(0, 0)
    }

    #[inline(always)]
    fn freed(&self) -> &AtomicU64 {
        self.words.word(1, 0)
    }
}

/// Where a direction lies, for who goes on with it in another process: offsets of both rings in
/// their region, of the words in theirs, and how many slots there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The sender's ring.
    pub tx: u64,
    /// The receiver's ring.
    pub rx: u64,
    /// The words through which the halves meet.
    pub words: u64,
    /// Slots of each ring.
    pub num_slots: u32,
}

impl Drop for Direction {
    /// Hands the slots under way back: the receiver may have exchanged their buffers, and what
    /// the tx slots name is given back to the region next.
    fn drop(&mut self) {
        return_changed(&self.rx, &self.tx, self.freed().acquire(), self.sent().acquire());
    }
}

#[derive(Debug, Clone)]
struct Shared(Arc<Direction>);

impl Peer for Shared {
    type W = AtomicU64;

    #[inline(always)]
    fn num_slots(&self) -> u32 {
        self.0.tx.num_slots()
    }

    #[inline(always)]
    fn sent(&self) -> &AtomicU64 {
        self.0.sent()
    }

    #[inline(always)]
    fn freed(&self) -> &AtomicU64 {
        self.0.freed()
    }

    #[inline(always)]
    fn hand_over(&self, from: SlotIdx, to: SlotIdx) {
        for span in crate::index::spans(from, to, self.0.tx.num_slots()) {
            for (rx, tx) in self.0.rx.slots(span).iter().zip(self.0.tx.slots(span)) {
                rx.copy_from(tx);
            }
        }
    }

    #[inline(always)]
    fn hand_back(&self, from: SlotIdx, to: SlotIdx) {
        return_changed(&self.0.rx, &self.0.tx, from, to);
    }
}

/// Lays out one direction of `num_slots` slots; the tx slots have the buffers. The words lie in
/// a region of the host's own.
///
/// # Errors
/// [`RegionError`] when a region has not enough left.
pub fn hosted_direction(
    region: &Arc<Region>,
    words: &Arc<Region>,
    ringid: u16,
    num_slots: u32,
) -> Result<(HostedTx, HostedRx), RegionError> {
    let words = Cell::new(words)?;
    let bufs = region.take_bufs(num_slots)?;
    let tx = RingMem::create(region, Dir::Tx, ringid, num_slots, &bufs)
        .inspect_err(|_| region.give_bufs(bufs.iter().copied()))?;
    let rx = RingMem::create(region, Dir::Rx, ringid, num_slots, &[])?;
    let shared = Shared(Arc::new(Direction { tx, rx, words }));
    let fresh = "two words that nobody has written";
    Ok((
        HostedTx {
            kern: Pair::<crate::Tx>::over(shared.0.tx.clone()).kern,
            sender: Sender::new(shared.clone()).expect(fresh),
        },
        HostedRx {
            kern: Pair::<crate::Rx>::over(shared.0.rx.clone()).kern,
            receiver: Receiver::new(shared).expect(fresh),
        },
    ))
}

impl Place {
    /// Goes on with a direction of a process that is no more, at any instruction of its syncs.
    ///
    /// A sync writes the word by which the other end learns of it after all that it tells of, and
    /// what it does before that it may do once more. So the words say how far both ends are, and
    /// the receiver's tail how much of it its program knows.
    ///
    /// # Errors
    /// [`RegionError`] where no such direction can lie.
    pub fn resume(
        &self,
        region: &Arc<Region>,
        words: &Arc<Region>,
    ) -> Result<(HostedTx, HostedRx), RegionError> {
        let words = Cell::resume(words, self.words)?;
        let tx = RingMem::resume(region, self.tx, self.num_slots, Owned::BytesAndBufs)?;
        let rx = RingMem::resume(region, self.rx, self.num_slots, Owned::Bytes)?;
        let shared = Shared(Arc::new(Direction { tx, rx, words }));
        let wrong = |_| RegionError::NotARegion("a pipe's words are no state that it reaches");
        let sender = Sender::new(shared.clone()).map_err(wrong)?;
        // Written by the program: it counts as far as it can be true.
        let told = shared.0.rx.tail().load(Ordering::Acquire);
        let receiver = Receiver::resume(shared.clone(), told).map_err(wrong)?;
        let tail = prev(shared.freed().acquire(), self.num_slots);
        let tx = KernRing::resumed(shared.0.tx.clone(), sender.sent(), tail);
        let rx = KernRing::resumed(shared.0.rx.clone(), receiver.freed(), receiver.sent());
        Ok((HostedTx { kern: tx, sender }, HostedRx { kern: rx, receiver }))
    }
}

/// The host's hold on the sender's ring.
#[derive(Debug)]
pub struct HostedTx {
    kern: KernRing,
    sender: Sender<Shared>,
}

impl HostedTx {
    /// Sends the whole packets that the program queued and takes back the slots that the
    /// receiver is done with. Returns how many slots were sent.
    ///
    /// # Errors
    /// [`Reinit`]: the program's indices are impossible; nothing was sent.
    #[inline]
    pub fn sync(&mut self) -> Result<u32, Reinit> {
        self.sync_shown(|_, _, _| {})
    }

    /// As [`Self::sync`], but shows the slots (first, and one behind the last) to `see` before
    /// they are sent.
    ///
    /// # Errors
    /// As [`Self::sync`].
    #[inline]
    pub fn sync_shown(
        &mut self,
        see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<u32, Reinit> {
        let head = self.kern.released()?;
        let head = self.kern.whole_packets(head);
        let sent = self.kern.pending(head);
        see(&self.kern, self.kern.hwcur(), head);
        // Both words are the host's own, so the protocol cannot be broken.
        if let Ok(tail) = self.sender.sync(head) {
            self.kern.done_to(head);
            self.kern.set_tail(tail);
        }
        Ok(sent)
    }

    /// The driver's view of the ring.
    #[must_use]
    pub fn kern(&self) -> &KernRing {
        &self.kern
    }

    /// Where the direction lies.
    #[must_use]
    pub fn place(&self) -> Place {
        let Direction { tx, rx, words } = &*self.sender.shared().0;
        Place { tx: tx.offset(), rx: rx.offset(), words: words.at(), num_slots: tx.num_slots() }
    }
}

/// The host's hold on the receiver's ring.
#[derive(Debug)]
pub struct HostedRx {
    kern: KernRing,
    receiver: Receiver<Shared>,
}

impl HostedRx {
    /// Gives the slots that the program is done with back to the sender and takes over new
    /// frames. Returns how many slots were given back.
    ///
    /// # Errors
    /// [`Reinit`]: the program's indices are impossible; nothing was given back or taken over.
    #[inline]
    pub fn sync(&mut self) -> Result<u32, Reinit> {
        self.sync_shown(|_, _, _| {})
    }

    /// As [`Self::sync`], but shows the new frames' slots (first, and one behind the last) to
    /// `see` before the program gets them.
    ///
    /// # Errors
    /// As [`Self::sync`].
    #[inline]
    pub fn sync_shown(
        &mut self,
        see: impl FnOnce(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<u32, Reinit> {
        let head = self.kern.released()?;
        let freed = self.kern.pending(head);
        // As in `HostedTx::sync`.
        if let Ok(tail) = self.receiver.sync(head) {
            see(&self.kern, self.kern.hwtail(), tail);
            self.kern.done_to(head);
            self.kern.set_tail(tail);
        }
        Ok(freed)
    }

    /// The driver's view of the ring.
    #[must_use]
    pub fn kern(&self) -> &KernRing {
        &self.kern
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::{Slot, SlotFlags};
    use crate::region::{Geometry, HugePages};

    fn region() -> Arc<Region> {
        let geometry = Geometry { ring_bytes: 64 << 10, bufs: 64, buf_size: 2048 };
        Region::create(geometry, HugePages::Never).unwrap()
    }

    /// Where a host keeps its own.
    fn words() -> Arc<Region> {
        let geometry = Geometry { ring_bytes: 4096, bufs: 2, buf_size: 2048 };
        Region::create(geometry, HugePages::Never).unwrap()
    }

    /// What a program does: sets slots from its head on and publishes.
    fn send(tx: &HostedTx, flags: &[u16]) {
        let mem = &tx.sender.shared().0.tx;
        let mut at = mem.head().load(std::sync::atomic::Ordering::Relaxed);
        for &flags in flags {
            let slot = mem.slot(at).get();
            mem.slot(at).set(Slot { len: 60, flags: SlotFlags(flags), ..slot });
            at = tx.kern.next(at);
        }
        mem.cur().store(at, std::sync::atomic::Ordering::Relaxed);
        mem.head().store(at, std::sync::atomic::Ordering::Release);
    }

    #[test]
    fn slots_under_way_come_back_only_when_the_receiver_releases_them() {
        let region = region();
        let (mut tx, mut rx) = hosted_direction(&region, &self::words(), 0, 8).unwrap();
        send(&tx, &[0; 7]);
        assert_eq!(tx.sync(), Ok(7));
        assert_eq!(rx.sync(), Ok(0));
        assert_eq!(rx.kern.hwtail(), 7);
        assert_eq!(tx.sync(), Ok(0));
        assert!(!tx.kern.view().is_ready(), "the ring is full until the receiver lets go");
        let mem = &rx.receiver.shared().0.rx;
        mem.cur().store(3, std::sync::atomic::Ordering::Relaxed);
        mem.head().store(3, std::sync::atomic::Ordering::Release);
        assert_eq!(rx.sync(), Ok(3));
        assert_eq!(tx.sync(), Ok(0));
        assert_eq!(tx.kern.hwtail(), 2);
    }

    #[test]
    fn a_packet_is_published_when_its_last_fragment_is_there() {
        let region = region();
        let (mut tx, mut rx) = hosted_direction(&region, &self::words(), 0, 8).unwrap();
        let more = SlotFlags::MOREFRAG.0;
        send(&tx, &[0, more, more]);
        assert_eq!(tx.sync(), Ok(1));
        assert_eq!(rx.sync().map(|_| rx.kern.hwtail()), Ok(1));
        send(&tx, &[0]);
        assert_eq!(tx.sync(), Ok(3));
        assert_eq!(rx.sync().map(|_| rx.kern.hwtail()), Ok(4));
    }

    #[test]
    fn buffers_come_back_when_both_halves_are_gone_also_those_the_receiver_exchanged() {
        let region = region();
        let free = region.free_bufs();
        let (mut tx, mut rx) = hosted_direction(&region, &self::words(), 0, 8).unwrap();
        let own = region.take_bufs(1).unwrap()[0];
        send(&tx, &[0; 2]);
        tx.sync().unwrap();
        rx.sync().unwrap();
        let cell = rx.receiver.shared().0.rx.slot(0);
        let sent = cell.get();
        cell.set(Slot { buf: own, flags: SlotFlags::BUF_CHANGED, ..sent });
        drop((tx, rx));
        region.give_bufs([sent.buf]);
        assert_eq!(region.free_bufs(), free);
    }
}
