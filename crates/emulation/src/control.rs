//! Control of a run in real time: a client such as `slipring emulate ctl` sends requests to the
//! run's socket.
//!
//! ```text
//!   ctl.rs             client: turns flags into a request
//!     │  JSON lines over the control socket (crate slipring-control)
//!     v
//!   service.rs         checks the request, and answers it
//!     v
//!   settings_history.rs   the settings at each time (timeline.rs): applies a change or refuses it
//!     v
//!   handover.rs        submits the new settings through realtime::EmulatorChannel
//!     v
//!   the thread that moves frames
//! ```
//!
//! # Invariants
//! 1. A change is a complete new set of settings. Either it applies to all links from one moment
//!    on, or it is refused and has no effect. Settings that a request does not name stay as they
//!    were.
//! 2. Changes by different clients are made one after the other. The thread that moves frames never
//!    waits for a client.
//!
//! Not for virtual time. A virtual run has no socket; its settings change only as its file says.

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

use super::plan::EmulationPlan;
use service::EmulationService;
pub use settings_history::RunStart;
pub(super) use settings_history::SettingsHistory;
use slipring_datapath::meter::PortMeter;

/// Creates the control socket of a run in `run_dir`. It answers no requests before [`serve`].
///
/// # Errors
/// [`Failure`] if the socket cannot be created.
pub(super) fn reserve(run_dir: &Path, plan: &EmulationPlan) -> Result<Reservation, Failure> {
    let reservation = Reservation::new(run_dir, plan.name.as_deref());
    reservation.map_err(|error| diagnose::diagnostic(&error).into())
}

/// Starts a thread that answers the requests at the control socket of a run. Returns the handle of
/// the server.
///
/// # Errors
/// [`Failure`] if the thread that answers cannot be started.
pub(super) fn serve(
    reservation: Reservation,
    plan: &EmulationPlan,
    versions: &Arc<SettingsHistory>,
    meter: PortMeter,
) -> Result<ControlServer, Failure> {
    let service = EmulationService::new(plan.name.clone(), plan.seed, versions.clone(), meter);
    reservation.serve(Box::new(service)).map_err(|error| diagnose::diagnostic(&error).into())
}
