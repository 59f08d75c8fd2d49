//! Operations on frames for stages of the program, such as filter rules, between the engine's own
//! stages.

use core::net::IpAddr;

use slipring_fib::FibPortIndex;
use slipring_neighbour::icmp::OffendingPacket;

use crate::answer::{self, AnswerOutcome};
use crate::batch::{RouteBatch, RouteFrame};
use crate::cause::RouteDropCause;
use crate::engine::RouteEngine;
use crate::field::{be32, be128};
use crate::packet::{PacketTraits, RoutedPacket};
use crate::punt::PuntReason;
use crate::verdict::RouteVerdict;
use crate::{look_up, parse};

impl RouteEngine {
    /// Drops a frame that a stage had given to the kernel.
    ///
    /// # Panics
    /// If the verdict about the frame is not [`RouteVerdict::Kernel`].
    pub fn withhold(&mut self, batch: &mut RouteBatch, at: usize, cause: RouteDropCause) {
        let (Some(RouteVerdict::Kernel(class)), Some(reason)) =
            (batch.verdict(at), batch.take_reason(at))
        else {
            panic!("the frame is not for the kernel")
        };
        let port = self.counters.port(batch.packets[at].port);
        port.kernel[class as usize] -= 1;
        port.reasons[reason as usize] -= 1;
        batch.settle(&mut self.counters, at, RouteVerdict::Drop(cause));
    }

    /// Returns whether the kernel will probably forward a frame that it gets. This is so if the
    /// kernel gets it because of the packet's options, its route or the route to its source, and
    /// the packet is not for the router itself.
    ///
    /// # Panics
    /// If there is no such frame.
    #[must_use]
    pub fn is_for_kernel_to_forward(
        &self,
        batch: &RouteBatch,
        frames: &[RouteFrame<'_>],
        at: usize,
    ) -> bool {
        let forwarded =
            [PuntReason::Options, PuntReason::HopByHop, PuntReason::Route, PuntReason::ReversePath];
        batch.punt_reason(at).is_some_and(|reason| forwarded.contains(&reason))
            && !self.is_for_router(batch, &frames[at], at)
    }

    /// Returns whether the destination is an address of the router.
    fn is_for_router(&self, batch: &RouteBatch, frame: &RouteFrame<'_>, at: usize) -> bool {
        let vrf = self.view.port(batch.packets[at].port).map_or(0, |facts| facts.vrf);
        OffendingPacket::parse(frame.bytes).is_some_and(|packet| match packet.destination {
            IpAddr::V4(to) => self.view.own.has_v4(to.to_bits(), vrf),
            IpAddr::V6(to) => self.view.own.has_v6(to.to_bits(), vrf),
        })
    }

    /// Finds the route of one live frame again after [`RouteBatch::set_next_hop`]. Call this only
    /// after the third stage.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn look_up_again(&mut self, batch: &mut RouteBatch, frames: &[RouteFrame<'_>], at: usize) {
        let hash = self.hash();
        look_up::run_one(&self.view, hash, &mut self.counters, batch, frames, at);
    }

    /// Like [`Self::parse`], but for frames whose verdict was [`RouteVerdict::Delayed`]. They were
    /// already counted as received.
    ///
    /// # Panics
    /// If there are more than [`crate::MAX_ROUTE_BATCH`] frames. There must not be more than are
    /// delayed, or the count of delayed frames is wrong from then on.
    pub fn parse_delayed(&mut self, batch: &mut RouteBatch, frames: &[RouteFrame<'_>]) {
        let punts = self.punts_other_macs();
        self.counters.delayed -= frames.len() as u64;
        batch.start(frames.len());
        for (at, frame) in frames.iter().enumerate() {
            parse::parse(&self.view, punts, &mut self.counters, batch, at, frame);
        }
    }

    /// Drops a frame of `len` bytes that arrived at `port` and has not passed any stage.
    pub fn refuse(&mut self, port: FibPortIndex, len: usize, cause: RouteDropCause) {
        let counters = self.counters.port(port.0);
        counters.rx_packets += 1;
        counters.rx_bytes += len as u64;
        self.counters.count(port.0, &RouteVerdict::Drop(cause));
    }

    /// Drops a delayed packet that arrived at `port`.
    pub fn discard_delayed(&mut self, port: FibPortIndex, cause: RouteDropCause) {
        self.counters.delayed -= 1;
        self.counters.count(port.0, &RouteVerdict::Drop(cause));
    }

    /// Handles a frame that is not in a port's memory. If its verdict is `Forward` or `Hold`, puts
    /// a copy into the output queue. Other verdicts need no action. If the queue is full, counts
    /// the frame as dropped and returns `false`.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn emit(&mut self, batch: &RouteBatch, frames: &[RouteFrame<'_>], at: usize) -> bool {
        let Some(verdict @ (RouteVerdict::Forward(_) | RouteVerdict::Hold(_))) = batch.verdict(at)
        else {
            return true;
        };
        if !self.output.has_room(1) {
            self.counters.uncount(&verdict);
            let ingress = batch.packets[at].port;
            self.counters.count(ingress, &RouteVerdict::Drop(RouteDropCause::OutputQueueFull));
            return false;
        }
        let mut frame = self.output.buffer();
        frame.extend_from_slice(frames[at].bytes);
        answer::enqueue(&mut self.output, frame, &verdict)
    }

    /// Routes an IP packet that the router itself sends, and puts it into the output queue. The
    /// destination is looked up in the tables of `port`, and the packet counts as one from this
    /// port. Its TTL must be above 1 and is not decremented. Returns `false` if the packet is
    /// dropped.
    pub fn originate(&mut self, port: FibPortIndex, packet: &[u8]) -> bool {
        let Some((destination, traits)) = destination_of(packet) else { return false };
        let vrf = self.view.port(port.0).map_or(0, |facts| facts.vrf);
        let cause = RoutedPacket { port: port.0, vrf, traits, ..RoutedPacket::default() };
        let (view, mut parts) = self.parts();
        let Some(route) = answer::route_to(view, destination, vrf) else { return false };
        parts.output.has_room(1)
            && answer::dispatch(view, &mut parts, packet, &cause, (destination, route))
                == AnswerOutcome::Queued
    }
}

/// Returns the destination of an IP packet and the traits of its family; `None` if its IP header is
/// not complete.
fn destination_of(packet: &[u8]) -> Option<(IpAddr, PacketTraits)> {
    match (packet.first()? >> 4, packet.len()) {
        (4, 20..) => Some((IpAddr::V4(be32(packet, 16).into()), PacketTraits::default())),
        (6, 40..) => Some((IpAddr::V6(be128(packet, 24).into()), PacketTraits::V6)),
        _ => None,
    }
}
