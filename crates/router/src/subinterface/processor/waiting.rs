//! Packets that wait for a neighbour of a subinterface, and those that the engine has made.

use slipring_datapath::queues::WorkerQueues;
use slipring_neighbour::HoldDropCause;
use slipring_port::Nanos;
use slipring_route::{MAX_ROUTE_BATCH, RouteDropCause, RouteEngine, RouteOutput, RouteVerdict};

use super::{QueueRole, SubinterfaceOutput, SubinterfaceProcessor, WaitingPacket, send, tags};

impl SubinterfaceProcessor {
    /// Keeps a packet until a neighbour of a subinterface is resolved.
    pub(super) fn hold(&mut self, packet: WaitingPacket, now_ns: Nanos) {
        let to = self.subinterfaces.iter_mut().find(|it| it.port == packet.held.port);
        let refused = match to {
            Some(it) => it.link.hold(packet, now_ns).err(),
            None => Some(packet),
        };
        if let (Some(packet), Some(engine)) = (refused, &mut self.engine) {
            engine.discard(&packet.held, RouteDropCause::HoldQueueFull);
        }
    }

    /// Forwards packets that waited for a neighbour in the previous router.
    pub(super) fn forward_handed(&mut self, queues: &mut WorkerQueues, now_ns: Nanos) {
        for handed in std::mem::take(&mut self.handed).chunks_mut(MAX_ROUTE_BATCH) {
            self.frames.clear();
            let handed = handed.iter_mut().map(|(port, frame)| (std::mem::take(frame), *port));
            self.frames.extend(handed);
            self.used = self.frames.len();
            self.route_or_leave(queues, now_ns);
        }
    }

    /// Sends the frames that links have made, and the packets that no longer wait.
    pub(super) fn serve_links(&mut self, queues: &mut WorkerQueues, now_ns: Nanos) {
        for number in 0..self.subinterfaces.len() {
            self.subinterfaces[number].link.tick(now_ns);
            while let Some(output) = self.subinterfaces[number].link.pop() {
                self.serve(queues, number, output, now_ns);
            }
        }
        self.send_own(queues, now_ns);
    }

    fn serve(
        &mut self,
        queues: &mut WorkerQueues,
        number: usize,
        output: SubinterfaceOutput,
        now_ns: Nanos,
    ) {
        let it = &mut self.subinterfaces[number];
        match (output, &mut self.engine) {
            (SubinterfaceOutput::Wire(frame), _) => {
                tags::add(&frame, it.tags, &self.priorities, &mut self.scratch);
                let to = QueueRole::Wire(it.parent);
                it.counters.unsent += u64::from(!send(queues, &self.roles, to, &mut self.scratch));
            }
            (SubinterfaceOutput::Kernel(frame), _) => {
                self.scratch.clear();
                self.scratch.extend_from_slice(&frame);
                let to = QueueRole::Tap(number);
                it.counters.full += u64::from(!send(queues, &self.roles, to, &mut self.scratch));
            }
            (
                SubinterfaceOutput::Released(WaitingPacket { held, mut frame, .. }, mac),
                Some(engine),
            ) => {
                let verdict = engine.release(&held, &mut frame, mac, now_ns);
                if let RouteVerdict::Forward(sent) = verdict {
                    self.scratch.clear();
                    self.scratch.extend_from_slice(sent.prepend());
                    self.scratch.extend_from_slice(&frame[sent.range()]);
                    let (is_own, len) = (held.is_own(), self.scratch.len());
                    if !self.send_scratch(queues, sent.port) {
                        self.count_full((!is_own).then(|| held.ingress()), sent.port);
                    } else if !is_own {
                        self.count_forwarded(held.ingress(), len);
                    }
                }
            }
            (SubinterfaceOutput::Lost(packet, HoldDropCause::Unanswered), Some(engine)) => {
                engine.unanswered(&packet.held, &packet.frame, now_ns);
            }
            (SubinterfaceOutput::Lost(packet, cause), Some(engine)) => {
                let cause = match cause {
                    HoldDropCause::Flushed => RouteDropCause::PortDown,
                    _ => RouteDropCause::HoldQueueFull,
                };
                engine.discard(&packet.held, cause);
            }
            // Packets can wait only if the engine exists.
            (SubinterfaceOutput::Released(..) | SubinterfaceOutput::Lost(..), None) => {}
        }
    }

    /// Sends the packets that the engine has created: ICMP errors and fragments. Those whose next
    /// hop is not resolved wait.
    pub(super) fn send_own(&mut self, queues: &mut WorkerQueues, now_ns: Nanos) {
        while let Some(output) = self.engine.as_mut().and_then(RouteEngine::pop) {
            match output {
                RouteOutput::Send { port, frame } => {
                    self.scratch.clear();
                    self.scratch.extend_from_slice(&frame);
                    if !self.send_scratch(queues, port) {
                        self.count_full(None, port);
                    }
                    if let Some(engine) = &mut self.engine {
                        engine.recycle(frame);
                    }
                }
                RouteOutput::Hold { held, frame } => {
                    self.hold(WaitingPacket { owner: 0, held, frame }, now_ns);
                }
            }
        }
    }
}
