//! The loop of a firewall's thread: from the rings of all ports through the rules and back.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::thread::set_current_timer_slack;
use slipring_ipfw::run::{Frames, LogEvent, PortId};
use slipring_port::{Interest, Queue, RunError, Visit, WaitSet, now};
use slipring_program::mover::{LONGEST_SLEEP, Mover};
use slipring_program::slots::{Outbox, bytes, slots_of, whole_frames};
use slipring_ring::{RxRing, SlotFlags};

use crate::board::Board;
use crate::join::{Join, Loss, Nanos, Outlet};
use crate::mail::Mail;
use crate::shared::Shared;
use crate::ways::Aside;

/// How long before a frame is due a sleep ends; what is left is spun.
const WAKE_MARGIN: Nanos = 30_000;
/// How long frames may take to leave at the end.
const DRAIN: Nanos = 100_000_000;
/// Most frames that wait for room at a port.
const MOST_LATE: usize = 1024;

/// A port's queues, and frames that found no room there.
struct Side {
    queues: Vec<Outbox>,
    late: VecDeque<Vec<u8>>,
    /// A frame at another port waits for room here.
    is_awaited: bool,
    /// The port can send: a capture that is read cannot, nor can a monitor.
    sends: bool,
}

impl Side {
    fn new((queues, sends): (Vec<Box<dyn Queue>>, bool)) -> Self {
        let queues = queues.into_iter().map(Outbox::new).collect();
        Self { queues, late: VecDeque::new(), is_awaited: false, sends }
    }

    /// Sends a copy behind those that wait, if there are not too many.
    fn put(&mut self, frame: &[u8]) -> Result<(), Loss> {
        if !self.sends {
            return Err(Loss::NoTx);
        }
        if self.late.is_empty() && self.queues[0].put(frame) {
            return Ok(());
        }
        if self.late.len() == MOST_LATE {
            return Err(Loss::Full);
        }
        self.late.push_back(frame.to_vec());
        Ok(())
    }

    fn send_late(&mut self) {
        while self.late.front().is_some_and(|frame| self.queues[0].put(frame)) {
            self.late.pop_front();
        }
    }

    fn has_room(&mut self, queue: usize, slots: u32) -> bool {
        let at = queue % self.queues.len();
        // What cannot be sent at all is not waited for.
        let fits = !self.sends || self.late.is_empty() && self.queues[at].has_room(slots);
        self.is_awaited |= !fits;
        fits
    }

    /// How many frames of one slot have room, of so many.
    fn room(&mut self, queue: usize, most: u32) -> u32 {
        let at = queue % self.queues.len();
        let room = match self.late.is_empty() {
            _ if !self.sends => most,
            true => self.queues[at].room(most),
            false => 0,
        };
        self.is_awaited |= room == 0;
        room
    }
}

/// The ports, for frames that no longer lie in a ring.
struct Ports<'s> {
    sides: &'s mut [Side],
    aside: &'s mut Aside,
}

impl Outlet for Ports<'_> {
    fn send(&mut self, port: PortId, frame: &[u8]) -> Result<(), Loss> {
        self.sides[usize::from(port)].put(frame)
    }

    fn log(&mut self, event: LogEvent) {
        self.aside.log(event);
    }

    fn is_watched(&self) -> bool {
        self.aside.is_watched()
    }

    fn unseen(&mut self, lines: u64) {
        self.aside.unseen(lines);
    }
}

/// Frames of one slot each, in an rx ring.
struct Singles<'r> {
    rx: &'r mut RxRing,
    first: u32,
}

impl Frames for Singles<'_> {
    #[inline]
    fn frame(&mut self, at: usize) -> &mut [u8] {
        self.rx.frame(self.first + at as u32).map_or(&mut [], |frame| frame.bytes)
    }
}

/// What one thread has.
pub(crate) struct Lane {
    sides: Vec<Side>,
    join: Join,
    mail: Arc<Mail>,
    board: Arc<Board>,
    aside: Aside,
    /// Slots taken at most at a time.
    burst: u32,
    may_swap: bool,
    /// By port: a frame waits there for room elsewhere.
    blocked: Vec<bool>,
    scratch: Vec<u8>,
    ways: Vec<Option<PortId>>,
    /// With other threads.
    shared: Option<Shared>,
    has_slack_set: bool,
    /// Frames have been let in.
    is_open: bool,
}

/// How frames are moved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) burst: u32,
    pub(crate) may_swap: bool,
}

impl Lane {
    /// A lane over the queues of each port, with whether that can send.
    pub(crate) fn new(
        ports: Vec<(Vec<Box<dyn Queue>>, bool)>,
        join: Join,
        (mail, board): (Arc<Mail>, Arc<Board>),
        aside: Aside,
        Manner { burst, may_swap }: Manner,
    ) -> Self {
        let sides: Vec<_> = ports.into_iter().map(Side::new).collect();
        let blocked = vec![false; sides.len()];
        Self {
            sides,
            join,
            mail,
            board,
            aside,
            burst,
            may_swap,
            blocked,
            scratch: Vec::new(),
            ways: Vec::new(),
            shared: None,
            has_slack_set: false,
            is_open: false,
        }
    }

