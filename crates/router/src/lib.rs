//! `slipring route`: the router program.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod checks;
mod dump;
mod feed;
