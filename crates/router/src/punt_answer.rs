//! Counts of packets that the threads gave to the kernel, and of those that exceeded the rate of
//! their class (`ctl punt`).

use serde_json::{Value, json};
use slipring_control::ControlRefusal;
use slipring_route::PuntClass;

use crate::names::{ANSWER_VERSION, ask};
use crate::router_figures::RouterFigures;
use crate::routing::{Routing, RoutingHandle};

/// Returns the answer to the request `punt`.
pub(crate) fn answer(routing: &RoutingHandle) -> Result<Value, ControlRefusal> {
    let workers = routing.worker_figures();
    ask(routing, move |routing: &mut Routing| {
        let figures = RouterFigures::of(routing, &workers);
        // A program in the kernel knows no classes, and limits none.
        let is_limited = !routing.workers.is_empty();
        let rates = routing.punt_rates();
        let classes = PuntClass::ALL.iter().zip(rates).map(|(class, rate)| {
            let name = class.name();
            let count = |of: Option<&u64>| of.copied().unwrap_or_default();
            let punted = figures.interfaces.iter().map(|of| count(of.punted.get(name)));
            let limited = figures.workers.iter().map(|of| count(of.limited.get(name)));
            json!({
                "class": name,
                "rate": is_limited.then_some(rate),
                "packets": punted.sum::<u64>(),
                "limited": limited.sum::<u64>(),
            })
        });
        json!({
            "v": ANSWER_VERSION,
            "classes": classes.collect::<Vec<_>>(),
            "failed": figures.workers.iter().map(|of| of.failed).sum::<u64>(),
        })
    })
}
