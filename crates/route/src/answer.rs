//! Last stage: ICMP and ICMPv6 errors about packets that cannot be forwarded.
//!
//! The router itself sends these errors. They leave by the route to the packet's sender, which need
//! not lead to the ingress port. This route is looked up in the VRF of the packet's ingress port,
//! or in the first VRF if the configuration says so.

mod redirect;

use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_fib::{TargetAction, TargetIndex};
use slipring_neighbour::icmp::{IcmpLimiter, IcmpMessage, OffendingPacket, QuoteLength};
use slipring_wire::checksum::Delta;

use crate::batch::{Bits, RouteBatch, RouteFrame};
use crate::cause::RouteDropCause;
use crate::counters::RouteCounters;
use crate::egress;
use crate::field::be16;
use crate::hash::NextHopHash;
use crate::look_up::{Resolution, read_target};
use crate::output::{OutputQueue, RouteOutput};
use crate::packet::{PacketTraits, RoutedPacket};
use crate::punt::{PuntClass, PuntReason};
use crate::verdict::RouteVerdict;
use crate::view::RouteView;

pub(crate) use redirect::redirect;

/// Length of the link header of a frame that is being made.
const LINK_LEN: usize = 14;
/// Precedence "internetwork control" of the TOS field (RFC 1812, 4.3.2.5).
const INTERNETWORK_CONTROL: u8 = 0xc0;

/// The parts of an engine that are needed to answer packets.
#[derive(Debug)]
pub(crate) struct AnswerParts<'e> {
    pub(crate) counters: &'e mut RouteCounters,
    pub(crate) limiter: &'e mut IcmpLimiter,
    pub(crate) output: &'e mut OutputQueue,
    pub(crate) hash: NextHopHash,
    pub(crate) quote: QuoteLength,
    pub(crate) sends_redirects: bool,
    /// Whether the routes of answers are looked up in the first VRF, not in that of the packet's
    /// ingress port.
    pub(crate) in_first_vrf: bool,
}

impl AnswerParts<'_> {
    /// The VRF in which the route of an answer to a packet is looked up.
    const fn vrf(&self, packet: &RoutedPacket) -> u16 {
        if self.in_first_vrf { 0 } else { packet.vrf }
    }

    /// Returns whether redirects are sent.
    pub(crate) const fn sends_redirects(&self) -> bool {
        self.sends_redirects
    }
}

/// The result of an attempt to send an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerOutcome {
    /// The answer is in the output queue.
    Queued,
    /// No error may or can be sent.
    Silent,
    /// Only the kernel knows the route to the sender.
    Kernel,
}

/// Answers all rejected packets, and sets their verdicts.
pub(crate) fn run(
    view: &RouteView,
    mut parts: AnswerParts<'_>,
    batch: &mut RouteBatch,
    frames: &[RouteFrame<'_>],
    now_ns: u64,
) {
    for at in Bits(batch.rejected) {
        let (packet, rejection) = (batch.packets[at], batch.rejections[at]);
        let message = rejection.problem.message(packet.is_v6());
        match answer(view, &mut parts, frames[at].bytes, &packet, message, now_ns) {
            AnswerOutcome::Queued => {
                batch.settle(parts.counters, at, RouteVerdict::Answered(rejection.cause));
            }
            AnswerOutcome::Silent => {
                batch.settle(parts.counters, at, RouteVerdict::Drop(rejection.cause));
            }
            AnswerOutcome::Kernel => {
                batch.punt(parts.counters, at, PuntClass::Icmp, PuntReason::ErrorRoute);
            }
        }
    }
}

/// Sends an ICMP message about a packet to its sender, if the RFCs' rules and the rate limit allow
/// it. Returns whether it is in the output queue, or why not.
pub(crate) fn answer(
    view: &RouteView,
    parts: &mut AnswerParts<'_>,
    bytes: &[u8],
    packet: &RoutedPacket,
    message: IcmpMessage,
    now_ns: u64,
) -> AnswerOutcome {
    let (offending, route) = match admit(view, parts, bytes, packet, message, now_ns) {
        Ok(admitted) => admitted,
        Err(outcome) => return outcome,
    };
    let peer = offending.source;
    let own = view.own_address(packet.port, peer);
    let Some(mut error) = own.and_then(|own| offending.error(message, own, parts.quote)) else {
        return AnswerOutcome::Silent;
    };
    if peer.is_ipv4() {
        raise_precedence(&mut error);
    }
    dispatch(view, parts, &error, packet, (peer, route))
}

/// Returns the packet to answer and the route to its sender, if an ICMP message may be sent;
/// otherwise the outcome.
fn admit<'b>(
    view: &RouteView,
    parts: &mut AnswerParts<'_>,
    bytes: &'b [u8],
    packet: &RoutedPacket,
    message: IcmpMessage,
    now_ns: u64,
) -> Result<(OffendingPacket<'b>, TargetIndex), AnswerOutcome> {
    let offending = OffendingPacket::parse(bytes).ok_or(AnswerOutcome::Silent)?;
    if offending.may_answer(message).is_err() || !parts.output.has_room(1) {
        return Err(AnswerOutcome::Silent);
    }
    let route = route_to(view, offending.source, parts.vrf(packet)).ok_or(AnswerOutcome::Silent)?;
    if view.target(route).action == TargetAction::Kernel {
        return Err(AnswerOutcome::Kernel);
    }
    if parts.limiter.allows(offending.source, now_ns).is_err() {
        parts.counters.suppressed += 1;
        return Err(AnswerOutcome::Silent);
    }
    Ok((offending, route))
}

