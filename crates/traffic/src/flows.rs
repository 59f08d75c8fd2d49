//! The order in which a generator goes through its sources and destinations.
//!
//! A sweep counts the pair of endpoints up like an odometer: first the source port, then the source
//! address, the destination port, and the destination address. A side with random order is not
//! counted, but drawn for every frame.
//!
//! Several generators (one per thread or queue) divide the flows among them. Each has a contiguous
//! share, so a flow belongs to one generator, and its frames keep their order. If there are fewer
//! flows than generators, several generators share a flow.

use slipring_model::Stream;

use crate::endpoints::{EndpointCursor, Endpoints, TrafficEndpoint};
use crate::pattern::TrafficPattern;

/// How the endpoint of one side, source or destination, is chosen for each frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointOrder {
    /// The endpoints are used one after another. After the last one, the first one is used again.
    #[default]
    Sweep,
    /// The endpoint is drawn at random for each frame.
    Random,
}

/// Which part of a pattern's flows one of several generators sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratorShare {
    index: u16,
    of: u16,
}

impl GeneratorShare {
    /// The share of a generator that is the only one: all flows.
    pub const ONLY: Self = Self { index: 0, of: 1 };

    /// Returns share number `index`, counted from 0, of `of` shares; `None` if `index` is not below
    /// `of`.
    #[must_use]
    pub const fn new(index: u16, of: u16) -> Option<Self> {
        if index < of { Some(Self { index, of }) } else { None }
    }

    /// The number of this share, counted from 0.
    #[must_use]
    pub const fn index(self) -> u16 {
        self.index
    }

    /// The number of shares into which the flows are divided.
    #[must_use]
    pub const fn of(self) -> u16 {
        self.of
    }

    /// Divides `total` items, which must be at least 1. Returns the index of the first item of this
    /// share, and the number of its items.
    fn share(self, total: u128) -> (u128, u128) {
        let (index, of) = (u128::from(self.index), u128::from(self.of));
        if total < of {
            return (index % total, 1);
        }
        let (each, extra) = (total / of, total % of);
        (index * each + index.min(extra), each + u128::from(index < extra))
    }
}

/// The pairs of endpoints that one generator uses, one after another.
#[derive(Clone, Debug)]
pub(crate) struct EndpointPairs {
    src: EndpointSide,
    dst: EndpointSide,
    /// Which positions of the sweep this generator uses. `None` means all positions; the sweep
    /// then returns to the first endpoints by itself.
    share: Option<SweepShare>,
    stream: Stream,
}

/// This generator's part of the positions in the sweep.
#[derive(Clone, Debug)]
struct SweepShare {
    first: u128,
    count: u128,
    /// How many of these positions were visited in the current round.
    done: u128,
}

#[derive(Clone, Debug)]
struct EndpointSide {
    endpoints: Endpoints,
    order: EndpointOrder,
    cursor: EndpointCursor,
}

impl EndpointPairs {
    pub(crate) fn new(pattern: &TrafficPattern, own_share: GeneratorShare, stream: Stream) -> Self {
        let src = EndpointSide::new(&pattern.src, pattern.src_order);
        let dst = EndpointSide::new(&pattern.dst, pattern.dst_order);
        let total = src.swept().saturating_mul(dst.swept());
        let (first, count) = own_share.share(total);
        let share = (count < total).then_some(SweepShare { first, count, done: 0 });
        let mut flows = Self { src, dst, share, stream };
        flows.jump(first);
        flows
    }

    /// Returns whether all frames of this generator have the same endpoints.
    pub(crate) fn is_single(&self) -> bool {
        let swept = match &self.share {
            Some(share) => share.count,
            None => self.src.swept().saturating_mul(self.dst.swept()),
        };
        swept == 1 && !self.src.is_drawn() && !self.dst.is_drawn()
    }

    /// Returns the source and the destination of the next frame.
    #[inline]
    pub(crate) fn current(&self) -> (TrafficEndpoint, TrafficEndpoint) {
        (self.src.cursor.endpoint(), self.dst.cursor.endpoint())
    }

    /// Moves to the endpoints of the following frame.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if let Some(share) = &mut self.share {
            share.done += 1;
            if share.done == share.count {
                share.done = 0;
                let first = share.first;
                return self.jump(first);
            }
        }
        let carry = self.src.advance(&mut self.stream);
        if carry || self.dst.order == EndpointOrder::Random {
            self.dst.advance(&mut self.stream);
        }
    }

    fn jump(&mut self, position: u128) {
        let sources = self.src.swept();
        self.src.jump(position % sources, &mut self.stream);
        self.dst.jump(position / sources, &mut self.stream);
    }
}

impl EndpointSide {
    fn new(endpoints: &Endpoints, order: EndpointOrder) -> Self {
        Self { cursor: EndpointCursor::at(endpoints, 0), endpoints: endpoints.clone(), order }
    }

    /// Returns how many endpoints of this side the sweep visits.
    fn swept(&self) -> u128 {
        match self.order {
            EndpointOrder::Sweep => self.endpoints.count(),
            EndpointOrder::Random => 1,
        }
    }

    /// Returns whether an endpoint of this side is drawn for each frame.
    fn is_drawn(&self) -> bool {
        self.order == EndpointOrder::Random && self.endpoints.count() > 1
    }

