//! Executes the engine's verdict about a frame.

use slipring_datapath::queues::WorkerQueues;
use slipring_fib::{FibPortIndex, GatewayRequest};
use slipring_port::Nanos;
use slipring_route::{
    ForwardedFrame, HeldPacket, PuntClass, PuntReason, RouteDropCause, RouteOutput, RouteVerdict,
};

use super::RouteWorker;
use super::held::HeldEvent;
use crate::subinterface::tags;

/// Where a frame is.
pub(super) enum BatchFrame<'f> {
    /// The frame is in a slot of the rx ring of a queue.
    Slot { input: usize, at: u32, ingress: FibPortIndex },
    /// The frame is in memory of the worker.
    Copy { frame: &'f mut [u8], ingress: FibPortIndex },
}

impl BatchFrame<'_> {
    const fn ingress(&self) -> FibPortIndex {
        match self {
            Self::Slot { ingress, .. } | Self::Copy { ingress, .. } => *ingress,
        }
    }

    fn bytes<'q>(&'q mut self, queues: &'q mut WorkerQueues) -> &'q [u8] {
        match self {
            Self::Slot { input, at, .. } => {
                queues[*input].rx().frame(*at).map_or(&[], |frame| frame.bytes)
            }
            Self::Copy { frame, .. } => frame,
        }
    }
}

