//! Answers the requests that a running firewall receives at its control socket.

use std::sync::Arc;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};
use slipring_cli::SCHEMA_VERSION;
use slipring_control::{ControlRefusal, ControlReply, ControlRequest, ControlService};
use slipring_port::now;

use crate::dataplane::bypassed;
use crate::figures::FirewallFigures;
use crate::metrics;
use slipring_rules::LogEvents;
use slipring_rules::control_plane::ControlPlane;
use slipring_rules::service::RuleService;

/// The value of `program` in the answer to `hello`. Clients recognise a firewall by this value.
pub(crate) const PROGRAM_NAME: &str = "firewall";
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
}

impl ControlService for FirewallService {
    fn answer(&self, request: &ControlRequest) -> Result<ControlReply, ControlRefusal> {
        let rules = RuleService {
            control_plane: &self.control_plane,
            events: &self.events,
            bypass: &bypassed,
        };
        if let Some(answer) = rules.answer(request, now()) {
            return answer.map(ControlReply::Once);
        }
        Ok(ControlReply::Once(match request.what.as_str() {
            "hello" => self.hello(),
            "metrics" => {
                let text = metrics::text(&self.control_plane, &self.figures);
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
