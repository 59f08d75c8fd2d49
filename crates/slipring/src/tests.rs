//! Tests of rules that hold for every command.

mod examples;
mod flags;
mod instead;
mod kinds;
mod metrics;
mod stats;
