//! First stage: which port a frame belongs to, and whether the router may forward its packet.
//!
//! A fast path accepts valid packets of the most common forms with a few comparisons. It never
//! rejects a frame: frames that it does not accept go through the complete checks, which determine
//! the cause of a drop. A test compares the two paths.

mod ipv4;
mod ipv6;
mod link;
mod outcome;
mod plain;

use slipring_wire::assigned::EtherType;

use crate::batch::{RouteBatch, RouteFrame};
use crate::cause::RouteDropCause;
use crate::counters::RouteCounters;
use crate::packet::{PacketTraits, RoutedPacket};
use crate::punt::{PuntReason, classify};
use crate::verdict::RouteVerdict;
use crate::view::RouteView;
use outcome::{Accepted, ParseRefusal};

/// Parses all frames. Frames that must not be forwarded get their verdicts.
pub(crate) fn run(
    view: &RouteView,
    punts_other_macs: bool,
    counters: &mut RouteCounters,
    batch: &mut RouteBatch,
    frames: &[RouteFrame<'_>],
) {
    batch.start(frames.len());
    for (at, frame) in frames.iter().enumerate() {
        parse(view, punts_other_macs, counters, batch, at, frame);
        let port = counters.port(batch.packets[at].port);
        port.rx_packets += 1;
        port.rx_bytes += frame.bytes.len() as u64;
    }
}

/// Parses one frame.
#[inline(always)]
pub(crate) fn parse(
    view: &RouteView,
    punts_other_macs: bool,
    counters: &mut RouteCounters,
    batch: &mut RouteBatch,
    at: usize,
    frame: &RouteFrame<'_>,
) {
    if let Some((packet, destination)) = plain::accept(view, frame) {
        batch.accept(at, packet, destination);
    } else {
        parse_completely(view, punts_other_macs, counters, batch, at, frame);
    }
}

#[inline(never)]
fn parse_completely(
    view: &RouteView,
    punts_other_macs: bool,
    counters: &mut RouteCounters,
    batch: &mut RouteBatch,
    at: usize,
    frame: &RouteFrame<'_>,
) {
    let mut port = frame.ingress.0;
    match examine(view, punts_other_macs, frame, &mut port) {
        Ok((packet, destination)) => batch.accept(at, packet, destination),
        Err(refusal) => {
            batch.packets[at] = RoutedPacket { port, ..RoutedPacket::default() };
            match refusal {
                ParseRefusal::Drop(cause) => {
                    batch.settle(counters, at, RouteVerdict::Drop(cause));
                }
                ParseRefusal::Kernel(class, reason) => batch.punt(counters, at, class, reason),
            }
        }
    }
}

/// Runs the complete checks on a frame. Returns the packet if it may be forwarded, otherwise what
/// happens to the frame. Sets `port` as soon as it is known.
fn examine(
    view: &RouteView,
    punts_other_macs: bool,
    frame: &RouteFrame<'_>,
    port: &mut u16,
) -> Result<Accepted, ParseRefusal> {
    let link = link::parse(view, frame)?;
    *port = link.port;
    let kernel = |reason| {
        let class = classify(frame.bytes, link.ethertype, usize::from(link.l3));
        Err(ParseRefusal::Kernel(class, reason))
    };
    if link.is_other_mac {
        if punts_other_macs {
            return kernel(PuntReason::Protocol);
        }
        return Err(ParseRefusal::Drop(RouteDropCause::OtherMac));
    }
    let traits = PacketTraits::default()
        .with_if(link.is_group, PacketTraits::LINK_GROUP)
        .with_if(frame.is_partial, PacketTraits::PARTIAL)
        .with_if(link.l3 != link::UNTAGGED_LEN, PacketTraits::TAGGED);
    let packet = RoutedPacket {
        l3: link.l3,
        port: link.port,
        vrf: link.vrf,
        traits,
        ..RoutedPacket::default()
    };
    match link.ethertype {
        EtherType::IPV4 => ipv4::examine(view, frame.bytes, packet),
        EtherType::IPV6 => ipv6::examine(view, frame.bytes, packet),
        _ => kernel(PuntReason::Protocol),
    }
}

impl RouteBatch {
    /// Marks a packet as live.
    #[inline(always)]
    fn accept(&mut self, at: usize, packet: RoutedPacket, destination: u128) {
        self.packets[at] = packet;
        self.keys[at] = destination;
        let bit = 1 << at;
        if packet.is_v6() {
            self.v6 |= bit;
        } else {
            self.v4 |= bit;
        }
    }
}

#[cfg(test)]
mod tests;
