//! What the router has dropped, by interface and cause, since the start or the last
//! `ctl drop reset`. Metrics and reports always count from the start.

use serde_json::{Value, json};
use slipring_control::ControlRefusal;

use crate::drop_counts::{DropCounts, DropPlace};
use crate::names::{ANSWER_VERSION, ask, ended};
use crate::router_figures::RouterFigures;
use crate::routing::RoutingHandle;

/// The present counts, from the start of the router on.
pub(crate) fn counted(figures: &RouterFigures) -> DropCounts {
    let of_interfaces = figures.interfaces.iter().flat_map(|of| {
        let place =
            |cause: &&str| DropPlace { dev: Some(of.name.clone()), cause: (*cause).to_owned() };
        of.dropped.iter().map(move |(cause, count)| (place(cause), *count))
    });
    let elsewhere = |cause: String| DropPlace { dev: None, cause };
    let limited = figures.workers.iter().flat_map(|worker| &worker.limited);
    let limited = limited.map(|(class, count)| (elsewhere(format!("limit-{class}")), *count));
    let refused = figures.workers.iter().map(|of| (elsewhere("not-taken".to_owned()), of.failed));
    let mut counts = DropCounts::new();
    for (place, count) in of_interfaces.chain(limited).chain(refused) {
        if count > 0 {
            *counts.entry(place).or_default() += count;
        }
    }
    counts
}

/// Answers the request `drop`. With `resets`, later answers do not count the packets of this answer
/// again.
pub(crate) fn answer(routing: &RoutingHandle, resets: bool) -> Result<Value, ControlRefusal> {
    let baseline = ask(routing, |routing| routing.drops.clone())?;
    let count = || RouterFigures::ask(routing).map(|figures| counted(&figures));
    let (counts, reset_s) = baseline.take(count, resets).ok_or_else(ended)?;
    let rows = counts.iter().map(|(DropPlace { dev, cause }, packets)| {
        json!({ "dev": dev, "cause": cause, "packets": packets })
    });
    Ok(json!({
        "v": ANSWER_VERSION,
        "drops": rows.collect::<Vec<_>>(),
        "packets": counts.values().sum::<u64>(),
        "reset_s": reset_s,
        "reset": resets,
    }))
}
