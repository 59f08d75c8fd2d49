//! Answers the requests that clients send to the control socket of an emulation.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};
use slipring_cli::codes::SR0007;
use slipring_cli::units::human;
use slipring_cli::{Diagnostic, SCHEMA_VERSION};
use slipring_control::{ControlRefusal, ControlReply, ControlRequest, ControlService};
use slipring_port::{Nanos, now};

use super::change_time::ChangeTime;
use super::diagnose::refusal;
use super::settings_history::{AcceptedChange, SettingsHistory};
use crate::config;
use crate::config::quantity::time_ns;
use crate::config::tree::{ConfigLocation, ConfigNode, ConfigOrigin};
use crate::realtime::figures;
use slipring_datapath::meter::PortMeter;

/// The program name in the answers of a run. `ctl` recognises emulators by it.
pub(super) const PROGRAM_NAME: &str = "emulator";
/// The name of every request, and the keys that it may have in addition to `id` and `do`.
const REQUEST_KEYS: [(&str, &[&str]); 11] = [
    ("hello", &[]),
    ("config", &[]),
    ("set", &["changes", "at"]),
    ("undo", &[]),
    ("history", &[]),
    ("script", &["name", "text"]),
    ("stop-script", &[]),
    ("stats", &["text"]),
    ("explain", &[]),
    ("watch", &["period"]),
    ("quit", &[]),
];
/// Minimum period of a watch, in ns.
const MIN_PERIOD_NS: Nanos = 1_000_000;

/// The control service of a run.
pub(super) struct EmulationService {
    name: Option<String>,
    seed: u64,
    history: Arc<SettingsHistory>,
    meter: PortMeter,
}

impl EmulationService {
    pub(super) fn new(
        name: Option<String>,
        seed: u64,
        history: Arc<SettingsHistory>,
        meter: PortMeter,
    ) -> Self {
        Self { name, seed, history, meter }
    }

    fn hello(&self) -> Value {
        json!({
            "schema": SCHEMA_VERSION,
            "program": PROGRAM_NAME,
            "name": self.name,
            "pid": std::process::id(),
            "command": command_line(),
            "version": env!("CARGO_PKG_VERSION"),
            "seed": self.seed,
            "started_ns": self.history.start_ns(),
            "ports": self.meter.reports(),
        })
    }

    fn set(&self, request: &ControlRequest) -> Result<Value, ControlRefusal> {
        let Some(Value::Object(changes)) = request.args.get("changes") else {
            return Err(ControlRefusal::malformed("`changes` is no object of paths and values"));
        };
        let at_ns = self.time(request.args.get("at"))?;
        let changes = changes.iter().map(|(path, value)| (path.as_str(), value));
        let entries = config::entries(changes).map_err(|error| refusal(&error))?;
        let accepted = self.history.set(at_ns, entries);
        accepted.map(|accepted| accepted_json(&accepted)).map_err(|error| refusal(&*error))
    }

    /// Parses the time of a change: `+2s` from now, or `10s` or a number of ns from the start of
    /// the run. Without a value, returns the current time.
    fn time(&self, at: Option<&Value>) -> Result<Nanos, ControlRefusal> {
        let (time, start_ns) = (now(), self.history.start_ns());
        let moment = match at {
            None | Some(Value::Null) => return Ok(time),
            Some(Value::String(text)) => ChangeTime::read("at", &message(text)),
            Some(value) => match value.as_u64() {
                Some(ns) => Ok(ChangeTime::FromStart(ns)),
                None => return Err(ControlRefusal::malformed("`at` is no time")),
            },
        };
        let from_start_ns = match moment.map_err(|error| refusal(&error))? {
            ChangeTime::FromNow(ns) => return Ok(time.saturating_add(ns)),
            ChangeTime::FromStart(ns) => ns,
        };
        let at_ns = start_ns.saturating_add(from_start_ns);
        if at_ns >= time {
            return Ok(at_ns);
        }
        let span = |ns| human::span(Duration::from_nanos(ns));
        let summary = format!("{} from the start has passed", span(from_start_ns));
        let cause = format!("the run is {} old", span(time.saturating_sub(start_ns)));
        let help = "times count from the start of the run; +2s counts from now";
        Err(refusal(&Diagnostic::new(SR0007, summary).with_cause(cause).with_help(help)))
    }

    fn script(&self, request: &ControlRequest) -> Result<Value, ControlRefusal> {
        let Some(text) = request.args.get("text").and_then(Value::as_str) else {
            return Err(ControlRefusal::malformed("`text` is no text of a script"));
        };
        let name = request.args.get("name").and_then(Value::as_str).unwrap_or("script");
        let accepted = self.history.script(name, text).map_err(|error| refusal(&*error))?;
        Ok(Value::Array(accepted.iter().map(accepted_json).collect()))
    }

