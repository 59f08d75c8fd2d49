//! Third stage: finds the route of each packet, and the neighbour to which it leads.
//!
//! ```text
//!   keys by VRF and family -> targets (prefetch) -> adjacencies (prefetch) -> rewrite
//! ```

use slipring_fib::{TargetAction, TargetIndex};
use slipring_neighbour::icmp::IcmpProblem;
use slipring_simd::prefetch_element;
use slipring_wire::assigned::EtherType;

use crate::batch::{Bits, LookupScratch, MAX_ROUTE_BATCH, Rejection, RouteBatch, RouteFrame};
use crate::cause::RouteDropCause;
use crate::counters::RouteCounters;
use crate::hash::NextHopHash;
use crate::packet::{PacketTraits, RoutedPacket};
use crate::punt::{PuntReason, classify};
use crate::verdict::RouteVerdict;
use crate::view::RouteView;

/// Finds routes and adjacencies of all live packets.
pub(crate) fn run(
    view: &RouteView,
    hash: NextHopHash,
    counters: &mut RouteCounters,
    batch: &mut RouteBatch,
    frames: &[RouteFrame<'_>],
) {
    let RouteBatch { v4, v6, packets, keys, scratch, .. } = batch;
    find_targets(view, [*v4, *v6], packets, scratch, |at, _| keys[at]);
    for at in Bits(batch.live()) {
        resolve(view, hash, counters, batch, at, frames[at].bytes);
    }
}

/// Finds the route and adjacency of one live packet again.
pub(crate) fn run_one(
    view: &RouteView,
    hash: NextHopHash,
    counters: &mut RouteCounters,
    batch: &mut RouteBatch,
    frames: &[RouteFrame<'_>],
    at: usize,
) {
    let RouteBatch { v4, v6, packets, keys, scratch, .. } = batch;
    let bit = 1 << at;
    find_targets(view, [*v4 & bit, *v6 & bit], packets, scratch, |at, _| keys[at]);
    resolve(view, hash, counters, batch, at, frames[at].bytes);
}

/// Looks up a key for each packet of the two masks, IPv4 and IPv6, and stores the targets in the
/// packets.
#[inline(always)]
pub(crate) fn find_targets(
    view: &RouteView,
    masks: [u64; 2],
    packets: &mut [RoutedPacket; MAX_ROUTE_BATCH],
    scratch: &mut LookupScratch,
    key: impl Fn(usize, &RoutedPacket) -> u128,
) {
    for (mask, is_v6) in masks.into_iter().zip([false, true]) {
        let mut rest = mask;
        while rest != 0 {
            let vrf = packets[rest.trailing_zeros() as usize].vrf;
            let mut found = 0;
            for at in Bits(rest) {
                let packet = &packets[at];
                if packet.vrf == vrf {
                    scratch.at[found] = at as u8;
                    if is_v6 {
                        scratch.v6[found] = key(at, packet);
                    } else {
                        scratch.v4[found] = key(at, packet) as u32;
                    }
                    found += 1;
                    rest &= !(1 << at);
                }
            }
            look_up_in(view, vrf, is_v6, scratch, found);
            for (at, target) in scratch.at[..found].iter().zip(&scratch.targets) {
                prefetch_element(&view.tables.targets, usize::from(target.0));
                packets[usize::from(*at)].target = target.0;
            }
        }
    }
}

/// Looks up the first `found` keys in the tables of a VRF.
fn look_up_in(view: &RouteView, vrf: u16, is_v6: bool, scratch: &mut LookupScratch, found: usize) {
    let targets = &mut scratch.targets[..found];
    match view.tables.vrfs.get(usize::from(vrf)) {
        Some(tables) if is_v6 => tables.v6.lookup(&scratch.v6[..found], targets),
        Some(tables) => tables.v4.lookup(&scratch.v4[..found], targets),
        None => targets.fill(TargetIndex::KERNEL),
    }
}

/// What a target means for one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// The index of the adjacency, and the MTU of the route in bytes.
    Adjacency(u16, u32),
    Kernel,
    Drop(RouteDropCause),
    Reject(Rejection),
}

/// Reads a target. If the target has several next hops, chooses the next hop of the packet's flow.
#[inline(always)]
pub(crate) fn read_target(
    view: &RouteView,
    hash: NextHopHash,
    bytes: &[u8],
    packet: &RoutedPacket,
) -> Resolution {
    let target = view.target(TargetIndex(packet.target));
    let reject = |cause, problem| Resolution::Reject(Rejection { cause, problem });
    match target.action {
        TargetAction::Forward(index) => Resolution::Adjacency(index.0, target.mtu),
        TargetAction::Balance(group) => match view.bucket(group, hash.of(bytes, packet)) {
            Some(index) => Resolution::Adjacency(index.0, target.mtu),
            None => Resolution::Kernel,
        },
        TargetAction::Kernel => Resolution::Kernel,
        TargetAction::Blackhole => Resolution::Drop(RouteDropCause::Blackhole),
        TargetAction::NoRoute => reject(RouteDropCause::NoRoute, IcmpProblem::NoRoute),
        TargetAction::Unreachable => {
            reject(RouteDropCause::Unreachable, IcmpProblem::HostUnreachable)
        }
        TargetAction::Prohibit => reject(RouteDropCause::Prohibited, IcmpProblem::Prohibited),
    }
}

#[inline(always)]
fn resolve(
    view: &RouteView,
    hash: NextHopHash,
    counters: &mut RouteCounters,
    batch: &mut RouteBatch,
    at: usize,
    bytes: &[u8],
) {
    let resolution = read_target(view, hash, bytes, &batch.packets[at]);
    let packet = &mut batch.packets[at];
    match resolution {
        Resolution::Adjacency(index, mtu) if packet.traits.may_leave_link() => {
            packet.adjacency = index;
            packet.mtu = mtu;
            prefetch_element(&view.tables.adjacencies, usize::from(index));
        }
        other => refuse(counters, batch, at, bytes, other),
    }
}

impl PacketTraits {
    /// Returns whether a router may forward the packet to another link.
    #[inline(always)]
    fn may_leave_link(self) -> bool {
        !self.has(Self::LINK_GROUP.with(Self::LINK_SOURCE))
    }
}

#[inline(never)]
fn refuse(
    counters: &mut RouteCounters,
    batch: &mut RouteBatch,
    at: usize,
    bytes: &[u8],
    resolution: Resolution,
) {
    let packet = batch.packets[at];
    let verdict = match resolution {
        Resolution::Kernel => {
            let ethertype = if packet.is_v6() { EtherType::IPV6 } else { EtherType::IPV4 };
            let class = classify(bytes, ethertype, packet.l3());
            return batch.punt(counters, at, class, PuntReason::Route);
        }
        _ if packet.traits.has(PacketTraits::LINK_GROUP) => RouteDropCause::LinkGroup,
        _ if packet.traits.has(PacketTraits::LINK_SOURCE) => RouteDropCause::V6SourceLinkLocal,
        Resolution::Drop(cause) => cause,
        Resolution::Reject(rejection) => return batch.reject(at, rejection),
        // A packet with an adjacency gets here only if it must not leave its link.
        Resolution::Adjacency(..) => RouteDropCause::LinkGroup,
    };
    batch.settle(counters, at, RouteVerdict::Drop(verdict));
}
