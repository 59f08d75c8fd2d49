//! Tests of the engine as a whole. Oracles are written from the RFCs, with arithmetic of their own.

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