    fn stats(&self, request: &ControlRequest) -> Value {
        let (network, state) = (self.history.network(), self.history.channel().request_state());
        let (mut sample, changes) =
            (figures::sample(&network, &self.meter, &state), self.history.changes());
        sample.extra = sample.extra.changed(changes);
        let mut stats = json!({
            "schema": SCHEMA_VERSION,
            "event": "interval",
            "time_ns": unix_ns(),
            "command": command_line(),
            "version": env!("CARGO_PKG_VERSION"),
            "seed": self.seed,
            "elapsed_ns": sample.elapsed.as_nanos() as Nanos,
            "ports": sample.ports,
            "in_flight": sample.in_flight,
            "copies": sample.copies,
        });
        if let (Value::Object(stats), Ok(Value::Object(extra))) =
            (&mut stats, serde_json::to_value(&sample.extra))
        {
            stats.extend(extra);
        }
        if request.args.get("text") == Some(&Value::Bool(true)) {
            stats["text"] =
                json!(figures::summary(&network, &self.meter, &state) + &changes.line());
        }
        stats
    }

    fn explain(&self) -> Value {
        let explained = config::explain(&self.history.network(), self.seed);
        let mut value = explained.json();
        value["text"] = json!(explained.text());
        value
    }

    fn undo(&self) -> Result<Value, ControlRefusal> {
        let (back, gone) = self.history.undo().map_err(|error| refusal(&*error))?;
        let mut answer = accepted_json(&back);
        answer["taken_back"] = json!(gone);
        Ok(answer)
    }

    fn stop_script(&self) -> Result<Value, ControlRefusal> {
        let stopped = self.history.stop_script();
        stopped.map(|count| json!({ "taken_back": count })).map_err(|error| refusal(&*error))
    }
}

impl ControlService for EmulationService {
    fn answer(&self, request: &ControlRequest) -> Result<ControlReply, ControlRefusal> {
        check(request)?;
        let value = match request.what.as_str() {
            "hello" => self.hello(),
            "config" => self.history.settings(),
            "set" => self.set(request)?,
            "undo" => self.undo()?,
            "history" => self.history.history(),
            "script" => self.script(request)?,
            "stop-script" => self.stop_script()?,
            "explain" => self.explain(),
            "quit" => return Ok(ControlReply::Then(json!({}), terminate)),
            "watch" => return Ok(ControlReply::Every("stats", period(request)?)),
            _ => self.stats(request),
        };
        Ok(ControlReply::Once(value))
    }
}

fn command_line() -> String {
    let words: Vec<_> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// Returns the wall-clock time in ns since 1970.
fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_nanos() as u64)
}

/// Refuses a request that has an unknown name or an unknown argument.
fn check(request: &ControlRequest) -> Result<(), ControlRefusal> {
    let Some((_, known)) = REQUEST_KEYS.iter().find(|(what, _)| *what == request.what) else {
        let all: Vec<_> = REQUEST_KEYS.iter().map(|(what, _)| *what).collect();
        let mut refusal = ControlRefusal::malformed(format!("there is no `{}`", request.what));
        refusal.help = Some(format!("known are {}", all.join(", ")));
        return Err(refusal);
    };
    match request.args.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(ControlRefusal::malformed(format!("{} has no `{key}`", request.what))),
        None => Ok(()),
    }
}

fn accepted_json(accepted: &AcceptedChange) -> Value {
    let AcceptedChange { applies_at_ns, version, changed, links } = accepted;
    json!({
        "applies_at_ns": applies_at_ns, "version": version, "changed": changed, "links": links,
    })
}

fn period(request: &ControlRequest) -> Result<Duration, ControlRefusal> {
    let text = match request.args.get("period") {
        None => return Ok(Duration::from_secs(1)),
        Some(Value::String(text)) => text,
        Some(_) => return Err(ControlRefusal::malformed("`period` is no text such as 100ms")),
    };
    match span_ns("period", text)? {
        ns @ MIN_PERIOD_NS.. => Ok(Duration::from_nanos(ns)),
        _ => Err(ControlRefusal::malformed("looks come once a millisecond at most")),
    }
}

fn span_ns(setting: &str, text: &str) -> Result<Nanos, ControlRefusal> {
    time_ns(setting, &message(text)).map_err(|error| refusal(&error))
}

fn message(text: &str) -> ConfigNode {
    ConfigNode::text(text, ConfigLocation { origin: ConfigOrigin::Message, column: 1 })
}

/// Ends the run with its summary, by sending SIGTERM to this process.
fn terminate() {
    // This cannot fail, because a process may always signal itself.
    let _ = kill_process(getpid(), Signal::TERM);
}
