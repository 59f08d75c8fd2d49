//! The first step for new frames: a worker keeps those that it must check itself, and gives the
//! others to the workers that must check them.

use slipring_datapath::queues::WorkerQueues;
use slipring_fib::FibPortIndex;
use slipring_route::RouteDropCause;
use slipring_rules::RuleStage;
use slipring_rules::distribution::Steering;

use super::RouteWorker;

impl RouteWorker {
    /// Returns how frames are distributed over workers at present.
    pub(super) fn steering(&self) -> Steering {
        self.rules.as_ref().map_or(Steering::Anywhere, RuleStage::steering)
    }

    /// Looks at the first `count` frames of a queue, which have one slot each. Gives those that
    /// other workers must check to these workers. Returns the frames that this worker keeps: bit
    /// `i` is frame `i`.
    pub(super) fn keep_own(&mut self, queues: &mut WorkerQueues, input: usize, count: u32) -> u64 {
        let all = u64::MAX >> (u64::BITS - count);
        let steering = self.steering();
        if self.handover.is_none() || steering == Steering::Anywhere {
            return all;
        }
        let others = (0..count).filter(|at| self.hand_over(queues, input, *at, 1, steering));
        all & !others.fold(0, |others, at| others | 1 << at)
    }

    /// If another worker must check the first frame of a queue, which has several slots, gives the
    /// frame to that worker. Returns whether another worker must check it.
    pub(super) fn hand_over_long(
        &mut self,
        queues: &mut WorkerQueues,
        input: usize,
        slots: u32,
    ) -> bool {
        let steering = self.steering();
        self.hand_over(queues, input, 0, slots, steering)
    }

    /// If another worker must check a frame that has arrived at a port, gives that worker a copy of
    /// the frame, or drops the frame if that worker's pipe is full. Returns whether another worker
    /// must check it.
    pub(super) fn hand_over_copy(
        &mut self,
        queues: &mut WorkerQueues,
        frame: &[u8],
        ingress: FibPortIndex,
    ) -> bool {
        let steering = self.steering();
        let Some(handover) = &mut self.handover else { return false };
        let Some(pipe) = handover.pipe_of(steering, frame) else { return false };
        if queues.hand_over_copy(frame, pipe, ingress.0.into()) {
            handover.count_handed();
            self.totals.count_in_pipe(ingress, 1);
        } else {
            self.totals.frames += 1;
            self.engine.refuse(ingress, frame.len(), RouteDropCause::ThreadQueueFull);
        }
        true
    }

    /// If another worker must check a frame, gives it to that worker, or drops it if that worker's
    /// pipe is full. Returns whether another worker must check it.
    fn hand_over(
        &mut self,
        queues: &mut WorkerQueues,
        input: usize,
        at: u32,
        slots: u32,
        steering: Steering,
    ) -> bool {
        let Some(handover) = &mut self.handover else { return false };
        let rx = queues[input].rx();
        let frame = rx.frame(at);
        let pipe = frame.and_then(|frame| handover.pipe_of(steering, frame.bytes));
        let Some(pipe) = pipe else { return false };
        let ingress = self.ports.ingress(input, at, rx);
        let parts = (at..at + slots).filter_map(|at| rx.slot(at));
        let len = parts.map(|slot| usize::from(slot.len)).sum();
        if queues.hand_over(input, at, slots, pipe, ingress.0.into()) {
            handover.count_handed();
            self.totals.count_in_pipe(ingress, 1);
        } else {
            self.totals.frames += 1;
            self.engine.refuse(ingress, len, RouteDropCause::ThreadQueueFull);
        }
        true
    }
}
