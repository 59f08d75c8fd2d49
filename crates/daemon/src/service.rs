//! Answers requests at the control socket, and reads the configuration again.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use slipring_cli::{Diagnose, Diagnostic};
use slipring_control::{ControlRefusal, ControlReply, ControlRequest, ControlService};
use slipring_fuse::Permissions;
use slipring_netmap::{Domain, PARAMETERS, ParameterEffect, Parameters, SetParameterError};

use crate::memory;
use crate::persisted_ports;
use crate::rules::ActiveAccessRules;
use crate::settings::{DaemonSettings, SettingsSources};

/// The name of the daemon in its run directory.
pub(crate) use slipring_vale::DAEMON_NAME as NAME;

/// The parts of the daemon that can be changed while programs run.
#[derive(Debug)]
pub(crate) struct Reload {
    pub(crate) sources: SettingsSources,
    pub(crate) rules: Arc<ActiveAccessRules>,
    pub(crate) parameters: Arc<Parameters>,
    pub(crate) permissions: Arc<Permissions>,
}

impl Reload {
    /// Reads the configuration again. Applies either all of it or nothing. The number of workers,
    /// the use of io_uring, the scheduling, the link and the run directory cannot be changed in
    /// this way.
    pub(crate) fn reload(&self) -> Result<(), Diagnostic> {
        self.sources.read().map(|settings| self.apply(&settings))
    }

    /// Applies settings that have already been checked.
    pub(crate) fn apply(&self, settings: &DaemonSettings) {
        let mode = settings.mode.unwrap_or(0o600);
        self.permissions.set(mode, settings.uid.unwrap_or(0), settings.gid.unwrap_or(0));
        for (name, value) in &settings.parameters {
            // This cannot fail, because the values were checked when the file was read.
            let _ = self.parameters.set(name, *value);
        }
        let limit = settings.domain_bytes.unwrap_or_else(memory::default_limit);
        self.parameters.set_domain_bytes(limit);
        memory::fit_buffers(&self.parameters, limit);
        self.rules.replace(settings.access_rules.clone());
    }
}

/// The daemon's control service.
pub(crate) struct DaemonService {
    reload: Arc<Reload>,
    /// Handles the requests that the daemon's own service does not handle, such as those about
    /// switches and bound ports.
    switches: Box<dyn ControlService>,
    /// The function that lists the domains.
    domains: Domains,
    /// The function that frees memory that is no longer used. It is called after each request to
    /// remove or detach a port.
    release_memory: Box<dyn Fn() + Send + Sync>,
}

/// A function that returns the domains of all users who have the device open or own something that
/// exists without open files.
pub(crate) type Domains = Box<dyn Fn() -> Vec<Arc<Domain>> + Send + Sync>;

impl DaemonService {
    pub(crate) fn new(
        reload: Arc<Reload>,
        switches: Box<dyn ControlService>,
        domains: Domains,
        release_memory: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self { reload, switches, domains, release_memory }
    }

    /// Removes a user's persistent port, or detaches a port from a switch.
    fn free(&self, request: &ControlRequest) -> Result<Value, ControlRefusal> {
        let freed = persisted_ports::remove(&(self.domains)(), request);
        (self.release_memory)();
        freed
    }

    fn params(&self, args: &Map<String, Value>) -> Result<Value, ControlRefusal> {
        let parameters = &self.reload.parameters;
        let of = |name: &str| parameters.get(name).ok_or_else(|| unknown(name));
        match args.get("name") {
            None => {
                let all = PARAMETERS.iter().map(|one| {
                    Ok((one.name.to_owned(), json!({
                        "value": of(one.name)?, "effect": effect_name(one.effect), "allowed": one.allowed(),
                    })))
                });
                all.collect::<Result<Map<_, _>, ControlRefusal>>().map(Value::Object)
            }
            Some(Value::String(name)) => Ok(json!({ name: { "value": of(name)? } })),
            Some(_) => Err(ControlRefusal::malformed("`name` is no text")),
        }
    }

    fn set(&self, args: &Map<String, Value>) -> Result<Value, ControlRefusal> {
        let (Some(Value::String(name)), Some(value)) = (args.get("name"), args.get("value")) else {
            return Err(ControlRefusal::malformed("`name` and `value` are needed"));
        };
        let value = value.as_i64().or_else(|| value.as_str()?.trim().parse().ok());
        let value = value.ok_or_else(|| ControlRefusal {
            help: Some("see what it takes: slipring daemon ctl params".to_owned()),
            ..ControlRefusal::malformed(format!("{name} takes a whole number"))
        })?;
        self.reload.parameters.set(name, value).map_err(|error| match error {
            SetParameterError::Unknown => unknown(name),
            SetParameterError::Invalid(one) => ControlRefusal {
                code: ControlRefusal::MALFORMED.to_owned(),
                summary: format!("{name} cannot be {value}"),
                cause: Some("it is beyond its limits".to_owned()),
                help: Some(format!("allowed: {}", one.allowed())),
            },
        })?;
        Ok(json!({ name: { "value": value } }))
    }
}

impl ControlService for DaemonService {
    fn answer(&self, request: &ControlRequest) -> Result<ControlReply, ControlRefusal> {
        let answer = match request.what.as_str() {
            "hello" => Ok(json!({
                "name": NAME, "pid": std::process::id(), "version": env!("CARGO_PKG_VERSION"),
            })),
            "params" => self.params(&request.args),
            "memory" => Ok(memory::usage_json(&(self.domains)())),
            "remove-port" | "detach-port" => self.free(request),
            "set-param" => self.set(&request.args),
            "reload" => self.reload.reload().map(|()| json!({})).map_err(|error| refusal(&error)),
            _ => return self.switches.answer(request),
        };
        answer.map(ControlReply::Once)
    }
}

fn effect_name(effect: ParameterEffect) -> &'static str {
    match effect {
        ParameterEffect::Works => "works",
        ParameterEffect::Kept => "kept",
        ParameterEffect::ReadOnly => "read-only",
    }
}

fn unknown(name: &str) -> ControlRefusal {
    ControlRefusal {
        code: ControlRefusal::MALFORMED.to_owned(),
        summary: format!("there is no parameter `{name}`"),
        cause: None,
        help: Some("list them: slipring daemon ctl params".to_owned()),
    }
}

/// Converts an error to the refusal of a client's request.
fn refusal(error: &Diagnostic) -> ControlRefusal {
    ControlRefusal {
        code: error.code().to_string(),
        summary: error.summary(),
        cause: error.cause(),
        help: error.help(),
    }
}
