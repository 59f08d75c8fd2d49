//! Tests with random operations, compared with simple queues: no frame may be lost, duplicated or
//! out of order, every slot is accounted for, and every buffer always has exactly one owner.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;
use slipring_ring::{
    BufIdx, FrameMut, OwnedBuf, PipeEnd, PipePair, Region, RingHalves, Rx, SlotFlags, Tx, copy,
    forward,
};
use support::{ROOM, SLOTS, all_different, bufs_of, region};

/// Writes a frame that contains `number`. Returns the length of the frame, which `number`
/// determines.
fn write(buf: &mut [u8], number: u64) -> usize {
    buf[..8].copy_from_slice(&number.to_ne_bytes());
    8 + (number as usize * 37) % 100
}

fn read(frame: &FrameMut<'_>) -> u64 {
    let number = u64::from_ne_bytes(frame.bytes[..8].try_into().unwrap());
    assert_eq!(frame.bytes.len(), 8 + (number as usize * 37) % 100);
    number
}

/// One direction of a pipe, and the frames and slots that should be in each of its states.
struct Line {
    from: PipeEnd,
    to: PipeEnd,
    /// Frames that are queued and not sent yet.
    queued: VecDeque<u64>,
    /// Frames sent, but not seen by the receiver.
    sent: VecDeque<u64>,
    /// Frames that the receiver has seen, and whose slots it has not released.
    received: VecDeque<u64>,
    /// Number of slots that the receiver has released since its last sync.
    done: u32,
    /// Number of slots returned by the receiver's syncs, but not yet seen by the sender.
    freed: u32,
}

impl Line {
    fn new(region: &Arc<Region>) -> Self {
        let PipePair { a, b } = PipePair::create(region, 0, SLOTS).unwrap();
        let (queued, sent, received) = Default::default();
        Self { from: a, to: b, queued, sent, received, done: 0, freed: 0 }
    }

    fn room(&self) -> u32 {
        let frames = self.queued.len() + self.sent.len() + self.received.len();
        ROOM - frames as u32 - self.done - self.freed
    }

    fn tx_sync(&mut self) {
        assert_eq!(self.from.tx_sync(), Ok(self.queued.len() as u32));
        self.sent.append(&mut self.queued);
        self.freed = 0;
    }

    fn rx_sync(&mut self) {
        assert_eq!(self.to.rx_sync(), Ok(self.sent.len() as u32));
        self.received.append(&mut self.sent);
        self.freed += std::mem::take(&mut self.done);
    }

    fn receive(&mut self, max: u32) {
        for frame in self.to.rx.batch(max).frames() {
            assert_eq!(Some(read(&frame)), self.received.pop_front());
            self.done += 1;
        }
    }

    /// Moves `slots` frames from `received` to the queue of `next`.
    fn moved(&mut self, next: &mut Self, slots: u32) {
        next.queued.extend(self.received.drain(..slots as usize));
        self.done += slots;
    }

    /// Buffers that this direction owns; for slots in flight, these are the buffers in the rx ring.
    fn bufs(&self) -> Vec<BufIdx> {
        let (tx, rx) = (self.from.tx_kern(), self.to.rx_kern());
        let mut bufs = bufs_of(tx);
        for (i, slot) in rx.slots(rx.hwcur(), tx.hwcur()) {
            bufs[i as usize] = slot.buf;
        }
        bufs
    }

    fn check(&mut self) {
        assert_eq!(self.from.tx.avail(), self.room());
        assert_eq!(self.to.rx.avail() as usize, self.received.len());
    }
}

#[derive(Debug, Clone)]
enum Op {
    Fill(u32),
    TxSync,
    RxSync,
    Receive(u32),
    Forward(u32),
    Copy(u32),
    NextTxSync,
    NextRxSync,
    NextReceive(u32),
    Replace,
    Exchange(u32, u32),
}

fn op() -> impl Strategy<Value = Op> {
    let count = || 0..=SLOTS;
    prop_oneof![
        3 => count().prop_map(Op::Fill),
        3 => Just(Op::TxSync),
        3 => Just(Op::RxSync),
        1 => count().prop_map(Op::Receive),
        3 => count().prop_map(Op::Forward),
        1 => count().prop_map(Op::Copy),
        2 => Just(Op::NextTxSync),
        2 => Just(Op::NextRxSync),
        2 => count().prop_map(Op::NextReceive),
        1 => Just(Op::Replace),
        1 => (count(), count()).prop_map(|(i, j)| Op::Exchange(i, j)),
    ]
}

