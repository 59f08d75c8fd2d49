//! What links do, in virtual time, through the public face of the crate.
//!
//! One file per part of a link; `defects` holds what earlier emulators got wrong.
#![allow(clippy::unwrap_used)]

mod delay;
mod queue;
mod rate;
mod support;
