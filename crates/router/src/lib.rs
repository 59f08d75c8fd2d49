//! `slipring route`: the router program.
#![forbid(unsafe_code)]
