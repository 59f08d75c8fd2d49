//! Tests of the process around the device: settings, service manager, shutdown. How programs see
//! the device is tested with the whole binary.
#![allow(clippy::unwrap_used)]

mod crowds;
mod down;
#[path = "../../../slipring/tests/daemon/ends.rs"]
mod ends;
mod guests;
mod kernel;
#[path = "../../../slipring/tests/daemon/links.rs"]
mod links;
mod manager;
mod memory;
mod native;
mod numbered;
mod restarts;
mod settings;
mod sleepers;

/// The program under test. It contains only the daemon.
const SLIPRING: &str = env!("CARGO_BIN_EXE_slipring-alone");
