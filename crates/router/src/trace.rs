//! The first packets that match a filter, each with its verdict, as they are forwarded (`ctl
//! trace`).
//!
//! ```text
//!   worker: frames that match --> stages --> verdicts --> PacketTrace --> thread of the control
//!                                                          at most N     socket --> client
//! ```
//!
//! Not for: packets that the program in the kernel forwards or leaves to the kernel.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use slipring_control::ControlRefusal;
use slipring_port::now;

use crate::names::{ANSWER_VERSION, ask, port_name};
use crate::packet_trace::{PacketTrace, TraceMemory, TracePage, TracedPacket};
use crate::routing::{Routing, RoutingHandle};
use crate::why;

/// Number of packets of a trace if the client does not give one.
pub(crate) const DEFAULT_COUNT: u32 = 10;
/// Maximum number of packets of a trace. Copies of them stay in memory until the client has read
/// them.
pub(crate) const MAX_COUNT: u32 = 10_000;
/// Maximum number of traces at the same time.
const MAX_TRACES: usize = 4;
/// Maximum time for which an answer to the client waits for packets.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The traces of a run, by number.
#[derive(Debug, Default)]
pub(crate) struct PacketTraces {
    running: Mutex<BTreeMap<u64, Arc<PacketTrace>>>,
    memory: TraceMemory,
}

impl PacketTraces {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<PacketTrace>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, trace: &Arc<PacketTrace>) -> Result<u64, ControlRefusal> {
        let mut traces = self.lock();
        forget_ended(&mut traces);
        if traces.len() >= MAX_TRACES {
            return Err(ControlRefusal::malformed(format!(
                "{MAX_TRACES} traces run already: wait until one has ended"
            )));
        }
        let number = traces.last_key_value().map_or(1, |(last, _)| last + 1);
        traces.insert(number, Arc::clone(trace));
        Ok(number)
    }

    fn find(&self, number: u64) -> Option<Arc<PacketTrace>> {
        let mut traces = self.lock();
        forget_ended(&mut traces);
        traces.get(&number).cloned()
    }
}

/// Removes traces whose clients have requested no packets for too long.
fn forget_ended(traces: &mut BTreeMap<u64, Arc<PacketTrace>>) {
    traces.retain(|_, trace| !trace.is_abandoned(now()));
}

/// Answers the request `trace`. The first request has a `filter` and a `count`, and its answer
/// contains the number of the `trace`. With this number, the client then requests the packets.
pub(crate) fn answer(
    routing: &RoutingHandle,
    traces: &PacketTraces,
    args: &Map<String, Value>,
) -> Result<Value, ControlRefusal> {
    let Some(number) = args.get("trace").and_then(Value::as_u64) else {
        return start(routing, traces, args);
    };
    let trace = traces.find(number);
    let gone = || ControlRefusal::malformed(format!("there is no trace {number}, or it has ended"));
    let page = trace.and_then(|trace| trace.take(MAX_WAIT)).ok_or_else(gone)?;
    let TracePage { packets, left, is_cut } = page;
    if left == 0 {
        traces.lock().remove(&number);
    }
    let values = move |routing: &mut Routing| {
        packets.iter().map(|packet| packet.value(routing)).collect::<Vec<_>>()
    };
    // If the router has ended, no packets can follow, so this is the last page of the trace.
    let (packets, left) = ask(routing, values).map_or((Vec::new(), 0), |values| (values, left));
    Ok(
        json!({ "v": ANSWER_VERSION, "trace": number, "packets": packets, "left": left, "cut": is_cut }),
    )
}

fn start(
    routing: &RoutingHandle,
    traces: &PacketTraces,
    args: &Map<String, Value>,
) -> Result<Value, ControlRefusal> {
    let filter = args.get("filter").and_then(Value::as_str).map(slipring_filter::compile);
    let filter = filter.transpose();
    let filter = filter.map_err(|error| refused_filter(&error.to_string()))?;
    let count = args.get("count").and_then(Value::as_u64).unwrap_or(DEFAULT_COUNT.into());
    let count = u32::try_from(count).ok().filter(|count| (1..=MAX_COUNT).contains(count));
    let count = count.ok_or_else(|| {
        ControlRefusal::malformed(format!("`count` is not from 1 to {MAX_COUNT}"))
    })?;
    let workers = ask(routing, |routing| routing.workers.clone())?;
    if workers.is_empty() {
        return Err(in_kernel());
    }
    let trace = Arc::new(PacketTrace::new(filter, count, &traces.memory, now()));
    let number = traces.start(&trace)?;
    let of_routing = Arc::clone(&trace);
    ask(routing, move |routing| routing.begin_trace(of_routing))?;
    for worker in &workers {
        let trace = Arc::clone(&trace);
        // A worker that has ended receives no packets, so it does not need the trace.
        worker.ask(move |worker| worker.traces.push(trace));
    }
    Ok(json!({ "v": ANSWER_VERSION, "trace": number, "packets": [], "left": count }))
}

fn refused_filter(cause: &str) -> ControlRefusal {
    ControlRefusal {
        help: Some("write it as for tcpdump, such as udp port 53 and host 10.1.0.2".to_owned()),
        ..ControlRefusal::malformed(format!("the filter: {cause}"))
    }
}

fn in_kernel() -> ControlRefusal {
    ControlRefusal {
        cause: Some("a program in the kernel forwards, and leaves no trace of packets".to_owned()),
        help: Some(
            "start the router with --io xsk or --io packet; or ask about one packet: \
             slipring route ctl why"
                .to_owned(),
        ),
        ..ControlRefusal::malformed("")
    }
}

impl TracedPacket {
    fn value(&self, routing: &Routing) -> Value {
        let name = |port| port_name(routing, port);
        let (action, reason, egress) = why::decided(&self.verdict, self.reason);
        json!({
            "packet": why::packet_value(name(self.ingress), &self.frame),
            "action": action,
            "reason": reason,
            "dev": egress.and_then(name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_limited_in_number() {
        let (traces, time) = (PacketTraces::default(), now());
        let start = |time| traces.start(&Arc::new(PacketTrace::new(None, 1, &traces.memory, time)));
        let numbers: Vec<_> = (0..MAX_TRACES).map(|_| start(time).unwrap()).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert!(start(time).unwrap_err().cause.unwrap().contains("traces run already"));
        assert!(traces.find(4).is_some() && traces.find(5).is_none());
    }
}
