//! The queues of a worker, and operations on them that all programs need.
//!
//! ```text
//! rx_sync --> take_frames: frames --> forward_frame, copy_frame, rings --> flush: one tx_sync
//!      block() when a frame finds no space   await_room() at the queue that has none
//! ```
//!
//! The worker does the syncs ([`crate::worker`]). A program reads frames, fills tx slots, and says
//! what it waits for.
//!
//! # Invariants
//! 1. The `filled` tx slots after the head are written but not published. [`WorkerQueue::flush`]
//!    publishes them once per loop iteration.
//! 2. A worker waits for frames of a queue, unless the frames that are already there wait for space
//!    elsewhere. It waits for space in a queue only if frames wait for it. So frames and space end
//!    a wait only if the next loop iteration can use them.
//!
//! Not for decisions about frames.

use std::ops::{Deref, DerefMut};

use slipring_port::{DropCause, Interest, Queue, QueueRings, QueueVisitor, RunError, WaitSet};
use slipring_ring::{RxRing, SlotFlags, TxRing};

use crate::slots::{slots_of, whole_frames};

/// A queue of a worker. Its tx ring is filled frame by frame, and is published once per iteration
/// of the worker's loop.
pub struct WorkerQueue {
    queue: Box<dyn Queue>,
    /// Whether the worker takes frames from the queue.
    is_input: bool,
    /// Number of slots that are filled but not published.
    filled: u32,
    /// Number of free slots after the filled ones, as of the last check.
    free: u32,
    /// Whether a frame in the rx ring waits for space in another queue.
    is_blocked: bool,
    /// Whether frames wait for space in the tx ring.
    is_short: bool,
}

impl WorkerQueue {
    /// Wraps a queue from which frames are taken. Frames may also be sent to it.
    pub fn input(queue: Box<dyn Queue>) -> Self {
        Self { is_input: true, ..Self::output(queue) }
    }

    /// Wraps a queue to which frames are only sent. No one else may send to it.
    pub fn output(queue: Box<dyn Queue>) -> Self {
        Self { queue, is_input: false, filled: 0, free: 0, is_blocked: false, is_short: false }
    }

    /// Returns the rx ring.
    #[inline]
    pub fn rx(&mut self) -> &mut RxRing {
        self.queue.rings().rx
    }

    /// Takes the whole frames among the first `most` slots of the rx ring; if `most` is below 64,
    /// among the first 64 slots ([`whole_frames`]). `take` is called with the rx ring, the first
    /// slot of a frame, and the number of its slots. If it returns false, the frame waits for space
    /// in another queue: this frame and all later ones stay in the ring. Returns the number of
    /// slots that were taken.
    #[inline]
    pub fn take_frames(
        &mut self,
        most: u32,
        mut take: impl FnMut(&mut RxRing, u32, u32) -> bool,
    ) -> u32 {
        let rx = self.queue.rings().rx;
        let (end, mut at) = (whole_frames(rx, most), 0);
        while at < end {
            let slots = slots_of(rx, at, end);
            if !take(rx, at, slots) {
                self.is_blocked = true;
                break;
            }
            at += slots;
        }
        rx.advance(at);
        at
    }

