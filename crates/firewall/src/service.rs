//! Answers the requests that a running firewall receives at its control socket.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};
use slipring_cli::SCHEMA_VERSION;
use slipring_control::{ControlRefusal, ControlReply, ControlRequest, ControlService};
use slipring_port::now;

use crate::command_batch::CommandBatch;
use crate::control_plane::ControlPlane;
use crate::explain;
use crate::figures::FirewallFigures;
use crate::metrics;
use slipring_rules::{LogEvents, NumberedEvent};

/// The value of `program` in the answer to `hello`. By it, clients recognise a firewall.
pub(crate) const PROGRAM_NAME: &str = "firewall";
/// How long the answer to a monitor waits for new lines.
const MAX_MONITOR_WAIT: Duration = Duration::from_secs(1);
/// Maximum length of a request in bytes. A request may contain a whole rules file.
const MAX_REQUEST_BYTES: usize = 1 << 28;

/// The control service of a run.
pub(crate) struct FirewallService {
    pub(crate) name: Option<String>,
    pub(crate) control_plane: Arc<ControlPlane>,
    pub(crate) events: Arc<LogEvents>,
    pub(crate) figures: FirewallFigures,
}

impl FirewallService {
    fn hello(&self) -> Value {
        json!({
            "schema": SCHEMA_VERSION,
            "program": PROGRAM_NAME,
            "name": self.name,
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "ports": self.figures.meter.reports(),
        })
    }

    fn execute(&self, request: &ControlRequest) -> Result<Value, ControlRefusal> {
        let order: CommandBatch = serde_json::from_value(Value::Object(request.args.clone()))
            .map_err(|error| ControlRefusal::malformed(format!("it is no order: {error}")))?;
        Ok(json!(self.control_plane.execute(&order, now())))
    }

    /// Returns the log lines after the line whose number is in the request. If there are none,
    /// waits for one, at most for [`MAX_MONITOR_WAIT`].
    fn events(&self, request: &ControlRequest) -> Value {
        let seq = request.args.get("behind").and_then(Value::as_u64);
        // The first request of a monitor has no number. Its answer only says at which number to
        // start.
        let Some(seq) = seq else { return json!({ "last": self.events.watch(), "lines": [] }) };
        let late = self.events.events_after(seq, MAX_MONITOR_WAIT);
        let last = late.last().map_or(seq, |event| event.seq);
        let lines = late.iter().map(
            |NumberedEvent { seq, event }| json!({ "seq": seq, "rule": event.number, "line": event.line }),
        );
        json!({ "last": last, "lines": lines.collect::<Vec<_>>() })
    }
}

impl ControlService for FirewallService {
    fn answer(&self, request: &ControlRequest) -> Result<ControlReply, ControlRefusal> {
        Ok(ControlReply::Once(match request.what.as_str() {
            "hello" => self.hello(),
            "ipfw" => self.execute(request)?,
            "events" => self.events(request),
            "explain" => {
                let answer = explain::answer(&self.control_plane, &request.args, now());
                answer.unwrap_or_else(|fault| json!({ "fault": fault }))
            }
            "metrics" => {
                let text = metrics::text(&self.control_plane, &self.figures);
                json!(text.map_err(|fault| ControlRefusal::malformed(fault.message))?)
            }
            "save" => {
                let with_states = request.args.get("states") == Some(&Value::Bool(true));
                let text = self.control_plane.save(with_states, now());
                json!(text.map_err(|fault| ControlRefusal::malformed(fault.message))?)
            }
            "quit" => return Ok(ControlReply::Then(json!({}), terminate)),
            other => {
                let cause = format!(
                    "nobody knows `{other}`: there are hello, ipfw, events, explain, metrics, save, quit"
                );
                return Err(ControlRefusal::malformed(cause));
            }
        }))
    }

    fn max_request_bytes(&self) -> usize {
        MAX_REQUEST_BYTES
    }
}

/// Ends the program, as the signal TERM does.
fn terminate() {
    // This cannot fail, because a process may always signal itself.
    let _ = kill_process(getpid(), Signal::TERM);
}