    /// The same as one of several, to which another thread deals frames.
    pub(crate) fn sharing(mut self, shared: Shared) -> Self {
        self.shared = Some(shared);
        self
    }

    /// Shows the frames of one queue to the rules; how many slots they had.
    fn take_in(&mut self, from: usize, queue: usize, time: Nanos) -> u32 {
        let rx = self.sides[from].queues[queue].queue.rings().rx;
        let end = whole_frames(rx, self.burst);
        let mut at = 0;
        while at < end {
            let rx = self.sides[from].queues[queue].queue.rings().rx;
            let taken = match slots_of(rx, at, end) {
                1 => self.take_singles(from, queue, (at, end), time),
                slots => self.take_long(from, queue, (at, slots), time),
            };
            if taken == 0 {
                self.blocked[from] = true;
                break;
            }
            at += taken;
        }
        if at > 0 {
            self.sides[from].queues[queue].queue.rings().rx.advance(at);
        }
        at
    }

    /// Shows frames of one slot to the rules, all that stand together and have room wherever they
    /// may go; how many.
    fn take_singles(
        &mut self,
        from: usize,
        queue: usize,
        (at, end): (u32, u32),
        time: Nanos,
    ) -> u32 {
        let Self { sides, join, aside, ways, .. } = self;
        let rx = sides[from].queues[queue].queue.rings().rx;
        let more = |i: u32| rx.slot(i).is_some_and(|slot| slot.flags.has(SlotFlags::MOREFRAG));
        let together = (at..end).take_while(|&i| !more(i)).count() as u32;
        let targets = join.map().targets(from as PortId);
        let room = |most, &to: &PortId| sides[usize::from(to)].room(queue, most);
        let count = targets.iter().fold(together, room);
        if count == 0 {
            return 0;
        }
        let rx = sides[from].queues[queue].queue.rings().rx;
        let mut frames = Singles { rx, first: at };
        let came = (from as PortId, time);
        join.offer_all(&mut frames, count as usize, came, aside, ways);
        let ways = std::mem::take(&mut self.ways);
        for (at, way) in (at..).zip(&ways) {
            way.iter().for_each(|&to| self.pass(from, queue, (at, 1), usize::from(to)));
        }
        self.ways = ways;
        if !self.aside.frames.is_empty() {
            self.send_aside();
        }
        count
    }

    /// The same with a frame of several slots: its slots, or 0 where it has no room.
    fn take_long(
        &mut self,
        from: usize,
        queue: usize,
        (at, slots): (u32, u32),
        time: Nanos,
    ) -> u32 {
        if !self.may_pass(from, queue, slots) {
            return 0;
        }
        let Self { sides, join, aside, scratch, .. } = self;
        let rx = sides[from].queues[queue].queue.rings().rx;
        bytes(rx, at, slots, scratch);
        if let Some(to) = join.offer(scratch, from as PortId, time, aside) {
            self.pass(from, queue, (at, slots), usize::from(to));
        }
        if !self.aside.frames.is_empty() {
            self.send_aside();
        }
        slots
    }

    /// Whether there is room wherever a frame of this port goes.
    fn may_pass(&mut self, from: usize, queue: usize, slots: u32) -> bool {
        let Self { join, sides, .. } = self;
        let targets = join.map().targets(from as PortId);
        targets.iter().all(|&to| sides[usize::from(to)].has_room(queue, slots))
    }

    /// Sends a frame of an rx ring on: its buffer, where that is possible.
    fn pass(&mut self, from: usize, queue: usize, (at, slots): (u32, u32), to: usize) {
        // Frames in several slots may have been changed where they were gathered.
        let Ok([source, target]) = self.sides.get_disjoint_mut([from, to]) else {
            return self.pass_copy(from, queue, (at, slots), to);
        };
        let rx = source.queues[queue].queue.rings().rx;
        let out = queue % target.queues.len();
        let is_direct = slots == 1 && target.late.is_empty() && target.sends;
        if !is_direct || !target.queues[out].take(rx, at, slots, self.may_swap) {
            self.pass_copy(from, queue, (at, slots), to);
        }
    }

    fn pass_copy(&mut self, from: usize, queue: usize, (at, slots): (u32, u32), to: usize) {
        if slots == 1 {
            let rx = self.sides[from].queues[queue].queue.rings().rx;
            self.scratch.clear();
            self.scratch.extend_from_slice(rx.frame(at).map_or(&[], |frame| frame.bytes));
        }
        if let Err(why) = self.sides[to].put(&self.scratch) {
            self.join.was_not_sent(why);
        }
    }

    fn send_aside(&mut self) {
        for (port, frame) in self.aside.frames.drain(..) {
            if let Err(why) = self.sides[usize::from(port)].put(&frame) {
                self.join.was_not_sent(why);
            }
        }
    }

