//! Subinterfaces in a worker: tagged frames of the wire, and the devices that the kernel sees.
//!
//! ```text
//!   parent --packet socket--> take_wire --> decide (turn.rs) --> deliver.rs --> tx queue of egress
//!                                              |  for this machine, or left to the kernel
//!                                              v
//!                         SharedSubinterfaces: ARP, ND <--> TAP device eth1.100 <--> kernel
//! ```
//!
//! Packets pass through the usual stages: the engine finds the port by the tags, rules see the
//! subinterface as `recv` and `xmit`, and the engine writes the tags of the egress port. Frames
//! leave by the worker's queue of the parent. Only two things differ: the kernel gets packets from
//! the device of the subinterface, and this process, not the kernel, resolves the neighbours.

use slipring_datapath::queues::WorkerQueues;
use slipring_datapath::slots;
use slipring_fib::FibPortIndex;
use slipring_neighbour::HoldDropCause;
use slipring_port::Nanos;
use slipring_route::{HeldPacket, MAX_ROUTE_BATCH, PuntClass, RouteDropCause, RouteFrame};

use super::RouteWorker;
use super::deliver::BatchFrame;
use super::of_kernel::is_of_kernel;
use super::vlan_state::{WireFrame, WorkerSubinterfaces};
use crate::subinterface::{
    LinkVerdict, QueueRole, SubinterfaceFrame, WaitEnd, WaitingPacket, tags,
};

impl RouteWorker {
    /// Sets for each subinterface, by its number, whether packets from and for it are left to the
    /// kernel.
    pub(crate) fn leave_subinterfaces(&mut self, left: &[bool]) {
        if let Some(of) = &mut self.subinterfaces {
            of.left.copy_from_slice(left);
        }
    }

    /// Takes a batch of tagged frames. Returns the number of slots.
    pub(super) fn forward_tagged(
        &mut self,
        queues: &mut WorkerQueues,
        (input, parent): (usize, u32),
        now_ns: Nanos,
    ) -> u32 {
        let Some(of) = &mut self.subinterfaces else { return 0 };
        let (used, taken) = of.take_wire(queues, input, parent);
        let mut frames = std::mem::take(&mut of.frames);
        let left = of.left.clone();
        let ports: Vec<_> = of.shared.all().iter().map(|it| it.port).collect();
        let (left_frames, mut routed): (Vec<_>, Vec<_>) =
            frames[..used].iter_mut().partition(|frame| left[frame.number]);
        let left_count = left_frames.len();
        for frame in left_frames {
            if let Some(of) = &mut self.subinterfaces {
                of.counters[frame.number].left += 1;
            }
            self.give_to_device(queues, frame.number, &frame.bytes, None, now_ns);
        }
        // Packets for this machine pass without a check by the rules, as on an interface without
        // VLANs, where the XDP program leaves them to the kernel before the rules.
        let mut of_kernel = self.take_of_kernel(&mut routed);
        let rules = self.rules.take();
        self.forward_copies(queues, &mut of_kernel, now_ns);
        self.rules = rules;
        routed.retain(|of| !self.hand_over_copy(queues, &of.bytes, ports[of.number]));
        self.totals.frames += (left_count + of_kernel.len() + routed.len()) as u64;
        self.forward_copies(queues, &mut routed, now_ns);
        if let Some(of) = &mut self.subinterfaces {
            of.frames = frames;
        }
        self.moved += taken;
        taken
    }

