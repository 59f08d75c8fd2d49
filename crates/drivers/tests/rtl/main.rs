//! The driver of RTL8168g/h and RTL8125A/B against the model of these chips, in one process. Each
//! test finally checks the model's list of violations.
#![allow(clippy::unwrap_used)]

mod faults;
mod frames;
mod rates;
mod restart;
mod rig;
mod settings;
mod sleep;
