//! Tasks from other threads. A packet thread executes its tasks between two bursts.

use std::io;
use std::ops::Deref;

use slipring_datapath::control_queue::ControlQueue;
use slipring_dummynet::{Dummynet, ShaperEvent};
use slipring_ipfw::run::{Firewall, PortIndex, Ruleset};
use slipring_rules::dataplane::{RuleDataplane, RuleTask, RuleThread};

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
}

impl RuleThread for TaskQueue {
    fn post(&self, task: RuleTask) {
        self.push(Box::new(move |dataplane, deferred, now| {
            task(&mut OutputtingDataplane { dataplane, deferred }, now);
        }));
    }

    fn admit_frames(&self) {
        self.0.admit_frames();
    }
}

/// A dataplane with the output that takes its frames.
struct OutputtingDataplane<'d> {
    dataplane: &'d mut Dataplane,
    deferred: &'d mut DeferredOutput,
}

impl RuleDataplane for OutputtingDataplane<'_> {
    fn firewall(&self) -> &Firewall {
        self.dataplane.firewall()
    }

    fn firewall_mut(&mut self) -> &mut Firewall {
        self.dataplane.firewall_mut()
    }

    fn shaper_mut(&mut self) -> &mut Dummynet<u32> {
        self.dataplane.shaper_mut()
    }

    fn adopt(&mut self, ruleset: &mut Ruleset) {
        self.dataplane.adopt(ruleset);
    }

    fn apply_shaper_events(&mut self, events: Vec<ShaperEvent<u32>>, now: DataplaneNanos) {
        self.dataplane.apply_shaper_events(events, now, self.deferred);
    }

    fn egress_ports(&self, from: PortIndex) -> Option<Vec<PortIndex>> {
        self.dataplane.checks_out().then(|| self.dataplane.map().targets(from).to_vec())
    }
}

impl Deref for TaskQueue {
    type Target = ControlQueue<DataplaneTask>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
