//! What traces get of a batch.

use slipring_port::Nanos;
use slipring_route::{RouteFrame, RouteVerdict};

use super::RouteWorker;
use crate::packet_trace::TracedPacket;

/// A frame of the batch that a trace wants: the stages change the frame, so this is a copy.
pub(super) struct NotedFrame {
    trace: usize,
    at: usize,
    frame: Vec<u8>,
}

impl RouteWorker {
    /// Copies the frames that match, before the stages. Traces that have ended are dropped.
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

    /// Gives the traces their packets with the verdicts, after the stages.
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
