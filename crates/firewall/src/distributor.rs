//! Distributes frames among the threads that check them, and sends the frames that pass.
//!
//! ```text
//!   port 1 --> address hash --> pipe to thread 1, 2, … --> Worker --> pipe back --> port 2
//! ```
//!
//! # Design decisions
//! - **One thread per address pair.** All frames between two addresses, in both directions, go to
//!   one thread. Port numbers are ignored: fragments and ICMP packets carry none, so a hash with
//!   port numbers could send them to another thread than the rest of their flow.
//! - **Back-pressure.** If the pipe to a thread is full, the next frame for this thread stays in
//!   the ring of its port. It delays the frames behind it, as a full ring does with one thread.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use slipring_datapath::environment::Clock;
use slipring_datapath::queues::{WorkerQueue, WorkerQueues};
use slipring_datapath::worker::{FrameProcessor, Worker};
use slipring_port::{Queue, RunError};
use slipring_rules::distribution::FlowDistribution;

use crate::cross_thread::CrossThreadState;
use crate::task_queue::TaskQueue;
use crate::worker::ForwardingOptions;

/// The queues of one port.
pub(crate) type PortQueues = Vec<Box<dyn Queue>>;

/// The role of one of the distributor's queues.
#[derive(Debug, Clone)]
enum DistributorInput {
    /// A queue of a port. Its frames go to the threads through the pipes with these indices.
    Port { pipes: Range<usize> },
    /// The pipe from a thread. Its frames are sent on the queue with this index.
    Pipe { output: usize },
}

/// Distributes received frames to the packet threads, and sends the frames that come back from them
/// (receive-side scaling in software). The queues of its worker are the pipes, followed by the
/// queues of the ports.
pub(crate) struct Distributor {
    inputs: Vec<DistributorInput>,
    /// Number of pipes to threads.
    pipe_count: usize,
    distribution: FlowDistribution,
    forwarding: ForwardingOptions,
    common: Arc<CrossThreadState>,
    task_queues: Vec<Arc<TaskQueue>>,
}

impl Distributor {
    /// Creates the worker of a distributor. Each element of `ports` contains a port's queues and
    /// the port's pipes to the threads. `task_queues` are the task queues of the threads.
    pub(crate) fn worker(
        ports: Vec<(PortQueues, PortQueues)>,
        secret: [u64; 2],
        forwarding: ForwardingOptions,
        common: Arc<CrossThreadState>,
        task_queues: Vec<Arc<TaskQueue>>,
    ) -> Worker<Self> {
        let pipe_count = ports.iter().map(|(_, pipes)| pipes.len()).sum();
        let (mut pipe_inputs, mut port_inputs) = (Vec::new(), Vec::new());
        let (mut pipe_queues, mut port_queues) = (Vec::new(), Vec::new());
        for (queues, pipes) in ports {
            let (first, count) = (pipe_count + port_queues.len(), queues.len());
            let own_pipes = pipe_queues.len()..pipe_queues.len() + pipes.len();
            let output = |thread| DistributorInput::Pipe { output: first + thread % count };
            pipe_inputs.extend((0..pipes.len()).map(output));
            let own = DistributorInput::Port { pipes: own_pipes };
            port_inputs.extend(std::iter::repeat_n(own, count));
            pipe_queues.extend(pipes);
            port_queues.extend(queues);
        }
        let distributor = Self {
            inputs: pipe_inputs.into_iter().chain(port_inputs).collect(),
            pipe_count,
            distribution: FlowDistribution::new(secret, task_queues.len() as u16),
            forwarding,
            common,
            task_queues,
        };
        let queues = pipe_queues.into_iter().chain(port_queues).map(WorkerQueue::input);
        Worker::new(distributor, WorkerQueues::new(queues))
    }

    /// Returns whether all threads have finished and all their frames were taken from the pipes.
    fn is_drained(&self, queues: &mut WorkerQueues) -> bool {
        // The count is read before the pipes are checked for the last time: then all frames of the
        // finished threads are visible in the pipes.
        let all_done = self.common.finished_workers() == self.task_queues.len() as u64;
        all_done && queues[..self.pipe_count].iter_mut().all(WorkerQueue::is_read_after_sync)
    }
}

impl FrameProcessor for Distributor {
    /// Distributes the frames of a port's queue to the threads, or sends the frames that a thread
    /// has let pass. Returns the number of slots that these frames used.
    fn process(&mut self, queues: &mut WorkerQueues, input: usize, _: &impl Clock) -> u32 {
        let Self { distribution, forwarding, pipe_count, .. } = self;
        let (pipes, ports) = queues.split_at_mut(*pipe_count);
        let (source, outputs) = match &self.inputs[input] {
            DistributorInput::Port { pipes: own } => {
                (&mut ports[input - *pipe_count], &mut pipes[own.clone()])
            }
            DistributorInput::Pipe { output } => {
                (&mut pipes[input], std::slice::from_mut(&mut ports[*output - *pipe_count]))
            }
        };
        source.take_frames(forwarding.burst, |rx, at, slots| {
            let output = match outputs {
                [only] => only,
                _ => {
                    // A frame's headers are in its first slot.
                    let thread = rx.frame(at).map_or_else(
                        || distribution.thread_by(0),
                        |frame| distribution.thread_of(frame.bytes),
                    );
                    &mut outputs[thread]
                }
            };
            let is_sent = output.forward_frame(rx, at, slots, forwarding.may_swap);
            if !is_sent {
                output.await_room();
            }
            is_sent
        })
    }

    fn run_tasks(&mut self, _: &mut WorkerQueues, _: &impl Clock) -> bool {
        self.common.acknowledge();
        self.common.has_begun()
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.common.wake_fd())
    }

    /// Ends the input when a queue of a port has ended and its frames were distributed. Returns
    /// whether, after that, all threads have finished and their frames were taken from the pipes.
    fn is_finished(&mut self, queues: &mut WorkerQueues) -> bool {
        if !self.common.has_input_ended() {
            let mut ports = queues[self.pipe_count..].iter_mut();
            if !ports.any(WorkerQueue::is_exhausted) {
                return false;
            }
            self.common.end_input();
            self.task_queues.iter().for_each(|tasks| tasks.wake());
        }
        self.is_drained(queues)
    }

    /// At the end of the run, sends the frames that still come back from the threads. Returns
    /// whether all were sent.
    fn drain(&mut self, queues: &mut WorkerQueues, clock: &impl Clock) -> Result<bool, RunError> {
        for pipe in 0..self.pipe_count {
            if queues[pipe].receive()? {
                self.process(queues, pipe, clock);
            }
        }
        Ok(self.is_drained(queues))
    }
}