    fn jump(&mut self, position: u128, stream: &mut Stream) {
        self.cursor = match self.order {
            EndpointOrder::Sweep => EndpointCursor::at(&self.endpoints, position),
            EndpointOrder::Random => EndpointCursor::random(&self.endpoints, stream),
        };
    }

    /// Moves to the next endpoint of this side. Returns whether the other side, which counts more
    /// slowly, must also move.
    #[inline]
    fn advance(&mut self, stream: &mut Stream) -> bool {
        match self.order {
            EndpointOrder::Sweep => self.cursor.step(&self.endpoints),
            EndpointOrder::Random => {
                self.cursor = EndpointCursor::random(&self.endpoints, stream);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    type Pair = ((u128, u16), (u128, u16));

    fn flows(
        src: (&str, EndpointOrder),
        dst: (&str, EndpointOrder),
        share: GeneratorShare,
    ) -> EndpointPairs {
        let pattern = TrafficPattern {
            src: src.0.parse().unwrap(),
            src_order: src.1,
            dst: dst.0.parse().unwrap(),
            dst_order: dst.1,
            ..TrafficPattern::default()
        };
        EndpointPairs::new(&pattern, share, Stream::new(1, "flows"))
    }

    fn take(flows: &mut EndpointPairs, count: usize) -> Vec<Pair> {
        let pairs = (0..count).map(|_| {
            let (src, dst) = flows.current();
            flows.advance();
            ((src.address, src.port), (dst.address, dst.port))
        });
        pairs.collect()
    }

    const SWEPT: EndpointOrder = EndpointOrder::Sweep;
    const RANDOM: EndpointOrder = EndpointOrder::Random;

    #[test]
    fn source_port_counts_up_first_and_destination_address_last() {
        let src = "0.0.0.1:1-0.0.0.2:2";
        let dst = "0.0.0.3:1-0.0.0.4:2";
        let mut flows = flows((src, SWEPT), (dst, SWEPT), GeneratorShare::ONLY);
        let mut expected = Vec::new();
        for dst in [(3, 1), (3, 2), (4, 1), (4, 2)] {
            for src in [(1, 1), (1, 2), (2, 1), (2, 2)] {
                expected.push((src, dst));
            }
        }
        expected.push(expected[0]);
        assert_eq!(take(&mut flows, 17), expected);
    }

    #[test]
    fn random_source_leaves_the_destination_counting() {
        let mut flows = flows(("10.0.0.0/8", RANDOM), ("0.0.0.0/29", SWEPT), GeneratorShare::ONLY);
        let pairs = take(&mut flows, 16);
        let destinations: Vec<u128> = pairs.iter().map(|pair| pair.1.0).collect();
        let expected: Vec<u128> = (0..8).chain(0..8).collect();
        assert_eq!(destinations, expected);
        let sources: BTreeSet<u128> = pairs.iter().map(|pair| pair.0.0).collect();
        assert!(sources.len() > 8);
    }

    #[test]
    fn random_destination_is_drawn_for_every_frame() {
        let mut flows = flows(("0.0.0.0/24", SWEPT), ("10.0.0.0/8", RANDOM), GeneratorShare::ONLY);
        let drawn: BTreeSet<u128> = take(&mut flows, 64).iter().map(|pair| pair.1.0).collect();
        assert!(drawn.len() > 60);
    }

    #[test]
    fn only_constant_endpoints_are_a_single_flow() {
        let one = ("10.0.0.1", SWEPT);
        assert!(flows(one, one, GeneratorShare::ONLY).is_single());
        assert!(!flows(("10.0.0.0/31", SWEPT), one, GeneratorShare::ONLY).is_single());
        assert!(!flows(one, ("10.0.0.0/31", RANDOM), GeneratorShare::ONLY).is_single());
    }

    #[test]
    fn lanes_beyond_the_flows_share_them() {
        let share = GeneratorShare::new(5, 8).unwrap();
        let mut flows = flows(("0.0.0.0/30", SWEPT), ("10.0.0.1", SWEPT), share);
        assert!(take(&mut flows, 3).iter().all(|pair| pair.0.0 == 1));
        assert_eq!(GeneratorShare::new(8, 8), None);
    }

    proptest! {
        #[test]
        fn lanes_together_visit_every_flow_once_a_round(of in 1u16..9, extra in 0u16..30) {
            let src = std::format!("0.0.0.0:0-0.0.0.2:{extra}");
            let dst = "1.0.0.0:0-1.0.0.1:2";
            let total = 3 * (usize::from(extra) + 1) * 6;
            let mut visits: BTreeMap<Pair, (u32, u16)> = BTreeMap::new();
            for index in 0..of {
                let mut flows = flows((&src, SWEPT), (dst, SWEPT), GeneratorShare::new(index, of).unwrap());
                // Two rounds, so that the return to the first flow is also tested.
                let share = flows.share.as_ref().map_or(total, |share| share.count as usize);
                let rounds = 2 * share;
                for pair in take(&mut flows, rounds) {
                    let seen = visits.entry(pair).or_insert((0, index));
                    prop_assert_eq!(seen.1, index);
                    seen.0 += 1;
                }
            }
            prop_assert_eq!(visits.len(), total);
            prop_assert!(visits.values().all(|seen| seen.0 == 2));
        }
    }
}
