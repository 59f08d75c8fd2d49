//! What holds for every command.

mod examples;
mod instead;
mod kinds;
mod metrics;
mod stats;
