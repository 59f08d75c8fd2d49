//! The work of rules apart from deciding about the frames of a batch. Frames that have left the
//! rules' pipes (dummynet) are among the engine's outputs.

use slipring_datapath::queues::WorkerQueues;
use slipring_port::Nanos;
use slipring_rules::RuleStage;

use super::RouteWorker;
use super::deliver::BatchFrame;

impl RouteWorker {
    /// Releases frames from the rules' pipes and removes expired states, if either is due.
    pub(super) fn run_rules(&mut self, now_ns: Nanos) {
        let Some(rules) = &mut self.rules else { return };
        if rules.next_ns().is_some_and(|due| due <= now_ns) {
            rules.run(&mut self.engine, now_ns);
        }
    }

    /// Completes the rules' work on a batch, after the engine's last stage.
    pub(super) fn finish_rules(&mut self, now_ns: Nanos) {
        let Some(rules) = &mut self.rules else { return };
        rules.finish(&mut self.engine, now_ns);
    }

    /// Counts forwarded frames that have waited in the stage, and gives the kernel the waiting
    /// frames that are left to it.
    pub(super) fn end_delayed(&mut self, queues: &mut WorkerQueues, now_ns: Nanos) {
        let forwarded = self.rules.as_mut().map(RuleStage::take_forwarded).unwrap_or_default();
        for (ingress, bytes) in forwarded {
            self.count_forwarded(ingress, bytes);
        }
        let punted = self.rules.as_mut().map(|rules| rules.take_punted()).unwrap_or_default();
        for mut frame in punted {
            let source = BatchFrame::Copy { frame: &mut frame.bytes, ingress: frame.ingress };
            self.give_to_kernel(queues, source, Some(frame.class), now_ns);
        }
    }
}
