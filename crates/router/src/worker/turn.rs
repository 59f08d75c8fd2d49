//! What a worker's loop does at one queue: sends up to 64 frames through the engine's stages.
//!
//! ```text
//!   rx slots --> [to another worker] -> parse -> [rules] -> police -> look up -> check sources
//!                   -> [rules] -> [left to the kernel] -> rewrite -> answer -> [rules: end]
//!                                                     verdict of each frame --> deliver.rs
//! ```
//! Stages in brackets exist only where they are configured. Some frames must be checked by another
//! worker; they leave before the first stage (`steer.rs`).

use slipring_datapath::queues::WorkerQueues;
use slipring_datapath::slots::{bytes, slots_of, whole_frames};
use slipring_fib::FibPortIndex;
use slipring_port::Nanos;
use slipring_ring::{RxRing, SlotFlags};
use slipring_route::{MAX_ROUTE_BATCH, RouteFrame};

use super::RouteWorker;
use super::deliver::BatchFrame;
use super::vlan_state::WorkerSubinterfaces;

impl RouteWorker {
    /// Takes a batch of frames from a queue. Returns the number of slots.
    pub(super) fn forward(
        &mut self,
        queues: &mut WorkerQueues,
        input: usize,
        now_ns: Nanos,
    ) -> u32 {
        let rx = queues[input].rx();
        let count = single_slot_frames(rx);
        if count == 0 {
            return self.forward_long(queues, input, now_ns);
        }
        let own = self.keep_own(queues, input, count);
        let rx = queues[input].rx();
        let ports = self.ports.ingresses(input, count, rx);
        if self.ports.of_queue[input].is_none() {
            ports[..count as usize].iter().for_each(|port| self.totals.count_in_pipe(*port, -1));
        }
        let mut lent = rx.batch(count);
        let mut slots = lent.frames().zip(ports).zip(0..).filter(|(_, at)| own & 1 << at != 0);
        let mut frames: [_; MAX_ROUTE_BATCH] = std::array::from_fn(|_| match slots.next() {
            Some(((frame, port), _)) => RouteFrame::new(frame.bytes, port),
            None => RouteFrame::new(&mut [], FibPortIndex(0)),
        });
        drop(slots);
        let left = self.decide(&mut frames[..own.count_ones() as usize], now_ns);
        lent.keep();
        for (of, at) in (0..count).filter(|at| own & 1 << at != 0).enumerate() {
            let is_left = left & 1 << of != 0;
            let source = BatchFrame::Slot { input, at, ingress: ports[at as usize] };
            self.deliver(queues, source, of, is_left, now_ns);
        }
        queues[input].rx().advance(count);
        self.totals.frames += u64::from(own.count_ones());
        self.moved += count;
        count
    }

    /// Runs the stages in order. Returns the frames that are given to the kernel without a rate
    /// limit, because their egress interface is left to it or has no queue here: bit `i` is frame
    /// `i`.
    pub(super) fn decide(&mut self, frames: &mut [RouteFrame<'_>], now_ns: Nanos) -> u64 {
        let noted = match self.traces.is_empty() {
            true => Vec::new(),
            false => self.note_for_traces(frames, now_ns),
        };
        let Self { engine, batch, rules, .. } = self;
        engine.parse(batch, frames);
        if let Some(rules) = rules {
            rules.check_in(engine, batch, frames, now_ns);
        }
        engine.police(batch, frames, now_ns);
        engine.look_up(batch, frames);
        engine.check_sources(batch, frames);
        if let Some(rules) = rules {
            rules.check_out(engine, batch, frames, now_ns);
        }
        let left = self.leave_to_kernel();
        let Self { engine, batch, .. } = self;
        engine.rewrite(batch, frames, now_ns);
        engine.answer(batch, frames, now_ns);
        self.finish_rules(now_ns);
        if !noted.is_empty() {
            self.tell_traces(noted);
        }
        left
    }

    /// Leaves packets to the kernel if their egress interface is left to it, or has no queue here.
    /// Returns these packets: bit `i` is frame `i`.
    fn leave_to_kernel(&mut self) -> u64 {
        let mut left = 0;
        let has_left = self.subinterfaces.as_ref().is_some_and(WorkerSubinterfaces::has_left);
        if !has_left && !self.is_left.contains(&true) && !self.interface_of.contains(&None) {
            return left;
        }
        let live = self.batch.live();
        for at in (0..self.batch.len()).filter(|at| live & 1 << at != 0) {
            let egress = self.engine.egress(&self.batch, at);
            if egress.is_some_and(|port| self.is_left(port)) {
                self.engine.leave_to_kernel(&mut self.batch, at);
                left |= 1 << at;
            }
        }
        left
    }

    /// Whether packets that would leave by a port are left to the kernel.
    fn is_left(&self, port: FibPortIndex) -> bool {
        match &self.subinterfaces {
            Some(of) if let Some(number) = of.number(port) => of.is_left(number),
            _ => self.interface(port).is_none_or(|it| self.is_left.get(it) == Some(&true)),
        }
    }

    /// Takes a frame that has several slots, and forwards a copy of it. Returns the number of its
    /// slots, or 0 if the frame is not complete yet.
    #[cold]
    fn forward_long(&mut self, queues: &mut WorkerQueues, input: usize, now_ns: Nanos) -> u32 {
        let rx = queues[input].rx();
        let end = whole_frames(rx, 1);
        if end == 0 {
            return 0;
        }
        let count = slots_of(rx, 0, end);
        let port = self.ports.ingress(input, 0, rx);
        if self.ports.of_queue[input].is_none() {
            self.totals.count_in_pipe(port, -1);
        }
        self.moved += 1;
        if self.hand_over_long(queues, input, count) {
            queues[input].rx().advance(count);
            return count;
        }
        let mut frame = Vec::new();
        bytes(queues[input].rx(), 0, count, &mut frame);
        let left = self.decide(&mut [RouteFrame::new(&mut frame, port)], now_ns);
        let source = BatchFrame::Copy { frame: &mut frame, ingress: port };
        self.deliver(queues, source, 0, left != 0, now_ns);
        queues[input].rx().advance(count);
        self.totals.frames += 1;
        count
    }
}

/// Returns the number of frames at the start of the ring that have one slot each, at most the size
/// of a batch.
fn single_slot_frames(rx: &mut RxRing) -> u32 {
    let most = rx.avail().min(MAX_ROUTE_BATCH as u32);
    let is_single =
        |at: &u32| rx.slot(*at).is_some_and(|slot| !slot.flags.has(SlotFlags::MOREFRAG));
    (0..most).take_while(is_single).count() as u32
}