/// Sets the precedence of an IPv4 packet to [`INTERNETWORK_CONTROL`].
fn raise_precedence(ip: &mut [u8]) {
    let Some([_, tos, ..]) = ip.first_chunk_mut::<12>() else { return };
    *tos = INTERNETWORK_CONTROL;
    let checksum = Delta::new().u16(0x4500, 0x45c0).apply(be16(ip, 10));
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Looks up one destination; `None` if the VRF does not exist.
pub(crate) fn route_to(view: &RouteView, destination: IpAddr, vrf: u16) -> Option<TargetIndex> {
    let tables = view.tables.vrfs.get(usize::from(vrf))?;
    let mut target = [TargetIndex::NO_ROUTE];
    match destination {
        IpAddr::V4(to) => tables.v4.lookup(&[to.to_bits()], &mut target),
        IpAddr::V6(to) => tables.v6.lookup(&[to.to_bits()], &mut target),
    }
    Some(target[0])
}

/// Sends `ip`, a packet of the router itself, to `peer` by a route. `cause` is the packet about
/// which it is sent. The new packet counts as generated, and in addition by its verdict. Returns
/// whether it is in the output queue.
pub(crate) fn dispatch(
    view: &RouteView,
    parts: &mut AnswerParts<'_>,
    ip: &[u8],
    cause: &RoutedPacket,
    (peer, route): (IpAddr, TargetIndex),
) -> AnswerOutcome {
    let mut frame = parts.output.buffer();
    frame.extend_from_slice(&[0; LINK_LEN]);
    frame.extend_from_slice(ip);
    let mut packet = RoutedPacket {
        end: frame.len() as u32,
        l3: LINK_LEN as u16,
        port: cause.port,
        vrf: parts.vrf(cause),
        target: route.0,
        traits: cause.traits.of_own_packet(),
        ..RoutedPacket::default()
    };
    parts.counters.generated += 1;
    let verdict = match read_target(view, parts.hash, &frame, &packet) {
        Resolution::Adjacency(index, mtu) => {
            (packet.adjacency, packet.mtu) = (index, mtu);
            egress::depart(view, parts.counters, parts.output, &mut frame, packet, bits(peer))
                .unwrap_or_else(|rejection| RouteVerdict::Drop(rejection.cause))
        }
        Resolution::Drop(cause) => RouteVerdict::Drop(cause),
        Resolution::Reject(rejection) => RouteVerdict::Drop(rejection.cause),
        Resolution::Kernel => RouteVerdict::Drop(RouteDropCause::NoRoute),
    };
    parts.counters.count(packet.port, &verdict);
    if enqueue(parts.output, frame, &verdict) {
        AnswerOutcome::Queued
    } else {
        AnswerOutcome::Silent
    }
}

/// Puts a frame into the output queue if its verdict is `Forward` or `Hold`. Returns false if the
/// verdict is `Drop`.
pub(crate) fn enqueue(
    output: &mut OutputQueue,
    mut frame: Vec<u8>,
    verdict: &RouteVerdict,
) -> bool {
    match verdict {
        RouteVerdict::Forward(forwarded) => {
            frame.truncate(forwarded.range().end);
            frame.splice(..forwarded.range().start, forwarded.prepend().iter().copied());
            output.push(RouteOutput::Send { port: forwarded.port, frame });
        }
        RouteVerdict::Hold(held) => output.push(RouteOutput::Hold { held: *held, frame }),
        _ => output.recycle(frame),
    }
    !matches!(verdict, RouteVerdict::Drop(_))
}

impl PacketTraits {
    /// Returns the traits of a packet that the router sends about a packet with these traits.
    fn of_own_packet(self) -> Self {
        if self.has(Self::V6) { Self::OWN.with(Self::V6) } else { Self::OWN }
    }
}
