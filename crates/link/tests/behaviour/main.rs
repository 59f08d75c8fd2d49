//! The behaviour of links, in virtual time, through the public API of the crate.
//!
//! Most files are about one part of a link; `defects` covers the defects of earlier emulators.
#![allow(clippy::unwrap_used)]

mod aqm;
mod batch;
mod change;
mod defects;
mod delay;
mod golden;
mod limits;
mod loss;
mod mangle;
mod network;
mod numbers;
mod police;
mod queue;
mod random;
mod rate;
mod spec;
mod support;
mod trace;
mod train;
mod user;
