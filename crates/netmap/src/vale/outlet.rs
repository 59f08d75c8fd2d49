//! A ring that a switch delivers to: an rx ring of a program, or a tx ring of an interface.
//!
//! Several senders copy into one ring at the same time. Each takes a run of free slots (a lease),
//! copies without any lock, and hands the run back; what is visible grows up to the first run that
//! is not finished, and whoever finishes that one publishes those behind it as well.
//!
//! ```text
//!   slots   | the program's | lease 1 | lease 2 (done) | lease 3 | free |
//!                            ^ tail: moves behind lease 2 when lease 1 is done
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use slipring_ring::{KernRing, RingView, Slot, SlotFlags, SlotIdx};
use slipring_switch::{Delivered, Destination, FrameCopy, Tag};

use crate::adapter::{Adapter, Dir, Synced};
use crate::domain::lock;
use crate::taps::Taps;
use crate::vale::edit::Edit;
use crate::vale::finish::finished;
use crate::vale::frames::Frames;
use crate::waker::Listeners;

/// The ring.
#[derive(Debug)]
pub(crate) struct Outlet {
    view: RingView,
    room: Mutex<Room>,
    /// The interface and its ring, where it is one.
    nic: Option<(Arc<dyn Adapter>, usize)>,
    /// Who else sees what a program receives, and the number of the ring.
    taps: Option<(Arc<Taps>, usize)>,
    /// Those who wait for frames, where it is a program's.
    pub(crate) listeners: Listeners,
}

/// Which slots are whose.
#[derive(Debug)]
struct Room {
    /// Our half of a program's ring; of an interface's ring we are the program.
    kern: Option<KernRing>,
    /// First slot that nobody has taken.
    next: SlotIdx,
    leases: VecDeque<Lease>,
    /// Number of the first lease in the list.
    first: u64,
}

#[derive(Debug)]
struct Lease {
    /// First slot behind it.
    end: SlotIdx,
    done: bool,
}

/// A run of slots to be filled.
struct Run {
    start: SlotIdx,
    number: u64,
    count: u32,
}

/// Where frames come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'s> {
    pub(crate) ring: &'s RingView,
    pub(crate) frames: &'s Frames,
    /// Bytes of the virtio-net header before each.
    pub(crate) vnet: usize,
}

impl Outlet {
    /// A program's rx ring; `taps` see what comes there as a ring of that number.
    pub(crate) fn of_program(kern: KernRing, taps: (Arc<Taps>, usize)) -> Self {
        let (view, next) = (kern.view(), kern.hwtail());
        Self { taps: Some(taps), ..Self::new(view, Some(kern), next, None) }
    }

    /// A tx ring of an interface; `None` if it has no such ring.
    pub(crate) fn of_nic(nic: &Arc<dyn Adapter>, i: usize) -> Option<Self> {
        let view = nic.ring(Dir::Tx, i)?.clone();
        let next = view.head().min(view.num_slots() - 1);
        Some(Self::new(view, None, next, Some((nic.clone(), i))))
    }

    fn new(
        view: RingView,
        kern: Option<KernRing>,
        next: SlotIdx,
        nic: Option<(Arc<dyn Adapter>, usize)>,
    ) -> Self {
        let room = Room { kern, next, leases: VecDeque::new(), first: 0 };
        Self { view, room: Mutex::new(room), nic, taps: None, listeners: Listeners::default() }
    }

    pub(crate) fn view(&self) -> &RingView {
        &self.view
    }

    /// Takes back what the program has read. A sender that has the ring at the moment does so too.
    pub(crate) fn sync(&self) -> Synced {
        let Ok(mut room) = self.room.try_lock() else { return Synced::Busy };
        let Some(kern) = &mut room.kern else { return Synced::Done };
        let Ok(head) = kern.released() else { return Synced::Reinit };
        kern.done_to(head);
        let tail = kern.hwtail();
        kern.set_tail(tail);
        Synced::Done
    }

    /// Copies the frames of a destination, as many as there is room for; what got there.
    pub(crate) fn deliver(
        &self,
        source: Source<'_>,
        dest: &Destination<'_>,
        vnet: usize,
    ) -> Delivered {
        let whole = !source.frames.is_fragmented() && source.vnet == vnet;
        let simple = whole && (dest.is_as_is() || dest.copies().all(|one| one.tag == Tag::Keep));
        let plan = Plan { outlet: self, source, vnet };
        if source.vnet > 0 && source.vnet != vnet && dest.copies().any(|one| plan.asks(one)) {
            return self.deliver_finished(plan, dest);
        }
        let wanted = |room: u32| match simple {
            true => dest.packets().min(room),
            false => plan.slots_within(dest.copies(), room),
        };
        let Some(run) = self.lease(wanted) else { return Delivered::default() };
        let delivered = match simple {
            true => plan.copy_simple(&run, dest.copies()),
            false => plan.copy_all(&run, dest.copies()),
        };
        self.publish(&run);
        delivered
    }

