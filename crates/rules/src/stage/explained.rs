//! A stage that explains what happens to one packet. It has a copy of the rules and states, and its
//! pipes take no time, so that the packet gets a verdict immediately.

use std::sync::Arc;

use slipring_dummynet::Dummynet;
use slipring_ipfw::run::{CheckPass, Firewall, PacketMetadata};
use slipring_route::{ExplainedStages, RouteBatch, RouteEngine, RouteFrame};

use super::RuleStage;
use super::checks::is_live;
use super::explained_check::ExplainedCheck;

impl RuleStage {
    /// Makes a stage that explains one packet. `firewall` is a copy of the rules and states.
    #[must_use]
    pub fn explaining(firewall: Firewall) -> Self {
        // Lines of rules with `log` are discarded.
        let mut stage = Self::new(firewall, Dummynet::new(0, [0; 2]), Arc::default());
        stage.explained = Some(Vec::new());
        stage.inspect();
        stage
    }

    /// Removes and returns the checks of the packet, in their order.
    pub fn take_explained(&mut self) -> Vec<ExplainedCheck> {
        self.explained.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Makes a packet continue as if it had waited in a pipe.
    pub(super) fn leave_pipe_at_once(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &mut [RouteFrame<'_>],
        at: usize,
        crossing: PacketMetadata,
        now_ns: u64,
    ) {
        if !is_live(batch, at) {
            return self.drop(engine, batch, at);
        }
        if self.firewall.continues_after_shaper() {
            return self.check(engine, batch, frames, at, crossing, now_ns);
        }
        if crossing.pass == CheckPass::In {
            self.keep(at, crossing);
        }
    }
}

impl ExplainedStages for RuleStage {
    fn after_parse(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &mut [RouteFrame<'_>],
        now_ns: u64,
    ) {
        self.check_in(engine, batch, frames, now_ns);
    }

    fn after_look_up(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &mut [RouteFrame<'_>],
        now_ns: u64,
    ) {
        self.check_out(engine, batch, frames, now_ns);
    }
}
