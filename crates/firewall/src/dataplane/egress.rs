//! Sends frames to the output ports of the port from which they came, or to the port that a rule
//! chose. If the rules require it, frames are first checked on output.

use slipring_ipfw::rule::NextHop;
use slipring_ipfw::run::{CheckPass, EmissionTarget, EmittedFrame, PacketMetadata, PortIndex};

use super::bypass::BypassVerdict;
use super::{Dataplane, DataplaneLoss, DataplaneNanos, DataplaneOutput};

impl Dataplane {
    /// Handles a frame that the rules do not check: sends copies to all output ports but the last,
    /// and returns the last, to which the caller must send the frame. Returns `None` if the frame
    /// is dropped.
    pub(super) fn forward_bypassed(
        &mut self,
        what: BypassVerdict,
        frame: &[u8],
        from: PortIndex,
        outlet: &mut impl DataplaneOutput,
    ) -> Option<PortIndex> {
        match what {
            BypassVerdict::Arp => self.counters.bypassed.arp += 1,
            BypassVerdict::NonIp => self.counters.bypassed.non_ip += 1,
            BypassVerdict::Dropped => {
                self.counters.count_loss(DataplaneLoss::NonIp);
                return None;
            }
        }
        let Some(last) = self.map.targets(from).len().checked_sub(1) else {
            self.counters.count_loss(DataplaneLoss::NoTarget);
            return None;
        };
        for at in 0..last {
            self.counters.copies += 1;
            self.send(self.map.targets(from)[at], frame, outlet);
        }
        Some(self.map.targets(from)[last])
    }

    /// Handles an accepted frame. Returns the port to which the caller must send it; `None` if its
    /// input port has no output port, or the check on output does not accept it. A frame that was
    /// accepted on input goes to the output ports of its input port: copies go to all but the last,
    /// the frame itself to the last, after the check on output if there is one.
    pub(super) fn accepted(
        &mut self,
        frame: &mut [u8],
        crossing: PacketMetadata,
        now: DataplaneNanos,
        outlet: &mut impl DataplaneOutput,
    ) -> Option<PortIndex> {
        if crossing.pass == CheckPass::Out {
            return crossing.xmit;
        }
        let from = crossing.recv.unwrap_or(0);
        let count = self.map.targets(from).len();
        let Some(last) = count.checked_sub(1) else {
            self.counters.count_loss(DataplaneLoss::NoTarget);
            return None;
        };
        for at in 0..last {
            let port = self.map.targets(from)[at];
            self.counters.copies += 1;
            let mut copy = frame.to_vec();
            let output = self.egress(port, &mut copy, crossing.clone(), now, outlet);
            output.into_iter().for_each(|port| self.send(port, &copy, outlet));
        }
        self.egress(self.map.targets(from)[last], frame, crossing, now, outlet)
    }

    /// Runs the output check on a packet that `reass` has reassembled, for each output port.
    /// Carries out the verdict on each of the packet's fragments.
    pub(super) fn egress_reassembled(
        &mut self,
        (whole, parts): (Vec<u8>, Vec<Vec<u8>>),
        crossing: &PacketMetadata,
        now: DataplaneNanos,
        outlet: &mut impl DataplaneOutput,
    ) {
        let targets = self.map.targets(crossing.recv.unwrap_or(0)).to_vec();
        if targets.is_empty() {
            parts.iter().for_each(|_| self.counters.count_loss(DataplaneLoss::NoTarget));
        }
        self.counters.copies += (targets.len().saturating_sub(1) * parts.len()) as u64;
        for port in targets {
            let (mut whole, mut parts) = (whole.clone(), parts.clone());
            let (mut crossing, outputs) = (crossing.clone().outgoing(port), &mut self.outputs);
            let verdict =
                self.firewall.check_whole(&mut whole, &mut parts, &mut crossing, now, outputs);
            self.emit_outputs(outlet);
            for mut part in parts {
                let output = self.act(verdict.clone(), &mut part, crossing.clone(), now, outlet);
                output.into_iter().for_each(|port| self.send(port, &part, outlet));
            }
        }
    }

    /// If frames are checked on output, checks one that is to leave by `port`. Returns the port to
    /// which the caller must send it: `port`, or one that a rule chose. Returns `None` if the check
    /// does not accept the frame.
    fn egress(
        &mut self,
        port: PortIndex,
        frame: &mut [u8],
        crossing: PacketMetadata,
        now: DataplaneNanos,
        outlet: &mut impl DataplaneOutput,
    ) -> Option<PortIndex> {
        if !self.checks_out {
            return Some(port);
        }
        self.process(frame, crossing.outgoing(port), now, outlet)
    }

    /// Directs a frame to the next hop that a `fwd` rule gave: if this is an address, sets the
    /// frame's destination MAC address. Returns the port to which the caller must send the frame,
    /// after the check on output if there is one; `None` if the next hop is unknown, or if that
    /// check does not accept the frame.
    pub(super) fn forward(
        &mut self,
        hop: &NextHop,
        frame: &mut [u8],
        crossing: PacketMetadata,
        now: DataplaneNanos,
        outlet: &mut impl DataplaneOutput,
    ) -> Option<PortIndex> {
        let found = match hop {
            NextHop::Port(name) => {
                let ports = &self.firewall.config().ports;
                ports.iter().position(|port| port == name).map(|at| at as PortIndex)
            }
            hop => self.neighbors.resolve(hop, frame),
        };
        let Some(port) = found else {
            self.counters.count_loss(DataplaneLoss::NoHop);
            return None;
        };
        match crossing.pass {
            CheckPass::In => self.egress(port, frame, crossing, now, outlet),
            CheckPass::Out => Some(port),
        }
    }

    /// Continues the processing of a frame that has left the shaper.
    pub(super) fn resume(
        &mut self,
        frame: &mut [u8],
        crossing: PacketMetadata,
        now: DataplaneNanos,
        outlet: &mut impl DataplaneOutput,
    ) {
        let output = if self.firewall.continues_after_shaper() {
            self.process(frame, crossing, now, outlet)
        } else {
            self.accepted(frame, crossing, now, outlet)
        };
        output.into_iter().for_each(|port| self.send(port, frame, outlet));
    }

    /// Sends a copy of a frame, and counts it as sent or lost.
    pub(super) fn send(
        &mut self,
        port: PortIndex,
        frame: &[u8],
        outlet: &mut impl DataplaneOutput,
    ) {
        match outlet.send(port, frame) {
            Ok(()) => self.counters.sent += 1,
            Err(cause) => self.counters.count_loss(cause),
        }
    }

    /// Sends the frames and log lines that a check has produced in addition to its verdict.
    pub(super) fn emit_outputs(&mut self, outlet: &mut impl DataplaneOutput) {
        self.outputs.log.drain(..).for_each(|event| outlet.log(event));
        if self.outputs.unseen > 0 {
            outlet.count_unwatched(std::mem::take(&mut self.outputs.unseen));
        }
        if self.outputs.frames.is_empty() {
            return;
        }
        for EmittedFrame { target: toward, frame } in std::mem::take(&mut self.outputs.frames) {
            let ports: Vec<PortIndex> = match toward {
                EmissionTarget::Port(port) => vec![port],
                EmissionTarget::From(port) => self.map.targets(port).to_vec(),
                EmissionTarget::All => (0..self.map.ports() as PortIndex).collect(),
            };
            for port in ports {
                self.counters.made += 1;
                self.send(port, &frame, outlet);
            }
        }
    }
}
