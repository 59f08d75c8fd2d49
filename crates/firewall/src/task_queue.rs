//! Tasks from other threads. A packet thread executes its tasks between two bursts.

use std::io;
use std::ops::Deref;
use std::sync::mpsc::{self, Receiver};

use slipring_datapath::control_queue::ControlQueue;

use crate::dataplane::{Dataplane, DataplaneNanos};
use crate::deferred_output::DeferredOutput;

/// A function that a packet thread calls with its dataplane.
pub(crate) type DataplaneTask =
    Box<dyn FnOnce(&mut Dataplane, &mut DeferredOutput, DataplaneNanos) + Send>;

/// The task queue of a packet thread.
pub(crate) struct TaskQueue(ControlQueue<DataplaneTask>);

impl TaskQueue {
    pub(crate) fn new() -> io::Result<Self> {
        ControlQueue::new().map(Self)
    }

    /// Queues `act`. The receiver gets the result of `act`, or an error if the packet thread has
    /// ended.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Dataplane, &mut DeferredOutput, DataplaneNanos) -> T + Send + 'static,
    ) -> Receiver<T> {
        let (answer, answered) = mpsc::channel();
        self.push(Box::new(move |dataplane, deferred, now| {
            // An error only means that the caller has stopped waiting for the result.
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
