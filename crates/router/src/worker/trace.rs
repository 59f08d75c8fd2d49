//! Copies packets of a batch for traces.

use slipring_port::Nanos;
use slipring_route::{RouteFrame, RouteVerdict};

use super::RouteWorker;
use crate::packet_trace::TracedPacket;

/// A copy of a frame that a trace wants. It is made before the stages, which change the frame.
pub(super) struct NotedFrame {
    trace: usize,
    at: usize,
    frame: Vec<u8>,
}

impl RouteWorker {
    /// Must be called before the stages. Returns copies of the frames that traces want. Drops
    /// traces that have ended.
    #[cold]
    pub(super) fn note_for_traces(
        &mut self,
        frames: &[RouteFrame<'_>],
        now_ns: Nanos,
    ) -> Vec<NotedFrame> {
        self.traces.retain(|trace| trace.is_wanted(now_ns));
        let mut noted = Vec::new();
        for (trace, of) in self.traces.iter().enumerate() {
            let matching = frames.iter().enumerate().filter(|(_, frame)| of.matches(frame.bytes));
            noted.extend(matching.map(|(at, frame)| NotedFrame {
                trace,
                at,
                frame: frame.bytes.to_vec(),
            }));
        }
        noted
    }

    /// Must be called after the stages. Gives the copies to the traces, with the verdicts.
    #[cold]
    pub(super) fn tell_traces(&mut self, noted: Vec<NotedFrame>) {
        for NotedFrame { trace, at, frame } in noted {
            let ingress = self.batch.ingress(at);
            let verdict = self.batch.verdict(at).unwrap_or(RouteVerdict::Delayed);
            let reason = self.batch.punt_reason(at);
            self.traces[trace].add(TracedPacket { ingress, frame, verdict, reason });
        }
    }
}