    /// As [`Self::deliver`], where what the sender's virtio-net headers ask for has to be done.
    #[cold]
    fn deliver_finished(&self, plan: Plan<'_>, dest: &Destination<'_>) -> Delivered {
        let frames: Vec<_> = dest.copies().map(|copy| (copy.len, plan.finished(copy))).collect();
        let fitting = |room: u32| {
            let mut left = room;
            let fits = frames.iter().map_while(|(_, parts)| {
                left = left.checked_sub(plan.slots_of(parts))?;
                Some(plan.slots_of(parts))
            });
            fits.sum()
        };
        let Some(run) = self.lease(fitting) else { return Delivered::default() };
        let (mut at, mut left, mut delivered) = (run.start, run.count, Delivered::default());
        for (len, parts) in &frames {
            let Some(rest) = left.checked_sub(plan.slots_of(parts)) else { break };
            at = parts.iter().fold(at, |at, part| plan.write(at, part));
            left = rest;
            // What could not be finished is lost.
            delivered.packets += u32::from(!parts.is_empty());
            delivered.bytes += if parts.is_empty() { 0 } else { u64::from(*len) };
        }
        self.publish(&run);
        delivered
    }

    /// Takes as many slots as `wanted` says, given how many are free.
    fn lease(&self, wanted: impl Fn(u32) -> u32) -> Option<Run> {
        let mut room = lock(&self.room);
        let mut count = wanted(room.free(&self.view));
        if count == 0
            && let Some((nic, i)) = &self.nic
        {
            // What was sent may have left by now.
            nic.sync(Dir::Tx, *i);
            count = wanted(room.free(&self.view));
        }
        (count > 0).then(|| room.take(count, self.view.num_slots()))
    }

    fn publish(&self, run: &Run) {
        let mut room = lock(&self.room);
        let published = room.finish(run, &self.view, self.taps.as_ref());
        drop(room);
        if !published {
            return;
        }
        match &self.nic {
            Some((nic, i)) => {
                nic.sync(Dir::Tx, *i);
            }
            None => self.listeners.wake(),
        }
    }
}

impl Room {
    fn free(&mut self, view: &RingView) -> u32 {
        let n = view.num_slots();
        match &mut self.kern {
            Some(kern) => {
                let Ok(head) = kern.released() else { return 0 };
                kern.done_to(head);
                n - 1 - distance(head, self.next, n)
            }
            // Written by our own driver; a client of the same user can write to it, too.
            None => distance(self.next, view.tail().min(n - 1), n),
        }
    }

    fn take(&mut self, count: u32, num_slots: u32) -> Run {
        let start = self.next;
        let end = start + count;
        self.next = if end >= num_slots { end - num_slots } else { end };
        self.leases.push_back(Lease { end: self.next, done: false });
        Run { start, number: self.first + self.leases.len() as u64 - 1, count }
    }

    /// Whether more can be seen now.
    fn finish(&mut self, run: &Run, view: &RingView, taps: Option<&(Arc<Taps>, usize)>) -> bool {
        let at = (run.number - self.first) as usize;
        self.leases[at].done = true;
        let mut end = None;
        while let Some(lease) = self.leases.pop_front_if(|lease| lease.done) {
            self.first += 1;
            end = Some(lease.end);
        }
        let Some(end) = end else { return false };
        match &mut self.kern {
            Some(kern) => {
                if let Some((taps, ring)) = taps {
                    taps.see(Dir::Rx, *ring, view, kern.hwtail(), end);
                }
                kern.set_tail(end);
            }
            None => view.advance_to(end),
        }
        true
    }
}

fn distance(from: SlotIdx, to: SlotIdx, n: u32) -> u32 {
    if to >= from { to - from } else { to + n - from }
}

/// How frames get from one ring to another.
#[derive(Clone, Copy)]
struct Plan<'p> {
    outlet: &'p Outlet,
    source: Source<'p>,
    vnet: usize,
}