fn apply(
    op: &Op,
    number: &mut u64,
    first: &mut Line,
    next: &mut Line,
    spare: &mut Option<OwnedBuf>,
) {
    match *op {
        Op::Fill(count) => {
            let expected = count.min(first.room());
            let filled = first.from.tx.fill(count, |buf| {
                first.queued.push_back(*number);
                let len = write(buf, *number);
                *number += 1;
                len
            });
            assert_eq!(filled, expected);
        }
        Op::TxSync => first.tx_sync(),
        Op::RxSync => first.rx_sync(),
        Op::Receive(max) => first.receive(max),
        Op::Forward(max) | Op::Copy(max) => {
            let expected = max.min(first.received.len() as u32).min(next.room());
            let forward = if matches!(op, Op::Copy(_)) { copy } else { forward };
            assert_eq!(forward(&mut first.to.rx, &mut next.from.tx, max), expected);
            first.moved(next, expected);
        }
        Op::NextTxSync => next.tx_sync(),
        Op::NextRxSync => next.rx_sync(),
        Op::NextReceive(max) => next.receive(max),
        // Replace: the receiver keeps the frame's buffer and leaves the spare buffer in the slot.
        Op::Replace if first.received.is_empty() => {}
        Op::Replace => {
            let number = first.received.pop_front().unwrap();
            let bytes = first.to.rx.bytes(0).and_then(|bytes| bytes.read(0)).unwrap();
            assert_eq!(u64::from_ne_bytes(bytes), number);
            *spare = first.to.rx.replace(0, spare.take().unwrap()).ok();
            first.to.rx.advance(1);
            first.done += 1;
        }
        Op::Exchange(i, j) => {
            first.to.rx.exchange(i, j);
            let (i, j) = (i as usize, j as usize);
            if i.max(j) < first.received.len() {
                first.received.swap(i, j);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn two_pipes_in_a_row_are_queues(ops in prop::collection::vec(op(), 1..200)) {
        let region = region(2048);
        let (mut first, mut next) = (Line::new(&region), Line::new(&region));
        let mut spare = Some(region.alloc_owned().unwrap());
        let owned = |first: &Line, next: &Line, spare: &Option<OwnedBuf>| {
            let mut bufs = [first.bufs(), next.bufs(), spare.iter().map(OwnedBuf::index).collect()].concat();
            bufs.sort_unstable();
            bufs
        };
        let before = owned(&first, &next, &spare);
        let mut number = 0;
        for op in &ops {
            apply(op, &mut number, &mut first, &mut next, &mut spare);
            first.check();
            next.check();
            prop_assert_eq!(owned(&first, &next, &spare), before.clone(), "after {:?}", op);
        }
        drop((first, next));
        prop_assert!(region.release_owned(spare.unwrap()));
        prop_assert_eq!(region.free_bufs(), region.num_bufs() - 2);
    }

    #[test]
    fn both_halves_of_a_ring_agree(ops in prop::collection::vec((0..5u8, 0..=SLOTS), 1..300)) {
        let region = region(2048);
        let RingHalves { app: mut tx, kern: mut tx_kern } = RingHalves::<Tx>::create(&region, 0, SLOTS).unwrap();
        let RingHalves { app: mut rx, kern: mut rx_kern } = RingHalves::<Rx>::create(&region, 0, SLOTS).unwrap();
        let (mut queued, mut received) = (VecDeque::new(), VecDeque::new());
        // Number of tx slots that the driver has taken and not given back, and of rx slots that it
        // may fill.
        let (mut taken, mut fillable) = (0, ROOM);
        let (mut number, mut returned) = (0u64, 0);
        for (op, count) in ops {
            match op {
                0 => {
                    let room = ROOM - queued.len() as u32 - taken;
                    let filled = tx.fill(count, |buf| {
                        queued.push_back(number);
                        let len = write(buf, number);
                        number += 1;
                        len
                    });
                    prop_assert_eq!(filled, count.min(room));
                }
                // The driver delivers each frame as soon as it has taken it.
                1 => {
                    let head = tx_kern.released().unwrap();
                    prop_assert_eq!(tx_kern.pending(head) as usize, queued.len());
                    let moved = count.min(queued.len() as u32).min(fillable);
                    for _ in 0..moved {
                        let (from, to) = (tx_kern.hwcur(), rx_kern.hwtail());
                        let (len, flags) = (tx_kern.slot(from).len, SlotFlags::BUF_CHANGED);
                        let moved = rx_kern.exchange_with((to, len, flags), &mut tx_kern, (from, 0, flags));
                        prop_assert!(moved);
                        tx_kern.complete_to(tx_kern.next(from));
                        rx_kern.set_tail(rx_kern.next(to));
                    }
                    received.extend(queued.drain(..moved as usize));
                    taken += moved;
                    fillable -= moved;
                }
                2 => {
                    let done = count.min(taken);
                    tx_kern.set_tail(tx_kern.add(tx_kern.hwtail(), done));
                    taken -= done;
                }
                3 => {
                    let head = rx_kern.released().unwrap();
                    prop_assert_eq!(rx_kern.pending(head), returned);
                    rx_kern.complete_to(head);
                    fillable += std::mem::take(&mut returned);
                    prop_assert_eq!(rx_kern.free_slots(), fillable);
                }
                _ => {
                    for frame in rx.batch(count).frames() {
                        prop_assert_eq!(Some(read(&frame)), received.pop_front());
                        returned += 1;
                    }
                }
            }
            prop_assert_eq!(tx.avail(), ROOM - queued.len() as u32 - taken);
            prop_assert_eq!(rx.avail() as usize, received.len());
            prop_assert!(all_different(&[bufs_of(&tx_kern), bufs_of(&rx_kern)].concat()));
        }
    }
}
