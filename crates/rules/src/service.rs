//! Answers the requests about rules that a running program receives at its control socket.

use std::time::Duration;

use serde_json::{Value, json};
use slipring_control::{ControlRefusal, ControlRequest};

use crate::command_batch::CommandBatch;
use crate::control_plane::ControlPlane;
use crate::events::{LogEvents, NumberedEvent};
use crate::explain::{self, BypassedFrame};

/// Maximum time that a monitor's request waits for new log lines.
const MAX_MONITOR_WAIT: Duration = Duration::from_secs(1);

/// The part of a control service that is about rules.
pub struct RuleService<'s> {
    /// The control plane, which executes commands.
    pub control_plane: &'s ControlPlane,
    /// The lines of rules with `log`.
    pub events: &'s LogEvents,
    /// The function that returns what happens to a frame that rules do not check.
    pub bypass: BypassedFrame<'s>,
}

impl RuleService<'_> {
    /// Answers a request; `None` if it is not about rules.
    ///
    /// # Errors
    /// Why the request is refused.
    #[must_use]
    pub fn answer(
        &self,
        request: &ControlRequest,
        now_ns: u64,
    ) -> Option<Result<Value, ControlRefusal>> {
        Some(match request.what.as_str() {
            "ipfw" => self.execute(request, now_ns),
            "events" => Ok(self.events(request)),
            "save" => self.save(request, now_ns),
            "explain" => Ok(self.explain(request, now_ns)),
            _ => return None,
        })
    }

    fn execute(&self, request: &ControlRequest, now_ns: u64) -> Result<Value, ControlRefusal> {
        let order: CommandBatch = serde_json::from_value(Value::Object(request.args.clone()))
            .map_err(|error| ControlRefusal::malformed(format!("it is no order: {error}")))?;
        Ok(json!(self.control_plane.execute(&order, now_ns)))
    }

    /// Returns the log lines after the line whose number is in the request. If there are none,
    /// waits for one for at most [`MAX_MONITOR_WAIT`].
    fn events(&self, request: &ControlRequest) -> Value {
        let seq = request.args.get("behind").and_then(Value::as_u64);
        // The first request of a monitor has no number. Its answer only contains the number after
        // which to start.
        let Some(seq) = seq else { return json!({ "last": self.events.watch(), "lines": [] }) };
        let late = self.events.events_after(seq, MAX_MONITOR_WAIT);
        let last = late.last().map_or(seq, |event| event.seq);
        let lines = late.iter().map(
            |NumberedEvent { seq, event }| json!({ "seq": seq, "rule": event.number, "line": event.line }),
        );
        json!({ "last": last, "lines": lines.collect::<Vec<_>>() })
    }

    fn explain(&self, request: &ControlRequest, now_ns: u64) -> Value {
        let answer = explain::answer(self.control_plane, &request.args, self.bypass, now_ns);
        answer.unwrap_or_else(|fault| json!({ "fault": fault }))
    }

    fn save(&self, request: &ControlRequest, now_ns: u64) -> Result<Value, ControlRefusal> {
        let with_states = request.args.get("states") == Some(&Value::Bool(true));
        let text = self.control_plane.save(with_states, now_ns);
        text.map(|text| json!(text)).map_err(|fault| ControlRefusal::malformed(fault.message))
    }
}