impl Plan<'_> {
    fn buf_size(&self) -> usize {
        self.outlet.view.region().buf_size() as usize
    }

    fn edit(&self, copy: FrameCopy) -> Edit {
        let slots = self.source.frames.slots(copy.slots);
        Edit::new(self.source.ring, slots, copy.tag, (self.source.vnet, self.vnet))
    }

    /// Slots of those frames that fit into `room`.
    fn slots_within(&self, copies: impl Iterator<Item = FrameCopy>, room: u32) -> u32 {
        let mut taken = 0;
        for copy in copies {
            let slots = self.source.frames.slots(copy.slots);
            let count = self.edit(copy).slots(slots, self.buf_size());
            if taken + count > room {
                break;
            }
            taken += count;
        }
        taken
    }

    /// Frames of one slot each, as they are.
    fn copy_simple(&self, run: &Run, copies: impl Iterator<Item = FrameCopy>) -> Delivered {
        let (view, n) = (&self.outlet.view, self.outlet.view.num_slots());
        let (mut at, mut delivered) = (run.start, Delivered::default());
        for copy in copies.take(run.count as usize) {
            let (from, line) = self.source.frames.single(copy.slots);
            let (buf, len) = (view.slot(at).buf, usize::from(from.len));
            // A whole line where there is one: cheaper than to look how much of it counts.
            let short = len.min(line.len());
            view.region().copy_in(buf, &line[..short.next_multiple_of(8)]);
            let mut len = short;
            if usize::from(from.len) > short {
                let rest = usize::from(from.len) - short;
                len += view.copy((buf, short), self.source.ring, (from.buf, short), rest);
            }
            view.set_slot(at, Slot { buf, len: len as u16, flags: SlotFlags::default() });
            at = if at + 1 == n { 0 } else { at + 1 };
            delivered.packets += 1;
            delivered.bytes += len as u64;
        }
        delivered
    }

    /// Frames of any kind.
    fn copy_all(&self, run: &Run, copies: impl Iterator<Item = FrameCopy>) -> Delivered {
        let (mut at, mut left, mut delivered) = (run.start, run.count, Delivered::default());
        for copy in copies {
            let (edit, slots) = (self.edit(copy), self.source.frames.slots(copy.slots));
            let count = edit.slots(slots, self.buf_size());
            if count > left {
                break;
            }
            at = self.copy_frame(at, count, &edit, slots);
            left -= count;
            delivered.packets += 1;
            delivered.bytes += u64::from(copy.len);
        }
        delivered
    }

    /// One frame into `count` slots from `at` on; the slot behind them.
    fn copy_frame(&self, at: SlotIdx, count: u32, edit: &Edit, slots: &[Slot]) -> SlotIdx {
        let (view, n) = (&self.outlet.view, self.outlet.view.num_slots());
        let place = |i: u32| if at + i >= n { at + i - n } else { at + i };
        if let Some(head) = edit.head() {
            view.region().copy_in(view.slot(at).buf, head);
        }
        edit.each_part(slots, self.buf_size(), |part| {
            let to = (view.slot(place(part.slot)).buf, part.at);
            view.copy(to, self.source.ring, (part.from.buf, part.from_at), part.len);
        });
        // A program is told how many fragments there are.
        let shown = if self.outlet.nic.is_none() && count > 1 { count << 8 } else { 0 };
        let more = |i: u32| if i + 1 < count { SlotFlags::MOREFRAG.0 } else { 0 };
        edit.each_len(slots, self.buf_size(), |i, len| {
            let buf = view.slot(place(i)).buf;
            let flags = SlotFlags(shown as u16 | more(i));
            view.set_slot(place(i), Slot { buf, len: len as u16, flags });
        });
        place(count)
    }

    /// Whether a frame's virtio-net header may ask for anything, or has to be kept.
    fn asks(&self, copy: FrameCopy) -> bool {
        let mut flags = [0; 2];
        let first = self.source.frames.slots(copy.slots).first();
        let whole = first.filter(|slot| usize::from(slot.len) >= flags.len());
        let Some(slot) = whole else { return true };
        self.source.ring.region().copy_out(slot.buf, &mut flags);
        self.vnet > 0 || flags != [0; 2]
    }

    /// What the receiver gets of a frame; nothing if that cannot be made.
    fn finished(&self, copy: FrameCopy) -> Vec<Vec<u8>> {
        let slots = self.source.frames.slots(copy.slots);
        let vnet = (self.source.vnet, self.vnet);
        finished(self.source.ring, slots, copy.tag, vnet).unwrap_or_default()
    }

    fn slots_of(&self, frames: &[Vec<u8>]) -> u32 {
        frames.iter().map(|frame| frame.len().div_ceil(self.buf_size()) as u32).sum()
    }

    /// Writes a frame into slots from `at` on; the slot behind them.
    fn write(&self, mut at: SlotIdx, frame: &[u8]) -> SlotIdx {
        let view = &self.outlet.view;
        let count = frame.len().div_ceil(self.buf_size());
        let shown = if self.outlet.nic.is_none() && count > 1 { (count as u16) << 8 } else { 0 };
        for (i, part) in frame.chunks(self.buf_size()).enumerate() {
            let buf = view.slot(at).buf;
            view.region().copy_in(buf, part);
            let more = if i + 1 < count { SlotFlags::MOREFRAG.0 } else { 0 };
            let flags = SlotFlags(shown | more);
            view.set_slot(at, Slot { buf, len: part.len() as u16, flags });
            at = if at + 1 == view.num_slots() { 0 } else { at + 1 };
        }
        at
    }
}
