//! Live control of a run in real time: over its socket, from `slipring emulate ctl` and others.
//!
//! ```text
//!   ctl.rs ──lines──> slipring-control ──> service.rs ──> versions.rs ──> realtime::Board
//!   flags, words        socket, names       requests       all or nothing    the engine
//!                                                           timeline.rs, handing.rs
//! ```
//!
//! # Invariants
//! 1. A change is a whole new set of settings: it holds on all links from one moment on, or it
//!    is refused and nothing has changed. What a request does not name stays as it was.
//! 2. Clients wait for each other, and the thread that moves frames for none of them.
//!
//! Not for: virtual time, where changes stand in the file.

mod change_time;
pub(super) mod command;
pub(super) mod ctl;
mod diagnose;
mod handover;
mod service;
mod settings_history;
mod timeline;

use std::path::Path;
use std::sync::Arc;

use slipring_cli::Failure;
use slipring_control::{ControlServer, Reservation};

/// What a run says of itself, so that `ctl` finds it among other programs.
const PROGRAM_NAME: &str = "emulator";

use super::plan::EmulationPlan;
use service::EmulationService;
pub(super) use settings_history::SettingsHistory;
use slipring_datapath::meter::PortMeter;

/// Makes the control socket of a run in `run_dir`, where nobody answers yet.
///
/// # Errors
/// If there can be none.
pub(super) fn reserve(run_dir: &Path, plan: &EmulationPlan) -> Result<Reservation, Failure> {
    let place = Reservation::new(run_dir, plan.name.as_deref());
    place.map_err(|error| diagnose::diagnostic(&error).into())
}

/// Answers at the control socket of a run.
///
/// # Errors
/// If the system refuses.
pub(super) fn serve(
    place: Reservation,
    plan: &EmulationPlan,
    versions: &Arc<SettingsHistory>,
    meter: PortMeter,
) -> Result<ControlServer, Failure> {
    let service = EmulationService::new(plan.name.clone(), plan.seed, versions.clone(), meter);
    place.serve(Box::new(service)).map_err(|error| diagnose::diagnostic(&error).into())
}
