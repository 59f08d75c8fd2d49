//! `slipring daemon`, also called `slipringd`: `/dev/netmap` for programs written for netmap.
//!
//! ```text
//!   flags, config (daemon.toml) -> Settings -> run: lock, door, links, control socket, manager
//!                                     |               HUP: config once more -> Rules, Parameters
//!                                     +-> guard: asked at each bind
//! ```
//!
//! The device is the door crate's, its ports are the netmap and nics crates'. Here is what runs
//! around it.
//!
//! # Invariants
//! 1. A configuration that cannot be obeyed as a whole changes nothing.
//! 2. A client gets a port only if the rules that hold at its bind say so; what it has it keeps.
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

use std::sync::Arc;

use slipring_cli::{ClassicName, Exit, Verb};
use slipring_control::ControlService;
use slipring_netmap::{Domain, Parameters};

/// The command.
pub const VERB: Verb = Verb {
    name: "daemon",
    classic: &[CLASSIC],
    command: flags::command,
    plan: flags::plan,
    no_metrics: None,
};

/// What a daemon with these parameters, and these users who have the device open, answers on its
/// control socket; it has no configuration to read anew.
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
    // Nobody has opened anything by a device here.
    let tidy = Box::new(|| ());
    Box::new(service::DaemonService::new(
        Arc::new(reload),
        switches,
        Box::new(move || domains()),
        tidy,
    ))
}

const CLASSIC: ClassicName = ClassicName { name: "slipringd", status: Exit::status };
