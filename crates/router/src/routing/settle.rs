//! What the routing thread does once a second: it frees indices that are no longer in use, and
//! looks at the packets that programs have counted and at the traces of clients.

use std::sync::Arc;

use slipring_port::Nanos;

use super::Routing;
use crate::packet_trace::PacketTrace;
use crate::subinterface::SubinterfaceHandle;
use crate::worker::WorkerLink;

/// Minimum time between two waits for programs that may still use old indices. Each wait takes some
/// milliseconds.
const SETTLE_PERIOD_NS: Nanos = 1_000_000_000;

impl Routing {
    /// Waits for programs that may still use old indices, and frees these indices. Also does the
    /// other work that is due once a second.
    pub(super) fn settle(&mut self, time: Nanos) {
        self.settle_at = time + SETTLE_PERIOD_NS;
        self.note_packets(time);
        self.end_traces(time);
        if let Ok(Some(generation)) = self.engine.settle() {
            let own = self.subinterfaces.iter().filter_map(SubinterfaceHandle::generation);
            let used = self.workers.iter().map(WorkerLink::generation).chain(own).min();
            let quiesced = used.map_or(generation, |used| used.min(generation));
            if quiesced < generation {
                self.engine.unsettle(generation);
            }
            self.mirror.quiesced(quiesced);
        }
    }

    /// Tells `pace` how many packets the programs have counted, because most packets are forwarded
    /// without waking a worker, even with packet sockets.
    fn note_packets(&mut self, time: Nanos) {
        if let Ok(counters) = self.engine.counters() {
            let packets = counters.iter().map(|port| port.packets + port.direct_packets);
            self.pace.note_packets(packets.sum(), time);
        }
    }

    /// Makes workers see every packet until the trace has ended.
    pub(crate) fn begin_trace(&mut self, trace: Arc<PacketTrace>) {
        self.traces.push(trace);
        self.engine.set_traced(true);
    }

    fn end_traces(&mut self, time: Nanos) {
        self.traces.retain(|trace| trace.is_wanted(time));
        self.engine.set_traced(!self.traces.is_empty());
    }
}