    /// If there are rules, removes the packets whose route leads to the kernel, and returns them.
    fn take_of_kernel<'f>(&self, frames: &mut Vec<&'f mut WireFrame>) -> Vec<&'f mut WireFrame> {
        let Some(of) = self.subinterfaces.as_ref().filter(|_| self.rules.is_some()) else {
            return Vec::new();
        };
        let tables = self.engine.tables();
        let is_kernels = |frame: &WireFrame| {
            let port = tables.ports.get(usize::from(of.shared.all()[frame.number].port.0));
            port.is_some_and(|port| is_of_kernel(tables, port.vrf, &frame.bytes))
        };
        frames.extract_if(.., |frame| is_kernels(frame)).collect()
    }

    fn forward_copies(
        &mut self,
        queues: &mut WorkerQueues,
        frames: &mut [&mut WireFrame],
        now_ns: Nanos,
    ) {
        let Some(of) = self.subinterfaces.as_ref().filter(|_| !frames.is_empty()) else { return };
        let ports: Vec<_> = of.shared.all().iter().map(|it| it.port).collect();
        let mut batch: Vec<RouteFrame<'_>> = Vec::with_capacity(frames.len());
        for WireFrame { bytes, number } in frames.iter_mut().map(|frame| &mut **frame) {
            batch.push(RouteFrame::new(bytes, ports[*number]));
        }
        let left = self.decide(&mut batch, now_ns);
        drop(batch);
        for (at, frame) in frames.iter_mut().enumerate() {
            let ingress = ports[frame.number];
            let source = BatchFrame::Copy { frame: &mut frame.bytes, ingress };
            self.deliver(queues, source, at, left & 1 << at != 0, now_ns);
        }
    }

    /// Gives the kernel a tagged frame: without tags, through the device of its subinterface. The
    /// kernel does not get requests for addresses, invalid messages of address resolution, and
    /// frames whose class has exceeded its rate.
    pub(super) fn give_to_device(
        &mut self,
        queues: &mut WorkerQueues,
        number: usize,
        frame: &[u8],
        class: Option<PuntClass>,
        now_ns: Nanos,
    ) {
        let Self { subinterfaces: Some(of), punts, scratch, .. } = self else { return };
        let Some((_, header_len)) = tags::parse(frame) else { return };
        tags::remove(frame, header_len, scratch);
        of.changed[number] = true;
        let verdict = of.shared.all()[number].with(|link| link.receive(scratch, now_ns));
        if verdict != LinkVerdict::Pass {
            of.counters[number].resolution_from_wire += 1;
        } else if punts.admits(class, now_ns) {
            let is_sent = of.send(queues, QueueRole::Tap(number), scratch);
            of.counters[number].to_kernel += u64::from(is_sent);
            punts.count_failed(!is_sent);
        }
    }

    /// Takes frames that the kernel sends through the device of a subinterface. Sends them with
    /// tags, except requests for addresses. Returns the number of slots.
    pub(super) fn send_of_kernel(
        &mut self,
        queues: &mut WorkerQueues,
        (input, number): (usize, usize),
        now_ns: Nanos,
    ) -> u32 {
        let Some(of) = &mut self.subinterfaces else { return 0 };
        let WorkerSubinterfaces { shared, frames, priorities, changed, counters, .. } = of;
        let (it, counters) = (&shared.all()[number], &mut counters[number]);
        let (mut used, mut scratch) = (0, Vec::new());
        let taken = queues[input].take_frames(MAX_ROUTE_BATCH as u32, |rx, at, count| {
            if used == MAX_ROUTE_BATCH {
                return false;
            }
            let bytes = slots::bytes(rx, at, count, &mut scratch);
            counters.from_kernel += 1;
            changed[number] = true;
            if it.with(|link| link.accept_from_kernel(bytes, now_ns)) != LinkVerdict::Pass {
                counters.resolution_from_kernel += 1;
                return true;
            }
            if used == frames.len() {
                frames.push(WireFrame::default());
            }
            tags::add(bytes, it.tags, priorities, &mut frames[used].bytes);
            used += 1;
            true
        });
        let mut frames = std::mem::take(&mut of.frames);
        for frame in &mut frames[..used] {
            self.send_tagged(queues, number, &mut frame.bytes);
        }
        if let Some(of) = &mut self.subinterfaces {
            of.frames = frames;
        }
        self.moved += taken;
        taken
    }

    /// Forwards packets that waited for a neighbour of a subinterface in the previous router. That
    /// router has counted their arrival, and its rules have admitted them.
    pub(super) fn forward_handed(&mut self, queues: &mut WorkerQueues, now_ns: Nanos) {
        if self.handed.is_empty() {
            return;
        }
        let rules = self.rules.take();
        for handed in std::mem::take(&mut self.handed).chunks_mut(MAX_ROUTE_BATCH) {
            let mut batch: Vec<_> =
                handed.iter_mut().map(|(port, frame)| RouteFrame::new(frame, *port)).collect();
            let left = self.decide(&mut batch, now_ns);
            drop(batch);
            for (at, (ingress, frame)) in handed.iter_mut().enumerate() {
                let source = BatchFrame::Copy { frame, ingress: *ingress };
                self.deliver(queues, source, at, left & 1 << at != 0, now_ns);
            }
        }
        self.rules = rules;
    }

    /// Gives the worker a packet for [`Self::forward_handed`].
    pub(crate) fn hand(&mut self, packet: (FibPortIndex, Vec<u8>)) {
        self.handed.push(packet);
    }

    /// Sends a frame of the kernel, or of address resolution, by the parent of a subinterface, or
    /// counts it if there is no space. The frame already has the tags.
    fn send_tagged(&mut self, queues: &mut WorkerQueues, number: usize, frame: &mut Vec<u8>) {
        let Some(of) = &mut self.subinterfaces else { return };
        let parent = of.shared.all()[number].parent;
        let at = self.ports.ifindexes.iter().position(|ifindex| *ifindex == parent);
        tags::pad(frame);
        if !at.is_some_and(|at| queues[self.ports.tx_of[at]].copy_frame(frame)) {
            of.counters[number].unsent += 1;
        }
    }

    /// Keeps a packet until its next hop is resolved. The link of a subinterface resolves its
    /// neighbours itself; the kernel resolves all others.
    pub(super) fn hold(&mut self, held: HeldPacket, frame: Vec<u8>, now_ns: Nanos) {
        let refused = match &mut self.subinterfaces {
            Some(of) if let Some(number) = of.number(held.port) => {
                of.changed[number] = true;
                let packet = WaitingPacket { owner: self.id, held, frame };
                of.shared.all()[number].with(|link| link.hold(packet, now_ns)).is_err()
            }
            _ => self.held.hold(held, frame, now_ns).is_err(),
        };
        if refused {
            self.engine.discard(&held, RouteDropCause::HoldQueueFull);
        }
    }

    /// Sends the frames that links have made, and the packets that no longer wait.
    pub(super) fn serve_subinterfaces(&mut self, queues: &mut WorkerQueues, now_ns: Nanos) {
        let count = self.subinterfaces.as_ref().map_or(0, |of| of.shared.all().len());
        for number in 0..count {
            self.serve_link(queues, number, now_ns);
        }
        let mail = self.subinterfaces.as_ref().map(|of| of.shared.take_mail(self.id));
        for end in mail.into_iter().flatten() {
            self.finish_waiting(queues, end, now_ns);
        }
    }

    fn serve_link(&mut self, queues: &mut WorkerQueues, number: usize, now_ns: Nanos) {
        let Some(of) = &mut self.subinterfaces else { return };
        let has_changed = std::mem::take(&mut of.changed[number]);
        if !has_changed && !of.shared.is_due(number, now_ns) {
            return;
        }
        let (own, wakers) = (self.id, of.wakers.get());
        let wake = |owner: usize| {
            let other = wakers.filter(|_| owner != own).and_then(|wakers| wakers.get(owner));
            other.into_iter().for_each(|wake| wake());
        };
        let (tags, priorities) = (of.shared.all()[number].tags, of.priorities);
        for frame in of.shared.collect(number, now_ns, wake) {
            match frame {
                SubinterfaceFrame::Wire(frame) => {
                    let mut tagged = Vec::new();
                    tags::add(&frame, tags, &priorities, &mut tagged);
                    self.send_tagged(queues, number, &mut tagged);
                }
                SubinterfaceFrame::Kernel(mut frame) => {
                    let Some(of) = &mut self.subinterfaces else { return };
                    let is_sent = of.send(queues, QueueRole::Tap(number), &mut frame);
                    of.counters[number].full += u64::from(!is_sent);
                }
            }
        }
    }

    /// Sends a packet that has waited, or drops it. If its next hop does not answer, its sender
    /// gets an ICMP error.
    fn finish_waiting(&mut self, queues: &mut WorkerQueues, end: WaitEnd, now_ns: Nanos) {
        let (WaitingPacket { held, mut frame, .. }, verdict) = match end {
            WaitEnd::Released(mut packet, mac) => {
                let verdict = self.engine.release(&packet.held, &mut packet.frame, mac, now_ns);
                (packet, verdict)
            }
            WaitEnd::Lost(packet, HoldDropCause::Unanswered) => {
                let verdict = self.engine.unanswered(&packet.held, &packet.frame, now_ns);
                (packet, verdict)
            }
            WaitEnd::Lost(packet, cause) => {
                let cause = match cause {
                    HoldDropCause::Flushed => RouteDropCause::PortDown,
                    _ => RouteDropCause::HoldQueueFull,
                };
                return self.engine.discard(&packet.held, cause);
            }
        };
        self.deliver_held(queues, &held, &mut frame, verdict, now_ns);
    }
}
