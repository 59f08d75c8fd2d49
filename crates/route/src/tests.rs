//! Tests of the engine as a whole. Expected values are computed from the RFCs, with separate
//! arithmetic.

mod behaviour;
mod counters;
mod errors;
mod fragments;
mod held;
mod kernel;
mod kit;
mod martians;
mod multipath;
mod policy;
mod properties;
mod vlan;