    /// Does what other threads asked for.
    fn read_mail(&mut self, time: Nanos) {
        for letter in self.mail.take() {
            letter(&mut self.join, &mut self.aside, time);
        }
        self.send_aside();
    }

    fn run_due(&mut self, time: Nanos) {
        let Self { sides, join, aside, .. } = self;
        if join.next_ns().is_some_and(|due| due <= time) {
            join.run(time, &mut Ports { sides, aside });
        }
    }

    fn flush(&mut self) -> Result<(), RunError> {
        self.sides.iter_mut().flat_map(|side| &mut side.queues).try_for_each(Outbox::flush)
    }

    fn late(&self) -> u64 {
        self.sides.iter().map(|side| side.late.len() as u64).sum()
    }

    /// Passes one burst of each queue on, and what was due.
    fn pass_on(&mut self) -> Result<u32, RunError> {
        for side in &mut self.sides {
            side.queues.iter_mut().try_for_each(Outbox::reclaim)?;
            side.is_awaited = false;
            side.send_late();
        }
        self.blocked.fill(false);
        let mut moved = 0;
        for from in 0..self.sides.len() {
            for queue in 0..self.sides[from].queues.len() {
                self.sides[from].queues[queue].queue.rx_sync()?;
                moved += self.take_in(from, queue, now());
            }
        }
        self.run_due(now());
        if let Some(shared) = &self.shared {
            shared.exchange(&mut self.join);
        }
        self.flush()?;
        Ok(moved)
    }
}

impl Mover for Lane {
    fn queues(&self) -> Vec<&dyn Queue> {
        let boxes = self.sides.iter().flat_map(|side| &side.queues);
        boxes.map(|outbox| outbox.queue.as_ref()).collect()
    }

    /// Reads letters, and passes frames on once they may be taken.
    fn step(&mut self) -> Result<u32, RunError> {
        self.read_mail(now());
        if !self.mail.has_begun() {
            return Ok(0);
        }
        if !self.is_open {
            self.is_open = true;
            self.shared.iter().for_each(|shared| shared.common.begin());
        }
        let moved = self.pass_on();
        // Also of a step that a lost port ends.
        self.board.publish(&self.join, self.late());
        moved
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        Some(self.mail.as_fd())
    }

    fn before_wait(&mut self) -> Duration {
        if !self.has_slack_set {
            // Without it the kernel may end each sleep up to 50 us late.
            let _ = set_current_timer_slack(NonZeroU64::new(1));
            self.has_slack_set = true;
        }
        let due = self.join.next_ns().unwrap_or(Nanos::MAX).saturating_sub(WAKE_MARGIN);
        Duration::from_nanos(due.saturating_sub(now())).min(LONGEST_SLEEP)
    }

    /// Whether a port will bring no more frames, and those that came have left.
    fn ended(&mut self) -> bool {
        let mut boxes = self.sides.iter_mut().flat_map(|side| &mut side.queues);
        let ended = match &self.shared {
            Some(shared) => {
                // What was dealt out before the end was said is there after a sync.
                let is_read = |outbox: &mut Outbox| {
                    outbox.queue.rx_sync().is_err() || outbox.queue.rings().rx.avail() == 0
                };
                shared.is_over() && boxes.all(is_read)
            }
            None => {
                boxes.any(|outbox| outbox.queue.ended() && outbox.queue.rings().rx.avail() == 0)
            }
        };
        ended && self.mail.has_begun() && self.join.is_empty() && self.late() == 0
    }

    /// Lets frames that are on their way out leave, for a bounded time. Those in pipes stay there.
    fn drain(&mut self) -> Result<(), RunError> {
        self.mail.close();
        let until = now() + DRAIN;
        loop {
            self.sides.iter_mut().for_each(Side::send_late);
            self.flush()?;
            let mut boxes = self.sides.iter_mut().flat_map(|side| &mut side.queues);
            if (boxes.all(Outbox::is_idle) && self.late() == 0) || now() >= until {
                break;
            }
        }
        self.update_stats();
        self.board.publish(&self.join, self.late());
        if let Some(shared) = &self.shared {
            shared.common.say_done();
        }
        Ok(())
    }

    fn update_stats(&mut self) {
        let boxes = self.sides.iter_mut().flat_map(|side| &mut side.queues);
        boxes.for_each(|outbox| outbox.queue.update_stats());
    }
}

impl WaitSet for Lane {
    fn each(&mut self, visit: Visit<'_>) -> Result<(), RunError> {
        let has_begun = self.mail.has_begun();
        for (side, &blocked) in self.sides.iter_mut().zip(&self.blocked) {
            let tx = side.is_awaited || !side.late.is_empty();
            let interest = Interest { rx: !blocked && has_begun, tx };
            side.queues.iter_mut().try_for_each(|outbox| visit(&mut *outbox.queue, interest))?;
        }
        Ok(())
    }
}
