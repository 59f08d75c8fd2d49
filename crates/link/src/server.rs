//! The queue and the line together.
//!
//! # Invariants
//! 1. `begin_ns` is when the next waiting frame goes on the line; `u64::MAX` if none does.
//! 2. The frame on the line counts towards the limits of a FIFO queue until `busy_until_ns`.

use alloc::boxed::Box;

use slipring_model::Draws;

use crate::carrier::{
    Carrier, FrameArrival, LinkDropCause, LinkFrame, QueueArrival, QueueDeparture,
};
use crate::counters::PacketCounts;
use crate::frame_id::FrameId;
use crate::line::LinkLine;
use crate::output::LineDeparture;
use crate::queue::{LineBacklog, LinkQueue};
use crate::sink::LinkSink;
use crate::spec::{Framing, LinkProfile, LinkSpec, SerialisePoint};
use crate::streams::LinkStreams;

// The order of the fields matters: the fields that are used for batches of frames that need not
// wait come first, so that they fit in two cache lines.
#[repr(C, align(64))]
pub(crate) struct LineServer {
    line: LinkLine,
    begin_ns: u64,
    busy_until_ns: u64,
    busy_len: u32,
    serialise: SerialisePoint,
    /// Whether frames that bypass the queue must be reported to its AQM algorithm.
    queue_has_aqm: bool,
    framing: Framing,
    /// The longest frame that may bypass the queue, in bytes.
    max_len: u64,
    /// A frame that the line cannot finish, usually because the trace of the line has ended. The
    /// frame waits for a change of the line. `None` if there is no such frame.
    stuck: Option<Box<LinkFrame>>,
    queue: LinkQueue,
    profile: Option<LinkProfile>,
    profile_draws: Draws,
}

/// A frame that went on the line.
pub(crate) struct ServedFrame {
    pub(crate) departed: LineDeparture,
    /// When its last bit left, including extra occupation of the line.
    pub(crate) end_ns: u64,
    /// Why the frame is lost when it leaves the line, by the user's model or the link profile;
    /// `None` if it goes on to the stages of [`egress`](crate::egress), which may drop it.
    pub(crate) lost_to: Option<LinkDropCause>,
}

impl LineServer {
    pub(crate) fn new(spec: &LinkSpec, streams: &LinkStreams<'_>, start_ns: u64) -> Self {
        let queue = LinkQueue::new(&spec.queue, streams.stage("queue"), streams.draws("queue"));
        Self {
            queue_has_aqm: queue.has_aqm(),
            max_len: queue.max_len(),
            queue,
            line: LinkLine::new(&spec.rate, streams, start_ns),
            framing: spec.framing,
            serialise: spec.serialise,
            profile: spec.profile.clone(),
            profile_draws: streams.draws("profile"),
            begin_ns: u64::MAX,
            busy_until_ns: 0,
            busy_len: 0,
            stuck: None,
        }
    }

    /// Switches to another specification at `at_ns`. Waiting frames stay (but see
    /// [`LinkQueue::change`]) and are sent at the new rate; the frame on the line finishes at the
    /// old rate.
    pub(crate) fn change<C: Carrier>(
        &mut self,
        old: &LinkSpec,
        new: &LinkSpec,
        streams: &LinkStreams<'_>,
        at_ns: u64,
        sink: &mut LinkSink<'_, C>,
    ) {
        self.queue.change(&new.queue, at_ns, sink);
        if old.rate != new.rate {
            self.line = self.line.reconfigured(&new.rate, streams, at_ns);
        }
        self.framing = new.framing;
        self.serialise = new.serialise;
        self.profile.clone_from(&new.profile);
        (self.queue_has_aqm, self.max_len) = (self.queue.has_aqm(), self.queue.max_len());
        let waits = self.stuck.is_some() || !self.queue.is_empty();
        self.begin_ns = if waits { self.line.begin_ns(at_ns) } else { u64::MAX };
    }

