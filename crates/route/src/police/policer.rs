//! The policers of the ports.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::iter::repeat;

use super::bucket::SharedBucket;
use crate::batch::{Bits, RouteBatch, RouteFrame};
use crate::cause::RouteDropCause;
use crate::config::{ExceedAction, PolicerSpec};
use crate::counters::RouteCounters;
use crate::packet::PacketTraits;
use crate::verdict::RouteVerdict;

/// The policer of a port: a token bucket, and what happens to packets. The engines of several
/// threads may share it; together they admit its rate.
#[derive(Clone, Debug)]
pub struct PortPolicer {
    spec: PolicerSpec,
    bucket: SharedBucket,
}

impl PortPolicer {
    /// Makes a policer whose bucket is full.
    #[must_use]
    pub fn new(spec: PolicerSpec) -> Self {
        Self { spec, bucket: SharedBucket::new(spec.bps, spec.burst_bytes) }
    }

    /// The policers of ports with these properties, by port. A port whose policer in `old` has the
    /// same properties keeps it, with its tokens.
    #[must_use]
    pub fn renewed(
        old: &[Option<Arc<Self>>],
        specs: &[Option<PolicerSpec>],
    ) -> Vec<Option<Arc<Self>>> {
        let old = old.iter().map(Option::as_ref).chain(repeat(None));
        let renewed = |(old, spec): (Option<&Arc<Self>>, &Option<PolicerSpec>)| {
            let spec = (*spec)?;
            let kept = old.filter(|old| old.spec == spec).cloned();
            Some(kept.unwrap_or_else(|| Arc::new(Self::new(spec))))
        };
        old.zip(specs).map(renewed).collect()
    }
}

/// The policers, by port; empty if no port has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policers(Box<[Option<Arc<PortPolicer>>]>);

impl Policers {
    pub(crate) fn new(policers: Vec<Option<Arc<PortPolicer>>>) -> Self {
        match policers.iter().all(Option::is_none) {
            true => Self::default(),
            false => Self(policers.into()),
        }
    }

    /// Returns copies of the policers with the same number of tokens. No other engine shares the
    /// copies.
    pub(crate) fn detached(&self) -> Self {
        let detach = |policer: &Arc<PortPolicer>| Arc::new(PortPolicer::clone(policer));
        Self(self.0.iter().map(|policer| policer.as_ref().map(detach)).collect())
    }

    /// Returns whether no port has a policer.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Polices all live packets.
    pub(crate) fn run(
        &self,
        counters: &mut RouteCounters,
        batch: &mut RouteBatch,
        frames: &[RouteFrame<'_>],
        now_ns: u64,
    ) {
        for at in Bits(batch.live()) {
            let packet = &mut batch.packets[at];
            let Some(Some(policer)) = self.0.get(usize::from(packet.port)) else { continue };
            let conforms = policer.bucket.take(now_ns, frames[at].bytes.len() as u32);
            let dscp = match (conforms, policer.spec.exceed) {
                (true, _) => policer.spec.conform_dscp,
                (false, ExceedAction::Remark(dscp)) => {
                    counters.port(packet.port).marked += 1;
                    Some(dscp)
                }
                (false, ExceedAction::Drop) => {
                    batch.settle(counters, at, RouteVerdict::Drop(RouteDropCause::Policed));
                    continue;
                }
            };
            if let Some(dscp) = dscp {
                packet.dscp = dscp & 0x3f;
                packet.traits = packet.traits.with(PacketTraits::REMARK);
            }
        }
    }
}