    /// Returns both rings, for a program that moves whole batches. Such a program must not use the
    /// functions that fill single frames.
    #[inline]
    pub fn rings(&mut self) -> QueueRings<'_> {
        self.queue.rings()
    }

    /// Returns whether there is space for a frame with this many slots.
    #[inline]
    pub fn has_room(&mut self, slots: u32) -> bool {
        if self.free < slots {
            self.free = self.queue.rings().tx.avail() - self.filled;
        }
        slots <= self.free
    }

    /// Returns for how many frames of one slot there is space, but at most `most`.
    #[inline]
    pub fn room(&mut self, most: u32) -> u32 {
        let fits = self.has_room(most);
        if fits { most } else { self.free }
    }

    /// Forwards the frame in the slots `at..at + slots` of `rx`. If both rings are in one region
    /// and `may_swap` is set, its buffers are exchanged. Otherwise they are copied. If there is no
    /// space for the frame, changes nothing and returns false.
    #[inline]
    pub fn forward_frame(&mut self, rx: &mut RxRing, at: u32, slots: u32, may_swap: bool) -> bool {
        if !self.has_room(slots) {
            return false;
        }
        let tx = self.queue.rings().tx;
        let may_swap = may_swap && rx.same_region(tx);
        for (i, j) in (at..at + slots).zip(self.filled..) {
            let Some(slot) = rx.slot(i) else { continue };
            let flags = SlotFlags(slot.flags.0 & SlotFlags::MOREFRAG.0);
            if may_swap && rx.swap(i, tx, j) {
                tx.set(j, slot.len.into(), flags | SlotFlags::BUF_CHANGED);
            } else {
                tx.write_copy(j, rx, i, flags);
            }
        }
        self.consume(slots);
        true
    }

    /// Copies a frame to the tx ring. If there is no space for it, changes nothing and returns
    /// false.
    pub fn copy_frame(&mut self, frame: &[u8]) -> bool {
        let size = self.queue.rings().tx.buf_size() as usize;
        let slots = frame.len().div_ceil(size).max(1) as u32;
        if !self.has_room(slots) {
            return false;
        }
        let tx = self.queue.rings().tx;
        for (i, part) in (0..slots).zip(frame.chunks(size)) {
            let j = self.filled + i;
            let more = i + 1 < slots;
            tx.write(j, part, if more { SlotFlags::MOREFRAG } else { SlotFlags::default() });
        }
        self.consume(slots);
        true
    }

    fn consume(&mut self, slots: u32) {
        self.filled += slots;
        self.free -= slots;
    }

    /// Must be called if the next frame waits for space in another queue. Until the next loop
    /// iteration, the worker does not wait for frames of this queue.
    #[inline]
    pub fn block(&mut self) {
        self.is_blocked = true;
    }

    /// Must be called if frames wait for space in this queue. The next wait ends when there is
    /// space.
    #[inline]
    pub fn await_room(&mut self) {
        self.is_short = true;
    }

    /// Counts a frame that was to be sent by this queue, and that was not even put into its ring,
    /// because the program ends.
    pub fn count_one_unsent(&self) {
        self.queue.counters().dropped(DropCause::TxUnsent, 1);
    }

    /// Returns whether no more frames will come and all frames have been taken.
    pub fn is_exhausted(&mut self) -> bool {
        self.queue.ended() && self.queue.rings().rx.avail() == 0
    }

    /// Syncs once more, and returns whether no frame is left. After this sync, all frames are
    /// visible that another thread sent before it reported its end. A lost port has no frames left.
    pub fn is_read_after_sync(&mut self) -> bool {
        self.queue.rx_sync().is_err() || self.queue.rings().rx.avail() == 0
    }

    /// Syncs the rx ring. Returns whether it contains a frame.
    #[inline]
    pub fn receive(&mut self) -> Result<bool, RunError> {
        self.queue.rx_sync()?;
        Ok(self.queue.rings().rx.avail() > 0)
    }

    /// Publishes the filled slots and syncs the tx ring. Does nothing if no slot is filled and the
    /// driver has none.
    #[inline]
    pub fn flush(&mut self) -> Result<(), RunError> {
        let tx = self.queue.rings().tx;
        if self.filled > 0 {
            tx.advance(self.filled);
            (self.filled, self.free) = (0, 0);
        } else if tx.with_driver() == 0 {
            return Ok(());
        }
        self.queue.tx_sync()
    }

    /// Begins a turn (an iteration of the worker's loop). Forgets that frames of this queue waited
    /// for space in another queue, and that frames waited for space in this queue. If fewer than
    /// half of the tx slots are free, takes back the slots of sent frames.
    #[inline]
    fn begin_turn(&mut self) -> Result<(), RunError> {
        (self.is_blocked, self.is_short) = (false, false);
        let tx = self.queue.rings().tx;
        if tx.avail() >= tx.num_slots() / 2 { Ok(()) } else { self.queue.tx_sync() }
    }

    /// Returns whether the tx ring contains no frame that may still leave.
    fn is_idle(&mut self) -> bool {
        self.queued() == 0
    }

    /// Returns the number of slots with frames that have not left yet but may still leave.
    fn queued(&mut self) -> u32 {
        let published = if self.queue.is_gone() { 0 } else { self.queue.rings().tx.with_driver() };
        self.filled + published
    }
}