    /// Enqueues a frame, or drops it, or drops waiting frames to make room.
    #[inline]
    pub(crate) fn enqueue<C: Carrier>(&mut self, frame: LinkFrame, sink: &mut LinkSink<'_, C>) {
        let busy = self.busy_until_ns > frame.arrival_ns;
        let (line, framing) = (&mut self.line, self.framing);
        let mut wait_ns = |waiting| wait_ns(line, framing, frame.arrival_ns, waiting);
        let ahead_ns = if self.queue.needs_wait_ns() { wait_ns(self.queue.backlog()) } else { 0 };
        let busy = PacketCounts {
            packets: u64::from(busy),
            bytes: if busy { u64::from(self.busy_len) } else { 0 },
        };
        let ahead = LineBacklog { busy, wait_ns: ahead_ns };
        if self.queue.enqueue(frame, &ahead, wait_ns, sink) {
            let (link, at_ns) = (sink.link, frame.arrival_ns);
            let PacketCounts { packets, bytes } = self.queue.backlog() + busy;
            sink.carrier.on_enqueue(QueueArrival { link, at_ns, bytes, packets });
        }
        if self.begin_ns == u64::MAX && !self.queue.is_empty() {
            self.begin_ns = self.line.begin_ns(frame.arrival_ns);
        }
    }

    /// Whether a frame that arrives at `now_ns` need not wait and may [bypass](Self::bypass) the
    /// queue.
    #[inline(always)]
    pub(crate) fn is_idle(&self, now_ns: u64) -> bool {
        self.begin_ns == u64::MAX
            && self.busy_until_ns <= now_ns
            && self.line.is_free(now_ns)
            && self.stuck.is_none()
            && self.queue.is_bypassable()
    }

    /// Does the work of [`Self::enqueue`] and [`Self::serve`] without a queue, for a frame that
    /// finds the server [idle](Self::is_idle). Returns `None` if the queue drops the frame, or the
    /// line cannot finish it.
    #[inline(always)]
    pub(crate) fn bypass<C: Carrier>(
        &mut self,
        frame: LinkFrame,
        sink: &mut LinkSink<'_, C>,
    ) -> Option<ServedFrame> {
        let passed = self.queue.bypass(frame, sink);
        passed.then(|| self.occupy(frame, frame.arrival_ns, sink)).flatten()
    }

    /// Whether frames that find the server idle pass at a constant rate, without an access to their
    /// bytes.
    pub(crate) fn is_payload_agnostic(&self) -> bool {
        self.profile.is_none() && self.queue.is_payload_agnostic() && self.line.rate().is_some()
    }

    /// Returns how many frames at the start of `frames` find the server idle and are admitted,
    /// whether or not some of them are lost before they reach it. Computes when each leaves the
    /// line and how many bytes it occupies there. Only for a
    /// [payload-agnostic](Self::is_payload_agnostic) server.
    #[inline(never)]
    pub(crate) fn predict_departures(
        &self,
        frames: &[FrameArrival],
        end_ns: &mut [u64],
        wire_bytes: &mut [u64],
    ) -> usize {
        // If these conditions hold at a constant rate, a frame that arrives at `now_ns` neither
        // waits nor gets stuck.
        let idle = |now_ns| {
            self.begin_ns == u64::MAX && self.busy_until_ns <= now_ns && self.line.is_free(now_ns)
        };
        let idle = frames.first().is_some_and(|first| idle(first.arrival_ns));
        let Some(rate) = self.line.rate().filter(|_| idle) else { return 0 };
        let (longest, mut free_ns, mut count) = (self.max_len, 0, 0);
        for ((frame, end_ns), wire) in frames.iter().zip(end_ns).zip(wire_bytes) {
            if frame.arrival_ns < free_ns || u64::from(frame.len) > longest {
                break;
            }
            *wire = self.framing.wire_bytes(frame.len);
            let Some(took_ns) = rate.time_of(*wire * 8) else { break };
            if took_ns >= u64::MAX - frame.arrival_ns {
                break;
            }
            free_ns = frame.arrival_ns + took_ns;
            *end_ns = free_ns;
            count += 1;
        }
        count
    }

    /// Records that frames counted by [`Self::predict_departures`] went on the line; `last` is the
    /// last of these frames.
    #[inline]
    pub(crate) fn note_bypass(&mut self, last: FrameArrival, wire_bytes: u64) {
        if self.queue_has_aqm {
            self.queue.note_bypass(last.arrival_ns, last.len);
        }
        self.busy_until_ns = self.line.serve(last.arrival_ns, wire_bytes, 0, FrameId::default());
        self.busy_len = last.len;
    }

