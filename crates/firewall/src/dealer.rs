//! Deals frames out among the threads that check them, and sends what they pass on.
//!
//! ```text
//!   port 1 --> hash of both addresses --> pipe to thread 1, 2, … --> Lane --> pipe back --> port 2
//! ```
//!
//! # What needed a decision
//! - **What stays together.** All frames between two addresses, both ways: a fragment has no ports, so
//!   only then do `reass`, the states of fragmented flows and ICMP agree with what one thread would do.
//! - **Waiting.** A frame whose thread has no room waits in the ring of its port, and those behind
//!   it do, as with one thread.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use slipring_balance::Spread;
use slipring_port::{Interest, Nanos, Queue, RunError, Visit, WaitSet, now};
use slipring_program::mover::Mover;
use slipring_program::slots::{Outbox, slots_of, whole_frames};
use slipring_wire::assigned::IpProto;
use slipring_wire::flow::{Endpoint, FlowKind};
use slipring_wire::{FlowHasher, FlowKey};

use crate::lane::Manner;
use crate::mail::Mail;
use crate::shared::Common;

/// How long frames may take to leave at the end.
const DRAIN: Nanos = 100_000_000;

/// Those of one port.
pub(crate) type Queues = Vec<Box<dyn Queue>>;

/// A port, and a pipe to each thread.
struct Side {
    queues: Vec<Outbox>,
    hands: Vec<Outbox>,
    /// A frame waits in a queue for room in a pipe.
    is_held: bool,
    /// A frame waits in a pipe for room in a queue.
    is_full: bool,
}

/// Which thread checks the frames between two hosts.
#[derive(Clone)]
pub(crate) struct Dealing {
    hasher: FlowHasher,
    spread: Spread,
}

impl Dealing {
    /// Among so many threads; nobody who does not know `secret` can tell which one it will be.
    pub(crate) fn new(secret: u64, threads: u16) -> Self {
        let hasher = FlowHasher::new([secret, !secret]).symmetric();
        Self { hasher, spread: Spread::even(threads) }
    }

    /// The thread of a frame.
    pub(crate) fn thread_of(&self, frame: &[u8]) -> usize {
        self.thread_by(self.hasher.hash(&between(frame)))
    }

    fn thread_by(&self, hash: u64) -> usize {
        self.spread.output(hash)
    }
}

/// See the module.
pub(crate) struct Dealer {
    sides: Vec<Side>,
    dealing: Dealing,
    manner: Manner,
    common: Arc<Common>,
    mails: Vec<Arc<Mail>>,
}

impl Dealer {
    /// Between `ports`, each with its queues and the pipes of the threads, whose mail this is.
    pub(crate) fn new(
        ports: Vec<(Queues, Queues)>,
        secret: u64,
        manner: Manner,
        common: Arc<Common>,
        mails: Vec<Arc<Mail>>,
    ) -> Self {
        let outboxes = |queues: Queues| queues.into_iter().map(Outbox::new).collect();
        let side = |(queues, hands)| Side {
            queues: outboxes(queues),
            hands: outboxes(hands),
            is_held: false,
            is_full: false,
        };
        Self {
            sides: ports.into_iter().map(side).collect(),
            dealing: Dealing::new(secret, mails.len() as u16),
            manner,
            common,
            mails,
        }
    }

    /// Sends what threads have passed; how many slots.
    fn collect(&mut self) -> Result<u32, RunError> {
        let mut moved = 0;
        for side in &mut self.sides {
            moved += side.collect(self.manner)?;
        }
        Ok(moved)
    }

    fn flush(&mut self) -> Result<(), RunError> {
        self.boxes().try_for_each(Outbox::flush)
    }

    fn boxes(&mut self) -> impl Iterator<Item = &mut Outbox> {
        self.sides.iter_mut().flat_map(|side| side.queues.iter_mut().chain(&mut side.hands))
    }

    /// Whether threads have nothing more to send, and nothing of theirs is left here.
    fn has_all(&mut self) -> bool {
        // Before the last look: what was sent by then is there.
        let all_done = self.common.done() == self.mails.len() as u64;
        let is_read = |outbox: &mut Outbox| {
            outbox.queue.rx_sync().is_err() || outbox.queue.rings().rx.avail() == 0
        };
        all_done && self.sides.iter_mut().flat_map(|side| &mut side.hands).all(is_read)
    }
}

