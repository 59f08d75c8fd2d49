//! A batch of frames on its way through the stages.

use core::net::IpAddr;

use slipring_fib::{FibPortIndex, TargetIndex};
use slipring_neighbour::icmp::IcmpProblem;
use slipring_wire::frame::TagSpec;

use crate::cause::RouteDropCause;
use crate::counters::RouteCounters;
use crate::packet::RoutedPacket;
use crate::punt::{PuntClass, PuntReason};
use crate::verdict::RouteVerdict;

/// Maximum number of frames in a batch.
pub const MAX_ROUTE_BATCH: usize = 64;

/// A received frame.
#[derive(Debug)]
pub struct RouteFrame<'f> {
    /// The whole frame, from the destination MAC address on, in memory to which no one else writes.
    pub bytes: &'f mut [u8],
    /// The port at which the frame arrived: any port of the interface, whatever the frame's tags.
    pub ingress: FibPortIndex,
    /// The outermost VLAN tag if the kernel removed it from the frame (AF_PACKET does).
    pub stripped_tag: Option<TagSpec>,
    /// Whether the transport checksum may be incomplete, because the sender is on this machine and
    /// expects a NIC to complete it. The router completes the checksum.
    pub is_partial: bool,
}

impl<'f> RouteFrame<'f> {
    /// A frame that arrived with its tags and complete checksums.
    #[must_use]
    pub const fn new(bytes: &'f mut [u8], ingress: FibPortIndex) -> Self {
        Self { bytes, ingress, stripped_tag: None, is_partial: false }
    }
}

/// The reason why a packet is dropped, and the ICMP error about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) cause: RouteDropCause,
    pub(crate) problem: IcmpProblem,
}

/// The state of up to 64 frames between the stages. A worker keeps one batch and uses it again.
///
/// Bit `i` of each mask is frame `i`. A frame is in exactly one of `v4`, `v6` (still being
/// processed), `rejected`, or has a verdict.
#[derive(Clone, Debug)]
pub struct RouteBatch {
    pub(crate) len: usize,
    pub(crate) v4: u64,
    pub(crate) v6: u64,
    pub(crate) rejected: u64,
    pub(crate) packets: [RoutedPacket; MAX_ROUTE_BATCH],
    /// The addresses to look up, usually the destinations.
    pub(crate) keys: [u128; MAX_ROUTE_BATCH],
    pub(crate) rejections: [Rejection; MAX_ROUTE_BATCH],
    verdicts: [Option<RouteVerdict>; MAX_ROUTE_BATCH],
    reasons: [Option<PuntReason>; MAX_ROUTE_BATCH],
    pub(crate) scratch: LookupScratch,
}

/// Keys and results of a lookup.
#[derive(Clone, Debug)]
pub(crate) struct LookupScratch {
    pub(crate) at: [u8; MAX_ROUTE_BATCH],
    pub(crate) v4: [u32; MAX_ROUTE_BATCH],
    pub(crate) v6: [u128; MAX_ROUTE_BATCH],
    pub(crate) targets: [TargetIndex; MAX_ROUTE_BATCH],
}

impl Default for RouteBatch {
    fn default() -> Self {
        let rejection = Rejection { cause: RouteDropCause::NoRoute, problem: IcmpProblem::NoRoute };
        Self {
            len: 0,
            v4: 0,
            v6: 0,
            rejected: 0,
            packets: [RoutedPacket::default(); MAX_ROUTE_BATCH],
            keys: [0; MAX_ROUTE_BATCH],
            rejections: [rejection; MAX_ROUTE_BATCH],
            verdicts: [None; MAX_ROUTE_BATCH],
            reasons: [None; MAX_ROUTE_BATCH],
            scratch: LookupScratch {
                at: [0; MAX_ROUTE_BATCH],
                v4: [0; MAX_ROUTE_BATCH],
                v6: [0; MAX_ROUTE_BATCH],
                targets: [TargetIndex::NO_ROUTE; MAX_ROUTE_BATCH],
            },
        }
    }
}