/// All queues of a worker, by index. They are one slice, so that several can be borrowed at the
/// same time.
pub struct WorkerQueues {
    queues: Vec<WorkerQueue>,
    /// The indices of the queues from which frames are taken.
    inputs: Vec<usize>,
    /// The input with which a turn begins, as a position in `inputs`.
    first: usize,
    /// Whether frames may be taken from the inputs.
    admits_frames: bool,
}

impl WorkerQueues {
    /// Makes a set of the queues of a worker.
    pub fn new(queues: impl IntoIterator<Item = WorkerQueue>) -> Self {
        let queues: Vec<_> = queues.into_iter().collect();
        let inputs = (0..queues.len()).filter(|&at| queues[at].is_input).collect();
        Self { queues, inputs, first: 0, admits_frames: true }
    }

    /// Returns the rx ring of one queue and the tx ring of another one, which may also be the same.
    #[inline]
    pub fn ring_pair(&mut self, from: usize, to: usize) -> (&mut RxRing, &mut TxRing) {
        if from == to {
            let rings = self.queues[from].queue.rings();
            return (rings.rx, rings.tx);
        }
        let pair = self.queues.get_disjoint_mut([from, to]);
        let [source, target] = pair.expect("a worker has the queues that it forwards between");
        (source.queue.rings().rx, target.queue.rings().tx)
    }

    /// Sends a frame through queue `to`: the first `len` bytes in slot `at` of the rx ring of queue
    /// `from`. If both rings are in one region, exchanges the two buffers; otherwise copies the
    /// frame. If there is no space, changes nothing and returns false.
    #[inline]
    pub fn swap_frame(&mut self, from: usize, at: u32, to: usize, len: usize) -> bool {
        if !self.queues[to].has_room(1) {
            return false;
        }
        let slot = self.queues[to].filled;
        let (rx, tx) = self.ring_pair(from, to);
        if !rx.swap(at, tx, slot) {
            tx.write_copy(slot, rx, at, SlotFlags::default());
        }
        tx.set(slot, len, SlotFlags::BUF_CHANGED);
        self.queues[to].consume(1);
        true
    }

    /// Hands the frame in the slots `at..at + slots` of the rx ring of `from` over to the thread at
    /// the other end of the pipe `to`, by exchanging buffers if possible, otherwise by a copy. The
    /// receiver also gets `word`. If there is no space, changes nothing and returns false.
    pub fn hand_over(&mut self, from: usize, at: u32, slots: u32, to: usize, word: u64) -> bool {
        if from == to {
            // The frame goes back to the thread that has handed it over. Both rings belong to one
            // queue, so the frame is copied.
            let mut scratch = Vec::new();
            let rx = self.queues[from].rx();
            let frame = crate::slots::bytes(rx, at, slots, &mut scratch).to_vec();
            return self.hand_over_copy(&frame, to, word);
        }
        let pair = self.queues.get_disjoint_mut([from, to]);
        let [source, pipe] = pair.expect("a worker has the queues that it forwards between");
        let first = pipe.filled;
        let is_sent = pipe.forward_frame(source.queue.rings().rx, at, slots, true);
        if is_sent {
            pipe.queue.rings().tx.set_word(first, word);
        }
        is_sent
    }

    /// Hands a copy of a frame over to the thread at the other end of the pipe `to`, with a word
    /// about it. If there is no space, changes nothing and returns false.
    pub fn hand_over_copy(&mut self, frame: &[u8], to: usize, word: u64) -> bool {
        let pipe = &mut self.queues[to];
        let first = pipe.filled;
        let is_sent = pipe.copy_frame(frame);
        if is_sent {
            pipe.queue.rings().tx.set_word(first, word);
        }
        is_sent
    }

