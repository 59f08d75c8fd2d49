//! Tasks from other threads, which the packet thread executes between two bursts.

use std::io;
use std::ops::Deref;
use std::sync::mpsc::{self, Receiver};

use slipring_datapath::control_queue::ControlQueue;

use crate::dataplane::{Dataplane, DataplaneNanos};
use crate::deferred_output::DeferredOutput;

/// A task that uses the thread's engine.
pub(crate) type DataplaneTask =
    Box<dyn FnOnce(&mut Dataplane, &mut DeferredOutput, DataplaneNanos) + Send>;

/// The task queue of a packet thread.
pub(crate) struct TaskQueue(ControlQueue<DataplaneTask>);

impl TaskQueue {
    pub(crate) fn new() -> io::Result<Self> {
        ControlQueue::new().map(Self)
    }

    /// Queues `act`. The receiver gets the result of `act`, or an error if the engine has ended.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Dataplane, &mut DeferredOutput, DataplaneNanos) -> T + Send + 'static,
    ) -> Receiver<T> {
        let (answer, answered) = mpsc::channel();
        self.push(Box::new(move |dataplane, deferred, now| {
            // An error is ignored: the caller may have stopped waiting.
            let _ = answer.send(act(dataplane, deferred, now));
        }));
        answered
    }
}

impl Deref for TaskQueue {
    type Target = ControlQueue<DataplaneTask>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
