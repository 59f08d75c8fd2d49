//! Fourth stage: checks whether a packet with this source may arrive on its port (RFC 3704).
//!
//! As in Linux, this stage comes after the lookup of the destination. So a packet without a route
//! is answered regardless of its source. The source is looked up in the tables of the egress port,
//! in which the destination's reply to the packet would also be looked up.

use slipring_fib::{AdjacencyIndex, ReversePathMode, TargetAction, TargetIndex};
use slipring_wire::assigned::EtherType;

use crate::batch::{Bits, MAX_ROUTE_BATCH, RouteBatch, RouteFrame};
use crate::cause::RouteDropCause;
use crate::counters::RouteCounters;
use crate::field::{be32, be128};
use crate::look_up::find_targets;
use crate::packet::RoutedPacket;
use crate::punt::{PuntReason, classify};
use crate::verdict::RouteVerdict;
use crate::view::RouteView;

/// Checks the sources of packets that have a route and arrived on ports with source checks.
pub(crate) fn run(
    view: &RouteView,
    counters: &mut RouteCounters,
    batch: &mut RouteBatch,
    frames: &[RouteFrame<'_>],
) {
    let mut checked = 0;
    // Saves the VRF and the target of each destination, because the lookup of the sources
    // overwrites them temporarily.
    let mut found = [(0, 0); MAX_ROUTE_BATCH];
    for at in Bits(batch.live()) {
        let packet = &mut batch.packets[at];
        if mode(view, packet) != ReversePathMode::Off {
            checked |= 1 << at;
            found[at] = (packet.vrf, packet.target);
            packet.vrf = egress_vrf(view, packet);
        }
    }
    let RouteBatch { v4, v6, packets, scratch, .. } = batch;
    let masks = [*v4 & checked, *v6 & checked];
    find_targets(view, masks, packets, scratch, |at, packet| source(frames[at].bytes, packet));
    for at in Bits(checked) {
        let packet = batch.packets[at];
        (batch.packets[at].vrf, batch.packets[at].target) = found[at];
        match judge(view, &packet) {
            Judgement::Accept => {}
            Judgement::Drop(cause) => batch.settle(counters, at, RouteVerdict::Drop(cause)),
            Judgement::Kernel => {
                let ethertype = if packet.is_v6() { EtherType::IPV6 } else { EtherType::IPV4 };
                let class = classify(frames[at].bytes, ethertype, packet.l3());
                batch.punt(counters, at, class, PuntReason::ReversePath);
            }
        }
    }
}

fn source(bytes: &[u8], packet: &RoutedPacket) -> u128 {
    if packet.is_v6() {
        be128(bytes, packet.l3() + 8)
    } else {
        be32(bytes, packet.l3() + 12).into()
    }
}

fn mode(view: &RouteView, packet: &RoutedPacket) -> ReversePathMode {
    let port = view.port(packet.port);
    port.map_or(ReversePathMode::Off, |port| port.reverse_path[usize::from(packet.is_v6())])
}

fn egress_vrf(view: &RouteView, packet: &RoutedPacket) -> u16 {
    let egress = view.adjacency(packet.adjacency).and_then(|to| view.port(to.port.0));
    egress.map_or(packet.vrf, |port| port.vrf)
}

enum Judgement {
    Accept,
    Drop(RouteDropCause),
    Kernel,
}

/// Decides about a source by the target that it matched (RFC 3704, 2.2 and 2.4).
fn judge(view: &RouteView, packet: &RoutedPacket) -> Judgement {
    let is_strict = mode(view, packet) == ReversePathMode::Strict;
    let leads_back = |index: AdjacencyIndex| {
        view.adjacency(index.0).is_some_and(|adjacency| adjacency.port.0 == packet.port)
    };
    let is_accepted = match view.target(TargetIndex(packet.target)).action {
        TargetAction::Kernel => return Judgement::Kernel,
        TargetAction::Forward(index) => !is_strict || leads_back(index),
        TargetAction::Balance(group) => {
            let buckets = view.tables.buckets.get(usize::from(group));
            !is_strict || buckets.is_some_and(|all| all.iter().any(|index| leads_back(*index)))
        }
        // Other targets fail the check. A black hole route to the source thus also drops the packet
        // (RFC 5635).
        _ => false,
    };
    match (is_accepted, is_strict) {
        (true, _) => Judgement::Accept,
        (false, true) => Judgement::Drop(RouteDropCause::ReversePathStrict),
        (false, false) => Judgement::Drop(RouteDropCause::ReversePathLoose),
    }
}