    /// Returns whether at least one input is exhausted: it will deliver no more frames, and all its
    /// frames were taken.
    pub fn is_any_exhausted(&mut self) -> bool {
        let Self { queues, inputs, .. } = self;
        inputs.iter().any(|&at| queues[at].is_exhausted())
    }

    /// Returns whether all inputs are exhausted: they will deliver no more frames, and all their
    /// frames were taken.
    pub fn are_all_exhausted(&mut self) -> bool {
        let Self { queues, inputs, .. } = self;
        inputs.iter().all(|&at| queues[at].is_exhausted())
    }

    /// Publishes the filled slots of all queues, also after one that fails. Returns the first
    /// error.
    #[inline]
    pub fn flush(&mut self) -> Result<(), RunError> {
        let mut flushed = Ok(());
        for queue in &mut self.queues {
            if let Err(error) = queue.flush() {
                flushed = flushed.and(Err(error));
            }
        }
        flushed
    }

    pub(crate) fn all(&self) -> Vec<&dyn Queue> {
        self.queues.iter().map(|queue| &*queue.queue).collect()
    }

    /// Sets whether frames may be taken from the inputs. As long as they may not, frames do not end
    /// a wait.
    pub(crate) fn admit(&mut self, admits_frames: bool) {
        self.admits_frames = admits_frames;
    }

    #[inline]
    pub(crate) fn begin_turn(&mut self) -> Result<(), RunError> {
        self.queues.iter_mut().try_for_each(WorkerQueue::begin_turn)
    }

    pub(crate) fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the index of the queue that is served at `position` of the turn. The position is
    /// counted from 0.
    #[inline]
    pub(crate) fn input_at(&self, position: usize) -> usize {
        let (at, count) = (self.first + position, self.inputs.len());
        self.inputs[if at < count { at } else { at - count }]
    }

    /// Ends a turn. If an input other than the one with which this turn began is blocked, the next
    /// turn begins with that input. So inputs with a common output are served alternately.
    #[inline]
    pub(crate) fn end_turn(&mut self) {
        let count = self.inputs.len();
        let is_blocked = |step: &usize| self.queues[self.input_at(*step)].is_blocked;
        if let Some(step) = (1..count).find(is_blocked) {
            self.first = (self.first + step) % count;
        }
    }

    /// Returns whether the devices and peers have taken all frames that were sent, except frames at
    /// lost ports.
    pub fn is_idle(&mut self) -> bool {
        self.queues.iter_mut().all(WorkerQueue::is_idle)
    }

    /// Returns the number of slots with frames that have not left yet but may still leave.
    pub(crate) fn queued(&mut self) -> u64 {
        self.queues.iter_mut().map(|queue| u64::from(queue.queued())).sum()
    }

    /// Counts the frames that have not left as dropped, because the program ends
    /// ([`DropCause::TxUnsent`]).
    pub fn count_unsent(&mut self) {
        for WorkerQueue { queue, .. } in &mut self.queues {
            let unsent = queue.unsent();
            queue.counters().dropped(DropCause::TxUnsent, unsent);
        }
    }

    pub(crate) fn update_stats(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.queue.update_stats());
    }
}

impl Deref for WorkerQueues {
    type Target = [WorkerQueue];

    fn deref(&self) -> &[WorkerQueue] {
        &self.queues
    }
}

impl DerefMut for WorkerQueues {
    fn deref_mut(&mut self) -> &mut [WorkerQueue] {
        &mut self.queues
    }
}

