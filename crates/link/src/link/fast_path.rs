//! Batch fast path for frames that no stage queues or inspects.
//!
//! Most links are not full: a frame finds the line free, is lost or not, and travels. If no stage
//! has to examine its bytes, a whole batch goes from stage to stage, so that each stage has its
//! state in registers and runs a tight loop. Frames have the same numbers as on the slow path, and
//! the carrier gets equivalent calls in the same order.
//!
//! Not for frames that wait, are held, copied or damaged; those go through [`Link::arrive`].

use super::{Link, NEVER_NS};
use crate::carrier::{Carrier, FrameArrival};
use crate::counters::PacketCounts;
use crate::loss::LossMask;
use crate::sink::LinkSink;

/// Maximum number of frames per batch: a 64-bit mask has one bit for each frame.
const MAX_BATCH: usize = 64;

/// Scratch space for the stages' results about a batch; shared by all links.
pub(crate) struct BatchScratch {
    /// When each frame has left the line, in ns.
    end_ns: [u64; MAX_BATCH],
    /// When each frame goes on the line, in ns: used if delays are measured from this time and not
    /// from `end_ns`.
    start_ns: [u64; MAX_BATCH],
    /// Bytes that each frame occupies on the line.
    wire_bytes: [u64; MAX_BATCH],
    delays_ns: [u64; MAX_BATCH],
}

/// Frames that are lost, before the line and after it.
#[derive(Default)]
struct BatchLosses {
    before: LossMask,
    after: LossMask,
}

impl BatchScratch {
    pub(crate) const fn new() -> Self {
        let nothing = [0; MAX_BATCH];
        Self { end_ns: nothing, start_ns: nothing, wire_bytes: nothing, delays_ns: nothing }
    }
}

impl Link {
    /// Whether all stages can take frames in batches, without an access to the frames' bytes.
    pub(super) fn is_payload_agnostic(&self) -> bool {
        self.ingress.as_ref().is_none_or(|front| front.is_payload_agnostic())
            && self.server.as_ref().is_none_or(|server| server.is_payload_agnostic())
            && self.egress.as_ref().is_none_or(|back| back.is_payload_agnostic())
            && self.far_end.is_payload_agnostic()
    }

    /// Takes frames; before each frame, performs all earlier events.
    #[inline]
    pub(crate) fn arrive_each(
        &mut self,
        frames: &[FrameArrival],
        room: &mut BatchScratch,
        carrier: &mut impl Carrier,
    ) {
        let mut rest = frames;
        while let Some((first, others)) = rest.split_first() {
            self.settle(first.arrival_ns, carrier);
            match self.arrive_batch(rest, room, carrier) {
                0 => {
                    self.arrive(*first, carrier);
                    rest = others;
                }
                count => rest = &rest[count..],
            }
        }
    }

    /// Takes the leading frames that need not wait; returns how many were taken.
    #[inline]
    fn arrive_batch(
        &mut self,
        frames: &[FrameArrival],
        room: &mut BatchScratch,
        carrier: &mut impl Carrier,
    ) -> usize {
        if !self.payload_agnostic || self.early_delivery || self.next_internal_ns != NEVER_NS {
            return 0;
        }
        let frames = &frames[..self.predict_departures(frames, room)];
        if frames.is_empty() {
            return 0;
        }
        if self.far_end.has_bursts() {
            self.far_end.split_bursts(self.plain_delay_ns, carrier);
        }
        let bytes = frames.iter().map(|frame| u64::from(frame.len)).sum();
        let first = self.input.packets;
        self.input += PacketCounts { packets: frames.len() as u64, bytes };
        let lost = self.judge(frames, first, room);
        let mut from = 0;
        while from < frames.len() {
            from = self.pass(frames, first, from, &lost, room, carrier);
        }
        frames.len()
    }

    /// Computes when the leading frames that find the line free leave the line again. Returns the
    /// number of these frames.
    #[inline]
    fn predict_departures(&self, frames: &[FrameArrival], room: &mut BatchScratch) -> usize {
        let frames = &frames[..frames.len().min(MAX_BATCH)];
        let copy = |times: &mut [u64]| {
            times.iter_mut().zip(frames).for_each(|(time, frame)| *time = frame.arrival_ns);
        };
        let Some(server) = &self.server else {
            copy(&mut room.end_ns);
            return frames.len();
        };
        if !server.counts_from_end() {
            copy(&mut room.start_ns);
        }
        server.predict_departures(frames, &mut room.end_ns, &mut room.wire_bytes)
    }

    /// Decides which frames are lost before the line and after it. Occupies the line for the frames
    /// that reach it.
    #[inline]
    fn judge(&mut self, frames: &[FrameArrival], first: u64, room: &BatchScratch) -> BatchLosses {
        let mut lost = BatchLosses::default();
        let all = u64::MAX >> (MAX_BATCH - frames.len());
        if let Some(front) = &mut self.ingress {
            lost.before = front.judge(frames, first, all);
        }
        let on_line = all & !lost.before.all();
        if let Some(server) = &mut self.server
            && let Some(last) = on_line.checked_ilog2()
        {
            server.note_bypass(frames[last as usize], room.wire_bytes[last as usize]);
        }
        if let Some(back) = &mut self.egress {
            lost.after = back.judge(frames, first, &room.end_ns, on_line);
        }
        lost
    }

    /// Sends the frames from index `from` up to the next lost frame, and reports its loss. Returns
    /// the index after the lost frame.
    #[inline]
    fn pass(
        &mut self,
        frames: &[FrameArrival],
        first: u64,
        from: usize,
        lost: &BatchLosses,
        room: &mut BatchScratch,
        carrier: &mut impl Carrier,
    ) -> usize {
        let BatchLosses { before, after } = *lost;
        let gone = (before.all() | after.all()) >> from;
        let to = (from + gone.trailing_zeros() as usize).min(frames.len());
        let from_end = match &self.server {
            Some(server) => {
                let on_line = to + usize::from(after.has(to));
                carrier.on_bypass(self.id, &frames[from..on_line], &room.wire_bytes[from..on_line]);
                server.counts_from_end()
            }
            None => true,
        };
        let base_ns = if from_end { &room.end_ns } else { &room.start_ns };
        let delays_ns = &mut room.delays_ns[from..to];
        let (sent, base_ns) = (&frames[from..to], &base_ns[from..to]);
        let clamped = self.far_end.send_batch(sent, first + from as u64, base_ns, delays_ns);
        // This is tested first, because the counters are in another cache line, which most frames
        // need not touch.
        if clamped.packets > 0 {
            self.counters.clamped += clamped;
        }
        if let Some(&frame) = frames.get(to) {
            let (losses, at_ns) = match before.has(to) {
                true => (before, frame.arrival_ns),
                false => (after, room.end_ns[to]),
            };
            let mut sink = LinkSink { carrier, counters: &mut self.counters, link: self.id };
            sink.lose(frame, at_ns, losses.cause(to));
        }
        to + 1
    }
}
