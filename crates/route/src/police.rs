//! Second stage: reverse path checks and ingress policers. Ports without either cost one test for
//! each batch.

mod policer;

use slipring_fib::{AdjacencyIndex, TargetAction, TargetIndex};
use slipring_wire::assigned::EtherType;

use crate::batch::{Bits, RouteBatch, RouteFrame};
use crate::cause::RouteDropCause;
use crate::config::ReversePathMode;
use crate::counters::RouteCounters;
use crate::field::{be32, be128};
use crate::look_up::find_targets;
use crate::packet::{PacketTraits, RoutedPacket};
use crate::punt::{PuntReason, classify};
use crate::verdict::RouteVerdict;
use crate::view::RouteView;

pub(crate) use policer::Policers;

/// Checks the sources of packets from ports that want it.
pub(crate) fn check_reverse_paths(
    view: &RouteView,
    counters: &mut RouteCounters,
    batch: &mut RouteBatch,
    frames: &[RouteFrame<'_>],
) {
    let mut checked = 0;
    for at in Bits(batch.live()) {
        let packet = batch.packets[at];
        // Link-local sources have no route; their packets do not leave the link.
        let is_checked = mode(view, &packet) != ReversePathMode::Off
            && !packet.traits.has(PacketTraits::LINK_SOURCE);
        checked |= u64::from(is_checked) << at;
    }
    let RouteBatch { v4, v6, packets, scratch, .. } = batch;
    let masks = [*v4 & checked, *v6 & checked];
    // The third stage overwrites these targets by those of the destinations.
    find_targets(view, masks, packets, scratch, |at, packet| source(frames[at].bytes, packet));
    for at in Bits(checked) {
        let packet = batch.packets[at];
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
    view.port(packet.port).map_or(ReversePathMode::Off, |port| port.reverse_path)
}

enum Judgement {
    Accept,
    Drop(RouteDropCause),
    Kernel,
}

/// Judges a source by the target that it matched (RFC 3704, 2.2 and 2.4).
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
        // A black hole for a source drops its packets, too (RFC 5635).
        _ => false,
    };
    match (is_accepted, is_strict) {
        (true, _) => Judgement::Accept,
        (false, true) => Judgement::Drop(RouteDropCause::ReversePathStrict),
        (false, false) => Judgement::Drop(RouteDropCause::ReversePathLoose),
    }
}