    /// Whether delays are measured from the time at which a frame leaves the line, not from the
    /// time at which it goes on the line.
    #[inline]
    pub(crate) fn counts_from_end(&self) -> bool {
        self.serialise == SerialisePoint::End
    }

    /// Returns the time at which the next frame goes on the line, in ns; `u64::MAX` if none does.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.begin_ns
    }

    /// Puts the next frame on the line, at the time of [`Self::next_ns`]. Returns `None` if the
    /// queue dropped all its frames, or the line cannot finish the frame.
    #[inline]
    pub(crate) fn serve<C: Carrier>(&mut self, sink: &mut LinkSink<'_, C>) -> Option<ServedFrame> {
        let now_ns = self.begin_ns;
        let waiting =
            self.stuck.take().map(|frame| *frame).or_else(|| self.queue.dequeue(now_ns, sink));
        let Some(frame) = waiting else {
            self.begin_ns = u64::MAX;
            return None;
        };
        self.occupy(frame, now_ns, sink)
    }

    /// Puts a frame on the line. Returns `None` if the line cannot finish it; the frame is then
    /// kept in `stuck`.
    #[inline(always)]
    fn occupy<C: Carrier>(
        &mut self,
        frame: LinkFrame,
        now_ns: u64,
        sink: &mut LinkSink<'_, C>,
    ) -> Option<ServedFrame> {
        let (extra_ns, given_up) = self.extra(frame.id);
        // A busy line begins the next frame without a gap, possibly at a fraction of a nanosecond.
        let ready_ns = if self.line.free_ns() < now_ns { now_ns } else { frame.arrival_ns };
        let wire_bytes = self.framing.wire_bytes(frame.len);
        let end_ns = self.line.serve(ready_ns, wire_bytes, extra_ns, frame.id);
        if end_ns == u64::MAX {
            (self.stuck, self.begin_ns) = (Some(Box::new(frame)), u64::MAX);
            return None;
        }
        let (link, len, at_ns) = (sink.link, frame.len, now_ns);
        let delay_ns = now_ns.saturating_sub(frame.arrival_ns);
        sink.carrier.on_dequeue(QueueDeparture { link, at_ns, delay_ns, len, wire_bytes });
        (self.busy_until_ns, self.busy_len) = (end_ns, frame.len);
        self.begin_ns = if self.queue.is_empty() { u64::MAX } else { self.line.begin_ns(now_ns) };
        let base_ns = match self.serialise {
            SerialisePoint::End => end_ns,
            SerialisePoint::Start => now_ns,
        };
        let LinkFrame { handle, len, id, .. } = frame;
        let departed = LineDeparture { handle, len, start_ns: now_ns, base_ns, id, copy: 0 };
        let unanswered = self.line.was_unanswered().then_some(LinkDropCause::Model);
        let lost_to = unanswered.or_else(|| given_up.then_some(LinkDropCause::Profile));
        Some(ServedFrame { departed, end_ns, lost_to })
    }

    /// Number of waiting frames.
    pub(crate) fn waiting(&self) -> u64 {
        self.queue.backlog().packets + u64::from(self.stuck.is_some())
    }

    /// Returns the extra occupation of the line by the frame in ns, and whether the frame is lost
    /// afterwards.
    #[inline(always)]
    fn extra(&self, id: FrameId) -> (u64, bool) {
        let Some(profile) = &self.profile else { return (0, false) };
        let count = profile.samples_ns.len() as u64;
        let drawn = self.profile_draws.below(id.draw(), count);
        let given_up = drawn as f64 >= profile.loss_level * count as f64;
        (profile.samples_ns[drawn as usize], given_up)
    }
}

/// Estimates how long a frame that arrives at `now_ns` waits for the frame on the line and those
/// counted in `waiting`; off by less than a nanosecond for a constant rate if all waiting frames
/// have the same length.
fn wait_ns(line: &mut LinkLine, framing: Framing, now_ns: u64, waiting: PacketCounts) -> u64 {
    let mean_len = waiting.bytes.checked_div(waiting.packets).unwrap_or(0);
    let mean_len = u32::try_from(mean_len).unwrap_or(u32::MAX);
    let bytes = framing.wire_bytes(mean_len).saturating_mul(waiting.packets);
    line.estimate_ns(now_ns, bytes)
}
