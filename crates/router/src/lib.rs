//! `slipring route`: the router program.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod checks;
mod ctl;
mod dump;
mod feed;
mod flags;
mod service;
mod show;
mod start;
mod watch;
