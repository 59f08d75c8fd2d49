//! `slipring daemon`, also called `slipringd`: `/dev/netmap` for programs written for netmap.
//!
//! ```text
//!   flags, config (daemon.toml) -> settings -> run: lock, device, links, control socket, manager
//!                                                |      HUP: config again -> rules, parameters
//!                                                +-> guarded_nics: checks each bind
//! ```
//!
//! The device is in the fuse crate, and its ports are in the netmap and nic-provider crates. This
//! crate is the process around them.
//!
//! # Invariants
//! 1. A configuration that cannot be applied completely changes nothing.
//! 2. A client gets a port only if the rules that are in force at its bind allow it. If the rules
//!    change later, the client keeps the port.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod accounts;
mod config;
mod confine;
mod ctl;
mod flags;
mod guarded_nics;
mod heartbeat;
mod journal;
mod memory;
mod metrics;
mod persisted_ports;
mod rules;
mod run;
mod scheduling;
mod service;
mod service_manager;
mod settings;
mod supervise;
mod thread_states;

use std::sync::Arc;

use slipring_cli::{ClassicName, Exit, Verb};
use slipring_control::ControlService;
use slipring_netmap::{Domain, Parameters};

/// The command `slipring daemon`.
pub const VERB: Verb = Verb {
    name: "daemon",
    classic: &[CLASSIC],
    command: flags::command,
    plan: flags::plan,
    no_metrics: None,
};

/// Returns the control service of a daemon with these parameters and users, which was started
/// without flags and without a configuration file.
pub fn answers(
    parameters: &Arc<Parameters>,
    domains: impl Fn() -> Vec<Arc<Domain>> + Send + Sync + 'static,
) -> Box<dyn ControlService> {
    let reload = service::Reload {
        sources: settings::SettingsSources {
            flags: Default::default(),
            file: None,
            run_dir_typed: false,
        },
        rules: Arc::default(),
        parameters: parameters.clone(),
        permissions: Arc::default(),
    };
    let domains = Arc::new(domains);
    let same = domains.clone();
    let switches = Box::new(slipring_vale::SwitchService::new(move || same()));
    // No file is open through a device, so no memory has to be freed.
    let tidy = Box::new(|| ());
    Box::new(service::DaemonService::new(
        Arc::new(reload),
        switches,
        Box::new(move || domains()),
        tidy,
    ))
}

const CLASSIC: ClassicName = ClassicName { name: "slipringd", status: Exit::status };
