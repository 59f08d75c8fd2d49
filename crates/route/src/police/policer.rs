//! The policers of the ports.

use alloc::boxed::Box;

use slipring_model::bucket::TokenBucket;

use crate::batch::{Bits, RouteBatch, RouteFrame};
use crate::cause::RouteDropCause;
use crate::config::{ExceedAction, PolicerSpec, PortPolicy};
use crate::counters::RouteCounters;
use crate::packet::PacketTraits;
use crate::verdict::RouteVerdict;

#[derive(Clone, Debug)]
struct PortPolicer {
    spec: PolicerSpec,
    bucket: TokenBucket,
}

/// The policers, by port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policers(Box<[Option<PortPolicer>]>);

impl Policers {
    /// Creates the policers of the ports. A port whose policer does not change keeps its tokens.
    pub(crate) fn new(policies: &[PortPolicy], old: &Self, now_ns: u64) -> Self {
        if policies.iter().all(|policy| policy.policer.is_none()) {
            return Self::default();
        }
        let policer = |(at, policy): (usize, &PortPolicy)| {
            let spec = policy.policer?;
            let old = old.0.get(at).and_then(Option::as_ref).filter(|old| old.spec == spec);
            // The bucket does not accept a burst of 0. A burst of 1 byte also stops all packets.
            let new = || TokenBucket::new(spec.bps, spec.burst_bytes.max(1), now_ns).ok();
            let bucket = old.map(|old| old.bucket.clone()).or_else(new)?;
            Some(PortPolicer { spec, bucket })
        };
        Self(policies.iter().enumerate().map(policer).collect())
    }

    /// Returns whether no port has a policer.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Polices all live packets.
    pub(crate) fn run(
        &mut self,
        counters: &mut RouteCounters,
        batch: &mut RouteBatch,
        frames: &[RouteFrame<'_>],
        now_ns: u64,
    ) {
        for at in Bits(batch.live()) {
            let packet = &mut batch.packets[at];
            let Some(Some(policer)) = self.0.get_mut(usize::from(packet.port)) else { continue };
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
