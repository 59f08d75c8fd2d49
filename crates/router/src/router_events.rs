//! The state of events that the threads of a router share: the log, and the last sample of the
//! figures.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use slipring_fib::Mirror;
use slipring_port::{Nanos, now};
use slipring_rtnetlink::{HeaderFlags, NetlinkMessage};

use crate::drop_counts::{self, DropCounts, DropPlace};
use crate::event_log::EventLog;
use crate::kernel_events::event_of;

/// The events of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouterEvents {
    pub(crate) log: EventLog,
    pub(crate) sampled: Arc<Mutex<Option<SampledFigures>>>,
}

/// A sample of the figures. Differences between two samples are events.
#[derive(Debug)]
pub(crate) struct SampledFigures {
    pub(crate) at: Nanos,
    pub(crate) drops: DropCounts,
    /// The state of each interface, and of the router (`None`).
    pub(crate) states: Vec<(Option<String>, &'static str)>,
    pub(crate) resyncs: u64,
    pub(crate) overruns: u64,
}

impl SampledFigures {
    /// Returns the events for the differences from an earlier sample.
    pub(crate) fn events_since(&self, earlier: &Self) -> Vec<Value> {
        let mut events = Vec::new();
        for (DropPlace { dev, cause }, packets) in drop_counts::since(&self.drops, &earlier.drops) {
            events.push(json!({ "event": "drop", "dev": dev, "cause": cause, "packets": packets }));
        }
        let changed = self.states.iter().filter(|state| !earlier.states.contains(state));
        events.extend(changed.map(|(dev, state)| match dev {
            Some(dev) => json!({ "event": "interface", "dev": dev, "state": state }),
            None => json!({ "event": "router", "state": state }),
        }));
        for (what, count, before) in [
            ("resync", self.resyncs, earlier.resyncs),
            ("overrun", self.overruns, earlier.overruns),
        ] {
            if count > before {
                events.push(json!({ "event": "router", "what": what, "count": count - before }));
            }
        }
        events
    }
}

impl RouterEvents {
    /// Adds the event of a notification that the mirror has already received, if clients want
    /// events.
    pub(crate) fn note(&self, message: &NetlinkMessage<'_>, mirror: &Mirror) {
        let is_dumped = message.header.flags.has(HeaderFlags::MULTI);
        if !is_dumped
            && self.log.is_recording(now())
            && let Some(event) = event_of(message, mirror)
        {
            self.log.add(event);
        }
    }

    /// Adds the event of a failed takeover. This router forwards as before.
    pub(crate) fn note_failed_takeover(&self, why: &str) {
        if self.log.is_recording(now()) {
            self.log.add(json!({ "event": "router", "what": "takeover given up", "why": why }));
        }
    }

    /// Adds the event of a reload.
    pub(crate) fn note_reload(&self, files: &[PathBuf]) {
        if self.log.is_recording(now()) {
            self.log.add(json!({ "event": "router", "what": "reload", "files": files }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(drops: u64, state: &'static str, resyncs: u64) -> SampledFigures {
        let place = DropPlace { dev: Some("e0".to_owned()), cause: "ttl".to_owned() };
        SampledFigures {
            at: 0,
            drops: DropCounts::from([(place, drops)]),
            states: vec![(Some("e0".to_owned()), state), (None, "forwarding")],
            resyncs,
            overruns: 0,
        }
    }

    #[test]
    fn differences_of_figures_are_events() {
        let events = figures(7, "kernel", 2).events_since(&figures(5, "forwarding", 1));
        assert_eq!(
            events,
            [
                json!({ "event": "drop", "dev": "e0", "cause": "ttl", "packets": 2 }),
                json!({ "event": "interface", "dev": "e0", "state": "kernel" }),
                json!({ "event": "router", "what": "resync", "count": 1 }),
            ]
        );
        let same = figures(7, "kernel", 2);
        assert!(same.events_since(&figures(7, "kernel", 2)).is_empty());
    }
}