impl RouteWorker {
    /// Executes the engine's verdict about frame `of` of the batch. If `is_left`, the kernel gets
    /// the frame without a rate limit.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        queues: &mut WorkerQueues,
        source: BatchFrame<'_>,
        of: usize,
        is_left: bool,
        now_ns: Nanos,
    ) {
        let Some(verdict) = self.batch.verdict(of) else { return };
        if let RouteVerdict::Forward(frame) = verdict {
            return self.send(queues, source, &frame);
        }
        // Packets whose route leads to the kernel have no rate limit. The program of an interface
        // leaves them to the kernel, so those that come here were in flight when the route changed.
        // A subinterface has no program, so all of them come here.
        let is_changing = self.batch.punt_reason(of) == Some(PuntReason::Route);
        self.deliver_other(queues, source, verdict, is_left || is_changing, now_ns);
    }

    /// Sends a rewritten frame by the worker's queue of the egress interface, or drops it if there
    /// is no such queue or the queue is full.
    fn send(&mut self, queues: &mut WorkerQueues, source: BatchFrame<'_>, frame: &ForwardedFrame) {
        let ingress = source.ingress();
        if self.transmit(queues, source, frame) {
            self.count_forwarded(ingress, frame.frame_len().into());
        }
    }

    /// Sends a rewritten frame. Returns whether there was space for it.
    fn transmit(
        &mut self,
        queues: &mut WorkerQueues,
        mut source: BatchFrame<'_>,
        frame: &ForwardedFrame,
    ) -> bool {
        let ingress = source.ingress();
        let Some(to) = self.interface(frame.port).map(|it| self.ports.tx_of[it]) else {
            self.engine.unsent(ingress, frame);
            return false;
        };
        let range = frame.range();
        let is_plain = range.start == 0 && frame.prepend().is_empty();
        let is_sent = match source {
            BatchFrame::Slot { input, at, .. } if is_plain => {
                queues.swap_frame(input, at, to, range.end)
            }
            _ => {
                self.scratch.clear();
                self.scratch.extend_from_slice(frame.prepend());
                let bytes = source.bytes(queues).get(range).unwrap_or_default();
                self.scratch.extend_from_slice(bytes);
                tags::pad(&mut self.scratch);
                queues[to].copy_frame(&self.scratch)
            }
        };
        if !is_sent {
            self.engine.unsent(ingress, frame);
        }
        is_sent
    }

    pub(super) fn count_forwarded(&mut self, ingress: FibPortIndex, bytes: u64) {
        if let Some(forwarded) = self.totals.forwarded.get_mut(usize::from(ingress.0)) {
            forwarded.packets += 1;
            forwarded.bytes += bytes;
        }
    }

    #[inline(never)]
    fn deliver_other(
        &mut self,
        queues: &mut WorkerQueues,
        mut source: BatchFrame<'_>,
        verdict: RouteVerdict,
        is_left: bool,
        now_ns: Nanos,
    ) {
        let ingress = source.ingress();
        match verdict {
            RouteVerdict::Forward(frame) => self.send(queues, source, &frame),
            RouteVerdict::Fragmented => {
                let len = source.bytes(queues).len() as u64;
                self.count_forwarded(ingress, len);
            }
            RouteVerdict::Kernel(class) => {
                let class = (!is_left).then_some(class);
                self.give_to_kernel(queues, source, class, now_ns);
            }
            RouteVerdict::Hold(held) => {
                let frame = source.bytes(queues)[..held.frame_len()].to_vec();
                self.hold(held, frame, now_ns);
            }
            RouteVerdict::Drop(_) | RouteVerdict::Answered(_) | RouteVerdict::Delayed => {}
        }
    }

    /// Makes the kernel receive a frame on the interface on which the frame arrived.
    pub(super) fn give_to_kernel(
        &mut self,
        queues: &mut WorkerQueues,
        mut source: BatchFrame<'_>,
        class: Option<PuntClass>,
        now_ns: Nanos,
    ) {
        let ingress = source.ingress();
        let of_own = self.subinterfaces.as_ref().and_then(|of| of.number(ingress));
        match (of_own, self.interface(ingress)) {
            (Some(number), _) => {
                // A frame from another worker is in a slot of a queue. It is copied, so that the
                // queues are not borrowed any longer.
                let copy = match source {
                    BatchFrame::Copy { frame, .. } => {
                        return self.give_to_device(queues, number, frame, class, now_ns);
                    }
                    BatchFrame::Slot { .. } => source.bytes(queues).to_vec(),
                };
                self.give_to_device(queues, number, &copy, class, now_ns);
            }
            (None, Some(at)) => {
                let ifindex = self.ports.ifindexes[at];
                self.punts.punt(source.bytes(queues), ifindex, class, now_ns);
            }
            (None, None) => {}
        }
    }

    /// Sends held frames whose neighbour is known, and sends ICMP errors for frames whose neighbour
    /// does not answer.
    pub(super) fn send_held(&mut self, queues: &mut WorkerQueues, now_ns: Nanos) {
        self.held.tick(now_ns);
        while let Some(event) = self.held.poll() {
            let (held, mut frame, verdict) = match event {
                HeldEvent::Released { held, mut frame, mac } => {
                    let verdict = self.engine.release(&held, &mut frame, mac, now_ns);
                    (held, frame, verdict)
                }
                HeldEvent::Unanswered { held, frame } => {
                    let verdict = self.engine.unanswered(&held, &frame, now_ns);
                    (held, frame, verdict)
                }
                HeldEvent::Displaced { held } => {
                    self.engine.discard(&held, RouteDropCause::HoldQueueFull);
                    continue;
                }
            };
            self.deliver_held(queues, &held, &mut frame, verdict, now_ns);
        }
    }

    /// Executes the verdict about a packet that has waited. The router's own packets, such as ICMP
    /// errors, do not count as forwarded.
    pub(super) fn deliver_held(
        &mut self,
        queues: &mut WorkerQueues,
        held: &HeldPacket,
        frame: &mut [u8],
        verdict: RouteVerdict,
        now_ns: Nanos,
    ) {
        let source = BatchFrame::Copy { frame, ingress: held.ingress() };
        match verdict {
            RouteVerdict::Forward(sent) if held.is_own() => {
                self.transmit(queues, source, &sent);
            }
            verdict => self.deliver_other(queues, source, verdict, false, now_ns),
        }
    }

    /// Sends the packets that the engine has created, until there is no space for one. The next
    /// call starts with that packet.
    pub(super) fn send_outputs(&mut self, queues: &mut WorkerQueues) {
        while let Some(output) = self.unsent.take().or_else(|| self.engine.pop()) {
            match output {
                RouteOutput::Send { port, frame } => {
                    // The tables may have lost the port since the packet was made.
                    let to = self.interface(port).map(|it| self.ports.tx_of[it]);
                    if let Some(to) = to.filter(|to| !queues[*to].copy_frame(&frame)) {
                        queues[to].await_room();
                        self.unsent = Some(RouteOutput::Send { port, frame });
                        return;
                    }
                    self.engine.recycle(frame);
                }
                RouteOutput::Hold { held, frame } => {
                    self.hold(held, frame, self.turn_start);
                }
            }
        }
    }

    /// Asks the kernel to resolve the neighbours for which frames wait.
    pub(super) fn ask_for_neighbours(&mut self) {
        let asked = self.held.take_requests();
        let request = |(port, address)| {
            let ifindex = self.ports.ifindexes[self.interface(port)?];
            Some(GatewayRequest { ifindex, address })
        };
        let requests: Vec<_> = asked.into_iter().filter_map(request).collect();
        if !requests.is_empty() {
            self.routing.tell(move |routing| routing.want_neighbours(requests));
        }
    }
}
