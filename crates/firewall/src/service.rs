//! What requests mean to a running firewall.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};
use slipring_cli::SCHEMA;
use slipring_control::{Refusal, Reply, Request, Service};
use slipring_port::now;

use crate::desk::Desk;
use crate::events::{Events, Told};
use crate::explain;
use crate::metrics;
use crate::order::Order;
use crate::run::Figures;

/// What `hello` answers under `program`: tells firewalls from other runs.
pub(crate) const PROGRAM: &str = "firewall";
/// How long a client that monitors is kept waiting for something to tell.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Rules come in one request, whole.
const LONGEST_REQUEST: usize = 1 << 28;

/// A run that can be asked.
pub(crate) struct Controlled {
    pub(crate) name: Option<String>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) events: Arc<Events>,
    pub(crate) figures: Figures,
}

impl Controlled {
    fn hello(&self) -> Value {
        json!({
            "schema": SCHEMA,
            "program": PROGRAM,
            "name": self.name,
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "ports": self.figures.meter.reports(),
        })
    }

    fn order(&self, request: &Request) -> Result<Value, Refusal> {
        let order: Order = serde_json::from_value(Value::Object(request.args.clone()))
            .map_err(|error| Refusal::malformed(format!("it is no order: {error}")))?;
        Ok(json!(self.desk.carry_out(&order, now())))
    }

    /// Log lines behind a number; waits a moment for some.
    fn events(&self, request: &Request) -> Value {
        let seq = request.args.get("behind").and_then(Value::as_u64);
        // The first question is from where on.
        let Some(seq) = seq else { return json!({ "last": self.events.watch(), "lines": [] }) };
        let late = self.events.behind(seq, LONGEST_WAIT);
        let last = late.last().map_or(seq, |told| told.seq);
        let lines = late.iter().map(
            |Told { seq, event }| json!({ "seq": seq, "rule": event.number, "line": event.line }),
        );
        json!({ "last": last, "lines": lines.collect::<Vec<_>>() })
    }
}

impl Service for Controlled {
    fn answer(&self, request: &Request) -> Result<Reply, Refusal> {
        Ok(Reply::Once(match request.what.as_str() {
            "hello" => self.hello(),
            "ipfw" => self.order(request)?,
            "events" => self.events(request),
            "explain" => {
                let told = explain::answer(&self.desk, &request.args, now());
                told.unwrap_or_else(|fault| json!({ "fault": fault }))
            }
            "metrics" => {
                let text = metrics::text(&self.desk, &self.figures);
                json!(text.map_err(|fault| Refusal::malformed(fault.message))?)
            }
            "save" => {
                let with_states = request.args.get("states") == Some(&Value::Bool(true));
                let text = self.desk.save(with_states, now());
                json!(text.map_err(|fault| Refusal::malformed(fault.message))?)
            }
            "quit" => return Ok(Reply::Then(json!({}), end)),
            other => {
                let cause = format!(
                    "nobody knows `{other}`: there are hello, ipfw, events, explain, metrics, save, quit"
                );
                return Err(Refusal::malformed(cause));
            }
        }))
    }

    fn longest_request(&self) -> usize {
        LONGEST_REQUEST
    }
}

/// Ends the program as TERM does.
fn end() {
    // One can always send oneself a signal.
    let _ = kill_process(getpid(), Signal::TERM);
}