/// Waits for frames at the inputs that are not blocked, and for space in those queues for which
/// frames wait.
impl WaitSet for WorkerQueues {
    fn each(&mut self, visit: QueueVisitor<'_>) -> Result<(), RunError> {
        let admits_frames = self.admits_frames;
        self.queues.iter_mut().try_for_each(|queue| {
            let rx = queue.is_input && !queue.is_blocked && admits_frames;
            visit(&mut *queue.queue, Interest { rx, tx: queue.is_short })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::{bytes, slots_of};
    use slipring_core::Host;
    use slipring_port::{OpenOptions, Port};

    /// Opens both ends of two pipes, in one region. A test sends into the first pipe and receives
    /// from the second one.
    fn pipes(name: &str) -> [Port; 4] {
        let names = ["{0", "}0", "{1", "}1"].map(|end| format!("{name}{end}"));
        let names = names.map(|name| slipring_core::parse(&name).unwrap());
        let options = OpenOptions { slots: 64, ..OpenOptions::default() };
        Host::new().open_all(&names, &options).unwrap().try_into().unwrap()
    }

    fn received(port: &mut Port) -> Vec<Vec<u8>> {
        port.rx_sync().unwrap();
        let mut frames = Vec::new();
        let rx = port.queues[0].rings().rx;
        while rx.packet(&mut Vec::new(), |frame| frames.push(frame.to_vec())).is_some() {}
        frames
    }

    #[test]
    fn frames_of_several_slots_pass_whole_by_exchange_and_by_copy() {
        let [mut source, mut inlet, mut outlet, mut sink] = pipes("slots");
        let sent: Vec<Vec<u8>> =
            [60usize, 5000, 2048, 2049, 9000].iter().map(|&len| vec![len as u8; len]).collect();
        let mut outbox = WorkerQueue::output(outlet.queues.remove(0));
        for may_swap in [true, false] {
            for frame in &sent {
                assert!(source.queues[0].rings().tx.push(frame));
            }
            source.tx_sync().unwrap();
            inlet.rx_sync().unwrap();
            let rx = inlet.queues[0].rings().rx;
            let (end, mut at, mut scratch) = (rx.avail(), 0, Vec::new());
            for frame in &sent {
                let slots = slots_of(rx, at, end);
                assert_eq!(bytes(rx, at, slots, &mut scratch), &frame[..]);
                assert!(outbox.forward_frame(rx, at, slots, may_swap));
                at += slots;
            }
            assert_eq!(at, end);
            rx.advance(at);
            outbox.flush().unwrap();
            assert_eq!(received(&mut sink), sent);
            outbox.flush().unwrap();
            inlet.rx_sync().unwrap();
            source.tx_sync().unwrap();
        }
    }

    #[test]
    fn a_frame_that_does_not_fit_whole_is_not_begun() {
        let [_, _, mut outlet, mut sink] = pipes("room");
        let mut outbox = WorkerQueue::output(outlet.queues.remove(0));
        assert!((0..62).all(|_| outbox.copy_frame(&[1; 60])));
        assert!(!outbox.copy_frame(&[2; 3000]));
        assert!(outbox.copy_frame(&[3; 60]));
        assert!(!outbox.copy_frame(&[4; 60]));
        outbox.flush().unwrap();
        assert_eq!(received(&mut sink).len(), 63);
        sink.rx_sync().unwrap();
        assert!(!outbox.is_idle());
        outbox.flush().unwrap();
        assert!(outbox.is_idle() && outbox.copy_frame(&[2; 3000]));
    }

    #[test]
    fn a_frame_goes_back_by_the_pipe_by_which_it_came_with_its_word() {
        let [mut other, mut pipe, ..] = pipes("back");
        let mut queues = WorkerQueues::new(vec![WorkerQueue::input(pipe.queues.remove(0))]);
        for frame in [vec![1; 60], vec![2; 5000]] {
            assert!(other.queues[0].rings().tx.push(&frame));
            other.tx_sync().unwrap();
            queues[0].queue.rx_sync().unwrap();
            let rx = queues[0].rx();
            let end = rx.avail();
            let slots = slots_of(rx, 0, end);
            assert!(queues.hand_over(0, 0, slots, 0, 7));
            queues[0].rx().advance(slots);
            queues.flush().unwrap();
            other.rx_sync().unwrap();
            let rx = other.queues[0].rings().rx;
            assert_eq!((rx.avail(), rx.word(0)), (slots, Some(7)));
            assert_eq!(received(&mut other), [frame]);
        }
    }
}
