//! What changes in a running router, as it happens (`ctl monitor`).
//!
//! ```text
//!   kernel's notifications --> MirrorReader --.
//!   ctl reload, HUP --------------------------+--> EventLog --> control socket's thread --> client
//!   figures, once a second: differences ------'
//! ```
//!
//! Objects that a dump lists are no events. When an interface is removed, the kernel removes its
//! IPv4 routes without a message. So these routes cause no events here, either: there is only the
//! event of the interface.

use std::sync::PoisonError;
use std::time::Duration;

use serde_json::{Map, Value, json};
use slipring_control::ControlRefusal;
use slipring_port::{Nanos, now};

use crate::drops;
use crate::event_log::EventPage;
use crate::names::{ANSWER_VERSION, ask};
use crate::router_events::{RouterEvents, SampledFigures};
use crate::router_figures::RouterFigures;
use crate::routing::RoutingHandle;

/// The kinds of events.
pub(crate) const KINDS: [&str; 7] =
    ["route", "neighbour", "link", "address", "drop", "interface", "router"];
/// Maximum time for which an answer to a client waits for events.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Time between two samples of the figures.
const SAMPLE_PERIOD_NS: Nanos = 1_000_000_000;

impl SampledFigures {
    fn of(figures: &RouterFigures, at: Nanos) -> Self {
        let interfaces = figures.interfaces.iter().map(|of| (Some(of.name.clone()), of.state));
        Self {
            at,
            drops: drops::counted(figures),
            states: interfaces.chain([(None, figures.state)]).collect(),
            resyncs: figures.fib.resyncs,
            overruns: figures.fib.overruns,
        }
    }
}

impl RouterEvents {
    /// Adds the changes since the last sample of the figures, if that sample is at least a second
    /// old. With `is_first`, only takes a sample, with which later ones are compared.
    fn sample(&self, routing: &RoutingHandle, is_first: bool) {
        // Only one client at a time takes a sample. A poisoned lock can be ignored: a sample is
        // replaced as a whole.
        let mut sampled = self.sampled.lock().unwrap_or_else(PoisonError::into_inner);
        let time = now();
        if sampled.as_ref().is_some_and(|last| !is_first && time < last.at + SAMPLE_PERIOD_NS) {
            return;
        }
        let Some(figures) = RouterFigures::ask(routing) else { return };
        let figures = SampledFigures::of(&figures, time);
        if let Some(last) = sampled.as_ref().filter(|_| !is_first) {
            figures.events_since(last).into_iter().for_each(|event| self.log.add(event));
        }
        *sampled = Some(figures);
    }
}

/// Answers the request `monitor`. A client's first request has no `after`. Each answer contains
/// `next`, which the client sends as `after` to get the events that follow.
pub(crate) fn answer(
    routing: &RoutingHandle,
    args: &Map<String, Value>,
) -> Result<Value, ControlRefusal> {
    let kinds = kinds(args)?;
    let events = ask(routing, |routing| routing.events.clone())?;
    let begins = events.log.record(now());
    let after = args.get("after").and_then(Value::as_u64);
    events.sample(routing, begins);
    let Some(after) = after else {
        let next = events.log.next();
        return Ok(json!({ "v": ANSWER_VERSION, "events": [], "next": next, "lost": 0 }));
    };
    let EventPage { events, next, lost } = events.log.page(after, MAX_WAIT);
    let is_wanted =
        |event: &Value| kinds.is_empty() || kinds.iter().any(|kind| event["event"] == **kind);
    let events: Vec<_> = events.into_iter().filter(is_wanted).collect();
    Ok(json!({ "v": ANSWER_VERSION, "events": events, "next": next, "lost": lost }))
}

fn kinds(args: &Map<String, Value>) -> Result<Vec<&'static str>, ControlRefusal> {
    let wanted = args.get("kinds").and_then(Value::as_array);
    let known = |kind: &Value| KINDS.into_iter().find(|known| kind.as_str() == Some(*known));
    let kind = |kind: &Value| {
        known(kind).ok_or_else(|| {
            ControlRefusal::malformed(format!(
                "no events are {kind}: there are {}",
                KINDS.join(", ")
            ))
        })
    };
    wanted.into_iter().flatten().map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_does_not_exist_is_refused_with_those_that_do() {
        let args = |kinds: Value| json!({ "kinds": kinds }).as_object().unwrap().clone();
        assert_eq!(kinds(&args(json!(["drop", "route"]))).unwrap(), ["drop", "route"]);
        assert!(kinds(&Map::new()).unwrap().is_empty());
        let refused = kinds(&args(json!(["drops"]))).unwrap_err().cause.unwrap();
        assert!(refused.contains("\"drops\"") && refused.contains("route, neighbour"), "{refused}");
    }
}
