//! What rules and pipes do besides deciding about the frames of a batch. Frames that have left a pipe
//! are among the engine's outputs.

use slipring_datapath::queues::WorkerQueues;
use slipring_port::Nanos;
use slipring_rules::RuleStage;

use super::RouteWorker;
use super::deliver::BatchFrame;

impl RouteWorker {
    /// Lets frames out of pipes, and states expire, if it is time.
    pub(super) fn run_rules(&mut self, now_ns: Nanos) {
        let Some(rules) = &mut self.rules else { return };
        if rules.next_ns().is_some_and(|due| due <= now_ns) {
            rules.run(&mut self.engine, now_ns);
        }
    }

    /// The last stage of a batch.
    pub(super) fn finish_rules(&mut self, now_ns: Nanos) {
        let Some(rules) = &mut self.rules else { return };
        rules.finish(&mut self.engine, now_ns);
    }

    /// Counts the frames that have waited in the stage and were forwarded, and gives the kernel those
    /// that are the kernel's.
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
