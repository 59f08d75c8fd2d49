//! The operations of the control plane on packet threads.

use std::sync::mpsc::{self, Receiver};

use slipring_dummynet::{Dummynet, ShaperEvent};
use slipring_ipfw::run::{Firewall, PortIndex, Ruleset};

/// The rules, states and pipes of a packet thread.
pub trait RuleDataplane {
    /// The rules, states and counters.
    fn firewall(&self) -> &Firewall;

    /// The firewall, for commands that change only its counters or states.
    fn firewall_mut(&mut self) -> &mut Firewall;

    /// The pipes, queues and schedulers.
    fn shaper_mut(&mut self) -> &mut Dummynet<u32>;

    /// Adopts compiled rules.
    fn adopt(&mut self, ruleset: &mut Ruleset);

    /// Sets whether frames are held, unchecked, where they are. This is needed while a change of
    /// the rules moves flows to other threads ([`crate::distribution::Steering`]).
    fn hold_frames(&mut self, _holds: bool) {}

    /// Handles the events that a change of the pipes has caused, for example dropped frames.
    fn apply_shaper_events(&mut self, events: Vec<ShaperEvent<u32>>, now_ns: u64);

    /// The ports by which frames from a port may leave; `None` if frames are not checked on output.
    fn egress_ports(&self, from: PortIndex) -> Option<Vec<PortIndex>>;
}

/// A function that a packet thread calls between two bursts, with its dataplane and the time in ns.
pub type RuleTask = Box<dyn FnOnce(&mut dyn RuleDataplane, u64) + Send>;

/// The task queue of a packet thread.
pub trait RuleThread: Send + Sync {
    /// Queues a task. If the thread has ended, drops the task.
    fn post(&self, task: RuleTask);

    /// Lets the thread process frames, because the initial rules are in force.
    fn admit_frames(&self);
}

/// Queues `act`. The receiver gets the result of `act`, or an error if the thread has ended.
pub fn submit<T: Send + 'static>(
    thread: &dyn RuleThread,
    act: impl FnOnce(&mut dyn RuleDataplane, u64) -> T + Send + 'static,
) -> Receiver<T> {
    let (answer, answered) = mpsc::channel();
    thread.post(Box::new(move |dataplane, now_ns| {
        // An error only means that the caller has stopped waiting for the result, so it is ignored.
        let _ = answer.send(act(dataplane, now_ns));
    }));
    answered
}