impl Side {
    /// Deals out the frames of a queue; how many slots.
    fn deal(&mut self, queue: usize, dealing: &Dealing, manner: Manner) -> Result<u32, RunError> {
        let Self { queues, hands, is_held, .. } = self;
        let source = &mut queues[queue].queue;
        source.rx_sync()?;
        let rx = source.rings().rx;
        let end = whole_frames(rx, manner.burst);
        let mut at = 0;
        while at < end {
            let slots = slots_of(rx, at, end);
            // Headers lie in the first slot.
            let frame = rx.frame(at);
            let thread =
                frame.map_or_else(|| dealing.thread_by(0), |frame| dealing.thread_of(frame.bytes));
            if !hands[thread].take(rx, at, slots, manner.may_swap) {
                *is_held = true;
                break;
            }
            at += slots;
        }
        rx.advance(at);
        Ok(at)
    }

    /// Sends what threads have passed to this port; how many slots.
    fn collect(&mut self, manner: Manner) -> Result<u32, RunError> {
        let Self { queues, hands, is_full, .. } = self;
        let (mut moved, count) = (0, queues.len());
        for (thread, hand) in hands.iter_mut().enumerate() {
            hand.queue.rx_sync()?;
            let rx = hand.queue.rings().rx;
            let (end, mut at) = (whole_frames(rx, manner.burst), 0);
            while at < end {
                let slots = slots_of(rx, at, end);
                if !queues[thread % count].take(rx, at, slots, manner.may_swap) {
                    *is_full = true;
                    break;
                }
                at += slots;
            }
            rx.advance(at);
            moved += at;
        }
        Ok(moved)
    }
}

/// What frames between two hosts have in common.
fn between(frame: &[u8]) -> FlowKey {
    let key = FlowKey::of(frame);
    let host = |end: Endpoint| Endpoint { port: 0, ..end };
    let any = IpProto(0);
    let kind = match key.kind {
        FlowKind::V4(_) => FlowKind::V4(any),
        FlowKind::V6(_) => FlowKind::V6(any),
        link @ FlowKind::Link(_) => link,
    };
    FlowKey { kind, vlans: 0, src: host(key.src), dst: host(key.dst) }
}

impl Mover for Dealer {
    fn queues(&self) -> Vec<&dyn Queue> {
        let boxes = self.sides.iter().flat_map(|side| side.queues.iter().chain(&side.hands));
        boxes.map(|outbox| outbox.queue.as_ref()).collect()
    }

    fn step(&mut self) -> Result<u32, RunError> {
        self.common.silence();
        if !self.common.has_begun() {
            return Ok(0);
        }
        self.boxes().try_for_each(Outbox::reclaim)?;
        for side in &mut self.sides {
            (side.is_held, side.is_full) = (false, false);
        }
        let mut moved = self.collect()?;
        let Self { sides, dealing, manner, .. } = self;
        for side in sides {
            for queue in 0..side.queues.len() {
                moved += side.deal(queue, dealing, *manner)?;
            }
        }
        self.flush()?;
        Ok(moved)
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        Some(self.common.bell())
    }

    /// Whether a port will bring no more frames, and those that came have left.
    fn ended(&mut self) -> bool {
        if !self.common.is_ending() {
            let mut queues = self.sides.iter_mut().flat_map(|side| &mut side.queues);
            if !queues.any(|outbox| outbox.queue.ended() && outbox.queue.rings().rx.avail() == 0) {
                return false;
            }
            self.common.end();
            self.mails.iter().for_each(|mail| mail.send(Box::new(|_, _, _| ())));
        }
        self.has_all()
    }

    fn update_stats(&mut self) {
        self.boxes().for_each(|outbox| outbox.queue.update_stats());
    }

    /// Sends what the threads still pass, for a bounded time.
    fn drain(&mut self) -> Result<(), RunError> {
        let until = now() + DRAIN;
        loop {
            self.collect()?;
            self.flush()?;
            let has_all = self.has_all();
            let mut queues = self.sides.iter_mut().flat_map(|side| &mut side.queues);
            if (has_all && queues.all(Outbox::is_idle)) || now() >= until {
                break;
            }
        }
        self.update_stats();
        Ok(())
    }
}

impl WaitSet for Dealer {
    fn each(&mut self, visit: Visit<'_>) -> Result<(), RunError> {
        let has_begun = self.common.has_begun();
        for side in &mut self.sides {
            let queue = Interest { rx: !side.is_held && has_begun, tx: side.is_full };
            let hand = Interest { rx: !side.is_full, tx: side.is_held };
            side.queues.iter_mut().try_for_each(|outbox| visit(&mut *outbox.queue, queue))?;
            side.hands.iter_mut().try_for_each(|outbox| visit(&mut *outbox.queue, hand))?;
        }
        Ok(())
    }
}
