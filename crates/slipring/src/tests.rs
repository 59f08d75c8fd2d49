//! What holds for every command.

mod examples;
mod instead;
mod metrics;
mod stats;