impl RouteBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of frames.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no frames.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the frames without a decision so far: bit `i` is frame `i`.
    #[must_use]
    pub const fn live(&self) -> u64 {
        self.v4 | self.v6
    }

    /// Returns the verdict about a frame; `None` if there is none yet.
    ///
    /// # Panics
    /// If there is no such frame.
    #[must_use]
    pub fn verdict(&self, at: usize) -> Option<RouteVerdict> {
        self.verdicts[..self.len][at]
    }

    /// Why a stage gave a frame to the kernel; `None` if no stage did, and after
    /// `RouteEngine::withhold`.
    ///
    /// # Panics
    /// If there is no such frame.
    #[must_use]
    pub fn punt_reason(&self, at: usize) -> Option<PuntReason> {
        self.reasons[..self.len][at]
    }

    /// Removes the reason for which a stage gave a frame to the kernel, and returns it; `None` if
    /// there is none.
    pub(crate) fn take_reason(&mut self, at: usize) -> Option<PuntReason> {
        self.reasons[..self.len][at].take()
    }

    /// The port of a live frame, found by its tags.
    ///
    /// # Panics
    /// If there is no such frame.
    #[must_use]
    pub fn ingress(&self, at: usize) -> FibPortIndex {
        FibPortIndex(self.packets[..self.len][at].port)
    }

    /// The offsets of the IP packet in a live frame: of its first byte, and after its last.
    ///
    /// # Panics
    /// If there is no such frame.
    #[must_use]
    pub fn ip_range(&self, at: usize) -> core::ops::Range<usize> {
        let packet = &self.packets[..self.len][at];
        packet.l3()..packet.end as usize
    }

    /// Makes the third stage look up `next_hop` instead of the destination of a live frame. If the
    /// address is not of the packet's family, changes nothing and returns false.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn set_next_hop(&mut self, at: usize, next_hop: IpAddr) -> bool {
        match (next_hop, self.packets[..self.len][at].is_v6()) {
            (IpAddr::V4(address), false) => self.keys[at] = address.to_bits().into(),
            (IpAddr::V6(address), true) => self.keys[at] = address.to_bits(),
            _ => return false,
        }
        true
    }

    /// Starts a batch of `len` frames.
    pub(crate) fn start(&mut self, len: usize) {
        assert!(len <= MAX_ROUTE_BATCH, "a batch has at most {MAX_ROUTE_BATCH} frames");
        (self.len, self.v4, self.v6, self.rejected) = (len, 0, 0, 0);
        self.verdicts[..len].fill(None);
        self.reasons[..len].fill(None);
    }

    /// Removes a frame from the live frames, and from the rejected ones.
    #[inline(always)]
    pub(crate) fn leave(&mut self, at: usize) {
        let others = !(1 << at);
        self.v4 &= others;
        self.v6 &= others;
        self.rejected &= others;
    }

    /// Stores a verdict. The caller counts it.
    #[inline(always)]
    pub(crate) fn decide(&mut self, at: usize, verdict: RouteVerdict) {
        self.verdicts[at] = Some(verdict);
    }

    /// Stores and counts the verdict about a frame.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        counters: &mut RouteCounters,
        at: usize,
        verdict: RouteVerdict,
    ) {
        self.leave(at);
        counters.count(self.packets[at].port, &verdict);
        self.decide(at, verdict);
    }

    /// Decides that the kernel gets a frame, and counts this by class and by reason.
    pub(crate) fn punt(
        &mut self,
        counters: &mut RouteCounters,
        at: usize,
        class: PuntClass,
        reason: PuntReason,
    ) {
        counters.port(self.packets[at].port).reasons[reason as usize] += 1;
        self.reasons[at] = Some(reason);
        self.settle(counters, at, RouteVerdict::Kernel(class));
    }

    /// Drops a packet. The last stage sends an ICMP error to its sender, if the RFCs' rules and the
    /// rate limit allow it.
    #[inline]
    pub(crate) fn reject(&mut self, at: usize, rejection: Rejection) {
        self.leave(at);
        self.rejected |= 1 << at;
        self.rejections[at] = rejection;
    }
}

/// The indices of the bits that are set in a mask, in ascending order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits(pub(crate) u64);

impl Iterator for Bits {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let at = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(at)
    }
}
